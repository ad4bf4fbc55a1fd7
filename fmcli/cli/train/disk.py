"""fmcli train --disk: rows are read from a cache in every epoch, so that they need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.options import option, positive
from fmcli.errors import LEAVE_OUT, UsageError

if TYPE_CHECKING:
    from fmcli.data.formats import Grouping
    from fmcli.registry.specs import Spec

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


def parse_disk(disk: bool, cache: str | None, memory: float | None, *, online: bool) -> Disk | None:
    """Return the choices of --disk; None without it. Raises UsageError."""
    if not disk:
        if cache is not None or memory is not None:
            raise UsageError(f"{'--cache' if cache is not None else '--memory'} applies only to --disk; add --disk")
        return None
    if online:
        raise UsageError(
            "--disk keeps the rows for several epochs, and --online reads them once; leave one of them out"
        )
    if cache is None:
        raise UsageError("--disk needs a place for the rows; give it with --cache FILE")
    from fmcli.training.stored import MEGABYTE

    return Disk(cache, int(MEGABYTE * (memory or USUAL_MEMORY)))


def check_disk(spec: Spec, grouping: Grouping | None, holdout: float | None) -> None:
    """Raise UsageError if a run needs all its rows in memory."""
    from fmcli.training.stored import check_stored

    check_stored(spec, holdout)
    if grouping:
        raise UsageError("a cache does not keep the groups of rows, which ranking needs", disk=LEAVE_OUT)
