"""[SH]: why shfm is worse than fm on planted documents: the start of the context factors."""

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
from fmcli.training.warm_start import WarmStart

L1 = (1.0, 2.0)
STARTS = (1, 3, 10, 30)  # times the usual start of the context factors
TOLD, LARGE = 1, 10
OPTIONS: Options = {"alpha": 0.05, "init_std": 0.05, "epochs": 30}  # as chosen for fm and shfm
HALF, MOST, CLOSE = 0.5, 0.75, 0.01


def start_of(options: Options, data: Dataset, factor: float) -> WarmStart:
    """The start values of shfm, with larger context factors v_0."""
    with TemporaryDirectory() as folder:
        saved_start("shfm", options, data, f"{folder}/model")
        start = load_warm_start(f"{folder}/model")
    arrays = dict(start.model.parameters)
    arrays["v0"] = (arrays["v0"] * factor).astype(arrays["v0"].dtype)
    start.model.attach(arrays)
    return start


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


def run(raw: Raw) -> Numbers:
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
                start = start_of(options, kept, factor)
                plan = job.plan(
                    kept, spec_of("shfm", options), valid=held, metrics=("rmse",), patience=1_000_000, warm_start=start
                )
                trained = job.train(plan)
                arrays = plan.model.parameters
                effects = arrays["V"][0][drawn[seed].words] @ np.ravel(arrays["v0"])
                runs.append((trained, effects.astype(np.float64), drawn[seed].effects))
            numbers["shfm"][str(factor)][f"{l1:g}"] = noted(runs)
    return numbers


def least(by_l1: Numbers) -> float:
    """The lowest mean RMSE over lambda_1."""
    return min(mean(one["rmse"]) for one in by_l1.values())


def effect(by_l1: Numbers) -> float:
    """The mean size of main effects at the smaller lambda_1."""
    return mean(by_l1[f"{L1[0]:g}"]["slope"])


def tables(numbers: Numbers) -> list[Table]:
    ways = {"fm": numbers["fm"]} | {f"shfm, v_0 times {factor}": one for factor, one in numbers["shfm"].items()}
    rows = [
        [name, l1, mean_and_spread(one["rmse"], 3), mean_and_spread(one["slope"], 2)]
        for name, by_l1 in ways.items()
        for l1, one in by_l1.items()
    ]
    head = ["model and start", "lambda_1", "RMSE", "main effects / planted ones"]
    return [Table(f"On held-out rows, best epoch (mean and standard deviation of {SEEDS} seeds)", head, rows)]


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
    " on all five, to 2.8%. The rest is unexplained: a smaller start of the other factors beside it (0.3 to 0.6 times"
    " the usual one, lambda_1 2 and 3) makes shfm worse, 0.640 to 0.658."
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
    ],
    run=run,
    tables=tables,
    figures=figures,
    notes="""
Other causes were ruled out on the held-out rows of seeds 0 and 1: fm without linear weights on rows with a constant
feature is shfm, with the same errors (0.5815; fm 0.5520). If this constant is 3 or 10 instead of 1, so that the context
factors are penalized less and take larger steps, shfm is worse (0.592, 0.713). Fm without main effects has 0.5851: the
main effects of shfm, with the usual start, are worth next to nothing.
""",
)
