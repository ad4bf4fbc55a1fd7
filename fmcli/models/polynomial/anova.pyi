from typing import Literal

from fmcli.models.layout import BlockLayout
from fmcli.models.model import ColumnModel
from fmcli.models.weighted import Weighted

LARGEST_ORDER: int

class HigherOrder(Weighted): ...

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

class HOFM(HigherOrder): ...
class HOFMShared(HigherOrder): ...
class HOFMSimplex(HigherOrder): ...
class AllSubsets(ColumnModel): ...
