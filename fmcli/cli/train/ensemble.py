"""fmcli train --ensemble: several models, whose predictions are averaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fmcli.cli.options import option
from fmcli.registry.options import MOST_MEMBERS

F = TypeVar("F", bound=Callable[..., Any])


def ensemble_option(function: F) -> F:
    """Add --ensemble, as the argument `ensemble`."""
    return option(
        "run",
        "--ensemble",
        type=click.IntRange(min=1, max=MOST_MEMBERS),
        default=1,
        metavar="N",
        help="Train N models, with the seeds from --seed on, into one model file. Predictions are the means of theirs: "
        "of probabilities, or of predicted numbers. The models train at the same time, as many as there are threads "
        f"(-j), which does not change the result. [default: 1; 1 to {MOST_MEMBERS}]",
    )(function)
