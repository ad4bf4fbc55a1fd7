from fmcli.models.arguments cimport KeptRows

cdef KeptRows kept_rows(array)
