"""[SH] A variant of section 4.3: softmax with plain and with strongly hierarchical models, by batch size.

    python scripts/papers/sh_softmax.py TRAIN TEST [--epochs N]

TRAIN and TEST have classes as labels. The paper's data are private; MovieLens 100K, with ratings 1 to 5 and attributes
of users and films, can be used instead. Prints Micro-F1, Macro-F1 (the mean of the F1 of each class) and the paper's
Macro-F1 (F1 of the mean precision and the mean recall) on TEST for linear, anova, fm, shfm and sha2, trained by
FTRL-Proximal in batches of 1, 16 and 64 rows. The epoch is chosen on 5 % of TRAIN. The gradient of a batch is a mean,
so that the step size alpha increases with the batch size; rank and number of epochs are those of the paper.
"""

import argparse
import time
from itertools import product

import numpy as np

from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.validation import Validation

MODELS = ("linear", "fm", "anova", "shfm", "sha2")
ALPHA = {1: 0.05, 16: 0.1, 64: 0.2}  # by batch size
METRICS = ("micro-f1", "macro-f1", "macro-f1-pr", "logloss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--epochs", type=int, default=10)
    given = parser.parse_args()
    train, test = read([given.train]).dataset, read([given.test]).dataset
    share = np.unique(test.label, return_counts=True)[1].max() / test.rows
    print(f"the most frequent class everywhere: micro-f1 {share:.4f}")
    print("model   batch  alpha  epoch  micro-f1  macro-f1  macro-f1-pr  logloss  s/epoch")
    for model, (batch, alpha) in product(MODELS, ALPHA.items()):
        options = {"alpha": alpha, "epochs": given.epochs, "batch_size": batch}
        if model != "linear":
            options["rank"] = 10
        begin = time.perf_counter()
        spec = make_spec(model, "ftrl", "softmax", options)
        trained = job.train(job.plan(train, spec, holdout=None))
        seconds = (time.perf_counter() - begin) / len(trained.epochs)
        plan = trained.plan
        prepared = test.within(plan.data.features).changed(label=plan.preprocessing.labels.encode(test.label))
        micro, macro, macro_pr, logloss = Validation(prepared, "softmax", METRICS, 0).measure(plan.model).values()
        print(
            f"{model:7} {batch:5} {alpha:6g} {trained.best:6} {micro:9.4f} {macro:9.4f} {macro_pr:12.4f} "
            f"{logloss:8.4f} {seconds:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
