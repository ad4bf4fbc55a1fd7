"""The fit of a transform: what a run learns from its rows before training, whatever form they have."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dictionary import Dictionary, of_numbers
from fmcli.data.labels import Labels, fit_labels
from fmcli.data.numbering import Numbering
from fmcli.data.scaling import SCALE, STANDARD, ZSCORE, Scaling, is_scaled, learn
from fmcli.data.transform import Transform, every_column
from fmcli.errors import UsageError
from fmcli.registry.build import build_loss
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import Spec, for_dense_rows
from fmcli.training.clipping import fit_clip
from fmcli.training.groups import groups_of
from fmcli.training.rows import Rows, RowsInMemory
from fmcli.training.settings import HoldOut, Settings
from fmcli.training.validation import rows_held_out
from fmcli.training.warm_start import WarmStart

# Rows are dense if they have this share of the features. Those are few for which non-zeros x rank is at most this, so
# that a run takes some seconds.
DENSE, FEW_VISITS = 0.5, 1.2e6
# Features are many if there are more than this, and few of them occur if it is at most this share.
MANY_FEATURES, FEW_OCCUR = 1 << 16, 0.5


def on_columns(settings: Settings, rows: Rows) -> tuple[Rows, Settings]:
    """Return the rows, and the settings with their warm start, on the same columns.

    A run has columns only for the features that occur in the rows or in the warm start if its kind of model is so, if
    there is a dictionary, or if few of many features occur; otherwise column j is feature j.
    """
    warm_start = settings.warm_start
    numbered = rows.numbering is not None or (warm_start is not None and warm_start.transform.numbering is not None)
    if not (numbered or MODELS[settings.spec.model].compact or are_few(settings, rows)):
        return rows, settings
    numbering = rows.occurring
    if warm_start is not None:
        numbering = numbering.united(warm_start.occurring)
        settings = replace(settings, warm_start=warm_start.on_columns(numbering))
    return rows.on_columns(numbering, settings.threads), settings


def on_new_columns(settings: Settings, rows: Rows) -> tuple[Rows, Settings]:
    """Return the rows that have new features, and the settings with their warm start, on columns for their features;
    the settings also get the whole model, with columns for the new features, whose parameters are 0.

    If the parameters of a model depend on its columns, its warm start is the whole model.
    """
    warm_start, spec = settings.warm_start, settings.spec
    assert warm_start is not None
    rows = rows.with_new_features(warm_start.transform)
    kind, fields = MODELS[spec.model], warm_start.transform.fields
    if kind.needs_fields(spec.values):
        fields = max(fields, *(data.fields for data in rows.in_memory))
    if rows.numbering is None and warm_start.transform.numbering is None:
        whole = warm_start.grown(max(rows.features, warm_start.model.features), fields)
    else:
        whole = warm_start.on_columns(rows.occurring.united(warm_start.occurring))
        whole = whole.grown(whole.model.features, fields)
    if kind.keeps_columns or spec.values.get("split_index") is not None:
        numbering = whole.transform.numbering
        rows = rows if numbering is None else rows.on_columns(numbering, settings.threads)
        return rows, replace(settings, warm_start=whole, whole=whole)
    numbering = rows.occurring
    part = warm_start.on_columns(numbering).grown(len(numbering), fields)
    return rows.on_columns(numbering, settings.threads), replace(settings, warm_start=part, whole=whole)


def on_dense_rows(settings: Settings, rows: Rows, *, validated: bool) -> Settings:
    """Return the settings with the model's solver for dense rows, if these are few rows in memory that have most
    features, held-out rows choose the epoch, and no choice of the user stands against it (see `for_dense_rows`).

    validated : whether there are validation data.
    """
    spec = for_dense_rows(settings.spec)
    fixed = not settings.look or settings.keep_state or settings.deadline is not None or not spec.solver_by_data
    if fixed or not isinstance(rows, RowsInMemory) or settings.warm_start or settings.stream:
        return settings
    if rows.related or rows.data.group is not None:
        return settings
    if not validated and not rows_held_out(rows.count, settings.hold_out, spec):
        return settings
    few = are_dense(rows.count, rows.nonzeros, rows.features) and not are_many(spec, rows.nonzeros)
    return replace(settings, spec=spec) if few else settings


def are_dense(rows: int, nonzeros: int, features: int) -> bool:
    """Return whether rows have most features."""
    return nonzeros >= DENSE * rows * features


def are_many(spec: Spec, nonzeros: int) -> bool:
    """Return whether rows are too many for a spec with the solver of dense rows, by default."""
    return bool(nonzeros * spec.values["rank"] > FEW_VISITS)


def are_few(settings: Settings, rows: Rows) -> bool:
    """Return whether few of many features occur in the rows of a run that visits them several times, so that it saves
    time to number these. With new rows, there will be others."""
    spec = settings.spec
    by_column = MODELS[spec.model].keeps_columns or spec.values.get("split_index") is not None or rows.related
    if by_column or settings.warm_start is not None or spec.values["epochs"] == 1:
        return False
    return rows.features > MANY_FEATURES and len(rows.occurring) <= FEW_OCCUR * rows.features


def fit(settings: Settings, rows: Rows, hold_out: HoldOut) -> tuple[Transform, Rows, Spec]:
    """Return the transform of a run, its rows of which some are held out, and its spec with the loss of the labels.

    Raises BadInputError for labels that do not fit the loss, and UsageError.
    """
    warm_start = settings.warm_start
    labels = labels_of(settings, rows)
    spec = with_loss(settings.spec, labels.loss)
    if settings.only_new and warm_start:
        transform = replace(warm_start.transform, fieldless=not MODELS[spec.model].needs_fields(spec.values))
        return transform, rows.hold_out(spec, labels, HoldOut(0.0)), spec
    if rows.related and not is_bounded(spec, labels):
        raise UsageError(
            f"loss {labels.loss} has no largest curvature, by which {spec.solver} bounds the loss of the rows that "
            "refer to a row of a relation; join the files"
        )
    spec, label_range = fit_clip(spec, labels, rows.labels, warm_start)
    transform = Transform(
        labels,
        max(rows.features, warm_start.model.features if warm_start else 0),
        rows.numbering,
        settings.hash_bits,
        norm=bool(spec.values["norm"]),
        label_range=label_range,
        table=settings.table or (warm_start.transform.table if warm_start else None),
    )
    rows = rows.hold_out(spec, labels, hold_out)
    if settings.min_count > 1:
        transform = without_rare(transform, rows, settings)
    transform = replace(transform, groups=groups_of(settings, rows, transform))
    if not MODELS[spec.model].needs_fields(spec.values):
        transform = replace(transform, fieldless=True)
    fields = max(rows.fields(transform), warm_start.transform.fields if warm_start else 0)
    transform = replace(transform, fields=fields)
    if is_scaled(spec.values):
        transform = replace(transform, scale=learn_scale(spec, rows, transform, warm_start))
    return transform, rows, spec


def labels_of(settings: Settings, rows: Rows) -> Labels:
    """Return the labels of the warm start, or those that fit the loss; if the spec has no loss, the labels determine
    it."""
    spec = settings.spec
    if settings.warm_start:
        labels = settings.warm_start.labels_for(spec)
    else:
        labels = fit_labels(rows.labels, spec.loss, MODELS[spec.model].closed_form, rows.names)
    supported = spec.solver_entry.losses
    if spec.loss is None and supported and labels.loss not in supported:
        task = LOSSES[labels.loss].task
        return replace(labels, loss=next(name for name in supported if LOSSES[name].task == task))
    return labels


def is_bounded(spec: Spec, labels: Labels) -> bool:
    """Return whether the loss that a solver for all rows at once minimises, or samples by, has a largest curvature."""
    return spec.solver_entry.is_sampler or math.isfinite(build_loss(spec, labels.loss, labels.outputs).smoothness)


def with_loss(spec: Spec, loss: str) -> Spec:
    """Return the spec with the loss of the labels and the defaults of its options, unless it has this loss already."""
    if spec.loss == loss:
        return spec
    loss_options = {name: OPTIONS[name].default for name in LOSSES[loss].options}
    return replace(spec, loss=loss, values={**spec.values, **loss_options})


def without_rare(transform: Transform, rows: Rows, settings: Settings) -> Transform:
    """Return the transform in which the features that occur in fewer than `min_count` of the rows to train on have no
    entries, or share a column."""
    frequent = rows.counts(transform, settings.threads) >= settings.min_count
    numbering = numbering_without_rare(transform.numbering, frequent, settings.share_rare)
    if numbering is None:
        return replace(transform, rare=True, frequent=frequent)
    return replace(transform, rare=True, numbering=numbering, features=len(numbering))


def numbering_without_rare(
    numbering: Numbering | Dictionary | None, frequent: NDArray[np.bool_], share: bool
) -> Numbering | Dictionary | None:
    """Return the numbering of the frequent features (bool, columns).

    share : whether the others share a column. Otherwise they have none; without a numbering, they keep their columns,
        and the result is None.
    """
    if not share:
        return None if numbering is None else numbering.subset(frequent)
    if not isinstance(numbering, Dictionary):
        numbering = of_numbers(every_column(len(frequent)) if numbering is None else numbering)
    return numbering.sharing(frequent)


def learn_scale(spec: Spec, rows: Rows, transform: Transform, warm_start: WarmStart | None) -> Scaling:
    """Return the scaling of the columns: that of the warm start for columns that it has seen, if it has the same
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
