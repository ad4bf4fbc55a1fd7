from libc.stdint cimport int32_t


cdef extern from "types.h" nogil:
    ctypedef double real  # float or double, as built: Cython needs only to know that it is a real number

    struct Sample:
        const int32_t* index
        const int32_t* field
        const float* value
        Py_ssize_t nnz
