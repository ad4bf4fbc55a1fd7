"""[SGL] Figures 2 and 6 on MovieLens 100K: RMSE and sparsity by k of six models, and RMSE by epoch."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from experiment import Experiment, Figure, Numbers, Rule, Table, mean, mean_and_spread
from fitting import Options, fit, flags, in_parts
from numpy.typing import NDArray
from sets.dense import Pair
from sets.movielens import one_hot, random_split
from sets.raw import Raw

SEEDS, RANKS, CURVE_RANK, EPOCHS, HELD_OUT = 5, (5, 10, 20, 50), 50, 15, 0.25
CLOSE, ENOUGH_ZEROS = 0.005, 0.2
# By default, poly2 normalizes rows, and the penalties of sparse models begin in epoch 6, later than the best epoch.
COMMON: Options = {"solver": "fobos", "loss": "squared", "adaptive": True, "learning_rate": 0.1}
COMMON |= {"norm": False, "l1_from_epoch": 1}
# The loss of the paper is twice that of fmcli, so that its lambda 1e-5 is 5e-6 here. With a larger l1, small initial
# factors become 0 at once, so that it has larger initial factors.
OPTIONS: dict[str, list[Options]] = {
    "linear": [{"l1": l1, "l2": 0.0} for l1 in (1e-6, 1e-5, 1e-4)],
    "poly2": [{"l2": l2} for l2 in (1e-5, 1e-4, 1e-3)],
    "fm": [{"l2": l2, "init_std": std} for l2, std in ((1e-4, 0.01), (2e-4, 0.01))],
    "l1fm": [{"l1": l1, "init_std": std} for l1, std in ((2e-6, 0.01), (5e-6, 0.02), (1e-5, 0.05))],
    "glfm": [{"group_l1": group, "init_std": std} for group, std in ((2e-5, 0.01), (5e-5, 0.03))],
    "sglfm": [
        {"l1": l1, "group_l1": group, "init_std": std}
        for l1, group, std in (
            (5e-7, 2e-5, 0.01),
            (1e-6, 2e-5, 0.02),
            (3e-6, 1e-5, 0.02),
            (5e-6, 1e-5, 0.03),
            (1e-5, 1e-5, 0.05),
        )
    ],
}
PLAIN = ("linear", "poly2")  # without factors
FACTORED = ("fm", "l1fm", "glfm", "sglfm")
SPARSER = "sparser sglfm"


class Chosen(NamedTuple):
    """Options with their best number of epochs, and RMSE and share of zeros on held-out rows there."""

    options: Options
    epochs: int
    rmse: float
    zeros: float


def curve(model: str, options: Options, pair: Pair, seed: int = 0) -> NDArray[np.float64]:
    """(epochs, 3) RMSE on the test rows, share of zeros, RMSE of the training rows before their updates."""
    epochs = fit(model, COMMON | {"epochs": EPOCHS, "seed": seed} | options, *pair, ("rmse", "sparsity")).epochs
    return np.array([(one.valid["rmse"], one.valid["sparsity"], (2 * one.loss) ** 0.5) for one in epochs])


def tried(model: str, rank: int | None, parts: Pair) -> list[Chosen]:
    """Each of a model's options, by held-out rows."""
    found = []
    for options in OPTIONS[model]:
        options = options | ({"rank": rank} if rank else {})
        path = curve(model, options, parts)
        best = int(path[:, 0].argmin())
        found.append(Chosen(options, best + 1, path[best, 0], path[best, 1]))
    return found


def measured(model: str, chosen: Chosen, pairs: list[Pair]) -> Numbers:
    """RMSE on the test rows and share of zeros, for each split."""
    paths = [curve(model, chosen.options | {"epochs": chosen.epochs}, pair, seed) for seed, pair in enumerate(pairs)]
    return {
        "options": chosen.options | {"epochs": chosen.epochs},
        "rmse": [path[-1, 0] for path in paths],
        "zeros": [path[-1, 1] for path in paths],
    }


