"""fmcli export: write the arrays of a model for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.choices import with_choices
from fmcli.cli.files import DATA, InputFile, OutputFile, check_files
from fmcli.cli.files import MODEL as MODEL_KIND
from fmcli.cli.flags import flag_of
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, given, option
from fmcli.cli.output import Log, open_sink
from fmcli.errors import UsageError
from fmcli.export.files import WRITERS, write
from fmcli.registry.choices import Choices
from fmcli.registry.modes import check_modes
from fmcli.system.files import atomic_output

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUMPY, TEXT, MODEL, JSON, VECTORS = ".npz", ".txt", ".fm", ".json", ".npy"
# The endings of files in the form of an option, and of files without one.
ENDINGS = {"--kernel-form": (NUMPY, MODEL), "--qubo": (JSON, TEXT), "": tuple(WRITERS)}
STANDARD_OUTPUT, NAME_A_FILE = "-", "give a file name instead of -"
# The names of forms in fmcli.exchange.exporting, whose imports are slow.
FORMS = ("libfm", "libffm", "libffm-no-sse", "libffm-text")


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
        "# The weights and factors of features as a table.",
        "fmcli export train.libsvm.fm factors.tsv",
        "# An FM for libFM.",
        "fmcli export --to libfm train.libsvm.fm libfm.model",
        "# A lifted model of order 2 as the direct model with the same scores.",
        "fmcli export --kernel-form lifted.fm direct.fm",
        "# The score as a quadratic function of binary variables, for dimod and annealers.",
        "fmcli export --qubo train.libsvm.fm qubo.json",
        "# Vectors of items and users for an index of inner products.",
        "fmcli export plays.fm --vectors items.npy users.npy",
    ],
)
@click.argument("model", type=InputFile(), metavar="MODEL")
@click.argument("output", type=OutputFile(DATA, {MODEL: MODEL_KIND}), metavar="[OUT]", required=False)
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
@option(
    "output",
    "--to",
    type=click.Choice(FORMS),
    metavar="FORM",
    help="Write a model that another program reads: libfm, text of a linear model or an FM; or of an ffm without bias "
    "and linear weights, libffm, a binary file if it is compiled with SSE, as by its Makefile, libffm-no-sse, one if "
    "it is not, or libffm-text for versions before 1.20. What these cannot have is an error. [default: none]",
)
@option(
    "output",
    "--vectors",
    nargs=2,
    type=OutputFile(DATA),
    metavar="OUT_ITEMS OUT_USERS",
    help="Instead of OUT, write .npy files of vectors of the items and users of a model of train --implicit: inner "
    "products of both order items as recommend does. [default: none]",
)
@with_choices(*LOGGING)
def command(
    model: str,
    output: str | None,
    kernel_form: bool,
    qubo: bool,
    to: str | None,
    vectors: tuple[str, str] | None,
    choices: Choices,
) -> None:
    """Write the parameters of a model by name: to OUT.npz as float64 arrays for numpy.load, or to OUT.txt as text with
    17 significant digits, so no precision is lost. "-" writes the text to standard output. OUT.tsv and OUT.parquet
    are tables of the parameters of features by their names, a row for each; Parquet needs DuckDB.

    The parameters give raw scores, as predict --raw writes them. If a model clips its predictions, the line "clip" of
    the text has the limits."""
    chosen = given()
    check_modes(chosen)
    if vectors is not None:
        check_vectors(output, vectors)
        check_files()
        with log_of(choices) as log:
            run_vectors(log, model, vectors)
        return
    if output is None:
        raise UsageError("missing argument 'OUT': the file to write; - is text to standard output")
    check_ending(output, next((flag_of(form) for form in ("kernel_form", "qubo", "to") if chosen[form]), ""))
    path = None if output == STANDARD_OUTPUT else output
    check_files()
    with log_of(choices) as log:
        if path is not None and qubo:
            run_qubo(log, model, path)
        elif path is not None and kernel_form:
            run_kernel_form(log, model, path)
        elif to is not None:
            run_foreign(log, model, path, to)
        else:
            run_arrays(log, model, path)


def check_ending(output: str, form: str) -> None:
    """Raise UsageError for an ending of a file's name that does not show its form, which is an option, or ""."""
    endings = ENDINGS.get(form, ("",))
    if output.endswith(endings) or (not form and output == STANDARD_OUTPUT):
        return
    writes = f"export {form}".strip() + f" writes {', '.join(endings[:-1])} and {endings[-1]} files"
    more = ", or - for text to standard output; or see --to" if not form else ""
    raise UsageError(f"{output}: {writes}; choose a name with such an ending{more}")


def check_vectors(output: str | None, vectors: tuple[str, str]) -> None:
    """Raise UsageError for an output beside vectors, and for vectors in files of another form."""
    if output is not None:
        raise UsageError(f"--vectors writes two files, and no {output}; leave out one of both")
    if others := [path for path in vectors if not path.endswith(VECTORS)]:
        raise UsageError(f"{others[0]}: export --vectors writes {VECTORS} files; choose a name with such an ending")


def run_vectors(log: Log, model: str, outputs: tuple[str, str]) -> None:
    """Load a model and write the vectors of its items and users."""
    from fmcli.export.vectors import save_vectors, vectors
    from fmcli.scoring.scorer import load_model

    for side, rows, path in zip(("items", "users"), vectors(load_model(model)), outputs, strict=True):
        save_vectors(rows, path)
        log_arrays(log, {side: rows}, path)


def run_arrays(log: Log, model: str, output: str | None) -> None:
    """Load a model and write its arrays."""
    from fmcli.export.text import write_text
    from fmcli.scoring.scorer import load_model

    scorer = load_model(model)
    if output is None:
        with open_sink(None, NAME_A_FILE) as sink:
            arrays = write_text(scorer, sink.write)
    else:
        arrays = write(scorer, output)
    log_arrays(log, arrays, output or "standard output")


def run_kernel_form(log: Log, model: str, output: str) -> None:
    """Load a lifted model and write its kernel form."""
    from fmcli.export.arrays import save_arrays
    from fmcli.export.kernel_form import kernel_form, write_kernel_form
    from fmcli.scoring.scorer import load_model

    scorer = load_model(model)
    if output.endswith(NUMPY):
        arrays = kernel_form(model, scorer)[1]
        save_arrays(arrays, output)
        log_arrays(log, arrays, output)
    else:
        log_shapes(log, write_kernel_form(model, scorer, output), output)


def run_qubo(log: Log, model: str, output: str) -> None:
    """Load a model and write its score as a quadratic function."""
    from fmcli.export.qubo import qubo, write_coo, write_json
    from fmcli.scoring.scorer import load_model

    made = qubo(load_model(model))
    with atomic_output(output) as file:
        (write_json if output.endswith(JSON) else write_coo)(made, file.write)
    log.line(f"wrote {output}: {len(made.variables):,} variables, {len(made.quadratic):,} pairs")


def run_foreign(log: Log, model: str, output: str | None, to: str) -> None:
    """Load a model and write it for another program."""
    from fmcli.exchange.exporting import foreign, write_for
    from fmcli.scoring.scorer import load_model

    found = foreign(load_model(model), to)
    with open_sink(output, NAME_A_FILE) as sink:
        write_for(to, found, sink.write)
    log.line(f"features: {found.features:,}, so the largest index of rows is {found.features - 1:,}")
    log.line(f"rank: {found.rank}")
    log.line(f"wrote {output or 'standard output'}")


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
