"""The kinds, solvers and ranges of options that a command line of fmcli tune names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import click

from fmcli.cli.choices import converted
from fmcli.cli.choosing.comparing import ComparingCommand
from fmcli.cli.spellings.translate import translated
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.alternatives import begun, several
from fmcli.registry.choices import CHOICES
from fmcli.registry.modes import suits
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import Range, is_range, read
from fmcli.registry.specs import SOLVER, Spec
from fmcli.text import value_word

# The key of a context's meta with what the command line searches.
SEARCHED = "fmcli.searched"
# Choices that the command for the best model states itself, or leaves out, and the sections of the help with choices of
# the search only.
STATED, OF_THE_SEARCH = {"model", SOLVER, "threads", "holdout", "refit", "quick_search"}, {"run", "output"}
REPEATED = {name for name, option in CHOICES.items() if option.group not in OF_THE_SEARCH} - STATED


@dataclass(frozen=True)
class Searched:
    """The kinds, solvers and ranges that a command line names.

    ranges : of options, by name.
    kinds : the runs of all kinds and solvers, if several are named.
    repeated : the words of the other options and the inputs.
    valid : whether there are other rows to compare on.
    """

    ranges: Mapping[str, Range]
    kinds: Sequence[Spec]
    repeated: Sequence[str]
    inputs: Sequence[str]
    valid: bool
    refit: bool | None
    output: str | None
    threads: str | None


class TuneCommand(ComparingCommand):
    """tune, whose options may have several values."""

    others: ClassVar = {
        "refit": (None, "Train the best model on all rows, and write it: the same as the command that is printed."),
        "output": ("FILE", "The model file of --refit. [default: TRAIN.fm]"),
        "max_seconds": (
            "N",
            "End the search N seconds after the start of the command, with the best trial so far; --refit follows. The "
            "result then depends on the speed of the machine. [default: no limit; > 0]",
        ),
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or any(word in args for word in (*ctx.help_option_names, "--help-all")):
            return super().parse_args(ctx, args)
        args = translated(self, ctx, list(args))
        raw, _, order = self.make_parser(ctx).parse_args(list(args))
        chosen = {parameter.name or "": parameter for parameter in order if parameter.name in raw}
        raw = {name: raw[name] for name in chosen}
        ranges = {
            name: read(OPTIONS[name], value, converted(OPTIONS[name]))
            for name, value in raw.items()
            if name in OPTIONS and is_range(value)
        }
        asked = raw.get("model"), raw.get(SOLVER), raw.get("loss"), options_of(raw, ranges), ranges
        named = several(*asked)
        kinds = [one for one in named if suits(dict.fromkeys(chosen, True), one)] or named
        if kinds:
            raw["model"], raw[SOLVER] = kinds[0].model, kinds[0].solver
        first = kinds[0] if kinds else None
        if not kinds:
            with suppress(UsageError):  # the command raises it
                first = begun(*asked)
        for name, one in ranges.items():
            if kinds and not kinds[0].takes(name):
                del raw[name]
            else:
                raw[name] = value_word(first.values[name] if first else one.nearest(None))
        repeated = [
            word
            for name, value in raw.items()
            if name in REPEATED - ranges.keys() and isinstance(chosen[name], click.Option)
            for word in words_of(chosen[name], value)
        ]
        for name in ("model", SOLVER):
            if name in raw and name not in chosen:
                chosen[name] = next(one for one in self.params if one.name == name)
        refit, output = raw.pop("refit", None), raw.pop("output", None)
        inputs = raw.pop("inputs", ())
        inputs = inputs if isinstance(inputs, list | tuple) else ()  # click's parser has no value without arguments
        ctx.meta[SEARCHED] = Searched(
            ranges, kinds, repeated, inputs, bool(raw.get("valid")), refit, output, raw.get("threads")
        )
        words = [word for name, value in raw.items() for word in words_of(chosen[name], value)]
        return super().parse_args(ctx, [*words, "--", *inputs] if inputs else words)


def words_of(parameter: click.Parameter, value: Any) -> list[str]:
    """Return the words of an option and its value, as the parser has them."""
    if isinstance(value, bool):
        return [(parameter.opts if value else parameter.secondary_opts)[-1]]
    if isinstance(parameter, click.Option) and parameter.count:
        return [parameter.opts[-1]] * value
    each = value if isinstance(value, list | tuple) else [value]
    return [word for one in each for word in (parameter.opts[0], one)]


def options_of(raw: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Any]:
    """Return the options of a command line that have one value."""
    return {
        name: value if isinstance(value, bool) else converted(OPTIONS[name])(value)
        for name, value in raw.items()
        if name in OPTIONS and name not in ranges
    }
