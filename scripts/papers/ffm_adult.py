"""Field-aware factorization machines compared with factorization machines, on adult and MovieLens.

    python scripts/papers/ffm_adult.py FOLDER

FOLDER has adult/{train,test}.ffm (adult, one-hot, 14 fields) and ml-100k/side.u1.bin.{train,test}.ffm (MovieLens 100K,
fold u1, with the attributes of users and movies in 8 fields; the label is whether the rating is 4 or more). Prints log
loss and AUC on the test data:

- fm and ffm with the defaults of the command line;
- both models tuned: the learning rate, initial standard deviation and l2 with the best log loss on a held-out fifth of
  the training data; the model is then trained on all training data for the best number of epochs found there;
- ffm with the settings of libffm: neither bias nor linear weights, initial factors uniform in [0, 1/sqrt(k)], learning
  rate 0.2, l2 2e-5; the number of epochs is chosen in the same way.

Results (log loss and AUC) of other programs on the same adult data: libffm with k = 4: .3203 and .9048; xLearn ffm:
.3207 and .9045; xLearn fm: .3242 and .9025.
"""

import argparse
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.prediction import load_model
from fmcli.training import job
from fmcli.training.job import Trained
from fmcli.training.saving import load_warm_start, save_model

SETS = {"adult": "adult/{}.ffm", "ml-100k": "ml-100k/side.u1.bin.{}.ffm"}
GRID = {"learning_rate": (0.05, 0.1, 0.2), "init_std": (0.1, 0.3), "l2": (1e-5, 1e-4)}
LONGEST, FOLD = 25, 0.2
LIBFFM = {"bias": False, "linear": False, "learning_rate": 0.2, "l2": 2e-5, "rank": 4}


@dataclass
class Problem:
    """Training rows and test rows."""

    name: str
    train: Dataset
    test: Dataset

    def run(
        self, model: str, options: dict[str, float], holdout: float | None, warm_start: str | None = None
    ) -> Trained:
        spec = make_spec(model, "adagrad", "logistic", options)
        plan = job.plan(
            self.train, spec, holdout=holdout, warm_start=load_warm_start(warm_start) if warm_start else None
        )
        return job.train(plan)

    def report(self, what: str, trained: Trained, options: dict[str, float]) -> None:
        """Print the metrics of a saved model on the test data."""
        with tempfile.TemporaryDirectory() as folder:
            scorer = load_model(write(trained, folder))
        test = self.test.within(scorer.model.features)
        label = scorer.labels.encode(test.label)
        found = measure(["logloss", "auc"], Outcome("logistic", label, scorer.scores(test)))
        chosen = ", ".join(f"{name} {value:g}" for name, value in options.items())
        print(
            f"{self.name:8} {what:12} {found['logloss']:.4f} {found['auc']:.4f} {trained.best:6}  {chosen}", flush=True
        )


def write(trained: Trained, folder: str) -> str:
    """Write a model file."""
    path = str(Path(folder) / "model")
    save_model(path, trained, job.summary(trained), "ffm")
    return path


def tuned(problem: Problem, model: str) -> None:
    """Choose options and the number of epochs on held-out rows, then train on all rows."""
    best: tuple[float, int, dict[str, float]] = (np.inf, 0, {})
    for values in itertools.product(*GRID.values()):
        options = dict(zip(GRID, values, strict=True))
        trained = problem.run(model, {**options, "epochs": LONGEST}, FOLD)
        best = min(best, (trained.epochs[trained.best - 1].valid["logloss"], trained.best, options), key=lambda b: b[0])
    _, epochs, options = best
    problem.report(f"{model}, tuned", problem.run(model, {**options, "epochs": epochs}, 0.0), options)


def as_libffm(problem: Problem) -> None:
    """Train with libffm's initial values, which an untrained model file provides, for the best number of epochs on
    held-out rows."""
    start = problem.run("ffm", {**LIBFFM, "epochs": 0}, 0.0)
    factors = start.plan.model.parameters["V"]
    uniform = np.random.default_rng(0).uniform(0, 1 / np.sqrt(LIBFFM["rank"]), factors.shape)
    factors[...] = np.where(factors != 0, uniform, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = write(start, folder)
        epochs = problem.run("ffm", {**LIBFFM, "epochs": LONGEST}, FOLD, path).best
        trained = problem.run("ffm", {**LIBFFM, "epochs": epochs}, 0.0, path)
    problem.report("as libffm", trained, LIBFFM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print("data     model       logloss    auc  epochs  options")
    for name, path in SETS.items():
        train, test = (read([str(folder / path.format(part))], keep_fields=True).dataset for part in ("train", "test"))
        problem = Problem(name, train, test)
        for model in ("fm", "ffm"):
            problem.report(model, problem.run(model, {}, None), {})
        for model in ("fm", "ffm"):
            tuned(problem, model)
        as_libffm(problem)


if __name__ == "__main__":
    main()
