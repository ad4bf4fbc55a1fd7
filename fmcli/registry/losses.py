"""The losses: each is a LossEntry in LOSSES."""

from __future__ import annotations

from dataclasses import dataclass

from fmcli.registry.entry import Entry

# The loss for labels from 0 to 1 if LOGISTIC is asked for.
LOGISTIC, SOFT_LOGISTIC = "logistic", "soft-logistic"
# The loss for labels with two values where parameters are drawn from their posterior distribution.
PROBIT = "probit"
# The loss for integers of which only the order is known.
ORDINAL = "ordinal"
# The loss whose predictions can be clipped to the range of the labels.
CLIPPED_LOSS = "squared"
# The loss of models that are solved in closed form.
CLOSED_FORM_LOSS = "squared"


@dataclass(frozen=True, kw_only=True)
class LossEntry(Entry):
    """A loss.

    task : the type of the labels: binary (two values), soft (from 0 to 1), real, counts, classes, levels (integers
        whose distances do not count), or order (of numbers, only the order counts).
    pairwise : whether it is a loss of the difference of the scores of two rows of a group.
    smooth : whether it is differentiable.
    bounded : whether its second derivative is bounded.
    drawn : whether it has parameters of its own, which only solvers that draw them from their distribution have.
    """

    task: str
    smooth: bool = True
    bounded: bool = True
    pairwise: bool = False
    drawn: bool = False

    @property
    def by_rows_only(self) -> bool:
        """Whether only stochastic solvers train with it."""
        return self.pairwise or not self.smooth


_LOSSES = (
    LossEntry("squared", "Half the squared error.", "fmcli.losses.loss:Squared", task="real"),
    LossEntry(
        "logistic", "Logistic loss (log loss), for labels with two values.", "fmcli.losses.loss:Logistic", task="binary"
    ),
    LossEntry(
        "probit",
        "Probit loss, for labels with two values: probabilities by the normal distribution, as mcmc draws them.",
        "fmcli.losses.loss:Probit",
        task="binary",
    ),
    LossEntry(
        "soft-logistic",
        "Logistic loss for soft labels, which are probabilities from 0 to 1.",
        "fmcli.losses.loss:SoftLogistic",
        task="soft",
    ),
    LossEntry(
        "squared-hinge",
        "Squared hinge loss, for labels with two values.",
        "fmcli.losses.loss:SquaredHinge",
        task="binary",
    ),
    LossEntry(
        "hinge",
        "Hinge loss, for labels with two values.",
        "fmcli.losses.loss:Hinge",
        task="binary",
        smooth=False,
        bounded=False,
    ),
    LossEntry(
        "huber",
        "Huber loss: squared for small errors, linear for large ones; for labels with outliers.",
        "fmcli.losses.loss:Huber",
        ("huber_delta",),
        task="real",
    ),
    LossEntry(
        "poisson",
        "Poisson loss, for counts; the prediction is the exponential of the score.",
        "fmcli.losses.loss:Poisson",
        task="counts",
        bounded=False,
    ),
    LossEntry(
        "softmax",
        "Softmax loss (cross-entropy), for classes.",
        "fmcli.losses.loss:Softmax",
        task="classes",
    ),
    LossEntry(
        ORDINAL,
        "Ordered probit, for integers such as ratings, whose distances mcmc learns; the prediction is the mean label.",
        "fmcli.losses.loss:Ordinal",
        ("gap_mean", "gap_std"),
        task="levels",
        bounded=False,
        drawn=True,
    ),
    LossEntry(
        "bpr",
        "Bayesian personalized ranking: logistic loss of the difference of the scores of two rows of a group with "
        "different labels.",
        "fmcli.losses.loss:Bpr",
        task="order",
        pairwise=True,
    ),
)
LOSSES = {loss.name: loss for loss in _LOSSES}
