from fmcli.models.model import ColumnModel

class Bilinear(ColumnModel):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        split_index: int | None = None,
        bias: bool = True,
        linear: bool = True,
    ) -> None: ...

def where(group: int) -> str: ...
