"""[PN] Theorem 2: direct, lifted and convex optimization."""

import numpy as np
from experiment import Experiment, Figure, Numbers, Rule, Table, mean, mean_and_spread
from fitting import fit
from numpy.typing import NDArray
from sets.dense import Columns, regression, two_thirds
from sets.raw import Raw

from fmcli.data.dataset import Dataset

KERNELS, FORMS, SPLITS, STARTS = ("anova", "pn"), ("direct", "lifted"), 5, 3
RANKS, EPOCHS, TOL, LAMBDA, INIT_STD = (2, 4, 8, 16), 600, 1e-6, 0.01, 0.1
CLOSE = 0.01
STEPS = 3000  # of the convex solver
# The direct form at m = 3, whose penalty is half of lambda times the sum of all squares.
SECOND, THIRD, THIRD_SET, MANY = 2, 3, "cpusmall", 9
THIRD_RANKS, THIRD_EPOCHS = (6, 12), 150


def final(data: Dataset, model: str, rank: int, seed: int, order: int = SECOND) -> float:
    """The final objective of coordinate descent."""
    penalty = {"nuclear": LAMBDA} if model in KERNELS and order == SECOND else {"l2": LAMBDA}
    options = {"solver": "cd", "loss": "squared", "linear": False, "augment": True, "init_std": INIT_STD, "tol": TOL}
    options |= {"order": order, "rank": rank, "seed": seed, "epochs": EPOCHS if order == SECOND else THIRD_EPOCHS}
    if model in KERNELS:
        options["fit_beta"] = True
    return fit(model, options | penalty, data).epochs[-1].objective


