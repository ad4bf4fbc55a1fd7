"""Options of the commands: help in sections, options of the registry, and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.types import StringParamType

from fmcli.cli import HELP_NAMES
from fmcli.cli.spellings.translate import LIBFM, translated
from fmcli.errors import MissingInputError, UsageError
from fmcli.registry.derived import Derived, of_libfm
from fmcli.registry.entry import Entry
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.options import COMMON, OPTIONS, Option
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import REFINES, takers_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Sections of the help, in order: group in the registry -> title.
SECTIONS = {
    "model": "Model",
    "penalty": "Loss and penalty",
    "solver": "Solver",
    "run": "Run",
    "validation": "Validation",
    "output": "Output",
}
METAVARS = {int: "N", float: "X", str: "NAME"}
# Metavars of options whose values are files, for shell completion.
FILES = ("FILE", "MODEL")
# The names of METRICS in fmcli.scoring.metrics, and sparsity. They are repeated here because that module imports numpy,
# which is slow.
METRIC_NAMES = (
    *("logloss", "auc", "pr-auc", "brier", "accuracy", "rmse", "mae", "r2", "micro-f1", "macro-f1", "macro-f1-pr"),
    "sparsity",
)

F = TypeVar("F", bound=Callable[..., Any])


def by_degree(kind: type) -> Callable[[str], Any]:
    """The type of an option that is a number, or several numbers separated by slashes."""
    one = click.types.convert_type(kind)

    def convert(value: str) -> Any:
        numbers = [one(part) for part in value.split("/")]
        return numbers if len(numbers) > 1 else numbers[0]

    return convert


def strength(value: str) -> float | Derived:
    """The type of an L2 penalty option: a number, or the prefix LIBFM and a strength in libFM's convention."""
    number = float(click.FLOAT(value.removeprefix(LIBFM)))
    return of_libfm(number) if value.startswith(LIBFM) else number


def share(value: str) -> float:
    """The type of an option that is a share from 0 to below 1. Unlike click's ranges, it rejects nan."""
    number = float(click.FLOAT(value))
    if not 0 <= number < 1:
        raise click.BadParameter(f"{number} is not in the range 0<=x<1.")
    return number


class FileName(StringParamType):
    """The type of a file name, which shells complete. The file need not exist."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class SectionOption(click.Option):
    """An option that is listed in a section of the help.

    names : the possible values, for shell completion; if it is a mapping, name -> description.
    """

    def __init__(self, *args: Any, section: str = "output", names: Iterable[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section, self.names = section, names
        if self.metavar in FILES:
            self.type = FileName()

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


# The address space that numpy and its libraries need.
NUMPY_BYTES = 88 << 20


class SectionCommand(click.Command):
    """A command whose help lists options in sections and does not wrap examples.

    Parameters
    ----------
    examples : lines; before each command, a line that starts with # and describes it.
    lists : title -> ((name, help), ...), listed after the options.
    """

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
        for parameter in self.params:
            if isinstance(parameter, click.Argument) and parameter.type is click.STRING:
                parameter.type = FileName()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if ctx.resilient_parsing else translated(self, ctx, args))

    def invoke(self, ctx: click.Context) -> Any:
        from fmcli.system.memory import require_address_space

        require_address_space(NUMPY_BYTES, "loading numpy")
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
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

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")
        super().format_epilog(ctx, formatter)


def option(section: str, *flags: str, **attributes: Any) -> Callable[[F], F]:
    """An option in a section of the help. If it has no default and is not given, its value is None."""
    return click.option(*flags, cls=SectionOption, section=section, **attributes)


# Types of options whose values are not only numbers.
TYPES = {"l2_w": strength, "l2_v": strength}


def registered(section: str) -> Callable[[F], F]:
    """The options of one group of the registry. An option that is not given is None, to distinguish it from a given
    default."""

    def decorate(function: F) -> F:
        for choice in reversed([choice for choice in OPTIONS.values() if choice.group == section]):
            function = _registered(choice)(function)
        return function

    return decorate


def _registered(choice: Option) -> Callable[[F], F]:
    flag = choice.name.replace("_", "-")
    text = f"{choice.help} {notes(choice)}".rstrip()
    if choice.kind is bool:
        declaration = f" /--no-{flag}" if choice.negative else f"--{flag}/--no-{flag}"
        return option(choice.group, declaration, choice.name, default=None, help=text)
    return option(
        choice.group,
        *choice.flags,
        f"--{flag}",
        choice.name,
        type=by_degree(choice.kind) if choice.by_degree else TYPES.get(choice.name, choice.kind),
        metavar=METAVARS[choice.kind],
        help=text,
        names=choice.choices,
    )


def notes(choice: Option) -> str:
    """The components that take an option, its defaults and its range: "[ftrl; default: 0.5; 0 to 1]"."""
    tables = (MODELS, SOLVERS, LOSSES)
    takers = [] if choice.name in COMMON else [name for table in tables for name in takers_of(table, choice.name)]
    parts = [", ".join(takers)] if takers else []
    refusers = [entry.name for table in tables for entry in table.values() if choice.name in entry.refuses]
    parts += [f"not {', '.join(refusers)}"] if refusers else []
    parts += [choice.range()] if choice.choices else []
    usual = OPTIONS[REFINES[choice.name]].flag if choice.name in REFINES else in_words(choice, choice.default)
    if usual and not choice.negative:
        special = [
            f"{value} for {', '.join(names)}{f' with {solver}' if solver else ''}"
            for (value, solver), names in special_defaults(choice).items()
        ]
        unless = f" unless {usual} or the model says otherwise" if special and choice.name in REFINES else ""
        parts.append(f"default: {'; '.join([usual, *special])}{unless}")
    limits = {kind.name: kind.limits[choice.name] for kind in MODELS.values() if choice.name in kind.limits}
    parts += [f"at most {limit} for {name}" for name, limit in limits.items()]
    permitted = choice.range(exact=False)
    parts += [permitted] if permitted and not choice.choices else []
    return f"[{'; '.join(parts)}]" if parts else ""


def special_defaults(choice: Option) -> dict[tuple[str, str], list[str]]:
    """(default, solver) -> names of the models, solvers and losses with a default of an option that differs from its
    usual one; the solver is "" if the default applies to any solver."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in (*SOLVERS.values(), *LOSSES.values(), *MODELS.values()):
        if shows(entry, choice.name):
            found.setdefault((in_words(choice, entry.defaults[choice.name]), ""), []).append(entry.name)
        for solver, defaults in entry.with_solver.items() if isinstance(entry, ModelEntry) else ():
            if choice.name in defaults:
                found.setdefault((in_words(choice, defaults[choice.name]), solver), []).append(entry.name)
    return found


