"""fmcli train --disk: rows are read from a cache in every epoch, so that they need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fmcli.cli.options import option, positive
from fmcli.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

USUAL_MEMORY = 1000  # megabytes


@dataclass(frozen=True)
class Disk:
    """Where rows are kept during training.

    cache : path of the cache.
    memory : bytes that the rows may take in memory.
    """

    cache: str
    memory: int


def disk_options(function: F) -> F:
    """Add --disk, --cache and --memory, the arguments of `parse_disk`."""
    function = option(
        "machine",
        "--memory",
        type=positive,
        metavar="MB",
        help="Megabytes that rows may take in memory with --disk, beside the parameters of the model and the state of "
        f"the solver. [default: {USUAL_MEMORY}; > 0]",
    )(function)
    function = option(
        "machine",
        "--cache",
        metavar="FILE",
        help="Where --disk keeps the rows, in binary form. An earlier cache of the same inputs is used again; another "
        "one is replaced. It remains after training.",
    )(function)
    return option(
        "machine",
        "--disk",
        is_flag=True,
        help="Read the rows from a cache in every epoch (--cache FILE), for data larger than memory. The rows get a "
        "random order once, and then their blocks and the rows of each block in every epoch.",
    )(function)


def parse_disk(disk: bool, cache: str | None, memory: float | None) -> Disk | None:
    """Return the choices of --disk; None without it. Raises UsageError."""
    if not disk:
        return None
    if cache is None:
        raise UsageError("--disk needs a place for the rows; give it with --cache FILE")
    from fmcli.training.stored import MEGABYTE

    return Disk(cache, int(MEGABYTE * (memory or USUAL_MEMORY)))
