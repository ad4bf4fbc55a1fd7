"""[SH] section 4.4: sparsity and quality by λ1, for models trained by FTRL-Proximal.

    python scripts/papers/sh_sparsity.py TRAIN TEST [--epochs N]

Prints λ1, sparsity, log loss and AUC on TEST for fm and shfm, and whether sparsity increases with λ1 from below 0.01 to
at least 0.99, and whether for some λ1 sparsity is at least 0.5 and the AUC is lower by at most 0.001 than with the
smallest λ1. Requires the [dev] extras.
"""

import argparse

from sklearn.metrics import log_loss, roc_auc_score

from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.scoring.prediction import probability
from fmcli.scoring.rows import score_rows
from fmcli.scoring.sparsity import model_sparsity
from fmcli.training import job

LAMBDAS = (0.0, 0.1, 1.0, 10.0, 30.0, 100.0, 1000.0, 10000.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    train, test = read([given.train]).dataset, read([given.test]).dataset
    for model in ("fm", "shfm"):
        print(f"{model:5}  {'lambda1':>8}  sparsity  log loss     AUC")
        points = []
        for l1 in LAMBDAS:
            spec = make_spec(model, "ftrl", "logistic", {"l1": l1, "epochs": given.epochs})
            trained = job.train(job.plan(train, spec))
            plan = trained.plan
            scores = score_rows(plan.model, test)[:, 0]
            positive = test.label == plan.preprocessing.labels.values[1]
            points.append((model_sparsity(plan.model), roc_auc_score(positive, scores)))
            loss = log_loss(positive, probability(scores))
            print(f"{'':5}  {l1:8g}  {points[-1][0]:8.4f}  {loss:8.4f}  {points[-1][1]:.4f}", flush=True)
        sparsities = [sparsity for sparsity, _ in points]
        rises = sparsities == sorted(sparsities) and sparsities[0] < 0.01 and sparsities[-1] >= 0.99
        cheap = any(sparsity >= 0.5 and auc >= points[0][1] - 0.001 for sparsity, auc in points)
        print(
            f"       sparsity rises: {'pass' if rises else 'FAIL'}; "
            f"half the weights for nothing: {'pass' if cheap else 'FAIL'}"
        )


if __name__ == "__main__":
    main()
