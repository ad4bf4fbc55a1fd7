"""A linear model plus weighted kernel functions of a few training rows: all weights are fitted in closed form."""

import math

import numpy as np

from fmcli.models.layout import BlockLayout

from fmcli.base.types cimport Factors, Sample, Scratch, real
from fmcli.data.dataset cimport Dataset
from fmcli.kernels.simd cimport MAX_ORDER, kernels
from fmcli.models.model cimport Model, Workspace, workspace_for
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

# Where a landmark's entries lie in a model file: by feature, and the landmark and the value of each.
INDPTR, LANDMARK, VALUE = "landmarks.indptr", "landmarks.row", "landmarks.value"


cdef class KernelBasis(Model):
    """b + <w, x> + sum_s beta_s K(p_s, x), the landmarks p_s being training rows ([PN] 9.4 without w).

    A landmark's kernel function says nothing of features that it lacks; the linear weights say at least their own
    effects. No solver trains it: bias and beta are constants, in double, for beta may be large numbers of both signs
    that almost cancel.

    Parameters
    ----------
    rank : number of landmarks; all training rows where they are fewer.
    kernel : "poly": (coef0 + <p, x>)^order; "anova": A^order with order - 1 ones appended to both.
    basis : what the penalty on beta is; for who fits them.
    linear : whether there are linear weights w.
    """

    cdef readonly str basis
    cdef readonly Py_ssize_t rank
    cdef Py_ssize_t order
    cdef Py_ssize_t sums  # numbers that a landmark keeps while a sample's entries are visited
    cdef bint anova
    cdef double coef0, bias_
    cdef readonly object landmarks  # Dataset, of a model to be fitted
    cdef const int64_t[::1] indptr
    cdef const int32_t[::1] landmark
    cdef const float[::1] value
    cdef const double[::1] beta
    cdef double[::1] empty  # (rank, sums): the numbers before the first entry

    def __init__(self, features, outputs, *, rank, basis="nystrom", kernel="poly", coef0=1.0, order=2,
                 linear=True):
        super().__init__(features, outputs, [BlockLayout(weight="w")] if linear else [])
        if not (1 <= order <= MAX_ORDER and rank >= 0):
            raise ValueError(f"order is {order}, and rank {rank}; order must be 1 to {MAX_ORDER}")
        self.rank, self.basis, self.order, self.coef0 = rank, basis, order, coef0
        self.anova = kernel == "anova"
        self.sums = order + 1 if self.anova else 1

    @property
    def parameter_count(self):
        """Number of parameters, the landmarks' as if none were 0."""
        return super().parameter_count + 1 + self.rank * (1 + self.features)

    def bytes_needed(self, int slots):
        """Bytes that the linear weights take, and the landmarks by feature while they are made."""
        # An entry's place in order, and itself before and after.
        entry = sizeof(int64_t) + 2 * (sizeof(int32_t) + sizeof(float))
        entries = 0 if self.landmarks is None else self.landmarks.nnz
        begins = (2 * sizeof(int64_t) + 1) * (self.features + 1)  # where entries begin, how many they are, and a check
        return super().bytes_needed(slots) + entry * entries + begins + 4 * sizeof(double) * self.rank * self.sums

    def prepare(self, data, rows, generator):
        """Choose the landmarks."""
        if self.rank < len(rows):
            rows = np.sort(generator.choice(rows, self.rank, replace=False))
        self.landmarks, self.rank = data.take(rows), len(rows)

    def allocate(self, int slots):
        """Make the linear weights, and sort the landmarks' entries by feature."""
        super().allocate(slots)
        data = self.landmarks
        order = np.argsort(data.index, kind="stable")
        owner = np.repeat(np.arange(self.rank, dtype=np.int32), np.diff(data.indptr))
        values = np.ones(data.nnz, dtype=np.float32) if data.value is None else data.value
        indptr = np.zeros(self.features + 1, dtype=np.int64)
        np.cumsum(np.bincount(data.index, minlength=self.features), out=indptr[1:])
        self.keep({INDPTR: indptr, LANDMARK: owner[order], VALUE: values[order],
                   "beta": np.zeros((1, self.rank)), "bias": np.zeros(1)})

    def attach(self, arrays):
        """Score from arrays as they are. Raises ValueError where they contradict each other, KeyError."""
        super().attach(arrays)
        self.keep(arrays)

    def keep(self, arrays):
        """Score from these constants. Raises ValueError where they contradict each other, KeyError."""
        indptr, landmark, value, beta, bias = [
            arrays[name] for name in (INDPTR, LANDMARK, VALUE, "beta", "bias")]
        for array, dtype in ((indptr, "int64"), (landmark, "int32"), (value, "float32"), (beta, "float64"),
                             (bias, "float64")):
            if array.dtype != dtype:
                raise ValueError(f"the landmarks have an array of {array.dtype} in place of {dtype}")
        if beta.ndim != 2 or beta.shape[0] != 1 or bias.shape != (1,):
            raise ValueError("beta and bias are not those of one output")
        if indptr.shape != (self.features + 1,) or landmark.ndim != 1 or landmark.shape != value.shape or (
                indptr[0] != 0 or indptr[self.features] != len(landmark) or (indptr[1:] < indptr[:self.features]).any()
                or (len(landmark) and not 0 <= landmark.min() <= landmark.max() < beta.shape[1])):
            raise ValueError("the landmarks' entries are not those of the features and of beta")
        self.rank = beta.shape[1]
        self.indptr, self.landmark, self.value, self.beta, self.bias_ = indptr, landmark, value, beta[0], bias[0]
        start = [math.comb(self.order - 1, t) for t in range(self.sums)] if self.anova else [0]
        self.empty = np.tile(np.array(start, dtype=np.float64), self.rank)
        self.constants = {INDPTR: indptr, LANDMARK: landmark, VALUE: value, "beta": beta, "bias": bias}

    def fit(self, double bias, beta):
        """Take a bias and weights (rank) of the landmarks."""
        self.keep({**self.constants, "bias": np.array([bias]), "beta": np.array([beta], dtype=np.float64)})

    def export_needed(self):
        return np.dtype(np.float64).itemsize * self.rank * self.features

    def exported(self):
        """w (1, features) if there are linear weights; bias (1), beta (1, rank), landmarks (rank, features)."""
        self.require()
        landmarks = np.zeros((self.rank, self.features))
        landmarks[self.landmark, np.repeat(np.arange(self.features), np.diff(self.indptr))] = self.value
        fitted = {name: self.constants[name] for name in ("bias", "beta")}
        return {**self.parameters, **fitted, "landmarks": landmarks}

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.rank * self.sums * sizeof(double) // sizeof(real)

    # s.work <- for each landmark, `sums` numbers, the last of which is the kernel, before its power.
    cdef double* visit(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef double* sums = <double*>s.work
        cdef double* e
        cdef double a
        cdef Py_ssize_t i, at, t
        if self.rank:
            memcpy(sums, &self.empty[0], self.rank * self.sums * sizeof(double))
        for i in range(x.nnz):
            for at in range(self.indptr[x.index[i]], self.indptr[x.index[i] + 1]):
                e = sums + self.landmark[at] * self.sums
                a = <double>self.value[at] * x.value[i]
                if not self.anova:
                    e[0] += a
                    continue
                for t in range(self.order, 0, -1):
                    e[t] += a * e[t - 1]
        return sums

    cdef double kernel(self, const double* sums, Py_ssize_t landmark) noexcept nogil:
        cdef double value = 1, base = self.coef0 + sums[landmark]
        cdef Py_ssize_t _
        if self.anova:
            return sums[(landmark + 1) * self.sums - 1]
        for _ in range(self.order):
            value *= base
        return value

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef Py_ssize_t i
        cdef const double* sums = self.visit(x, s)
        cdef Factors w
        s.score[0] = self.bias_
        if self.n_blocks:
            w = self.weights(0, 0)
            s.score[0] += kernels.linear(&w, x)
        for i in range(self.rank):
            s.score[0] += self.beta[i] * self.kernel(sums, i)

    def kernels(self, Dataset data, const int32_t[::1] rows, double[:, ::1] out):
        """out (rows, rank) <- K of these rows of the data and the landmarks."""
        cdef Workspace workspace = workspace_for(self, data, gradients=False)
        cdef const double* sums
        cdef Sample x
        cdef Py_ssize_t i, j
        if out.shape[0] < rows.shape[0] or out.shape[1] < self.rank:
            raise ValueError("the array is too small")
        data.check_rows(rows)
        with nogil:
            for i in range(rows.shape[0]):
                data.sample(rows[i], &x)
                sums = self.visit(&x, &workspace.scratch)
                for j in range(self.rank):
                    out[i, j] = self.kernel(sums, j)
