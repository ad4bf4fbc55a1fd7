from collections.abc import Sequence
from typing import Literal

from fmcli.models.layout import BlockLayout
from fmcli.models.model import ColumnModel
from fmcli.models.weighted import Beta, Weighted

LARGEST_ORDER: int

class HigherOrder(Weighted):
    def __init__(
        self,
        features: int,
        outputs: int,
        factors: Sequence[tuple[str, int, int]],
        *,
        bias: bool,
        linear: bool = False,
        constants: bool = False,
        simplex: bool = False,
        beta: Beta | None = None,
    ) -> None: ...

def constant_rows(order: int, rank: int) -> BlockLayout: ...
def anova(
    features: int,
    outputs: int,
    *,
    rank: int,
    order: int = 2,
    bias: bool = True,
    linear: bool = True,
    augment: bool = False,
    fit_beta: bool | None = None,
    beta_start: Literal["alternate", "ones", "random"] | None = None,
) -> Weighted: ...

class HOFM(HigherOrder):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int | Sequence[int],
        order: int = 3,
        bias: bool = True,
        linear: bool = True,
    ) -> None: ...

class HOFMShared(HigherOrder):
    def __init__(self, features: int, outputs: int, *, rank: int, order: int = 3, bias: bool = True) -> None: ...

class HOFMSimplex(HigherOrder):
    def __init__(self, features: int, outputs: int, *, rank: int, order: int = 2, bias: bool = True) -> None: ...

class AllSubsets(ColumnModel):
    def __init__(self, features: int, outputs: int, *, rank: int, bias: bool = True) -> None: ...
