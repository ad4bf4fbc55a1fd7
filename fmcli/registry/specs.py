"""What to train: a model, a solver, a loss and their numbers, complete and checked before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fmcli.errors import UsageError
from fmcli.names import find_name
from fmcli.registry.derived import Derived, Facts
from fmcli.registry.tables import (
    CLIPPED_LOSS,
    CLOSED_FORM,
    CLOSED_FORM_LOSS,
    COMMON,
    DEFAULT_MODEL,
    LOSSES,
    MODELS,
    OPTIONS,
    SOLVERS,
    Piece,
)
from fmcli.text import number

if TYPE_CHECKING:
    pass

# Options that refine another for one part of a model: without a value of their own they take the other's.
# Where the run has none of that name, they take its default.
REFINES = {
    **{"l1_w": "l1", "l1_v": "l1", "l2_w": "l2", "l2_v": "l2", "alpha_w": "alpha", "alpha_v": "alpha"},
    **dict.fromkeys(("learning_rate_w", "learning_rate_v", "anchor_rate"), "learning_rate"),
}

# Of options that count something and have no limit of their own: what fits the compiled core.
LARGEST_COUNT = 2**31 - 1


# What stands for the solver among the names of what a run was given.
SOLVER = "solver"


@dataclass(frozen=True)
class Spec:
    """A run's choices.

    values : every option that the pieces take, by name, with defaults filled in; those that depend on the data stay
        Derived until `resolve` replaces them.
    given : names of the options that were explicitly given, and SOLVER if the solver was.
    """

    model: str
    solver: str
    loss: str | None  # None: chosen by the labels
    values: Mapping[str, Any]
    given: frozenset[str] = frozenset()

    @property
    def by_rows(self) -> bool:
        """Whether a solver trains the model row by row."""
        return self.solver in SOLVERS and SOLVERS[self.solver].by_rows

    def keywords(self, piece: Piece) -> dict[str, Any]:
        """The options of one piece."""
        return {name: self.values[name] for name in piece.options}


def make_spec(
    model: str = DEFAULT_MODEL,
    solver: str | None = None,
    loss: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Spec:
    """Complete and check the choices of a run.

    Parameters
    ----------
    model, solver, loss : names of registered pieces; no solver: the model's usual one; no loss: by the labels.
    options : values by option name; what is not given takes its default.

    Raises
    ------
    UsageError
        A name that is not registered, an option that neither the model nor the solver takes, or a value out of range.
    """
    kind = find(MODELS, "model", model)
    pieces = [kind]
    if kind.closed_form:
        check_closed_form(model, solver, loss)
        loss = CLOSED_FORM_LOSS
    else:
        pieces.append(find(SOLVERS, "solver", solver or kind.solver))
    if loss:
        pieces.append(find(LOSSES, "loss", loss))
    check_pieces(pieces)
    taken = [*COMMON, *(name for piece in pieces for name in piece.options)]
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for name, value in given.items():
        check(name, value, taken, pieces)
    values = complete(taken, pieces, given)
    for name in kind.positive:
        if not values[name] and not any(values.get(part) for part in (f"{name}_w", f"{name}_v")):
            raise UsageError(f"{OPTIONS[name].flag} is 0, but it makes {model} what it is; without it say -m fm")
    for name, whole in REFINES.items():
        if name in values and values[name] is None:
            values[name] = values.get(whole, OPTIONS[whole].default)
    check_clip(loss, values["clip"])
    check_nuclear(kind, values)
    check_schedule(values)
    check_degrees(kind, values)
    return Spec(model, solver or kind.solver, loss, values, frozenset({*given, SOLVER} if solver else given))


def resolve(spec: Spec, *, rows: int, nonzeros: int, features: int, longest: float = 0.0, validated: bool) -> Spec:
    """The spec with numbers in place of the defaults that depend on the data; the parameters are those of Facts."""
    values = dict(spec.values)
    for name in OPTIONS:
        default = values.get(name)
        if isinstance(default, Derived):
            facts = Facts(rows, nonzeros, features, longest, validated, spec.solver, spec.by_rows, values)
            values[name] = default.of(facts)
    return replace(spec, values=values)


def complete(taken: list[str], pieces: list[Piece], given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of all options: as given, else as the model's kind has them beside this solver, else as it has them, else
    as the other pieces do.

    An option that refines another goes with it: --l2 decides for linear weights and factors, too, unless one of these
    is given, whatever a solver would have them be.
    """
    kind, *others = pieces
    values = {name: OPTIONS[name].default for name in taken}
    pairs = [kind.with_solver.get(piece.name, {}) for piece in others]
    for chosen in (*(piece.defaults for piece in others), kind.defaults, *pairs, given):
        values.update({part: None for part, whole in REFINES.items() if whole in chosen and part in values})
        values.update(chosen)
    return values


def check_pieces(pieces: list[Piece]) -> None:
    """UsageError where a solver cannot have a loss, or what makes a model."""
    for solver in pieces:
        for other in pieces:
            if not solver.by_rows and not other.smooth:
                raise UsageError(
                    f"{solver.name} needs a loss whose slope does not jump, as that of {other.name} does; say --loss "
                    f"squared-hinge, or choose another -s"
                )
            refused = [OPTIONS[name].flag for name in other.positive if name in solver.refuses]
            if refused:
                raise UsageError(
                    f"{other.name} is made by {' and '.join(refused)}, which {solver.name} cannot have; choose -s cd "
                    f"or -s {other.solver}"
                )


