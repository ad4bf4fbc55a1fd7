cdef extern from "fmcli/penalties/group.h" nogil:
    double group_norm_of(const double* c, const double* d, Py_ssize_t n, double group)
