from typing import Literal

REAL: Literal["float", "double"]
LEVELS: tuple[str, ...]
ISA: str
"""The level that was chosen: the best there is, or what FMCLI_ISA says."""

def available() -> tuple[str, ...]: ...
