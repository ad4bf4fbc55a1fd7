"""The models. Each is a ModelEntry in MODELS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from fmcli.errors import called
from fmcli.records import dataclass
from fmcli.registry.derived import (
    START_OF_SAMPLES,
    START_OF_SHARED_SAMPLES,
    Derived,
    by_degree,
    by_features,
    by_longest_row,
    by_loss,
    by_occurrence,
    by_order,
    if_small,
    passes,
    per_row,
    per_row_and_more,
)
from fmcli.registry.entry import Entry, Trial
from fmcli.registry.options import NOT_SMOOTH
from fmcli.registry.ranges import by, of
from fmcli.registry.solvers import CLOSED_FORM, DEFAULT_SOLVER

DEFAULT_MODEL = "fm"


@dataclass(frozen=True, kw_only=True)
class ModelEntry(Entry):
    """A model.

    solver : the default solver.
    dense_solver : the default solver for few rows that have most features, if it differs.
    with_solver : solver -> defaults of options with this solver.
    limits : option -> its largest value, if it is below the limit in OPTIONS.
    positive : penalties that must be positive, because they define the model.
    unpenalized : the equivalent model if these penalties are 0; "": none.
    by_degree : options that may be lists, with a value for each of the degrees 2 to `order`.
    context : further keywords of the class, which depend on the data or on other options; see build_model in build.py.
    by_fields : whether it uses the fields of entries.
    compact : whether only features that occur have parameters, because each feature has many.
    keeps_columns : whether the places of pair parameters depend on columns, so features must keep their columns.
    apart : whether the score of a row and its derivatives depend only on the parameters of the row's features, and on
        parameters that belong to no feature.
    drawn : whether its parameters can be drawn from their posterior distribution: scores are affine in the parameters
        of a row that are drawn together.
    drawn_like : if not, a similar model that can be drawn; "": none.
    closed_form : whether it is solved in closed form, without a solver.
    joins : whether training rows may have relations: the class has `joined`. A kind with `unpenalized` leaves relations
        to that kind, also for `pairs`.
    pairs : whether observed pairs can train it: the class has `sides`, without fitted beta.
    cost : the time of an epoch per nonzero and rank, relative to fm, measured on four sets.
    cost_with : solver -> a factor by which it takes longer than the costs of kind and solver say.
    compared_with : the solvers with which --auto compares it with other kinds.
    """

    solver: str = DEFAULT_SOLVER
    dense_solver: str = ""
    with_solver: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    positive: tuple[str, ...] = ()
    unpenalized: str = ""
    by_degree: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    by_fields: bool = False
    compact: bool = False
    keeps_columns: bool = False
    apart: bool = True
    drawn: bool = True
    drawn_like: str = ""
    closed_form: bool = False
    joins: bool = False
    pairs: bool = False
    cost: float = 1.0
    cost_with: Mapping[str, float] = field(default_factory=dict)
    compared_with: tuple[str, ...] = ()

    @property
    def rounds(self) -> bool:
        """Whether it can train in rounds: each of its parameter rows belongs to one feature, or affects every score."""
        return self.apart and not self.by_fields

    def needs_fields(self, values: Mapping[str, Any]) -> bool:
        """Return whether training rows need fields, given these options."""
        return self.by_fields and values.get("split_index") is None

    def depends_on_columns(self, values: Mapping[str, Any]) -> bool:
        """Return whether a feature must keep its column, given these options."""
        return self.keeps_columns or values.get("split_index") is not None


_FM = ("rank", "bias", "linear")
_BETA = ("fit_beta", "beta_start")
# Standard deviations of the initial factors by kind, chosen on held-out rows of training data. They must not be too
# small: the gradient of a product of several factors near 0 is near 0.
_START = {
    name: {"init_std": std}
    for name, std in {
        "anova": by_order(0.01, 0.03, 0.1),
        "sha2": 0.01,
        "hofm": by_degree(0.01, 0.1),
        "hofm-shared": by_order(0.03, 0.1),
        "hofm-simplex": by_order(0.1, 0.2),
        "all-subsets": 0.1,
        "pn": by_order(0.1, 0.01),
        "lifted-anova": by_order(0.1, 0.2, 0.3),
        "lifted-pn": 0.03,
    }.items()
}
# An L1 strength that makes factors sparse without a loss on held-out rows of ten data sets. In FTRL it is relative to
# the sum of the losses, so it must be smaller with few rows or small derivatives.
_SPARSE = {
    "ftrl": {
        "l1": if_small("min(1, rows/1000)", lambda facts: min(1.0, facts.rows / 1000), 1),
        "alpha_v": if_small("0.05", lambda _: 0.05, -1),
    }
}
# The linear functions of pn start near 1, not near 0 as in an FM, so its derivatives are larger.
_PN_STEP = by_longest_row(0.01, 5)
# With samplers, these take precedence over a kind's own defaults.
_SAMPLED = {"mcmc": {"init_std": START_OF_SAMPLES}}
# Chosen on held-out rows; a stronger penalty sets the factors of rare features to zero.
_LIFTED_PN_L2_V = by_occurrence(20, most=0.1)
# Each entry of a row moves all factors of pn, and so the score by many times the step size: the first epoch already
# fits the rows of rare features. Chosen on held-out rows of nine sets.
_PN_L2_V = by_occurrence(1, most=0.1)
# With linear weights, constants in products of two linear functions add only a second set of linear effects, which is
# fitted with far larger steps.
_LIFTED_PN_AUGMENT = Derived(
    "no-augment (order 2 with linear weights) / augment",
    lambda facts: facts.values["order"] > 2 or not facts.values["linear"],
)
# The default solver of models without linear weights is coordinate descent. In these models, the linear effect of a
# feature depends on all of its factors. A stochastic step changes all of them at once, so the last rows of an epoch
# influence every prediction; coordinate descent has no such noise. Because the effect is spread over the factors, their
# penalty shrinks it less than it shrinks interactions.
_BY_COLUMNS = "cd"
# Coordinate descent updates the kernel weights before the factors; if the factors are near 0, both stay there.
_FARTHER = {_BY_COLUMNS: {"init_std": 0.1}}
# Defaults of models with sparsity penalties. The initial factors are near 0, a saddle point; with an L1 penalty from
# the first epoch they would never leave it, so the penalty begins later.
_SGL = {"l2": 0.0, "l1_from_epoch": 6}
# On small sparse data, factors overfit before this epoch.
_SGL_TRIES = {"l1_from_epoch": Trial(((1 / 3,),), early=True)}
# The group penalty removes the weights of features in few rows, where a linear model is better.
_WEAKER_GROUPS = {"group_l1": Trial(((1 / 10,),), errors=(0,), early=True)}
_SGL_WITH = {"fobos": {"adaptive": True, "learning_rate": 0.05, "epochs": passes(12, least=30, updates=1)}}

# On held-out rows of 13 sets with few features, 300 landmarks beat 100 on five sets and are equal on the others: by 11
# % of the RMSE of digits, and by .002 to .02 of the AUC of adult, ijcnn1 and MovieLens.
_LANDMARKS = by_features(few=300, many=100, most=1000)
# Without linear weights, linear effects are spread over the factors; many factors fit noise where features are rare.
_FEWER_FACTORS = {"rank": Trial(((1 / 2, 1 / 4),), errors=(0,), early=True)}

# With one anchor, llfm is fm: where rows are few or have no local structure, several FMs fit noise.
_ONE_ANCHOR = {"anchors": Trial(((1,),), absolute=True, errors=(0,), early=True)}

# Ranges of a search, relative to the defaults where these depend on the kind or the data.
_TUNED = {"rank": of(2, 4, 8, 16, 32), "init_std": by(3, 10)}
_TUNED_L1, _TUNED_GROUP = {"l1": by(30, 10)}, {"group_l1": by(30, 10)}

_MODELS = (
    ModelEntry(
        "linear",
        "Linear model: one weight per feature.",
        "fmcli.models.second_order.linear:Linear",
        ("bias",),
        joins=True,
        pairs=True,
        cost=5.0,
    ),
    ModelEntry(
        "poly2",
        "One weight for each pair of features.",
        "fmcli.models.second_order.poly2:Poly2",
        ("bias", "linear", "pair_bits"),
        {"norm": True},
        with_solver={"adagrad": {"learning_rate": 0.2}, "cd": {"init_strength": 0.0}, "lbfgs": {"init_strength": 0.0}},
        refuses={
            "init_strength": f"models know how often features occurred, not their pairs; update with "
            f"{called('solver')} adagrad"
        },
        keeps_columns=True,
        apart=False,
        cost=15.0,
        compared_with=("adagrad",),
    ),
    ModelEntry(
        "fm",
        "Factorization machine.",
        "fmcli.models.second_order.fm:FM",
        _FM,
        dense_solver=_BY_COLUMNS,
        joins=True,
        pairs=True,
        compared_with=("adagrad", "mcmc"),
        tunes=_TUNED,
    ),
    ModelEntry(
        "anova",
        "ANOVA kernel regression of any order; with order 2, an FM whose factors have fitted weights.",
        "fmcli.models.polynomial.anova:anova",
        (*_FM, "order", "augment", *_BETA),
        _START["anova"],
        with_solver={**_FARTHER, **_SAMPLED},
        cost=1.1,
        tunes=_TUNED,
    ),
    ModelEntry(
        "shfm",
        "Strongly hierarchical FM: an interaction is non-zero only if both main effects are, unless factors are "
        "orthogonal to v_0.",
        "fmcli.models.second_order.fm:SHFM",
        ("rank", "bias"),
        solver=_BY_COLUMNS,
        with_solver={
            "ftrl": {**_SPARSE["ftrl"], "alpha_v": if_small("0.1", lambda _: 0.1, -1), "init_std": 0.05},
            _BY_COLUMNS: {"l2_v": per_row(15)},
        },
        joins=True,
        pairs=True,
        tunes=_TUNED,
    ),
    ModelEntry(
        "sha2",
        "Strongly hierarchical ANOVA kernel regression of order 2.",
        "fmcli.models.second_order.fm:SHA2",
        ("rank", "bias", *_BETA),
        _START["sha2"],
        solver="ftrl",
        with_solver={**_SPARSE, **_FARTHER, **_SAMPLED},
        pairs=True,
        cost=1.2,
        tunes=_TUNED,
    ),
    ModelEntry(
        "sglfm",
        "FM with a sparse group lasso penalty: whole features and individual factors become exactly zero.",
        "fmcli.models.second_order.fm:FM",
        _FM,
        {**_SGL, "l1": 2e-5, "group_l1": 1e-5},
        solver="fobos",
        with_solver=_SGL_WITH,
        positive=("l1", "group_l1"),
        unpenalized="fm",
        tries=_SGL_TRIES,
        tunes=_TUNED | _TUNED_L1 | _TUNED_GROUP,
    ),
    ModelEntry(
        "glfm",
        "FM with a group lasso penalty: whole features become exactly zero.",
        "fmcli.models.second_order.fm:FM",
        _FM,
        {**_SGL, "group_l1": 1e-4},
        solver="fobos",
        with_solver=_SGL_WITH,
        positive=("group_l1",),
        unpenalized="fm",
        refuses=dict.fromkeys(
            ("l1", "l1_w", "l1_v"), f"glfm has only the group penalty; use {called('model')} sglfm for both"
        ),
        tries=_SGL_TRIES | _WEAKER_GROUPS,
        tunes=_TUNED | _TUNED_GROUP,
    ),
    ModelEntry(
        "l1fm",
        "FM with an L1 penalty: individual factors become exactly zero.",
        "fmcli.models.second_order.fm:FM",
        _FM,
        {**_SGL, "l1": 3e-5},
        solver="fobos",
        with_solver=_SGL_WITH,
        positive=("l1",),
        unpenalized="fm",
        refuses={"group_l1": f"l1fm has only the L1 penalty; use {called('model')} sglfm for both"},
        tries=_SGL_TRIES,
        tunes=_TUNED | _TUNED_L1,
    ),
    ModelEntry(
        "hofm",
        "Higher-order FM with separate factors for each degree.",
        "fmcli.models.polynomial.anova:HOFM",
        (*_FM, "order"),
        {"order": 3, **_START["hofm"]},
        with_solver=_SAMPLED,
        by_degree=("rank", "init_std"),
        cost=2.2,
        compared_with=("adagrad",),
        tunes=_TUNED,
    ),
    ModelEntry(
        "hofm-shared",
        "Higher-order FM with factors shared by all degrees, through constant features.",
        "fmcli.models.polynomial.anova:HOFMShared",
        ("rank", "bias", "order"),
        {"order": 3, **_START["hofm-shared"]},
        solver=_BY_COLUMNS,
        with_solver={
            "adagrad": {"learning_rate": 0.1, "l2": 5e-3, "init_std": by_order(0.03, 0.01, 0.1)},
            _BY_COLUMNS: {"l2_v": per_row(30)},
            **_SAMPLED,
        },
        cost=1.8,
        tunes=_TUNED,
    ),
    ModelEntry(
        "hofm-simplex",
        "Higher-order FM with factors shared by all degrees, and learned weights of the degrees.",
        "fmcli.models.polynomial.anova:HOFMSimplex",
        ("rank", "bias", "order"),
        _START["hofm-simplex"],
        solver=_BY_COLUMNS,
        with_solver={"mcmc": {"init_std": START_OF_SHARED_SAMPLES, "prior_shape": 0.5}},
        tries=_FEWER_FACTORS,
        cost=1.5,
        tunes=_TUNED,
    ),
    ModelEntry(
        "all-subsets",
        "Interactions of all degrees: products of 1 + p_j x_j.",
        "fmcli.models.polynomial.anova:AllSubsets",
        ("rank", "bias"),
        _START["all-subsets"],
        solver=_BY_COLUMNS,
        with_solver={_BY_COLUMNS: {"l2_v": per_row(25)}, **_SAMPLED},
        tunes=_TUNED,
    ),
    ModelEntry(
        "pn",
        "Polynomial network: powers of linear functions.",
        "fmcli.models.polynomial.polynet:PN",
        (*_FM, "order", "augment", *_BETA),
        {"augment": True, **_START["pn"]},
        with_solver={
            **{name: {"learning_rate": _PN_STEP} for name in ("sgd", "fobos")},
            "adagrad": {"l2_v": _PN_L2_V},
            **_FARTHER,
        },
        drawn=False,
        drawn_like="lifted-pn",
        cost=2.2,
        tunes=_TUNED,
    ),
    ModelEntry(
        "lifted-anova",
        "Lifted ANOVA kernel regression: linear in each of its factor matrices; its time grows with 2^order.",
        "fmcli.models.polynomial.lifted:LiftedAnova",
        (*_FM, "order", "augment"),
        _START["lifted-anova"],
        with_solver=_SAMPLED,
        limits={"order": 8},
        cost=2.2,
        tunes=_TUNED,
    ),
    ModelEntry(
        "lifted-pn",
        "Lifted polynomial network: products of different linear functions.",
        "fmcli.models.polynomial.polynet:LiftedPN",
        (*_FM, "order", "augment"),
        {"augment": _LIFTED_PN_AUGMENT, **_START["lifted-pn"]},
        with_solver={"adagrad": {"learning_rate_v": 0.1, "l2_v": _LIFTED_PN_L2_V}, **_SAMPLED},
        cost=1.7,
        compared_with=("adagrad",),
        tunes=_TUNED,
    ),
    ModelEntry(
        "bilinear",
        "Bilinear model: interactions between the features of field 0 and the features of field 1.",
        "fmcli.models.second_order.bilinear:Bilinear",
        (*_FM, "split_index"),
        by_fields=True,
        pairs=True,
        cost=1.7,
        tunes=_TUNED,
    ),
    ModelEntry(
        "ffm",
        "Field-aware FM: each feature has separate factors for each field that it interacts with.",
        "fmcli.models.second_order.ffm:FFM",
        _FM,
        {"rank": 4, "norm": True, "init_std": 0.03},
        # Larger factors leave the saddle point at 0 in fewer epochs. With squared loss, they fit noise first.
        with_solver={
            "adagrad": {"learning_rate": 0.2, "l2": by_loss(2e-5, 1e-4), "init_std": by_loss(0.1, 0.03)},
            **_SAMPLED,
        },
        context=("fields", "by_row"),
        by_fields=True,
        compact=True,
        cost=5.0,
        compared_with=("adagrad",),
        tunes=_TUNED | {"rank": of(2, 4, 8, 16)},
    ),
    ModelEntry(
        "llfm",
        "Locally linear FM: a weighted combination of FMs at the anchors nearest to a row.",
        "fmcli.models.local.llfm:LLFM",
        (*_FM, "anchors", "neighbours", "coding_c", "lc", "llfm_variant", "anchor_rate"),
        with_solver={"ftrl": {"anchor_rate": 0.01}},
        tries=_ONE_ANCHOR,
        apart=False,
        cost=2.7,
        cost_with={"cd": 1.6},
        compared_with=("adagrad", "cd"),
        tunes=_TUNED | {"anchors": of(2, 3, 5, 8)},
    ),
    ModelEntry(
        "kernel-basis",
        "Linear regression plus kernel ridge regression on sampled training rows, in closed form: for few features.",
        "fmcli.models.polynomial.kernel_basis:KernelBasis",
        ("rank", "linear", "basis", "kernel", "coef0", "order"),
        {"rank": _LANDMARKS, "epochs": 1, "l2_w": per_row_and_more(5, above=100), "l2_v": per_row(100)},
        solver=CLOSED_FORM,
        closed_form=True,
        refuses={
            **dict.fromkeys(NOT_SMOOTH, f"its closed form supports only {called('l2')}"),
            **dict.fromkeys(
                ("epochs", "batch_size", "round_size", "shuffle", "init_std"),
                "it is solved in closed form, not step by step",
            ),
        },
        cost=5.0,
        compared_with=("closed-form",),
        tunes={"rank": of(50, 100, 200, 400), "order": of(2, 3), "l2_w": by(100), "l2_v": by(100)},
    ),
)
MODELS = {model.name: model for model in _MODELS}
