"""The options of models, solvers, losses and runs: names, defaults, help and ranges."""

from __future__ import annotations

from typing import Any

from fmcli.records import dataclass
from fmcli.registry.derived import Derived, Facts, by_longest_row, passes

# The largest integer that the core can store.
LARGEST = (1 << 63) - 1
# The most bits of a hash that can number a column: columns are int32.
MOST_HASH_BITS = 30
# The largest number of models in an ensemble.
MOST_MEMBERS = 1000
# Megabytes of memory for the rows of a cache by default.
USUAL_MEMORY, MEGABYTE = 1000, 1_000_000


@dataclass(frozen=True)
class Option:
    """A choice of a run: an option of the command line, and a keyword argument in Python of the same name.

    kind : int, float, bool, str, or a ValueKind of fmcli.registry.kinds.
    default : None: the help explains the default; Derived: computed from the training data.
    help : the text for both front ends; other choices stand in it as {name}.
    group : the section of the help.
    flags : a short flag, or a long flag that is not derived from the name.
    low, high, open_low : the range of a number, and whether `low` itself is excluded.
    choices : all values of a text.
    by_degree : whether the value may be a list with one value per degree; see ModelEntry.by_degree.
    metavar : the placeholder of the value in the command's help; "": by the kind.
    absent : why functions of Python lack the option; "": they have it.
    alias : another name that is accepted but not listed; "": there is none.
    of_rows : whether estimators lack the option, because `fit` gets rows and labels.
    compared : whether runs with different values can be compared on the same rows: the option changes neither the rows
        nor how runs are judged.
    """

    name: str
    kind: Any
    default: Any
    help: str
    group: str
    flags: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    choices: tuple[str, ...] = ()
    by_degree: bool = False
    metavar: str = ""
    absent: str = ""
    alias: str = ""
    of_rows: bool = False
    compared: bool = False

    @property
    def flag(self) -> str:
        """The long flag; for a switch that can only be turned off, --no-NAME."""
        own = max(self.flags, key=len, default="")
        return own if own.startswith("--") else ("--no-" if self.negative else "--") + self.name.replace("_", "-")

    @property
    def negative(self) -> bool:
        """Whether the option has only the flag --no-NAME."""
        return self.kind is bool and self.default is True and self.name in NEGATIVE_ONLY

    def range(self, *, exact: bool = True) -> str:
        """Return the permitted values in words: "> 0", ">= 1", "0 to 1", "a, b or c"; empty if there is no restriction.

        exact : whether to name an upper limit that is only the largest number that the core can store.
        """
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        if self.low is None:
            return ""
        if self.high is None or (self.high == LARGEST and not exact):
            return f"{'>' if self.open_low else '>='} {self.low}"
        return f"{self.low} to {self.high}"

    def permits(self, value: Any) -> bool:
        """Return whether a value is one of the choices, a finite number in range, or a list of permitted values."""
        if self.choices:
            return value in self.choices
        if self.by_degree and isinstance(value, list):
            return all(map(self.permits, value))
        if value != value or value in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value <= self.high


# Switches that are on by default and have only the flag --no-NAME.
NEGATIVE_ONLY = ("bias", "linear")

# Options of stochastic solvers.
_EPOCHS = passes(10, least=30, updates=1)
# The step size of solvers without adaptive steps. The number 200 was chosen on cadata and cpusmall with standardized
# columns, where outliers have about 100 times the squared norm of most rows. Norms below 11.9 do not change the step.
_STEP = by_longest_row(0.01, 200)

