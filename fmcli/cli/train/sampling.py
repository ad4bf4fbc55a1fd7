"""The options of train that only solvers have that draw parameters."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from fmcli.cli.files import DATA, InputFile, OutputFile
from fmcli.cli.options import gathered, option
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.training.trained import Trained


@dataclass(frozen=True)
class SamplingChoice:
    """The files that a solver reads and writes only if it draws parameters.

    groups : the groups of features.
    test, test_output : rows to predict by the mean over all sweeps, and where to write the predictions.
    """

    groups: str | None
    test: tuple[str, ...]
    test_output: str | None


sampling_options = gathered(
    "sampling",
    SamplingChoice,
    option(
        "solver",
        "--prior-groups",
        "groups",
        type=InputFile(),
        metavar="FILE",
        help="For mcmc: the groups of features whose parameters have a common prior. FILE has a line for each feature, "
        "from 0 on, with a whole number, its group; or lines with the id of a feature and its group. [default: those "
        "of -i, or the fields of ffm text, or one group]",
    ),
    option(
        "validation",
        "--test",
        multiple=True,
        type=InputFile(),
        metavar="FILE",
        help="With mcmc: predict these rows during training, averaging all sweeps after the burn-in (the model file "
        "keeps only --draws of them). If they have labels, the metrics of these predictions are shown. May be "
        "repeated.",
    ),
    option(
        "output",
        "--test-output",
        type=OutputFile(DATA),
        metavar="FILE",
        help="Where to write the predictions for --test, in the form of predict; - is standard output. [default: none]",
    ),
)


# The names of the options.
SAMPLING = tuple(one.name for one in fields(SamplingChoice))


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
