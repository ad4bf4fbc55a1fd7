"""The contracts of models: scores and gradients of samples, derivatives by columns, sums of parts."""

from fmcli.errors import UsageError

from fmcli.base.types cimport (
    Block, ColumnView, Factors, Sample, SampleStates, Scratch, SparseGradient, cache_in, real, scores_in)
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport NO_BLOCK, SampleRun
from fmcli.models.kernels cimport kernels
from fmcli.models.parameters cimport MAX_BLOCKS, Resumable, VectorMemory
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free


cdef class Model(Resumable):
    """Base of all models: the scores of a sample, and their derivatives by all parameters that it touches.

    The loops of row solvers, L-BFGS, scoring and explanations use this interface; coordinate descent uses it for models
    other than ColumnModel. A subclass passes its blocks to `__init__`, and defines `score` and `gradient`. It defines
    `rows` and `most_rows` if a score depends on other rows than the rows of the sample's features and of blocks without
    features, `ids_size` and `work_size` if it needs work space, `describe` if it has the form of a SampleRun, and
    `split` for explanations. `anchored` and `joined` are further interfaces that only some models have.
    """

    def __init__(self, Py_ssize_t features, int outputs, layout):
        cdef Py_ssize_t i, most
        super().__init__(features, outputs, layout)
        self.pair_block = NONE
        most = max([1] + [self.block[b].rows for b, block in enumerate(self.layout) if block.touched == "all"])
        free(self.every_row)
        self.every_row = <int32_t*>calloc(most, sizeof(int32_t))
        if self.every_row == NULL:
            raise MemoryError
        for i in range(most):
            self.every_row[i] = <int32_t>i

    def __dealloc__(self):
        free(self.every_row)

    @property
    def anchored(self):
        """The model itself if it has anchors (fmcli.models.anchored.Anchored); otherwise None."""
        return None

    @property
    def joined(self):
        """The sums of parts of samples (Joined), if rows may have relations; otherwise None."""
        return None

    @property
    def sides(self):
        """The sums of the two sides of a pair (Joined), if the score is a sum of products of these; otherwise None."""
        return self.joined

    def update_needed(self, Py_ssize_t batch):
        """Return the bytes, besides gradients, that are kept for a batch of samples until their update."""
        return 0

    def split(self):
        """Return how a score splits into terms of sets of features (fmcli.models.split.Split).

        Raises UsageError, with the reason, for a kind without such terms.
        """
        raise UsageError("this kind of model does not state the terms of its scores")

    def remeasure(self):
        """Update the arrays derived from the parameters. Called after parameters have been written."""

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

    # Prefetch the rows of a sample that will be used soon. Results of this may be stored in the Scratch.
    cdef void prefetch(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int b, c, p
        for b in range(self.n_blocks):
            if not self.by_feature[b]:
                continue
            for c in range(self.outputs):
                if not self.attached:
                    kernels.prefetch(&self.block[b], x.index, x.nnz, c * self.block[b].rows)
                    continue
                for p in range(self.n_vectors[b]):
                    prefetch_mapped(&self.vectors[b][p], self.features, x, c)
                if self.weight_memory[b].base != NULL:
                    prefetch_mapped(&self.weight_memory[b], self.features, x, c)

    # Threads may share a model while nothing updates it: `rows`, `score` and `gradient` write only to the Scratch. A
    # model may write elsewhere only atomically, like the marks of llfm, and never once it is frozen.

    # Set s.gradients to the rows that the sample touches. Here: the rows of its features in blocks by feature, and all
    # rows of other blocks.
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
    # block b of class c. The gradient buffer is divided in this order.
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
            score_sample(self, data, rows, i, stop, &x, s)
            for c in range(self.outputs):
                out[i * self.outputs + c] = s.score[c]

    # Fill the buffers of s.gradients: the derivative by each touched parameter, times s.slope. Called after `rows` and
    # `score` of x.
    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        pass

    # Describe the model's blocks for steps over runs of samples. Returns whether the model is linear or second-order.
    cdef bint describe(self, SampleRun* run) noexcept nogil:
        run.block = self.block
        run.before = NULL
        run.bias = 0 if self.has_bias else NO_BLOCK
        run.constant = run.beta = run.weights = NO_BLOCK
        run.fields = 0
        run.trains_beta = False
        return False

    # Whether a run may contain samples of these data.
    cdef bint takes_run_of(self, Dataset data):
        return True

    # Complete a solver's step; here, project the constrained rows.
    cdef void finish_update(self, Scratch* s) noexcept nogil:
        self.constrain()

    # Fill the buffers for the weights of block b with the derivatives of the scores. Called after `rows` of x, for the
    # columns of a block whose rows the model selects.
    cdef void weight_derivatives(self, int b, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        self.score(x, s)
        for c in range(self.outputs):
            s.slope[c] = 1
        self.gradient(x, s)


# x <- sample i of the data, or sample rows[i]; s.score <- its scores. Prefetches the rows of a later sample before
# `stop`.
cdef void score_sample(
    Model model, Dataset data, const int32_t* rows, Py_ssize_t i, Py_ssize_t stop, Sample* x, Scratch* s
) noexcept nogil:
    if i + SAMPLES_AHEAD < stop:
        data.sample(i + SAMPLES_AHEAD if rows == NULL else rows[i + SAMPLES_AHEAD], x)
        model.prefetch(x, s)
    data.sample(i if rows == NULL else rows[i], x)
    model.score(x, s)


# Prefetch the rows of a sample in a separate array.
cdef void prefetch_mapped(const VectorMemory* of, Py_ssize_t features, const Sample* x, int output) noexcept nogil:
    cdef Block alone = Block(
        of.base + output * of.output_stride, of.feature_stride, of.lanes, NULL, 0, features, 0, NULL)
    kernels.prefetch(&alone, x.index, x.nnz, 0)


cdef class ColumnModel(Model):
    """Base of models with fast derivatives for a row of parameters and all samples that it affects.

    Coordinate descent and Gibbs sampling use this interface. The state of a sample has its scores and a cache that the
    model defines: intermediate results that make the derivatives by one row cheap. A subclass defines `cache_size`,
    `fill_cache`, `score_gradient` and `update_cache`; with a cache of size 0, only `score_gradient` is needed. If
    scores are not affine in single parameters, it also defines `score_curvature`, and `score_changes` if changes of
    scores follow from the cache.
    """

    # The number of reals in a sample's cache per class; NONE to use `gradient` for these data.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return NONE

    # Fill the cache with the intermediate results that the other functions need. Called after `score` of x.
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
            score_sample(self, data, NULL, i, stop, &x, s)
            for c in range(self.outputs):
                scores_in(states, i)[c] = s.score[c]
                self.fill_cache(&x, s, c, cache_in(states, i, c))

    # Prefetch the states of the samples.
    cdef void prefetch_states(self, const ColumnView* v) noexcept nogil:
        kernels.prefetch_sample_states(v)

    # q <- the derivatives of the samples' scores by the row's parameters.
    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        pass

    # out <- the second derivatives by each single parameter, in the same order; False if they are all 0.
    cdef bint score_curvature(self, const ColumnView* v, real* out) noexcept nogil:
        return False

    # out[i] <- the exact change of the i-th score by a step; False if new scores are needed.
    cdef bint score_changes(self, const ColumnView* v, const real* step, double* out) noexcept nogil:
        return False

    # Update the caches for a step. Called before the parameters are updated.
    cdef void update_cache(self, const ColumnView* v, const real* step) noexcept nogil:
        pass


cdef class Joined:
    """The sums of parts of samples, for a model whose rows may have relations; the model has one as `joined`.

    A part is a set of entries that samples share. The cache of a sample is the sum of the caches of its parts, and its
    score is the sum of the parts' own scores, of the terms that all samples have, and of the inner product of the
    caches of each pair of parts. So a part affects a sample like one feature of value 1, with the part's cache as
    factors and its own score as the weight. RelatedSums, RelationRows and AllPairs depend on nothing else. A subclass
    defines `part`.

    The `sides` of a model may have fixed weights `beta` in the inner products. Then a cache has the sums, and after
    them the sums times beta.

    within : whether the features of a part interact with each other.
    """

    def __init__(self, ColumnModel model not None, within=True):
        self.model, self.within = model, within

    # The number of a part's sums.
    cdef Py_ssize_t size(self, Dataset data):
        return self.model.cache_size(data)

    # The weights of the sums in inner products; NULL: all are 1.
    cdef const real* beta(self, int output) noexcept nogil:
        return NULL

    # The linear score of a part, by the weights of a block, if it has some; with the bias if `common`.
    cdef double linear(self, int block, const Sample* x, int output, bint common) noexcept nogil:
        cdef double score = self.model.bias(output) if common else 0
        cdef Factors w = self.model.weights(block, output)
        return score if w.at == NULL else score + kernels.linear(&w, x)

    # sums <- the cache of a part with the entries of x; returns its own score, with the terms that all samples have if
    # `common`: it is as if the part had their features.
    cdef double part(self, const Sample* x, int output, bint common, real* sums) noexcept nogil:
        return 0
