from fmcli.penalties.arguments cimport ExactStrength


cdef class Penalty:
    cdef readonly double l1_w, l1_v, l2_w, l2_v, group, nuclear
    cdef readonly object group_option  # the option of the active group penalty, or None
    cdef int group_penalty             # its position in the list of group_penalties.h

    cdef readonly Py_ssize_t l1_from_epoch, epochs

    cdef ExactStrength strength(self, object layout, bint body)
