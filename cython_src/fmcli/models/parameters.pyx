"""The arrays of a model's parameters: their memory, and their start values."""

import itertools

import numpy as np

from fmcli.base.copies import copy_to
from fmcli.base.state_dict import require_each_like
from fmcli.models.layout import CUTPOINTS, FEATURES, REAL_TYPE, allocate, normal, padded, row_strides
from fmcli.system.parallel import in_parallel

from fmcli.base.simplex cimport project_to_simplex
from fmcli.base.types cimport LANES, Block, real
from libc.stdint cimport INT32_MAX
from libc.stdlib cimport calloc, free

# One thread draws the start values of this many rows; the values depend on this number.
START_ROWS = 1 << 16
# A thread draws this many numbers at a time, to use little memory.
START_NUMBERS = 1 << 16
MOST_BYTES = 1 << 60  # more than any address space


cdef class Parameters:
    """The parameters of a model: arrays in blocks of rows, whose memory training, copies and files share.

    Penalties, row solvers, priors, checkpoints, and the checks and exports of model files use only this interface. A
    model with arrays outside its blocks adds them in `bytes_needed`, `shapes`, `allocate`, `attach`, `live` and
    `exported`; other models only pass their blocks.

    Parameters
    ----------
    features : the number of columns d.
    outputs : the number of scores of a sample, C.
    layout : the model's blocks; the bias, if there is one, is the first.

    Attributes
    ----------
    parameters : name -> array view of the build's real type, with the names and shapes under which models are
        exported, leading axis C. Writing to a view changes the model. Empty before `allocate` or `attach`.
    states : name -> views of the solver's state, one per slot, in the shapes of the parameters.
    constants : name -> array that comes from the model's data and is not trained; saved and exported with the model.
    slots : the number of reals of solver state beside each parameter.
    has_bias : whether each score has one bias.
    absent : the number of further features, without columns because they do not occur: their parameters are 0.
    cutpoints : the number of cutpoints between ordered labels, in an array of their own; set before `allocate` or
        `attach`.
    """

    def __init__(self, Py_ssize_t features, int outputs, layout):
        cdef int b, p
        self.generation = -abs(self.generation)
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
            self.trained[b] = block.trained
            self.n_vectors[b] = len(block.vectors)
            free(self.vectors[b])
            self.vectors[b] = <VectorMemory*>calloc(self.n_vectors[b] + 1, sizeof(VectorMemory))
            if self.vectors[b] == NULL:
                raise MemoryError
            self.block[b].columns, self.block[b].lanes = block.columns, block.lanes
            self.block[b].rows = block.rows(features)
            self.block[b].body = self.block[b].weight = self.weight_memory[b].base = NULL
            for p, columns in enumerate(block.vectors):
                self.vectors[b][p].lanes = padded(columns)  # as in training

    def __dealloc__(self):
        cdef int b
        for b in range(MAX_BLOCKS):
            free(self.vectors[b])

    # Raise ValueError unless there are rows and, with `training`, unless they can be trained.
    cdef require(self, bint training=False):
        if self.generation <= 0:
            raise ValueError("the model has no rows yet: allocate it, or attach arrays")
        if training and self.attached:
            raise ValueError("the model was attached to arrays: it cannot be trained")

    def pack(self):
        """Let rows take as little memory as possible, for solvers that do not visit rows at random and so lose nothing
        by one more access per row. Called before `allocate`."""
        for layout in self.layout:
            layout.packed = True

    def bytes_needed(self, int slots):
        """Return bytes that `allocate(slots)` needs."""
        return REAL_TYPE.itemsize * (self.outputs * self.cutpoints + sum(
            self.outputs * layout.rows(self.features) * sum(set(row_strides(layout, slots))) for layout in self.layout
        ))

    @property
    def columns(self):
        """The numbers computed from a sample's scores: the score minus each cutpoint, or the scores."""
        return self.cutpoints or self.outputs

    @property
    def parameter_count(self):
        """The number of parameters, without state and padding."""
        rows = [layout.rows(self.features) * layout.columns for layout in self.layout]
        return self.outputs * (sum(rows) + self.cutpoints)

    def export_needed(self):
        """Return the bytes of the arrays that `exported` allocates."""
        return 0

    def exported(self):
        """Return the arrays of the model by exported name."""
        return {**self.parameters, **self.constants}

    def allocate(self, int slots):
        """Allocate rows for training, all zero, with `slots` reals of solver state beside each parameter."""
        cdef Py_ssize_t at, p, body_stride, weight_stride, rows
        cdef real[::1] bodies, weights
        cdef double[::1] room
        cdef Block* block
        if slots < 0 or self.bytes_needed(slots) > MOST_BYTES:
            raise MemoryError
        self.slots, self.generation = slots, -abs(self.generation)
        self.room = room = allocate(self.room_size(), np.float64)
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
                place(&self.weight_memory[b], layout, block.rows, block.weight, weight_stride, 1)
                self.parameters[layout.weight], *self.states[layout.weight] = [
                    view(self, weight_base, layout, at + slot, weight_stride, ()) for slot in range(1 + slots)
                ]
            at = p = 0
            for array in layout.body:
                self.parameters[array.name], *self.states[array.name] = [
                    view(self, base, layout, at + slot * block.lanes, body_stride, array.shape)
                    for slot in range(1 + slots)
                ]
                for _ in range(array.vectors):
                    place(
                        &self.vectors[b][p], layout, block.rows, block.body + at, body_stride, padded(array.columns))
                    self.vectors[b][p].offset = at
                    at += padded(array.columns)
                    p += 1
        if self.cutpoints:
            self.parameters[CUTPOINTS] = np.zeros((self.outputs, self.cutpoints), REAL_TYPE)
            self.memory.append(self.parameters[CUTPOINTS])
        self.attached, self.generation = False, abs(self.generation) + 1

    # The number of doubles in Block.room, the work space for the prox of a whole row.
    cdef Py_ssize_t room_size(self):
        return 6 * (max([0] + [layout.lanes for layout in self.layout]) + LANES)

    def shapes(self):
        """Return name -> shape of every array in `parameters`, even before allocation."""
        shapes = {}
        for layout in self.layout:
            leading = (self.outputs, *layout.leading(self.features))
            for array in layout.body:
                shapes[array.name] = (*leading, *array.shape)
            if layout.weight:
                shapes[layout.weight] = leading
        if self.cutpoints:
            shapes[CUTPOINTS] = (self.outputs, self.cutpoints)
        return shapes

    def live(self, state=True):
        """Return all arrays that training changes, in their current state: parameters, solver state, and what belongs
        to them; without `state`, the arrays of a model that is not trained further. No copies."""
        return list(self.memory) if state else list(self.parameters.values())

    def snapshot(self, state=True, earlier=()):
        """Return a copy of the live arrays, for `restore`; it reuses the memory of an earlier snapshot where
        possible."""
        copies = []
        for array, copy in itertools.zip_longest(self.live(state), earlier):
            if copy is None or copy.shape != array.shape:
                copy = np.empty(array.shape, array.dtype)
            copy_to(copy, array)
            copies.append(copy)
        return copies

    def require_snapshot(self, snapshot, state=True):
        """Raise ValueError unless these may be the live arrays of this model. They may come from a file."""
        require_each_like("the model", snapshot, self.live(state))

    def restore(self, snapshot, state=True):
        """Restore the live arrays from a snapshot, of this model or of one with the same rows."""
        for array, kept in zip(self.live(state), snapshot, strict=True):
            copy_to(array, kept)

    def attach(self, arrays):
        """Use arrays without copying them, for example arrays mapped from a file. The model then cannot be trained.

        Raises ValueError if a shape or type does not fit the model, KeyError if an array is missing.
        """
        cdef Py_ssize_t p
        self.generation = -abs(self.generation)
        self.parameters, self.states = {}, {}
        for name, shape in self.shapes().items():
            array = arrays[name]
            if array.shape != shape or array.dtype != REAL_TYPE or not array.flags.c_contiguous:
                raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {REAL_TYPE}{list(shape)}")
            self.parameters[name] = array
        self.memory = [*self.parameters.values()]
        for b, layout in enumerate(self.layout):
            if layout.weight:
                place_mapped(&self.weight_memory[b], layout, self.parameters[layout.weight], 0, 1)
            p = 0
            for array in layout.body:
                for vector in range(array.vectors):
                    place_mapped(
                        &self.vectors[b][p], layout, self.parameters[array.name], vector * array.columns, array.columns)
                    p += 1
        self.attached, self.generation = True, abs(self.generation) + 1

    def project(self):
        """Project the constrained rows. Called after they have been written."""
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


