"""The probability simplex."""

from fmcli.base.types cimport real

# Spacing of reals at 1.
cdef double SPACING = 2.0**-23 if sizeof(real) == sizeof(float) else 2.0**-52


cdef void project_to_simplex(real* theta, Py_ssize_t n) noexcept nogil:
    """theta <- the point of {theta >= 0, sum theta = 1} that is nearest to it.

    The answer is max(theta - tau, 0) with tau = (sum of the entries above tau - 1) / their number. Starting from all
    entries, tau only grows and entries only drop out, so at most n rounds find it. A theta that is not finite has no
    such point and stays as it is; so does one that lies there as closely as reals can tell, lest projecting it again,
    as a run does that resumes, would move it.
    """
    cdef double tau, sum = 0
    cdef Py_ssize_t i, kept = n, before = n + 1
    cdef bint inside = True
    for i in range(n):
        sum += theta[i]
        inside = inside and theta[i] >= 0
    tau = (sum - 1) / n
    if inside and -SPACING <= tau <= SPACING:
        return
    while kept < before:
        before, kept, sum = kept, 0, 0
        for i in range(n):
            if theta[i] > tau:
                kept += 1
                sum += theta[i]
        if kept == 0:
            return
        tau = (sum - 1) / kept
    for i in range(n):
        theta[i] = <real>(theta[i] - tau) if theta[i] > tau else 0
