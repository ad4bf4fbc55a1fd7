"""The losses. Each is a LossEntry in LOSSES."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmcli.records import dataclass
from fmcli.registry.entry import Entry, load

if TYPE_CHECKING:
    from fmcli.losses.links import Link

# The loss that replaces LOGISTIC for labels from 0 to 1.
LOGISTIC, SOFT_LOGISTIC = "logistic", "soft-logistic"
# The loss for two label values when parameters are drawn from their posterior distribution.
PROBIT = "probit"
# The loss for integers whose order matters, but not their distances.
ORDINAL = "ordinal"
# The default loss for labels with two distinct values, and the default for other labels.
TWO_VALUES, OTHERS = "logistic", "squared"
# The loss whose predictions can be clipped to the range of the labels.
CLIPPED_LOSS = "squared"
# The loss of models that are solved in closed form.
CLOSED_FORM_LOSS = "squared"
# The tasks of losses, in the words of users: what labels are.
LABELS = {
    **{"real": "numbers", "counts": "counts", "binary": "two values", "soft": "from 0 to 1", "classes": "classes"},
    "order": "numbers, in groups",
    "levels": "integers",
}


@dataclass(frozen=True, kw_only=True)
class LossEntry(Entry):
    """A loss.

    task : the type of the labels: binary (two values), soft (from 0 to 1), real, counts, classes, levels (integers
        whose order matters, but not their distances), or order (only the order of numbers matters).
    metrics : the default metrics; early stopping uses the first.
    link : "module:name" of the Link, which gives the meaning of scores.
    likelihood : whether the loss is the negative logarithm of the label's probability.
    pairwise : whether the loss is a function of the score difference of two rows of a group.
    smooth : whether the loss is differentiable.
    bounded : whether its second derivative is bounded.
    drawn : whether the loss has parameters of its own, which only samplers can draw.
    """

    task: str
    metrics: tuple[str, ...]
    link: str = "fmcli.losses.links:SCORES"
    likelihood: bool = False
    smooth: bool = True
    bounded: bool = True
    pairwise: bool = False
    drawn: bool = False

    def load_link(self) -> Link:
        """Import the link."""
        found: Link = load(self.link)
        return found


_LOSSES = (
    LossEntry("squared", "Half the squared error.", "fmcli.losses.loss:Squared", task="real", metrics=("rmse", "mae")),
    LossEntry(
        "logistic",
        "Logistic loss (log loss), for labels with two values.",
        "fmcli.losses.loss:Logistic",
        task="binary",
        metrics=("logloss", "auc"),
        link="fmcli.losses.links:LOGIT",
        likelihood=True,
    ),
    LossEntry(
        "probit",
        "Probit loss, for labels with two values: probabilities by the normal distribution, as mcmc draws them.",
        "fmcli.losses.loss:Probit",
        task="binary",
        metrics=("logloss", "auc"),
        link="fmcli.losses.links:PROBIT",
        likelihood=True,
    ),
    LossEntry(
        "soft-logistic",
        "Logistic loss for soft labels, which are probabilities from 0 to 1.",
        "fmcli.losses.loss:SoftLogistic",
        task="soft",
        metrics=("logloss", "rmse"),
        link="fmcli.losses.links:LOGIT",
    ),
    LossEntry(
        "squared-hinge",
        "Squared hinge loss, for labels with two values.",
        "fmcli.losses.loss:SquaredHinge",
        task="binary",
        metrics=("accuracy", "auc"),
    ),
    LossEntry(
        "hinge",
        "Hinge loss, for labels with two values.",
        "fmcli.losses.loss:Hinge",
        task="binary",
        metrics=("accuracy", "auc"),
        smooth=False,
        bounded=False,
    ),
    LossEntry(
        "huber",
        "Huber loss: squared for small errors, linear for large ones; for labels with outliers.",
        "fmcli.losses.loss:Huber",
        ("huber_delta",),
        task="real",
        metrics=("mae", "rmse"),
    ),
    LossEntry(
        "poisson",
        "Poisson loss, for counts; the prediction is the exponential of the score.",
        "fmcli.losses.loss:Poisson",
        task="counts",
        metrics=("rmse", "mae"),
        link="fmcli.losses.links:LOG",
        bounded=False,
    ),
    LossEntry(
        "softmax",
        "Softmax loss (cross-entropy), for classes.",
        "fmcli.losses.loss:Softmax",
        task="classes",
        metrics=("logloss", "accuracy"),
        link="fmcli.losses.links:SOFTMAX",
        likelihood=True,
    ),
    LossEntry(
        ORDINAL,
        "Ordered probit, for integers such as ratings, whose distances mcmc learns; the prediction is the mean label.",
        "fmcli.losses.loss:Ordinal",
        ("gap_mean", "gap_std"),
        task="levels",
        metrics=("rmse", "mae"),
        link="fmcli.losses.links:CUTPOINTS",
        likelihood=True,
        bounded=False,
        drawn=True,
    ),
    LossEntry(
        "bpr",
        "Bayesian personalized ranking: logistic loss of the difference of the scores of two rows of a group with "
        "different labels.",
        "fmcli.losses.loss:Bpr",
        task="order",
        metrics=("ndcg", "gauc"),
        pairwise=True,
    ),
)
LOSSES = {loss.name: loss for loss in _LOSSES}
