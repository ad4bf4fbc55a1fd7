from fmcli.kernels.arguments cimport *
from fmcli.kernels.table cimport Kernels


cdef extern from "fmcli/kernels/kernels.h" nogil:
    const Kernels* fmcli_kernels(const char* name)


cdef const Kernels* kernels
