import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset

def first_fields(data: Dataset, rows: NDArray[np.int32], features: NDArray[np.int32]) -> NDArray[np.int32]: ...
def together(data: Dataset, features: NDArray[np.int32]) -> NDArray[np.int32]: ...
