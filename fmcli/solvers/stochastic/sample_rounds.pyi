import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset

class BucketRoom:
    def __init__(self, features: int) -> None: ...
    @staticmethod
    def bytes_needed(features: int, entries: int) -> int: ...

class SampleRounds:
    data: Dataset
    ends: NDArray[np.int64]
    longest: int
    most_entries: int
    mean_weight: float
    by_sample: bool
    def __init__(
        self,
        data: Dataset,
        ends: NDArray[np.int64],
        *,
        mean_weight: float = 1,
        by_sample: bool = False,
        room: BucketRoom | None = None,
    ) -> None: ...
    @staticmethod
    def bytes_needed(data: Dataset) -> int: ...
    def __len__(self) -> int: ...
