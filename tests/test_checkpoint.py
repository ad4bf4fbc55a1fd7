"""Checkpoints: a run that continues from one ends with the same bytes as a run that was not disturbed."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from problems import ROW_SOLVERS
from test_nights import in_nights, planted
from test_resuming import labeled, saved
from test_stored_rows import small, stored  # noqa: F401 (a fixture)

from fmcli.data.dataset import Dataset
from fmcli.data.stored.cache import Cache
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic import trainer as stochastic
from fmcli.training import job, saving
from fmcli.training.checkpoint import Checkpoint
from fmcli.training.planning import prepare
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.stored import rows_of_cache
from fmcli.training.several.refit import refit, refits, whole


class Killed(BaseException):
    """The process has ended."""


class Dying(Checkpoint):
    """A checkpoint of a process that dies after the next pauses; the last pause writes it."""

    left = 0

    def pause(self, ends):
        self.left -= 1
        if self.left == 0:
            self.write()
            raise Killed


@dataclass
class Command:
    """What the command does, in as many processes as needed."""

    rows: object
    spec: object
    settings: dict
    path: str

    def plan(self):
        if isinstance(self.rows, Cache):
            return prepare(Settings.of(self.spec, **self.settings), rows_of_cache(self.rows))
        return job.plan(self.rows, self.spec, **self.settings)

    def run(self, left=0):
        """Train, and die after `left` pauses, if there are as many."""
        plan = self.plan()
        keeper = Dying(self.path, np.inf)
        keeper.left = left
        if os.path.exists(self.path):
            keeper.read()
        keeper.belongs_to(plan, refits(plan))
        trained = job.train(plan, keeper=keeper)
        if refits(plan):
            trained = refit(trained, whole(trained), keeper=keeper)
        return trained


# After how many pauses processes die; an epoch of row solvers has about 80 of them, others have one.
BY_ROWS, BY_EPOCHS = (1, 40, 83, 29), (1, 2, 1, 3)
HELD_OUT = {"holdout": 0.3, "patience": 2}
RUNS = {
    "sgd": ("sgd", "fm", "squared", {"schedule": "invscaling"}, {}),
    "adagrad": ("adagrad", "fm", "squared", {"batch_size": 3}, {}),
    "ftrl": ("ftrl", "shfm", "softmax", {"l1": 0.1, "l1_from_epoch": 2}, {}),
    "fobos": ("fobos", "glfm", "squared", {"schedule": "inverse", "l1_from_epoch": 1, "adaptive": False}, {}),
    "fobos-adaptive": ("fobos", "l1fm", "softmax", {"l1_from_epoch": 2, "adaptive": True}, {}),
    "fobos-exact": ("fobos", "sglfm", "squared", {"schedule": "invscaling", "prox": "exact", "adaptive": False}, {}),
    "pairs": ("adagrad", "fm", "bpr", {"batch_size": 3}, {"holdout": 0.3}),
    "rounds": ("ftrl", "fm", "squared", {"round_size": 2}, {}),
    "disk": ("fobos", "fm", "squared", {"l1": 1e-3}, {"holdout": 0.3}),
    "disk-rounds": ("adagrad", "fm", "squared", {"round_size": 2}, {"holdout": 0.3}),
    "disk-lbfgs": ("lbfgs", "fm", "squared", {}, {}),
    "llfm": ("adagrad", "llfm", "squared", {"anchors": 3, "rank": 2}, {}),
    "cd": ("cd", "fm", "softmax", {"l1": 1e-3, "l1_from_epoch": 3, "tol": 0.0}, {"holdout": 0.3, "patience": 9}),
    "cd-llfm": ("cd", "llfm", "squared", {"anchors": 3, "rank": 2}, {}),
    "cd-pn": ("cd", "pn", "squared", {"nuclear": 0.01}, {}),
    "mcmc": ("mcmc", "fm", "squared", {"burn_in": 2, "draws": 3}, {"holdout": 0.3, "refit": False}),
    "mcmc-ordinal": ("mcmc", "linear", "ordinal", {"burn_in": 2, "draws": 2}, {}),
    "mcmc-llfm": ("mcmc", "llfm", "probit", {"anchors": 3, "rank": 2, "draws": 2}, {"holdout": 0.3}),
    "lbfgs": ("lbfgs", "hofm-simplex", "squared", {"epochs": 25}, {}),
    "lbfgs-llfm": ("lbfgs", "llfm", "softmax", {"anchors": 3, "rank": 2, "epochs": 25}, {}),
    "early stopping": ("adagrad", "fm", "squared", {"learning_rate": 0.5, "epochs": 9}, {**HELD_OUT, "refit": False}),
    "refit": ("fobos", "fm", "squared", {}, HELD_OUT),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(name, tmp_path, monkeypatch, request):
    solver, model, loss, options, settings = RUNS[name]
    monkeypatch.setattr(stochastic, "CHUNK_NONZEROS", 300)
    rows = labeled(loss)
    if name == "early stopping":  # labels from which nothing can be learned
        rows = rows.changed(label=np.random.default_rng(2).permutation(rows.label))
    if name.startswith("disk"):
        request.getfixturevalue("small")
        rows = stored(tmp_path / "cache", rows)
    spec = make_spec(model, solver, loss, {"epochs": 3 if solver in ROW_SOLVERS else 7, **options})
    whole_run = Command(rows, spec, settings, str(tmp_path / "none")).run()
    assert whole_run.exhausted == (name == "early stopping")
    command, places = Command(rows, spec, settings, str(tmp_path / "checkpoint")), []
    for left in 20 * (BY_ROWS if spec.by_rows else BY_EPOCHS):
        try:
            trained = command.run(left)
            break
        except Killed:
            places.append(left)
    assert len(places) > 3
    assert trained.continued or trained.chosen_by.continued
    saved(tmp_path / "whole", whole_run)
    saved(tmp_path / "continued", trained)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "continued").read_bytes()
    assert [epoch.loss for epoch in trained.epochs] == [epoch.loss for epoch in whole_run.epochs]


def test_an_update_that_is_killed_ends_with_the_same_bytes_if_its_factors_have_begun_anew(tmp_path):
    X, y = planted(np.random.default_rng(0), 40, 40, 0.5, rows=9600)
    before, path = slice(0, 1800), str(tmp_path / "m.fm")
    options = {"model": "fm", "solver": "cd", "look": False, "scale_labels": False}
    in_nights(X[before], y[before], update={}, nights=3, **options).save(path)
    new = X[1800:2400]
    rows = Dataset(new.indptr.astype(np.int64), new.indices, None, y[1800:2400], new.shape[1])

    def update(checkpoint, left=0):
        warm_start = saving.load_warm_start(path)
        spec = warm_start.continued(None, None, None, {"epochs": 3})
        return Command(rows, spec, {"warm_start": warm_start}, str(tmp_path / checkpoint)).run(left)

    whole_run = update("none")
    assert whole_run.plan.earlier.begun
    with pytest.raises(Killed):
        update("checkpoint", left=2)
    continued = update("checkpoint")
    assert continued.continued
    assert (
        Path(saved(tmp_path / "whole", whole_run)).read_bytes() == Path(saved(tmp_path / "c", continued)).read_bytes()
    )


def test_a_run_that_ends_by_an_exception_ends_the_thread_that_reads_ahead(tmp_path, monkeypatch, small):  # noqa: F811
    """At once: if that were left to the garbage collector, this might wait for the thread in one that is starting."""
    monkeypatch.setattr(stochastic, "CHUNK_NONZEROS", 300)
    spec, before = make_spec("fm", "adagrad", "squared", {"epochs": 2}), set(threading.enumerate())
    command = Command(stored(tmp_path / "cache", labeled("squared")), spec, {}, str(tmp_path / "c"))
    with pytest.raises(Killed) as killed:
        command.run(left=5)
    assert killed.tb is not None  # whose frames refer to the run
    assert set(threading.enumerate()) <= before
