"""The options of train that only solvers have that draw parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.options import option

if TYPE_CHECKING:
    from fmcli.cli.output import Log
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
