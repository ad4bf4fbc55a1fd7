"""The settings of a run, checked before any data is read."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.records import dataclass
from fmcli.registry.build import build_model
from fmcli.registry.choices import Choices
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import GROUP_PENALTIES
from fmcli.registry.specs import Spec, resolve, scaled_for_numbers

if TYPE_CHECKING:
    from threading import Event

    from fmcli.data.shards.training_rows import TrainingRows
    from fmcli.data.tables.schema import Schema
    from fmcli.data.text.prior_groups import PriorGroups
    from fmcli.models.model import Model
    from fmcli.models.parameters import Parameters
    from fmcli.training.setup.warm_start import WarmStart

# The largest state, in bytes, that a model keeps by default. It is worth its space: without it, the first update takes
# steps as large as a new model's, and later updates do not make up for them.
LARGEST_STATE = 256 << 20
# Numbers for each parameter about the loss of the rows as a function of it: a curvature and a slope.
PAST_SLOTS = 2
# The option that says how strongly the rows of a warm start hold its parameters.
HOLD = "init_strength"
# By default, refit if non-zeros x rank is at most this: an epoch takes some hundredths of a second. It is a count, not
# a time, so the same data give the same bytes on every machine.
AFFORDABLE = 7e6


NO_CHOICES = Choices.of({})


@dataclass(frozen=True)
class HoldOut:
    """Which rows are held out.

    share : of all rows; None: the default.
    last : whether it is the last rows; otherwise they are random.
    times : whether the groups of rows are their times; the last times are held out.
    each : the number of last rows of each group to hold out, in place of a share of all rows; 0: a share.
    grouped : whether it depends on the groups of rows, or on their times.
    compares : whether they compare kinds of models, so more are held out by default, also if no epoch is chosen.
    """

    share: float | None
    last: bool = False
    times: bool = False
    each: int = 0
    grouped: bool = False
    compares: bool = False

    @property
    def at_random(self) -> bool:
        """Whether neither their order, nor groups or times that the user names tell the rows."""
        return not (self.in_order or self.grouped)

    @property
    def in_order(self) -> bool:
        """Whether the held-out rows follow the training rows, in their order or in time."""
        return self.last or self.times or self.each > 0


@dataclass(frozen=True)
class Settings:
    """What a run was asked to do.

    spec : the model, solver, loss and options to train.
    choices : the choices of the user, which training reads as they are unless they are among the following.
    warm_start : a model to resume from.
    valid_name : the name of the validation data in messages.
    holdout : share of the rows to hold out as validation data, if there are no others; None: the usual share, but none
        of a stream, if training resumes from a model, or if no metric can choose.
    holdout_last, holdout_times, holdout_each, holdout_grouped : which rows these are, as in HoldOut.
    quick_search : whether short runs on validation data may choose options that were not given, if that is cheap, and
        dense rows the solver.
    alternatives : further specs, which replace `spec` if they are better on validation data.
    stream : whether the rows come from a pipe, so a single epoch is one pass over them.
    threads : how many threads.
    deadline : the value of time.perf_counter() at which training ends: within an epoch with a stochastic solver, else
        after the last epoch that ends before it, if each takes as long as the one before. None: there is no limit.
    interrupt : ends training as the deadline does, once it is set; None: nothing does.
    hash_bits : the number of bits of the hashes of ids that are columns; 0: ids are not hashed.
    min_count : features in fewer of the rows to train on are rare.
    share_rare : whether rare features share a column; otherwise they count as unseen.
    table : the columns of the tables with the rows; None: the rows come from other text.
    positive : the label that is the positive one of two; None: as in the warm start, or else by usual names.
    whole : then, once the rows are known: the whole warm start, with columns for new features, which are 0;
        `warm_start` is the part of it that has the columns of the rows.
    groups : the features that share a prior, for solvers that sample; None: as in the warm start, or else by field.

    Raises UsageError for metrics that do not exist or do not fit the loss, and for a warm start from a model that has
    other parameters than the spec's.
    """

    spec: Spec
    choices: Choices = NO_CHOICES
    warm_start: WarmStart | None = None
    valid_name: str = "validation data"
    holdout: float | None = 0.0
    holdout_last: bool = False
    holdout_times: bool = False
    holdout_each: int = 0
    holdout_grouped: bool = False
    quick_search: bool = False
    alternatives: tuple[Spec, ...] = ()
    stream: bool = False
    threads: int = 1
    deadline: float | None = None
    interrupt: Event | None = None
    hash_bits: int = 0
    min_count: int = 1
    share_rare: bool = False
    groups: PriorGroups | None = None
    table: Schema | None = None
    positive: str | None = None
    whole: WarmStart | None = None

    def __post_init__(self) -> None:
        if self.warm_start:
            check_warm_start(self.warm_start, self.spec)
        if self.positive is not None:
            check_positive(self.positive, self.spec, self.warm_start)
        if self.choices.metrics:
            from fmcli.scoring.metrics import check

            check(self.choosing, self.spec.loss)

    @classmethod
    def of(cls, spec: Spec, **values: Any) -> Settings:
        """Return settings with these values of fields, and of choices."""
        made = {name: values.pop(name) for name in values.keys() - {one.name for one in fields(cls)}}
        return cls(spec, Choices.of(made), **values)

    def with_scaled_numbers(self) -> Settings:
        """Return the settings of a first run, which scales columns of numbers of its table by default."""
        if self.table is None or self.warm_start is not None:
            return self
        scaled = partial(scaled_for_numbers, has_numbers=bool(self.table.numbers))
        return replace(self, spec=scaled(self.spec), alternatives=tuple(map(scaled, self.alternatives)))

    def waits(self, rows: int, *, dense: bool) -> int:
        """Return the patience: how many epochs without a better one training on this number of rows accepts. dense :
        whether rows have most features."""
        patience: int | None = self.choices.patience
        return self.spec.solver_entry.waits(rows, dense=dense) if patience is None else patience

    @property
    def uses_fields(self) -> bool:
        """Whether fields count if rows have some: for the priors of a solver that samples, or for an alternative."""
        return self.spec.solver_entry.is_sampler or bool(self.alternatives)

    @property
    def searches_for_sampler(self) -> bool:
        """Whether rows are held out only to choose options of a solver that samples."""
        samples, once = self.spec.solver_entry.is_sampler, self.choices.refit is not False
        return samples and once and self.quick_search and self.deadline is None

    def may_keep_state(self, spec: Spec, model: Parameters, slots: int) -> bool:
        """Return whether the file of a trained model may have the state of its solver, which has `slots` numbers for
        each parameter: as chosen, else the state of a stochastic solver unless it is too large."""
        if (keep := self.choices.keep_state) is not None:
            return bool(keep)
        return spec.by_rows and state_bytes(model, slots) <= LARGEST_STATE

    def keeps_past(self, spec: Spec, model: Parameters) -> bool:
        """Return whether the file of a trained model has what an update of it needs to know of the loss of its rows: of
        a solver whose updates take that in place of the rows, as the state of others."""
        keep = self.choices.keep_state
        return HOLD in spec.values and bool(state_bytes(model, PAST_SLOTS) <= LARGEST_STATE if keep is None else keep)

    def refits(self, spec: Spec, source: TrainingRows) -> bool:
        """Return whether a run is repeated on all rows if held-out ones have chosen its epoch: as asked, else if that
        is cheap."""
        if self.choices.refit is not None or not spec.values["epochs"]:
            return bool(self.choices.refit and spec.values["epochs"])
        return self.deadline is None and (affordable_parts(spec, source) == 1 or bool(self.alternatives))

    @property
    def choosing(self) -> list[str]:
        """The metrics that can choose the epoch."""
        from fmcli.scoring.sparsity import of_predictions

        return of_predictions(self.choices.metrics)

    @property
    def hold_out(self) -> HoldOut:
        """Which rows to hold out if there are no validation data."""
        without = self.stream or self.warm_start or (self.choices.metrics and not self.choosing)
        share = 0.0 if self.holdout is None and without else self.holdout
        return HoldOut(
            share,
            self.holdout_last,
            self.holdout_times,
            self.holdout_each,
            grouped=self.holdout_grouped,
            compares=bool(self.alternatives) or self.searches_for_sampler,
        )

    def check_chooser(self) -> None:
        """UsageError if no metric could choose the epoch."""
        if self.choices.metrics and not self.choosing:
            raise UsageError("sparsity cannot choose the epoch; name another metric, too")


def visits_of(spec: Spec, source: TrainingRows) -> int:
    """Return non-zeros x rank, by which the time of an epoch grows."""
    return source.all_nonzeros * rank_of(spec)


def affordable_parts(spec: Spec, source: TrainingRows) -> int:
    """Return into how many parts the rows must be divided so that a run on one of them takes little time."""
    return max(1, math.ceil(visits_of(spec, source) / AFFORDABLE))


def rank_of(spec: Spec) -> int:
    """Return the number of factors of a feature; at least 1."""
    rank = spec.values.get("rank", 1)
    return sum(rank) if isinstance(rank, list) else rank


def state_bytes(model: Parameters, slots: int) -> int:
    """Return the bytes of the state in the file of a model, with `slots` numbers for each parameter."""
    from fmcli.models.layout import REAL_TYPE  # loads numpy, which options of commands, in this module, do not need

    shapes = model.shapes()
    numbers = sum(math.prod(shapes[name]) for layout in model.layout for name in layout.names)
    return slots * numbers * REAL_TYPE.itemsize


def make_model(spec: Spec, features: int, outputs: int, fields: int, cutpoints: int = 0) -> Model:
    """Return the model of a spec; its parameters are not allocated yet."""
    kind = MODELS[spec.model]
    by_row = any(spec.values[name] > 0 for name in GROUP_PENALTIES)
    model = build_model(kind, features, outputs, spec.keywords(kind), fields, by_row, cutpoints)
    if not spec.by_rows:
        model.pack()
    return model


def check_positive(wanted: str, spec: Spec, warm_start: WarmStart | None) -> None:
    """Raise UsageError for a positive label if the loss is not of two labels, or the warm start has another one."""
    loss, closed_form = spec.loss, MODELS[spec.model].closed_form
    if warm_start is not None:
        warm_start.transform.labels.require_positive(wanted, warm_start.path, ", which its parameters mean")
    elif loss is not None and LOSSES[loss].task not in ("binary", "soft") and not closed_form:
        raise UsageError(f"loss {loss} has no positive label, only losses of two labels have", positive=LEAVE_OUT)


def check_warm_start(warm_start: WarmStart, spec: Spec) -> None:
    """Check a warm start. Raises UsageError if a run of this spec cannot resume from a model, whatever its data."""
    labels, fields = warm_start.labels_for(spec), warm_start.transform.fields
    # No shape depends on the defaults that depend on data.
    some = resolve(spec, rows=1, nonzeros=1, features=1, validated=False)
    model = make_model(some, warm_start.model.features, labels.outputs, fields, labels.cutpoints)
    warm_start.check(spec, model)
