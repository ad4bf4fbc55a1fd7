"""The options of train that only solvers have that draw parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.options import option
from fmcli.errors import UsageError
from fmcli.registry.solvers import SOLVERS

if TYPE_CHECKING:
    from fmcli.registry.specs import Spec

# Their names as arguments.
SAMPLING = ("groups",)

F = TypeVar("F", bound=Callable[..., Any])


def sampling_options(function: F) -> F:
    """--groups, as the argument `groups`."""
    return option(
        "solver",
        "--groups",
        metavar="FILE",
        help="For mcmc: the groups of features whose parameters have a common prior. FILE has a line for each feature, "
        "from 0 on, with a whole number, its group; or lines with the id of a feature and its group. [default: those "
        "of -i, or the fields of ffm text, or one group]",
    )(function)


def check_groups(groups: str | None, spec: Spec, hash_bits: int) -> None:
    """Raise UsageError if features cannot have groups."""
    if groups is None:
        return
    if not spec.solver_entry.samples:
        solvers = " or ".join(f"-s {solver.name}" for solver in SOLVERS.values() if solver.samples)
        raise UsageError(
            f"--groups tells which features share a prior, and {spec.solver} has no priors; use {solvers}, or leave it "
            "out"
        )
    if hash_bits:
        raise UsageError(
            "--groups and --hash-bits cannot be combined: a column of hashed ids may have features of several groups; "
            "leave one of them out"
        )
