"""Accuracy beside other programs, by the defaults of fmcli and with options tuned on held-out training rows."""

import time
from typing import Any

from experiment import Experiment, Numbers, Rule, Table, mean, mean_and_spread
from fitting import Options, best_options, fit, folds, grid, held_out, on_test
from sets.adult import adult_fields
from sets.dense import Pair
from sets.movielens import one_hot, u_split
from sets.raw import Raw

from fmcli.registry.specs import make_spec
from fmcli.training import job

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
# libFM's penalties are relative to the sum of the losses, so that they mean the same on parts of the rows.
SUMMED = grid(l2_w=(2, 4, 8), l2_v=(9, 12, 15))
CD: Options = {"solver": "cd", "loss": "squared", "rank": 8, "init_std": 0.1, "tol": 0, "epochs": 50}
MCMC: Options = {"solver": "mcmc", "loss": "squared"}
ROWS = grid(learning_rate=(0.05, 0.1, 0.2), l2=(1e-5, 1e-4))
OF_FFM = grid(init_std=(0.1, 0.25, 0.5), learning_rate=(0.1, 0.2, 0.4), l2=(2e-5, 1e-4))
ADAGRAD: Options = {"solver": "adagrad", "loss": "logistic", "epochs": 15}


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
        for metric, value in on_test(METRICS[name], trained, pair.test).items():
            found[metric].append(value)
    return found | {"options": options or {}}


def tuned_cd(pair: Pair) -> Options:
    """Options of cd by cross-validation, with penalties relative to the sum of the losses of the rows trained on."""
    parts = folds(pair.train.rows, FOLDS)
    kept = len(parts[0][0])
    tried = [CD | relative(one, kept) for one in SUMMED]
    chosen, _ = best_options("fm", tried, pair.train, "rmse", parts)
    summed = {name: chosen[name] * kept for name in SUMMED[0]}
    return chosen | relative(summed, pair.train.rows)


def relative(summed: Options, rows: int) -> Options:
    """Penalties relative to the mean of the losses of these rows."""
    return {name: value / rows for name, value in summed.items()}


def best_on_test(pair: Pair) -> Numbers:
    """The lowest and the highest RMSE on the test rows over the options, as ranges of other programs are stated."""
    found = [
        on_test(METRICS[U1], fit("fm", CD | relative(one, pair.train.rows), pair.train), pair.test)["rmse"]
        for one in SUMMED
    ]
    return {"lowest": min(found), "highest": max(found)}


def run(raw: Raw) -> Numbers:
    u1, census = u_split(one_hot(raw), 1), adult_fields(raw)
    parts = [held_out(census.train.rows, HELD_OUT)]
    fm, _ = best_options("fm", [ADAGRAD | one for one in ROWS], census.train, "logloss", parts)
    ffm, _ = best_options("ffm", [ADAGRAD | {"rank": 4} | one for one in OF_FFM], census.train, "logloss", parts)
    return {
        "range": best_on_test(u1),
        U1: {
            "fm, defaults": repeated(U1, "fm", None, u1),
            "fm, mcmc, defaults": repeated(U1, "fm", MCMC, u1),
            "fm, cd, tuned": repeated(U1, "fm", tuned_cd(u1), u1),
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
    over = f"{numbers['range']['lowest']:.4f} - {numbers['range']['highest']:.4f}"
    for name in METRICS:
        ours = numbers[name]
        rows = [[f"fmcli {run}", *(mean_and_spread(one[metric], 4) for metric in METRICS[name]),
                 f"{mean(one['seconds']):.2f}"] for run, one in ours.items()]  # fmt: skip
        rows += [["fmcli fm, cd, over its options, on the test rows", over, ""]] if name == U1 else []
        rows += [[peer, *figures, ""] for peer, figures in PEERS[name].items()]
        found.append(
            Table(
                f"{name} (ours: mean and standard deviation of {SEEDS} seeds)", ["program", *METRICS[name], "s"], rows
            )
        )
    return found


EPOCHS_DIFFER = (
    "The number of epochs. Held-out rows choose 11 epochs, where the log loss on the test rows is past its lowest."
    " With libffm's step size and l2 (0.2, 2e-5; three seeds), it is 0.3203 on the test rows after 6 epochs and 0.3215"
    " after 11 (0.3205 and 0.3218 without linear weights, as libffm has none). So fmcli has libffm's figure as the best"
    " epoch on the test rows, which was perhaps libffm's, too, but held-out rows do not find it."
)

EXPERIMENT = Experiment(
    name="peers",
    source="Other programs",
    title="accuracy on MovieLens 100K and adult",
    about=f"""
The other programs' figures were measured on the same training and test rows; a range is that over their options. Ours
are those of the defaults, which hold out a part of the training rows to choose the epoch, and those of options that
were chosen by {FOLDS}-fold cross-validation (u1) or on {HELD_OUT:.0%} of the training rows (adult). Seconds are CPU
seconds of training. libFM's als, at its best, is the best of its options on the test rows; the same is given for cd.
myFM averages the predictions of 280 of 300 sweeps of Gibbs sampling, and `mcmc` those of 50 draws
from 300 sweeps by default.
""",
    rules=[
        Rule(
            f"u1: the RMSE of fm by cd, tuned, is at most that of libFM's als at its best, {ALS:g}, plus {ROUND:g}.",
            lambda numbers: mean(numbers[U1]["fm, cd, tuned"]["rmse"]) <= ALS + ROUND,
        ),
        Rule(
            f"adult: the log loss of ffm, tuned, is that of libffm, {LIBFFM:g}, within {ROUND:g}, or lower.",
            lambda numbers: mean(numbers[ADULT]["ffm, tuned"]["logloss"]) <= LIBFFM + ROUND,
            EPOCHS_DIFFER,
        ),
    ],
    run=run,
    tables=tables,
    notes="""
The first rule failed in an earlier run (0.9249), in which cross-validation chose penalties relative to the mean of the
losses. On four fifths of the rows, these are a smaller part of the sum of the losses than on all rows. Penalties are
now relative to the sum, as libFM states them.
""",
)
