from fmcli.solvers.stochastic.solver import Solver

class FTRL(Solver):
    def __init__(
        self,
        *,
        alpha: float,
        alpha_w: float | None = None,
        alpha_v: float | None = None,
        beta: float,
        ftrl_power: float,
    ) -> None: ...
