import numpy as np
from numpy.typing import NDArray

from fmcli.models.model import ColumnModel

CLEARED_ROWS: int
MOST_ROWS: int

class FFM(ColumnModel):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        bias: bool = True,
        linear: bool = True,
        fields: int = 0,
        by_row: bool = False,
    ) -> None: ...
    def marks(self, features: slice) -> NDArray[np.bool_]: ...
