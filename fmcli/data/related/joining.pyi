from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset

def joined(data: Dataset, relations: Sequence[tuple[Dataset, NDArray[np.int32]]]) -> Dataset: ...
