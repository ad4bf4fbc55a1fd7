"""[SH]: why shfm is worse than fm on planted documents: the start of the context factors, and pairs of main effects."""

from collections.abc import Callable
from itertools import product
from tempfile import TemporaryDirectory

import numpy as np
from experiment import Experiment, Figure, Numbers, Rule, Table, mean, mean_and_spread
from fitting import Options, fit, in_parts, spec_of
from numpy.typing import NDArray
from sets.raw import Raw
from sets.words import with_effects
from watching import saved_start

from experiments.sh_words import FIRST, HELD_OUT, SEEDS, options_of
from fmcli.data.dataset import Dataset
from fmcli.training import job
from fmcli.training.saving import load_warm_start
from fmcli.training.trained import Trained

L1 = (1.0, 2.0)
STARTS = (1, 3, 10, 30)  # times the usual start of the context factors
TOLD, LARGE = 1, 10
OPTIONS: Options = {"alpha": 0.05, "init_std": 0.05, "epochs": 30}  # as chosen for fm and shfm
HALF, MOST, CLOSE = 0.5, 0.75, 0.01
NEW_SEEDS, INITS = range(SEEDS, 2 * SEEDS), 3
WEIGHTS = (1.0, 0.1, 0.01)  # in pairs, of the factor for main effects
FITTED = 0.1
# Models and the weight that they start from, if main effects have a factor of their own.
WAYS: dict[str, tuple[str, Options, float | None]] = {
    "fm": ("fm", {}, None),
    **{f"shfm, weight {weight:g}": ("sha2", {"fit_beta": False, "beta_start": "ones"}, weight) for weight in WEIGHTS},
    "anova": ("anova", {}, None),
    "sha2": ("sha2", {}, None),
    f"sha2, weight {FITTED:g} at first": ("sha2", {}, FITTED),
}
Arrays = dict[str, NDArray[np.float32]]


def trained_from(
    change: Callable[[Arrays], None], model: str, options: Options, kept: Dataset, held: Dataset
) -> Trained:
    """A model trained from its usual start values after this change of them."""
    with TemporaryDirectory() as folder:
        saved_start(model, options, kept, f"{folder}/model")
        start = load_warm_start(f"{folder}/model")
    arrays = {name: array.copy() for name, array in start.model.parameters.items()}
    change(arrays)
    start.model.attach(arrays)
    spec = spec_of(model, options)
    return job.train(job.plan(kept, spec, valid=held, metrics=("rmse",), patience=1_000_000, warm_start=start))


def unchanged(arrays: Arrays) -> None:
    """Start as usual."""


def longer(factor: float) -> Callable[[Arrays], None]:
    """Start from larger context factors."""

    def change(arrays: Arrays) -> None:
        arrays["v0"] *= factor

    return change


def apart(weight: float) -> Callable[[Arrays], None]:
    """Start with main effects of 0 that have the first factor for themselves. For pairs, it has this weight beta; the
    main effect of j is beta v_0 v_j = v_j."""

    def change(arrays: Arrays) -> None:
        arrays["V"][..., 0], arrays["v0"][...] = 0, 0
        arrays["v0"].flat[0], arrays["beta"].flat[0] = 1 / weight, weight

    return change


def slope(effects: NDArray[np.float64], planted: NDArray[np.float64]) -> float:
    """How large main effects are, relative to the planted ones."""
    return float(effects @ planted / (planted @ planted))


def noted(runs: list[tuple[Trained, NDArray[np.float64], NDArray[np.float64]]]) -> Numbers:
    """RMSE on held-out rows by epoch, the mean of the seeds; at the end, the size of main effects and of v_0."""
    paths = np.mean([[epoch.valid["rmse"] for epoch in trained.epochs] for trained, _, _ in runs], axis=0)
    best = int(paths.argmin())
    return {
        "curve": paths.tolist(),
        "rmse": [trained.epochs[best].valid["rmse"] for trained, _, _ in runs],
        "slope": [slope(effects, planted) for _, effects, planted in runs],
    }


