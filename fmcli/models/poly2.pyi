from fmcli.models.model import ColumnModel

MOST_ENTRIES: int

class Poly2(ColumnModel):
    def __init__(
        self, features: int, outputs: int, *, pair_bits: int, bias: bool = True, linear: bool = True
    ) -> None: ...
