from fmcli.base.types cimport Block, Scratch
from fmcli.data.dataset cimport Dataset
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport Model
from fmcli.models.parameters cimport MAX_BLOCKS


cdef class Objective:
    cdef Model model
    cdef Loss loss
    cdef Dataset data
    cdef readonly Py_ssize_t size
    cdef double total_weight
    cdef int generation  # of the model's rows when this was made
    cdef Py_ssize_t begin[MAX_BLOCKS]  # of a block's numbers
    cdef Py_ssize_t width[MAX_BLOCKS]  # of a row

    cdef require(self)
    cdef void add(self, const Scratch* s, double* out) noexcept nogil
