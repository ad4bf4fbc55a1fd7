"""fmcli export: a model's arrays for other programs."""

from __future__ import annotations

import click

from fmcli.cli.options import SectionCommand, check_files, logging_options
from fmcli.cli.output import Log, open_sink
from fmcli.errors import UsageError
from fmcli.files import atomic_output, probe_output

NUMPY, TEXT = ".npz", ".txt"
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
    ],
)
@click.argument("model", metavar="MODEL")
@click.argument("output", metavar="OUT")
@logging_options
def command(model: str, output: str, quiet: bool, verbose: bool) -> None:
    """Write a model's parameters by name: to OUT.npz as float64 arrays, which numpy.load reads, or to OUT.txt as text
    with 17 significant digits, which gives back the very numbers. "-" writes the text to standard output."""
    if not output.endswith((NUMPY, TEXT)) and output != STANDARD_OUTPUT:
        raise UsageError(
            f"{output}: export writes {NUMPY} and {TEXT} files; give the output a name that ends so, or - for text to "
            "standard output"
        )
    path = None if output == STANDARD_OUTPUT else output
    check_files([model], [path] if path is not None else [])
    if path is not None:
        probe_output(path)
    with Log(quiet=quiet, verbose=verbose) as log:
        if path is not None and path.endswith(NUMPY):
            run_numpy(log, model, path)
        else:
            run_text(log, model, path)


def run_numpy(log: Log, model: str, output: str) -> None:
    """Load and write arrays."""
    import numpy as np

    from fmcli.prediction import export_arrays

    arrays = export_arrays(model)
    with atomic_output(output) as file:
        np.savez(file, allow_pickle=False, **arrays)
    say_shapes(log, {name: array.shape for name, array in arrays.items()}, output)


def run_text(log: Log, model: str, output: str | None) -> None:
    """Load and write text."""
    from fmcli.prediction import exported, load_model
    from fmcli.textmodel import write_text

    scorer = load_model(model)
    with open_sink(output, "name a file in place of -") as sink:
        write_text(scorer, sink.write)
    say_shapes(log, {name: array.shape for name, array in exported(scorer).items()}, output or "standard output")


def say_shapes(log: Log, shapes: dict[str, tuple[int, ...]], output: str) -> None:
    """What was written."""
    for name, shape in shapes.items():
        log.line(f"{name}: {' x '.join(map(str, shape))}")
    log.line(f"wrote {output}")
