import numpy as np
from numpy.typing import NDArray

from fmcli._core.model import Model

class Penalty:
    def __init__(
        self,
        *,
        l1_w: float = 0,
        l1_v: float = 0,
        l2_w: float = 0,
        l2_v: float = 0,
        group_l1: float = 0,
        nuclear: float = 0,
    ) -> None: ...
    @property
    def l1_w(self) -> float: ...
    @property
    def l1_v(self) -> float: ...
    @property
    def l2_w(self) -> float: ...
    @property
    def l2_v(self) -> float: ...
    @property
    def group_l1(self) -> float: ...
    @property
    def nuclear(self) -> float: ...
    def kernel_norms(self, model: Model) -> NDArray[np.float64]: ...
    def value(self, model: Model) -> float: ...
