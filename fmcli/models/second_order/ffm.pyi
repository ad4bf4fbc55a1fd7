import numpy as np
from numpy.typing import NDArray

from fmcli.models.model import ColumnModel

CLEARED_ROWS: int
MOST_ROWS: int

class FFM(ColumnModel):
    def marks(self, features: slice) -> NDArray[np.bool_]: ...
