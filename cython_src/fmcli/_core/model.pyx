"""What every model is made of: blocks of parameter rows, and one sample's score and gradient."""

import mmap

import numpy as np

from fmcli._core.simd import REAL

from fmcli._core.simd cimport kernels
from fmcli._core.types cimport LANES, Slab, real
from libc.stdint cimport int32_t

REAL_TYPE = np.dtype(np.float32 if REAL == "float" else np.float64)
CACHE_LINE = 64
# Rows of normal numbers drawn at a time, so that starting a large model needs no second copy of it.
START_ROWS = 1 << 16

cdef int32_t FIRST_ROW = 0


class BlockLayout:
    """One parameter array of a model, as the model declares it.

    Parameters
    ----------
    body : ((name, columns), ...), the factors that lie side by side in a row; may be empty.
    weight : name of the one weight behind them, or None.
    by_feature : one row a feature; otherwise one row in all, touched by every sample.
    part : "w" where the weight is penalised as a linear weight, "v" as a factor; bodies are always "v".
    penalty : "full"; "l2" for fitted kernel weights, which feel only the factors' l2; "none" for structural parameters.
    random : bodies start from N(0, init_std^2) instead of 0.
    """

    def __init__(self, *, body=(), weight=None, by_feature=True, part="w", penalty="full", random=True):
        self.body, self.weight, self.by_feature = tuple(body), weight, by_feature
        self.part, self.penalty, self.random = part, penalty, random

    @property
    def names(self):
        """Names of its arrays."""
        return [name for name, _ in self.body] + ([self.weight] if self.weight else [])


