"""The files of a command: the types of parameters that name files, with the role of each, and one check of all of them
before any is opened. No output may be an input or another output, under any name or link, and what an output replaces
must be of its kind."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.types import StringParamType

from fmcli.errors import MissingInputError, UsageError
from fmcli.records import dataclass
from fmcli.system.addresses import file_of, is_remote

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

STANDARD = "-"  # standard input, or standard output
# Kinds of files. Data are rows, predictions and all else that is no other kind.
MODEL, DATA, LOG, FIGURE, STUDY, CHECKPOINT, CACHE = "model", "data", "log", "figure", "study", "checkpoint", "cache"
# What files of each kind are, in messages.
KINDS = {
    MODEL: "a model",
    DATA: "data or text",
    LOG: "the log of a run",
    FIGURE: "a figure",
    STUDY: "a study",
    CHECKPOINT: "a checkpoint",
    CACHE: "a cache of rows",
}
# The first bytes of a file -> its kind; the first that fits. An empty file has none, and anything may replace it.
HEAD_BYTES = 1 << 16
HEADS = {
    re.compile(rb'.{8}\{"__metadata__":\{"fmcli\.header_crc32":.*"fmcli\.kind":"checkpoint"', re.DOTALL): CHECKPOINT,
    re.compile(rb'.{8}\{"__metadata__":\{"fmcli\.header_crc32":', re.DOTALL): MODEL,
    re.compile(rb"fmrows"): CACHE,
    re.compile(rb'\{"event": "study"'): STUDY,
    re.compile(rb'\{"event": "'): LOG,
    re.compile(rb"<svg |<!doctype html><!-- fmcli report"): FIGURE,
    re.compile(rb".", re.DOTALL): DATA,
}
# The files that a file of each kind can replace. The readers of caches, checkpoints and studies check them first.
REPLACES = {MODEL: (MODEL,), DATA: (DATA, LOG), LOG: (LOG,), FIGURE: (FIGURE,)}
# The key of a context's meta: whether outputs replace files of other kinds.
FORCE = "fmcli.force"
# A text in a query that may name a file.
QUOTED = re.compile(r"'((?:[^']|'')+)'|\"((?:[^\"]|\"\")+)\"")


class FileName(StringParamType):
    """The type of a parameter that names a file, which shells complete."""

    def paths(self, value: Any) -> Sequence[str]:
        """Return the paths in a value."""
        return [value]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class InputFile(FileName):
    """The type of a file that is read.

    becomes : the kind of outputs that may replace it.
    required : whether it must exist.
    """

    def __init__(self, becomes: str = "", *, required: bool = True) -> None:
        self.becomes, self.required = becomes, required

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return file_of(value)


class OutputFile(FileName):
    """The type of a file that is written.

    kind : of the file.
    by_ending : ending of a name -> another kind.
    """

    def __init__(self, kind: str, by_ending: Mapping[str, str] = {}) -> None:
        self.kind, self.by_ending = kind, by_ending

    def kind_for(self, path: str) -> str:
        """Return the kind of the file with a path."""
        return next((kind for ending, kind in self.by_ending.items() if path.endswith(ending)), self.kind)


class CheckpointFile(OutputFile):
    """The type of a checkpoint, beside which there is a lock file."""

    def __init__(self) -> None:
        super().__init__(CHECKPOINT)


class TableOfColumn(InputFile):
    """The type of a text COLUMN=TABLE, whose value is a pair."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        column, equals, path = value.partition("=")
        if not (column and equals and path):
            raise click.BadParameter(f"{value!r} is not COLUMN=TABLE, such as user=users.csv")
        return column, file_of(path)

    def paths(self, value: tuple[str, str]) -> Sequence[str]:
        return [value[1]]


