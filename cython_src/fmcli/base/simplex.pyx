"""The probability simplex."""

from fmcli.base.types cimport real

# Spacing of reals at 1.
cdef double SPACING = 2.0**-23 if sizeof(real) == sizeof(float) else 2.0**-52


cdef void project_to_simplex(real* theta, Py_ssize_t n) noexcept nogil:
    """Replace theta by its projection onto the probability simplex {theta >= 0, sum theta = 1}.

    The projection is max(theta - tau, 0) with tau = (sum of the entries above tau - 1) / their number. The iteration
    starts from all entries; tau only increases and entries only drop out, so it ends after at most n rounds. A theta
    that is not finite has no projection and is unchanged. A theta in the simplex up to rounding is unchanged, too:
    otherwise resuming a run, which projects theta again, would change it.
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
