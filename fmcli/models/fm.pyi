from typing import Literal

from fmcli.models.layout import BlockLayout
from fmcli.models.model import Joined
from fmcli.models.weighted import Beta, Weighted

class SecondOrder(Weighted):
    def __init__(
        self,
        features: int,
        outputs: int,
        rank: int,
        *,
        bias: bool,
        linear: bool = False,
        constant: BlockLayout | None = None,
        beta: Beta | None = None,
    ) -> None: ...

class JoinedPairs(Joined): ...

class FM(SecondOrder):
    def __init__(self, features: int, outputs: int, *, rank: int, bias: bool = True, linear: bool = True) -> None: ...
    @property
    def joined(self) -> JoinedPairs: ...

def constant_row(rank: int) -> BlockLayout: ...

class SHFM(SecondOrder):
    def __init__(self, features: int, outputs: int, *, rank: int, bias: bool = True) -> None: ...
    @property
    def joined(self) -> JoinedPairs: ...

class SHA2(SecondOrder):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        bias: bool = True,
        fit_beta: bool | None = None,
        beta_start: Literal["alternate", "ones", "random"] | None = None,
    ) -> None: ...
