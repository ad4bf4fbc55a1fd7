"""The choice of the instruction set for the kernels of all folders, and the real type of this build."""

import os

from fmcli.errors import UsageError

from fmcli.base.types cimport real


cdef extern from "fmcli/kernels/levels.h" nogil:
    bint has_v3()


# The value of FMCLI_REAL in this build: the type of parameters, solver state and gradients.
REAL = "float" if sizeof(real) == sizeof(float) else "double"
LEVELS = ("v3", "baseline")


def available() -> tuple:
    """Return names of the instruction-set levels that this machine and build support, best first."""
    return tuple(name for name in LEVELS if name == "baseline" or has_v3())


cdef str choose():
    """Return the level that FMCLI_ISA names, or the best one."""
    wanted = os.environ.get("FMCLI_ISA", "")
    if not wanted:
        return available()[0]
    if wanted not in available():
        raise UsageError(
            f"FMCLI_ISA is {wanted!r}, which this machine does not have; "
            f"it can be unset or one of: {', '.join(available())}"
        )
    return wanted


ISA = choose()
