"""fmcli train --ensemble: several models, whose predictions are averaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fmcli.cli.options import option
from fmcli.errors import UsageError
from fmcli.registry.options import MOST_MEMBERS

if TYPE_CHECKING:
    from fmcli.cli.train.request import Request

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


def check_ensemble(request: Request, checkpoint: str | None) -> None:
    """Raise UsageError for options that a run of several models does not support."""
    reasons = {
        "-i": (request.settings.warm_start, "the models would begin with the same parameters"),
        "--checkpoint": (checkpoint, "a checkpoint keeps the state of a single run"),
        "--keep-state": (request.keep_state, "no run can resume from several models"),
        "--max-seconds": (request.settings.deadline, "the models that train last would have no time"),
        "--online": (request.online, "every model needs a pass over the rows"),
        "--cluster": (request.cluster, "the workers have the rows and the state of a single run"),
        "--disk": (request.disk, "models that train at the same time share their rows in memory"),
    }
    for flag, (given, why) in reasons.items():
        if given:
            raise UsageError(f"--ensemble cannot be combined with {flag}: {why}; leave one of them out")
