"""fmcli export: a model's arrays for other programs."""

from __future__ import annotations

import click

from fmcli.cli.options import SectionCommand, check_files, logging_options
from fmcli.cli.output import Log
from fmcli.errors import UsageError
from fmcli.files import atomic_output, probe_output

ENDING = ".npz"


@click.command(
    cls=SectionCommand,
    name="export",
    short_help="Write a model's parameters for other programs.",
    examples=["# For numpy.load.", "fmcli export train.libsvm.fm parameters.npz"],
)
@click.argument("model", metavar="MODEL")
@click.argument("output", metavar="OUT.npz")
@logging_options
def command(model: str, output: str, quiet: bool, verbose: bool) -> None:
    """Write a model's parameters as float64 arrays by name, which numpy.load reads."""
    if not output.endswith(ENDING):
        raise UsageError(f"{output}: export writes {ENDING} files; give the output a name that ends so")
    check_files([model], [output])
    probe_output(output)
    with Log(quiet=quiet, verbose=verbose) as log:
        run(log, model, output)


def run(log: Log, model: str, output: str) -> None:
    """Load and write."""
    import numpy as np

    from fmcli.prediction import export_arrays

    arrays = export_arrays(model)
    with atomic_output(output) as file:
        np.savez(file, allow_pickle=False, **arrays)
    for name, array in arrays.items():
        log.line(f"{name}: {' x '.join(map(str, array.shape))}")
    log.line(f"wrote {output}")
