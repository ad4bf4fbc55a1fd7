"""The plan of a run: its settings, fitted to the data, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.errors import UsageError, called
from fmcli.models.model import Model
from fmcli.records import dataclass
from fmcli.registry.build import build_trainer
from fmcli.registry.derived import Derived
from fmcli.registry.options import GROUP_PENALTIES, OPTIONS, SAME_TO_ALL
from fmcli.registry.specs import SOLVER, Spec, make_spec, resolve
from fmcli.scoring.calibration import Calibration
from fmcli.solvers.coordinate.prior import PriorRows
from fmcli.solvers.trainer import Task
from fmcli.training.draw_sizes import draw_bytes, feature_arrays, may_halve
from fmcli.training.prepared import earlier_of, prepared_model
from fmcli.training.ranked_pairs import METRICS, ranked_pairs
from fmcli.training.setup.fitting import Fitted, Validated, facts_of, fit, occurring
from fmcli.training.setup.rows import Rows
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.warm_start import WarmStart
from fmcli.training.tested_rows import TestedRows
from fmcli.training.validation import Validation, measured_rows

# The penalties' options.
STRENGTHS = ("l1_w", "l1_v", "l2_w", "l2_v", *GROUP_PENALTIES, "nuclear", "l1_from_epoch")


@dataclass(frozen=True)
class OtherReading:
    """Another way to read the rows of a table: other columns are categories, quantities, or cut into bins.

    options : the choices by which a user asks for it.
    plan : returns the plan of a spec on the rows that are read in this way. It raises the errors of `prepare`.
    """

    options: Mapping[str, Any]
    plan: Callable[[Spec], Plan]


def no_readings() -> Sequence[OtherReading]:
    """Return no other ways to read the rows."""
    return ()


@dataclass(frozen=True)
class Plan(Fitted):
    """A fitted run before it begins: all defaults of its spec are resolved.

    model : the model, not allocated yet.
    evaluation : measures the trained model on the training data.
    validation : evaluates each epoch on validation data; None: the last epoch is kept.
    beside : bytes that the run needs in addition to training.
    tested : rows that a solver that samples predicts by the mean over its sweeps; None: there are none.
    calibration : the map from the model's scores to probabilities, in place of the loss's.
    refit_epochs : for how many epochs the model is trained again on all rows; None: as many as the best one.
    compares_last : whether the best of the last epochs by the training rows is kept, without validation data.
    other : returns the plan of another spec for the same rows, if there are alternatives.
    readings : returns other ways to read the rows.
    reading : the number, from 1, of the one by which the rows were read; 0: as asked.
    following : returns the plan of the next segment of a stream, given the run so far as a warm start; None: no rows
        follow.
    facts : the properties of the data from which `resolve` computes defaults.
    begin : start values of the parameters, by name, in place of the usual ones; None: these.
    """

    model: Model
    evaluation: Validation
    validation: Validation | None
    beside: int = 0
    tested: TestedRows | None = None
    calibration: Calibration | None = None
    refit_epochs: int | None = None
    compares_last: bool = False
    other: Callable[[Spec], Plan] | None = None
    readings: Callable[[], Sequence[OtherReading]] = no_readings
    reading: int = 0
    following: Callable[[Spec, WarmStart], Plan] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    begin: Mapping[str, NDArray[Any]] | None = None

    @property
    def data(self) -> Dataset:
        """The rows in memory, transformed: all, or with a cache some random ones."""
        return self.source.data

    @property
    def rows(self) -> NDArray[np.int32]:
        """The numbers of the rows to train on, in their order."""
        return self.source.rows

    def on(self, source: TrainingRows) -> Plan:
        """Return the plan of the same run that trains on other rows."""
        seen, counts, transform = occurring(source, self.transform, self.settings)
        return replace(self, source=source, seen=seen, counts=counts, transform=transform)

    @cached_property
    def measured(self) -> NDArray[np.int32]:
        """The numbers of the rows that measure the trained model."""
        return self.source.numbered(measured_rows(self.data, self.source.rows_here, self.spec))

    @property
    def warm_start(self) -> WarmStart | None:
        """The model that the run resumes from."""
        return self.settings.warm_start

    @cached_property
    def task(self) -> Task:
        """The task of the run's trainer."""
        settings = self.settings
        return Task(
            self.spec,
            self.model,
            self.source,
            threads=settings.threads,
            epochs_before=self.epochs_before,
            deadline=settings.deadline,
            interrupt=settings.interrupt,
            new_features=self.new_features,
            earlier=self.earlier,
            drawn=self.warm_start.drawn if self.new_features and self.warm_start else None,
            seen=self.seen_before,
        )

    @cached_property
    def slots(self) -> int:
        """The number of state arrays of the solver, for each array of parameters."""
        return build_trainer(self.task).slots

    @property
    def resumes(self) -> bool:
        """Whether the solver resumes with the state that the warm start has kept."""
        state = self.warm_start.state if self.warm_start else None
        return state is not None and (state.solver, state.slots) == (self.spec.solver, self.slots)

    @property
    def seen_before(self) -> NDArray[np.bool_] | None:
        """Whether the rows to train on, or the warm start's rows, have each feature, for a solver that samples. None:
        other features stay 0, because rows to predict neither scale their values nor count them in the norm."""
        transform = self.transform
        if not self.spec.solver_entry.is_sampler or transform.norm or transform.scale is not None:
            return None
        return transform.seen

    @property
    def rows_here(self) -> int:
        """The number of rows to train on, without past rows of a stream."""
        return self.source.rows_here if self.source.in_memory else self.source.count

    @cached_property
    def earlier(self) -> PriorRows | None:
        """The rows of the warm start, if they hold its parameters."""
        return None if self.new_features else earlier_of(self.spec, self.source, self.transform, self.warm_start)

    @property
    def one_pass(self) -> bool:
        """Whether the run is a single pass over a stream, so its own rows cannot evaluate it."""
        return self.settings.stream and bool(self.spec.values["epochs"] == 1)

    @property
    def epochs_before(self) -> int:
        """The number of epochs that the warm start was trained for; this run continues the count."""
        return self.warm_start.run.epochs if self.warm_start else 0

    @property
    def penalized_before(self) -> int:
        """The earlier epochs that count for the option l1_from_epoch: all, if the solver resumes with its state."""
        return self.epochs_before if self.resumes else 0

    @cached_property
    def usual(self) -> Mapping[str, Any]:
        """The options of a run of the same kind and solver on the same rows as they are by default."""
        return resolved(make_spec(self.spec.model, self.spec.solver, self.spec.loss), self.facts, self).values

    @cached_property
    def eligible(self) -> int:
        """The first of the run's epochs that may be the best one or end training: factors are penalized from it on."""
        at_once = self.spec.solver_entry.penalizes_at_once
        return max(1, int(self.spec.values["l1_from_epoch"]) - at_once - self.penalized_before)


