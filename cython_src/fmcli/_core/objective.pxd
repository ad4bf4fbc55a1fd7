from fmcli._core.data cimport Dataset
from fmcli._core.loss cimport Loss
from fmcli._core.model cimport MAX_BLOCKS, Model
from fmcli._core.types cimport Block, Scratch


cdef class Objective:
    cdef Model model
    cdef Loss loss
    cdef Dataset data
    cdef readonly Py_ssize_t size
    cdef double mean_weight
    cdef int placed  # the model's, when this was made
    cdef Py_ssize_t begin[MAX_BLOCKS]  # of a block's numbers
    cdef Py_ssize_t width[MAX_BLOCKS]  # of a row

    cdef require(self)
    cdef void add(self, const Scratch* s, double* out) noexcept nogil
