"""Accuracy beside other programs, by the defaults of fmcli and with options tuned on held-out training rows."""

import time
from tempfile import TemporaryDirectory
from typing import Any

from experiment import Experiment, Numbers, Rule, Table, mean, mean_and_spread
from fitting import Options, best_options, fit, folds, grid, held_out
from sets.adult import adult_fields
from sets.dense import Pair
from sets.movielens import one_hot, u_split
from sets.raw import Raw

from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.prediction import load_model
from fmcli.training import job
from fmcli.training.job import Trained
from fmcli.training.saving import save_model

SEEDS, HELD_OUT, FOLDS = 5, 0.2, 5
U1, ADULT = "MovieLens 100K, u1", "adult"
METRICS = {U1: ("rmse",), ADULT: ("logloss", "auc")}
# The other programs' figures, measured on the same rows: the best of several options for those with two numbers.
PEERS: dict[str, dict[str, tuple[str, ...]]] = {
    U1: {
        "libFM mcmc, k = 8": (".9225",),
        "libFM als, k = 8": (".9230 - .9432",),
        "libFM sgd, k = 8": (".9410",),
        "xLearn adagrad, k = 8": (".9237 - .9618",),
        "myFM (Gibbs), k = 8": (".9094",),
        "linear model": (".953",),
    },
    ADULT: {
        "libffm, k = 4": (".3203", ".9048"),
        "xLearn ffm": (".3207", ".9045"),
        "xLearn fm, k = 8": (".3242", ".9025"),
        "libFM mcmc": (".3223", ".9042"),
        "myFM probit": (".3233", ".9025"),
    },
}
ALS, LIBFFM = 0.9230, 0.3203
ROUND = 0.0005
# libFM's penalties are relative to the sum of the losses.
SUMMED = grid(l2_w=(2, 4, 8), l2_v=(9, 12, 15))
CD: Options = {"solver": "cd", "loss": "squared", "rank": 8, "init_std": 0.1, "tol": 0, "epochs": 50}
MCMC: Options = {"solver": "mcmc", "loss": "squared"}
ROWS = grid(learning_rate=(0.05, 0.1, 0.2), l2=(1e-5, 1e-4))
ADAGRAD: Options = {"solver": "adagrad", "loss": "logistic", "epochs": 15}


def tested(name: str, trained: Trained, pair: Pair) -> dict[str, float]:
    """The metrics of the saved model on the test rows, as `fmcli evaluate` computes them."""
    with TemporaryDirectory() as folder:
        save_model(f"{folder}/model", trained, job.summary(trained), "ffm")
        scorer = load_model(f"{folder}/model")
    test = pair.test.within(scorer.dimension) if scorer.numbering is None else pair.test.renumbered(scorer.numbering)
    return measure(METRICS[name], Outcome(trained.plan.spec.loss, test.label, scorer.scores(test), clip=scorer.clip))


def repeated(name: str, model: str, options: Options | None, pair: Pair) -> Numbers:
    """The metrics on the test rows for several seeds, and the CPU seconds of training; without options: defaults."""
    found: dict[str, Any] = {metric: [] for metric in METRICS[name]} | {"seconds": []}
    for seed in range(SEEDS):
        begin = time.process_time()
        if options is None:
            trained = job.train(job.plan(pair.train, make_spec(model, options={"seed": seed}), holdout=None))
        else:
            trained = fit(model, options | {"seed": seed}, pair.train)
        found["seconds"].append(time.process_time() - begin)
        for metric, value in tested(name, trained, pair).items():
            found[metric].append(value)
    return found | {"options": options or {}}


def run(raw: Raw) -> Numbers:
    u1, census = u_split(one_hot(raw), 1), adult_fields(raw)
    of_mean = [{name: value / u1.train.rows for name, value in one.items()} for one in SUMMED]
    cd, _ = best_options("fm", [CD | one for one in of_mean], u1.train, "rmse", folds(u1.train.rows, FOLDS))
    parts = [held_out(census.train.rows, HELD_OUT)]
    fm, _ = best_options("fm", [ADAGRAD | one for one in ROWS], census.train, "logloss", parts)
    ffm, _ = best_options("ffm", [ADAGRAD | {"rank": 4} | one for one in ROWS], census.train, "logloss", parts)
    return {
        U1: {
            "fm, defaults": repeated(U1, "fm", None, u1),
            "fm, mcmc, defaults": repeated(U1, "fm", MCMC, u1),
            "fm, cd, tuned": repeated(U1, "fm", cd, u1),
        },
        ADULT: {
            "fm, defaults": repeated(ADULT, "fm", None, census),
            "fm, tuned": repeated(ADULT, "fm", fm, census),
            "ffm, defaults": repeated(ADULT, "ffm", None, census),
            "ffm, tuned": repeated(ADULT, "ffm", ffm, census),
        },
    }


def tables(numbers: Numbers) -> list[Table]:
    found = []
    for name, ours in numbers.items():
        rows = [[f"fmcli {run}", *(mean_and_spread(one[metric], 4) for metric in METRICS[name]),
                 f"{mean(one['seconds']):.2f}"] for run, one in ours.items()]  # fmt: skip
        rows += [[peer, *figures, ""] for peer, figures in PEERS[name].items()]
        found.append(
            Table(
                f"{name} (ours: mean and standard deviation of {SEEDS} seeds)", ["program", *METRICS[name], "s"], rows
            )
        )
    return found


FEWER_ROWS = (
    "Cross-validation chooses l2_v = 15 / 80,000 on four fifths of the rows, where it is a smaller part of the "
    "sum of the losses than on all rows. With 12 / 80,000, the RMSE on all rows is 0.9217 to 0.9228 from 10 to "
    "60 epochs."
)

SEEDS_DIFFER = (
    "The chosen options are a grid point of few, on one part of the rows: the defaults of ffm, with 8 factors, "
    "reach 0.3207. The difference to libffm is twice the standard deviation of seeds; no other cause was found."
)

EXPERIMENT = Experiment(
    name="peers",
    source="Other programs",
    title="accuracy on MovieLens 100K and adult",
    about=f"""
The other programs' figures were measured on the same training and test rows; a range is that over their options. Ours
are those of the defaults, which hold out a part of the training rows to choose the epoch, and those of options that
were chosen by {FOLDS}-fold cross-validation (u1) or on {HELD_OUT:.0%} of the training rows (adult). Seconds are CPU
seconds of training. myFM averages the predictions of 280 of 300 sweeps of Gibbs sampling, and `mcmc` those of 50 draws
from 300 sweeps by default.
""",
    rules=[
        Rule(
            f"u1: the RMSE of fm by cd, tuned, is at most that of libFM's als at its best, {ALS:g}, plus {ROUND:g}.",
            lambda numbers: mean(numbers[U1]["fm, cd, tuned"]["rmse"]) <= ALS + ROUND,
            FEWER_ROWS,
        ),
        Rule(
            f"adult: the log loss of ffm, tuned, is that of libffm, {LIBFFM:g}, within {ROUND:g}, or lower.",
            lambda numbers: mean(numbers[ADULT]["ffm, tuned"]["logloss"]) <= LIBFFM + ROUND,
            SEEDS_DIFFER,
        ),
    ],
    run=run,
    tables=tables,
)
