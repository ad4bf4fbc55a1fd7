"""Models whose scores have derivatives by columns, which are the samples that a row of parameters affects."""

from fmcli.base.types cimport ColumnView, Sample, SampleStates, Scratch, cache_in, real, scores_in
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport NONE, SAMPLES_AHEAD, Model


cdef class ColumnModel(Model):
    """Base of models with fast derivatives for a row of parameters and all samples that it affects.

    Coordinate descent and Gibbs sampling use this interface. The state of a sample has its scores and a cache, which
    the model defines: intermediate results, from which the derivatives by one row follow in little time. A subclass
    defines `cache_size`, `fill_cache`, `score_gradient` and `update_cache`; without a cache, its size is 0, and only
    `score_gradient` is needed. If scores are not affine in single parameters, it also defines `score_curvature`, and
    `score_changes` if changes of scores follow from the cache.
    """

    # The number of reals in a sample's cache for each class; NONE if `gradient` is to be used for these data.
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


cdef class Joined:
    """The sums of parts of samples, for a model whose rows may have relations; a model has one as `joined`.

    A part is some entries that samples have in common. The cache of a sample is the sum of the caches of its parts, and
    its score is the sum of their own scores, of what all samples have, and of the inner product of the caches of each
    pair of parts. So a part affects a sample like one feature of value 1, whose factors are the cache of the part, and
    whose weight is its own score. RelatedSums and RelationRows depend on nothing else. A subclass defines `part`.
    """

    def __init__(self, ColumnModel model not None):
        self.model = model

    # sums <- the cache of a part, which has the entries of x; returns its own score, without what all samples have.
    cdef double part(self, const Sample* x, int output, real* sums) noexcept nogil:
        return 0
