"""Runs of the command within the process of the tests, by the function that the command itself calls: a fork would take
as long as a small run, most of it for copies of memory pages.

Each run has its own standard streams, working directory and environment. It has no signal handlers of its own, and
does not end a process, so tests of these start one (conftest.py)."""

import os
import resource
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO

import click

from fmcli.cli import group, run
from fmcli.cli.spellings.translate import options_of, takes_value
from fmcli.system.allocator import keep_freed_memory

PATIENCE = 60  # seconds, after which SIGALRM ends the process: a command hangs
PIPE_BYTES = 4096  # what a pipe takes without a reader, however many pipes a user has
ADDRESS_SPACE = 64 << 30  # bytes, so runs that need 100 GiB are refused on every machine


def run_here(
    arguments: Sequence[str | Path],
    folder: Path,
    input: bytes | None = None,
    variables: Mapping[str, str] | None = None,
) -> CompletedProcess:
    """Run `fmcli ARGUMENTS` in a folder. The default input is /dev/null; stderr is text.

    variables : additional environment variables.
    """
    words = [os.fsdecode(word) for word in arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with ExitStack() as stack:
            source = stack.enter_context(_readable(input))
            stack.enter_context(_streams(source, out.fileno(), err.fileno()))
            stack.enter_context(_surroundings(folder, variables or {}))
            keep_freed_memory()
            signal.alarm(PATIENCE)
            try:
                status = run(words)
            finally:
                signal.alarm(0)
            if not sys.stdout.closed:
                sys.stdout.flush()
        return CompletedProcess(words, status, _content(out), _content(err).decode())


def instead(usual: Sequence[str], *given: str, command: str = "train") -> list[str]:
    """Return the usual words of a command, without options that are among the given ones, and the given words."""
    found = group.get_command(click.Context(group), command)
    assert found is not None
    options = options_of(found, click.Context(found))
    names = {options[word].name for word in given if word in options}
    kept, rest = [], iter(usual)
    for word in rest:
        option = options.get(word)
        words = [word, next(rest)] if option and takes_value(option) else [word]
        kept += words if option is None or option.name not in names else []
    return [*kept, *given]


@contextmanager
def _readable(input: bytes | None) -> Iterator[int]:
    """A descriptor from which the input can be read."""
    if input is None:
        reader = os.open(os.devnull, os.O_RDONLY)
        try:
            yield reader
        finally:
            os.close(reader)
        return
    reader, writer = os.pipe()
    writing = threading.Thread(target=_write, args=(writer, input))
    if len(input) <= PIPE_BYTES:
        writing.run()
    else:
        writing.start()
    try:
        yield reader
    finally:
        os.close(reader)
        if len(input) > PIPE_BYTES:
            writing.join()


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as file:
        file.write(data)


@contextmanager
def _streams(*descriptors: int) -> Iterator[None]:
    """Standard streams at these descriptors, as sys has them in a new process."""
    python = sys.stdin, sys.stdout, sys.stderr
    kept = [os.dup(number) for number in range(3)]
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        sys.stdin = os.fdopen(0, closefd=False, encoding="utf-8", errors="surrogateescape")
        sys.stdout = os.fdopen(1, "w", closefd=False, encoding="utf-8", errors="surrogateescape")
        sys.stderr = os.fdopen(2, "w", 1, closefd=False, encoding="utf-8", errors="backslashreplace")
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = python
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def _surroundings(folder: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """The working directory, the environment, and a limit of memory; numpy's warnings are errors."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    directory = os.open(".", os.O_RDONLY)
    environ = os.environ.copy()
    os.chdir(folder)
    os.environ.update(variables)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, limits[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        os.environ.clear()
        os.environ.update(environ)
        os.fchdir(directory)
        os.close(directory)


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
