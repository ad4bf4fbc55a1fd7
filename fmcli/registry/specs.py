"""The specification of a run: model, solver, loss and all option values, completed and checked before data are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, TypeVar

from fmcli.errors import UsageError, called
from fmcli.names import find_name
from fmcli.records import dataclass
from fmcli.registry.derived import Derived, Facts
from fmcli.registry.entry import Entry
from fmcli.registry.losses import CLIPPED_LOSS, CLOSED_FORM_LOSS, LOSSES, OTHERS, TWO_VALUES, LossEntry
from fmcli.registry.models import DEFAULT_MODEL, MODELS, ModelEntry
from fmcli.registry.options import COMMON, GROUP_PENALTIES, OPTIONS, SAME_TO_ALL
from fmcli.registry.solvers import CLOSED_FORM, DEFAULT_SOLVER, SOLVERS, SolverEntry, solver_entry
from fmcli.registry.synonyms import other_name
from fmcli.text import number

E = TypeVar("E", bound=Entry)

# Options that refine another option for a part of the model. If they are not given, they have the value of the other
# option, or its default if the run does not take the other option.
REFINES = {
    **{"l1_w": "l1", "l1_v": "l1", "l2_w": "l2", "l2_v": "l2", "alpha_w": "alpha", "alpha_v": "alpha"},
    **dict.fromkeys(("learning_rate_w", "learning_rate_v", "anchor_rate"), "learning_rate"),
    "prior_rate_w": "prior_rate",
}

# The option that gives labels a unit of their own in training, and the task of the losses with such labels.
SCALE_LABELS, SCALED_TASK = "scale_labels", "real"

# The option that fits the weights of factors, or keeps their initial values.
FIT_BETA = "fit_beta"

# Option -> the only schedule of the learning rate that has it.
OF_SCHEDULE = {"power": "invscaling", "t0": "inverse"}

# The limit of integer options without a declared limit: the largest int32, which the compiled core uses.
LARGEST_COUNT = 2**31 - 1


# The entry of Spec.given for a given solver.
SOLVER = "solver"


@dataclass(frozen=True)
class Spec:
    """The specification of a run.

    values : every option of the model, the solver and the loss by name, with defaults filled in; defaults that depend
        on the data are Derived until `resolve` replaces them.
    given : the names of explicitly given options, and SOLVER if the solver was given.
    multiples : option -> value / default, for options that the data have chosen and whose defaults depend on the rows;
        an update with more rows inherits the multiple.
    """

    model: str
    solver: str
    loss: str | None  # None: the labels choose it
    values: Mapping[str, Any]
    given: frozenset[str] = frozenset()
    multiples: Mapping[str, float] = field(default_factory=dict)

    @property
    def solver_entry(self) -> SolverEntry:
        """The registry entry of the solver."""
        return solver_entry(self.solver)

    @cached_property
    def by_rows(self) -> bool:
        """Whether the solver is stochastic."""
        return self.solver_entry.by_rows

    @property
    def solver_by_data(self) -> bool:
        """Whether dense rows chose the solver."""
        return SOLVER not in self.given and self.solver == MODELS[self.model].dense_solver

    def keywords(self, entry: Entry) -> dict[str, Any]:
        """Return the options of the model, the solver or the loss (its entry) by name."""
        return {name: self.values[name] for name in entry.options}

    def takes(self, name: str) -> bool:
        """Return whether the model and the solver accept an option."""
        refused = (MODELS[self.model].refuses, self.solver_entry.refuses)
        return name in self.values and not any(name in reasons for reasons in refused)

    def with_loss(self, loss: str) -> Spec:
        """Return the spec with this loss, chosen by the labels, and its default options; unchanged if it has this
        loss."""
        if self.loss == loss:
            return self
        of_loss = {name: OPTIONS[name].default for name in LOSSES[loss].options}
        return replace(self, loss=loss, values={**self.values, **of_loss})


def scaled_for_numbers(spec: Spec, *, has_numbers: bool) -> Spec:
    """Return the spec for a table; its columns of numbers, if it has some, are scaled unless the option is given.

    On held-out rows of 13 tables, no run with zscore diverged, and it was the best method on all but one of the tables
    with more than 500 rows. It adds entries without fields, so kinds with fields use standard.
    """
    of_numbers = "standard" if MODELS[spec.model].needs_fields(spec.values) else "zscore"
    method = of_numbers if has_numbers else OPTIONS["scale"].default
    if "scale" in spec.given or method == spec.values["scale"]:
        return spec
    return replace(spec, values={**spec.values, "scale": method})


def make_spec(
    model: str = DEFAULT_MODEL,
    solver: str | None = None,
    loss: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Spec:
    """Check the options of a run, and fill in the defaults.

    Parameters
    ----------
    model, solver, loss : registered names. solver None: the default solver of the model. loss None: the labels choose
        it later.
    options : values by option name; missing options and None have their defaults.

    Raises
    ------
    UsageError
        If a name is not registered, no component takes an option, a value is out of range, or the components or
        options cannot be combined.
    """
    kind, chosen_solver, chosen_loss = find(MODELS, "model", model), None, None
    if kind.closed_form:
        check_closed_form(model, solver, loss)
        loss = CLOSED_FORM_LOSS
    else:
        chosen_solver = find(SOLVERS, "solver", solver or kind.solver)
        check_made_by(kind, chosen_solver)
    if loss:
        chosen_loss = find(LOSSES, "loss", loss)
        check_loss(kind, chosen_solver, chosen_loss)
        check_pairs(chosen_solver, chosen_loss)
    others: list[Entry] = [entry for entry in (chosen_solver, chosen_loss) if entry]
    taken = [*COMMON, *(name for entry in (kind, *others) for name in entry.options)]
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for name, value in given.items():
        check(name, value, taken, kind, others)
    values = complete(taken, kind, others, given)
    for name in kind.positive:
        if not values[name] and not any(values.get(part) for part in (f"{name}_w", f"{name}_v")):
            other = f"; use {called('model')} {kind.unpenalized} for 0" if kind.unpenalized else ""
            raise UsageError(f"{model} needs {called(name)} > 0{other}")
    for name, whole in REFINES.items():
        if name in values and values[name] is None:
            values[name] = values.get(whole, OPTIONS[whole].default)
    check_clip(loss, values["clip"])
    check_scale_labels(loss, values[SCALE_LABELS])
    check_nuclear(kind, values)
    check_group_penalties(values)
    check_schedule(given, values)
    check_round_size(kind, chosen_solver, chosen_loss, given, values)
    check_degrees(kind, values)
    check_burn_in(values)
    return Spec(model, solver or kind.solver, loss, values, frozenset({*given, SOLVER} if solver else given))


def for_dense_rows(spec: Spec) -> Spec:
    """Return the spec with the model's dense solver, unless the user chose a solver, a solver option or a non-default
    loss."""
    kind = MODELS[spec.model]
    of_solver = {SOLVER, *COMMON, *spec.solver_entry.options}.difference(SAME_TO_ALL)
    if not kind.dense_solver or spec.given & of_solver or spec.loss not in (None, TWO_VALUES, OTHERS):
        return spec
    given = {name: spec.values[name] for name in spec.given}
    made = make_spec(spec.model, kind.dense_solver, spec.loss, given)
    same = {name: spec.values[name] for name in SAME_TO_ALL}
    return replace(made, values={**made.values, **same}, given=spec.given)


def resolve(spec: Spec, **known: Any) -> Spec:
    """Return the spec with numbers in place of defaults that depend on the data. known : the facts about the data, as
    in Facts; without `weight`, each row has the weight 1."""
    values = dict(spec.values)
    of_spec = {"solver": spec.solver, "loss": spec.loss, "by_rows": spec.by_rows, "values": values}
    facts = Facts(**{"weight": known["rows"], **known, **of_spec})
    for name in OPTIONS:
        default = values.get(name)
        if isinstance(default, Derived):
            values[name] = default.of(facts)
    return replace(spec, values=values)


def complete(taken: list[str], kind: ModelEntry, others: list[Entry], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of all options. In decreasing precedence: given values, defaults of the model with this solver,
    defaults of the model, defaults of the loss and the solver, defaults of the options.

    A value of an option also replaces lower-precedence values of the options that refine it: a given --l2 applies to
    linear weights and factors, even if the solver has defaults for --l2-w and --l2-v.
    """
    values = {name: OPTIONS[name].default for name in taken}
    pairs = [kind.with_solver.get(entry.name, {}) for entry in others]
    for chosen in (*(entry.defaults for entry in others), kind.defaults, *pairs, given):
        values.update({part: None for part, whole in REFINES.items() if whole in chosen and part in values})
        values.update(chosen)
    return values


