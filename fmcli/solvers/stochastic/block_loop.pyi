from concurrent.futures import Executor
from threading import Barrier

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.solvers.stochastic.solver import Solver

class SampleBlocks:
    data: Dataset
    ends: NDArray[np.int64]
    longest: int
    most_entries: int
    mean_weight: float
    by_sample: bool
    def __init__(
        self, data: Dataset, ends: NDArray[np.int64], *, mean_weight: float = 1, by_sample: bool = False
    ) -> None: ...
    def __len__(self) -> int: ...
    def group(self, first: int, last: int) -> None: ...
    @property
    def weighted(self) -> bool: ...

class BlockLoop:
    def __init__(
        self, model: Model, solver: Solver, loss: Loss, blocks: SampleBlocks, curvature: float, threads: int = 1
    ) -> None: ...
    @staticmethod
    def bytes_needed(model: Model, samples: int, entries: int) -> int: ...
    def run(self, pool: Executor, order: NDArray[np.int32], start: int, stop: int, total: float = 0) -> float: ...
    def work(self, thread: int, together: Barrier, order: NDArray[np.int32], start: int, stop: int) -> None: ...

def takes_blocks(model: Model) -> bool: ...
