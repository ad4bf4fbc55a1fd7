from fmcli.base.types cimport real
from fmcli.data.dataset cimport Dataset
from fmcli.kernels.simd cimport PenaltyStrength
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport MAX_BLOCKS, Model
from fmcli.penalties.penalty cimport Penalty
from fmcli.solvers.coordinate.columns cimport Columns

# How much of a row's parameters scores are affine in at a time.
cdef enum Affine:
    IN_ROW
    IN_PART
    IN_ONE


# A sample state's first numbers, then the model's part: label, share of all weight, and the scores.
cdef enum:
    LABEL
    SHARE
    SCORES


# How a block's rows are visited.
cdef struct BlockRule:
    Affine affine
    bint together   # all of a row's parameters move at once, by one bound on their curvatures
    bint simplex    # and are projected after a step
    bint of_kernels  # fitted weights of kernels, which the bias goes with
    PenaltyStrength body
    PenaltyStrength weight
    double group    # strength of a penalty of the row as a whole
    int group_penalty


cdef class Descent:
    cdef readonly Model model
    cdef readonly Dataset data
    cdef readonly list columns
    cdef readonly bint fast
    cdef Loss loss
    cdef int placed              # the model's, when this was made
    cdef Penalty penalty
    cdef bint bounded            # whether the loss has a largest curvature
    cdef double curvature
    cdef BlockRule rule[MAX_BLOCKS]
    cdef Py_ssize_t cache        # reals of the model's part of a sample state, in one class
    cdef Py_ssize_t header       # bytes of a sample state before the model's part
    cdef Py_ssize_t sample_state_size  # bytes
    cdef char* sample_states
    cdef object memory
    cdef double nuclear          # the penalty's strength
    cdef int beta                # the block of fitted kernel weights, where that strength is not 0
    cdef double[:, ::1] norms    # |p_s|^2 of each class's kernels

    cdef require(self)

    cdef inline double* sample_state(self, Py_ssize_t i) noexcept nogil:
        return <double*>(self.sample_states + i * self.sample_state_size)

    cdef inline real* cached(self, Py_ssize_t i, int output) noexcept nogil:
        return <real*>(self.sample_states + i * self.sample_state_size + self.header) + output * self.cache
