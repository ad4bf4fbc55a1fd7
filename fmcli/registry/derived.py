"""Defaults that depend on the training data, or on other options: a text for people, and a function for the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What a default may depend on. All of it is known as soon as the rows to train on are.

    rows, nonzeros : number of the training rows and of their entries, without the rows that are held out.
    features : number of the features that occur in them.
    longest : the largest sum of a row's squared values, as the model sees them. Held-out rows count too, for the model
        may be trained on them in the end.
    validated : whether there are validation data.
    solver : its name.
    by_rows : whether it goes through the data row by row.
    values : all options by name. Those that precede the default's own in the registry are already resolved.
    """

    rows: int
    nonzeros: int
    features: int
    longest: float
    validated: bool
    solver: str
    by_rows: bool
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Derived:
    """A default, or a value, that is computed when the training data are known.

    text : the rule in words, for the help and the guide: "1/rows".
    of : the value, for the facts of a run.
    """

    text: str
    of: Callable[[Facts], Any] = field(compare=False)

    def __str__(self) -> str:
        return self.text


def of_libfm(strength: float) -> Derived:
    """libFM's strength of an L2 penalty: a row solver applies it in every update; for the others it weighs against the
    sum of the losses, as in ALS, where ours weighs against their mean."""
    return Derived(
        f"{strength:g} in every update, or {strength:g}/rows",
        lambda facts: strength if facts.by_rows else strength / facts.rows,
    )


def by_longest_row(most: float, share: float) -> Derived:
    """A step size of at most `most`, and so much smaller if rows are long that training does not diverge.

    The derivative of an FM's score by its factors grows with the square of the row's norm, so the steps that are stable
    shrink with its fourth power. Steps that adapt to the gradients need no such care.
    """

    def of(facts: Facts) -> float:
        plain = facts.longest > 0 and not facts.values.get("adaptive")
        return min(most, share / facts.longest**2) if plain else most

    return Derived(f"min({most:g}, {share:g} / fourth power of the longest row's norm)", of)


def per_row(strength: float) -> Derived:
    """A strength against the mean loss that weighs as much as that many rows."""
    return Derived(f"{strength:g}/rows", lambda facts: strength / facts.rows)


def by_occurrence(strength: float, most: float) -> Derived:
    """An L2 penalty that is inverse to the mean number of rows in which a feature occurs, for in so many updates row
    solvers apply it; but no more than `most`."""
    return Derived(
        f"min({most:g}, {strength:g} features/non-zeros)",
        lambda facts: min(most, strength * facts.features / max(1, facts.nonzeros)),
    )


def by_order(*values: float, cd: float | None = None) -> Derived:
    """A default for order 2, 3 and so on, the last one also for all orders above; cd may have one of its own."""
    last = len(values) + 1
    names = [f"order {order}" for order in range(2, last)] + ["above" if last > 2 else ""]
    shown = [f"{value:g} ({name})" if name else f"{value:g}" for value, name in zip(values, names, strict=True)]
    shown += [f"{cd:g} (cd)"] if cd is not None else []

    def of(facts: Facts) -> float:
        if cd is not None and facts.solver == "cd":
            return cd
        order: int = facts.values.get("order", 2)
        return values[min(order, last) - 2]

    return Derived(" / ".join(shown), of)


def by_degree(second: float, above: float) -> Derived:
    """A default for degree 2 and one for each degree above, up to the order."""
    return Derived(
        f"{second:g} (degree 2) / {above:g} (above)",
        lambda facts: [second, *[above] * (facts.values["order"] - 2)],
    )
