"""The one table of models, solvers, losses and options.

Command-line options, their defaults, help and checks, the header of model files and the parametrised tests all derive
from here: to register a piece is to have it trained, saved, listed and tested.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fmcli.registry.derived import Derived, by_degree, by_longest_row, by_occurrence, by_order, per_row


@dataclass(frozen=True)
class Option:
    """One number or switch that a piece takes, under the name of its keyword."""

    name: str
    kind: type  # int, float, bool, or str for a choice
    default: Any  # None: another option's, as the help says; Derived: computed when the training data are known
    help: str
    group: str  # the heading it stands under in the help: model, penalty, solver or run
    flags: tuple[str, ...] = ()  # short flag; the long one derives from the name
    low: float | None = None
    high: float | None = None
    open_low: bool = False  # `low` itself is out of range
    choices: tuple[str, ...] = ()
    by_degree: bool = False  # may be a list, one number per degree, for a model of which `by_degree` names it

    @property
    def flag(self) -> str:
        """The long flag; a switch that can only be turned off is known by the flag that does it."""
        return ("--no-" if self.negative else "--") + self.name.replace("_", "-")

    @property
    def negative(self) -> bool:
        """Whether only the flag that turns it off exists."""
        return self.kind is bool and self.default is True and self.name in NEGATIVE_ONLY

    def range(self) -> str:
        """The permitted values in words: "> 0", ">= 1", "0 to 1", "a, b or c"; empty where all are."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        if self.low is None:
            return ""
        if self.high is None:
            return f"{'>' if self.open_low else '>='} {self.low}"
        return f"{self.low} to {self.high}"

    def permits(self, value: Any) -> bool:
        """Whether a value is one of the choices, or a finite number in range, or a list of such."""
        if self.choices:
            return value in self.choices
        if self.by_degree and isinstance(value, list):
            return all(map(self.permits, value))
        if value != value or value in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value <= self.high


NEGATIVE_ONLY = ("bias", "linear")
DEFAULT_MODEL = "fm"
DEFAULT_SOLVER = "adagrad"
# What stands for the solver of a model that needs none, and its loss.
CLOSED_FORM, CLOSED_FORM_LOSS = "closed-form", "squared"
# The loss whose predictions can be clipped to the range of the labels.
CLIPPED_LOSS = "squared"


