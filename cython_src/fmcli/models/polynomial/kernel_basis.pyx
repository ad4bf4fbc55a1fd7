"""A linear model plus weighted kernel functions of a few training samples. All weights are fitted in closed form."""

import math

import numpy as np

from fmcli.base.mixing import mixed
from fmcli.errors import UsageError
from fmcli.models.layout import BlockLayout

from fmcli.base.types cimport Factors, Sample, Scratch, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels
from fmcli.models.polynomial.kernels cimport MAX_ORDER
from fmcli.models.model cimport Model
from fmcli.models.workspace cimport Workspace, workspace_for
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

# The arrays of a model file with the landmarks' entries, sorted by feature (CSC).
INDPTR, LANDMARK, VALUE = "landmarks.indptr", "landmarks.row", "landmarks.value"


def distinct_rows(data, rows):
    """Return (int32) the first of each set of equal rows among the rows with these indices, in order. Rows count as
    equal if the sums of their entries' hashes are equal: in a million rows, two others have equal sums once in 10^7
    cases."""
    some = data.take(rows)
    value = np.ones(some.nnz, dtype=np.float32) if some.value is None else some.value
    bits = value.view(np.uint32).astype(np.uint64)
    bits += some.index.astype(np.uint64) << np.uint64(32)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed(bits), dtype=np.uint64)])
    first = np.unique(np.diff(sums[some.indptr]), return_index=True)[1]
    return rows[np.sort(first)]


cdef class KernelBasis(Model):
    """b + <w, x> + sum_s beta_s K(p_s, x), where the landmarks p_s are training samples ([PN] 9.4, which has no w).

    The kernel function of a landmark ignores the features that the landmark lacks; the linear weights model at least
    the main effects of these features. No solver trains this model: bias and beta are constants. They have double
    precision because beta can contain large numbers of both signs that almost cancel.

    Parameters
    ----------
    rank : the number of landmarks; if there are fewer distinct training samples, all of them are landmarks.
    kernel : "poly": (coef0 + <p, x>)^order; "anova": A^order of p and x, each with order - 1 ones appended.
    basis : the penalty on beta; only the fit uses it.
    linear : whether the model has linear weights w.
    """

    cdef readonly str basis
    cdef readonly Py_ssize_t rank
    cdef Py_ssize_t order
    cdef Py_ssize_t sums  # running sums per landmark while the entries of a sample are read
    cdef bint anova
    cdef double coef0, bias_
    cdef readonly object landmarks  # Dataset; only for a model that will be fitted
    cdef const int64_t[::1] indptr
    cdef const int32_t[::1] landmark
    cdef const float[::1] value
    cdef const double[::1] beta
    cdef double[::1] empty  # (rank, sums): the running sums before the first entry

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
        """The number of parameters; the landmarks count as dense."""
        return super().parameter_count + 1 + self.rank * (1 + self.features)

    def bytes_needed(self, int slots):
        """Return the bytes for the linear weights, and for sorting the landmarks by feature."""
        # For each entry: its position in the sort order, and the entry before and after sorting.
        entry = sizeof(int64_t) + 2 * (sizeof(int32_t) + sizeof(float))
        entries = 0 if self.landmarks is None else self.landmarks.nnz
        begins = (2 * sizeof(int64_t) + 1) * (self.features + 1)  # offsets, counts and a temporary of the check
        return super().bytes_needed(slots) + entry * entries + begins + 4 * sizeof(double) * self.rank * self.sums

    def prepare(self, source, generator):
        """Choose the landmarks."""
        data = source.data
        rows = distinct_rows(data, source.rows)
        if self.rank < len(rows):
            rows = np.sort(generator.choice(rows, self.rank, replace=False))
        self.landmarks, self.rank = data.take(rows), len(rows)

    def allocate(self, int slots):
        """Allocate the linear weights, and sort the entries of the landmarks by feature."""
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
        """Score from these arrays without a copy. Raises KeyError if one is missing, ValueError if they are
        inconsistent."""
        super().attach(arrays)
        self.keep(arrays)

    def keep(self, arrays):
        """Score from these constants. Raises KeyError if one is missing, ValueError if they are inconsistent."""
        indptr, landmark, value, beta, bias = [
            arrays[name] for name in (INDPTR, LANDMARK, VALUE, "beta", "bias")]
        for array, dtype in ((indptr, "int64"), (landmark, "int32"), (value, "float32"), (beta, "float64"),
                             (bias, "float64")):
            if array.dtype != dtype:
                raise ValueError(f"an array of the landmarks has type {array.dtype}, not {dtype}")
        if beta.ndim != 2 or beta.shape[0] != 1 or bias.shape != (1,):
            raise ValueError("beta and bias do not belong to one output")
        if indptr.shape != (self.features + 1,) or landmark.ndim != 1 or landmark.shape != value.shape or (
                indptr[0] != 0 or indptr[self.features] != len(landmark) or (indptr[1:] < indptr[:self.features]).any()
                or (len(landmark) and not 0 <= landmark.min() <= landmark.max() < beta.shape[1])):
            raise ValueError("the landmarks' entries do not fit the features and beta")
        self.rank = beta.shape[1]
        self.indptr, self.landmark, self.value, self.beta, self.bias_ = indptr, landmark, value, beta[0], bias[0]
        start = [math.comb(self.order - 1, t) for t in range(self.sums)] if self.anova else [0]
        self.empty = np.tile(np.array(start, dtype=np.float64), self.rank)
        self.constants = {INDPTR: indptr, LANDMARK: landmark, VALUE: value, "beta": beta, "bias": bias}

    def fit(self, double bias, beta):
        """Set the bias and the weights (rank) of the landmarks."""
        self.keep({**self.constants, "bias": np.array([bias]), "beta": np.array([beta], dtype=np.float64)})

    def export_needed(self):
        return np.dtype(np.float64).itemsize * self.rank * self.features

    def exported(self):
        """Return w (1, features) if the model has linear weights; bias (1), beta (1, rank), landmarks (rank,
        features)."""
        self.require()
        landmarks = np.zeros((self.rank, self.features))
        landmarks[self.landmark, np.repeat(np.arange(self.features), np.diff(self.indptr))] = self.value
        fitted = {name: self.constants[name] for name in ("bias", "beta")}
        return {**self.parameters, **fitted, "landmarks": landmarks}

    def split(self):
        raise UsageError(
            "kernel-basis compares a row with whole training rows: its score is not a sum of terms of few features")

    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return self.rank * self.sums * sizeof(double) // sizeof(real)

    # s.work <- `sums` running sums per landmark. The last one is the kernel value; for "poly" it is <p, x>.
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
        """Compute out (rows, rank) <- K(x, p) for these rows x of the data and the landmarks p."""
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
