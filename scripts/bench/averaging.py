"""Compare steps by sums of all rows with averaging of the parameters of shards, by held-out loss.

    python scripts/bench/averaging.py train.libsvm --shards 2

Each shard of the rows is trained on by itself with AdaGrad, and the parameters of all shards are replaced by their
mean, once or ten times an epoch; each shard keeps its own state of the solver. Beside that are rounds on all rows,
which are what rounds on a cluster compute, and single steps. All have the same held-out rows and start values.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.reader import read
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss
from fmcli.registry.specs import make_spec
from fmcli.scoring.rows import score_rows
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.solvers.stochastic.trainer import make_solver
from fmcli.training import job
from fmcli.training.planning import strengths_of
from fmcli.training.setup.settings import make_model

HELD_OUT, SEED = 0.05, 42
ROUND = 1024


class Shard:
    """The rows of a shard, and a model with its solver."""

    def __init__(self, plan: job.Plan, rows: NDArray[np.intp]) -> None:
        spec, self.plan, self.rows = plan.spec, plan, rows
        self.loss = build_loss(spec, spec.loss or "", 1)
        self.model, self.solver = make_model(spec, plan.data.features, 1, 0), make_solver(spec)
        self.model.allocate(self.solver.slots)
        job.start(replace(plan, model=self.model), self.loss)
        self.solver.bind(self.model, Penalty(**strengths_of(spec)))
        self.solver.start()
        self.loop = RowLoop(self.model, self.solver, self.loss, plan.data)

    def train(self, random: np.random.Generator, parts: int) -> Iterator[None]:
        """Train on the rows in random order; yields after each of so many parts."""
        order = random.permutation(self.rows).astype(np.int32)
        for part in range(parts):
            self.loop.train_on(order, len(order) * part // parts, len(order) * (part + 1) // parts)
            yield


def held_out_loss(model: Model, plan: job.Plan) -> float:
    """The mean logistic loss of the rows that are held out."""
    assert plan.validation is not None
    data = plan.validation.data
    signed, scores = np.where(data.label > 0, 1.0, -1.0), score_rows(model, data)[:, 0]
    return float(np.mean(np.logaddexp(0, -signed * scores)))


def mix(shards: list[Shard]) -> None:
    """Replace the parameters of all shards by their mean."""
    for name in shards[0].model.parameters:
        mean = np.mean([shard.model.parameters[name] for shard in shards], axis=0, dtype=np.float64)
        for shard in shards:
            shard.model.parameters[name][...] = mean


def main() -> None:
    """Print the held-out loss after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 16])
    parser.add_argument("--mixings", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float)
    arguments = parser.parse_args()
    data = read([arguments.train], labels=None).dataset
    random = np.random.default_rng(SEED)
    held, rows = np.split(random.permutation(data.rows).astype(np.int32), [int(HELD_OUT * data.rows)])
    held_out, train = data.take(np.sort(held)), data.take(np.sort(rows))
    options = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate}
    options = {name: value for name, value in options.items() if value is not None}

    def plan(**more: object) -> job.Plan:
        spec = make_spec("fm", "adagrad", None, {**options, **more})
        return job.plan(train, spec, valid=held_out, patience=arguments.epochs)

    def show(name: str, losses: list[float]) -> None:
        print(f"{name:36}" + " ".join(f"{loss:.5f}" for loss in losses), flush=True)

    rounds = job.train(plan(round_size=ROUND))
    show(f"steps by sums of {ROUND} rows", [epoch.valid["logloss"] for epoch in rounds.epochs])
    for count, parts in [(1, 1)] + [(count, parts) for count in arguments.shards for parts in arguments.mixings]:
        chosen, losses = plan(), []
        every = np.random.default_rng(SEED).permutation(train.rows)
        shards = [Shard(chosen, some) for some in np.array_split(every, count)]
        order = np.random.default_rng(SEED)
        for _ in range(arguments.epochs):
            for _ in zip(*(shard.train(order, parts) for shard in shards), strict=True):
                mix(shards)
            losses.append(held_out_loss(shards[0].model, chosen))
        show(f"{count} shards, {parts} mixings an epoch" if count > 1 else "single steps on all rows", losses)


if __name__ == "__main__":
    main()
