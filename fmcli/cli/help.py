"""fmcli help: the guide's pages, on a terminal through a pager."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from fmcli.cli import COMMANDS, HELP_NAMES
from fmcli.cli.guide import as_text, page, topics
from fmcli.cli.options import SectionCommand
from fmcli.cli.output import write_report
from fmcli.names import find_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Longer lines are hard to read, however wide the terminal is.
MOST_COLUMNS = 100
PAGER = "less"
# less: quit if a page fits on one screen, keep it on the screen, pass on control characters.
LESS = "FRX"
DUMB = "dumb"
# A shell's status if there is no such command.
NOT_FOUND = 127


def beginning(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The topics that begin so, for shells to complete."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=title) for name, title in topics().items() if name.startswith(incomplete)]


@click.command(
    cls=SectionCommand,
    name="help",
    examples=["# The list of topics.", "fmcli help", "# One page.", "fmcli help models"],
)
@click.argument("topic", required=False, shell_complete=beginning)
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> None:
    """Show a page of the guide, or the help of a command. Without TOPIC, list the topics. On a terminal the page is
    shown by $PAGER, or by less; otherwise it is written as plain text."""
    titles = topics()
    if topic is None:
        width = max(map(len, titles))
        write_report(
            "Topics (fmcli help TOPIC):\n\n"
            + "".join(f"  {name:<{width}}  {title}\n" for name, title in titles.items())
            + "\nfmcli COMMAND --help describes a command.\n"
        )
        return
    find_name("topic", topic, [*titles, *COMMANDS])
    show(as_text(page(topic), columns()) if topic in titles else help_of(ctx.find_root(), topic))


def help_of(root: click.Context, name: str) -> str:
    """The help of a command."""
    assert isinstance(root.command, click.Group)
    found = root.command.get_command(root, name)
    assert found
    return f"{found.get_help(click.Context(found, root, info_name=name, help_option_names=HELP_NAMES))}\n"


def columns() -> int:
    """Columns to write to: those of the terminal or $COLUMNS, but not more than can be read well."""
    return min(shutil.get_terminal_size().columns, MOST_COLUMNS)


def show(text: str) -> None:
    """Write text to standard output; on a terminal that can move its cursor, through a pager."""
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM", DUMB) == DUMB:
        write_report(text)
        return
    # Ctrl-C belongs to the pager, which would otherwise lose the terminal to the shell.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    done = subprocess.run(
        os.environ.get("PAGER") or PAGER,
        shell=True,
        input=text.encode(),
        env={"LESS": LESS, **os.environ},
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode == NOT_FOUND:
        write_report(text)
