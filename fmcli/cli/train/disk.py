"""fmcli train --disk: rows are read from a cache in every epoch, so that they need not fit in memory."""

from __future__ import annotations

from fmcli.cli.files import CACHE, OutputFile
from fmcli.cli.options import gathered, option, positive
from fmcli.records import dataclass
from fmcli.registry.options import USUAL_MEMORY


@dataclass(frozen=True)
class DiskChoice:
    """Where rows are kept during training.

    cache : path of the cache.
    memory : megabytes that the rows may take in memory; None: the usual number.
    """

    disk: bool
    cache: str | None
    memory: float | None

    @property
    def room(self) -> int | None:
        """Bytes that the rows may take in memory; None: they are in memory."""
        return self.bytes if self.disk else None

    @property
    def bytes(self) -> int:
        """Bytes that the rows of a cache may take in memory."""
        from fmcli.training.account import MEGABYTE

        return int(MEGABYTE * (self.memory or USUAL_MEMORY))


disk_options = gathered(
    "disk",
    DiskChoice,
    option(
        "machine",
        "--disk",
        is_flag=True,
        help="Read the rows from a cache in every epoch (--cache FILE), for data larger than memory. The rows get a "
        "random order once, and then their shards and the rows of each shard in every epoch.",
    ),
    option(
        "machine",
        "--cache",
        type=OutputFile(CACHE),
        metavar="FILE",
        help="Where --disk keeps the rows, in binary form. An earlier cache of the same inputs is used again; another "
        "one is replaced. It remains after training.",
    ),
    option(
        "machine",
        "--memory",
        type=positive,
        metavar="MB",
        help="Megabytes that rows may take in memory with --disk, beside the parameters of the model and the state of "
        f"the solver. [default: {USUAL_MEMORY}; > 0]",
    ),
)