def check_loss(kind: ModelEntry, solver: SolverEntry | None, loss: LossEntry) -> None:
    """Raise UsageError if the solver does not support the loss, or needs a differentiable loss and this one is not."""
    if solver and solver.losses and loss.name not in solver.losses:
        other = f"use {called(SOLVER)} {kind.solver if kind.solver != solver.name else DEFAULT_SOLVER}"
        same_labels = any(LOSSES[name].task == loss.task for name in solver.losses)
        raise UsageError(
            f"{solver.name} draws parameters under {called('loss')} {either(solver.losses)} only, not under "
            f"{loss.name}; " + (f"leave out {called('loss')}, or {other}" if same_labels else other)
        )
    if loss.drawn and not (solver and solver.is_sampler):
        names = ", ".join(entry.name for entry in SOLVERS.values() if entry.is_sampler)
        only = f"only {called(SOLVER)} {names}"
        raise UsageError(f"loss {loss.name} has parameters of its own, which {only} draws; use it")
    if solver and not solver.by_rows and not loss.smooth:
        others = [
            f"{called('loss')} {entry.name}"
            for entry in LOSSES.values()
            if entry.smooth and entry.task == loss.task and (not solver.losses or entry.name in solver.losses)
        ]
        raise UsageError(
            f"{solver.name} needs a differentiable loss, and {loss.name} is not; use "
            + either([*others, f"another solver ({called(SOLVER)})"])
        )


