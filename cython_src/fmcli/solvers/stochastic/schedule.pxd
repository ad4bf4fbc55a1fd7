from libc.math cimport pow
from libc.stdint cimport int64_t

cdef enum Kind:
    CONSTANT
    INVSCALING
    INVERSE


cdef struct Schedule:
    Kind kind
    double power, t0


cdef inline double share_at(const Schedule* schedule, int64_t t) noexcept nogil:
    """The factor of the learning rates in update t, counted from 1."""
    if schedule.kind == CONSTANT:
        return 1
    if schedule.kind == INVSCALING:
        return pow(<double>t, -schedule.power)
    return 1 / (t + schedule.t0)


cdef inline Schedule make_schedule(object name, double power, double t0):
    return Schedule({"constant": CONSTANT, "invscaling": INVSCALING, "inverse": INVERSE}[name], power, t0)