def allocate(Py_ssize_t size):
    """Zeros of the build's real type: page-aligned, in huge pages where there are any, and only as they are touched."""
    memory = mmap.mmap(-1, max(size, 1) * REAL_TYPE.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # a kernel built without huge pages
    return np.frombuffer(memory, dtype=REAL_TYPE)


def padded(Py_ssize_t columns):
    return (columns + LANES - 1) // LANES * LANES


def row_stride(Py_ssize_t reals):
    """Reals from one row to the next: a small row never straddles two cache lines, a large one begins with one."""
    cdef Py_ssize_t size = reals * REAL_TYPE.itemsize, stride = REAL_TYPE.itemsize
    while stride < size and stride < CACHE_LINE:
        stride *= 2
    return (size + stride - 1) // stride * stride // REAL_TYPE.itemsize


def row_strides(layout, int slots):
    """Strides of bodies and of weights: one, weights standing behind bodies, unless that costs a cache line."""
    cdef Py_ssize_t body = (1 + slots) * sum(padded(columns) for _, columns in layout.body)
    cdef Py_ssize_t weight = 1 + slots if layout.weight else 0
    cdef Py_ssize_t joined = row_stride(body + weight)
    if body and weight and joined > row_stride(body) and joined * REAL_TYPE.itemsize > CACHE_LINE:
        return row_stride(body), row_stride(weight)
    return joined, joined


cdef class Model:
    """Base of all models. A subclass declares its blocks and writes `score` and `gradient`.

    Parameters
    ----------
    features : number of columns d.
    outputs : number of scores a sample has, C.
    layout : the model's blocks; the bias, where there is one, is the first.

    Attributes
    ----------
    parameters : name -> array view of the build's real type, with the names and shapes under which models are
        exported, leading axis C. Writing to a view changes the model. Empty before `allocate` or `attach`.
    states : name -> views of the solver's state, slot by slot, of the shapes of the parameters.
    slots : solver state beside each parameter, in reals.
    """

    def __init__(self, Py_ssize_t features, int outputs, layout):
        if len(layout) > MAX_BLOCKS:
            raise ValueError(f"a model has at most {MAX_BLOCKS} blocks")
        self.features, self.outputs, self.layout = features, outputs, tuple(layout)
        self.n_blocks = len(self.layout)
        self.has_bias = self.n_blocks > 0 and self.layout[0].weight == "bias"
        self.parameters, self.states, self.memory = {}, {}, []
        for i, block in enumerate(self.layout):
            self.by_feature[i] = block.by_feature
            self.width[i] = sum(columns for _, columns in block.body)
            self.block[i].columns = self.width[i] + (block.weight is not None)
            self.block[i].rows = features if block.by_feature else 1

    def bytes_needed(self, int slots):
        """Bytes that `allocate(slots)` takes."""
        return REAL_TYPE.itemsize * sum(
            self.outputs * self.block[i].rows * sum(set(row_strides(layout, slots)))
            for i, layout in enumerate(self.layout)
        )

    @property
    def parameter_count(self):
        """Number of parameters, without state and padding."""
        cdef int i
        return sum([self.outputs * self.block[i].rows * self.block[i].columns for i in range(self.n_blocks)])

    def allocate(self, int slots):
        """Make rows for training, all zero, with `slots` reals of solver state beside each parameter."""
        cdef Py_ssize_t at, body_stride, weight_stride, rows
        cdef real[::1] bodies, weights
        cdef Block* block
        self.slots = slots
        self.memory, self.parameters, self.states = [], {}, {}
        for i, layout in enumerate(self.layout):
            block = &self.block[i]
            rows = self.outputs * block.rows
            body_stride, weight_stride = row_strides(layout, slots)
            block.lanes = sum(padded(columns) for _, columns in layout.body)
            base = allocate(rows * body_stride)
            at = (1 + slots) * block.lanes
            weight_base = base
            if weight_stride != body_stride:
                weight_base, at = allocate(rows * weight_stride), 0
            bodies, weights = base, weight_base
            self.memory += [base] if weight_base is base else [base, weight_base]
            block.body_stride, block.weight_stride = body_stride, weight_stride
            block.body = &bodies[0] if block.lanes else NULL
            block.weight = &weights[at] if layout.weight else NULL
            if layout.weight:
                self.parameters[layout.weight], *self.states[layout.weight] = [
                    self.view(weight_base, i, at + slot, weight_stride, None) for slot in range(1 + slots)
                ]
            at = 0
            for name, columns in layout.body:
                self.parameters[name], *self.states[name] = [
                    self.view(base, i, at + slot * block.lanes, body_stride, columns) for slot in range(1 + slots)
                ]
                at += padded(columns)

    def view(self, base, Py_ssize_t block, Py_ssize_t at, Py_ssize_t stride, columns):
        shape, steps = [self.outputs], [self.block[block].rows * stride]
        if self.by_feature[block]:
            shape.append(self.features)
            steps.append(stride)
        if columns is not None:
            shape.append(columns)
            steps.append(1)
        size = REAL_TYPE.itemsize
        return np.ndarray(tuple(shape), REAL_TYPE, base, at * size, tuple(step * size for step in steps))

    def shapes(self):
        """Name -> shape of every array in `parameters`, known before there are any."""
        shapes = {}
        for layout in self.layout:
            leading = [self.outputs, self.features] if layout.by_feature else [self.outputs]
            for name, columns in layout.body:
                shapes[name] = (*leading, columns)
            if layout.weight:
                shapes[layout.weight] = tuple(leading)
        return shapes

    def snapshot(self):
        """A copy of all parameters and state, for `restore`."""
        return [array.copy() for array in self.memory]

    def restore(self, snapshot):
        """Go back to what a snapshot of this model has kept."""
        for array, kept in zip(self.memory, snapshot, strict=True):
            array[...] = kept

    def attach(self, arrays):
        """Score from arrays as they are (mapped from a file, say), without copying; such a model cannot be trained.

        Raises ValueError where a name, shape or type is not the model's, KeyError where an array is missing.
        """
        cdef const real[::1] flat
        self.parameters = {}
        for name, shape in self.shapes().items():
            array = arrays[name]
            if array.shape != shape or array.dtype != REAL_TYPE or not array.flags.c_contiguous:
                raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {REAL_TYPE}{list(shape)}")
            self.parameters[name] = array
        for i, layout in enumerate(self.layout):
            if len(layout.body) > 1:
                raise ValueError("a body of several arrays cannot be scored from separate arrays")
            self.block[i].body = self.block[i].weight = NULL
            for name, columns in layout.body:
                flat = self.parameters[name].reshape(-1)
                self.block[i].lanes = self.block[i].body_stride = columns
                self.block[i].body = <real*>&flat[0] if flat.shape[0] else NULL
            if layout.weight:
                flat = self.parameters[layout.weight].reshape(-1)
                self.block[i].weight_stride = 1
                self.block[i].weight = <real*>&flat[0] if flat.shape[0] else NULL

    def start(self, seen, double init_std, generator):
        """Draw start values: random bodies from N(0, init_std^2), and 0 for features that never occur.

        Parameters
        ----------
        seen : bool array (features), whether the feature occurs in the training data.
        generator : numpy.random.Generator, whose numbers are used up in the order of blocks, classes, rows and columns.
        """
        for layout in self.layout:
            if not layout.random:
                continue
            for name, _ in layout.body:
                for rows in self.parameters[name]:
                    if layout.by_feature:
                        for at in range(0, self.features, START_ROWS):
                            part = rows[at:at + START_ROWS]
                            values = generator.standard_normal(part.shape, dtype=REAL_TYPE)
                            values *= (init_std * seen[at:at + START_ROWS, None]).astype(REAL_TYPE)
                            part[...] = values
                    else:
                        rows[...] = init_std * generator.standard_normal(rows.shape, dtype=REAL_TYPE)

    # Reals of Scratch.work that `score` uses.
    cdef Py_ssize_t work_size(self):
        return 0

    # Ask the caches for the rows of a sample that comes soon.
    cdef void prefetch(self, const Sample* x) noexcept nogil:
        cdef int b, c
        for b in range(self.n_blocks):
            if self.by_feature[b]:
                for c in range(self.outputs):
                    kernels.prefetch(&self.block[b], x.index, x.nnz, c * self.block[b].rows)

    # Which rows does the sample touch? Here: its features' in blocks by feature, the one row of the others. Slab
    # c * n_blocks + b is block b of class c, and the gradient buffer is cut in that order.
    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int b, c
        cdef real* free = s.gradient
        cdef Slab* slab = s.slab
        for c in range(self.outputs):
            for b in range(self.n_blocks):
                slab.block = b
                slab.row = x.index if self.by_feature[b] else &FIRST_ROW
                slab.n = x.nnz if self.by_feature[b] else 1
                slab.first = c * self.block[b].rows
                slab.body = free
                free += slab.n * self.block[b].lanes
                slab.weight = free
                free += slab.n
                slab += 1
        s.n_slabs = self.outputs * self.n_blocks

    # s.score <- the C scores of x.
    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        pass

    # The slabs' buffers <- the derivative by each touched parameter, times s.slope, after `rows` and `score` of x.
    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        pass

    # What remains to be done after a solver's step, such as a projection.
    cdef void settle(self, Scratch* s) noexcept nogil:
        pass


cdef class Workspace:
    """Room for one thread to score samples of up to `longest` entries and to take their gradients."""

    def __init__(self, Model model, Py_ssize_t longest):
        cdef real[::1] work, gradient
        cdef double[::1] outputs
        cdef char[::1] slabs
        cdef Py_ssize_t b, size = 0
        for b in range(model.n_blocks):
            size += (longest if model.by_feature[b] else 1) * (model.block[b].lanes + 1)
        self.memory = [
            allocate(model.work_size()),
            allocate(model.outputs * size),
            np.zeros(2 * model.outputs),
            np.zeros(model.outputs * model.n_blocks * sizeof(Slab) + 1, dtype=np.int8),
        ]
        work, gradient, outputs, slabs = self.memory
        self.scratch.work = &work[0]
        self.scratch.gradient = &gradient[0]
        self.scratch.score = &outputs[0]
        self.scratch.slope = &outputs[model.outputs]
        self.scratch.slab = <Slab*>&slabs[0]
