import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset

def centered(data: Dataset, divisors: NDArray[np.float32], centers: NDArray[np.float32]) -> Dataset: ...