def needed_for(spec: Spec, loss: str) -> dict[str, str]:
    """Return the changed choices that a run of a spec needs for a loss: none, the default solver of its model, or the
    default model."""
    solver = spec.solver if SOLVER in spec.given else None
    for model, chosen in ((spec.model, solver), (spec.model, MODELS[spec.model].solver), (DEFAULT_MODEL, None)):
        try:
            made = make_spec(model, chosen, loss)
        except UsageError:
            continue
        others = {"model": model} if model != spec.model else {"solver": made.solver} if chosen != solver else {}
        return others
    raise AssertionError(f"the usual model cannot have loss {loss}")


def either(names: Sequence[str]) -> str:
    """Return names as alternatives: "a, b or c"."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def check_pairs(solver: SolverEntry | None, loss: LossEntry) -> None:
    """Raise UsageError if the loss is pairwise, but the solver does not train on single rows."""
    if loss.pairwise and solver and not solver.by_rows:
        names = ", ".join(entry.name for entry in SOLVERS.values() if entry.by_rows)
        raise UsageError(
            f"loss {loss.name} compares pairs of rows, and {solver.name} would need all pairs in each step; use "
            f"another solver ({called(SOLVER)} {names})"
        )


def check_made_by(kind: ModelEntry, solver: SolverEntry) -> None:
    """Raise UsageError if the solver cannot train the model, or does not support a penalty that the model requires."""
    if solver.is_sampler and not kind.drawn:
        like = f"{called('model')} {kind.drawn_like}, or " if kind.drawn_like else ""
        raise UsageError(
            f"{solver.name} draws parameters in which scores are affine, which scores of {kind.name} are not; use "
            f"{like}{called(SOLVER)} {kind.solver}"
        )
    refused = [called(name) for name in kind.positive if name in solver.refuses]
    if refused:
        able = [name for name, entry in SOLVERS.items() if not entry.refuses.keys() & set(kind.positive)]
        raise UsageError(
            f"{kind.name} needs {' and '.join(refused)}, which {solver.name} does not support; use "
            + either([f"{called(SOLVER)} {name}" for name in able])
        )


def check_nuclear(kind: ModelEntry, values: Mapping[str, Any]) -> None:
    """Raise UsageError if a nuclear norm penalty is given for a model without order 2 and fitted kernel weights."""
    if not values.get("nuclear"):
        return
    if FIT_BETA not in kind.options or values.get("order", 2) != 2 or values[FIT_BETA] is False:
        kinds = " or ".join(takers_of(MODELS, FIT_BETA))
        raise UsageError(
            f"{called('nuclear')} applies only to kernels of order 2 with fitted weights; use {called('model')} "
            f"{kinds}, without {called('no_fit_beta')}"
        )


def check_group_penalties(values: Mapping[str, Any]) -> None:
    """Raise UsageError if two group penalties, or a group penalty and the nuclear norm, are given."""
    given = [called(name) for name in ("nuclear", *GROUP_PENALTIES) if values.get(name)]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be combined; choose one")


def check_burn_in(values: Mapping[str, Any]) -> None:
    """Raise UsageError if all sweeps belong to the burn-in."""
    burn_in, epochs = values.get("burn_in"), values["epochs"]
    if isinstance(burn_in, int) and 0 < epochs <= burn_in:
        first, sweeps = called("burn_in"), called("epochs")
        raise UsageError(
            f"{first} {burn_in} leaves none of {epochs} sweeps to average over; raise {sweeps}, or lower {first}"
        )


def check_clip(loss: str | None, clip: bool | None) -> None:
    """Raise UsageError if --clip is given with a loss other than squared. A loss of None is not known yet."""
    if clip and loss not in (None, CLIPPED_LOSS):
        only = f"{called('clip')} applies only to {called('loss')} {CLIPPED_LOSS}"
        raise UsageError(f"{only}, not to {loss}; leave it out")


def check_scale_labels(loss: str | None, scaled: bool | None) -> None:
    """Raise UsageError if --scale-labels is given with a loss for labels other than numbers. A loss of None is not
    known yet."""
    if scaled and loss is not None and LOSSES[loss].task != SCALED_TASK:
        takers = [f"{called('loss')} {entry.name}" for entry in LOSSES.values() if entry.task == SCALED_TASK]
        raise UsageError(f"{called(SCALE_LABELS)} applies only to {either(takers)}, not to {loss}; leave it out")


def check_schedule(given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raise UsageError if a schedule is combined with adaptive learning rates, or if an option of another schedule is
    given."""
    for name, schedule in OF_SCHEDULE.items():
        if name in given and values["schedule"] != schedule:
            option, chosen = called(name), f"{called('schedule')} {schedule}"
            raise UsageError(
                f"{option} applies only to {chosen}, and the schedule is {values['schedule']}; add {chosen}, or leave "
                f"out {option}"
            )
    if values.get("adaptive") and values["schedule"] != OPTIONS["schedule"].default:
        asked = f"{called('schedule')} {values['schedule']}"
        raise UsageError(f"{asked} needs {called('no_adaptive')}: adaptive learning rates have no schedule")