# Chosen on held-out rows of MovieLens; there, a burn-in of 100 sweeps predicts worse: the first draws add variety.
_BURN_IN = Derived("min(20, epochs/2)", lambda facts: min(20, facts.values["epochs"] // 2))
# On held-out rows of MovieLens, 200 draws gain .0005 of RMSE over 100 draws, and 280 draws another .0001. With many
# features they would take gigabytes: all draws together take at most MOST_DRAWN bytes, or the bytes of _LEAST_WHOLE
# models.
MOST_DRAWN, _MOST_DRAWS, _LEAST_WHOLE = 64_000_000, 200, 4


def _draws(facts: Facts) -> int:
    """Return the number of draws to keep. The last draw is the model itself; the others may take fewer bytes."""
    each = max(facts.kept, 1)
    others = max((MOST_DRAWN - facts.drawn) // each, round((_LEAST_WHOLE - 1) * facts.drawn / each))
    return min(_MOST_DRAWS, 1 + others)


_DRAWS = Derived(f"{_MOST_DRAWS}, or as many as fit into 64 MB or the size of {_LEAST_WHOLE} models", _draws)

_OPTIONS = (
    Option(
        "rank",
        int,
        8,
        "Rank: the number of factors, or of landmarks; 8/4/2: one per degree, if each degree has its own factors.",
        "model",
        ("-k",),
        low=1,
        high=1 << 16,
        by_degree=True,
    ),
    Option("order", int, 2, "Interaction order (the highest one, if a model has several).", "model", low=2, high=64),
    Option("bias", bool, True, "Leave out the bias.", "model"),
    Option("linear", bool, True, "Leave out the linear weights.", "model"),
    Option(
        "augment",
        bool,
        False,
        "Add constant features to the kernel for lower degrees: one to a polynomial kernel, order - 1 to others.",
        "model",
    ),
    Option(
        "fit_beta",
        bool,
        None,
        "Fit the weights beta of the factors, or keep their initial values; fitted if the order is even, unless all "
        "pairs count ({implicit}).",
        "model",
    ),
    Option(
        "beta_start",
        str,
        None,
        "Initial beta: 1, -1, 1, ... (default if the order is even), ones (if odd), or standard normal numbers.",
        "model",
        choices=("alternate", "ones", "random"),
    ),
    Option(
        "pair_bits",
        int,
        22,
        "One weight for each pair of features; if there are more than 2^N pairs, they share 2^N weights by hashing.",
        "model",
        low=1,
        high=30,
    ),
    Option("split_index", int, None, "First index of the second group, instead of fields 0 and 1.", "model", low=0),
    Option("anchors", int, 3, "Number of anchors; each has its own FM.", "model", low=1, high=1 << 16),
    Option(
        "neighbours",
        int,
        5,
        "Number of nearest anchors that are active for a row, in the variants do and apl.",
        "model",
        low=1,
    ),
    Option("coding_c", float, 1.0, "Anchor weights are proportional to exp(-C * squared distance).", "model", low=0),
    Option(
        "lc",
        float,
        0.4,
        "Sparsity of the adaptive coding of the variant jo, L/C: a larger value activates fewer anchors.",
        "model",
        low=0,
    ),
    Option(
        "llfm_variant",
        str,
        "jo",
        "Anchors: do: fixed, from k-means; apl: learned; jo: learned, with adaptive coding.",
        "model",
        choices=("do", "apl", "jo"),
    ),
    Option("anchor_rate", float, None, "Step size of anchors.", "model", low=0),
    Option(
        "basis",
        str,
        "nystrom",
        "Penalty: random: of the weights of the landmarks; nystrom: of the RKHS norm.",
        "model",
        choices=("random", "nystrom"),
    ),
    Option(
        "kernel",
        str,
        "poly",
        "Kernel: poly: (coef0 + <p, x>)^order; anova: products of distinct features.",
        "model",
        choices=("poly", "anova"),
    ),
    Option("coef0", float, 1.0, "Constant term of the kernel poly.", "model", low=0),
    Option(
        "init_std",
        float,
        0.01,
        "Standard deviation of the initial factors; 0.01/0.1: one per degree, if each degree has its own factors.",
        "model",
        low=0,
        by_degree=True,
    ),
    Option(
        "l1",
        float,
        0.0,
        "Strength of the L1 penalty, relative to the mean loss (by some solvers, to the sum of the losses).",
        "penalty",
        low=0,
    ),
    Option("l1_w", float, None, "Strength of the L1 penalty of linear weights.", "penalty", low=0),
    Option("l1_v", float, None, "Strength of the L1 penalty of factors.", "penalty", low=0),
    Option(
        "l2",
        float,
        1e-5,
        "Strength of the L2 penalty, relative to the mean loss (by some solvers, to the sum of the losses).",
        "penalty",
        low=0,
    ),
    Option("l2_w", float, None, "Strength of the L2 penalty of linear weights.", "penalty", low=0),
    Option("l2_v", float, None, "Strength of the L2 penalty of factors.", "penalty", low=0),
    Option(
        "group_l1",
        float,
        0.0,
        "Strength of the group penalty on all parameters of a feature, relative to the mean loss (by some solvers, to "
        "the sum).",
        "penalty",
        low=0,
    ),
    Option(
        "nuclear",
        float,
        0.0,
        "Strength of the nuclear norm penalty; it replaces the L2 penalty of factors and their weights beta.",
        "penalty",
        low=0,
    ),
    Option("huber_delta", float, 1.0, "Error above which the Huber loss is linear.", "penalty", low=0, open_low=True),
    Option("learning_rate", float, _STEP, "Step size.", "solver", ("-r",), low=0, open_low=True),
    Option("learning_rate_w", float, None, "Learning rate of linear weights.", "solver", low=0, open_low=True),
    Option("learning_rate_v", float, None, "Learning rate of factors.", "solver", low=0, open_low=True),
    Option(
        "schedule",
        str,
        "constant",
        "Learning rate of update t: constant, divided by t^power (invscaling), or by t + t0 (inverse).",
        "solver",
        choices=("constant", "invscaling", "inverse"),
    ),
    Option("power", float, 0.5, "Exponent of the schedule invscaling.", "solver", low=0),
    Option("t0", float, 1.0, "Offset t0 of the schedule inverse.", "solver", low=0),
    Option("adaptive", bool, False, "Use AdaGrad's learning rate for each parameter.", "solver"),
    Option(
        "prox",
        str,
        "lazy",
        "Penalty steps of features that are not in a row: lazy: deferred, in closed form; exact: step by step (slow).",
        "solver",
        choices=("lazy", "exact"),
    ),
    Option("alpha", float, 0.1, "Step size of FTRL.", "solver", low=0, open_low=True),
    Option("alpha_w", float, None, "Learning rate alpha of linear weights.", "solver", low=0, open_low=True),
    Option("alpha_v", float, None, "Learning rate alpha of factors.", "solver", low=0, open_low=True),
    Option(
        "beta", float, 1.0, "FTRL's beta: a larger value makes the first steps smaller.", "solver", low=0, open_low=True
    ),
    Option("ftrl_power", float, 0.5, "Exponent of FTRL's step schedule.", "solver", low=0, high=1),
    Option(
        "l1_from_epoch",
        int,
        1,
        "First epoch in which the L1 and group penalties act on factors, so these can grow before; only later "
        "epochs can be chosen as best.",
        "penalty",
        low=1,
        high=LARGEST,
    ),
    Option(
        "tol",
        float,
        1e-5,
        "Stop when the relative decrease of the objective in an epoch is at most X.",
        "solver",
        low=0,
    ),
    Option(
        "init_strength",
        float,
        Derived("1 in an update with other rows, else 0", lambda facts: float(facts.holds)),
        "With {init_model}: how much the rows count that the earlier model was trained on, which hold its parameters "
        "near where they were: 0 fits the new rows alone, 1 counts all rows alike, more keeps closer to the earlier "
        "model.",
        "solver",
        low=0,
    ),
    Option("epochs", int, _EPOCHS, "Passes over the data; 0 writes the initial model.", "solver", ("-e",), low=0),
    Option(
        "burn_in",
        int,
        _BURN_IN,
        "Sweeps before the first one whose parameters are kept.",
        "solver",
        low=0,
    ),
    Option(
        "draws",
        int,
        _DRAWS,
        "Number of draws of all parameters in the model, from sweeps at equal distances after the burn-in; predictions "
        "are averages over them.",
        "solver",
        low=1,
        high=1 << 16,
    ),
    Option(
        "gap_mean",
        float,
        0.0,
        "Prior mean of the logarithm of the distance between neighboring cutpoints, for loss ordinal.",
        "solver",
    ),
    Option(
        "gap_std",
        float,
        1.0,
        "Its prior standard deviation.",
        "solver",
        low=0,
        open_low=True,
    ),
    Option(
        "noise_shape",
        float,
        0.5,
        "Shape of the Gamma prior of the noise's precision, for loss squared.",
        "solver",
        low=0,
        open_low=True,
    ),
    Option(
        "noise_rate",
        float,
        0.5,
        "Rate of the Gamma prior of the precision of the noise.",
        "solver",
        low=0,
        open_low=True,
    ),
    # Chosen on held-out rows of 16 data sets: with 0.5, the priors of groups with few features have heavy tails.
    Option(
        "prior_shape",
        float,
        5.0,
        "Shape of the Gamma prior of the precisions of parameters: each factor of each array has one.",
        "solver",
        low=0,
        open_low=True,
    ),
    Option(
        "prior_rate",
        float,
        0.5,
        "Rate of the Gamma prior of the precisions of parameters.",
        "solver",
        low=0,
        open_low=True,
    ),
    Option(
        "prior_rate_w",
        float,
        None,
        "Rate of the Gamma prior of the precisions of linear weights.",
        "solver",
        low=0,
        open_low=True,
    ),
    Option(
        "mean_strength",
        float,
        1.0,
        "Precision of the prior mean of parameters, relative to the precision of the parameters.",
        "solver",
        low=0,
        open_low=True,
    ),
    Option(
        "pool_priors",
        bool,
        False,
        "Let all features share a prior, instead of a prior for each field.",
        "solver",
    ),
    Option("bias_precision", float, 0.0, "Precision of the prior of the bias; 0: flat.", "solver", low=0),
    Option(
        "batch_size",
        int,
        1,
        "Number of rows whose gradients are averaged for one update.",
        "solver",
        low=1,
        high=1 << 24,
    ),
    Option(
        "round_size",
        int,
        1,
        "Number of rows in a round, which threads share without any effect on the result, for solvers with a learning "
        "rate for each parameter; 1 means a step for each row.",
        "solver",
        low=1,
        high=1 << 16,
    ),
    Option(
        "clip",
        bool,
        None,
        "Clip predictions to the range of the training labels, for loss squared, or allow any number. [default: "
        "{clip}; with {init_model}, as that model]",
        "data",
    ),
    Option(
        "scale_labels",
        bool,
        None,
        "Train on labels that are numbers minus their mean, divided by their standard deviation, so options and "
        "models do not depend on the unit of the labels; predictions are in that unit. [default: {scale_labels}; with "
        "{init_model}, as that model]",
        "data",
    ),
    Option(
        "scale",
        str,
        "none",
        "Divide each column by its standard deviation (an indicator by its value) or by its largest absolute value in "
        "the training rows; the model keeps the divisors. Zeros stay zeros; use max-abs if columns are sparse. zscore "
        "is standard, and subtracts the mean from columns of numbers that at least half of the rows have. Of tables "
        "with columns of numbers, the default is zscore, or standard for models with fields.",
        "data",
        choices=("none", "standard", "max-abs", "zscore"),
    ),
    Option("norm", bool, False, "Scale each row to unit length, after {scale}.", "data"),
    Option("shuffle", bool, True, "Use the rows in a new random order in each epoch, or in file order.", "solver"),
    Option("seed", int, 0, "Seed of the random numbers.", "solver", low=0, high=LARGEST),
)
OPTIONS = {option.name: option for option in _OPTIONS}

# The strengths of group penalties, in the order of the list in cython_src/fmcli/penalties/group_penalties.h.
GROUP_PENALTIES = ("group_l1",)
# Options that every model, solver and loss takes; and the part of them that means the same to all solvers.
COMMON = (
    *("init_std", "l1", "l1_w", "l1_v", "l2", "l2_w", "l2_v", *GROUP_PENALTIES, "l1_from_epoch"),
    *("epochs", "batch_size", "round_size", "clip", "scale_labels", "scale", "norm", "shuffle", "seed"),
)
SAME_TO_ALL = ("clip", "scale_labels", "scale", "norm", "seed")
# Options that solvers with smooth penalties only do not support.
NOT_SMOOTH = ("l1", "l1_w", "l1_v", *GROUP_PENALTIES, "l1_from_epoch")
