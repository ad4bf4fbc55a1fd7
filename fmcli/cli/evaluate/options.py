"""The options of metrics and of rankings, which evaluate and report have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fmcli.cli.files import InputFile
from fmcli.cli.options import option
from fmcli.registry.run_choices import METRIC_NAMES

F = TypeVar("F", bound=Callable[..., Any])


def metric_option(section: str, help: str) -> Callable[[F], F]:
    """Return -x: names of metrics."""
    names = ("loss", *METRIC_NAMES)
    return option(section, "-x", "--metric", "metrics", multiple=True, metavar="NAME", names=names, help=help)


def ranking_options(over: str, seen: str, relevant: str) -> Callable[[F], F]:
    """Return the options of rankings of all items, with their help texts."""
    added = (
        option("validation", "--relevant", type=click.FLOAT, metavar="X", help=relevant),
        option("validation", "--seen", multiple=True, type=InputFile(), metavar="FILE", help=seen),
        option("validation", "--over", type=InputFile(), metavar="FILE", help=over),
    )

    def decorate(function: F) -> F:
        for add in added:
            function = add(function)
        return function

    return decorate