def prepare(settings: Settings, rows: Rows, valid: Dataset | None = None) -> Plan:
    """Fit settings to rows without allocating anything large.

    Parameters
    ----------
    valid : validation data for early stopping.

    Raises
    ------
    BadInputError
        Labels that do not fit the loss.
    UsageError
        Metrics that do not fit the loss that the labels choose, nothing left to train on.
    """
    fitted, validated = fit(settings, rows, valid)
    facts = facts_of(fitted, validated=validated is not None)
    spec = resolved(fitted.spec, facts, fitted)
    evaluation, validation = evaluations(fitted, validated, spec, held_out=valid is None)
    plan = Plan(
        **vars(replace(fitted, spec=spec)),
        model=prepared_model(spec, fitted.source, fitted.transform, fitted.settings.warm_start),
        evaluation=evaluation,
        validation=validation,
        other=(lambda spec: prepare(replace(settings, spec=spec), rows, valid)) if settings.alternatives else None,
        facts=facts,
    )
    return replace(plan, spec=limit_l1_from_epoch(spec, plan.warm_start, plan.resumes))


def resolved(spec: Spec, facts: Mapping[str, Any], fitted: Fitted) -> Spec:
    """Return the spec in which numbers replace the defaults that depend on the data. The number of draws depends on the
    size of the model, whose shapes depend on no such default."""
    if spec.solver_entry.is_sampler:
        sized = resolve(spec, **facts)
        model = prepared_model(sized, fitted.source, fitted.transform, fitted.settings.warm_start)
        halved = feature_arrays(model) if may_halve(facts) else ()
        facts = {**facts, "drawn": draw_bytes(model), "kept": draw_bytes(model, halved)}
    return resolve(spec, **facts)


def read_as(plan: Plan, number: int) -> Plan:
    """Return the plan of the same kind on the rows of another reading, by its number, from 1. Raises the errors of
    `prepare`."""
    other = plan.readings()[number - 1].plan(plan.settings.spec)
    return replace(other, readings=plan.readings, reading=number)


def evaluations(
    fitted: Fitted, validated: Validated | None, spec: Spec, *, held_out: bool
) -> tuple[Validation, Validation | None]:
    """Return what measures the trained model on the training data, and what evaluates each epoch on validation data, if
    there are some. Raises UsageError for metrics that do not fit the loss, or cannot choose an epoch."""
    settings, transform = fitted.settings, fitted.transform
    evaluation = Validation(
        fitted.source.data,
        transform.labels.loss,
        () if isinstance(fitted.source, ObservedRows) else tuple(settings.choices.metrics),
        settings.waits(fitted.source.all_rows, dense=fitted.dense),
        settings.threads,
        clip=transform.label_range if spec.values["clip"] else None,
        relevance=transform.labels.relevance,
        unit=transform.labels.unit,
    )
    if validated is None or not evaluation.chooser:
        return evaluation, None
    data, rows = validated
    if isinstance(fitted.source, ObservedRows) and rows is not None:
        like = replace(evaluation, metrics=tuple(settings.choices.metrics) or METRICS)
        return evaluation, ranked_pairs(like, fitted.source, rows, transform, spec)
    validation = replace(evaluation, data=data, rows=rows, held_out=held_out)
    return evaluation, replace(validation, metrics=validation.metrics_that_choose())