def check_nuclear(kind: Piece, values: Mapping[str, Any]) -> None:
    """UsageError where the nuclear norm is asked for without kernels of order 2 whose weights are fitted."""
    if not values.get("nuclear"):
        return
    flag = OPTIONS["nuclear"].flag
    if "fit_beta" not in kind.options or values.get("order", 2) != 2 or values["fit_beta"] is False:
        kinds = " or ".join(takers_of(MODELS, "fit_beta"))
        raise UsageError(
            f"{flag} is a norm of kernels of order 2 with fitted weights; say -m {kinds}, without --no-fit-beta"
        )
    if values["group_l1"] > 0:
        raise UsageError(f"{flag} and {OPTIONS['group_l1'].flag} cannot be had together; choose one")


def check_clip(loss: str | None, clip: bool | None) -> None:
    """UsageError where another loss is asked to clip; None: its loss is not known yet."""
    if clip and loss not in (None, CLIPPED_LOSS):
        raise UsageError(
            f"{OPTIONS['clip'].flag} needs predictions that are numbers like the labels, as those of --loss "
            f"{CLIPPED_LOSS} are, not those of {loss}; leave it out"
        )


def check_schedule(values: Mapping[str, Any]) -> None:
    """UsageError if learning rates both follow a schedule and adapt to the gradients."""
    if values.get("adaptive") and values["schedule"] != OPTIONS["schedule"].default:
        given = f"{OPTIONS['schedule'].flag} {values['schedule']}"
        raise UsageError(f"{given} needs --no-adaptive: adaptive steps follow no schedule")


def check_closed_form(model: str, solver: str | None, loss: str | None) -> None:
    """UsageError where a model that is solved in closed form is asked for with a solver or another loss."""
    if solver not in (None, CLOSED_FORM):
        raise UsageError(f"{model} is solved in closed form, by no solver; leave out -s {solver}, or choose another -m")
    if loss not in (None, CLOSED_FORM_LOSS):
        raise UsageError(
            f"{model} is solved in closed form, which only --loss {CLOSED_FORM_LOSS} has; leave out --loss {loss}, or "
            "choose another -m"
        )


def check_degrees(kind: Piece, values: Mapping[str, Any]) -> None:
    """UsageError where an option has several numbers, but the model takes one, or not so many."""
    for name, value in values.items():
        if not isinstance(value, list):
            continue
        given, degrees = f"{OPTIONS[name].flag} is {as_given(value)}", values.get("order", 2) - 1
        if name not in kind.by_degree:
            raise UsageError(f"{given}; {kind.name} takes one number")
        if len(value) != degrees:
            raise UsageError(
                f"{given}; with {OPTIONS['order'].flag} {degrees + 1} {kind.name} takes {degrees}, one for each degree "
                f"from 2 on, or one for all"
            )


def find(table: Mapping[str, Piece], what: str, name: str) -> Piece:
    """The piece of that name; UsageError naming others where there is none."""
    return table[find_name(what, name, table)]


def check(name: str, value: Any, taken: list[str], pieces: list[Piece]) -> None:
    """UsageError where an option does not exist, does not belong to the chosen pieces, or is out of range."""
    option = OPTIONS[find_name("option", name, OPTIONS)]
    for piece in pieces:
        if name in piece.refuses:
            raise UsageError(f"{option.flag} cannot be had with {piece.name}: {piece.refuses[name]}")
    if name not in taken:
        takers = [
            f"{kind} {', '.join(names)}"
            for kind, table in (("model", MODELS), ("solver", SOLVERS), ("loss", LOSSES))
            if (names := takers_of(table, name))
        ]
        chosen = ", ".join(piece.name for piece in pieces)
        raise UsageError(f"{option.flag} does not belong to {chosen}; it belongs to {' and '.join(takers)}")
    if isinstance(value, int) and option.kind is int and option.high is None and value > LARGEST_COUNT:
        raise UsageError(f"{option.flag} is {value}; it must be at most {LARGEST_COUNT}")
    if option.kind is not bool and not isinstance(value, Derived) and not option.permits(value):
        raise UsageError(f"{option.flag} is {as_given(value)}; it must be {option.range()}")
    for piece in pieces:
        if name in piece.most and value > piece.most[name]:
            raise UsageError(f"{option.flag} is {value}; with {piece.name} it can be at most {piece.most[name]}")


def as_given(value: Any) -> str:
    """An option's value as the command line has it."""
    if isinstance(value, list):
        return "/".join(map(str, value))
    return number(value) if isinstance(value, float) else str(value)


def takes(name: str, model: str, solver: str, loss: str) -> bool:
    """Whether a run of these pieces takes an option; names that are not registered have none."""
    pieces = [table[piece] for table, piece in ((MODELS, model), (SOLVERS, solver), (LOSSES, loss)) if piece in table]
    taken = name in COMMON or any(name in piece.options for piece in pieces)
    return taken and not any(name in piece.refuses for piece in pieces)


def takers_of(table: Mapping[str, Piece], option: str) -> list[str]:
    """Names of the pieces that take an option."""
    return [piece.name for piece in table.values() if option in piece.options]
