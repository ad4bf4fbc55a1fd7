"""The solvers. Each is a SolverEntry in SOLVERS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from fmcli.errors import called
from fmcli.records import dataclass
from fmcli.registry.derived import START_OF_SAMPLES, passes, per_row
from fmcli.registry.entry import Entry, Trial
from fmcli.registry.losses import ORDINAL, PROBIT
from fmcli.registry.options import GROUP_PENALTIES, NOT_SMOOTH
from fmcli.registry.ranges import by

DEFAULT_SOLVER = "adagrad"
# The solver that learns from observed pairs, beside which all pairs count.
ALL_PAIRS_SOLVER = "cd"
# The solver name of models solved in closed form.
CLOSED_FORM = "closed-form"
# The option by which all features share a prior.
POOLED = "pool_priors"
# The ways in which solvers train on a cluster.
ROUNDS, GRADIENTS = "rounds", "gradients"
# The trainer of all stochastic solvers.
ROW_TRAINER = "fmcli.solvers.stochastic.trainer:StochasticTrainer"


@dataclass(frozen=True, kw_only=True)
class SolverEntry(Entry):
    """A solver.

    The class is a fmcli.solvers.stochastic.solver.Solver if the solver is stochastic, else a Trainer.

    by_rows : whether it is stochastic: it updates the parameters after each row or batch, with a step size.
    sums_losses : whether penalties are relative to the sum of the losses rather than their mean.
    penalizes_at_once : whether penalties that begin in an epoch (--l1-from-epoch) are applied to all parameter rows at
        the end of the previous epoch.
    rounds : whether it can train in rounds; for fobos, only with adaptive learning rates.
    in_memory : whether it needs all rows in memory.
    losses : the only losses that it supports; empty: all losses, or all differentiable ones if it is not stochastic.
    is_sampler : whether it draws parameters from their posterior distribution; predictions are then averages.
    joins : whether it trains on rows with relations.
    learns_new : whether it can learn new features alone, for models of solvers that do not draw them.
    sums_squares : whether its state is one number per parameter: the sum of the squared gradients.
    patience : by default, training on many rows stops after this many epochs without a better one.
    cost : the time of an epoch relative to adagrad, measured on four sets.
    cluster : how it trains on a cluster: by ROUNDS, or by GRADIENTS over all rows; "": it does not.
    alone : why it does not train on a cluster, unless because it makes a step after each row.
    rivals : the solvers with which the quick search compares it, and the number of standard errors of the difference by
        which each must be better.
    """

    by_rows: bool = True
    sums_losses: bool = False
    penalizes_at_once: bool = False
    rounds: bool = False
    in_memory: bool = False
    losses: tuple[str, ...] = ()
    is_sampler: bool = False
    joins: bool = False
    learns_new: bool = False
    sums_squares: bool = False
    patience: int = 3
    cost: float = 1.0
    cluster: str = ""
    alone: str = ""
    rivals: Mapping[str, float] = field(default_factory=dict)

    def waits(self, rows: int, *, dense: bool) -> int:
        """Return the number of epochs without a better one after which training on `rows` rows stops by default.

        dense : whether rows have most features.
        """
        return max(self.patience, _PLATEAU) if rows <= (FEW_DENSE_ROWS if dense else FEW_ROWS) else self.patience

    @property
    def stops_early(self) -> bool:
        """Whether validation data choose one of the epochs."""
        return not self.is_sampler and self.name != CLOSED_FORM


# Default penalties of the solvers that minimize the whole objective.
_PER_ROW = {
    "l2_w": per_row(1),
    "l2_v": per_row(10),
}
# The patience of solvers that may stay on a plateau for some epochs, and of all solvers on few rows: metrics of few
# held-out rows jump from epoch to epoch, and epochs take little time. Where rows have most features, a model overfits
# late, and may need hundreds of epochs. Chosen on held-out rows of ten data sets.
_PLATEAU = 10
FEW_ROWS, FEW_DENSE_ROWS = 5_000, 50_000
# With this penalty, factors stay so small that a model with linear weights is linear: if interactions fit only noise,
# nothing else helps. The linear model is simpler, so it need not be clearly better.
_WITHOUT_INTERACTIONS = {"l2_v": Trial(((10.0,),), absolute=True, errors=(0,), early=True)}
# Linear weights may need larger steps than factors, which overfit within a few epochs. Both are then compared with
# even larger steps of the factors.
_FASTER_WEIGHTS = {"learning_rate_w": Trial(((10,),), early=True)}
_LARGER_STEPS = {"learning_rate": Trial(((4, 16),), early=True)}
_STRONGER = {"l2": Trial(((10, 100),))}
# The rank is chosen with the steps and the penalty that were chosen for the default rank.
_MORE_FACTORS = {"rank": Trial(((2,),))}
# A large shape keeps the factors of rare features small, which else fit noise: the RMSE of planted counts and of their
# logarithms falls by 2 to 5 %, but ratings need the usual one. From a large start, a chain may first fit noise; from a
# small one, it may stay near a linear model for many sweeps. Small fields have too few features for priors of their
# own. One prior is simpler, so it need not be clearly better: the logloss of five splits of adult3000 falls by .8 %.
_OF_SAMPLES = {
    POOLED: Trial(((True,),), absolute=True, errors=(0,)),
    "prior_shape": Trial(((10,),)),
    "init_std": Trial(((1 / 8,), (2,))),
    "rank": Trial(((2,),)),
}
_PENALTIES = ("l1", "l1_w", "l1_v", "l2", "l2_w", "l2_v", *GROUP_PENALTIES, "l1_from_epoch")
_NOT_BY_ROWS = dict.fromkeys(("batch_size", "round_size", "shuffle"), "it applies only to stochastic solvers")
# Parameters of the distributions from which the noise and the priors of parameters are drawn.
HYPERPRIORS = (
    "noise_shape",
    "noise_rate",
    "prior_shape",
    "prior_rate",
    "prior_rate_w",
    "mean_strength",
    "bias_precision",
)
_RATES = ("learning_rate", "learning_rate_w", "learning_rate_v")
_SCHEDULE = (*_RATES, "schedule", "power", "t0")

# Ranges of a search, relative to the defaults; defaults are more often too weak than too strong.
_TUNED_STEPS = {"learning_rate_w": by(5), "learning_rate_v": by(5)}
_TUNED_PENALTIES = {"l2_w": by(10, 100), "l2_v": by(10, 1000)}
_TUNED_PER_ROW = {"l2_w": by(30), "l2_v": by(10, 100)}

_SOLVERS = (
    SolverEntry(
        "sgd",
        "Stochastic gradient descent.",
        "fmcli.solvers.stochastic.sgd:SGD",
        _SCHEDULE,
        tries=_LARGER_STEPS | _WITHOUT_INTERACTIONS | _MORE_FACTORS,
        tunes=_TUNED_STEPS | _TUNED_PENALTIES,
    ),
    SolverEntry(
        "adagrad",
        "AdaGrad.",
        "fmcli.solvers.stochastic.adagrad:AdaGrad",
        _RATES,
        {"learning_rate": 0.05},
        tries=_FASTER_WEIGHTS | _LARGER_STEPS | _WITHOUT_INTERACTIONS | _MORE_FACTORS | _STRONGER,
        rivals={"sgd": 0.0, "cd": 0.0},
        tunes=_TUNED_STEPS | _TUNED_PENALTIES,
        rounds=True,
        sums_squares=True,
        cluster=ROUNDS,
    ),
    SolverEntry(
        "ftrl",
        "FTRL-Proximal. Its penalties are relative to the sum of the losses; other solvers' penalties to the mean.",
        "fmcli.solvers.stochastic.ftrl:FTRL",
        ("alpha", "alpha_w", "alpha_v", "beta", "ftrl_power"),
        {"alpha_v": 0.05, "l2": 1.0, "l1_from_epoch": 2},
        tries={"l2_v": Trial(((10, 100),))} | _MORE_FACTORS,
        tunes={"alpha_w": by(5), "alpha_v": by(5), **_TUNED_PER_ROW},
        cost=1.3,
        sums_losses=True,
        penalizes_at_once=True,
        rounds=True,
        cluster=ROUNDS,
    ),
    SolverEntry(
        "fobos",
        "Forward-backward splitting (proximal gradient): each update applies the penalty to all features.",
        "fmcli.solvers.stochastic.fobos:FOBOS",
        (*_SCHEDULE, "adaptive", "prox"),
        tries=_WITHOUT_INTERACTIONS | _MORE_FACTORS | _FASTER_WEIGHTS,
        tunes=_TUNED_STEPS | _TUNED_PENALTIES,
        cost=2.3,
        rounds=True,
    ),
    SolverEntry(
        "cd",
        "Coordinate descent (as ALS): no learning rate, and the objective never increases.",
        "fmcli.solvers.coordinate.trainer:CoordinateTrainer",
        ("tol", "nuclear", "init_strength"),
        {"epochs": passes(50, least=50, updates=1, held=True), **_PER_ROW},
        # Rare features need a stronger penalty than features that every row has. One strength of linear weights suits
        # no two sets: a tenth cuts the logloss of short texts by a third, three times it the RMSE of log-counts by 2 %.
        tries={
            "l2_v": Trial(((3, 9, 27), (1 / 3, 1 / 9)), errors=(0, 1), early=True),
            "l2_w": Trial(((3,), (1 / 3, 1 / 10)), early=True),
        }
        | _MORE_FACTORS,
        rivals={"adagrad": 1.0},
        tunes=_TUNED_PER_ROW,
        patience=_PLATEAU,
        cost=2.0,
        by_rows=False,
        in_memory=True,
        joins=True,
        learns_new=True,
        alone="updates the columns one by one; each needs the result of the one before",
        refuses=_NOT_BY_ROWS,
    ),
    SolverEntry(
        "lbfgs",
        "L-BFGS: uses full-batch gradients.",
        "fmcli.solvers.full_batch.lbfgs:LBFGSTrainer",
        ("tol", "init_strength"),
        {"epochs": passes(200, least=200), **_PER_ROW},
        tunes=_TUNED_PER_ROW,
        patience=_PLATEAU,
        cost=2.0,
        by_rows=False,
        cluster=GRADIENTS,
        refuses={
            **_NOT_BY_ROWS,
            **dict.fromkeys(
                NOT_SMOOTH,
                f"lbfgs supports only smooth penalties, such as {called('l2')}; use {called('solver')} cd",
            ),
        },
    ),
    SolverEntry(
        "mcmc",
        "Gibbs sampling: draws from the posterior distribution, whose predictions are averaged; nothing to tune.",
        "fmcli.solvers.gibbs.trainer:GibbsTrainer",
        ("burn_in", "draws", *HYPERPRIORS, POOLED),
        {"epochs": 300, "l2": 0.0, "init_std": START_OF_SAMPLES},
        tries=_OF_SAMPLES,
        cost=2.0,
        by_rows=False,
        in_memory=True,
        losses=("squared", PROBIT, ORDINAL),
        is_sampler=True,
        joins=True,
        alone="draws the parameters one by one; each depends on the one before",
        refuses={
            **_NOT_BY_ROWS,
            **dict.fromkeys(_PENALTIES, "mcmc draws the strength of the penalty, by the prior of the parameters"),
        },
    ),
)
SOLVERS = {solver.name: solver for solver in _SOLVERS}
SAMPLERS = tuple(solver.name for solver in _SOLVERS if solver.is_sampler)

# Not in SOLVERS, because users cannot choose it: it belongs to a model.
_CLOSED_FORM = SolverEntry(
    CLOSED_FORM,
    "The solution in closed form.",
    "fmcli.solvers.closed_form:ClosedFormTrainer",
    by_rows=False,
    in_memory=True,
)


def solver_entry(name: str) -> SolverEntry:
    """Return the entry of a solver, including the closed form."""
    return _CLOSED_FORM if name == CLOSED_FORM else SOLVERS[name]
