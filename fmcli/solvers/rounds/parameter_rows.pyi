from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.models.layout import BlockLayout
from fmcli.models.parameters import Parameters

def rows_of(
    layout: BlockLayout, outputs: int, features: int, columns: NDArray[np.int32] | None
) -> NDArray[np.int32]: ...
def read_rows(model: Parameters, b: int, rows: NDArray[np.int32]) -> NDArray[Any]: ...
def write_rows(model: Parameters, b: int, values: NDArray[Any]) -> None: ...
