"""What every model is made of: blocks of parameter rows, and one sample's score and gradient."""

import itertools

import numpy as np

from fmcli.models.layout import FEATURES, REAL_TYPE, allocate, padded, row_strides

from fmcli.base.simplex cimport project_to_simplex
from fmcli.base.types cimport LANES, Block, ColumnView, Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.kernels.simd cimport kernels
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport calloc, free

# Rows of normal numbers drawn at a time, so that starting a large model needs no second copy of it.
START_ROWS = 1 << 16
MOST_BYTES = 1 << 60  # beyond which no address goes


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
    constants : name -> array that the model has from its data and that nothing trains; saved and exported with it.
    slots : solver state beside each parameter, in reals.
    has_bias : whether a score has one bias of its own.
    steps_apart : whether there is something that only `step_apart` moves while gradients are `frozen`.
    """

    def __cinit__(self, *args, **keywords):
        for b in range(MAX_BLOCKS):
            self.parts[b] = NULL
        self.every_row = NULL

    def __init__(self, Py_ssize_t features, int outputs, layout):
        cdef int b, p
        self.placed = -abs(self.placed)
        if len(layout) > MAX_BLOCKS:
            raise ValueError(f"a model has at most {MAX_BLOCKS} blocks")
        if not 0 <= features <= INT32_MAX or outputs < 1:
            raise ValueError(f"a model cannot have {features} features and {outputs} outputs")
        self.features, self.outputs, self.layout = features, outputs, tuple(layout)
        self.n_blocks = len(self.layout)
        self.has_bias = self.n_blocks > 0 and self.layout[0].weight == "bias" and self.layout[0].axes == ()
        self.parameters, self.states, self.constants, self.memory = {}, {}, {}, []
        self.constrained = any([block.constraint == "simplex" for block in self.layout])
        for b, block in enumerate(self.layout):
            self.by_feature[b], self.simplex[b] = block.touched == "features", block.constraint == "simplex"
            self.n_parts[b] = len(block.parts)
            free(self.parts[b])
            self.parts[b] = <Part*>calloc(self.n_parts[b] + 1, sizeof(Part))
            if self.parts[b] == NULL:
                raise MemoryError
            self.block[b].columns, self.block[b].lanes = block.columns, block.lanes
            self.block[b].rows = block.rows(features)
            self.block[b].body = self.block[b].weight = self.weight_part[b].base = NULL
            for p, columns in enumerate(block.parts):
                self.parts[b][p].lanes = padded(columns)  # as training has them
        self.count_rows()

    cdef count_rows(self):
        cdef Py_ssize_t i, most = max([1] + [
            self.block[b].rows for b, block in enumerate(self.layout) if block.touched == "all"])
        free(self.every_row)
        self.every_row = <int32_t*>calloc(most, sizeof(int32_t))
        if self.every_row == NULL:
            raise MemoryError
        for i in range(most):
            self.every_row[i] = <int32_t>i

    def __dealloc__(self):
        cdef int b
        for b in range(MAX_BLOCKS):
            free(self.parts[b])
        free(self.every_row)

    # From now on there are rows, for training or attached.
    cdef lay_out(self, bint attached):
        self.attached = attached
        self.placed = abs(self.placed) + 1  # negative while there are none, so that each time has its number

    # ValueError unless there are rows, for training where that is what they are for.
    cdef require(self, bint training=False):
        if self.placed <= 0:
            raise ValueError("the model has no rows yet: allocate it, or attach arrays")
        if training and self.attached:
            raise ValueError("the model was attached to arrays: it cannot be trained")

    def bytes_needed(self, int slots):
        """Bytes that `allocate(slots)` takes."""
        return REAL_TYPE.itemsize * sum(
            self.outputs * layout.rows(self.features) * sum(set(row_strides(layout, slots))) for layout in self.layout
        )

    def update_needed(self, Py_ssize_t batch):
        """Bytes that are kept of so many samples until their update is made, beside the gradients."""
        return 0

    @property
    def parameter_count(self):
        """Number of parameters, without state and padding."""
        return sum(self.outputs * layout.rows(self.features) * layout.columns for layout in self.layout)

    def prepare(self, data, rows, generator):
        """Take what the model needs to know of its training data; comes before `allocate`.

        Parameters
        ----------
        data : Dataset.
        rows : int32, numbers of the rows to train on.
        generator : numpy.random.Generator.
        """

    def inherit(self, earlier, seen):
        """Take what an earlier model of this kind had from its own data; comes between `prepare` and `allocate`.

        Parameters
        ----------
        earlier : Model, attached.
        seen : bool array (features of the earlier model), which features occurred in its data.

        Raises UsageError or BadInputError where this model cannot go on from it.
        """

    def known(self, name, seen):
        """Which numbers of an array took part in training: bool, of the array's axes behind the classes or the first
        of them, given which features occurred. A later model takes these over."""
        for layout in self.layout:
            if name in layout.names and layout.by_feature:
                return seen.reshape([-1 if axis == FEATURES else 1 for axis in layout.axes])
        return np.ones((), dtype=np.bool_)

    def export_needed(self):
        """Bytes of the arrays that `exported` makes anew."""
        return 0

    def exported(self):
        """The arrays of the model, by the names that other programs know."""
        return {**self.parameters, **self.constants}

    def allocate(self, int slots):
        """Make rows for training, all zero, with `slots` reals of solver state beside each parameter."""
        cdef Py_ssize_t at, p, body_stride, weight_stride, rows
        cdef real[::1] bodies, weights
        cdef double[::1] room
        cdef Block* block
        if slots < 0 or self.bytes_needed(slots) > MOST_BYTES:
            raise MemoryError
        self.slots, self.placed = slots, -abs(self.placed)
        self.room = room = allocate(3 * (max([0] + [layout.lanes for layout in self.layout]) + LANES), np.float64)
        self.memory, self.parameters, self.states = [], {}, {}
        for b, layout in enumerate(self.layout):
            block = &self.block[b]
            rows = self.outputs * block.rows
            body_stride, weight_stride = row_strides(layout, slots)
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
            block.room = &room[0]
            if layout.weight:
                self.place(&self.weight_part[b], layout, block.weight, weight_stride, 1)
                self.parameters[layout.weight], *self.states[layout.weight] = [
                    self.view(weight_base, layout, at + slot, weight_stride, ()) for slot in range(1 + slots)
                ]
            at = p = 0
            for array in layout.body:
                self.parameters[array.name], *self.states[array.name] = [
                    self.view(base, layout, at + slot * block.lanes, body_stride, array.shape)
                    for slot in range(1 + slots)
                ]
                for _ in range(array.parts):
                    self.place(&self.parts[b][p], layout, block.body + at, body_stride, padded(array.columns))
                    self.parts[b][p].offset = at
                    at += padded(array.columns)
                    p += 1
        self.lay_out(False)

    # A part among rows for training, in which a feature's rows lie together.
    cdef place(self, Part* part, layout, real* base, Py_ssize_t stride, Py_ssize_t lanes):
        part.base, part.lanes = base, lanes
        part.output_stride = layout.rows(self.features) * stride
        part.feature_stride = layout.others * stride if layout.by_feature else 0
        part.row_stride = stride

    def view(self, base, layout, Py_ssize_t at, Py_ssize_t stride, in_row):
        """An array as it is exported, which begins at `at` of rows `stride` apart, with its shape `in_row` in a row."""
        steps = [layout.rows(self.features) * stride]
        steps += [(layout.others if axis == FEATURES else 1) * stride for axis in layout.axes]
        steps += [padded(columns) for columns in in_row[1:]] + [1] * bool(in_row)
        shape = (self.outputs, *layout.leading(self.features), *in_row)
        size = REAL_TYPE.itemsize
        if 0 in shape:  # of data without any feature: there is nothing to look at
            return np.zeros(shape, REAL_TYPE)
        return np.ndarray(shape, REAL_TYPE, base, at * size, tuple([step * size for step in steps]))

    def shapes(self):
        """Name -> shape of every array in `parameters`, known before there are any."""
        shapes = {}
        for layout in self.layout:
            leading = (self.outputs, *layout.leading(self.features))
            for array in layout.body:
                shapes[array.name] = (*leading, *array.shape)
            if layout.weight:
                shapes[layout.weight] = leading
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
        cdef Py_ssize_t p
        self.placed = -abs(self.placed)
        self.parameters, self.states = {}, {}
        for name, shape in self.shapes().items():
            array = arrays[name]
            if array.shape != shape or array.dtype != REAL_TYPE or not array.flags.c_contiguous:
                raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {REAL_TYPE}{list(shape)}")
            self.parameters[name] = array
        self.memory = [*self.parameters.values()]
        for b, layout in enumerate(self.layout):
            if layout.weight:
                self.place_mapped(&self.weight_part[b], layout, self.parameters[layout.weight], 0, 1)
            p = 0
            for array in layout.body:
                for part in range(array.parts):
                    self.place_mapped(
                        &self.parts[b][p], layout, self.parameters[array.name], part * array.columns, array.columns)
                    p += 1
        self.lay_out(True)

    # A part in an array of its own.
    cdef place_mapped(self, Part* part, layout, array, Py_ssize_t at, Py_ssize_t lanes):
        cdef const real[::1] flat = array.reshape(-1)
        steps = [step // REAL_TYPE.itemsize for step in array.strides]
        part.base = <real*>&flat[at] if flat.shape[0] else NULL
        part.lanes = lanes
        part.output_stride = steps[0]
        part.feature_stride = part.row_stride = 0
        for axis, step in zip(layout.axes, steps[1:], strict=False):
            if axis == FEATURES:
                part.feature_stride = step
            else:
                part.row_stride = step

    def start(self, seen, init_std, generator):
        """Draw start values: random bodies from N(0, init_std^2), and 0 for features that never occur.

        Parameters
        ----------
        seen : bool array (features), whether the feature occurs in the training data.
        init_std : one number, or a list of one for each array of random values.
        generator : numpy.random.Generator, whose numbers are used up in the order of blocks, classes, rows and columns.
        """
        stds = iter(init_std) if isinstance(init_std, list) else itertools.repeat(init_std)
        for layout in self.layout:
            for array in layout.body:
                std = next(stds) if layout.start == "random" else 0
                for values in self.parameters[array.name]:
                    if layout.start != "random":
                        values[...] = layout.start
                    elif layout.axes[:1] == (FEATURES,):
                        step = max(1, START_ROWS * array.columns // max(1, values[:1].size))
                        for at in range(0, self.features, step):
                            part = values[at:at + step]
                            part[...] = normal(part.shape, std, generator)
                            part[~seen[at:at + step]] = 0
                    else:
                        values[...] = normal(values.shape, std, generator)
                        if layout.by_feature:
                            values[:, ~seen] = 0

    def start_on(self, data, rows, generator):
        """Choose the start values that depend on the training data; called after `start`, unless training resumes from
        an earlier model. Takes what `prepare` takes.
        """

    def remeasure(self):
        """Bring up to date what the model keeps beside its parameters, after someone has written to them."""

    def end_epoch(self):
        """Called after each epoch, before the parameters are looked at."""

    def figures(self, data, rows):
        """Name -> number of what is to be said of the model on some rows of a Dataset, beyond what all models have."""
        return {}

    # Rows of block b that a sample of `longest` entries touches at most.
    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest):
        return longest if self.by_feature[b] else self.block[b].rows

    # Entries of Scratch.ids that `rows` uses.
    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        return 0

    # Reals of Scratch.work that `score` and `gradient` use for a sample of `longest` entries.
    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return 0

    # The same two for who only scores.
    cdef Py_ssize_t scoring_ids_size(self, Py_ssize_t longest):
        return self.ids_size(longest)

    cdef Py_ssize_t scoring_work_size(self, Py_ssize_t longest):
        return self.work_size(longest)

    # Ask the caches for the rows of a sample that comes soon.
    cdef void prefetch(self, const Sample* x) noexcept nogil:
        cdef int b, c, p
        for b in range(self.n_blocks):
            if not self.by_feature[b]:
                continue
            for c in range(self.outputs):
                if not self.attached:
                    kernels.prefetch(&self.block[b], x.index, x.nnz, c * self.block[b].rows)
                    continue
                for p in range(self.n_parts[b]):
                    self.prefetch_mapped(&self.parts[b][p], x, c)
                if self.weight_part[b].base != NULL:
                    self.prefetch_mapped(&self.weight_part[b], x, c)

    cdef void prefetch_mapped(self, const Part* part, const Sample* x, int output) noexcept nogil:
        cdef Block alone = Block(
            part.base + output * part.output_stride, part.feature_stride, part.lanes, NULL, 0, self.features, 0,
            NULL)
        kernels.prefetch(&alone, x.index, x.nnz, 0)

    # Threads may share a model while nothing updates it: `rows`, `score` and `gradient` write to the Scratch alone. If
    # they leave anything else, they store it as llfm stores its marks, or not at all once the model is frozen.

    # Which rows does the sample touch? Here: its features' in blocks by feature, all rows of the others.
    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef const int32_t* row[MAX_BLOCKS]
        cdef Py_ssize_t n[MAX_BLOCKS]
        self.usual_rows(x, row, n)
        self.cut(row, n, s)

    cdef void usual_rows(self, const Sample* x, const int32_t** row, Py_ssize_t* n) noexcept nogil:
        cdef int b
        for b in range(self.n_blocks):
            row[b] = x.index if self.by_feature[b] else self.every_row
            n[b] = x.nnz if self.by_feature[b] else self.block[b].rows

    # Set s.gradients to the n[b] rows row[b] of each block b, in every class: gradient c * n_blocks + b belongs to
    # block b of class c, and the gradient buffer is divided in that order.
    cdef void cut(self, const int32_t** row, const Py_ssize_t* n, Scratch* s) noexcept nogil:
        cdef int b, c
        cdef real* room = s.gradient_buffer
        cdef SparseGradient* gradient = s.gradients
        for c in range(self.outputs):
            for b in range(self.n_blocks):
                gradient.block = b
                gradient.row = row[b]
                gradient.n = n[b]
                gradient.first = c * self.block[b].rows
                gradient.body = room
                room += gradient.n * self.block[b].lanes
                gradient.weight = room
                gradient.touched = NULL
                room += gradient.n
                gradient += 1
        s.n_gradients = self.outputs * self.n_blocks

    # s.score <- the C scores of x.
    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        pass

    # Fill the buffers of s.gradients: the derivative by each touched parameter, times s.slope. Called after `rows` and
    # `score` of x.
    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        pass

    def project(self):
        """Project the constrained rows; comes after whatever has written to them."""
        self.constrain()

    cdef void constrain(self) noexcept nogil:
        cdef int b
        cdef Py_ssize_t r
        if not self.constrained:
            return
        for b in range(self.n_blocks):
            if self.simplex[b]:
                for r in range(self.outputs * self.block[b].rows):
                    project_to_simplex(self.block[b].body + r * self.block[b].body_stride, self.block[b].columns)

    # What remains to be done after a solver's step: here, the constraints.
    cdef void finish_update(self, Scratch* s) noexcept nogil:
        self.constrain()

    # ---- A row of parameters, and all samples that it enters: for solvers by columns. ----

    def freeze(self):
        """From now on gradients move the rows of blocks alone; what else there is, `step_apart` moves."""

    def step_apart(self, data, loss, objective):
        """Take a step with what is frozen, by the gradient of the mean loss on all of a Dataset.

        objective : gives the objective as the model is. Where it does not fall, however short the step, there is none.
        Returns whether there was a step.
        """
        return False

    # Reals of a sample's cache in each class; NONE where the model has no faster way for these data than `gradient`.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return NONE

    # cache <- what the other functions need of x, after `score` of x.
    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        pass

    # q <- the derivatives of the samples' scores by the row's parameters.
    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        pass

    # out <- the second derivatives by each parameter alone, in the same places; False where they are all 0.
    cdef bint score_curvature(self, const ColumnView* v, real* out) noexcept nogil:
        return False

    # out[i] <- what a step will change in the i-th score, exactly; False where that takes new scores.
    cdef bint score_changes(self, const ColumnView* v, const real* step, double* out) noexcept nogil:
        return False

    # Take a step over into the caches, before the parameters take it.
    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        pass


def normal(shape, init_std, generator):
    """N(0, init_std^2) numbers of the real type."""
    values = generator.standard_normal(shape, dtype=REAL_TYPE)
    values *= REAL_TYPE.type(init_std)
    return values


cdef class Workspace:
    """Room for one thread to score samples of up to `longest` entries and, with `gradients`, to take their gradients.

    Without, Scratch.gradient_buffer is NULL.
    """

    def __init__(self, Model model, Py_ssize_t longest, bint gradients=True):
        model.require()
        if not 0 <= longest <= INT32_MAX:
            raise ValueError(f"a sample cannot have {longest} entries")
        cdef real[::1] work, buffer
        cdef double[::1] outputs
        cdef int32_t[::1] ids
        cdef char[::1] gradient_structs
        self.memory = work, buffer, outputs, ids, gradient_structs = [
            allocate(size) if kind is REAL_TYPE else np.zeros(size, dtype=kind)
            for kind, size in Workspace._parts(model, longest, gradients)
        ]
        self.scratch.work = &work[0]
        self.scratch.gradient_buffer = &buffer[0] if gradients else NULL
        self.scratch.score = &outputs[0]
        self.scratch.slope = &outputs[model.outputs]
        self.scratch.ids = &ids[0]
        self.scratch.gradients = <SparseGradient*>&gradient_structs[0]
        self.model, self.longest, self.placed = model, longest, model.placed

    # ValueError unless this is room for the model, as its rows lie now, and for samples of the data.
    cdef fit(self, Model model, Dataset data):
        if self.model is not model or self.placed != model.placed:
            raise ValueError("the workspace was made for another model, or before its rows were laid out anew")
        if data.longest > self.longest or data.features > model.features:
            raise ValueError("the data have longer rows than the workspace, or more columns than the model")

    @staticmethod
    def bytes_needed(model, longest, gradients=True):
        """Bytes that one takes."""
        return sum(kind.itemsize * size for kind, size in Workspace._parts(model, longest, gradients))

    @staticmethod
    def _parts(Model model, Py_ssize_t longest, bint gradients):
        """[(type, numbers), ...] of work, gradient buffer, scores and slopes, ids, sparse gradients."""
        cdef int b
        rows = sum([model.most_rows(b, longest) * (model.block[b].lanes + 1) for b in range(model.n_blocks)])
        return [
            (REAL_TYPE, model.work_size(longest) if gradients else model.scoring_work_size(longest)),
            (REAL_TYPE, model.outputs * rows if gradients else 0),
            (np.dtype(np.float64), 2 * model.outputs),
            (np.dtype(np.int32), 1 + (model.ids_size(longest) if gradients else model.scoring_ids_size(longest))),
            (np.dtype(np.int8), 1 + model.outputs * model.n_blocks * sizeof(SparseGradient)),
        ]


# Room for one thread to work on samples of the data; ValueError where the model does not have their columns.
cdef Workspace workspace_for(Model model, Dataset data, bint gradients=True):
    cdef Workspace workspace = Workspace(model, data.longest, gradients)
    workspace.fit(model, data)
    return workspace
