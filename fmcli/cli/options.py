"""Options of the commands: help in sections, and options that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from fmcli.cli import HELP_NAMES
from fmcli.cli.files import DATA, FORCE, OutputFile
from fmcli.cli.layout import HelpContext, wrapped
from fmcli.cli.screen import MOST_LINES, SCREENS
from fmcli.errors import MissingInputError, UsageError
from fmcli.registry.choices import CHOICES
from fmcli.registry.modes import SKIPPING
from fmcli.system.addresses import base_name, is_remote

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# Sections of the help, in order: group in the registry -> title.
SECTIONS = {
    "model": "Model",
    "penalty": "Loss and penalty",
    "solver": "Solver",
    "data": "Data",
    "machine": "Memory, threads and cluster",
    "run": "Run",
    "validation": "Validation",
    "output": "Output",
}
# The end of the names of model files.
ENDING = ".fm"
F = TypeVar("F", bound=Callable[..., Any])


def share(value: str) -> float:
    """Return the type of an option that is a share from 0 to below 1. Unlike click's ranges, it rejects nan."""
    number = float(click.FLOAT(value))
    if not 0 <= number < 1:
        raise click.BadParameter(f"{number} is not in the range 0<=x<1.")
    return number


def positive_number(value: str) -> float:
    """Return a positive finite number. Raises ValueError."""
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{number} is not in the range x>0.")
    return number


def positive(value: str) -> float:
    """Return the type of an option that is a positive number."""
    try:
        return positive_number(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a positive number.") from error


def not_negative(value: str) -> float:
    """Return the type of an option that is a finite number of at least 0."""
    number = float(click.FLOAT(value))
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"{value!r} is not a number of at least 0.")
    return number


