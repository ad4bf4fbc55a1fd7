"""Translation of the options of other tools: some are accepted; for others the error message names the option of fmcli,
and for unknown options similar ones.

This happens before click parses the arguments, because click would read `-iter 5` as `-i ter` and an input named 5.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import field

import click

from fmcli.cli.spellings.other_tools import VALUES
from fmcli.errors import UsageError
from fmcli.names import close, no_such
from fmcli.records import dataclass
from fmcli.registry.choices import ALIASES, CHOICES, long_flag, spelled
from fmcli.registry.synonyms import explained
from fmcli.text import shell_word

# A prefix of penalty strengths in libFM's convention: relative to the sum of the losses, unless a solver is stochastic.
LIBFM = "libFM:"


@dataclass(frozen=True)
class Spelling:
    """An option of other tools, and its translation.

    means : the corresponding options of fmcli; a command without one of them does not accept the spelling.
    tools : the tools that have it.
    metavar : the form of its value; "" if it takes none.
    translate : a function from its value to arguments of fmcli; None: the option in `means`, with the same value.
    fixed : the value of the option in `means`, if the spelling takes no value.
    beside : further options that it cannot be combined with.
    """

    means: tuple[str, ...]
    tools: str
    metavar: str
    translate: Callable[[str], list[str]] | None = None
    fixed: str | None = None
    beside: tuple[str, ...] = ()

    def arguments(self, value: str) -> list[str]:
        """Return the arguments of fmcli for the spelling with a value. Raises UsageError."""
        return self.translate(value) if self.translate else [self.means[0], value]


def dimensions(value: str) -> list[str]:
    """Return libFM's k0,k1,k2: whether there are a bias and linear weights, and the number of factors."""
    parts = value.split(",")
    if len(parts) != 3 or not set(parts[:2]) <= {"0", "1"} or not parts[2].isdecimal():
        raise UsageError(
            f"--dim {value}: it must be three numbers K0,K1,K2: 1 or 0 for a bias or none, 1 or 0 for linear weights "
            "or none, and the number of factors: --dim 1,1,8"
        )
    if int(parts[2]) == 0:
        raise UsageError(f"--dim {value}: without factors this is the linear model: -m linear")
    missing = [flag for flag, part in zip(("--no-bias", "--no-linear"), parts, strict=False) if part == "0"]
    return [*missing, "--rank", parts[2]]


