"""Options for the ids of features: hashing, and rare features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fmcli.cli.options import gathered, option
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.options import MOST_HASH_BITS

if TYPE_CHECKING:
    from fmcli.training.setup.warm_start import WarmStart


@dataclass(frozen=True)
class IdChoice:
    """How the ids of features become columns."""

    hash_bits: int | None
    min_count: int | None
    rare: str | None

    def bits(self, warm_start: WarmStart | None) -> int:
        """Return the bits of the hashes of ids, which those of a warm start must be; 0: ids are not hashed. Raises
        UsageError."""
        if warm_start is None:
            return self.hash_bits or 0
        before = warm_start.transform.hash_bits
        if self.hash_bits not in (None, before):
            theirs = f"with --hash-bits {before}" if before else "without --hash-bits"
            raise UsageError(
                f"{warm_start.path} was trained {theirs}, so that its columns are not those of {self.hash_bits} bits"
            )
        return before


id_options = gathered(
    "ids",
    IdChoice,
    option(
        "data",
        "--hash-bits",
        type=click.IntRange(1, MOST_HASH_BITS),
        metavar="N",
        help="Hash the ids of features, which may be strings, to 2^N columns, so that no dictionary is kept. Features "
        f"with the same hash share a column. [default: no hashing; 1 to {MOST_HASH_BITS}]",
    ),
    option(
        "data",
        "--min-count",
        type=click.IntRange(min=1),
        metavar="N",
        help="Features that occur in fewer than N training rows, without held-out ones, are rare. [default: 1; >= 1]",
    ),
    option(
        "data",
        "--rare",
        type=click.Choice(["drop", "share"]),
        help="What happens to rare features (--min-count): drop: they count as unseen; share: they share one column, "
        "as do features that occur in no training row. [default: drop]",
    ),
)
