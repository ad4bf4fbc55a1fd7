"""All data sets in one table: fmcli by its defaults and tuned on training rows, beside other programs."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from experiment import Experiment, Numbers, Rule, Table, mean, mean_and_spread
from fitting import Options, best_options, fit, grid, held_out, on_test
from sets.adult import adult_fields
from sets.dense import Columns, Pair, banana, ijcnn, regression, standardised
from sets.movielens import one_hot, u_split
from sets.raw import Raw

from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import METRICS
from fmcli.training import job

SEEDS, HELD_OUT, EPOCHS, PATIENCE, TRAIN_SHARE, CLOSE = 5, 0.2, 40, 4, 0.8, 0.01
IJCNN_TRAIN = 49_990
OF_ROWS = [
    {"solver": "adagrad", "epochs": EPOCHS} | one for one in grid(learning_rate=(0.05, 0.1, 0.2), l2=(1e-6, 1e-5, 1e-4))
]
OF_COLUMNS = [
    {"solver": "cd", "epochs": EPOCHS, "tol": 0} | one
    for one in grid(init_std=(0.01, 0.1), l2_w=(1e-5, 1e-4), l2_v=(1e-4, 2e-4, 1e-3, 1e-2))
]


class Case(NamedTuple):
    """A data set and a model.

    others : what other programs reach on the same test rows, as text.
    tried : the options from which the tuned ones are chosen.
    """

    build: Callable[[Raw], Pair]
    metric: str
    model: str
    loss: str
    others: str
    tried: Sequence[Options]


def of_ratings(raw: Raw) -> Pair:
    return u_split(one_hot(raw), 1)


def of_ijcnn(raw: Raw) -> Pair:
    found = ijcnn(raw)
    rows = np.arange(len(found.x))
    return standardised(found, rows[:IJCNN_TRAIN], rows[IJCNN_TRAIN:])


def at_random(found: Columns) -> Pair:
    """A random TRAIN_SHARE of the rows for training."""
    order = np.random.default_rng(0).permutation(len(found.x))
    return standardised(found, *np.split(order, [round(TRAIN_SHARE * len(order))]))


def of_regression(name: str) -> Callable[[Raw], Pair]:
    return lambda raw: at_random(regression(raw, name))


CASES = {
    "MovieLens 100K, u1": Case(of_ratings, "rmse", "fm", "squared", "libFM als .9230, xLearn .9237", OF_COLUMNS),
    "adult": Case(adult_fields, "logloss", "ffm", "logistic", "libffm .3203, xLearn ffm .3207", OF_ROWS),
    "IJCNN, Table 1 of [LL]": Case(of_ijcnn, "accuracy", "fm", "logistic", "linear .919", OF_ROWS),
    "Banana": Case(lambda raw: at_random(banana(raw)), "accuracy", "llfm", "logistic", "linear .541", OF_ROWS),
    **{
        name: Case(of_regression(name), "rmse", "fm", "squared", "", OF_COLUMNS)
        for name in ("abalone", "cadata", "cpusmall", "diabetes")
    },
}


def repeated(case: Case, options: Options | None, pair: Pair, model: str = "") -> Numbers:
    """The metric on the test rows for several seeds, and the CPU seconds of training; without options: defaults."""
    found: Numbers = {"metric": [], "seconds": []}
    for seed in range(SEEDS):
        begin = time.process_time()
        if options is None:
            spec = make_spec(model or case.model, None, case.loss, {"seed": seed})
            trained = job.train(job.plan(pair.train, spec, holdout=None))
        else:
            trained = fit(case.model, options | {"seed": seed}, pair.train)
        found["seconds"].append(time.process_time() - begin)
        found["metric"].append(on_test([case.metric], trained, pair.test)[case.metric])
    return found


def run(raw: Raw) -> Numbers:
    numbers: Numbers = {}
    for name, case in CASES.items():
        pair = case.build(raw)
        tried = [one | {"loss": case.loss} for one in case.tried]
        parts = [held_out(pair.train.rows, HELD_OUT)]
        chosen, _ = best_options(case.model, tried, pair.train, case.metric, parts, PATIENCE)
        numbers[name] = {
            "linear": repeated(case, None, pair, "linear"),
            "defaults": repeated(case, None, pair),
            "tuned": repeated(case, chosen, pair),
            "options": {key: value for key, value in chosen.items() if key not in ("solver", "loss", "tol")},
        }
    return numbers


def badness(numbers: Numbers, name: str, way: str) -> float:
    """The mean of the metric, with the sign with which smaller is better."""
    return (-1 if METRICS[CASES[name].metric].larger_is_better else 1) * mean(numbers[name][way]["metric"])


def tables(numbers: Numbers) -> list[Table]:
    rows = [
        [
            name,
            case.metric,
            case.others,
            f"{mean(numbers[name]['linear']['metric']):.4g}",
            case.model,
            *(
                cell
                for way in ("defaults", "tuned")
                for cell in (
                    mean_and_spread(numbers[name][way]["metric"], 4 if mean(numbers[name][way]["metric"]) < 1 else 2),
                    f"{mean(numbers[name][way]['seconds']):.2f}",
                )
            ),
        ]
        for name, case in CASES.items()
    ]
    head = ["set", "metric", "others", "linear", "model", "defaults", "s", "tuned", "s"]
    return [Table(f"On test rows (ours: mean and standard deviation of {SEEDS} seeds)", head, rows)]


EXPERIMENT = Experiment(
    name="peers_sets",
    source="Other programs",
    title="all data sets in one table",
    about=f"""
The figures of other programs where there are any for the same rows: the best of libFM, libffm and xLearn (for u1 over
their options, on the test rows), or another library's linear model. `linear` is that of fmcli. Defaults hold out a part
of the training rows of larger sets to choose the epoch; tuned options, with the epoch, are chosen on {HELD_OUT:.0%} of
the training rows. IJCNN has the split of LIBSVM; Banana and the regression sets have a random {TRAIN_SHARE:.0%} for
training; all of these have standardised columns. Seconds are CPU seconds of training.
""",
    rules=[
        Rule(
            "on each set, the model is better by its defaults than the linear model.",
            lambda numbers: all(
                badness(numbers, name, "defaults") < badness(numbers, name, "linear") for name in CASES
            ),
        ),
        Rule(
            f"on each set, tuning does not make the metric worse by more than {CLOSE:.0%}.",
            lambda numbers: all(
                badness(numbers, name, "tuned")
                <= badness(numbers, name, "defaults") + CLOSE * abs(badness(numbers, name, "defaults"))
                for name in CASES
            ),
        ),
    ],
    run=run,
    tables=tables,
)
