"""`fmcli train --help -m KIND`: only the options that a model kind and its solver take, with their defaults."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import click

from fmcli.cli.flags import flag_of
from fmcli.cli.options import ALL_FLAG, SectionCommand, SectionOption
from fmcli.registry.catalog import refusal
from fmcli.registry.choices import spelled
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import REFINES, Spec, make_spec, takes
from fmcli.registry.words import in_words, notes

# The options that only solvers have that draw parameters.
SAMPLING = ("prior_groups", "test", "test_output")
# The options that only stochastic solvers have.
BY_ROWS = ("log_every",)


class KindCommand(SectionCommand):
    """A command whose help can be narrowed to a model kind: --help with -m, and perhaps -s and --loss."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and any(word in (*ctx.help_option_names, ALL_FLAG) for word in args):
            # --help is eager, so click shows it before it looks at the other options.
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            if given.get("model") or given.get("solver"):
                ctx.obj = make_spec(given.get("model") or DEFAULT_MODEL, given.get("solver"), given.get("loss"))
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; if the help is narrowed, only the parameters that the components take."""
        parameters = super().get_params(ctx)
        if not isinstance(ctx.obj, Spec):
            return parameters
        losses = _losses(ctx.obj)
        return [_narrowed(parameter, ctx.obj) for parameter in parameters if _belongs(parameter, ctx.obj, losses)]

    more = f"{ALL_FLAG} shows all options and examples, -m KIND --help the options of a kind of model."

    def screen(self, ctx: click.Context) -> Mapping[str, Mapping[str, str]]:
        """Return the first screen, with the defaults of the given components, or else of DEFAULT_MODEL. Given
        components add their own options."""
        spec = ctx.obj if isinstance(ctx.obj, Spec) else make_spec(DEFAULT_MODEL)
        chosen = {"model": spec.model, "solver": spec.solver, **spec.values}
        screen = {
            title: {name: with_default(name, line, chosen) for name, line in lines.items()}
            for title, lines in super().screen(ctx).items()
        }
        if isinstance(ctx.obj, Spec):
            listed = {name for lines in screen.values() for name in lines}
            own = [
                name
                for name in (*MODELS[spec.model].options, *spec.solver_entry.options)
                if name not in listed and name not in REFINES
            ]
            more = {
                name: with_default(name, spelled(OPTIONS[name].help, flag_of).removesuffix("."), chosen) for name in own
            }
            return {f"Of {spec.model} and {spec.solver}": more, **screen}
        return screen

    def format_screen(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_screen(ctx, formatter)
        lists = _lists(self.lists, ctx.obj) if isinstance(ctx.obj, Spec) else self.lists
        formatter.write_paragraph()
        formatter.write_dl([(title, " ".join(name for name, _ in rows)) for title, rows in lists.items()])

    def format_all(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lists = self.lists
        if isinstance(ctx.obj, Spec):
            self.lists = _lists(lists, ctx.obj)
        super().format_all(ctx, formatter)
        self.lists = lists


def with_default(name: str, line: str, chosen: Mapping[str, Any]) -> str:
    """Return a line of the screen, with the default of its option."""
    if name not in chosen or "[" in line:
        return line
    value = in_words(OPTIONS[name], chosen[name]) if name in OPTIONS else chosen[name]
    return f"{line} [{value}]" if value and not (name in OPTIONS and OPTIONS[name].negative) else line


def _losses(spec: Spec) -> list[str]:
    """Return the loss, or the losses that the model and the solver take."""
    return [spec.loss] if spec.loss else [loss for loss in LOSSES if not refusal(spec.model, _solver(spec), loss)]


def _belongs(parameter: click.Parameter, spec: Spec, losses: list[str]) -> bool:
    """Return whether a run of these components, with one of some losses, takes a parameter."""
    name = parameter.name or ""
    if name in BY_ROWS:
        return spec.by_rows
    if name in SAMPLING:
        return spec.solver_entry.is_sampler
    if name in ("solver", "loss"):  # a closed form has no choice of either
        return _solver(spec) is not None
    if name not in OPTIONS:
        return True
    of_loss = any(name in loss.options for loss in LOSSES.values())
    # A penalty that is off by default may need a model of another form.
    if OPTIONS[name].default == 0.0 and not of_loss and refusal(spec.model, _solver(spec), spec.loss, name):
        return False
    return any(takes(name, spec.model, spec.solver, loss) for loss in losses)


def _solver(spec: Spec) -> str | None:
    return spec.solver if spec.solver in SOLVERS else None


def _narrowed(parameter: click.Parameter, spec: Spec) -> click.Parameter:
    """Return the parameter with the default that it has for these components."""
    name = parameter.name or ""
    if not isinstance(parameter, SectionOption) or name not in (*spec.values, "solver"):
        return parameter
    narrowed = copy.copy(parameter)
    narrowed.help = _help(name, parameter.help or "", spec)
    return narrowed


def _help(name: str, text: str, spec: Spec) -> str:
    """Return the help of an option with the default that it has for these components."""
    if name == "solver":
        kind = MODELS[spec.model]
        dense = f", or {kind.dense_solver} for few dense rows" if kind.dense_solver else ""
        return f"{text.partition(' [')[0]} [default: {kind.solver}{dense}]"
    choice, value = OPTIONS[name], spec.values[name]
    whole = REFINES.get(name, "")
    refined = whole in spec.values and spec.values[whole] == value
    told = notes(choice, OPTIONS[whole].flag if refined else in_words(choice, value))
    return choice.help if "[default" in choice.help else f"{choice.help} {told}".rstrip()


def _lists(lists: dict[str, Any], spec: Spec) -> dict[str, Any]:
    """Return the lists below the options: this model, the solvers that train it, and the losses of both."""
    solver = _solver(spec)
    kept: dict[str, Iterable[str]] = {
        "Models": [spec.model],
        "Solvers": [name for name in SOLVERS if not refusal(spec.model, name)],
        "Losses": [name for name in LOSSES if not refusal(spec.model, solver, name)],
    }
    narrowed = {title: [row for row in rows if row[0] in kept.get(title, ())] for title, rows in lists.items()}
    return {title: rows for title, rows in narrowed.items() if rows}
