from fmcli._core.solver import Solver

class AdaGrad(Solver):
    def __init__(self, *, learning_rate: float) -> None: ...
