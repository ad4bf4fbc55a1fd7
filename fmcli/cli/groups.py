"""What tells the groups of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fmcli.errors import UsageError
from fmcli.registry.losses import LOSSES
from fmcli.registry.modes import in_words
from fmcli.registry.row_choices import NEEDED_BY
from fmcli.training.setup.chosen import held_of

if TYPE_CHECKING:
    from fmcli.data.text.formats import RowGroups
    from fmcli.registry.choices import Choices
    from fmcli.registry.specs import Spec
    from fmcli.training.setup.held import Held

QUERY = "qid"  # rows of one query number are a group


def parse_row_groups(spec: Spec, metrics: tuple[str, ...], column: str | None) -> RowGroups | None:
    """Return the source of the groups of the rows of a run; None if it needs none. Raises UsageError for a field
    without use."""
    pairwise = spec.loss is not None and LOSSES[spec.loss].pairwise
    if not pairwise and not metrics and column is None:
        return None
    from fmcli.data.text.formats import RowGroups
    from fmcli.scoring.metrics import need_groups
    from fmcli.scoring.sparsity import of_predictions
    from fmcli.training.setup.held import field_of

    if pairwise or need_groups(of_predictions(metrics)):
        return RowGroups(field_of(column))
    if column is not None:
        raise UsageError(in_words(f"{{group_field}} applies only to {NEEDED_BY}; leave it out, or choose one of them"))
    return None


def with_held(ranking: RowGroups | None, choices: Choices, by: Held | None) -> RowGroups | None:
    """Return the source of the groups of rows, for ranking or because whole groups are held out.

    ranking : the source of the groups of ranking; None: there are none.
    by : the source of the groups of folds; None: there are none.

    Raises UsageError if they differ.
    """
    own = held_of(choices)
    held = by or own
    if by and own.column and (by.column, by.times) != (own.column, own.times):
        raise UsageError("the groups, or times, of --holdout and of folds must be the same column")
    if held.group and ranking and (held.group != ranking or held.column != (choices.group_field or QUERY)):
        whose = "folds" if by else "--holdout"
        raise UsageError(f"{whose} and ranking must have the same groups; see --group-field")
    return held.group or ranking


def check_fields(columns: Iterable[str | None], source: str, time: str | None = None) -> None:
    """Raise UsageError if rows of text cannot be grouped by these columns, or held out by this time."""
    others = f"{source} is not a table, and other rows have"
    by = "by qid, or by a field of ffm text, such as 0"
    for column in columns:
        if is_unknown(column):
            raise UsageError(f"{others} groups {by}, not by {column!r}")
    if is_unknown(time):
        raise UsageError(f"{others} times {by}, not by {time!r}", holdout={"last:0.1": "for the end of the file"})


def is_unknown(column: str | None) -> bool:
    """Return whether text does not have a column."""
    return column is not None and column != QUERY and not column.isdecimal()
