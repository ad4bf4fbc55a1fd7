"""The rows that the runs of a comparison hold out, and which of their options are free."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.choosing.budget import LEAST_EPOCHS, affordable_folds
from fmcli.choosing.folds import OF_CLASSES
from fmcli.data.numbering import Numbering
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.registry.losses import LOSSES
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import REFINES, SOLVER, Spec
from fmcli.registry.streams import FOLD_STREAM, generator
from fmcli.training.planning import Plan
from fmcli.training.prepared import prepared_model
from fmcli.training.setup.strata import ENOUGH_OF_CLASS, spread
from fmcli.training.several.refit import affordable

if TYPE_CHECKING:
    from fmcli.data.shards.training_rows import RowNumbers

# Values are compared on several folds. Each fold holds out other rows, as many as the run holds out, until there are
# this many in all; there are at most MOST_FOLDS folds.
ENOUGH_HELD_OUT, MOST_FOLDS = 5_000, 5
# For a search, all of up to this many rows are held out, each once. Among hundreds of trials, the best one on a single
# subset is good by chance: on a fifth of adult, held out before, searches of the same time reach .3167 on five folds in
# place of .3173 and .3235 on one. On more rows, a subset says more, and folds leave time for too few trials.
SEARCHED_ROWS = 50_000
# Each fold of a search has STRETCHES stretches of rows, unless this makes the share of entries larger by more
# than MOST_UNSEEN that are of features which no row to train on has: the rows of one id follow each other. In a series,
# random rows have neighbours that are nearly the same, and options that overfit are the best by them. Of ten
# models of 41,000 rows of ijcnn1, the rank correlation of the loss on folds with that on the next 8,990 rows is
# -.15 for random rows, and .21, .47 and .82 for one, two and four stretches of each class.
STRETCHES, MOST_UNSEEN = 4, 0.01
# Fields with fewer features than this, on average, may say too little about priors of their own. On three of seven sets
# with more, one prior for all features is 1 to 17 % worse, and on none clearly better.
FEW_FEATURES = 50


def can_compare(plan: Plan) -> bool:
    """Return whether other runs can be compared with the run of a plan."""
    return plan.warm_start is None and plan.settings.deadline is None and plan.validation is not None


def number_of_folds(plan: Plan, epochs: int = LEAST_EPOCHS, *, searched: bool = False) -> int:
    """Return on how many folds trials are compared: as many as hold out enough rows, also of the rarer one of two
    classes, and as take little time if a run has `epochs` epochs; searched : by a search for options, which takes time.

    Many rows have one; so do few groups of rows, validation data that are not held out, the partitions of a cluster,
    and the last rows, because others would be predicted from rows after them.
    """
    enough = SEARCHED_ROWS if searched else ENOUGH_HELD_OUT
    validation, source = plan.validation, plan.source
    assert validation is not None
    divides = source.divides and validation.held_out and not plan.settings.hold_out.in_order
    if not divides or (source.all_rows > SEARCHED_ROWS if searched else not affordable(plan)):
        return 1
    size, group, of_held = validation.count, source.data.group, validation.group
    units, held = source.all_rows, size
    if group is not None and of_held is not None:
        units, held = len(np.unique(group[source.all_numbers])), len(np.unique(of_held))
    rarer = min(validation.of_labels or (ENOUGH_OF_CLASS,))
    wanted = max(enough / size, ENOUGH_OF_CLASS / max(1, rarer))
    most = MOST_FOLDS if searched else min(MOST_FOLDS, affordable_folds(plan, epochs))
    return min(most, math.ceil(wanted), units // held)


def fold_plans(plan: Plan, number: int) -> list[Plan]:
    """Return the plan, and plans of the same run that hold out others of its rows: `number` in all. Groups of rows
    remain whole."""
    assert plan.validation is not None
    if number == 1:
        return [plan]
    source, size, random = plan.source, plan.validation.count, generator(plan.spec, FOLD_STREAM)
    order = source.numbers[spread(classes_to_train_on(plan), random)]
    fold_of = np.arange(len(order)) // size
    if source.data.group is not None:
        groups, of_row = np.unique(source.data.group[source.numbers], return_inverse=True)
        rank = random.permutation(len(groups))[of_row]
        order = source.numbers[np.argsort(rank, kind="stable")]
        begins = np.cumsum(np.bincount(rank)) - np.bincount(rank)
        fold_of = np.unique((begins // size)[np.sort(rank)], return_inverse=True)[1]
        number = min(number, fold_of[-1] + 2)
    return [plan, *(holding_out(plan, np.sort(order[fold_of == fold])) for fold in range(number - 1))]


def can_stretch(plan: Plan) -> bool:
    """Return whether stretches of consecutive rows say as much about new rows as random ones: rows are not in groups or
    in order already, and have no ids that only such a stretch has."""
    validation = plan.validation
    assert validation is not None
    divides = plan.source.divides and validation.held_out and not plan.settings.hold_out.in_order
    if not divides or plan.source.data.group is not None:
        return False
    return unseen_share(stretched_plans(plan, 1)[0]) <= unseen_share(plan) + MOST_UNSEEN


def stretched_plans(plan: Plan, number: int) -> list[Plan]:
    """Return `number` plans of the same run, which hold out other stretches of consecutive rows, at equal
    distances: together about as many rows as the plan, with the same shares of classes."""
    assert plan.validation is not None
    source, begin = plan.source, generator(plan.spec, FOLD_STREAM).random()
    _, class_of, sizes = np.unique(classes_of(plan), return_inverse=True, return_counts=True)
    place = np.empty(len(class_of))
    place[np.argsort(class_of, kind="stable")] = np.concatenate([np.arange(size) / size for size in sizes])
    few = sizes[class_of] < STRETCHES * MOST_FOLDS  # these would all be in one fold
    place[few] = np.flatnonzero(few) / len(few)
    fold_of = (begin + STRETCHES * place) % 1 * source.all_rows // plan.validation.count
    return [holding_out(plan, source.all_numbers[fold_of == fold]) for fold in range(number)]


def classes_of(plan: Plan) -> NDArray[np.float64]:
    """Return the class of each row, also of held-out rows; 0 if rows have none."""
    validation, source = plan.validation, plan.source
    assert validation is not None
    label, every = np.zeros(source.all_rows), source.all_numbers
    if LOSSES[validation.loss].task in OF_CLASSES:
        trained = np.isin(every, source.numbers, assume_unique=True)
        held = validation.data.label
        label[trained] = source.labels.label
        label[~trained] = held if validation.rows is None else held[validation.rows]
    return label


def classes_to_train_on(plan: Plan) -> NDArray[np.float64]:
    """Return the class of each row to train on; 0 if rows have none."""
    has_classes = plan.transform.labels.classes is not None
    return plan.source.label_of_each if has_classes else np.zeros(len(plan.source.numbers))


def unseen_share(plan: Plan) -> float:
    """Return the share of the entries of the held-out rows that are of features which no row to train on has."""
    validation, marks = plan.validation, plan.transform.marks
    assert validation is not None
    assert marks is not None
    data = validation.data if validation.rows is None else validation.data.take(validation.rows)
    return data.count_outside(marks) / max(1, data.nnz)


def holding_out(plan: Plan, held: RowNumbers) -> Plan:
    """Return the plan of the same run that holds out these of its rows, whose numbers increase."""
    assert plan.validation is not None
    source, data = plan.source.holding_out(held)
    return replace(plan.on(source), validation=replace(plan.validation, data=data, rows=None))


def thinned(plan: Plan, share: int) -> Plan:
    """Return the plan of the same run on one of `share` of its rows to train on, at random: the first ones of a
    permutation, so that more rows have these, too."""
    source, validation = plan.source, plan.validation
    assert validation is not None
    order = generator(plan.spec, FOLD_STREAM, 1).permutation(source.rows)
    rows = np.sort(order[: max(1, len(order) // share)])
    held = validation.rows if validation.data is source.data else None
    some = source.only(rows, rows if held is None else np.union1d(rows, held))
    plan = compacted(plan.on(some))
    facts = {
        "rows": some.count,
        "weight": some.total_weight,
        "nonzeros": some.nonzeros,
        "features": int(plan.seen.sum()),
    }
    return replace(plan, facts={**plan.facts, **facts})


def compacted(plan: Plan) -> Plan:
    """Return the plan on a copy of its rows with columns for only the features that occur in them, if that takes less
    memory: each run allocates, draws, and copies the parameters of all columns."""
    source, validation, transform = plan.source, plan.validation, plan.transform
    assert validation is not None
    if type(source) is not TrainingRows or source.data.relations or validation.data.relations:
        return plan
    held = np.arange(validation.count, dtype=np.int32) if validation.rows is None else validation.rows
    occurs = plan.seen | validation.data.seen(held)
    left = int(occurs.sum())
    dropped = plan.model.parameter_count * (1 - left / transform.features)
    if dropped < source.nonzeros + validation.data.entries_of_rows(held):
        return plan
    numbering = Numbering(np.flatnonzero(occurs).astype(np.int32), transform.dimension)
    columns = np.where(occurs, np.cumsum(occurs) - 1, -1).astype(np.int32)
    data, held_out = (
        one.take(rows).renumbered(numbering, columns=columns)
        for one, rows in ((source.data, source.rows), (validation.data, held))
    )
    fields = source.fields and source.fields._replace(place=source.fields.place[occurs])
    plan = replace(
        plan,
        transform=replace(transform, features=left, numbering=numbering, frequent=None),
        evaluation=replace(plan.evaluation, data=data),
        validation=replace(validation, data=held_out, rows=None),
    ).on(TrainingRows(data, np.arange(data.rows, dtype=np.int32), fields))
    return replace(plan, model=prepared_model(plan.spec, plan.source, plan.transform, None))


def terms_of(plan: Plan) -> dict[str, bool]:
    """Return whether the model has linear weights and factors, by the ends of the names of their options."""
    layout = plan.model.layout
    return {
        "_w": any(one.weight and one.penalized_as == "w" and one.by_feature for one in layout),
        "_v": any(one.penalty == "full" and (one.body or one.penalized_as == "v") for one in layout),
    }


def may_pool(plan: Plan) -> bool:
    """Return whether features have priors by field, of several small fields, in place of groups that a user has
    named."""
    groups = plan.source.fields
    if groups is None or plan.transform.groups is not None:
        return False
    return len(groups.numbers) > 1 and plan.seen.sum() < FEW_FEATURES * len(groups.numbers)


def choices_of(spec: Spec) -> dict[str, Any]:
    """Return what a search can choose of a run of a kind: the solver, and the options."""
    return {SOLVER: spec.solver, **{name: value for name, value in spec.values.items() if name in OPTIONS}}


def chosen_values(plan: Plan) -> dict[str, Any]:
    """Return the choices of a plan that a search has made, the solver first."""
    chosen = plan.spec.given - plan.settings.spec.given
    return {name: value for name, value in choices_of(plan.spec).items() if name in chosen}


def is_free(spec: Spec, option: str) -> bool:
    """Return whether neither an option nor the one that it refines was given."""
    return not spec.given & {option, REFINES.get(option, option)}
