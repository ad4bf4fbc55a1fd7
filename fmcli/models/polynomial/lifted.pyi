from fmcli.models.model import ColumnModel

class LiftedAnova(ColumnModel):
    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rank: int,
        order: int = 2,
        bias: bool = True,
        linear: bool = True,
        augment: bool = False,
    ) -> None: ...
