from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

REAL_TYPE: np.dtype[Any]
"""float32 or float64, as this was built."""
CACHE_LINE: int
CUTPOINTS: str
FEATURES: Literal["features"]
CONSTRAINTS: tuple[str | None, ...]
ROLES: tuple[str | None, ...]

class Array(NamedTuple):
    name: str
    vectors: int
    columns: int
    shape: tuple[int, ...]

def array_of(name: str, size: int | tuple[int, int]) -> Array: ...

class BlockLayout:
    axes: tuple[int | Literal["features"], ...]
    body: tuple[Array, ...]
    weight: str | None
    touched: Literal["features", "all", "selected"]
    penalized_as: Literal["w", "v"]
    penalty: Literal["full", "l2", "none"]
    trained: bool
    affine: Literal["row", "vector", "one"]
    start: float | Literal["random"]
    constraint: Literal["simplex"] | None
    role: Literal["kernel weights"] | None
    packed: bool
    def __init__(
        self,
        *,
        axes: Sequence[int | Literal["features"]] = ("features",),
        body: Sequence[tuple[str, int | tuple[int, int]]] = (),
        weight: str | None = None,
        touched: Literal["features", "all", "selected"] | None = None,
        penalized_as: Literal["w", "v"] = "w",
        penalty: Literal["full", "l2", "none"] = "full",
        trained: bool = True,
        affine: Literal["row", "vector", "one"] = "row",
        start: float | Literal["random"] = "random",
        constraint: Literal["simplex"] | None = None,
        role: Literal["kernel weights"] | None = None,
    ) -> None: ...
    @property
    def by_feature(self) -> bool: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def vectors(self) -> list[int]: ...
    @property
    def columns(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def rows_each(self) -> int: ...
    def rows(self, features: int) -> int: ...
    def leading(self, features: int) -> tuple[int, ...]: ...

def normal(shape: tuple[int, ...], init_std: float, generator: np.random.Generator) -> NDArray[Any]: ...
def allocate(size: int, dtype: DTypeLike = ...) -> NDArray[Any]: ...
def padded(columns: int) -> int: ...
def row_stride(reals: int) -> int: ...
def row_strides(layout: BlockLayout, slots: int) -> tuple[int, int]: ...