def check_round_size(
    kind: ModelEntry,
    solver: SolverEntry | None,
    loss: LossEntry | None,
    given: Mapping[str, Any],
    values: Mapping[str, Any],
) -> None:
    """Raise UsageError if rounds are requested for components that do not support them, or in batches."""
    if given.get("round_size", 1) == 1:
        return
    asked = f"{called('round_size')} {given['round_size']}"
    without = [] if kind.rounds else [kind.name]
    without += [solver.name] if solver and not solver.rounds else []
    without += [f"loss {loss.name}"] if loss and (loss.pairwise or not loss.bounded) else []
    if without:
        raise UsageError(f"{' and '.join(without)} cannot train in rounds; leave out {asked}")
    if not values.get("adaptive", True):
        name = solver.name if solver else kind.name
        raise UsageError(f"{name} trains in rounds only with {called('adaptive')}; leave out {asked}")
    if values.get("prox") == "exact":
        raise UsageError(f"{asked} cannot be combined with {called('prox')} exact; choose one")
    if given.get("batch_size", 1) > 1:
        raise UsageError(f"{asked} cannot be combined with {called('batch_size')}; choose one")


def check_closed_form(model: str, solver: str | None, loss: str | None) -> None:
    """Raise UsageError if a solver, or a loss other than squared, is given for a model with a closed-form solution."""
    if solver not in (None, CLOSED_FORM):
        raise UsageError(
            f"{model} is solved in closed form, without a solver; leave out {called(SOLVER)} {solver}, or choose "
            f"another {called('model')}"
        )
    if loss not in (None, CLOSED_FORM_LOSS):
        raise UsageError(
            f"{model} is solved in closed form, which exists only for {called('loss')} {CLOSED_FORM_LOSS}; leave "
            f"out {called('loss')} {loss}, or choose another {called('model')}"
        )


