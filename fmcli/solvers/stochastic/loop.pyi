import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.solvers.stochastic.solver import Solver

class RowLoop:
    def __init__(
        self,
        model: Model,
        solver: Solver,
        loss: Loss,
        data: Dataset,
        batch_size: int = 1,
        mean_weight: float = 1,
        longest: int = 0,
        *,
        pairs: bool = False,
    ) -> None: ...
    def take(self, data: Dataset) -> None: ...
    @property
    def single(self) -> bool: ...
    @property
    def by_runs(self) -> bool: ...
    def train_on(
        self,
        order: NDArray[np.int32],
        start: int,
        stop: int,
        total: float = 0,
        partner: NDArray[np.int32] | None = None,
    ) -> float: ...
