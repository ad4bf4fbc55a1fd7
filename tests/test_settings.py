"""The settings of a run are checked before data are read, and the trainer of every solver reports its memory."""

import numpy as np
import pytest
from problems import dataset

from fmcli.errors import UsageError
from fmcli.registry.build import build_trainer
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.account import need_of
from fmcli.training.setup.settings import HoldOut
from reference.slow_solvers import STATE

LABELS = np.tile([1.0, 2.0, 4.0], 10)
DATA = dataset([{0: 1.0 + row % 3, 1: 1.0} for row in range(30)], 2, LABELS)


def test_metrics_that_do_not_fit_are_refused_without_data():
    with pytest.raises(UsageError, match="auc"):
        job.Settings.of(make_spec("fm", loss="squared"), metrics=("auc",))
    with pytest.raises(UsageError, match="sparsity cannot choose"):
        job.Settings.of(make_spec("fm"), metrics=("sparsity",)).check_chooser()
    job.Settings.of(make_spec("fm"), metrics=("sparsity", "rmse")).check_chooser()
    with pytest.raises(UsageError, match="sparsity cannot choose"):
        job.train(job.plan(DATA, make_spec("linear"), valid=DATA, metrics=("sparsity",)))


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({}, 0.0),
        ({"holdout": None}, None),
        ({"holdout": None, "metrics": ("sparsity", "rmse")}, None),
        ({"holdout": None, "metrics": ("sparsity",)}, 0.0),
        ({"holdout": None, "stream": True}, 0.0),
        ({"holdout": 0.2, "stream": True}, 0.2),
    ],
)
def test_the_usual_share_is_held_out_only_if_an_epoch_can_be_chosen(settings, share):
    assert job.Settings.of(make_spec("fm"), **settings).hold_out == HoldOut(share)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_account_of_memory_makes_nothing_that_a_run_needs(solver):
    """The flags of a billion features, whether they occur, are packed until they are needed."""
    plan = job.plan(DATA, make_spec("fm", solver, "squared", {"epochs": 1}))
    assert need_of(plan).total > need_of(plan).held
    assert ("seen" in vars(plan.transform)) == SOLVERS[solver].is_sampler


@pytest.mark.parametrize("solver", [*SOLVERS, None])
def test_a_trainer_reports_its_memory_and_allocates_it_in_prepare(solver):
    options = {"epochs": 1} if solver else {"rank": 3}
    plan = job.plan(DATA, make_spec("fm" if solver else "kernel-basis", solver, "squared", options))
    trainer = build_trainer(plan.task)
    assert 0 < trainer.bytes_needed() <= need_of(plan).total - need_of(plan).held
    trained = job.train(plan)
    assert len(trained.epochs) == trained.best == 1
    assert trained.plan.model.slots == trainer.slots
    assert trainer.slots == len(STATE.get(solver, ()))
    scheduled = solver in SOLVERS and "schedule" in SOLVERS[solver].options
    assert trained.updates == (DATA.rows if scheduled else 0)
