"""fmcli export: write the arrays of a model for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.options import LogChoice, SectionCommand, check_files, logging_options, option
from fmcli.cli.output import Log, open_sink
from fmcli.errors import UsageError
from fmcli.system.files import atomic_output, probe_output

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUMPY, TEXT, MODEL, JSON = ".npz", ".txt", ".fm", ".json"
STANDARD_OUTPUT = "-"


@click.command(
    cls=SectionCommand,
    name="export",
    examples=[
        "# For numpy.load.",
        "fmcli export train.libsvm.fm parameters.npz",
        "# As text.",
        "fmcli export train.libsvm.fm parameters.txt",
        "# Names and shapes.",
        "fmcli export train.libsvm.fm - | grep ^array",
        "# A lifted model of order 2 as the direct model with the same scores.",
        "fmcli export --kernel-form lifted.fm direct.fm",
        "# The score as a quadratic function of binary variables, for dimod and annealers.",
        "fmcli export --qubo train.libsvm.fm qubo.json",
    ],
)
@click.argument("model", metavar="MODEL")
@click.argument("output", metavar="OUT")
@option(
    "output",
    "--kernel-form",
    is_flag=True,
    help="Convert a lifted-anova or lifted-pn model of order 2 to the anova or pn model with the same scores, of at "
    "most twice the rank: its arrays to OUT.npz, or to OUT.fm a model for predict and train -i.",
)
@option(
    "output",
    "--qubo",
    is_flag=True,
    help="Write the score of a row as a quadratic function of the features that it has, each with the value 1 (a "
    "QUBO), for a model of interactions of two features: to OUT.json as dimod's BinaryQuadraticModel, or to OUT.txt "
    'as lines "i j coefficient".',
)
@logging_options
def command(model: str, output: str, kernel_form: bool, qubo: bool, logging: LogChoice) -> None:
    """Write the parameters of a model by name: to OUT.npz as float64 arrays for numpy.load, or to OUT.txt as text with
    17 significant digits, so that no precision is lost. "-" writes the text to standard output.

    The parameters give raw scores, as predict --raw writes them. If a model clips its predictions, the line "clip" of
    the text has the limits."""
    if kernel_form and qubo:
        raise UsageError("choose one of --kernel-form and --qubo")
    if qubo and not output.endswith((JSON, TEXT)):
        raise UsageError(f"{output}: export --qubo writes {JSON} and {TEXT} files; choose a name with such an ending")
    if kernel_form and not output.endswith((NUMPY, MODEL)):
        raise UsageError(
            f"{output}: export --kernel-form writes {NUMPY} and {MODEL} files; choose a name with such an ending"
        )
    if not (kernel_form or qubo) and not output.endswith((NUMPY, TEXT)) and output != STANDARD_OUTPUT:
        raise UsageError(
            f"{output}: export writes {NUMPY} and {TEXT} files; choose a name with such an ending, or - for "
            "text to standard output"
        )
    path = None if output == STANDARD_OUTPUT else output
    check_files([model], [path] if path is not None else [])
    if path is not None:
        probe_output(path)
    with logging.opened() as log:
        if path is not None and qubo:
            run_qubo(log, model, path)
        elif path is not None and kernel_form:
            run_kernel_form(log, model, path)
        elif path is not None and path.endswith(NUMPY):
            run_numpy(log, model, path)
        else:
            run_text(log, model, path)


def run_numpy(log: Log, model: str, output: str) -> None:
    """Load a model and write its arrays."""
    from fmcli.scoring.prediction import export_arrays

    write_numpy(log, export_arrays(model), output)


def write_numpy(log: Log, arrays: dict[str, NDArray[np.float64]], output: str) -> None:
    """Write arrays by name."""
    import numpy as np

    with atomic_output(output) as file:
        np.savez(file, allow_pickle=False, **arrays)
    log_arrays(log, arrays, output)


def run_kernel_form(log: Log, model: str, output: str) -> None:
    """Load a lifted model and write its kernel form."""
    from fmcli.export.kernel_form import kernel_form, write_kernel_form
    from fmcli.scoring.prediction import load_model

    scorer = load_model(model)
    if output.endswith(NUMPY):
        write_numpy(log, kernel_form(model, scorer)[1], output)
    else:
        log_shapes(log, write_kernel_form(model, scorer, output), output)


def run_qubo(log: Log, model: str, output: str) -> None:
    """Load a model and write its score as a quadratic function."""
    from fmcli.export.qubo import qubo, write_coo, write_json
    from fmcli.scoring.prediction import load_model

    made = qubo(load_model(model))
    with atomic_output(output) as file:
        (write_json if output.endswith(JSON) else write_coo)(made, file.write)
    log.line(f"wrote {output}: {len(made.variables):,} variables, {len(made.quadratic):,} pairs")


def run_text(log: Log, model: str, output: str | None) -> None:
    """Load a model and write it as text."""
    from fmcli.export.text import write_text
    from fmcli.scoring.prediction import load_model

    scorer = load_model(model)
    with open_sink(output, "give a file name instead of -") as sink:
        arrays = write_text(scorer, sink.write)
    log_arrays(log, arrays, output or "standard output")


def log_arrays(log: Log, arrays: dict[str, NDArray[Any]], output: str) -> None:
    """Log the arrays that were written, and warn if they have numbers that are not finite."""
    from fmcli.base.finite import are_finite

    log_shapes(log, {name: array.shape for name, array in arrays.items()}, output)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not are_finite([array]):
            log.warning(f"{name} has numbers that are not finite: the model cannot predict from them")


def log_shapes(log: Log, shapes: dict[str, tuple[int, ...]], output: str) -> None:
    """Log the shapes of the arrays that were written."""
    for name, shape in shapes.items():
        log.line(f"{name}: {' x '.join(map(str, shape))}")
    log.line(f"wrote {output}")
