from fmcli._core.layout import BlockLayout
from fmcli._core.model import Model

def bias_block(bias: bool) -> list[BlockLayout]: ...

class Linear(Model):
    def __init__(self, features: int, outputs: int, *, bias: bool = True) -> None: ...
