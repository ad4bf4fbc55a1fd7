from fmcli.solvers.stochastic.solver import Solver

class AdaGrad(Solver):
    def __init__(
        self, *, learning_rate: float, learning_rate_w: float | None = None, learning_rate_v: float | None = None
    ) -> None: ...
