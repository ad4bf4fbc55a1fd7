"""A model in other programs' terms: the parameters of one linear model, FM or FFM."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fmcli.records import dataclass

LINEAR, FM, FFM = "linear", "fm", "ffm"


@dataclass(frozen=True)
class ExternalModel:
    """The parameters, with the numbers of feature j at index j, and how rows are scored.

    kind : LINEAR, FM or FFM.
    features : the number of features.
    bias : None: there is none.
    w : (features); None: there are no linear weights.
    V : (features, rank), or for FFM (features, fields, rank); None for LINEAR.
    norm : whether rows are scaled to unit length; None: the file does not say.
    squares : AdaGrad's sum of squared gradients for each number of V, without its initial 1; None: the file has no
        sums.
    """

    kind: str
    features: int
    bias: float | None = None
    w: NDArray[Any] | None = None
    V: NDArray[Any] | None = None
    norm: bool | None = None
    squares: NDArray[Any] | None = None

    @property
    def fields(self) -> int:
        """The number of fields; 0 if there are none."""
        return self.V.shape[1] if self.V is not None and self.kind == FFM else 0

    @property
    def rank(self) -> int:
        """The number of factors; 0 if there are none."""
        return 0 if self.V is None else int(self.V.shape[-1])
