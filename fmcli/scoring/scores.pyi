import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model, Workspace

def scores(
    model: Model, data: Dataset, workspace: Workspace, start: int, stop: int, out: NDArray[np.float64]
) -> None: ...
def mean_loss(
    loss: Loss, label: NDArray[np.float64], score: NDArray[np.float64], weight: NDArray[np.float64] | None = None
) -> float: ...
