"""The page of the guide with every option of every command, made from the commands and the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from fmcli.cli import COMMANDS, group
from fmcli.cli.options import SECTIONS, SectionOption
from fmcli.registry.options import OPTIONS
from fmcli.registry.words import defaults_in_words, takers

# Wide enough that click does not wrap lines.
WIDTH = 10_000


def options_page(title: str) -> str:
    """Return the page in Markdown."""
    lines = [
        f"# {title}",
        "",
        "The notes in square brackets have the usual default of an option and its range. [Defaults by "
        "kind](#defaults-by-kind) lists the models, solvers and losses that take an option, and the defaults that some "
        "of them have; `fmcli models KIND` shows the defaults of one.",
        "",
        *options(),
        "## Defaults by kind",
        "",
        "A default of a model with a solver comes before the default of the model, and this before the solver's. A "
        "default of the whole option, such as `--l2`, that a model has, comes before a default that the solver has for "
        "a part of it (`--l2-v`).",
        "",
        *defaults(),
        "",
    ]
    return "\n".join(lines)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    head = list(head)
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"


def options() -> Iterator[str]:
    """Yield the lines of all commands with their options."""
    top = click.Context(group, info_name="fmcli")
    for name in COMMANDS:
        command = group.get_command(top, name)
        assert command
        context = click.Context(command, top, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
        yield f"## fmcli {name}"
        yield ""
        yield f"`{' '.join(command.get_usage(context).split()[1:])}`"
        yield ""
        yield " ".join((command.help or "").split())
        yield ""
        for section, title in SECTIONS.items():
            if options := list(rows(command, context, section)):
                yield f"### {title}"
                yield ""
                yield from table(["option", ""], options)
                yield ""


def rows(command: click.Command, context: click.Context, section: str) -> Iterator[list[str]]:
    """Yield the options of a command in a section, except for --help, which all commands have, and for options of train
    in another command that has all of them."""
    train = group.get_command(context.parent or context, "train")
    assert train
    of_train = {option.name: option.help for option in train.params if isinstance(option, SectionOption)}
    has_all = command is not train and of_train.keys() < {option.name for option in command.params}
    shared = of_train if has_all else {}
    for option in command.params:
        if not isinstance(option, SectionOption) or option.hidden:
            continue
        if option.section == section and shared.get(option.name) != option.help:
            record = option.get_help_record(context)
            assert record
            yield [f"`{record[0]}`", record[1]]


def defaults() -> Iterator[str]:
    """Yield the table of the options of models, solvers and losses: the components with each option, and defaults."""
    yield from table(
        ["option", "of", "default"],
        ([f"`{choice.flag}`", takers(choice), defaults_in_words(choice)] for choice in OPTIONS.values()),
    )
