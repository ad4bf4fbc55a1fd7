"""The contract of models: blocks of parameter rows, and the score and gradient of one sample."""

import itertools

import numpy as np

from fmcli.base.copies import copy_of, copy_to
from fmcli.base.kept import require_each_like
from fmcli.errors import UsageError
from fmcli.models.layout import CUTPOINTS, FEATURES, REAL_TYPE, allocate, normal, padded, row_strides
from fmcli.system.parallel import in_parallel

from fmcli.base.simplex cimport project_to_simplex
from fmcli.base.types cimport (
    LANES, Block, ColumnView, Sample, SampleStates, Scratch, SparseGradient, cache_in, real, scores_in)
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport NO_BLOCK, SampleRun
from fmcli.models.kernels cimport kernels
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport calloc, free

# The number of rows whose start values are drawn by one thread; the values depend on it.
START_ROWS = 1 << 16
# So many of them are drawn at a time, so that what a thread draws takes no memory that counts.
START_NUMBERS = 1 << 16
MOST_BYTES = 1 << 60  # more than any address space
# The number of samples between prefetching their parameter rows and scoring them.
cdef Py_ssize_t SAMPLES_AHEAD = 2


cdef class Model:
    """Base of all models. A subclass declares its blocks and writes `score` and `gradient`.

    Parameters
    ----------
    features : number of columns d.
    outputs : number of scores of a sample, C.
    layout : the model's blocks; the bias, if there is one, is the first.

    Attributes
    ----------
    parameters : name -> array view of the build's real type, with the names and shapes under which models are
        exported, leading axis C. Writing to a view changes the model. Empty before `allocate` or `attach`.
    states : name -> views of the solver's state, one for each slot, of the shapes of the parameters.
    constants : name -> array that the model takes from its data and that is not trained; saved and exported with it.
    slots : number of reals of solver state beside each parameter.
    has_bias : whether each score has one bias.
    absent : number of further features, which have no columns because they do not occur: their parameters are 0.
    cutpoints : number of cutpoints between ordered labels, an array of their own; set before `allocate` or `attach`.
    joins : whether the cache of a sample is the sum of those of its parts, and its score the sum of theirs and, for
        each pair of parts, of the inner product of their caches.
    """

    def __cinit__(self, *args, **keywords):
        for b in range(MAX_BLOCKS):
            self.parts[b] = NULL
        self.every_row = NULL
        self.pair_block = NONE

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

    # Note that the model has rows now, for training or attached: a new generation of them.
    cdef lay_out(self, bint attached):
        self.attached = attached
        self.generation = abs(self.generation) + 1

    # Raise ValueError unless there are rows, and, if `training`, unless they can be trained.
    cdef require(self, bint training=False):
        if self.generation <= 0:
            raise ValueError("the model has no rows yet: allocate it, or attach arrays")
        if training and self.attached:
            raise ValueError("the model was attached to arrays: it cannot be trained")

    def pack(self):
        """Let rows take as little memory as possible, for solvers that do not visit them at random, to which an
        access more for each row costs nothing; called before `allocate`."""
        for layout in self.layout:
            layout.packed = True

    def bytes_needed(self, int slots):
        """Return bytes that `allocate(slots)` needs."""
        return REAL_TYPE.itemsize * (self.outputs * self.cutpoints + sum(
            self.outputs * layout.rows(self.features) * sum(set(row_strides(layout, slots))) for layout in self.layout
        ))

    @property
    def columns(self):
        """The numbers that are computed from the scores of a sample: its score minus each cutpoint, or the scores."""
        return self.cutpoints or self.outputs

    def update_needed(self, Py_ssize_t batch):
        """Return bytes that are kept for a batch of samples until their update, beside the gradients."""
        return 0

    @property
    def anchored(self):
        """The model, if it has anchors (fmcli.models.anchored.Anchored); None for others."""
        return None

    @property
    def parameter_count(self):
        """The number of parameters, without state and padding."""
        rows = [layout.rows(self.features) * layout.columns for layout in self.layout]
        return self.outputs * (sum(rows) + self.cutpoints)

    def prepare(self, source, generator):
        """Learn what the model needs to know about its training data (TrainingRows), with a numpy.random.Generator;
        called before `allocate`."""

    def inherit(self, previous, seen):
        """Take over what a previous model of this kind, which is attached, knows about its data; called between
        `prepare` and `allocate`. `seen` says which of its features occurred (bool).

        Raises UsageError or BadInputError if this model cannot resume from it.
        """

    def feature_axis(self, name):
        """Return the position of the axis of features in an array, with the axis of classes counted; None without one.
        """
        for layout in self.layout:
            if name in layout.names and layout.by_feature:
                return 1 + layout.axes.index(FEATURES)
        return None

    def check_renumbering(self):
        """Raise UsageError if features cannot get other columns, because arrays depend on these in another way than by
        their axes of features."""

    def known(self, name, seen):
        """Which values of an array took part in training: bool, of the shape of the array's axes after the classes, or
        of the first of these axes. `seen` says which features occurred. A later model takes these values over."""
        for layout in self.layout:
            if name in layout.names and layout.by_feature:
                return seen.reshape([-1 if axis == FEATURES else 1 for axis in layout.axes])
        return np.ones((), dtype=np.bool_)

    def owners(self, int b, features):
        """Return int32 (rows of block b in one class): the feature, out of some (bool), that each row belongs to,
        because it enters no score without this feature; -1: none of them."""
        layout = self.layout[b]
        if not layout.by_feature:
            return np.full(self.block[b].rows, -1, dtype=np.int32)
        return np.repeat(np.where(features, np.arange(self.features), -1).astype(np.int32), layout.rows_each)

    def fitted_constants(self, constants):
        """Return name -> array of constants of a model with as many features and perhaps fewer fields, as this one has
        them, of those that differ."""
        return {}

    def export_needed(self):
        """Return bytes of the arrays that `exported` allocates."""
        return 0

    def exported(self):
        """Return the arrays of the model, by the names under which they are exported."""
        return {**self.parameters, **self.constants}

    def split(self):
        """Return how a score splits into terms of sets of features (fmcli.models.split.Split).

        Raises UsageError for a kind that has no terms, with the reason.
        """
        raise UsageError("this kind of model does not state the terms of its scores")

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
        if self.cutpoints:
            self.parameters[CUTPOINTS] = np.zeros((self.outputs, self.cutpoints), REAL_TYPE)
            self.memory.append(self.parameters[CUTPOINTS])
        self.lay_out(False)

    # The numbers in the work space for the prox of a whole row, Block.room.
    cdef Py_ssize_t room_size(self):
        return 6 * (max([0] + [layout.lanes for layout in self.layout]) + LANES)

    # A part among rows for training, in which a feature's rows lie together.
    cdef place(self, Part* part, layout, real* base, Py_ssize_t stride, Py_ssize_t lanes):
        part.base, part.lanes = base, lanes
        part.output_stride = layout.rows(self.features) * stride
        part.feature_stride = layout.rows_each * stride if layout.by_feature else 0
        part.row_stride = stride

    def view(self, base, layout, Py_ssize_t at, Py_ssize_t stride, in_row):
        """Return a view of an array as it is exported; it begins at `at`, and its rows of shape `in_row` are `stride`
        reals apart."""
        steps = [layout.rows(self.features) * stride]
        steps += [(layout.rows_each if axis == FEATURES else 1) * stride for axis in layout.axes]
        steps += [padded(columns) for columns in in_row[1:]] + [1] * bool(in_row)
        shape = (self.outputs, *layout.leading(self.features), *in_row)
        size = REAL_TYPE.itemsize
        if 0 in shape:  # the data have no features: there is nothing to view
            return np.zeros(shape, REAL_TYPE)
        return np.ndarray(shape, REAL_TYPE, base, at * size, tuple([step * size for step in steps]))

    def shapes(self):
        """Return name -> shape of every array in `parameters`, also before they are allocated."""
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
        """Return all arrays that training changes, at this moment: parameters, state, and what belongs to them; without
        the `state`, what a model has that is trained no further. No copies."""
        return list(self.memory) if state else list(self.parameters.values())

    def snapshot(self, state=True):
        """Return a copy of the live arrays, for `restore`."""
        return [copy_of(array) for array in self.live(state)]

    def require_snapshot(self, snapshot, state=True):
        """Raise ValueError unless these may be the live arrays of this model; they may be from a file."""
        require_each_like("the model", snapshot, self.live(state))

    def restore(self, snapshot, state=True):
        """Restore the live arrays, as they were at some moment, of this model or of one with the same rows."""
        for array, kept in zip(self.live(state), snapshot, strict=True):
            copy_to(array, kept)

    def attach(self, arrays):
        """Use arrays without copying them, for example arrays mapped from a file; such a model cannot be trained.

        Raises ValueError if a shape or type is not the model's, KeyError if an array is missing.
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
                self.place_mapped(&self.weight_part[b], layout, self.parameters[layout.weight], 0, 1)
            p = 0
            for array in layout.body:
                for part in range(array.parts):
                    self.place_mapped(
                        &self.parts[b][p], layout, self.parameters[array.name], part * array.columns, array.columns)
                    p += 1
        self.lay_out(True)

    # Set a part that is within one separate array.
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

    def start(self, seen, init_std, generator, threads=1):
        """Set the start values: random bodies from N(0, init_std^2), and 0 for features that never occur.

        Parameters
        ----------
        seen : bool array (features), whether the feature occurs in the training data.
        init_std : a number, or a list with one for each array of random values.
        generator : numpy.random.Generator; its numbers are used in the order of blocks, classes, rows and columns. Of
            an array for each feature, each START_ROWS rows after the first ones have a generator of their own, which
            it spawns, so that the values do not depend on the number of threads.
        threads : how many of them draw values.
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
                        parts = [slice(at, at + step) for at in range(0, self.features, step)]
                        tasks = [
                            (values[part], seen[part], std, source)
                            for part, source in zip(parts, [generator, *generator.spawn(max(0, len(parts) - 1))])
                        ]
                        in_parallel(start_rows, tasks, threads)
                    else:
                        values[...] = normal(values.shape, std, generator)
                        if layout.by_feature:
                            values[:, ~seen] = 0

    def remeasure(self):
        """Update what the model derives from its parameters; called after they have been written to."""

    def end_epoch(self):
        """Called after each epoch, before the parameters are read."""

    # The largest number of rows of block b that a sample of `longest` entries touches.
    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest):
        return longest if self.by_feature[b] else self.block[b].rows

    # The number of entries of Scratch.ids that `rows` uses.
    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        return 0

    # The number of reals of Scratch.work that `score` and `gradient` use for a sample of `longest` entries.
    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return 0

    # `ids_size` and `work_size` if the model only scores.
    cdef Py_ssize_t scoring_ids_size(self, Py_ssize_t longest):
        return self.ids_size(longest)

    cdef Py_ssize_t scoring_work_size(self, Py_ssize_t longest):
        return self.work_size(longest)

    # Prefetch the rows of a sample that will be used soon. What is computed for this may be stored in the Scratch.
    cdef void prefetch(self, const Sample* x, Scratch* s) noexcept nogil:
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

    # Threads may share a model while nothing updates it: `rows`, `score` and `gradient` write only to the Scratch. If
    # a model writes anything else there, it does so atomically, as llfm does with its marks, or not once it is frozen.

    # Set s.gradients to the rows that the sample touches. Here: the rows of its features in blocks by feature, and all
    # rows of the other blocks.
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
                gradient.formula.value = NULL
                room += gradient.n
                gradient += 1
        s.n_gradients = self.outputs * self.n_blocks

    # s.score <- the C scores of x.
    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        pass

    # out[i * C + c] <- the scores of the samples i = start .. stop - 1 of the data, or of its samples rows[i].
    cdef void score_samples(
        self, Dataset data, const int32_t* rows, Py_ssize_t start, Py_ssize_t stop, Scratch* s, double* out
    ) noexcept nogil:
        cdef Sample x
        cdef Py_ssize_t i
        cdef int c
        for i in range(start, stop):
            if i + SAMPLES_AHEAD < stop:
                data.sample(i + SAMPLES_AHEAD if rows == NULL else rows[i + SAMPLES_AHEAD], &x)
                self.prefetch(&x, s)
            data.sample(i if rows == NULL else rows[i], &x)
            self.score(&x, s)
            for c in range(self.outputs):
                out[i * self.outputs + c] = s.score[c]

    # Fill the buffers of s.gradients: the derivative by each touched parameter, times s.slope. Called after `rows` and
    # `score` of x.
    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        pass

    def project(self):
        """Project the constrained rows; called after they have been written to."""
        self.constrain()

    # Describe the model's blocks to steps for runs of samples; returns whether it is linear or of second order.
    cdef bint describe(self, SampleRun* run) noexcept nogil:
        run.block = self.block
        run.before = NULL
        run.bias = 0 if self.has_bias else NO_BLOCK
        run.constant = run.beta = run.weights = NO_BLOCK
        run.fields = 0
        run.trains_beta = False
        return False

    # Whether a run may have samples of these data.
    cdef bint takes_run_of(self, Dataset data):
        return True

    cdef void constrain(self) noexcept nogil:
        cdef int b
        cdef Py_ssize_t r
        if not self.constrained:
            return
        for b in range(self.n_blocks):
            if self.simplex[b]:
                for r in range(self.outputs * self.block[b].rows):
                    project_to_simplex(self.block[b].body + r * self.block[b].body_stride, self.block[b].columns)

    # Complete a solver's step; here, project the constrained rows.
    cdef void finish_update(self, Scratch* s) noexcept nogil:
        self.constrain()

    # ---- For coordinate descent: a row of parameters, and all samples that it affects. ----

    # Fill the buffers for the weights of block b with their derivatives; called after `rows` of x.
    cdef void weight_derivatives(self, int b, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        self.score(x, s)
        for c in range(self.outputs):
            s.slope[c] = 1
        self.gradient(x, s)

    # The number of reals in a sample's cache for each class; NONE if the model has no faster way than `gradient` for
    # these data.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return NONE

    # Fill the cache with what the other functions need to know about x; called after `score` of x.
    cdef void fill_cache(self, const Sample* x, Scratch* s, int output, real* cache) noexcept nogil:
        pass

    # Write scores and caches of the samples start .. stop - 1 to their states.
    cdef void fill_states(
        self, Dataset data, Py_ssize_t start, Py_ssize_t stop, Scratch* s, const SampleStates* states
    ) noexcept nogil:
        cdef Sample x
        cdef Py_ssize_t i
        cdef int c
        for i in range(start, stop):
            if i + SAMPLES_AHEAD < stop:
                data.sample(i + SAMPLES_AHEAD, &x)
                self.prefetch(&x, s)
            data.sample(i, &x)
            self.score(&x, s)
            for c in range(self.outputs):
                scores_in(states, i)[c] = s.score[c]
                if states.cache:
                    self.fill_cache(&x, s, c, cache_in(states, i, c))

    # Prefetch the states of the samples.
    cdef void prefetch_states(self, const ColumnView* v) noexcept nogil:
        kernels.prefetch_sample_states(v)

    # q <- the derivatives of the samples' scores with respect to the row's parameters.
    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        pass

    # out <- the second derivatives with respect to each single parameter, in the same order; False if they are all 0.
    cdef bint score_curvature(self, const ColumnView* v, real* out) noexcept nogil:
        return False

    # out[i] <- the exact change of the i-th score by a step; False if that needs new scores.
    cdef bint score_changes(self, const ColumnView* v, const real* step, double* out) noexcept nogil:
        return False

    # Update the caches for a step; called before the parameters are updated.
    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        pass

    # ---- If `joins`: some entries that samples have in common, as if they were one feature of value 1, whose factors
    # are the sums in the cache of a sample with these entries only, and whose weight is its own score. ----

    # sums <- the cache of some entries of a sample; returns their own score, without what all samples have.
    cdef double part(self, const Sample* x, int output, real* sums) noexcept nogil:
        return 0

    # q <- the derivatives of the samples' scores with respect to the factors `sums`, and the weight.
    cdef void part_gradient(self, const ColumnView* v, const real* sums, real* q) noexcept nogil:
        pass

    # Update the caches for a step of the factors, which are `sums` before it, and the weight.
    cdef void update_part(self, const ColumnView* v, const real* sums, const real* step) noexcept nogil:
        pass


def start_rows(task):
    """Set the start values of some features, given what `Model.start` collects for them."""
    values, seen, std, generator = task
    step = max(1, START_NUMBERS // max(1, values[:1].size))
    for at in range(0, len(values), step):
        some = values[at:at + step]
        copy_to(some, normal(some.shape, std, generator))
        some[~seen[at:at + step]] = 0
