from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model

def bias_block(bias: bool) -> list[BlockLayout]: ...

class Linear(Model):
    def __init__(self, features: int, outputs: int, *, bias: bool = True) -> None: ...
