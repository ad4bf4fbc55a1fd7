from concurrent.futures import Executor
from threading import Barrier

import numpy as np
from numpy.typing import NDArray

from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.solvers.stochastic.sample_rounds import SampleRounds
from fmcli.solvers.stochastic.solver import Solver

class RoundLoop:
    def __init__(self, model: Model, solver: Solver, loss: Loss, threads: int = 1) -> None: ...
    @staticmethod
    def bytes_needed(model: Model, samples: int, entries: int) -> int: ...
    def train_on(
        self,
        pool: Executor,
        rounds: SampleRounds,
        order: NDArray[np.int32],
        start: int,
        stop: int,
        total: float = 0,
    ) -> float: ...
    def work(self, thread: int, together: Barrier, order: NDArray[np.int32], start: int, stop: int) -> None: ...

def takes_rounds(model: Model) -> bool: ...
