"""The option --fold-in of commands that apply a model: it learns the new features of labeled rows first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.files import InputFile
from fmcli.cli.options import option
from fmcli.cli.output import Log, seconds
from fmcli.text import counted

if TYPE_CHECKING:
    from fmcli.model_file.container import ModelFile
    from fmcli.scoring.scorer import Scorer

F = TypeVar("F", bound=Callable[..., Any])


def fold_in_option(function: F) -> F:
    """Return --fold-in: files of labeled rows, or of observed pairs."""
    return option(
        "data",
        "--fold-in",
        multiple=True,
        type=InputFile(),
        metavar="HISTORY",
        help="Labeled rows, or observed pairs, of features that the model does not know, such as new users: it learns "
        "these first, as train --only-new, in memory. May be repeated.",
    )(function)


def scorer_with(
    log: Log,
    path: str,
    file: ModelFile,
    history: Sequence[str],
    format: str,
    threads: int,
    joined: dict[str, str],
    missing: tuple[str, ...],
) -> Scorer:
    """Return the model in a file, with the new features of the labeled rows of --fold-in, if there are any.

    joined, missing : how tables are read; see `Scorer`.
    """
    # These imports take as long as reading a model of 40 MB.
    from fmcli.scoring.scorer import scorer_of

    scorer = replace(scorer_of(path, file), missing=missing)
    if not history:
        return scorer
    from fmcli.training.several.folding import fold_in_files

    begin = time.perf_counter()
    found = fold_in_files(scorer, file, history, format, threads, joined)
    names, took = ", ".join(history), seconds(time.perf_counter() - begin)
    log.line(f"learned {counted(found.features, 'new feature')} from {counted(found.rows, 'row')} of {names}, {took}")
    return replace(found.scorer, missing=missing)
