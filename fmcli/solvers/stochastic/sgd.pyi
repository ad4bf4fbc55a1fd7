from typing import Literal

from fmcli.solvers.stochastic.solver import Solver

class SGD(Solver):
    def __init__(
        self,
        *,
        learning_rate: float,
        learning_rate_w: float | None = None,
        learning_rate_v: float | None = None,
        schedule: Literal["constant", "invscaling", "inverse"] = "constant",
        power: float = 0.5,
        t0: float = 1,
    ) -> None: ...
