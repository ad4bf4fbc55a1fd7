from typing import Literal

from fmcli._core.model import Model

_BetaStart = Literal["alternate", "ones", "random"]

class SecondOrder(Model):
    def __init__(
        self,
        features: int,
        outputs: int,
        rank: int,
        *,
        bias: bool,
        linear: bool = False,
        constant: bool = False,
        beta_start: _BetaStart | None = None,
        fit_beta: bool = True,
    ) -> None: ...

class FM(SecondOrder):
    def __init__(self, features: int, outputs: int, *, rank: int, bias: bool = True, linear: bool = True) -> None: ...

class Anova(SecondOrder):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        bias: bool = True,
        linear: bool = True,
        fit_beta: bool = True,
        beta_start: _BetaStart = "alternate",
    ) -> None: ...

class SHFM(SecondOrder):
    def __init__(self, features: int, outputs: int, *, rank: int, bias: bool = True) -> None: ...

class SHA2(SecondOrder):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        bias: bool = True,
        fit_beta: bool = True,
        beta_start: _BetaStart = "alternate",
    ) -> None: ...
