"""The option for the groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fmcli.cli.options import option
from fmcli.errors import UsageError
from fmcli.registry.losses import LOSSES

if TYPE_CHECKING:
    from fmcli.data.formats import Grouping
    from fmcli.registry.specs import Spec

F = TypeVar("F", bound=Callable[..., Any])

# What needs groups, in words.
METRICS_OF_GROUPS = "the metrics gauc, ndcg, ndcg@K (of the first K places) and map"

NEEDED_BY = f"--loss {', '.join(loss.name for loss in LOSSES.values() if loss.pairwise)} and {METRICS_OF_GROUPS}"


def group_field_option(needed_by: str, section: str = "data") -> Callable[[F], F]:
    """Return --group-field: the field that tells the groups of rows. They are `needed_by` something, in words."""
    return option(
        section,
        "--group-field",
        type=click.IntRange(min=0),
        metavar="F",
        help=f"Rows with the same feature in field F of ffm text form a group, for {needed_by}. [default: those with "
        "the same N in qid:N, after the label; >= 0]",
    )


def parse_grouping(spec: Spec, metrics: tuple[str, ...], field: int | None) -> Grouping | None:
    """Return the grouping of the rows of a run; None if it needs none. Raises UsageError for a field without use."""
    pairwise = spec.loss is not None and LOSSES[spec.loss].pairwise
    if not pairwise and not metrics and field is None:
        return None
    from fmcli.data.formats import Grouping
    from fmcli.scoring.metrics import need_groups
    from fmcli.scoring.sparsity import of_predictions

    if pairwise or need_groups(of_predictions(metrics)):
        return Grouping(field)
    if field is not None:
        raise UsageError(f"--group-field applies only to {NEEDED_BY}; leave it out, or choose one of them")
    return None