def of_starts(raw: Raw) -> Numbers:
    """Fm, and shfm by the start of its context factors."""
    drawn = [with_effects(raw, seed, FIRST) for seed in range(SEEDS)]
    parts = [in_parts(one.pair.train, HELD_OUT) for one in drawn]
    numbers: Numbers = {"fm": {}, "shfm": {str(factor): {} for factor in STARTS}}
    for l1 in L1:
        runs = []
        for seed, (kept, held) in enumerate(parts):
            trained = fit("fm", options_of("fm", OPTIONS | {"l1": l1}, seed), kept, held, ("rmse",))
            runs.append((trained, np.ravel(trained.plan.model.parameters["w"])[drawn[seed].words], drawn[seed].effects))
        numbers["fm"][f"{l1:g}"] = noted(runs)
        for factor in STARTS:
            runs = []
            for seed, (kept, held) in enumerate(parts):
                options = options_of("shfm", OPTIONS | {"l1": l1}, seed)
                trained = trained_from(longer(factor), "shfm", options, kept, held)
                arrays = trained.plan.model.parameters
                effects = arrays["V"][0][drawn[seed].words] @ np.ravel(arrays["v0"])
                runs.append((trained, effects.astype(np.float64), drawn[seed].effects))
            numbers["shfm"][str(factor)][f"{l1:g}"] = noted(runs)
    return numbers


