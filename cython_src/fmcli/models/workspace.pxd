from fmcli.base.types cimport Scratch
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport Model


cdef class Workspace:
    cdef Scratch scratch
    cdef list memory
    cdef Model model
    cdef int generation
    cdef fit(self, Model model, Dataset data)


cdef Workspace workspace_for(Model model, Dataset data, bint gradients=*)
