from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli._core.layout import BlockLayout
from fmcli._core.model import Model

def bias_block(bias: bool) -> list[BlockLayout]: ...
def start_beta(beta: NDArray[Any], how: str, generator: np.random.Generator) -> None: ...

class Linear(Model):
    def __init__(self, features: int, outputs: int, *, bias: bool = True) -> None: ...
