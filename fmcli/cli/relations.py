"""The option for relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from fmcli.cli.options import option
from fmcli.errors import UsageError
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS

if TYPE_CHECKING:
    from fmcli.data.related.files import RelationFiles
    from fmcli.registry.specs import Spec
    from fmcli.scoring.prediction import Scorer

F = TypeVar("F", bound=Callable[..., object])


def relation_option(rows: str, *, more: str = "", section: str = "data") -> Callable[[F], F]:
    """Return --relation for the inputs, as help calls them: an argument `relations` with texts BLOCK=MAP."""
    return option(
        section,
        "--relation",
        "relations",
        multiple=True,
        metavar="BLOCK=MAP",
        help=f"Join each row of {rows} with a row of BLOCK, libsvm text without labels, such as the features of its "
        "user. MAP has a line for each row, with the number of its row of BLOCK, from 0. May be repeated. The joined "
        f"rows are never written.{more}",
    )


def parse_relations(texts: Sequence[str]) -> tuple[RelationFiles, ...]:
    """Return the files of relations. Raises UsageError."""
    if not texts:
        return ()
    from fmcli.data.related.files import RelationFiles

    found = []
    for text in texts:
        block, _, numbers = text.rpartition("=")
        if not block or not numbers:
            raise UsageError(f"--relation {text}: it must be BLOCK=MAP with the names of two files")
        found.append(RelationFiles(block, numbers))
    return tuple(found)


def files_of(relations: Sequence[RelationFiles]) -> list[str]:
    """Return the files of relations, each once."""
    return list(dict.fromkeys(path for relation in relations for path in (relation.block, relation.map)))


def check_scoring(relations: Sequence[RelationFiles], *, on_cluster: bool, skips: bool) -> None:
    """Raise UsageError if rows with relations cannot be scored with other options."""
    if relations and on_cluster:
        raise UsageError(
            "--relation and --cluster cannot be combined, because a part of a file does not know the numbers of its "
            "rows; join the files, or use one machine"
        )
    if relations and skips:
        raise UsageError("--relation has a line for each row, so that no line can be skipped")


def check_training(relations: Sequence[RelationFiles], spec: Spec, without: Mapping[str, object]) -> None:
    """Raise UsageError if a run of this spec cannot train on rows with relations, or not with other options, by their
    flags, if these are given."""
    if not relations:
        return
    joined = "join the files"
    if not MODELS[spec.model].joins:
        kinds = ", ".join(kind.name for kind in MODELS.values() if kind.joins)
        raise UsageError(f"--relation trains the models {kinds}, not {spec.model}; choose one of them, or {joined}")
    if not spec.solver_entry.joins:
        solvers = " or ".join(f"-s {solver.name}" for solver in SOLVERS.values() if solver.joins)
        raise UsageError(
            f"{spec.solver} takes a step for each row, so that blocks would not save it any work; use {solvers}, or "
            f"{joined}"
        )
    given = [flag for flag, value in without.items() if value]
    if given:
        raise UsageError(f"{given[0]} and --relation cannot be combined in training; leave out {given[0]}, or {joined}")


def check_model(relations: Sequence[RelationFiles], scorer: Scorer) -> None:
    """Raise UsageError if a model cannot score rows with relations."""
    if relations and scorer.needs_fields:
        raise UsageError(
            f"{scorer.path} needs fields, which the libsvm text of --relation does not have; join the files as ffm text"
        )
