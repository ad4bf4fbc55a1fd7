from typing import Any

import numpy as np
from numpy.typing import NDArray

HALF: np.dtype[Any]

def widened(array: NDArray[Any], axis: int = 0, columns: NDArray[np.int32] | None = None) -> NDArray[Any]: ...
