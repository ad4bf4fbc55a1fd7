"""Options of libFM, libffm, xLearn, alphaFM, liblinear and VW: a message for each of their options that fmcli does not
have, and for option values that have a meaning only in another tool. registry/synonyms.py has the words of further
tools.

The letters -b -c -d -l -n -p -t -u -w have different meanings in these tools, so that no command of fmcli uses them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.synonyms import OF_TABLES, SYNONYMS, other_name, synonyms

FREE_LETTERS = "bcdlnptuw"

# Command -> option without leading dashes and with "-" for "_" -> its counterpart in fmcli.
OPTIONS: dict[str, dict[str, str]] = {
    "train": {
        # Letters that several of the tools use.
        "b": "the L2 penalty (xLearn's -b) is --l2; the bits of hashed features (VW's -b) are --hash-bits",
        "c": "the penalty is weighted by --l2, not the loss (liblinear's -c); VW's cache is --disk --cache FILE",
        "d": "the training file needs no option (VW's -d): fmcli train FILE",
        "l": "the L2 penalty (libffm's -l) is --l2; the learning rate (VW's -l) is -r; the log file (xLearn's -l) is "
        "--log-json",
        "n": "threads (liblinear's -n) are -j",
        "p": "the validation file (libffm's -p) is -v; the solver (xLearn's -p) is -s; fmcli predict writes "
        "predictions (VW's -p)",
        "t": "passes over the data (libffm's -t) are -e; to test (VW's -t) is fmcli predict; fmcli export writes "
        "parameters (xLearn's -t)",
        "u": "the standard deviation of the initial factors (xLearn's -u) is --init-std",
        "w": "the weight of a label (liblinear's -w) is --class-weight LABEL=W",
        "B": "a bias is learned unless --no-bias is given (liblinear's -B)",
        "C": "the penalty is tuned (liblinear's -C) by fmcli tune --l2 1e-6..1e-1",
        "R": "the bias is never penalised, so that liblinear's -R is not needed",
        # libFM
        "task": "the loss follows the labels, or is --loss squared, --loss logistic (libFM's r and c)",
        "train": "the training file needs no option (libFM's -train): fmcli train FILE",
        "validation": "the validation file is -v",
        "method": "the solver is -s (libFM's -method): als is -s cd, sgd is -s sgd, mcmc is -s mcmc",
        "learn-rate": "the learning rate is -r",
        "init-stdev": "the standard deviation of the initial factors is --init-std",
        "out": "predictions (libFM's -out) are written by fmcli predict -o FILE; with -s mcmc, those of --test FILE by "
        "--test-output FILE",
        "save-model": "the model file is -o; fmcli export --to libfm writes one for libFM",
        "load-model": "the model to resume from is -i; fmcli import makes one of libFM's",
        "verbosity": "--verbose prints more",
        "rlog": "--log-json writes the figures of each epoch",
        # libffm
        "on-disk": "rows are read from disk in every epoch with --disk --cache FILE",
        "no-rand": "rows in the order of the file are --no-shuffle",
        # xLearn
        "sw": "epochs to wait for a better one (xLearn's -sw) are --patience",
        "lambda-1": "the L1 penalty is --l1",
        "lambda-2": "the L2 penalty is --l2",
        "pre": "the model to resume from is -i",
        "block": "what rows may take in memory (xLearn's -block) is --memory MB, with --disk",
        "cv": "cross-validation is fmcli cv --folds K",
        "dis-es": "training stops early only with validation data: --holdout 0 trains on all rows for all epochs",
        "dis-lock-free": "every run is reproducible without this option",
        # alphaFM
        "mf": "there is one format of model files; fmcli export writes the parameters as text (alphaFM's -mf txt)",
        "im": "the model to resume from (alphaFM's -im) is -i",
        "core": "threads (alphaFM's -core) are -j",
        "fvs": "--group-l1 sets all factors of a feature to zero together (alphaFM's -fvs)",
        "mnt": "the type of numbers is chosen when the program is built",
        "w-alpha": "it is --alpha-w (of -s ftrl)",
        "v-alpha": "it is --alpha-v (of -s ftrl)",
        "w-beta": "it is --beta (of -s ftrl), for linear weights and factors alike",
        "v-beta": "it is --beta (of -s ftrl), for linear weights and factors alike",
        "w-l1": "it is --l1-w",
        "v-l1": "it is --l1-v",
        "w-l2": "it is --l2-w",
        "v-l2": "it is --l2-v",
        # VW
        "data": "the training file needs no option: fmcli train FILE",
        "final-regressor": "the model file is -o",
        "initial-regressor": "the model to resume from is -i",
        "testonly": "to test is fmcli predict",
        "predictions": "predictions are written by fmcli predict -o FILE",
        "readable-model": "parameters are written by fmcli export",
        "loss-function": "the loss is --loss",
        "link": "probabilities are what fmcli predict writes for models of logistic loss",
        "bit-precision": "every index has its own weight",
        "cache-file": "a cache of rows is --cache FILE, with --disk",
        "ftrl": "it is -s ftrl",
        "ftrl-alpha": "it is --alpha (of -s ftrl)",
        "ftrl-beta": "it is --beta (of -s ftrl)",
        "power-t": "it is --schedule invscaling --power X (of -s sgd)",
        "initial-t": "it is --schedule inverse --t0 X (of -s sgd)",
        "random-seed": "it is --seed",
        "early-terminate": "it is --patience",
        "holdout-off": "it is --holdout 0",
        "interactions": "every pair of features interacts, in every model but linear",
        "quadratic": "every pair of features interacts, in every model but linear",
        "lrq": "every pair of features interacts through --rank factors, in every model but linear",
    },
    "predict": {
        "b": "probabilities (liblinear's -b 1) are written for models of logistic loss; else see --output-type",
        "d": "files to predict need no option (VW's -d): fmcli predict MODEL FILE",
        "i": "the model needs no option (VW's -i): fmcli predict MODEL FILE",
        "m": "the model needs no option (alphaFM's -m): fmcli predict MODEL FILE",
        "p": "predictions (VW's -p) are written by -o FILE",
        "r": "raw scores (VW's -r) are --output-type raw",
        "t": "a model does not change when it predicts, so that VW's -t is not needed",
        "core": "threads (alphaFM's -core) are -j",
        "dim": "the model file knows its rank",
        "mf": "there is one format of model files",
        "mnt": "the model file knows its type of numbers",
        "out": "predictions (alphaFM's and libFM's -out) are written by -o FILE",
        "test": "files to predict need no option (libFM's -test): fmcli predict MODEL FILE",
        "link": "--output-type prob gives probabilities",
        "testonly": "a model does not change when it predicts",
        "data": "files to predict need no option: fmcli predict MODEL FILE",
        "initial-regressor": "the model needs no option: fmcli predict MODEL FILE",
        "predictions": "predictions are written by -o FILE",
    },
    "import": {
        "task": "what scores mean (libFM's -task r and c) is --loss squared and --loss logistic",
        "dim": "the file shows whether there are a bias and linear weights, and the rank",
        "method": "a model for classes by libFM's als has --loss probit, one by sgd --loss logistic",
    },
}

# OPTIONS with the synonyms of the field.
WORDS = {command: {**synonyms(command), **OPTIONS.get(command, {})} for command in {*OPTIONS, *SYNONYMS, *OF_TABLES}}

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
    "list": "models",
    "dump": "export",
}


def words_of(command: str | None) -> dict[str, str]:
    """Return the options of other tools for a command, with their counterparts."""
    return WORDS.get(command or "", {})


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
    """Return metrics have other names elsewhere, and some have several here."""
    return other_name("metric", value)


def limit(value: str) -> str | None:
    """Return a limit begins with a metric."""
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