# A view of an array in its exported shape, from `at` on; its rows of shape `in_row` are `stride` reals apart.
cdef view(Parameters owner, base, layout, Py_ssize_t at, Py_ssize_t stride, in_row):
    steps = [layout.rows(owner.features) * stride]
    steps += [(layout.rows_each if axis == FEATURES else 1) * stride for axis in layout.axes]
    steps += [padded(columns) for columns in in_row[1:]] + [1] * bool(in_row)
    shape = (owner.outputs, *layout.leading(owner.features), *in_row)
    size = REAL_TYPE.itemsize
    if 0 in shape:  # the data has no features: there is nothing to view
        return np.zeros(shape, REAL_TYPE)
    return np.ndarray(shape, REAL_TYPE, base, at * size, tuple([step * size for step in steps]))


# The memory among rows for training, where a feature's rows are adjacent; `rows` : of each class.
cdef place(VectorMemory* out, layout, Py_ssize_t rows, real* base, Py_ssize_t stride, Py_ssize_t lanes):
    out.base, out.lanes = base, lanes
    out.output_stride = rows * stride
    out.feature_stride = layout.rows_each * stride if layout.by_feature else 0
    out.row_stride = stride


# The memory within one separate array.
cdef place_mapped(VectorMemory* out, layout, array, Py_ssize_t at, Py_ssize_t lanes):
    cdef const real[::1] flat = array.reshape(-1)
    steps = [step // REAL_TYPE.itemsize for step in array.strides]
    out.base = <real*>&flat[at] if flat.shape[0] else NULL
    out.lanes = lanes
    out.output_stride = steps[0]
    out.feature_stride = out.row_stride = 0
    for axis, step in zip(layout.axes, steps[1:], strict=False):
        if axis == FEATURES:
            out.feature_stride = step
        else:
            out.row_stride = step


cdef class Resumable(Parameters):
    """Parameters that start from random numbers, or from an earlier model of the same kind.

    The preparation of a run, warm starts and new features use this interface. A model whose arrays depend on its
    training data defines `prepare`, and `inherit` if it takes these arrays from an earlier model. A model that
    places features in arrays other than by the axes of its blocks defines `feature_axis`, `known`, `owners` or
    `fitted_constants`.
    """

    def prepare(self, source, generator):
        """Learn the facts about its training data that the model needs (TrainingRows). generator :
        numpy.random.Generator. Called before `allocate`."""

    def inherit(self, previous, seen):
        """Take over the facts that an attached earlier model of this kind has learned. Called between `prepare` and
        `allocate`. `seen` : whether each of its features occurred (bool).

        Raises UsageError or BadInputError if this model cannot resume from it.
        """

    def feature_axis(self, name):
        """Return the position of the axis of features in an array, counting the axis of classes; None without one."""
        for layout in self.layout:
            if name in layout.names and layout.by_feature:
                return 1 + layout.axes.index(FEATURES)
        return None

    def known(self, name, seen):
        """Return which values of an array took part in training, so that a later model keeps them: bool, with the
        shape of the axes after the classes, or of the first of these axes. `seen` : whether each feature occurred."""
        for layout in self.layout:
            if name in layout.names and layout.by_feature:
                return seen.reshape([-1 if axis == FEATURES else 1 for axis in layout.axes])
        return np.ones((), dtype=np.bool_)

    def owners(self, int b, features):
        """Return int32 (rows of block b in one class): for each row, the feature among `features` (bool) without which
        the row enters no score; -1: none of them."""
        layout = self.layout[b]
        if not layout.by_feature:
            return np.full(self.block[b].rows, -1, dtype=np.int32)
        return np.repeat(np.where(features, np.arange(self.features), -1).astype(np.int32), layout.rows_each)

    def fitted_constants(self, constants):
        """Return name -> array for the constants of a model with the same features and possibly fewer fields, in the
        shape that this model needs; only constants that differ."""
        return {}

    def start(self, seen, init_std, generator, threads=1):
        """Set the start values: random bodies from N(0, init_std^2), and 0 for features that never occur.

        Parameters
        ----------
        seen : bool array (features), whether the feature occurs in the training data.
        init_std : a number, or a list with a number for each array of random values.
        generator : numpy.random.Generator; its numbers are used in the order of blocks, classes, rows and columns. In
            an array by feature, each block of START_ROWS rows after the first has its own generator, spawned from this
            one, so the values do not depend on the number of threads.
        threads : the number of threads that draw values.
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
                        slices = [slice(at, at + step) for at in range(0, self.features, step)]
                        tasks = [
                            (values[some], seen[some], std, source)
                            for some, source in zip(slices, [generator, *generator.spawn(max(0, len(slices) - 1))])
                        ]
                        in_parallel(start_rows, tasks, threads)
                    else:
                        values[...] = normal(values.shape, std, generator)
                        if layout.by_feature:
                            values[:, ~seen] = 0


def start_rows(task):
    """Set the start values of some features. task : as `Resumable.start` collects it."""
    values, seen, std, generator = task
    step = max(1, START_NUMBERS // max(1, values[:1].size))
    for at in range(0, len(values), step):
        some = values[at:at + step]
        copy_to(some, normal(some.shape, std, generator))
        some[~seen[at:at + step]] = 0