def with_options(plan: Plan, options: Mapping[str, Any]) -> Plan:
    """Return the plan of the same kind on the same rows with other options, which count as given. Options of the rows'
    transform cannot change; SOLVER names another solver.

    Raises UsageError for options that do not apply or cannot be combined.
    """
    spec, others = plan.spec, {name: value for name, value in options.items() if name != SOLVER}
    given = {name: spec.values[name] for name in spec.given if name in OPTIONS}
    made = make_spec(spec.model, options.get(SOLVER, spec.solver), spec.loss, {**given, **others})
    fixed = {name: spec.values[name] for name in SAME_TO_ALL if name in spec.values}
    multiples = {**spec.multiples, **multiples_of(plan, others)}
    values = {**made.values, **fixed}
    made = replace(made, values=values, given=spec.given | options.keys(), multiples=multiples)
    made = resolved(made, plan.facts, plan)
    made = limit_l1_from_epoch(made, None, False)
    if SOLVER in options:
        waits = replace(plan.settings, spec=made).waits(plan.source.all_rows, dense=plan.dense)
        plan = replace(plan, evaluation=replace(plan.evaluation, patience=waits))
    return of_run(replace(plan, spec=made), plan)


def of_run(run: Plan, fold: Plan) -> Plan:
    """Return the plan of a run on the rows of a fold."""
    patience, validation = run.evaluation.patience, fold.validation
    if validation is not None and validation.patience != patience:
        validation = replace(validation, patience=patience)
    model = prepared_model(run.spec, fold.source, fold.transform, None)
    return replace(fold, spec=run.spec, model=model, evaluation=run.evaluation, validation=validation)


def multiples_of(plan: Plan, options: Mapping[str, Any]) -> dict[str, float]:
    """Return how many times their defaults some penalties are, if the defaults depend on the rows."""
    rules = make_spec(plan.spec.model, plan.spec.solver, plan.spec.loss).values
    derived = [name for name in STRENGTHS if name in options and isinstance(rules.get(name), Derived)]
    usual = plan.usual if derived else {}
    return {name: options[name] / usual[name] for name in derived}


def strengths_of(spec: Spec) -> dict[str, Any]:
    """Return the options of a spec that are strengths of penalties, for Penalty."""
    return {name: spec.values[name] for name in STRENGTHS if name in spec.values}


def strengths_in(plan: Plan) -> dict[str, Any]:
    """Return the strengths of the penalties of a run, for Penalty. They are relative to the mean over all rows, but
    the objective is the mean over the run's rows. An update therefore multiplies them by (its rows + the earlier rows
    in its prior) / its rows, so new features get the penalty of all rows."""
    strengths = strengths_of(plan.spec)
    if isinstance(plan.source, ObservedRows) and not plan.spec.by_rows:  # whose l2 depends on the feature
        return {**strengths, "l2_w": 0.0, "l2_v": 0.0}
    if plan.earlier is None:
        return strengths
    share = 1 + plan.earlier.counted / plan.source.total_weight
    return {name: value if name == "l1_from_epoch" else share * value for name, value in strengths.items()}


def limit_l1_from_epoch(spec: Spec, warm_start: WarmStart | None, resumes: bool) -> Spec:
    """Return the spec with the first penalized epoch limited to the run; a default and an inherited value are lowered.

    Raises UsageError if the run was asked to penalize factors only after its last epoch.
    """
    epochs, name = spec.values["epochs"], "l1_from_epoch"
    if warm_start and name not in spec.given:  # factors have left their start values, or are penalized already
        usual = spec.solver_entry.defaults.get(name, OPTIONS[name].default)
        most = warm_start.run.options.get(name, usual) if resumes else usual
        spec = replace(spec, values={**spec.values, name: min(spec.values[name], most)})
    last = epochs + (warm_start.run.epochs if warm_start and resumes else 0)
    if spec.solver_entry.penalizes_at_once:
        last += 1  # at the end of the last epoch
    if not epochs or spec.values.get(name, 1) <= last:
        return spec
    if name in spec.given and warm_start is None:
        given = f"{called(name)} is {spec.values[name]}"
        raise UsageError(
            f"{given}, after the last of {epochs} epochs; with {spec.solver} it can be at most {last}, or "
            f"{called('epochs')} must be larger"
        )
    return replace(spec, values={**spec.values, name: last})
