from fmcli.models.model import Model

class Bilinear(Model):
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
