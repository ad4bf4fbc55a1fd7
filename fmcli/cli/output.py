"""Output: log lines, progress and figures on standard error; predictions and reports on standard output."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from fmcli.errors import OutputError
from fmcli.system.addresses import without_secrets
from fmcli.text import one_line, printable

# Seconds between two updates of the progress line.
UPDATE_SECONDS = 0.2
# The least duration from which a rate is computed.
LEAST_SECONDS = 1e-9
FALLBACK_COLUMNS = 80
# Characters of a line; the middle of a longer line is left out: a name may be as long as a file. Advice is at
# the end.
LONGEST_SHOWN = 10_000
# The value of --quiet (-qq) that also suppresses warnings.
ONLY_ERRORS = 2

# Writes a line of text.
Lines = Callable[[str], None]


# Whether lines of the log begin with the time.
_stamped = False
# Arguments of the command line that are not printable, and the text that messages show instead.
_unprintable: dict[str, str] = {}


def know_names(arguments: Sequence[str]) -> None:
    """Register arguments that are not printable, such as file names, so messages show them escaped."""
    names = {part for word in arguments for part in (word, word.partition("=")[2], os.path.basename(word))}
    for name in sorted(names, key=len, reverse=True):
        if not name.isprintable():
            _unprintable[name] = printable(name)


def stamp_lines(on: bool) -> None:
    """Let lines of the log, from now on, begin with the time, or not."""
    global _stamped
    _stamped = on


def timestamp() -> str | None:
    """Return the time, if lines of the log begin with it: "2026-11-23T09:15:00.123Z"."""
    if not _stamped:
        return None
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"


def write_line(text: str) -> None:
    """Write a line of the log to standard error."""
    now = timestamp()
    write_stderr(f"{now} {text}" if now else text)


def write_stderr(text: str, begin: str = "", end: str = "\n") -> None:
    """Write a line to standard error, printable whatever names and cells of the data it has. If that fails because of a
    full disk, the line is lost; a closed pipe is an error."""
    if sys.stderr is None:
        return
    for name, shown in _unprintable.items():
        text = text.replace(name, shown)
    text = _shortened(one_line(without_secrets(text)))
    try:
        sys.stderr.write(begin + text + end)
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:
        sys.stderr = None  # as Python does if standard error is closed


class Log:
    """The log of one command, on standard error.

    Parameters
    ----------
    quiet : 1: print only warnings; 2: print nothing (errors are printed elsewhere).
    verbose : also print details.
    progress : show a line that is updated, if standard error is a terminal.
    """

    def __init__(self, *, quiet: int, verbose: bool, progress: bool = True) -> None:
        self.quiet, self.verbose = quiet, verbose
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self.shows_progress = progress and terminal and not quiet
        self._shown = 0  # columns of the progress line that is shown now
        self._next_update = 0.0

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()

    def line(self, text: str) -> None:
        """Print a line."""
        if not self.quiet:
            self._clear()
            write_line(text)

    def detail(self, text: str) -> None:
        """Print a line with --verbose only."""
        if self.verbose:
            self.line(text)

    def warning(self, text: str) -> None:
        """Print a warning."""
        if self.quiet < ONLY_ERRORS:
            self._clear()
            write_line(f"fmcli: warning: {text}")

    def table(self, **figures: str) -> None:
        """Print figures, one per line."""
        width = max(map(len, figures)) + 2
        for name, figure in figures.items():
            self.line(f"{name.replace('_', '-'):<{width}}{figure}")

    def due(self) -> bool:
        """Return whether there is a progress line, and it is time to update it."""
        return self.shows_progress and time.monotonic() >= self._next_update

    def progress(self, text: str) -> None:
        """Replace the progress line."""
        if self.shows_progress:
            # Spaces instead of an escape sequence, which some terminals do not know. The last column would wrap.
            text = text[: _columns() - 1]
            write_stderr(f"{text:<{self._shown}}", begin="\r", end="")
            self._shown = len(text)
            self._next_update = time.monotonic() + UPDATE_SECONDS

    def progress_of_rows(self, rows: int, seconds: float, read: int, size: int) -> None:
        """Show how many rows are done, their speed and, if the size of the text is known, the share that is read."""
        share = f"{100 * min(read, size) // size} %  " if size else ""
        self.progress(f"{share}{rows:,} rows  {rows / max(seconds, LEAST_SECONDS):,.0f} rows/s")

    def _clear(self) -> None:
        if self._shown:
            write_stderr(" " * self._shown, begin="\r", end="\r")
            self._shown = 0


class Sink(Protocol):
    """The destination of predictions."""

    def write(self, data: bytes | memoryview, /) -> object: ...


class StandardOutput:
    """Unbuffered standard output.

    way_out : the advice for the user if it is closed.
    """

    def __init__(self, way_out: str) -> None:
        if sys.stdout is None:
            raise OutputError(f"standard output: cannot be written: it is closed; {way_out}")
        self._descriptor = sys.stdout.fileno()

    def write(self, data: bytes | memoryview, /) -> None:
        rest = memoryview(data)
        try:
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:  # the pipe was made non-blocking elsewhere
                    select.select([], [self._descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"standard output: cannot be written: {error.strerror}") from error


@contextmanager
def open_sink(path: str | None, way_out: str = "-o FILE writes to a file") -> Iterator[Sink]:
    """Open a file that is written atomically, or standard output if the path is None; `way_out` is as in
    StandardOutput."""
    if path is None:
        yield StandardOutput(way_out)
        return
    from fmcli.system.files import atomic_output

    with atomic_output(path) as file:
        yield file


@contextmanager
def open_lines(path: str | None) -> Iterator[Lines]:
    """Write lines to a file, which is in place when the context ends, or to standard output if the path is "-"; None
    discards them."""
    if path is None:
        yield lambda line: None
    elif path == "-":
        output = StandardOutput("give a file name instead of -")
        yield lambda line: output.write(f"{line}\n".encode())
    else:
        from fmcli.system.files import log_output

        with log_output(path) as file:

            def write(line: str) -> None:
                file.write(f"{line}\n".encode())
                file.flush()

            yield write


def write_report(text: str) -> None:
    """Write the result of a command to standard output."""
    StandardOutput("> FILE writes to a file").write(text.encode())


def seconds(value: float) -> str:
    """Return a precise duration: "0.21 s", "12 s"; from 100 s on, a rough one."""
    return clock(value) if value >= 99.5 else f"{max(value, 0.01):.2g} s"


def clock(value: float) -> str:
    """Return a rough duration: "42 s", "3:05 min", "2:10 h"."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _shortened(line: str) -> str:
    """Return a line without its middle if it is too long."""
    if len(line) <= LONGEST_SHOWN:
        return line
    half = LONGEST_SHOWN // 2
    return f"{line[:half]} .. ({len(line) - 2 * half:,} more characters) .. {line[-half:]}"


def _columns() -> int:
    """Return the number of columns of the terminal of standard error."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or FALLBACK_COLUMNS
    except OSError:
        return FALLBACK_COLUMNS
