"""fmcli export: a model's arrays for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.options import SectionCommand, check_files, logging_options, option
from fmcli.cli.output import Log, open_sink
from fmcli.errors import UsageError
from fmcli.system.files import atomic_output, probe_output

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUMPY, TEXT, MODEL = ".npz", ".txt", ".fm"
STANDARD_OUTPUT = "-"


@click.command(
    cls=SectionCommand,
    name="export",
    short_help="Write a model's parameters for other programs.",
    examples=[
        "# For numpy.load.",
        "fmcli export train.libsvm.fm parameters.npz",
        "# As text.",
        "fmcli export train.libsvm.fm parameters.txt",
        "# Names and shapes.",
        "fmcli export train.libsvm.fm - | grep ^array",
        "# A lifted model of order 2 as the direct one that scores the same.",
        "fmcli export --kernel-form lifted.fm direct.fm",
    ],
)
@click.argument("model", metavar="MODEL")
@click.argument("output", metavar="OUT")
@option(
    "output",
    "--kernel-form",
    is_flag=True,
    help="Write a lifted-anova or lifted-pn of order 2 as the anova or pn that scores the same, of at most twice the "
    "rank: its arrays to OUT.npz, or to OUT.fm a model that predict reads and that train -i resumes from.",
)
@logging_options
def command(model: str, output: str, kernel_form: bool, quiet: int, verbose: bool) -> None:
    """Write a model's parameters by name: to OUT.npz as float64 arrays, which numpy.load reads, or to OUT.txt as text
    with 17 significant digits, which gives back the very numbers. "-" writes the text to standard output.

    The parameters give raw scores, as predict --raw writes them. A model that clips its predictions has the limits in
    the text's line "clip"; predict writes the score within them."""
    if kernel_form and not output.endswith((NUMPY, MODEL)):
        raise UsageError(
            f"{output}: export --kernel-form writes {NUMPY} and {MODEL} files; give the output a name that ends so"
        )
    if not kernel_form and not output.endswith((NUMPY, TEXT)) and output != STANDARD_OUTPUT:
        raise UsageError(
            f"{output}: export writes {NUMPY} and {TEXT} files; give the output a name that ends so, or - for text to "
            "standard output"
        )
    path = None if output == STANDARD_OUTPUT else output
    check_files([model], [path] if path is not None else [])
    if path is not None:
        probe_output(path)
    with Log(quiet=quiet, verbose=verbose) as log:
        if path is not None and kernel_form:
            run_kernel_form(log, model, path)
        elif path is not None and path.endswith(NUMPY):
            run_numpy(log, model, path)
        else:
            run_text(log, model, path)


def run_numpy(log: Log, model: str, output: str) -> None:
    """Load and write arrays."""
    from fmcli.scoring.prediction import export_arrays

    write_numpy(log, export_arrays(model), output)


def write_numpy(log: Log, arrays: dict[str, NDArray[np.float64]], output: str) -> None:
    """Write arrays by name."""
    import numpy as np

    with atomic_output(output) as file:
        np.savez(file, allow_pickle=False, **arrays)
    say_arrays(log, arrays, output)


def run_kernel_form(log: Log, model: str, output: str) -> None:
    """Load a lifted model and write the direct one."""
    from fmcli.export.kernel_form import kernel_form, write_kernel_form
    from fmcli.scoring.prediction import load_model

    scorer = load_model(model)
    if output.endswith(NUMPY):
        write_numpy(log, kernel_form(model, scorer)[1], output)
    else:
        say_shapes(log, write_kernel_form(model, scorer, output), output)


def run_text(log: Log, model: str, output: str | None) -> None:
    """Load and write text."""
    from fmcli.export.text import write_text
    from fmcli.scoring.prediction import exported, load_model

    scorer = load_model(model)
    with open_sink(output, "name a file in place of -") as sink:
        write_text(scorer, sink.write)
    say_arrays(log, exported(scorer), output or "standard output")


def say_arrays(log: Log, arrays: dict[str, NDArray[Any]], output: str) -> None:
    """What was written, and which of it no program can use."""
    from fmcli.base.finite import are_finite

    say_shapes(log, {name: array.shape for name, array in arrays.items()}, output)
    for name, array in arrays.items():
        if not are_finite([array]):
            log.warning(f"{name} has numbers that are not finite: the model cannot predict from them")


def say_shapes(log: Log, shapes: dict[str, tuple[int, ...]], output: str) -> None:
    """What was written."""
    for name, shape in shapes.items():
        log.line(f"{name}: {' x '.join(map(str, shape))}")
    log.line(f"wrote {output}")
