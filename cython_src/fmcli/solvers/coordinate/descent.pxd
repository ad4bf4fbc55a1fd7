from fmcli.base.types cimport SampleStates
from fmcli.data.dataset cimport Dataset
from fmcli.penalties.arguments cimport PenaltyStrength
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport ColumnModel, Model
from fmcli.models.parameters cimport MAX_BLOCKS, Parameters
from fmcli.models.related.sums cimport RelatedTable
from fmcli.penalties.penalty cimport Penalty
from fmcli.solvers.coordinate.columns cimport Columns
from libcpp.vector cimport vector

# The largest set of a row's parameters in which scores are jointly affine: the whole row, one vector of its body, or a
# single parameter.
cdef enum Affine:
    IN_ROW
    IN_VECTOR
    IN_ONE


# The first doubles of a sample state: the label, the sample's share of the total weight, and the scores. The model's
# cache follows.
cdef enum:
    LABEL
    SHARE
    SCORES


# How the rows of a block are updated.
cdef struct BlockRule:
    Affine affine
    bint together   # all parameters of a row move at once, with one bound on their curvatures
    bint simplex    # the row is projected onto the simplex after a step
    bint of_kernels  # fitted weights of kernels, which move jointly with the bias
    PenaltyStrength body
    PenaltyStrength weight
    double group    # strength of the group penalty
    int group_penalty  # its position in the list of group_penalties.h
    double* moved   # of each row, if steps are watched: the largest change of one of its parameters,
    double* size    # and its largest parameter


cdef class Descent:
    cdef readonly Model model
    cdef ColumnModel by_column   # the model, if derivatives come from its functions for columns; else None
    cdef readonly Dataset data
    cdef readonly list columns
    cdef readonly list related   # RelationRows of each relation
    cdef vector[RelatedTable] tables
    cdef Loss loss
    cdef int generation          # of the model's rows when this object was made
    cdef Penalty penalty
    cdef readonly Parameters holds, pulls
    cdef bint bounded            # whether the curvature of the loss is bounded
    cdef double curvature
    cdef BlockRule rule[MAX_BLOCKS]
    cdef SampleStates states
    cdef object memory           # of the states; None: they are not allocated
    cdef double total_weight     # which the weights of samples are shares of
    cdef double nuclear          # the strength of the nuclear norm
    cdef int beta                # the block of fitted kernel weights, if that strength is not 0
    cdef double[:, ::1] norms    # |p_s|^2 of the kernels of each class
    cdef readonly list watched   # of each block, float64 (2, rows): moved and size of its rows

    cdef require(self)

    cdef inline double* sample_state(self, Py_ssize_t i) noexcept nogil:
        return <double*>(self.states.at + i * self.states.size)