class SectionOption(click.Option):
    """An option that is listed in a section of the help.

    names : the possible values, for shell completion; if it is a mapping, name -> description.
    """

    def __init__(self, *args: Any, section: str = "output", names: Iterable[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section, self.names = section, names

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        helps = self.names if isinstance(self.names, Mapping) else {}
        found = [CompletionItem(name, help=helps.get(name)) for name in self.names if name.startswith(incomplete)]
        return found or super().shell_complete(ctx, incomplete)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        text = self.help or ""
        if self.required:
            text += " [required]"
        elif not self.is_flag and not self.count and "default: " not in text:
            text += " [default: none]"
        # click writes " / " before the flag of an option that has only a negative flag.
        return record and (record[0].removeprefix(" / "), text)


# The key of a context's meta under which help shows all options.
ALL, ALL_FLAG = "fmcli.help-all", "--help-all"
# The address space that numpy and its libraries need.
NUMPY_BYTES = 88 << 20


class SectionCommand(click.Command):
    """A command whose help lists options in sections. If it has a screen, --help shows that, and --help-all everything.

    Parameters
    ----------
    examples : lines; before each command, a line that starts with # and describes it.
    lists : title -> ((name, help), ...), listed after the options.
    """

    context_class = HelpContext
    # The last line of the first screen of help.
    more = f"{ALL_FLAG} shows all options and examples."

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        lists: dict[str, Sequence[tuple[str, str]]] | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("context_settings", {"help_option_names": HELP_NAMES})
        super().__init__(*args, **kwargs)
        self.examples, self.lists = examples, lists or {}
        if self.name in SCREENS:
            self.params.append(all_options())
        if any(isinstance(parameter.type, OutputFile) for parameter in self.params):
            self.params.append(force_option())

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            # click's parser does not name the command of an option without its value.
            error.ctx = error.ctx or self.context_class(self, parent, info_name)
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            from fmcli.cli.spellings.translate import translated

            args = translated(self, ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from fmcli.system.memory import require_address_space

        require_address_space(NUMPY_BYTES, "loading numpy")
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.on_one_screen(ctx):
            self.format_screen(ctx, formatter)
        else:
            self.format_all(ctx, formatter)

    def on_one_screen(self, ctx: click.Context) -> bool:
        """Return whether help shows the first screen only."""
        return self.name in SCREENS and not ctx.meta.get(ALL)

    def format_screen(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that most people use, a line each."""
        parameters = {parameter.name or "": parameter for parameter in self.get_params(ctx)}
        for title, lines in self.screen(ctx).items():
            rows = [(flags(parameters[name], ctx), text) for name, text in lines.items() if name in parameters]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def screen(self, ctx: click.Context) -> Mapping[str, Mapping[str, str]]:
        """Title -> option -> its line, for the first screen of the help."""
        return SCREENS[self.name or ""]

    def format_all(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all options, in sections, and the lists."""
        for section, title in SECTIONS.items():
            records = [
                record
                for parameter in self.get_params(ctx)
                # The option --help is created by click and has no section.
                if isinstance(parameter, click.Option) and getattr(parameter, "section", "output") == section
                if (record := parameter.get_help_record(ctx))
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        for title, rows in self.lists.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.on_one_screen(ctx):
            super().format_help_text(ctx, formatter)
            return
        formatter.write_paragraph()
        with formatter.indentation():
            first = " ".join((self.help or "").split()).partition(". ")[0]
            text = f"{first}. {self.more}"
            indent = " " * formatter.current_indent
            formatter.write("".join(f"{line}\n" for line in wrapped(text, formatter.width, indent, indent)))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        examples = [line for example in self.examples for line in example_lines(example, formatter.width)]
        lines = formatter.getvalue().count("\n") + len(examples) + 2
        if self.on_one_screen(ctx) and lines > MOST_LINES:
            return
        if examples:
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write(f"  {line}\n")
        super().format_epilog(ctx, formatter)


def example_lines(example: str, width: int) -> list[str]:
    """Return the lines of an example with an indent of 2; the lines of a command can be copied into a shell."""
    room = width - len("  ")
    if example.startswith("#"):
        return wrapped(example, room, "", "# ")
    if len(example) <= room:
        return [example]
    words = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), example)  # a quoted text is one word
    lines = wrapped(words, room - len(" \\"), "", "    ")
    return " \\\n".join(lines).replace("\0", " ").split("\n")


def flags(parameter: click.Parameter, ctx: click.Context) -> str:
    """Return the flags of an option and its metavar: "-k, --rank N"."""
    record = parameter.get_help_record(ctx)
    assert record
    return record[0]


def all_options() -> click.Option:
    """Return --help-all, which shows all options."""

    def show(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
        if given and not ctx.resilient_parsing:
            ctx.meta[ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return SectionOption(
        [ALL_FLAG],
        section="output",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show all options, and exit.",
    )


def force_option() -> click.Option:
    """Return --force, which commands with outputs have."""

    def remember(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
        ctx.meta[FORCE] = given or ctx.meta.get(FORCE, False)

    return SectionOption(
        ["--force"],
        section="output",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Replace files of other kinds, too.",
    )


def option(section: str, *flags: str, **attributes: Any) -> Callable[[F], F]:
    """Return an option in a section of the help. If it has no default and is not given, its value is None."""
    return click.option(*flags, cls=SectionOption, section=section, **attributes)


def output_option(kind: str = DATA, help: str = "Output file. [default: standard output]") -> Callable[[F], F]:
    """Return -o: the output, a file of a kind."""
    return option("output", "-o", "--output", type=OutputFile(kind), metavar="FILE", help=help)


def gathered(name: str, kind: Callable[..., object], *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options. The command gets their values as one argument, made by `kind`, which has
    their names as parameters."""

    def decorate(function: F) -> F:
        names = list(signature(kind).parameters)

        @wraps(function)
        def with_one(*arguments: Any, **keywords: Any) -> Any:
            value = kind(**{each: keywords.pop(each) for each in names})
            return function(*arguments, **{name: value}, **keywords)

        found: Any = with_one
        for one in reversed(options):
            found = one(found)
        return cast(F, found)

    return decorate


def given() -> dict[str, object]:
    """Return the options of the command that is running, and whether each has another value than by default, for
    `check_modes`: a choice of a run by its name, and others by their long flags; "no_NAME" if a switch is off."""
    context, found = click.get_current_context(), dict[str, object]()
    for option in context.command.params:
        name = option.name or ""
        value = context.params.get(name)
        differs = value not in (None, (), option.default)
        if name not in CHOICES:
            name = max(option.opts, key=len).lstrip("-").replace("-", "_")
        if option.opts:
            found[name] = differs and value is not False
        if option.secondary_opts:
            found[f"no_{name}"] = differs and value is False
    found[SKIPPING] = context.params.get("on_bad_line") == "skip" or context.params.get("max_bad_lines")
    return found


def check_last(inputs: Sequence[str], product: str) -> None:
    """Raise MissingInputError if the last of several inputs does not exist: in other tools, the last argument is the
    output, so the message suggests -o."""
    import os

    if len(inputs) > 1 and inputs[-1] != "-" and not is_remote(inputs[-1]) and not os.path.lexists(inputs[-1]):
        raise MissingInputError(
            f"cannot read {inputs[-1]}: No such file or directory; to write {product} to it, use -o {inputs[-1]}"
        )


def model_path(output: str | None, source: str) -> str:
    """Return the path of a model file: as given, or derived from the input. Raises UsageError if there is no name."""
    if output == "-":
        raise UsageError("a model cannot be written to standard output; give a file name with -o")
    if output is None and source == "-":
        raise UsageError("standard input does not give the model a file name; use -o FILE")
    return base_name(source) + ENDING if output is None else output