def strengths(value: str) -> list[str]:
    """Return libFM's r0,r1,r2, or one number for the last two: L2 penalties of bias, linear weights and factors."""
    parts = value.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3) or not all(0 <= number < math.inf for number in numbers):
        raise UsageError(
            f"--regular {value}: it must be one strength >= 0, or 0,R1,R2 with the strengths for linear weights and "
            "for factors"
        )
    if len(numbers) == 3 and numbers[0] != 0:
        raise UsageError(
            f"--regular {value}: the bias is never penalized, so the first number must be 0: "
            f"--regular 0,{parts[1]},{parts[2]}"
        )
    return ["--l2-w", LIBFM + parts[len(parts) // 2], "--l2-v", LIBFM + parts[-1]]


SPELLINGS = {
    "--dim": Spelling(("--no-bias", "--no-linear", "--rank"), "libFM, alphaFM", "K0,K1,K2", dimensions),
    "--regular": Spelling(("--l2-w", "--l2-v"), "libFM", "0,R1,R2", strengths, beside=("--l2",)),
    "--iter": Spelling(("--epochs",), "libFM", "N"),
    "--passes": Spelling(("--epochs",), "VW", "N"),
    "--lr": Spelling(("--learning-rate",), "several", "X"),
    "--meta": Spelling(("--prior-groups",), "libFM", "FILE"),
    "--nthread": Spelling(("--threads",), "xLearn", "N"),
    "--auto-stop": Spelling(("--patience",), "libffm", "", fixed="1"),
}

# Other flags of switches, which are accepted and not listed.
ALIAS_FLAGS = {
    f"--{no}{alias}": CHOICES[name].flag.replace("--", f"--{no}")
    for alias, name in ALIASES.items()
    for no in ("", "no-")
}


def translated(command: click.Command, ctx: click.Context, arguments: list[str]) -> list[str]:
    """Return the arguments, with the spellings of other tools replaced by the options of a command.

    Raises UsageError for an unknown option, with suggestions, for a value that has a meaning in another tool, and for
    an option that is given in two spellings or, unless it may be repeated, with two values.
    """
    return _Reading(command, ctx, deque(arguments)).read()


@dataclass
class _Reading:
    command: click.Command
    ctx: click.Context
    rest: deque[str]
    said: list[str] = field(default_factory=list)
    wrong: list[UsageError | click.UsageError] = field(default_factory=list)
    given: dict[str, tuple[str, object]] = field(default_factory=dict)  # name of an option -> its flag, its value

    def __post_init__(self) -> None:
        self.options = options_of(self.command, self.ctx)
        self.spellings = {
            flag: spelling for flag, spelling in SPELLINGS.items() if set(spelling.means) <= self.options.keys()
        }
        self.long_flags = [flag for flag in self.options if flag.startswith("--")]

    def read(self) -> list[str]:
        while self.rest:
            word = self.rest.popleft()
            try:
                if word.startswith("--") and len(word) > 2:
                    self.long(word)
                elif word.startswith("-") and word not in ("-", "--") and not self.may_be_a_value(word):
                    self.short(word)
                else:
                    self.said.append(word)
                    if word == "--" or not self.ctx.allow_interspersed_args:
                        break
            except (UsageError, click.UsageError) as error:
                self.wrong.append(error)
        if len(self.wrong) > 1:  # report all, for a command line of another tool
            raise click.UsageError("\n".join(map(str, self.wrong)), self.ctx)
        if self.wrong:
            raise self.wrong[0]
        return [*self.said, *self.rest]

    def may_be_a_value(self, word: str) -> bool:
        """Return whether a word may be a negative number that follows an unknown option."""
        return bool(self.wrong) and word[1] in "0123456789."

    def long(self, word: str) -> None:
        flag, equals, value = word.partition("=")
        flag = ALIAS_FLAGS.get(flag, flag)
        word = f"{flag}{equals}{value}"
        if flag in self.options:
            self.said.append(word)
            self.native(flag, value if equals else None)
        elif flag in self.spellings:
            self.familiar(flag, value if equals else None)
        else:
            raise self.unknown(flag)

    def short(self, word: str) -> None:
        """Short options such as -k8 and -qk8: letters; the last one may take a value.

        Raises UsageError for a long option with a single dash, as other tools write it."""
        flag = word.partition("=")[0]
        name = plain(flag)
        if len(name) > 1 and (self.has(f"--{name}") or self.of_another_tool(name) or self.ctx.parent is None):
            raise self.unknown(flag)
        self.said.append(word)
        for place, letter in enumerate(word[1:], start=2):
            flag = f"-{letter}"
            if flag not in self.options:
                raise self.unknown(flag)
            if takes_value(self.options[flag]):
                self.native(flag, word[place:] or None)
                return
            self.native(flag, None)

    def native(self, flag: str, value: str | None) -> None:
        """Take an option of fmcli; `value` is the part of the same word after the flag, if there is one."""
        option = self.options[flag]
        if value is None and self.rest:
            value = self.rest[0]
            if takes_value(option):
                self.said.append(self.rest.popleft())
        self.once(option, flag, value if takes_value(option) else flag not in option.secondary_opts, familiar=False)
        lesson = VALUES.get((self.command.name, option.name))
        if lesson and value is not None and (sentence := lesson(value)):
            raise UsageError(sentence)

    def familiar(self, flag: str, value: str | None) -> None:
        """Take an option of another tool that fmcli accepts."""
        spelling = self.spellings[flag]
        if spelling.fixed is not None:
            if value is not None:
                raise UsageError(f"{flag} takes no value")
            value = spelling.fixed
        elif value is None:
            if not self.rest:
                raise click.UsageError(f"option {flag} requires an argument", self.ctx)
            value = self.rest.popleft()
        for said in (*spelling.means, *spelling.beside):
            self.once(self.options[said], flag, value, familiar=True)
        self.said += spelling.arguments(value)

    def once(self, option: click.Option, flag: str, value: object, *, familiar: bool) -> None:
        """Raise UsageError if an option is given in two spellings, or if it has one value and is given two."""
        first, before = self.given.setdefault(option.name or "", (flag, value))
        if first != flag and (familiar or first in SPELLINGS):
            raise UsageError(f"{first} and {flag} set the same option; give one of them")
        if before != value and not (option.multiple or option.count):
            both = " and ".join(
                one if isinstance(said, bool) else f"{one} {shell_word(str(said))}"
                for one, said in ((first, before), (flag, value))
            )
            raise UsageError(f"{both} set the same option; give one of them")

    def has(self, flag: str) -> bool:
        """Return whether a long flag exists in fmcli or is an accepted spelling."""
        return flag in self.long_flags or flag in self.spellings

    def of_another_tool(self, name: str) -> str | None:
        """Return the text of an error about a word of another tool; None if the word is unknown."""
        said = explained(self.command.name or "", name, lambda choice: long_flag(choice) in self.options)
        return spelled(said, long_flag) if said else None

    def unknown(self, flag: str) -> UsageError | click.UsageError:
        """Return the error for an option that the command does not have."""
        name = plain(flag)
        known = self.of_another_tool(name)
        lesson = None
        if self.has(f"--{name}") and not flag.startswith("--"):
            lesson = f"long options have two dashes: --{name}"
        elif known:
            return UsageError(f"there is no option {flag!r}{known}")
        elif len(name) == 1 and f"-{name.lower()}" in self.options:
            return UsageError(f"there is no option {flag!r}; did you mean -{name.lower()}?")
        elif self.ctx.parent:
            owners = [path for path, options in options_beside(self.ctx).items() if flag in options]
            lesson = f"it belongs to {', '.join(owners)}" if owners else None
        elif not close(flag, self.long_flags):
            lesson = f"options follow the command: {self.ctx.command_path} COMMAND {flag}"
        if lesson:
            return UsageError(f"there is no option {flag!r}: {lesson}")
        shown = [one for one in self.long_flags if not self.options[one].hidden]
        return click.UsageError(no_such("option", flag, shown, listed=False), self.ctx)


def plain(flag: str) -> str:
    """Return a flag as it is written in the tables: without dashes at the start, and with "-" for "_"."""
    return flag.lstrip("-").replace("_", "-")


def options_of(command: click.Command, ctx: click.Context) -> dict[str, click.Option]:
    """Return the options of a command by flag; an option is listed once for each of its flags."""
    return {
        flag: parameter
        for parameter in command.get_params(ctx)
        if isinstance(parameter, click.Option)
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }


def options_beside(ctx: click.Context) -> dict[str, dict[str, click.Option]]:
    """Return the options of the other commands in the same group, by the path of the command, such as "fmcli train"."""
    assert ctx.parent
    group = ctx.parent.command
    assert isinstance(group, click.Group)
    found = {}
    for name in group.list_commands(ctx.parent):
        command = group.get_command(ctx.parent, name)
        if command and command is not ctx.command:
            context = click.Context(command, ctx.parent, info_name=name)
            found[context.command_path] = options_of(command, context)
    return found


def takes_value(option: click.Option) -> bool:
    """Return whether a word that follows an option is its value."""
    return not (option.is_flag or option.count)
