from fmcli.kernels.simd cimport PenaltyStrength
from fmcli.models.model cimport Model


cdef class Penalty:
    cdef readonly double l1_w, l1_v, l2_w, l2_v, group_l1, nuclear

    cdef readonly Py_ssize_t l1_from_epoch, epochs

    cdef double group_on(self, object layout)
    cdef PenaltyStrength strength(self, object layout, bint body)
    cdef mark_groups(self, Model model)
