"""The option for relations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from fmcli.cli.options import option
from fmcli.errors import UsageError

if TYPE_CHECKING:
    from fmcli.data.related.files import RelationFiles
    from fmcli.scoring.prediction import Scorer

F = TypeVar("F", bound=Callable[..., object])


def relation_option(rows: str, *, more: str = "", section: str = "data") -> Callable[[F], F]:
    """Return --relation for the inputs, as help calls them: an argument `relations` with texts ROWS=MAP."""
    return option(
        section,
        "--relation",
        "relations",
        multiple=True,
        metavar="ROWS=MAP",
        help=f"Join each row of {rows} with a row of ROWS, libsvm text without labels, such as the features of its "
        "user. MAP has a line for each row, with the number of its row of ROWS, from 0. May be repeated. The joined "
        f"rows are never written.{more}",
    )


def parse_relations(texts: Sequence[str]) -> tuple[RelationFiles, ...]:
    """Return the files of relations. Raises UsageError."""
    if not texts:
        return ()
    from fmcli.data.related.files import RelationFiles

    found = []
    for text in texts:
        rows, _, numbers = text.rpartition("=")
        if not rows or not numbers:
            raise UsageError(f"--relation {text}: it must be ROWS=MAP with the names of two files")
        found.append(RelationFiles(rows, numbers))
    return tuple(found)


def files_of(relations: Sequence[RelationFiles]) -> list[str]:
    """Return the files of relations, each once."""
    return list(dict.fromkeys(path for relation in relations for path in (relation.rows, relation.map)))


def check_model(relations: Sequence[RelationFiles], scorer: Scorer) -> None:
    """Raise UsageError if a model cannot score rows with relations."""
    if relations and scorer.needs_fields:
        raise UsageError(
            f"{scorer.path} needs fields, which the libsvm text of --relation does not have; join the files as ffm text"
        )
