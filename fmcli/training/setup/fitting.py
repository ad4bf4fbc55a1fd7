"""The fit of a run to its rows in any form: what it learns from them before training, and how it transforms them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.counts.occurrences import checksum_of, have_counts
from fmcli.data.dataset import Dataset
from fmcli.data.entries import rows_of_entries, values_of
from fmcli.data.labels import Labels, fit_labels
from fmcli.data.scaling import SCALE, STANDARD, ZSCORE, OddColumns, Scaling, find_odd_columns, is_scaled, learn
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.transform import Transform, marked
from fmcli.errors import Also, BadInputError, NothingNewError, UsageError
from fmcli.records import dataclass
from fmcli.registry.build import is_bounded
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.specs import Spec, for_dense_rows, needed_for
from fmcli.solvers.new_features import NewFeatures, find
from fmcli.training.setup.clipping import fit_clip
from fmcli.training.setup.columns import on_columns
from fmcli.training.setup.groups import groups_of
from fmcli.training.setup.hold_out import rows_held_out
from fmcli.training.setup.memory import held_bytes
from fmcli.training.setup.rows import DividedRows, Rows, RowsInMemory, are_related
from fmcli.training.setup.scaled_labels import fit_unit
from fmcli.training.setup.settings import HoldOut, Settings
from fmcli.training.setup.warm_start import WarmStart

# Rows are dense if they have this share of the features. Those are few for which non-zeros x rank is at most this, so
# that a run takes some seconds.
DENSE, FEW_VISITS = 0.5, 1.2e6
# The start values of a sampler get their size from at least this number of rows, or from all rows.
ROWS_FOR_START = 10_000
# Sums of weights are rounded by less than this share.
ROUNDING = 1e-9


# The validation data as the model sees them, and the numbers of their rows that are meant; None: all.
Validated = tuple[Dataset, RowNumbers | None]


@dataclass(frozen=True)
class Fitted:
    """A run that knows its rows, but has no model yet.

    settings : the choices of the run, on the columns of the rows.
    spec : the spec of the settings with the loss chosen; defaults that depend on the rows are still rules.
    source : the rows to train on.
    transform : the columns, labels and scales learned from the rows before training.
    seen : bool (features), whether each feature occurs in the rows to train on.
    counts : int32 (features), the number of rows to train on that have each feature; None if it takes more than these.
    odd_columns : columns whose scale is a problem even then, if there are any.
    new_features : the new features, if only their parameters are learned.
    held : bytes that the rows of the run take.
    """

    settings: Settings
    spec: Spec
    source: TrainingRows
    transform: Transform
    seen: NDArray[np.bool_]
    counts: NDArray[np.int32] | None
    odd_columns: OddColumns | None
    new_features: NewFeatures | None
    held: int

    @property
    def dense(self) -> bool:
        """Whether the rows have most features."""
        return are_dense(self.source.all_rows, self.source.all_nonzeros, int(self.seen.sum()))


def fit(settings: Settings, rows: Rows, valid: Dataset | None = None) -> tuple[Fitted, Validated | None]:
    """Return what a run learns from its rows, its rows as the model sees them, and its validation data, if it has some.

    valid : validation data, in place of rows that are held out.

    Raises BadInputError for labels that do not fit the loss, and UsageError.
    """
    read = [*rows.in_memory, *([] if valid is None else [valid])]
    rows, settings = on_columns(settings, rows)
    settings = on_dense_rows(settings, rows, validated=valid is not None)
    transform, divided, spec = learn_transform(settings, rows, settings.hold_out if valid is None else HoldOut(0.0))
    source, new_features = divided.training(transform, settings.threads, grouped=spec.solver_entry.is_sampler), None
    if settings.choices.only_new:
        source, new_features = with_new_features(source, settings.warm_start)
    seen, counts, transform = occurring(source, transform, settings)
    if valid is None:
        validated = divided.validated(transform, source.data)
    else:
        validated = transform.of(valid, settings.valid_name), None
    held = held_bytes([*read, source.data, *(validated or ())[:1]]) + source.rows.nbytes
    fitted = Fitted(
        settings,
        spec,
        source,
        transform,
        seen,
        counts,
        find_odd_columns(source.data, source.rows, spec.values[SCALE]),
        new_features,
        held if counts is None else held + counts.nbytes,
    )
    return fitted, validated


def occurring(
    source: TrainingRows, transform: Transform, settings: Settings
) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None, Transform]:
    """Return which features occur in the rows to train on, in how many rows (see Plan), and the transform with these
    features and the features of the warm start."""
    seen, counts = source.occurrences(settings.threads)
    both = settings.warm_start.also_seen(seen) if settings.warm_start else seen
    return seen, counts, replace(transform, marks=marked(both))


def with_new_features(source: TrainingRows, warm_start: WarmStart | None) -> tuple[TrainingRows, NewFeatures]:
    """Return the rows that have features which a warm start has not seen, and these. Raises NothingNewError."""
    assert warm_start is not None
    new_features = find(source.data, warm_start.transform.seen)
    if not new_features.sets:
        raise NothingNewError(f"{warm_start.path} has seen all features of the rows")
    if isinstance(source, ObservedRows):
        return source.after(warm_start.sides), new_features
    return TrainingRows(source.data, new_features.rows, source.fields), new_features


def learn_transform(settings: Settings, rows: Rows, hold_out: HoldOut) -> tuple[Transform, DividedRows, Spec]:
    """Return the transform of a run, its rows, divided if some are held out, and its spec with the loss of the labels.

    Raises BadInputError for labels that do not fit the loss, and UsageError.
    """
    warm_start = settings.warm_start
    labels = labels_of(settings, rows)
    spec = settings.spec.with_loss(labels.loss)
    if settings.choices.only_new and warm_start:
        transform = replace(warm_start.transform, fieldless=not MODELS[spec.model].needs_fields(spec.values))
        return transform, rows.hold_out(spec, labels, HoldOut(0.0)), spec
    if are_related(rows) and not is_bounded(spec, labels.loss, labels.outputs):
        raise UsageError(
            f"loss {labels.loss} has no largest curvature, by which {spec.solver} bounds the loss of the rows that "
            "refer to a row of a relation; join the files"
        )
    spec, label_range = fit_clip(spec, labels, rows.labels.label, warm_start)
    divided = rows.hold_out(spec, labels, hold_out)
    spec, labels = fit_unit(spec, labels, divided, warm_start)
    transform = Transform(
        labels,
        max(rows.columns.features, warm_start.model.features if warm_start else 0),
        rows.columns.numbering,
        settings.hash_bits,
        norm=bool(spec.values["norm"]),
        label_range=label_range,
        table=settings.table or (warm_start.transform.table if warm_start else None),
    )
    if settings.min_count > 1:
        frequent = divided.weights(transform, settings.threads) >= (1 - ROUNDING) * settings.min_count
        transform = transform.without_rare(frequent, share=settings.share_rare)
    transform = replace(transform, groups=groups_of(settings, divided, transform))
    if not MODELS[spec.model].needs_fields(spec.values):
        transform = replace(transform, fieldless=True)
    fields = max(divided.fields(transform), warm_start.transform.fields if warm_start else 0)
    transform = replace(transform, fields=fields)
    if is_scaled(spec.values):
        transform = replace(transform, scale=learn_scale(spec, divided, transform, warm_start))
    return transform, divided, spec


def labels_of(settings: Settings, rows: Rows) -> Labels:
    """Return the labels of the warm start, or labels that fit the loss; if the spec has no loss, the labels determine
    it."""
    spec = settings.spec
    if settings.warm_start:
        labels = settings.warm_start.labels_for(spec).beside(rows.labels.label)
    else:
        try:
            signs, wanted = MODELS[spec.model].closed_form, settings.positive
            labels = fit_labels(rows.labels.label, spec.loss, signs, rows.names, wanted)
        except BadInputError as error:
            losses = error.options.get("loss", ())
            error.options |= {name: Also(value) for loss in losses for name, value in needed_for(spec, loss).items()}
            raise
    supported = spec.solver_entry.losses
    if spec.loss is None and supported and labels.loss not in supported:
        task = LOSSES[labels.loss].task
        return replace(labels, loss=next(name for name in supported if LOSSES[name].task == task))
    return labels


def learn_scale(spec: Spec, rows: DividedRows, transform: Transform, warm_start: WarmStart | None) -> Scaling:
    """Return the scaling of the columns. Columns that the warm start has seen keep its scaling, if it has the same
    method."""
    method = spec.values[SCALE]
    if method == ZSCORE and MODELS[spec.model].needs_fields(spec.values):
        raise UsageError(
            f"{spec.model} has fields, and an entry that centering adds to a row would have none", scale=STANDARD
        )
    scale = learn(*rows.statistics(transform, method), method)
    if warm_start:
        warm_start.keep_scale(scale, method)
    return scale


def on_dense_rows(settings: Settings, rows: Rows, *, validated: bool) -> Settings:
    """Return the settings with the model's solver for dense rows, if these are few rows in memory that have most
    features, held-out rows choose the epoch, and no choice of the user stands against it (see `for_dense_rows`).

    validated : whether there are validation data.
    """
    spec = for_dense_rows(settings.spec)
    fixed = not settings.quick_search or settings.choices.keep_state or settings.deadline is not None
    fixed = fixed or not spec.solver_by_data
    if fixed or not isinstance(rows, RowsInMemory) or settings.warm_start or settings.stream:
        return settings
    if rows.data.relations or rows.data.group is not None:
        return settings
    if not validated and not rows_held_out(rows.count, settings.hold_out, spec):
        return settings
    few = are_dense(rows.count, rows.nonzeros, rows.data.features) and not are_many(spec, rows.nonzeros)
    return replace(settings, spec=spec) if few else settings


def are_dense(rows: int, nonzeros: int, features: int) -> bool:
    """Return whether rows have most features."""
    return nonzeros >= DENSE * rows * features


def are_many(spec: Spec, nonzeros: int) -> bool:
    """Return whether rows are too many for a spec with the solver of dense rows, by default."""
    return bool(nonzeros * spec.values["rank"] > FEW_VISITS)


def facts_of(fitted: Fitted, *, validated: bool) -> dict[str, Any]:
    """Return the facts that `resolve` takes, by name; see Facts. validated : whether there are validation data."""
    source, warm_start, new_features = fitted.source, fitted.settings.warm_start, fitted.new_features
    facts: dict[str, Any] = {
        "rows": source.count,
        "weight": 1.0 if new_features else source.total_weight,  # penalties per row, whose losses are summed
        "nonzeros": source.nonzeros,
        "features": int(fitted.seen.sum()),
        "longest": source.longest_square,
        "validated": validated,
        "updates": warm_start is not None,
    }
    if warm_start is not None and not new_features:
        facts["earlier"] = warm_start.past_weight
        facts["holds"] = can_hold(warm_start, source, fitted.counts)
    if fitted.spec.solver_entry.is_sampler:
        facts |= start_facts(source)
    return facts


def can_hold(warm_start: WarmStart, source: TrainingRows, counts: NDArray[np.int32] | None) -> bool:
    """Return whether the rows of a warm start may hold its parameters: they are known, and are others than these."""
    before = warm_start.occurrences
    if before.counts is None:
        return False
    times = source.data.counts(source.rows) if counts is None else counts
    return not (have_counts(before, times) and before.labels == checksum_of(source))


def start_facts(source: TrainingRows) -> dict[str, float]:
    """Return the quantity that sets the start values of a sampler: `products` of Facts, for rows at equal distances."""
    rows = source.rows[:: max(1, len(source.rows) // ROWS_FOR_START)]
    data = source.data.joined(np.ascontiguousarray(rows))
    squares = values_of(data).astype(np.float64) ** 2
    of_row = rows_of_entries(data)
    first, second = (np.bincount(of_row, power, minlength=data.rows) for power in (squares, squares**2))
    return {"products": float(np.mean(first**2 - second)) / 2}