def splits(raw: Raw) -> tuple[list[Pair], Pair]:
    """The random splits; and the training rows of the first one, in a part to train on and one to choose options by."""
    data = one_hot(raw)
    pairs = [random_split(data, seed) for seed in range(SEEDS)]
    return pairs, in_parts(pairs[0].train, HELD_OUT)


def run(raw: Raw) -> Numbers:
    pairs, parts = splits(raw)
    numbers: Numbers = {"plain": {}, "by rank": {}, "curves": {}}
    for model in PLAIN:
        chosen = min(tried(model, None, parts), key=lambda one: one.rmse)
        numbers["plain"][model] = measured(model, chosen, pairs)
    for rank in RANKS:
        found = {model: tried(model, rank, parts) for model in FACTORED}
        chosen = {model: min(some, key=lambda one: one.rmse) for model, some in found.items()}
        near = [one for one in found["sglfm"] if one.rmse <= chosen["fm"].rmse + CLOSE]
        if near:
            chosen[SPARSER] = max(near, key=lambda one: one.zeros)
        numbers["by rank"][str(rank)] = {
            name: measured(name.removeprefix("sparser "), one, pairs) for name, one in chosen.items()
        }
        if rank == CURVE_RANK:
            for name, one in chosen.items():
                path = curve(name.removeprefix("sparser "), one.options, pairs[0])
                numbers["curves"][name] = {"test": path[:, 0].tolist(), "train": path[:, 2].tolist()}
    return numbers


def rmse(numbers: Numbers, rank: int, model: str) -> float:
    return mean(numbers["by rank"][str(rank)][model]["rmse"])


def as_good_with_zeros(numbers: Numbers) -> bool:
    for rank in RANKS:
        found = numbers["by rank"][str(rank)].get(SPARSER)
        if found and mean(found["zeros"]) >= ENOUGH_ZEROS and mean(found["rmse"]) <= rmse(numbers, rank, "fm") + CLOSE:
            return True
    return False


def factored_are_better(numbers: Numbers) -> bool:
    plain = min(mean(one["rmse"]) for one in numbers["plain"].values())
    return all(rmse(numbers, rank, model) < plain for rank in RANKS for model in FACTORED)


def sgl_is_best(numbers: Numbers) -> bool:
    return all(
        rmse(numbers, rank, "sglfm") <= rmse(numbers, rank, other) for rank in RANKS for other in ("l1fm", "glfm")
    )


def l1_is_sparser(numbers: Numbers) -> bool:
    found = numbers["by rank"].values()
    return all(mean(one["l1fm"]["zeros"]) >= mean(one["sglfm"]["zeros"]) for one in found)


def epochs_until_close(path: list[float]) -> int:
    """The first epoch within CLOSE of the lowest RMSE."""
    return next(epoch for epoch, value in enumerate(path, 1) if value <= min(path) + CLOSE)


def converges_faster(numbers: Numbers) -> bool:
    found = {name: epochs_until_close(path["test"]) for name, path in numbers["curves"].items()}
    return all(found[model] < found["fm"] for model in ("l1fm", "glfm", "sglfm"))


def errors(by_rank: Mapping[str, Numbers]) -> Table:
    """RMSE, zeros and options of models, by rank and name."""
    rows = []
    for rank, models in by_rank.items():
        for model, one in models.items():
            shown = " ".join(f"{name} {value:g}" for name, value in one["options"].items() if name != "rank")
            rows.append([rank, model, mean_and_spread(one["rmse"], 4), mean_and_spread(one["zeros"], 3), shown])
    return Table(
        f"RMSE and zeros on test rows (mean and standard deviation of {SEEDS} splits)",
        ["k", "model", "RMSE", "share of zeros", "options"],
        rows,
    )


def tables(numbers: Numbers) -> list[Table]:
    speed = [[model, str(epochs_until_close(path["test"]))] for model, path in numbers["curves"].items()]
    return [
        errors({"": numbers["plain"], **numbers["by rank"]}),
        Table(
            f"Epochs until the test RMSE is within {CLOSE:g} of its lowest, k = {CURVE_RANK}",
            ["model", "epochs"],
            speed,
        ),
    ]


