"""The options of train that only solvers have that draw parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.options import option
from fmcli.errors import UsageError
from fmcli.registry.solvers import SOLVERS

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.registry.specs import Spec
    from fmcli.training.trained import Trained

# Their names as arguments.
SAMPLING = ("groups", "test", "test_output")

F = TypeVar("F", bound=Callable[..., Any])


def sampling_options(function: F) -> F:
    """Add --groups, --test and --test-output, as the arguments `groups`, `test` and `test_output`."""
    function = option(
        "output",
        "--test-output",
        metavar="FILE",
        help="Where to write the predictions for --test, in the form of predict; - is standard output. [default: none]",
    )(function)
    function = option(
        "validation",
        "--test",
        multiple=True,
        metavar="FILE",
        help="With mcmc: predict these rows during training, averaging all sweeps after the burn-in (the model file "
        "keeps only --draws of them). If they have labels, the metrics of these predictions are shown. May be "
        "repeated.",
    )(function)
    return option(
        "solver",
        "--groups",
        metavar="FILE",
        help="For mcmc: the groups of features whose parameters have a common prior. FILE has a line for each feature, "
        "from 0 on, with a whole number, its group; or lines with the id of a feature and its group. [default: those "
        "of -i, or the fields of ffm text, or one group]",
    )(function)


def check_test(test: Sequence[str], output: str | None, spec: Spec, others: Mapping[str, object]) -> None:
    """Raise UsageError if rows cannot be predicted in training, or not with other options, by their flags, if these are
    given."""
    if output is not None and not test:
        raise UsageError("--test-output needs --test FILE")
    if not test:
        return
    if not spec.solver_entry.samples:
        raise UsageError(
            f"--test is predicted by the mean over the draws of -s mcmc, and {spec.solver} makes none; leave it out, "
            "and use fmcli predict or fmcli evaluate"
        )
    for flag, value in others.items():
        if value:
            raise UsageError(f"--test and {flag} cannot be combined; leave out --test, and use fmcli predict")


def write_test(log: Log, trained: Trained, output: str | None) -> dict[str, object]:
    """Write the predictions for the rows of --test, if there are some. Returns figures for the summary."""
    tested, score = trained.plan.tested, trained.tested
    if tested is None or score is None:
        return {}
    from fmcli.base.finite import finite
    from fmcli.cli.output import open_sink

    if output is not None:
        with open_sink(None if output == "-" else output) as sink:
            sink.write(tested.text(score))
    labelled = len(tested.labelled)
    if labelled < tested.data.rows:
        log.line(f"--test: {labelled:,} of {tested.data.rows:,} rows have a label that the model knows")
    return finite({"test": tested.metrics(trained.plan, score), "test_rows": tested.data.rows})


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