def lifted_rank(rank: int, order: int = SECOND) -> int:
    """The rank of the lifted model with as many parameters."""
    return max(1, rank // order)


def convex(data: Dataset, kernel: str) -> float:
    """The minimum of the mean loss plus lambda times the nuclear norm of the matrix of weights of pairs, and a bias.

    It is found by accelerated proximal gradient steps, independently of fmcli.
    """
    x = np.ones((data.rows, data.features + 1))
    x[:, 1:] = 0
    x[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index + 1] = data.value
    pairs = np.einsum("ni,nj->nij", x, x)
    if kernel == "anova":
        pairs = (pairs - np.einsum("nii,ij->nij", pairs, np.eye(x.shape[1]))) / 2
    features = np.hstack([pairs.reshape(data.rows, -1), np.ones((data.rows, 1))])
    step = data.rows / np.linalg.norm(features, 2) ** 2
    shape = x.shape[1], x.shape[1]

    def prox(v: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        u, s, w = np.linalg.svd(v[:-1].reshape(shape))
        s = np.maximum(s - step * LAMBDA, 0)
        return np.append((u * s @ w).ravel(), v[-1]), LAMBDA * s.sum()

    now = ahead = np.zeros(features.shape[1])
    momentum, norm = 1.0, 0.0
    for _ in range(STEPS):
        slope = features.T @ (features @ ahead - data.label) / data.rows
        (new, norm), old = prox(ahead - step * slope), momentum
        momentum = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        now, ahead = new, new + (old - 1) / momentum * (new - now)
    return float(np.mean((features @ now - data.label) ** 2) / 2 + norm)


def second_order(found: Columns) -> Numbers:
    """The objectives of both forms by rank, the best of several starts, and the minimum of the convex problem."""
    splits = [two_thirds(found, seed, standardise_label=True).train for seed in range(SPLITS)]
    numbers: Numbers = {}
    for kernel in KERNELS:
        forms = {"direct": (kernel, lambda rank: rank), "lifted": (f"lifted-{kernel}", lifted_rank)}
        numbers[kernel] = {"convex": [convex(data, kernel) for data in splits]} | {
            form: {
                str(rank): [min(final(data, model, of(rank), seed) for seed in range(STARTS)) for data in splits]
                for rank in RANKS
            }
            for form, (model, of) in forms.items()
        }
    return numbers


def run(raw: Raw) -> Numbers:
    third = two_thirds(regression(raw, THIRD_SET), 0, standardise_label=True).train
    return {
        "diabetes": second_order(regression(raw, "diabetes")),
        "third": {
            form: {str(rank): [final(third, model, of(rank), s, THIRD) for s in range(MANY)] for rank in THIRD_RANKS}
            for form, model, of in (
                ("direct", "anova", lambda rank: rank),
                ("lifted", "lifted-anova", lambda rank: lifted_rank(rank, THIRD)),
            )
        },
    }


def ratios(numbers: Numbers, kernel: str, form: str, rank: int) -> list[float]:
    """The objectives relative to the convex minimum, by split."""
    found = numbers["diabetes"][kernel]
    return [value / least for value, least in zip(found[form][str(rank)], found["convex"], strict=True)]


def equal_to_convex(numbers: Numbers) -> bool:
    found = [ratio for k in KERNELS for form in FORMS for ratio in ratios(numbers, k, form, RANKS[-1])]
    return all(abs(ratio - 1) <= CLOSE for ratio in found)


def never_rises(numbers: Numbers) -> bool:
    for kernel in KERNELS:
        for form in FORMS:
            by_rank = np.array([numbers["diabetes"][kernel][form][str(rank)] for rank in RANKS])
            if (np.diff(by_rank, axis=0) > CLOSE * by_rank[:-1]).any():
                return False
    return True


def third_never_rises(numbers: Numbers) -> bool:
    found = ([min(by_rank[str(rank)]) for rank in THIRD_RANKS] for by_rank in numbers["third"].values())
    return all(more <= (1 + CLOSE) * less for less, more in found)


def tables(numbers: Numbers) -> list[Table]:
    rows = []
    for kernel in KERNELS:
        found = numbers["diabetes"][kernel]
        for rank in RANKS:
            cells = [mean_and_spread(found[form][str(rank)], 4) for form in FORMS]
            rows.append([kernel, str(rank), *cells, mean_and_spread(found["convex"], 4)])
    third = [
        [form, rank, f"{min(values):.4f}", f"{mean(values):.4f}", f"{max(values):.4f}"]
        for form, by_rank in numbers["third"].items()
        for rank, values in by_rank.items()
    ]
    return [
        Table(
            f"Objective, m = 2 (mean and standard deviation of {SPLITS} splits)",
            ["kernel", "k of direct, 2 k of lifted", "direct", "lifted", "convex"],
            rows,
        ),
        Table(
            f"Objective of anova, m = 3, {THIRD_SET}: {MANY} starts",
            ["form", "k of direct, 3 k of lifted", "lowest", "mean", "highest"],
            third,
        ),
    ]


def figures(numbers: Numbers) -> dict[str, Figure]:
    panels = {
        f"{kernel}, m = 2": {
            form: (RANKS, [mean(ratios(numbers, kernel, form, rank)) for rank in RANKS]) for form in FORMS
        }
        for kernel in KERNELS
    }
    return {"": Figure("Objective relative to the convex minimum", "bases k", "objective / minimum", panels, True)}


EXPERIMENT = Experiment(
    name="pn_theorem2",
    source="[PN] Theorem 2",
    title="direct, lifted and convex optimization",
    about=f"""
By Theorem 2, for m = 2 three problems have the same minimum if there are enough bases: the direct one, with the
penalty `lambda sum_s abs(beta_s) norm(p_s)^2`; the lifted one, with half of lambda times the squared norms of U and V;
and the convex one, with lambda times the nuclear norm of the matrix of weights. The third one is solved here by
proximal gradient steps of a few lines, independently of fmcli. The data are {SPLITS} random two thirds of diabetes,
standardised, with a constant feature; lambda is {LAMBDA:g}, and each objective is the lowest of {STARTS} starts. For m
= 3 there is no such theorem: {MANY} starts on {THIRD_SET} show how far local minima are apart.
""",
    rules=[
        Rule(
            f"m = 2: at k = {RANKS[-1]}, the objectives of the direct and of the lifted form are within {CLOSE:.0%} of"
            " the convex minimum, for each kernel and split.",
            equal_to_convex,
        ),
        Rule(f"m = 2: no objective rises with the number of bases by more than {CLOSE:.0%}.", never_rises),
        Rule(
            f"m = 3: with {MANY} starts, no objective rises with the number of bases by more than {CLOSE:.0%}.",
            third_never_rises,
        ),
    ],
    run=run,
    tables=tables,
    figures=figures,
)
