import numpy as np
from numpy.typing import NDArray

def distinct(ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
