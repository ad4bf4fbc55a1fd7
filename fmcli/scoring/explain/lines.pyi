from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.numbering import Numbering

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

MAIN: int
INTERACTION: int
DEGREE: int
REST: int

class Writer:
    def __init__(
        self,
        numbering: Numbering | Dictionary | None,
        classes: Sequence[str] | None,
        json: bool,
        with_fields: bool,
        doubles: bool = False,
    ) -> None: ...
    def text(
        self,
        first: int,
        data: Dataset,
        keys: Sequence[bytes] | None,
        score: Floats,
        base: Floats,
        share: Floats,
        more: tuple[Numbers, NDArray[np.int32], Floats, Numbers, Numbers] | None = None,
    ) -> bytes: ...

def text_of(key: bytes, json: bool) -> bytes: ...
def clean(dictionary: Dictionary) -> tuple[NDArray[np.uint8], Numbers]: ...
