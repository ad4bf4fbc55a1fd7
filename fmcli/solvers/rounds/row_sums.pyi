from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.models.parameters import Parameters
from fmcli.solvers.stochastic.solver import Solver

class BlockSums(NamedTuple):
    rows: NDArray[np.int32]
    body: NDArray[Any]
    body_squares: NDArray[Any]
    weight: NDArray[Any]
    weight_squares: NDArray[Any]
    samples: NDArray[np.int32]
    curvature: NDArray[np.float64]

def row_sums(
    model: Model, loss: Loss, data: Dataset, mean_weight: float, shares: Sequence[int]
) -> tuple[NDArray[np.float64], list[tuple[BlockSums, NDArray[np.int64]]]]: ...
def new_sums(rows: NDArray[np.int32], lanes: int) -> BlockSums: ...
def added_sums(shares: Sequence[BlockSums]) -> BlockSums: ...
def step_by_sums(model: Parameters, solver: Solver, loss: Loss, block: int, sums: BlockSums) -> None: ...
