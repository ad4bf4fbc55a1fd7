from libc.math cimport pow
from libc.stdint cimport int64_t

cdef enum Kind:
    CONSTANT
    INVSCALING
    INVERSE


cdef struct Schedule:
    Kind kind
    double rate, power, t0


cdef inline double rate_at(const Schedule* schedule, int64_t t) noexcept nogil:
    """The learning rate of update t, counted from 1."""
    if schedule.kind == CONSTANT:
        return schedule.rate
    if schedule.kind == INVSCALING:
        return schedule.rate / pow(<double>t, schedule.power)
    return schedule.rate / (t + schedule.t0)


cdef inline Schedule make_schedule(object name, double rate, double power, double t0):
    return Schedule({"constant": CONSTANT, "invscaling": INVSCALING, "inverse": INVERSE}[name], rate, power, t0)
