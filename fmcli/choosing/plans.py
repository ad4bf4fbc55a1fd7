"""What the runs of a comparison hold out, and which of their options are free."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fmcli.data.shards.training_rows import TrainingRows
from fmcli.registry.specs import REFINES, Spec
from fmcli.registry.streams import FOLD_STREAM, generator
from fmcli.training.planning import Plan, occurring

if TYPE_CHECKING:
    from fmcli.data.shards.training_rows import RowNumbers

# Values are compared on several folds, in each of which other rows are held out, as many as the run holds out, until
# there are so many in all; on at most so many folds. More rows to train on have one fold: there, they take time.
ENOUGH_HELD_OUT, MOST_FOLDS, ROWS_FOR_FOLDS = 5_000, 5, 5_000


def can_compare(plan: Plan) -> bool:
    """Return whether other runs can be compared with that of a plan."""
    begins = plan.warm_start is None and plan.settings.deadline is None
    return begins and plan.validation is not None and plan.source.in_memory


def most_folds(plan: Plan) -> int:
    """Return on how many folds values can be compared.

    Many rows have one; so do pairs and groups of rows, and validation data that are not held out; and the last rows,
    because others would be predicted from rows after them.
    """
    validation, source = plan.validation, plan.source
    assert validation is not None
    independent = source.data.group is None and not plan.settings.hold_out.in_order
    few = source.all_rows <= ROWS_FOR_FOLDS
    if type(source) is not TrainingRows or not independent or not validation.held_out or not few:
        return 1
    size = validation.data.rows
    return min(MOST_FOLDS, math.ceil(ENOUGH_HELD_OUT / size), source.all_rows // size)


def fold_plans(plan: Plan, number: int) -> list[Plan]:
    """Return the plan, and plans of the same run that hold out others of its rows: so many in all."""
    assert plan.validation is not None
    size, order = plan.validation.data.rows, generator(plan.spec, FOLD_STREAM).permutation(plan.source.rows)
    return [plan, *(holding_out(plan, order[size * fold : size * (fold + 1)]) for fold in range(number - 1))]


def holding_out(plan: Plan, held: RowNumbers) -> Plan:
    """Return the plan of the same run that holds out these of its rows."""
    data, validation = plan.source.data, plan.validation
    assert validation is not None
    every = plan.source.all_numbers
    rows = every.compress(~np.isin(every, held))
    source = TrainingRows(data, rows, plan.source.fields, plan.source.every_row)
    seen, counts, transform = occurring(source, plan.transform, plan.settings)
    validated = replace(validation, data=data.take(np.sort(held)))
    return replace(plan, source=source, seen=seen, counts=counts, transform=transform, validation=validated)


def parts_of(plan: Plan) -> dict[str, bool]:
    """Return whether the model has linear weights and factors, by the ends of the names of their options."""
    layout = plan.model.layout
    return {
        "_w": any(one.weight and one.part == "w" and one.by_feature for one in layout),
        "_v": any(one.penalty == "full" and (one.body or one.part == "v") for one in layout),
    }


def is_free(spec: Spec, option: str) -> bool:
    """Return whether neither an option nor the one that it refines was given."""
    return not spec.given & {option, REFINES.get(option, option)}
