from fmcli.base.types cimport Scratch
from fmcli.models.model cimport Model
from libc.stdint cimport int32_t, uint8_t


cdef class Batch:
    cdef readonly Py_ssize_t size
    cdef Scratch merged
    cdef Model model
    cdef list memory
    cdef int32_t** place  # of a gradient: row id -> its position in the merged gradient, or -1
    cdef uint8_t** marks  # of a gradient: which parts of a body its rows have touched

    cdef void add(self, const Scratch* s) noexcept nogil
    cdef void clear(self) noexcept nogil