def figures(numbers: Numbers) -> dict[str, Figure]:
    shown = {"RMSE on test rows": "rmse", "share of zeros": "zeros"}
    by_rank = {
        title: {
            model: (RANKS, [mean(numbers["by rank"][str(rank)][model][name]) for rank in RANKS]) for model in FACTORED
        }
        for title, name in shown.items()
    }
    by_epoch = {
        f"{part} rows, k = {CURVE_RANK}": {
            model: (range(1, EPOCHS + 1), numbers["curves"][model][part]) for model in FACTORED
        }
        for part in ("train", "test")
    }
    return {
        "ranks": Figure("RMSE and zeros by k", "k", "mean of the splits", by_rank, True),
        "epochs": Figure("RMSE by epoch", "epoch", "RMSE", by_epoch),
    }


SPARSER_MISSES = (
    "The sparser sglfm, which is chosen for its zeros, misses by 0.001: at k = 50, it has 0.9186 with 78 % zeros on the"
    " test rows, and fm 0.9126. The sglfm that is chosen by RMSE alone has 0.9134 there, with 21 % zeros, as in the"
    " paper."
)
SAME_AS_GLFM = (
    "It is better than l1fm for each k, and than glfm for three of four: at k = 20, glfm is better by 0.0006. All"
    " differences to glfm are below 0.001, and the standard deviation of the splits is 0.004."
)
MORE_L1 = "It holds for k = 5, 10 and 20. At k = 50, held-out rows choose l1 3e-6 for sglfm, and 2e-6 for l1fm."
SAME_EPOCHS = (
    "All of them need 4 epochs. An earlier version of this page had a PASS, because the penalties began in epoch 6 by"
    " default, after the best epoch: fm had l2, and they had no penalty at all."
)


def headline(numbers: Numbers) -> str:
    sparse = numbers["by rank"][str(CURVE_RANK)]["sglfm"]
    return (
        f"k = {CURVE_RANK}: sglfm {mean(sparse['rmse']):.4f} with {mean(sparse['zeros']):.0%} zeros,"
        f" fm {rmse(numbers, CURVE_RANK, 'fm'):.4f}"
    )


EXPERIMENT = Experiment(
    name="sgl",
    source="[SGL] Figures 2 and 6",
    title="sparse factorization machines on MovieLens 100K",
    about=f"""
Ratings with one-hot users and films; a random 70 % of them are for training, as in the paper. `linear` with L1 is its
Lasso, and `poly2` its second-order regression. All models are trained by adaptive FOBOS; options and epochs are chosen
on a quarter of the training rows of the first split, from finer values than the paper's powers of ten. "Sparser sglfm"
is the one with the most zeros whose RMSE is within {CLOSE:g} of that of fm on these rows. Zeros include the features
that occur in no training row. The paper's figures have no numbers; by its text, sglfm is as good as fm with up to 20 %
zeros, better than l1fm and glfm, l1fm is sparser than sglfm, and sparse models converge faster than fm. All models
have {flags(COMMON)}, so that no rows are normalized, and penalties act from the first epoch, as in the paper.
""",
    rules=[
        Rule(
            f"for a k, the sparser sglfm has {ENOUGH_ZEROS:.0%} zeros or more and an RMSE within {CLOSE:g} of fm's.",
            as_good_with_zeros,
            SPARSER_MISSES,
        ),
        Rule("models with factors are better than `linear` and `poly2`, for each k.", factored_are_better, ""),
        Rule("sglfm has a lower RMSE than l1fm and glfm, for each k.", sgl_is_best, SAME_AS_GLFM),
        Rule("l1fm has at least as many zeros as sglfm, for each k.", l1_is_sparser, MORE_L1),
        Rule("l1fm, glfm and sglfm need fewer epochs than fm.", converges_faster, SAME_EPOCHS),
    ],
    run=run,
    tables=tables,
    figures=figures,
    notes="""
An earlier version of this page left `--l1-from-epoch` at the default of these models, 6, which is later than the
epochs that held-out rows choose: the penalties had not begun. With them, sglfm has 0.9134 instead of 0.9160 at k = 50,
and 21 % zeros instead of 4 %.
""",
    headline=headline,
)
