from fmcli.base.types cimport Sample
from libc.stdint cimport int32_t


cdef extern from "fmcli/base/fields.h" nogil:
    struct Presence:
        Py_ssize_t slots
        int32_t* slot
        int32_t* field
        int32_t* count
        int32_t* end

    bint meets(const Presence* p, Py_ssize_t entry, Py_ssize_t q)
    Presence surveyed(const Sample* x, Py_ssize_t fields, int32_t* room)
    Presence survey(const Sample* x, Py_ssize_t fields, int32_t* room)
    Sample summed(const Sample* x, int32_t* index, float* value)