class RelationFile(InputFile):
    """The type of a text ROWS=MAP with two files."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        rows, equals, numbers = value.rpartition("=")
        return f"{file_of(rows)}{equals}{file_of(numbers)}"

    def paths(self, value: str) -> Sequence[str]:
        rows, _, numbers = value.rpartition("=")
        return [path for path in (rows, numbers) if path]


class QueryFile(InputFile):
    """The type of a query, whose quoted texts may name files, or patterns of files."""

    def __init__(self) -> None:
        super().__init__(required=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def paths(self, value: str) -> Sequence[str]:
        return [text.replace("''", "'") for found in QUOTED.finditer(value) for text in found.groups() if text]


@dataclass(frozen=True)
class CommandFile:
    """A file of a command.

    path : as it was given.
    type : the role of the file.
    flag : the option that named it.
    """

    path: str
    type: FileName
    flag: str = ""


def check_apart(more: Sequence[CommandFile] = ()) -> None:
    """Check the files of the command that is running, and `more`, as far as they are told by their names and links.

    Raises UsageError if an output is remote, an input or another output, or if a standard stream is used twice.
    """
    files = [*_files(click.get_current_context()), *more]
    outputs = [one for one in files if isinstance(one.type, OutputFile)]
    inputs = [one for one in files if isinstance(one.type, InputFile)]
    for one in outputs:
        if is_remote(one.path):
            raise UsageError(f"cannot write {one.path}: only local files are written; write to one, and copy it there")
    if sum(one.path == STANDARD for one in inputs) > 1:
        raise UsageError("standard input (-) can be read only once")
    if len(streams := [one.flag for one in outputs if one.path == STANDARD]) > 1:
        raise UsageError(f"{' and '.join(streams)} cannot both be standard output; give one of them a file name")
    _check_locks(files)
    read = [(identity, one) for one in inputs for identity in _identities(one)]
    written = list[tuple[object, CommandFile]]()
    for one in outputs:
        assert isinstance(one.type, OutputFile)
        for identity in _identities(one):
            for known, other in read:
                assert isinstance(other.type, InputFile)
                if known == identity and other.type.becomes != one.type.kind_for(one.path):
                    raise UsageError(f"the output {one.path} would overwrite the input {other.path}")
            for known, other in written:
                if known == identity:
                    raise UsageError(f"the outputs {other.path} and {one.path} are the same file")
            written.append((identity, one))


def check_files(more: Sequence[CommandFile] = (), *, elsewhere: Collection[str] = (), written: bool = True) -> None:
    """`check_apart`, and check that inputs exist and that outputs can be written.

    elsewhere : inputs that this machine need not have.
    written : whether outputs are written now.

    Raises UsageError if an output would also replace a file of another kind, MissingInputError and OutputError.
    """
    check_apart(more)
    context = click.get_current_context()
    files = [one for one in (*_files(context), *more) if one.path != STANDARD]
    for one in files:
        if isinstance(one.type, InputFile) and one.type.required and one.path not in elsewhere:
            check_input(one.path)
    if not written:
        return
    from fmcli.system.files import probe_output

    for one in files:
        if isinstance(one.type, OutputFile):
            if not context.meta.get(FORCE):
                _check_replaced(one.path, one.type.kind_for(one.path))
            if one.type.kind != STUDY:  # which is opened at once, and needs no other file in its folder
                probe_output(one.path)


def check_input(path: str) -> None:
    """Raise MissingInputError if a local input does not exist."""
    if path == STANDARD or is_remote(path):
        return
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise MissingInputError(f"cannot read {path}: {reason}") from error


def kind_of(path: str) -> str:
    """Return the kind of a regular file; "" if there is none, or it is empty or cannot be read."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return ""
    return next((kind for form, kind in HEADS.items() if form.match(head)), "")


def _check_replaced(path: str, kind: str) -> None:
    """Raise UsageError if a file of a kind would replace one of another kind."""
    found = kind_of(path)
    if found and kind in REPLACES and found not in REPLACES[kind]:
        raise UsageError(
            f"{path} is {KINDS[found]}, which {KINDS[kind]} would replace; give another name, or --force to replace it"
        )


def _check_locks(files: Sequence[CommandFile]) -> None:
    """Raise UsageError if a file has the name of a lock file."""
    from fmcli.system.files import identity_of
    from fmcli.system.lock import lock_of

    for checkpoint in files:
        if isinstance(checkpoint.type, CheckpointFile):
            lock = identity_of(lock_of(checkpoint.path))
            for one in files:
                if lock is not None and lock in _identities(one):
                    raise UsageError(
                        f"{one.path} is the name of the lock file of {checkpoint.path}; give one of them another name"
                    )


def _files(context: click.Context) -> Iterator[CommandFile]:
    """Yield the files that the parameters of a command name."""
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if value is None or not isinstance(parameter.type, FileName):
            continue
        several = parameter.nargs != 1 or getattr(parameter, "multiple", False)
        for one in value if several else [value]:
            for path in parameter.type.paths(one):
                yield CommandFile(path, parameter.type, max(parameter.opts, key=len))


def _identities(file: CommandFile) -> list[object]:
    """Return the identity of each file that a path names."""
    from fmcli.system.files import identity_of

    path = file.path
    if path == STANDARD or is_remote(path):
        return []
    paths = [path]
    if isinstance(file.type, InputFile) and not os.path.lexists(path) and set(path) & set("*?["):
        from glob import glob

        paths = glob(path, recursive=True)
    return [identity for one in paths if (identity := identity_of(one)) is not None]
