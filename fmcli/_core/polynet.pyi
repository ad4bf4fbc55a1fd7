from collections.abc import Sequence
from typing import Literal

from fmcli._core.model import Model

_BetaStart = Literal["alternate", "ones", "random"]

class Products(Model):
    def __init__(
        self,
        features: int,
        outputs: int,
        rank: int,
        order: int,
        arrays: Sequence[str],
        *,
        bias: bool,
        linear: bool,
        gamma: int | tuple[int, int] | None = None,
        beta_start: _BetaStart | None = None,
        fit_beta: bool = True,
    ) -> None: ...

class PN(Products):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        order: int = 2,
        bias: bool = True,
        linear: bool = True,
        augment: bool = True,
        fit_beta: bool = True,
        beta_start: _BetaStart = "alternate",
    ) -> None: ...

class LiftedPN(Products):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        order: int = 2,
        bias: bool = True,
        linear: bool = True,
        augment: bool = True,
    ) -> None: ...
