"""Option values that have a meaning only in another tool, and other names of commands. registry/synonyms.py has the
words of other tools for options.

The letters -b -c -d -l -n -p -t -u -w have different meanings in these tools, so no command of fmcli uses them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.synonyms import other_name

FREE_LETTERS = "bcdlnptuw"

# Other names for the commands.
COMMANDS = {
    "fit": "train",
    "learn": "train",
    "apply": "predict",
    "score": "predict",
    "test": "evaluate",
    "eval": "evaluate",
    "info": "inspect",
    "show": "inspect",
    "plot": "report",
    "list": "models",
    "dump": "export",
}


def looks_like_a_file(value: str) -> bool:
    """Return whether a value looks like a file name, or is an existing file."""
    return os.sep in value or "." in value or os.path.isfile(value)


def model(value: str) -> str | None:
    """-m is the model file in xLearn and alphaFM."""
    if value not in MODELS and looks_like_a_file(value):
        return f"-m is the model kind; the model file is -o: -o {value}"
    return None if value in MODELS else other_name("model", value)


def loss(value: str) -> str | None:
    """Losses have other names elsewhere."""
    return None if value in LOSSES else other_name("loss", value)


def solver(value: str) -> str | None:
    """-s is the number of threads in libffm, of a task in xLearn, of a solver and loss in liblinear."""
    if value.isdecimal():
        return f"-s is the solver; threads are -j: -j {value}; tasks that have numbers elsewhere are --loss and -m"
    return None if value in SOLVERS else other_name("solver", value)


def metric(value: str) -> str | None:
    """Return the message for a metric that has another name here, or several."""
    return other_name("metric", value)


def limit(value: str) -> str | None:
    """Return the message for a limit, which begins with a metric."""
    return metric(value.partition("=")[0])


def valid(value: str) -> str | None:
    """-v is the number of folds in liblinear."""
    if value.isdecimal() and not os.path.exists(value):
        return (
            f"-v is the validation file, and there is no file {value}; --verbose says more; --holdout 0.2 holds out a "
            "fifth of the rows"
        )
    return None


def format(value: str) -> str | None:
    """-f is the model file in VW, and the number of folds in xLearn."""
    if value.isdecimal():
        return f"-f is the format; folds are fmcli cv --folds {value}"
    return f"-f is the format; the model file is -o: -o {value}" if looks_like_a_file(value) else None


def epochs(value: str) -> str | None:
    """-e is a tolerance in liblinear."""
    try:
        whole = float(value).is_integer()
    except (ValueError, OverflowError):
        return None
    return None if whole else f"-e is the number of epochs; --patience stops training early, with -v FILE: -e {value}"


def quiet(following: str) -> str | None:
    """-q takes pairs of namespaces in VW."""
    if len(following) == 2 and following.isalpha() and not os.path.exists(following):
        return f"-q is quiet; every pair of features interacts, in every model but linear: -q {following}"
    return None


# Command, option -> a function from its value (for a switch: from the next word) to a message, or None if it is valid.
VALUES: dict[tuple[str | None, str], Callable[[str], str | None]] = {
    ("train", "model"): model,
    ("train", "loss"): loss,
    ("train", "solver"): solver,
    ("train", "valid"): valid,
    ("train", "format"): format,
    ("train", "epochs"): epochs,
    ("train", "quiet"): quiet,
    ("train", "metrics"): metric,
    ("evaluate", "metrics"): metric,
    ("evaluate", "loss"): loss,
    ("evaluate", "limits"): limit,
}
