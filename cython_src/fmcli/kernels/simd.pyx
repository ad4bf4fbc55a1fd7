"""The table of hot functions for this machine, and the real type of this build."""

import os

from fmcli.errors import UsageError

# The value of FMCLI_REAL in this build: the type of parameters, solver state and gradients.
REAL = "float" if sizeof(real) == sizeof(float) else "double"
LEVELS = ("v3", "baseline")


cdef const Kernels* choose() except NULL:
    cdef const Kernels* table
    wanted = os.environ.get("FMCLI_ISA", "")
    for name in (wanted,) if wanted else LEVELS:
        table = fmcli_kernels(name.encode())
        if table != NULL:
            return table
    raise UsageError(
        f"FMCLI_ISA is {wanted!r}, which this machine does not have; "
        f"it can be unset or one of: {', '.join(available())}"
    )


def available() -> tuple:
    """Return names of the instruction-set levels that this machine and build support, best first."""
    return tuple(name for name in LEVELS if fmcli_kernels(name.encode()) != NULL)


kernels = choose()
ISA = kernels.name.decode()
