"""The command line: a group of commands, each imported when it is used, and the central error handler.

An exception of a command becomes a message on standard error and an exit status. Signals are not handled here: they end
the process by themselves (fmcli.system.interrupt), so a shell sees the signal.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

import click

import fmcli
from fmcli.cli.layout import HelpContext, wrapped
from fmcli.cli.output import know_names, stamp_lines, write_line, write_stderr
from fmcli.errors import BugError, FmcliError, NotEnoughMemoryError, OutputError, UsageError
from fmcli.system.allocator import keep_freed_memory
from fmcli.system.blas import pin_blas

# Each with its description, so the overview imports no command.
COMMANDS = {
    "train": "Train a model.",
    "predict": "Predict a number or label for each row.",
    "recommend": "Recommend items for each of many users.",
    "evaluate": "Evaluate a model on labeled rows.",
    "inspect": "Show the properties of a model and what it has learned.",
    "export": "Export the parameters of a model for other programs.",
    "import": "Import a model of libFM, libffm or xLearn.",
    "cv": "Estimate how well options predict, by cross-validation.",
    "tune": "Search for a kind, a solver and options that predict better.",
    "report": "Write a page about a model, its errors and its training.",
    "split": "Split rows at random, by time or by group.",
    "convert": "Write a table, such as CSV, as rows of features.",
    "negatives": "Add random negatives to a table of observed pairs.",
    "models": "List models, solvers, losses and penalties.",
    "completion": "Print a shell completion script.",
    "help": "Show a page of the guide.",
}
# The modules of commands that are not in the module of their name.
MODULES = {
    **{name: f"choosing.{name}" for name in ("cv", "tune")},
    "import": "importing",
    "help": "pages.help",
    **{name: f"rows.{name}" for name in ("split", "convert", "negatives")},
}
HELP_NAMES = ["-h", "--help"]
# The words of the command line, before options of other tools are translated, in the metadata of click's contexts.
ARGUMENTS = "fmcli.arguments"
# The environment variable by which a completion script makes a request.
COMPLETION = "_FMCLI_COMPLETE"
# Parts of the messages of Python and the dynamic loader if there is no memory for a thread or a library.
WITHOUT_MEMORY = ("can't start new thread", "failed to map segment", "Cannot allocate memory")


class Commands(click.Group):
    """Commands by name, each in the module of its name, imported when it is used."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"fmcli.cli.{MODULES.get(cmd_name, cmd_name)}").command
        assert isinstance(command, click.Command)
        command.short_help = COMMANDS[cmd_name]
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A command, or the help alone, needs no translation.
        if ctx.resilient_parsing or not args or not args[0].startswith("-") or args in [[name] for name in HELP_NAMES]:
            return super().parse_args(ctx, args)
        from fmcli.cli.spellings.translate import translated

        return super().parse_args(ctx, translated(self, ctx, args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing:
            raise click.UsageError(no_such_command(name), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        name = ctx.command_path
        text = f"{name} COMMAND --help describes a command; {name} help lists the guide's pages."
        formatter.write("\n" + "".join(f"{line}\n" for line in wrapped(text, formatter.width)))


def no_such_command(name: str) -> str:
    """Return the error message for a command that does not exist."""
    from fmcli.cli.spellings.other_tools import COMMANDS as OTHER_COMMANDS
    from fmcli.names import no_such
    from fmcli.text import shell_word

    if os.path.isfile(name):
        return f"there is no command {name!r}, but a file with this name; did you mean fmcli train {shell_word(name)}?"
    if name in OTHER_COMMANDS:
        return f"there is no command {name!r}; did you mean {OTHER_COMMANDS[name]}?"
    return no_such("command", name, COMMANDS)


def print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    """Print version and real type, and exit."""
    if wanted:
        from fmcli.kernels.simd import REAL

        click.echo(f"fmcli {fmcli.__version__} ({REAL})")
        ctx.exit()


@click.command(
    cls=Commands,
    no_args_is_help=False,
    context_settings={"help_option_names": HELP_NAMES},
    subcommand_metavar="COMMAND ...",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version and the type of parameters, and exit.",
)
def group() -> None:
    """Train factorization machines and predict with them.

    \b
    Examples:
      # Writes the model train.libsvm.fm.
      fmcli train train.libsvm
      # Writes one number per row.
      fmcli predict train.libsvm.fm test.libsvm > predictions.txt
    """  # noqa: D301


def main() -> NoReturn:
    """Run the command line of this process, and exit.

    Python does not free its objects first, which would take a tenth of the time of a short command.
    """
    pin_blas()
    keep_freed_memory()
    _occupy_closed_streams()
    try:
        status = run(sys.argv[1:])
    except BrokenPipeError:
        _end_by_broken_pipe()
    _flush_output()
    os._exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run a command. Returns its exit status; if it is not 0, prints a message on standard error.

    Raises BrokenPipeError, because a broken pipe ends the process by a signal.
    """
    try:
        if question := os.environ.get(COMPLETION):
            from click.shell_completion import shell_complete

            return shell_complete(group, {}, "fmcli", COMPLETION, question)
        know_names(arguments)
        stamp_lines(False)
        # Not group.main(), which would turn a closed pipe and Ctrl-C into exit status 1.
        try:
            if not arguments:
                _write_lines(group.get_help(HelpContext(group, info_name="fmcli", help_option_names=HELP_NAMES)))
                return UsageError.exit_status
            with group.make_context("fmcli", list(arguments)) as context:
                context.meta[ARGUMENTS] = list(arguments)
                group.invoke(context)
        except click.exceptions.Exit as ended:
            if ended.exit_code:
                return ended.exit_code
        _close_output()
    except BrokenPipeError:
        raise
    except Exception as error:
        from fmcli.cli.flags import with_flags

        known = _known(error)
        if "--verbose" in arguments:
            import traceback

            for part in traceback.format_exception(error):
                # A frame has several lines; an error is one, whatever its text is.
                _write_lines(part) if part.startswith(" ") else write_stderr(part.strip())
        message = f"fmcli: error: {with_flags(known)}"
        # What is wrong with a command line has several lines; the line breaks of other errors are from data.
        first, *more = message.split("\n") if isinstance(error, click.ClickException) else [message]
        write_line(first)
        for line in more:
            write_stderr(line)
        return known.exit_status
    return 0


def _write_lines(text: str) -> None:
    for line in text.splitlines():
        write_stderr(line)


def _known(error: Exception) -> FmcliError:
    """Return the error as an FmcliError, which has a message and an exit status."""
    if isinstance(error, FmcliError):
        return error
    if isinstance(error, click.ClickException):
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fmcli"
        message = error.format_message()
        return UsageError(f"{message[:1].lower()}{message[1:].rstrip('.')}\nsee {path} --help")
    if isinstance(error, MemoryError):
        return NotEnoughMemoryError("not enough memory; use a machine with more memory, a smaller rank or fewer rows")
    for text in _texts(error):
        if any(reason in text for reason in WITHOUT_MEMORY):
            return NotEnoughMemoryError(
                f"not enough memory ({text[:80]}); raise the limit of ulimit -v or -u, or use fewer threads: -j 1"
            )
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return OutputError(f"{error.filename}: {reason}" if error.filename else reason)
    what = f"{type(error).__name__}: {next(_texts(error))}"
    return BugError(f"this is a bug in fmcli, please report it: {what} (--verbose shows where it happened)")


def _texts(error: BaseException | None) -> Iterator[str]:
    """Yield the message of an error, and the messages of the errors that it comes from."""
    while error is not None:
        yield " ".join(str(error).split())
        error = error.__cause__ or error.__context__


def _end_by_broken_pipe() -> NoReturn:
    """End the process by SIGPIPE, as if Python did not ignore this signal."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    raise AssertionError("SIGPIPE did not end the process")


def _close_output() -> None:
    """Close standard output, because errors of the last write may appear only now."""
    if sys.stdout is None:
        return
    descriptor = sys.stdout.fileno()
    try:
        sys.stdout.close()
        os.close(descriptor)  # Python does not close it
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: cannot be written: {error.strerror}") from error


def _flush_output() -> None:
    """Write the output before an error, if that is possible."""
    if sys.stdout is not None and not sys.stdout.closed:
        with suppress(OSError):
            sys.stdout.flush()


def _occupy_closed_streams() -> None:
    """Open /dev/null for standard streams that are closed, so no other file gets their numbers and their output.
    sys.stdin, sys.stdout and sys.stderr stay None."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
