from fmcli.base.types cimport Sample
from libc.stdint cimport int32_t


cdef extern from "fmcli/base/fields.h" nogil:
    struct FieldEntries:
        Py_ssize_t slots
        int32_t* slot
        int32_t* field
        int32_t* count
        int32_t* end

    ctypedef unsigned short Place

    enum:
        SEVERAL

    bint has_partner(const FieldEntries* p, Py_ssize_t entry, Py_ssize_t q)
    bint all_single(const Sample* x, const FieldEntries* p)
    FieldEntries grouped_in(const Sample* x, Py_ssize_t fields, int32_t* room)
    FieldEntries group_by_field(const Sample* x, Py_ssize_t fields, int32_t* room)
    void place_by_field(const Sample* x, Py_ssize_t fields, Place* place)
    Sample summed(const Sample* x, int32_t* index, float* value)
