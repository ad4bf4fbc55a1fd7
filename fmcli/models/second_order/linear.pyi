from fmcli.models.layout import BlockLayout
from fmcli.models.model import ColumnModel, Joined

def bias_block(bias: bool) -> list[BlockLayout]: ...

class Linear(ColumnModel):
    @property
    def joined(self) -> JoinedLinear: ...

class JoinedLinear(Joined): ...
