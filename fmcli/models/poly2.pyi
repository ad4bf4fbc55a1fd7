from fmcli.models.model import Model

MOST_ENTRIES: int

class Poly2(Model):
    def __init__(
        self, features: int, outputs: int, *, pair_bits: int, bias: bool = True, linear: bool = True
    ) -> None: ...
