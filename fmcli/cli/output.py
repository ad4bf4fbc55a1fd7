"""What people read: log lines, progress and figures on standard error; predictions on standard output."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from fmcli.errors import OutputError
from fmcli.system.files import atomic_output, followed_output
from fmcli.text import printable

# Seconds between two updates of the progress line.
UPDATE_SECONDS = 0.2
FALLBACK_COLUMNS = 80
# -qq: not even warnings.
ONLY_ERRORS = 2

# Writes a line of text.
Lines = Callable[[str], None]


# What the command line names that a terminal or a log would not show as it is, and how it is written instead.
_unprintable: dict[str, str] = {}


def know_names(arguments: Sequence[str]) -> None:
    """Have arguments that are not printable written so that they are: as names of files they come in many messages."""
    names = {part for word in arguments for part in (word, word.partition("=")[2], os.path.basename(word))}
    for name in sorted(names, key=len, reverse=True):
        if not name.isprintable():
            _unprintable[name] = printable(name)


def say(text: str, end: str = "\n") -> None:
    """Write to standard error. A full disk behind it loses the line, not the work; a closed pipe is an error."""
    if sys.stderr is None:
        return
    for name, shown in _unprintable.items():
        text = text.replace(name, shown)
    try:
        sys.stderr.write(text + end)
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:
        sys.stderr = None  # as Python itself does where it is closed


class Log:
    """The log of one command, on standard error.

    Parameters
    ----------
    quiet : 1: print only warnings; 2: nothing, as errors are printed elsewhere.
    verbose : say details, too.
    progress : show a line that is updated, where standard error is a terminal.
    """

    def __init__(self, *, quiet: int, verbose: bool, progress: bool = True) -> None:
        self.quiet, self.verbose = quiet, verbose
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self.shows_progress = progress and terminal and not quiet
        self._shown = 0  # columns of the progress line that stands there now
        self._next_update = 0.0

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()

    def line(self, text: str) -> None:
        """Say a line."""
        if not self.quiet:
            self._clear()
            say(text)

    def detail(self, text: str) -> None:
        """Say a line that only --verbose asks for."""
        if self.verbose:
            self.line(text)

    def warning(self, text: str) -> None:
        """Say what may be wrong."""
        if self.quiet < ONLY_ERRORS:
            self._clear()
            say(f"fmcli: warning: {text}")

    def table(self, **figures: str) -> None:
        """Say figures, one a line."""
        width = max(map(len, figures)) + 2
        for name, figure in figures.items():
            self.line(f"{name.replace('_', '-'):<{width}}{figure}")

    def due(self) -> bool:
        """Whether it is time to update the progress line, if there is one."""
        return self.shows_progress and time.monotonic() >= self._next_update

    def progress(self, text: str) -> None:
        """Replace the progress line."""
        if self.shows_progress:
            # Blanks and no escape sequence, which not every terminal knows. The last column would wrap.
            text = text[: _columns() - 1]
            say(f"\r{text:<{self._shown}}", end="")
            self._shown = len(text)
            self._next_update = time.monotonic() + UPDATE_SECONDS

    def _clear(self) -> None:
        if self._shown:
            say("\r" + " " * self._shown + "\r", end="")
            self._shown = 0


class Sink(Protocol):
    """What takes predictions."""

    def write(self, data: bytes, /) -> object: ...


class StandardOutput:
    """Standard output without a buffer: what is written has left the process.

    way_out : what to do where it is closed.
    """

    def __init__(self, way_out: str) -> None:
        if sys.stdout is None:
            raise OutputError(f"standard output: cannot be written: it is closed; {way_out}")
        self._descriptor = sys.stdout.fileno()

    def write(self, data: bytes, /) -> None:
        rest = memoryview(data)
        try:
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:  # a pipe that its other owner has set not to block
                    select.select([], [self._descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"standard output: cannot be written: {error.strerror}") from error


@contextmanager
def open_sink(path: str | None, way_out: str = "-o FILE writes to a file") -> Iterator[Sink]:
    """A file that appears when it is complete; or, for None, standard output, `way_out` as in StandardOutput."""
    if path is None:
        yield StandardOutput(way_out)
        return
    with atomic_output(path) as file:
        yield file


@contextmanager
def open_lines(path: str | None) -> Iterator[Lines]:
    """Lines to a file that can be followed, or to standard output for "-"; None is nowhere."""
    if path is None:
        yield lambda line: None
    elif path == "-":
        output = StandardOutput("name a file in place of -")
        yield lambda line: output.write(f"{line}\n".encode())
    else:
        with followed_output(path) as file:

            def write(line: str) -> None:
                file.write(f"{line}\n".encode())
                file.flush()

            yield write


def write_report(text: str) -> None:
    """Write what a command was asked for to standard output."""
    StandardOutput("> FILE writes to a file").write(text.encode())


def seconds(value: float) -> str:
    """A duration to be read and compared: "0.213 s"."""
    return f"{value:.3f} s"


def clock(value: float) -> str:
    """A rough duration: "42 s", "3:05 min", "2:10 h"."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _columns() -> int:
    """Columns of the terminal behind standard error."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or FALLBACK_COLUMNS
    except OSError:
        return FALLBACK_COLUMNS
