import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.models.related.sums import RelatedSums
from fmcli.models.workspace import Workspace

Floats = NDArray[np.float64]

def scores(
    model: Model,
    data: Dataset,
    workspace: Workspace,
    start: int,
    stop: int,
    out: Floats,
    rows: NDArray[np.int32] | None = None,
) -> None: ...
def joined_scores(
    parts: list[RelatedSums],
    data: Dataset,
    workspace: Workspace,
    start: int,
    stop: int,
    out: Floats,
    rows: NDArray[np.int32] | None = None,
) -> None: ...
def losses(loss: Loss, label: Floats, score: Floats, out: Floats) -> None: ...
def mean_loss(loss: Loss, label: Floats, score: Floats, weight: Floats | None = None) -> float: ...
def partition(label: Floats, score: Floats, out: Floats) -> int: ...
def merged_counts(a: Floats, b: Floats, distinct: Floats, of_a: Floats, of_b: Floats) -> int: ...