@dataclass(frozen=True)
class Piece:
    """A model, solver or loss: where its class is, what it takes, and what it is for."""

    name: str
    help: str
    path: str  # module:class, imported when it is used; or a function that makes one of several
    options: tuple[str, ...] = ()  # keywords of the class
    defaults: Mapping[str, Any] = field(default_factory=dict)  # where they differ from the options'
    solver: str = DEFAULT_SOLVER  # of a model: what it is trained with unless another is named
    with_solver: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of a model: defaults beside one solver
    refuses: Mapping[str, str] = field(default_factory=dict)  # of a model or solver: option -> why it cannot be had
    most: Mapping[str, int] = field(default_factory=dict)  # of a model: largest values below the options' own
    positive: tuple[str, ...] = ()  # of a model: penalties without which it is another model
    by_degree: tuple[str, ...] = ()  # of a model: options that may be lists, for each of the degrees 2 to `order`
    context: tuple[str, ...] = ()  # of a model: keywords that the run gives it, as build_model in specs.py names them
    by_fields: bool = False  # of a model: whether it learns from the fields of entries
    closed_form: bool = False  # of a model: no solver trains it
    by_rows: bool = True  # of a solver: whether it goes through the data row by row, with a step size
    sums_losses: bool = False  # of a solver: whether penalties weigh against the sum of the losses, not their mean
    visits: bool = False  # of a solver: whether it applies penalties that begin to act to all rows at once
    task: str = ""  # of a loss: binary (two values), real, counts or classes
    smooth: bool = True  # of a loss: whether its slope does not jump

    def needs_fields(self, values: Mapping[str, Any]) -> bool:
        """Of a model with these options: whether the rows to train on must have fields."""
        return self.by_fields and values.get("split_index") is None

    def load(self) -> Any:
        """The class."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)


def _table(*rows: Any) -> dict[str, Any]:
    return {row.name: row for row in rows}


# Validation data end training before it overfits; without them, as many epochs would ruin models of many features.
_EPOCHS = Derived("30 with validation data, else 10", lambda facts: 30 if facts.validated else 10)
# Steps of plain gradients. Because of outliers the longest row of standardized columns has some 100 times the squared
# norm of most, as in cadata and cpusmall, which chose the number; norms below 11.9 change nothing.
_STEP = by_longest_row(0.01, 200)

OPTIONS = _table(
    Option(
        "rank",
        int,
        8,
        "Number of factors; of hofm also one a degree, as in 8/4/2; or of landmarks.",
        "model",
        ("-k",),
        low=1,
        high=1 << 16,
        by_degree=True,
    ),
    Option("order", int, 2, "Degree of the kernel; of hofm the largest one.", "model", low=2, high=64),
    Option("bias", bool, True, "Leave out the bias.", "model"),
    Option("linear", bool, True, "Leave out the linear weights.", "model"),
    Option(
        "augment",
        bool,
        False,
        "Add constant features to the kernel, by which lower degrees enter: pn and lifted-pn one, others order - 1.",
        "model",
    ),
    Option(
        "fit_beta",
        bool,
        None,
        "Fit the factors' weights beta, or leave them as they start; fitted where the order is even.",
        "model",
    ),
    Option(
        "beta_start",
        str,
        None,
        "Start of beta: 1, -1, 1, ... (usual where the order is even); ones (else); or standard normal numbers.",
        "model",
        choices=("alternate", "ones", "random"),
    ),
    Option(
        "pair_bits",
        int,
        22,
        "Pairs of features have a weight each where there are at most 2^N, else they share 2^N by a hash.",
        "model",
        low=1,
        high=30,
    ),
    Option("split_index", int, None, "First index of the second group, in place of fields 0 and 1.", "model", low=0),
    Option("anchors", int, 10, "Number of anchors, each with an FM of its own.", "model", low=1, high=1 << 16),
    Option("neighbours", int, 5, "Anchors active at a time in the variants do and apl.", "model", low=1),
    Option("coding_c", float, 1.0, "How fast their shares fall with the distance.", "model", low=0),
    Option("lc", float, 0.4, "The same in the variant jo: L/C; larger means fewer active anchors.", "model", low=0),
    Option(
        "llfm_variant",
        str,
        "jo",
        "Anchors of k-means; learned ones; learned ones with adaptive coding.",
        "model",
        choices=("do", "apl", "jo"),
    ),
    Option("anchor_rate", float, None, "Step size of anchors.", "model", low=0),
    Option(
        "basis",
        str,
        "nystrom",
        "Penalise the weights of the landmarks themselves, or the function that they make.",
        "model",
        choices=("random", "nystrom"),
    ),
    Option(
        "kernel",
        str,
        "poly",
        "Kernel: (coef0 + <p, x>)^order, or products of order different features at most.",
        "model",
        choices=("poly", "anova"),
    ),
    Option("coef0", float, 1.0, "Constant of the kernel poly.", "model", low=0),
    Option(
        "init_std",
        float,
        0.01,
        "Standard deviation of the factors' start values; of hofm also one for each degree, as in 0.01/0.1.",
        "model",
        low=0,
        by_degree=True,
    ),
    Option(
        "l1",
        float,
        0.0,
        "Strength of the L1 penalty, against the mean loss; for ftrl against the sum.",
        "penalty",
        low=0,
    ),
    Option("l1_w", float, None, "The same for linear weights only.", "penalty", low=0),
    Option("l1_v", float, None, "The same for factors only.", "penalty", low=0),
    Option(
        "l2",
        float,
        1e-5,
        "Strength of the L2 penalty, against the mean loss; for ftrl against the sum.",
        "penalty",
        low=0,
    ),
    Option("l2_w", float, None, "The same for linear weights only.", "penalty", low=0),
    Option("l2_v", float, None, "The same for factors only.", "penalty", low=0),
    Option(
        "group_l1",
        float,
        0.0,
        "Strength of the group penalty, of a feature's row as a whole; against the mean loss, for ftrl the sum.",
        "penalty",
        low=0,
    ),
    Option(
        "nuclear",
        float,
        0.0,
        "Strength of the nuclear norm penalty, in place of L2 on factors and their weights beta.",
        "penalty",
        low=0,
    ),
    Option("huber_delta", float, 1.0, "Where the Huber loss turns linear.", "penalty", low=0, open_low=True),
    Option("learning_rate", float, _STEP, "Step size.", "solver", ("-r",), low=0, open_low=True),
    Option("learning_rate_w", float, None, "The same for linear weights only.", "solver", low=0, open_low=True),
    Option("learning_rate_v", float, None, "The same for factors only.", "solver", low=0, open_low=True),
    Option(
        "schedule",
        str,
        "constant",
        "Learning rate of update t: as it is, over t^power, or over t + t0.",
        "solver",
        choices=("constant", "invscaling", "inverse"),
    ),
    Option("power", float, 0.5, "Exponent of the schedule invscaling.", "solver", low=0),
    Option("t0", float, 1.0, "Delay of the schedule inverse.", "solver", low=0),
    Option("adaptive", bool, False, "AdaGrad's learning rate for every parameter.", "solver"),
    Option(
        "prox",
        str,
        "lazy",
        "Missed penalty steps in closed form, or one by one (slow).",
        "solver",
        choices=("lazy", "exact"),
    ),
    Option("alpha", float, 0.1, "Step size of FTRL.", "solver", low=0, open_low=True),
    Option("alpha_w", float, None, "The same for linear weights only.", "solver", low=0, open_low=True),
    Option("alpha_v", float, None, "The same for factors only.", "solver", low=0, open_low=True),
    Option("beta", float, 1.0, "FTRL's beta: damps the first steps.", "solver", low=0, open_low=True),
    Option("ftrl_power", float, 0.5, "Exponent of FTRL's step schedule.", "solver", low=0, high=1),
    Option(
        "l1_from_epoch",
        int,
        1,
        "First epoch in which L1 and the group penalty act on factors, which can grow before; only later epochs can be "
        "chosen as best.",
        "penalty",
        low=1,
        high=(1 << 63) - 1,
    ),
    Option(
        "tol", float, 1e-5, "Stop after an epoch that lowers the objective by no more, relative to it.", "solver", low=0
    ),
    Option("epochs", int, _EPOCHS, "Passes over the data; 0 writes the start values.", "run", ("-e",), low=0),
    Option("batch_size", int, 1, "Rows averaged into one update.", "run", low=1, high=1 << 24),
    Option(
        "clip",
        bool,
        None,
        "Keep predictions within the range of the training labels, for loss squared. [default: if there are at most 20 "
        "different labels and none is more than a quarter of their range from the next one, not from standard input; "
        "with -i, as that model]",
        "run",
    ),
    Option(
        "scale",
        str,
        "none",
        "Divide each column by its standard deviation (an indicator by its value) or by its largest absolute value in "
        "the training rows; the model keeps the divisors. Zeros stay zeros, because nothing is shifted. Use max-abs if "
        "columns are sparse.",
        "run",
        choices=("none", "standard", "max-abs"),
    ),
    Option("norm", bool, False, "Scale each row to unit length, after --scale.", "run"),
    Option("shuffle", bool, True, "Visit the rows in a new order every epoch, or in file order.", "run"),
    Option("seed", int, 0, "Seed of every random choice.", "run", low=0, high=(1 << 63) - 1),
)

# What every run takes, whatever its pieces.
COMMON = (
    *("init_std", "l1", "l1_w", "l1_v", "l2", "l2_w", "l2_v", "group_l1", "l1_from_epoch"),
    *("epochs", "batch_size", "clip", "scale", "norm", "shuffle", "seed"),
)

_FM = ("rank", "bias", "linear")
_BETA = ("fit_beta", "beta_start")
# What makes parameters exactly 0.
_TO_ZERO = ("l1", "l1_w", "l1_v", "group_l1", "l1_from_epoch")
# Standard deviations of start values by kind, as measured on held-out rows of training data. Products of several
# factors near 0 never leave it. Coordinate descent moves fitted weights of kernels before the factors, so that if these
# are near 0 both stay there.
_START = {
    name: {"init_std": std}
    for name, std in {
        "anova": by_order(0.01, 0.03, 0.1, cd=0.1),
        "sha2": by_order(0.01, cd=0.1),
        "hofm": by_degree(0.01, 0.1),
        "hofm-shared": by_order(0.03, 0.1),
        "hofm-simplex": by_order(0.1, 0.2),
        "all-subsets": 0.1,
        "pn": by_order(0.1, 0.01, cd=0.1),
        "lifted-anova": by_order(0.1, 0.2, 0.3),
        "lifted-pn": 0.03,
    }.items()
}
# Makes factors sparse at no loss of quality. It weighs against a sum, which it would outweigh if there are few rows.
_SPARSE = {"ftrl": {"l1": Derived("min(1, rows/1000)", lambda facts: min(1.0, facts.rows / 1000))}}
# Linear functions in pn begin at the constants' 1 and not near 0, so that its derivatives are larger than an FM's.
_PN_STEP = by_longest_row(0.01, 5)
# As held-out rows prefer; more makes the factors of features with few rows vanish.
_LIFTED_PN_L2_V = by_occurrence(20, most=0.1)
# Kinds without linear weights make a feature's linear effect from all of its factors. Steps on single rows move these
# at once, so that the last rows sway every prediction; coordinate descent has no such noise.
# The effect is spread over the factors, so that their penalty weighs less against it than against interactions.
_BY_COLUMNS = "cd"
# The sparse-group-lasso family: its penalties where none is given, and what makes each its own.
# Factors start near 0, which is a saddle point: penalized at once, they never leave it. So some epochs come before.
_SGL = {"l2": 0.0, "l1_from_epoch": 6}
_SGL_WITH = {"fobos": {"adaptive": True, "learning_rate": 0.05, "epochs": 12}}

MODELS = _table(
    Piece("linear", "Linear model: one weight per feature.", "fmcli.models.linear:Linear", ("bias",)),
    Piece(
        "poly2",
        "One weight for each pair of features.",
        "fmcli.models.poly2:Poly2",
        ("bias", "linear", "pair_bits"),
        {"norm": True},
        with_solver={"adagrad": {"learning_rate": 0.2}},
    ),
    Piece("fm", "Factorization machine.", "fmcli.models.fm:FM", _FM),
    Piece(
        "anova",
        "ANOVA kernel regression of any order: of order 2 an FM with fitted weights of its factors.",
        "fmcli.models.anova:anova",
        (*_FM, "order", "augment", *_BETA),
        _START["anova"],
    ),
    Piece(
        "shfm",
        "Strongly hierarchical FM.",
        "fmcli.models.fm:SHFM",
        ("rank", "bias"),
        solver=_BY_COLUMNS,
        with_solver={
            "ftrl": {**_SPARSE["ftrl"], "alpha_v": 0.1, "init_std": 0.05},
            _BY_COLUMNS: {"l1": per_row(1)},
        },
    ),
    Piece(
        "sha2",
        "Strongly hierarchical ANOVA kernel regression.",
        "fmcli.models.fm:SHA2",
        ("rank", "bias", *_BETA),
        _START["sha2"],
        solver="ftrl",
        with_solver=_SPARSE,
    ),
    Piece(
        "sglfm",
        "FM under a sparse group lasso: rows and single factors vanish.",
        "fmcli.models.fm:FM",
        _FM,
        {**_SGL, "l1": 2e-5, "group_l1": 1e-5},
        solver="fobos",
        with_solver=_SGL_WITH,
        positive=("l1", "group_l1"),
    ),
    Piece(
        "glfm",
        "FM under a group lasso: whole rows vanish.",
        "fmcli.models.fm:FM",
        _FM,
        {**_SGL, "group_l1": 1e-4},
        solver="fobos",
        with_solver=_SGL_WITH,
        positive=("group_l1",),
        refuses=dict.fromkeys(("l1", "l1_w", "l1_v"), "glfm has the group penalty alone; sglfm has both"),
    ),
    Piece(
        "l1fm",
        "FM under L1: single factors vanish.",
        "fmcli.models.fm:FM",
        _FM,
        {**_SGL, "l1": 3e-5},
        solver="fobos",
        with_solver=_SGL_WITH,
        positive=("l1",),
        refuses={"group_l1": "l1fm has the L1 penalty alone; sglfm has both"},
    ),
    Piece(
        "hofm",
        "Higher-order FM: factors of their own for every degree.",
        "fmcli.models.anova:HOFM",
        (*_FM, "order"),
        {"order": 3, **_START["hofm"]},
        by_degree=("rank", "init_std"),
    ),
    Piece(
        "hofm-shared",
        "Higher-order FM of one set of factors, with constant features.",
        "fmcli.models.anova:HOFMShared",
        ("rank", "bias", "order"),
        {"order": 3, **_START["hofm-shared"]},
        solver=_BY_COLUMNS,
        with_solver={
            "adagrad": {"learning_rate": 0.1, "l2": 5e-3, "init_std": by_order(0.03, 0.01, 0.1)},
            _BY_COLUMNS: {"l2_v": per_row(30)},
        },
    ),
    Piece(
        "hofm-simplex",
        "Higher-order FM of one set of factors, with weights of the degrees.",
        "fmcli.models.anova:HOFMSimplex",
        ("rank", "bias", "order"),
        _START["hofm-simplex"],
        solver=_BY_COLUMNS,
    ),
    Piece(
        "all-subsets",
        "All degrees at once: products of 1 + p_j x_j.",
        "fmcli.models.anova:AllSubsets",
        ("rank", "bias"),
        _START["all-subsets"],
        solver=_BY_COLUMNS,
        with_solver={_BY_COLUMNS: {"l2_v": per_row(25)}},
    ),
    Piece(
        "pn",
        "Polynomial network: powers of linear functions.",
        "fmcli.models.polynet:PN",
        (*_FM, "order", "augment", *_BETA),
        {"augment": True, **_START["pn"]},
        with_solver={name: {"learning_rate": _PN_STEP} for name in ("sgd", "fobos")},
    ),
    Piece(
        "lifted-anova",
        "ANOVA kernel as products of different factors, in each of which the score is linear.",
        "fmcli.models.lifted:LiftedAnova",
        (*_FM, "order", "augment"),
        _START["lifted-anova"],
        most={"order": 8},
    ),
    Piece(
        "lifted-pn",
        "Polynomial network as products of different linear functions.",
        "fmcli.models.polynet:LiftedPN",
        (*_FM, "order", "augment"),
        {"augment": True, **_START["lifted-pn"]},
        with_solver={"adagrad": {"learning_rate": 0.1, "l2_v": _LIFTED_PN_L2_V}},
    ),
    Piece(
        "bilinear",
        "Pairs between two groups of features: those of field 0 and field 1.",
        "fmcli.models.bilinear:Bilinear",
        (*_FM, "split_index"),
        by_fields=True,
    ),
    Piece(
        "ffm",
        "Field-aware FM: a feature's factors differ by the field that they meet.",
        "fmcli.models.ffm:FFM",
        _FM,
        {"rank": 4, "norm": True, "init_std": 0.03},
        with_solver={"adagrad": {"learning_rate": 0.1, "l2": 1e-4}},
        context=("fields", "by_row"),
        by_fields=True,
    ),
    Piece(
        "llfm",
        "Locally linear FM: FMs around anchors, the nearest of which share a row.",
        "fmcli.models.local.llfm:LLFM",
        (*_FM, "anchors", "neighbours", "coding_c", "lc", "llfm_variant", "anchor_rate"),
        {"anchors": 3},
        with_solver={"ftrl": {"anchor_rate": 0.01}},
    ),
    Piece(
        "kernel-basis",
        "Kernel functions of some training rows, weighted in closed form: for rows of few features, not for ids.",
        "fmcli.models.kernel_basis:KernelBasis",
        ("rank", "basis", "kernel", "coef0", "order"),
        {"rank": 100, "epochs": 1},
        solver=CLOSED_FORM,
        closed_form=True,
        refuses={
            **dict.fromkeys(_TO_ZERO, "its closed form has --l2 alone"),
            **dict.fromkeys(
                ("epochs", "batch_size", "shuffle", "init_std"), "it is solved in closed form, not step by step"
            ),
        },
    ),
)

# What solvers of the whole objective have in common.
_PER_ROW = {
    "l2_w": per_row(1),
    "l2_v": per_row(10),
}
_NOT_BY_ROWS = dict.fromkeys(("batch_size", "shuffle"), "it takes no single rows")
_RATES = ("learning_rate", "learning_rate_w", "learning_rate_v")
_SCHEDULE = (*_RATES, "schedule", "power", "t0")

SOLVERS = _table(
    Piece("sgd", "Stochastic gradient descent.", "fmcli.solvers.stochastic.sgd:SGD", _SCHEDULE),
    Piece("adagrad", "AdaGrad.", "fmcli.solvers.stochastic.adagrad:AdaGrad", _RATES, {"learning_rate": 0.05}),
    Piece(
        "ftrl",
        "FTRL-Proximal. Its penalties weigh against the sum of the losses, those of other solvers against the mean.",
        "fmcli.solvers.stochastic.ftrl:FTRL",
        ("alpha", "alpha_w", "alpha_v", "beta", "ftrl_power"),
        {"alpha_v": 0.05, "l2": 1.0, "l1_from_epoch": 2},
        sums_losses=True,
        visits=True,
    ),
    Piece(
        "fobos",
        "Forward-backward splitting: the penalty acts on all features in every update.",
        "fmcli.solvers.stochastic.fobos:FOBOS",
        (*_SCHEDULE, "adaptive", "prox"),
    ),
    Piece(
        "cd",
        "Coordinate descent, as in ALS: no learning rate, and the objective never rises.",
        "fmcli.solvers.coordinate.trainer:CoordinateDescent",
        ("tol", "nuclear"),
        {"epochs": 50, **_PER_ROW},
        by_rows=False,
        refuses=_NOT_BY_ROWS,
    ),
    Piece(
        "lbfgs",
        "L-BFGS on the whole objective, by scipy.",
        "fmcli.solvers.full_batch.lbfgs:LBFGS",
        ("tol",),
        {"epochs": 200, **_PER_ROW},
        by_rows=False,
        refuses={
            **_NOT_BY_ROWS,
            **dict.fromkeys(_TO_ZERO, "its penalty must be smooth, as --l2 is; -s cd has it"),
        },
    ),
)

LOSSES = _table(
    Piece("squared", "Half the squared error.", "fmcli.losses.loss:Squared", task="real"),
    Piece("logistic", "Log loss, for labels of two values.", "fmcli.losses.loss:Logistic", task="binary"),
    Piece("squared-hinge", "Squared hinge, for labels of two values.", "fmcli.losses.loss:SquaredHinge", task="binary"),
    Piece("hinge", "Hinge, for labels of two values.", "fmcli.losses.loss:Hinge", task="binary", smooth=False),
    Piece(
        "huber",
        "Squared near 0, then linear: for labels with outliers.",
        "fmcli.losses.loss:Huber",
        ("huber_delta",),
        task="real",
    ),
    Piece(
        "poisson",
        "For counts; the prediction is the exponential of the score.",
        "fmcli.losses.loss:Poisson",
        task="counts",
    ),
    Piece(
        "softmax",
        "Log loss of classes, for labels of any number of values.",
        "fmcli.losses.loss:Softmax",
        task="classes",
    ),
)