def check_degrees(kind: ModelEntry, values: Mapping[str, Any]) -> None:
    """Raise UsageError if an option has several values, but the model takes a single value or another number of
    values."""
    for name, value in values.items():
        if not isinstance(value, list):
            continue
        given, degrees = f"{called(name)} is {as_given(value)}", values.get("order", 2) - 1
        if name not in kind.by_degree:
            raise UsageError(f"{given}; {kind.name} takes one number")
        if len(value) != degrees:
            raise UsageError(
                f"{given}; with {called('order')} {degrees + 1} {kind.name} takes {degrees}, one for each degree "
                f"from 2 on, or one for all"
            )


def find(table: Mapping[str, E], what: str, name: str) -> E:
    """Return the entry with this name. Raises UsageError, which suggests similar names, if there is none."""
    if name not in table and (suggested := other_name(what, name)):
        raise UsageError(suggested)
    return table[find_name(what, name, table)]


def check(name: str, value: Any, taken: list[str], kind: ModelEntry, others: list[Entry]) -> None:
    """Raise UsageError if an option does not exist, does not apply to the chosen components, or is out of range."""
    option = OPTIONS[find_name("option", name, OPTIONS)]
    chosen = (kind, *others)
    for entry in chosen:
        if name in entry.refuses:
            raise UsageError(f"{called(name)} cannot be used with {entry.name}: {entry.refuses[name]}")
    if name not in taken:
        takers = [
            f"{what} {', '.join(names)}"
            for what, table in (("model", MODELS), ("solver", SOLVERS), ("loss", LOSSES))
            if (names := takers_of(table, name))
        ]
        belongs = " and ".join(takers)
        raise UsageError(
            f"{called(name)} does not apply to {', '.join(entry.name for entry in chosen)}; it applies to {belongs}"
        )
    if isinstance(value, int) and option.kind is int and option.high is None and value > LARGEST_COUNT:
        raise UsageError(f"{called(name)} is {value}; it must be at most {LARGEST_COUNT}")
    if option.kind is not bool and not isinstance(value, Derived) and not option.permits(value):
        raise UsageError(f"{called(name)} is {as_given(value)}; it must be {option.range()}")
    if name in kind.limits and value > kind.limits[name]:
        raise UsageError(f"{called(name)} is {value}; with {kind.name} it can be at most {kind.limits[name]}")


def as_given(value: Any) -> str:
    """Return the value of an option as on the command line."""
    if isinstance(value, list):
        return "/".join(map(str, value))
    return number(value) if isinstance(value, float) else str(value)


def takes(name: str, model: str, solver: str, loss: str) -> bool:
    """Return whether a run with this model, solver and loss takes an option. Unknown names are ignored."""
    entries: list[Entry] = [
        table[chosen] for table, chosen in ((MODELS, model), (SOLVERS, solver), (LOSSES, loss)) if chosen in table
    ]
    taken = name in COMMON or any(name in entry.options for entry in entries)
    return taken and not any(name in entry.refuses for entry in entries)


def takers_of(table: Mapping[str, Entry], option: str) -> list[str]:
    """Return the names of the entries that take an option."""
    return [entry.name for entry in table.values() if option in entry.options]