def of_pairs(raw: Raw) -> Numbers:
    """RMSE with a factor for main effects, by the weight of this factor in pairs, and without; other seeds."""
    parts = [in_parts(with_effects(raw, seed, FIRST).pair.train, HELD_OUT) for seed in NEW_SEEDS]
    numbers: Numbers = {name: {} for name in WAYS}
    for l1, (name, (model, added, weight)) in product(L1, WAYS.items()):
        paths = []
        for seed in range(INITS * len(parts)):
            options = options_of(model, OPTIONS | {"l1": l1} | added, seed)
            kept, held = parts[seed // INITS]
            change = unchanged if weight is None else apart(weight)
            trained = trained_from(change, model, options, kept, held)
            paths.append([epoch.valid["rmse"] for epoch in trained.epochs])
        by_data = np.reshape(paths, (len(parts), INITS, -1)).mean(axis=1)
        numbers[name][f"{l1:g}"] = {"rmse": by_data[:, by_data.mean(axis=0).argmin()].tolist()}
    return numbers


def run(raw: Raw) -> Numbers:
    return of_starts(raw) | {"pairs": of_pairs(raw)}


def least(by_l1: Numbers) -> float:
    """The lowest mean RMSE over lambda_1."""
    return min(mean(one["rmse"]) for one in by_l1.values())


def effect(by_l1: Numbers) -> float:
    """The mean size of main effects at the smaller lambda_1."""
    return mean(by_l1[f"{L1[0]:g}"]["slope"])


def apart_is_close(numbers: Numbers, weight: float) -> bool:
    """Whether shfm with a factor for main effects of this weight in pairs is nearly as good as fm."""
    return least(numbers["pairs"][f"shfm, weight {weight:g}"]) <= (1 + CLOSE) * least(numbers["pairs"]["fm"])


def tables(numbers: Numbers) -> list[Table]:
    ways = {"fm": numbers["fm"]} | {f"shfm, v_0 times {factor}": one for factor, one in numbers["shfm"].items()}
    rows = [
        [name, l1, mean_and_spread(one["rmse"], 3), mean_and_spread(one["slope"], 2)]
        for name, by_l1 in ways.items()
        for l1, one in by_l1.items()
    ]
    head = ["model and start", "lambda_1", "RMSE", "main effects / planted ones"]
    apart_rows = [
        [name, l1, mean_and_spread(one["rmse"], 3)]
        for name, by_l1 in numbers["pairs"].items()
        for l1, one in by_l1.items()
    ]
    return [
        Table(f"On held-out rows, best epoch (mean and standard deviation of {SEEDS} seeds)", head, rows),
        Table(
            "With a factor for main effects, by its weight in pairs (held-out rows, best epoch, mean and standard"
            f" deviation of {len(NEW_SEEDS)} other seeds, each the mean of {INITS} starts)",
            head[:-1],
            apart_rows,
        ),
    ]


def figures(numbers: Numbers) -> dict[str, Figure]:
    epochs = range(1, OPTIONS["epochs"] + 1)
    panels = {
        f"lambda_1 = {l1:g}": {
            "fm": (epochs, numbers["fm"][f"{l1:g}"]["curve"]),
            **{
                f"shfm, v_0 x {factor}": (epochs, numbers["shfm"][str(factor)][f"{l1:g}"]["curve"])
                for factor in STARTS[:-1]
            },
        }
        for l1 in L1
    }
    return {"": Figure("RMSE by the start of the context factors", "epoch", "RMSE", panels)}


IN_PART = (
    "The start is a part of the cause. On the seeds where it was found, 0 to 2, the difference falls from 4.7% to 0.2%;"
    " on all five, to 2.8%. The rest are pairs that main effects bring with them: see the last two rules."
)

EXPERIMENT = Experiment(
    name="sh_context",
    source="[SH] Figure 1 (c)",
    title="why shfm is worse than fm on planted documents",
    about=f"""
The main effects of shfm are `<v_0, v_j>`. In fmcli, the context factors v_0 start like all other factors, from a
normal distribution with a small standard deviation ({OPTIONS["init_std"]:g} here). v_0 belongs to a feature that every
row has, so that the adaptive steps of its factors shrink fastest, and it stays short. A main effect then needs a long
v_j, which l1 and l2 penalize and which makes weights of pairs, too. Here v_0 starts from larger values; all else is as
in the section before, for pairs of the same words, with the options chosen there for both models and two values of
lambda_1. All errors are on a quarter of the training rows. The effect was found with seeds 0 to 2; seeds 3 and 4 are
new.

Whatever their length, the factors that make main effects make pairs, too: if one factor makes them all, two words with
main effects w_i and w_j have a pair of the weight w_i w_j / v_0^2 in shfm, whether the data have it or not. A larger
v_0 makes these pairs small, but multiplies the steps of main effects. To separate the two, the last two rules use sha2
with fixed beta, which is shfm with a weight beta_s of each factor: the first one has the weight beta_1 = 1, 0.1 or
0.01 and the context factor 1 / beta_1, so that it makes the main effects v_j in each case, from 0 on, but pairs with
this weight only. The other context factors start from 0, and all else as usual. This effect was found with seeds 0 to
4; the rules use others.
""",
    rules=[
        Rule(
            f"with the usual start, the main effects of shfm are less than {HALF:g} of the planted ones, and less than"
            " half of those of fm.",
            lambda numbers: effect(numbers["shfm"][str(TOLD)]) < min(HALF, effect(numbers["fm"]) / 2),
        ),
        Rule(
            f"with v_0 {LARGE} times as large, they are more than {MOST:g} of the planted ones.",
            lambda numbers: effect(numbers["shfm"][str(LARGE)]) > MOST,
        ),
        Rule(
            f"the RMSE of shfm is then at most {CLOSE:.0%} above that of fm, each with its better lambda_1.",
            lambda numbers: least(numbers["shfm"][str(LARGE)]) <= (1 + CLOSE) * least(numbers["fm"]),
            IN_PART,
        ),
        Rule(
            "with the usual start, it is more than that above it.",
            lambda numbers: least(numbers["shfm"][str(TOLD)]) > (1 + CLOSE) * least(numbers["fm"]),
        ),
        Rule(
            f"other seeds: if main effects have a factor of their own, whose weight in pairs is {WEIGHTS[-1]:g}, the"
            f" RMSE is at most {CLOSE:.0%} above that of fm.",
            lambda numbers: apart_is_close(numbers, WEIGHTS[-1]),
        ),
        Rule(
            f"other seeds: if its weight is {WEIGHTS[0]:g}, as in shfm, the RMSE is more than that above it.",
            lambda numbers: not apart_is_close(numbers, WEIGHTS[0]),
        ),
    ],
    run=run,
    tables=tables,
    figures=figures,
    notes="""
Other causes were ruled out on the held-out rows of seeds 0 and 1: fm without linear weights on rows with a constant
feature is shfm, with the same errors (0.5815; fm 0.5520). If this constant is 3 or 10 instead of 1, so that the context
factors are penalized less and take larger steps, shfm is worse (0.592, 0.713). Fm without main effects has 0.5851: the
main effects of shfm, with the usual start, are worth next to nothing.

A small weight does not help sha2, whose weights are fitted: see the last rows of the table.
""",
)
