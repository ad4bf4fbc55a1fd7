"""fmcli help: the guide's pages, on a terminal through a pager."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fmcli.cli import COMMANDS, HELP_NAMES
from fmcli.cli.layout import HelpContext, columns, wrapped
from fmcli.cli.options import SectionCommand
from fmcli.cli.output import write_report
from fmcli.cli.pages.guide import Section, about, as_text, mentioning, page, topics
from fmcli.errors import UsageError
from fmcli.names import close, no_such

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PAGER = "less"
# The most sections that are listed for a word.
MOST_SECTIONS = 12
# A word is not a misspelling of a name of so few letters.
SHORT = 2
# less: quit if a page fits on one screen, keep it on the screen, pass on control characters.
LESS = "FRX"
DUMB = "dumb"
# A shell's status if there is no such command.
NOT_FOUND = 127


def beginning(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topics and model kinds that begin so, for shells to complete."""
    from click.shell_completion import CompletionItem

    from fmcli.registry.models import MODELS

    found = {**{kind.name: kind.help for kind in MODELS.values()}, **topics()}
    return [CompletionItem(name, help=text) for name, text in found.items() if name.startswith(incomplete)]


@click.command(
    cls=SectionCommand,
    name="help",
    examples=["# The list of topics.", "fmcli help", "# One page.", "fmcli help models", "# A kind.", "fmcli help ffm"],
)
@click.argument("words", nargs=-1, metavar="[TOPIC]", shell_complete=beginning)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show a page of the guide, or the help of a command. For another word, such as ffm or csv, show the section about
    it, or list the sections that mention it. Without TOPIC, list the topics. On a terminal, $PAGER or less shows the
    page; otherwise it is written as plain text."""
    titles = topics()
    topic = " ".join(words).strip()
    if not words:
        listed = listing(titles.items())
        end = "\n".join(wrapped("fmcli COMMAND --help describes a command.", columns()))
        write_report(f"Topics (fmcli help TOPIC):\n\n{listed}\n{end}\n")
        return
    if topic in titles:
        show(as_text(page(topic), columns()))
    elif topic in COMMANDS:
        show("\n".join([help_of(ctx.find_root(), topic), *whole("Guide", about(topic))]))
    else:
        show(answer(topic, list(dict.fromkeys([*titles, *COMMANDS]))))


def answer(word: str, names: Sequence[str]) -> str:
    """Return the guide's answer for a word that is not one of the names: the sections about it, or else a list of the
    sections that mention it. Raises UsageError for a word that is misspelled, or that the guide does not have."""
    if not any(map(str.isalnum, word)):
        raise UsageError(no_such("topic", word, names))
    if found := about(word):
        return "\n".join([*(as_text(section.markdown, columns()) for section in found), *whole("From", found)])
    long = [name for name in names if len(name) > SHORT]  # nearly every word of three letters is close to a short one
    mentions = [] if close(word, long) else mentioning(word, home(word))
    if not mentions:
        raise UsageError(no_such("topic", word, names))
    listed = listing([(section.topic, section.heading) for section in mentions[:MOST_SECTIONS]])
    title = "\n".join(wrapped(f"Sections that mention {word} (fmcli help TOPIC):", columns()))
    return f"{title}\n\n{listed}"


def whole(title: str, found: Collection[Section]) -> Iterator[str]:
    """Yield a line that names the pages of sections, if there are any."""
    if pages := ", ".join(dict.fromkeys(f"fmcli help {section.topic}" for section in found)):
        yield f"{title}: {pages}\n"


def listing(rows: Collection[tuple[str, str]]) -> str:
    """Topics with titles, as lines."""
    width = max(len(topic) for topic, _ in rows)
    indent = " " * (width + 4)
    lines = [line for topic, title in rows for line in wrapped(title, columns(), f"  {topic:<{width}}  ", indent)]
    return "".join(f"{line}\n" for line in lines)


def home(name: str) -> str:
    """Return the page that describes a solver or a loss; "" for another word."""
    from fmcli.registry.losses import LOSSES
    from fmcli.registry.solvers import SOLVERS

    return "solvers" if name in SOLVERS else "losses" if name in LOSSES else ""


def help_of(root: click.Context, name: str) -> str:
    """Return the help of a command."""
    assert isinstance(root.command, click.Group)
    found = root.command.get_command(root, name)
    assert found
    return f"{found.get_help(HelpContext(found, root, info_name=name, help_option_names=HELP_NAMES))}\n"


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
