"""The option for the groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.options import option
from fmcli.errors import UsageError
from fmcli.registry.losses import LOSSES

if TYPE_CHECKING:
    from fmcli.data.formats import RowGroups
    from fmcli.registry.specs import Spec

F = TypeVar("F", bound=Callable[..., Any])

# The things that need groups, in words.
METRICS_OF_GROUPS = (
    "the metrics gauc, ndcg, map, mrr, and recall@K, precision@K, hit@K and ndcg@K (of the first K places)"
)

NEEDED_BY = f"--loss {', '.join(loss.name for loss in LOSSES.values() if loss.pairwise)} and {METRICS_OF_GROUPS}"


QUERY = "qid"  # groups are those of query numbers


def group_field_option(needed_by: str, section: str = "data") -> Callable[[F], F]:
    """Return --group-field: the field that tells the groups of rows. They are `needed_by` something, in words."""
    return option(
        section,
        "--group-field",
        metavar="COL",
        help="Rows with the same cell in this column of a table form a group, or with the same feature in this field "
        f"of ffm text (its number), for {needed_by}. The column is a feature, too, if --categorical names it. "
        "[default: rows with the same N in qid:N, after the label]",
    )


def parse_row_groups(spec: Spec, metrics: tuple[str, ...], column: str | None) -> RowGroups | None:
    """Return what tells the groups of the rows of a run; None if it needs none.

    Raises UsageError for a field without use.
    """
    pairwise = spec.loss is not None and LOSSES[spec.loss].pairwise
    if not pairwise and not metrics and column is None:
        return None
    from fmcli.data.formats import RowGroups
    from fmcli.scoring.metrics import need_groups
    from fmcli.scoring.sparsity import of_predictions
    from fmcli.training.setup.held import field_of

    if pairwise or need_groups(of_predictions(metrics)):
        return RowGroups(field_of(column))
    if column is not None:
        raise UsageError(f"--group-field applies only to {NEEDED_BY}; leave it out, or choose one of them")
    return None


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
