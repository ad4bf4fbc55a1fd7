from fmcli.base.types cimport real


cdef void project_to_simplex(real* theta, Py_ssize_t n) noexcept nogil