def shows(entry: Entry, name: str) -> bool:
    """Whether an entry has a separate default for an option that it does not refuse."""
    return name in entry.defaults and name not in entry.refuses


def in_words(choice: Option, value: Any) -> str:
    """A default of an option as text: for a switch, the flag without its dashes; "" for None."""
    if value is None or isinstance(value, Derived):
        return str(value or "")
    if choice.kind is bool:
        flag = choice.name.replace("_", "-")
        return flag if value else f"no-{flag}"
    return value if choice.kind is str else f"{value:g}"


def threads_option(section: str = "run") -> Callable[[F], F]:
    """-j: the number of threads."""
    return option(
        section,
        "-j",
        "--threads",
        type=click.IntRange(min=1),
        metavar="N",
        help="Threads; the result is the same for any number. [default: all cores; >= 1]",
    )


def format_option(section: str = "run") -> Callable[[F], F]:
    """-f: the format of the input."""
    return option(
        section,
        "-f",
        "--format",
        type=click.Choice(["auto", "libsvm", "ffm"]),
        default="auto",
        help="Input format. [default: auto]",
    )


def logging_options(function: F) -> F:
    """-q, -qq and --verbose."""
    function = option("output", "--verbose", is_flag=True, help="Print more; show tracebacks of errors.")(function)
    return option(
        "output", "-q", "--quiet", count=True, help="Print only warnings and errors; -qq prints only errors."
    )(function)


def check_last(inputs: Sequence[str], product: str) -> None:
    """Raise MissingInputError if the last of several inputs does not exist: in other tools, the last argument is the
    output, so that the message suggests -o."""
    import os

    if len(inputs) > 1 and inputs[-1] != "-" and not os.path.lexists(inputs[-1]):
        raise MissingInputError(
            f"cannot read {inputs[-1]}: No such file or directory; to write {product} to it, use -o {inputs[-1]}"
        )


def check_files(inputs: Sequence[str], outputs: Sequence[str] = ()) -> None:
    """Check the file arguments of a command.

    Raises UsageError if an output would overwrite an input or another output, or if standard input is given twice, and
    MissingInputError if an input does not exist.
    """
    import os
    from itertools import combinations, product

    from fmcli.system.files import same_file

    if inputs.count("-") > 1:
        raise UsageError("standard input (-) can be read only once")
    files = [path for path in inputs if path != "-"]
    for output, path in product(outputs, files):
        if same_file(output, path):
            raise UsageError(f"the output {output} would overwrite the input {path}")
    for output, other in combinations(outputs, 2):
        if same_file(output, other):
            raise UsageError(f"the outputs {output} and {other} are the same file")
    for path in files:
        try:
            os.stat(path)
        except OSError as error:
            raise MissingInputError(f"cannot read {path}: {error.strerror}") from error
