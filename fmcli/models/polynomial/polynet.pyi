from collections.abc import Sequence
from typing import Literal

from fmcli.models.weighted import Beta, Weighted

class Products(Weighted):
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
        beta: Beta | None = None,
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
        fit_beta: bool | None = None,
        beta_start: Literal["alternate", "ones", "random"] | None = None,
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
