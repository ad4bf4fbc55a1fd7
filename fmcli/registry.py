"""The one table of models, solvers, losses and options.

Command-line options, their defaults, help and checks, the header of model files and the parametrised tests all derive
from here: to register a piece is to have it trained, saved, listed and tested.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Option:
    """One number or switch that a piece takes, under the name of its keyword."""

    name: str
    kind: type  # int, float or bool
    default: Any  # None: derived from another option, as the help says
    help: str
    group: str  # the heading it stands under in the help: model, penalty, solver or run
    flags: tuple[str, ...] = ()  # short flag; the long one derives from the name
    low: float | None = None
    high: float | None = None
    open_low: bool = False  # `low` itself is out of range

    @property
    def flag(self) -> str:
        """The long flag; a switch that can only be turned off is known by the flag that does it."""
        return ("--no-" if self.negative else "--") + self.name.replace("_", "-")

    @property
    def negative(self) -> bool:
        """Whether only the flag that turns it off exists."""
        return self.kind is bool and self.default is True and self.name in NEGATIVE_ONLY

    def range(self) -> str:
        """The permitted values in words: "> 0", ">= 1", "0 to 1"; empty where all are."""
        if self.low is None:
            return ""
        if self.high is None:
            return f"{'>' if self.open_low else '>='} {self.low}"
        return f"{self.low} to {self.high}"

    def permits(self, value: float) -> bool:
        """Whether a value is a finite number in range."""
        if value != value or value in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value <= self.high


NEGATIVE_ONLY = ("bias", "linear")


@dataclass(frozen=True)
class Piece:
    """A model, solver or loss: where its class is, what it takes, and what it is for."""

    name: str
    help: str
    path: str  # module:class, imported when it is used
    options: tuple[str, ...] = ()  # keywords of the class
    defaults: Mapping[str, Any] = field(default_factory=dict)  # where they differ from the options'

    def load(self) -> Any:
        """The class."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)


def _table(*rows: Any) -> dict[str, Any]:
    return {row.name: row for row in rows}


OPTIONS = _table(
    Option("rank", int, 8, "Number of factors.", "model", ("-k",), low=1, high=1 << 16),
    Option("bias", bool, True, "Leave out the bias.", "model"),
    Option("linear", bool, True, "Leave out the linear weights.", "model"),
    Option("init_std", float, 0.01, "Standard deviation of the factors' start values.", "model", low=0),
    Option("l1", float, 0.0, "Strength of the L1 penalty.", "penalty", low=0),
    Option("l1_w", float, None, "The same for linear weights only.", "penalty", low=0),
    Option("l1_v", float, None, "The same for factors only.", "penalty", low=0),
    Option("l2", float, 1e-5, "Strength of the L2 penalty.", "penalty", low=0),
    Option("l2_w", float, None, "The same for linear weights only.", "penalty", low=0),
    Option("l2_v", float, None, "The same for factors only.", "penalty", low=0),
    Option("learning_rate", float, 0.01, "Step size.", "solver", ("-r",), low=0, open_low=True),
    Option("alpha", float, 0.05, "Step size of FTRL.", "solver", low=0, open_low=True),
    Option("alpha_w", float, None, "The same for linear weights only.", "solver", low=0, open_low=True),
    Option("alpha_v", float, None, "The same for factors only.", "solver", low=0, open_low=True),
    Option("beta", float, 1.0, "FTRL's beta: damps the first steps.", "solver", low=0, open_low=True),
    Option("ftrl_power", float, 0.5, "Exponent of FTRL's step schedule.", "solver", low=0, high=1),
    Option("l1_from_epoch", int, 2, "First epoch in which L1 acts on factors; 1 is at once.", "solver", low=1),
    Option("epochs", int, 10, "Passes over the data; 0 writes the start values.", "run", ("-e",), low=0),
    Option("shuffle", bool, True, "Visit the rows in a new order every epoch, or in file order.", "run"),
    Option("seed", int, 0, "Seed of every random choice.", "run", low=0, high=(1 << 63) - 1),
)

# What every run takes, whatever its pieces.
COMMON = ("init_std", "l1", "l1_w", "l1_v", "l2", "l2_w", "l2_v", "epochs", "shuffle", "seed")

MODELS = _table(
    Piece("linear", "Linear model: a weight a feature.", "fmcli._core.linear:Linear", ("bias",)),
    Piece("fm", "Factorization machine.", "fmcli._core.fm:FM", ("rank", "bias", "linear")),
    Piece("shfm", "Strongly hierarchical factorization machine.", "fmcli._core.fm:SHFM", ("rank", "bias")),
)

SOLVERS = _table(
    Piece("sgd", "Stochastic gradient descent.", "fmcli._core.sgd:SGD", ("learning_rate",)),
    Piece("adagrad", "AdaGrad.", "fmcli._core.adagrad:AdaGrad", ("learning_rate",), {"learning_rate": 0.05}),
    Piece(
        "ftrl",
        "FTRL-Proximal.",
        "fmcli._core.ftrl:FTRL",
        ("alpha", "alpha_w", "alpha_v", "beta", "ftrl_power", "l1_from_epoch"),
    ),
)

LOSSES = _table(
    Piece("squared", "Half the squared error, for real labels.", "fmcli._core.loss:Squared"),
    Piece("logistic", "Log loss, for labels of two values.", "fmcli._core.loss:Logistic"),
)

# The solver that a model is trained with unless another is named.
DEFAULT_MODEL = "fm"
DEFAULT_SOLVER = "adagrad"
SOLVER_OF_MODEL = {"shfm": "ftrl"}
