"""Refit: after held-out rows have determined the number of epochs, the model is trained again on all rows."""

from dataclasses import replace

import numpy as np
import pytest
from problems import dataset, parameters
from test_every_pair import planted

from fmcli.choosing.fitting import Events, fit
from fmcli.cli.train.advice import advice
from fmcli.errors import DivergedError
from fmcli.registry.specs import make_spec
from fmcli.training import job, saving
from fmcli.training.account import need_of
from fmcli.training.setup import settings
from fmcli.training.several import refit
from fmcli.training.validation import LAST_COMPARED

MOST = 40  # epochs


@pytest.fixture(scope="module")
def rows():
    """Rows with so much noise that a model learns it by heart."""
    found = planted("fm", "squared")[0].take(np.arange(1500))
    return found.changed(label=found.label + np.random.default_rng(0).normal(size=1500))


def trained_again(data, model="fm", solver="adagrad", *, plan=None, **options):
    """Return the run that chose the number of epochs, and the refit on all rows."""
    spec = make_spec(model, None if model == "kernel-basis" else solver, None, options)
    chosen = job.train(job.plan(data, spec, **{"holdout": 0.2, **(plan or {})}))
    assert refit.refits(chosen.plan)
    return chosen, refit.refit(chosen, refit.whole(chosen))


@pytest.mark.parametrize(
    ("model", "solver", "options"),
    [
        ("fm", "adagrad", {"epochs": 4, "batch_size": 8}),
        ("ffm", "ftrl", {"epochs": 3}),
        ("poly2", "sgd", {"epochs": 3, "norm": True}),
        ("llfm", "adagrad", {"epochs": 2, "anchors": 3}),
        ("hofm", "fobos", {"epochs": 3, "rank": [3, 2]}),
        ("fm", "cd", {"epochs": 20, "tol": 0.0}),
        ("fm", "lbfgs", {"epochs": 5}),
        ("kernel-basis", None, {"rank": 60}),
    ],
)
def test_refit_equals_training_on_all_rows_for_the_chosen_epochs(rows, model, solver, options):
    data = rows.changed(field=rows.index % 3) if model == "ffm" else rows
    chosen, again = trained_again(data, model, solver, **options)
    if solver == "cd":
        assert 1 <= chosen.best < len(chosen.epochs)
    values = dict(chosen.plan.spec.values)
    epochs = {} if model == "kernel-basis" else {"epochs": chosen.best}
    given = {name: value for name, value in values.items() if name in (*options, "l2_w", "l2_v")} | epochs
    plain = job.train(job.plan(data, make_spec(model, solver, None, given)))
    for name, array in parameters(plain.plan.model).items():
        np.testing.assert_array_equal(array, again.plan.model.parameters[name])
    assert again.updates == plain.updates
    figures, before = job.summary(again), job.summary(chosen)
    assert (figures["refit"], before["refit"]) == (True, False)
    assert (figures["rows"], before["rows"]) == (1500, 1200)
    for name in ("valid", "valid_constant", "epochs", "best_epoch"):
        assert figures[name] == before[name]
    assert figures["train"] == job.summary(plain)["train"] != before["train"]
    assert figures["loss"] == plain.epochs[-1].loss
    assert again.plan.spec == chosen.plan.spec
    assert list(advice(again)) == []


@pytest.mark.parametrize(
    ("model", "solver", "options"),
    [
        ("fm", "adagrad", {"learning_rate": 1.0}),
        ("fm", "sgd", {"learning_rate": 0.01}),
        ("linear", "ftrl", {"alpha": 5.0}),
    ],
)
def test_the_best_of_the_last_epochs_is_kept(rows, model, solver, options):
    """Large steps lead away from the minimum in some epochs: here, the last one is not the best of the last ones, and
    the best one of all is not among them."""

    def plain(epochs):
        return job.train(job.plan(rows, make_spec(model, solver, None, {"epochs": epochs, **options})))

    def best(epochs):
        return min(epochs, key=losses.__getitem__)

    def last(epochs):
        return range(epochs - LAST_COMPARED + 1, epochs + 1)

    losses = {epochs: job.summary(plain(epochs))["train"]["rmse"] for epochs in range(1, MOST + 1)}
    epochs = next(
        epochs
        for epochs in range(LAST_COMPARED, MOST + 1)
        if len({epochs, best(last(epochs)), best(range(1, epochs + 1))}) == 3
    )
    spec = make_spec(model, solver, None, {"epochs": MOST, **options})
    chosen = job.train(replace(job.plan(rows, spec, holdout=0.2), refit_epochs=epochs))
    again = refit.refit(chosen, refit.whole(chosen))
    assert len(again.epochs) == epochs
    assert again.best == best(last(epochs))
    kept = plain(again.best)
    figures, before = job.summary(again), job.summary(chosen)
    assert figures["train"]["rmse"] == losses[again.best] < losses[epochs]
    assert figures["valid"] == before["valid"]
    assert again.updates == kept.updates
    for name, array in parameters(kept.plan.model).items():
        np.testing.assert_array_equal(array, again.plan.model.parameters[name])
        for ours, theirs in zip(again.plan.model.states[name], kept.plan.model.states[name], strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("keep_state", [True, False])
def test_the_memory_of_a_refit_has_a_copy_of_its_best_epoch(keep_state):
    rows = [dict.fromkeys(range(row, 8000, 40), 0.1) for row in range(40)]  # more of the model than of these
    data = dataset(rows, 8000, np.arange(40.0))
    spec = make_spec("fm", "ftrl", "squared", {"epochs": 2})
    again = refit.whole(job.train(job.plan(data, spec, holdout=0.2, keep_state=keep_state)))
    assert again.compares_last
    copied = again.model.bytes_needed(again.slots if keep_state else 0)
    # Without it, another part of the run takes the most.
    assert 0.8 * copied < need_of(again).total - need_of(replace(again, compares_last=False)).total <= copied


def test_refit_resumes_from_the_same_earlier_model(rows, tmp_path):
    path = str(tmp_path / "m")
    spec = make_spec("fm", "adagrad", None, {"epochs": 2})
    saving.save_model(path, job.train(job.plan(rows, spec)), {}, "libsvm", keep_state=True)
    warm_start = saving.load_warm_start(path)
    chosen, again = trained_again(rows, epochs=2, plan={"warm_start": warm_start})
    plain = job.train(job.plan(rows, make_spec("fm", "adagrad", None, {"epochs": chosen.best}), warm_start=warm_start))
    for name, array in parameters(plain.plan.model).items():
        np.testing.assert_array_equal(array, again.plan.model.parameters[name])
        for ours, theirs in zip(again.plan.model.states[name], plain.plan.model.states[name], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_the_default_refit_needs_held_out_rows_and_a_short_run(rows, monkeypatch):
    def planned(**keywords):
        return job.plan(rows, make_spec("fm", options={"epochs": 4, "rank": 5}), **keywords)

    held = planned(holdout=0.2)
    work = rows.nnz * 5
    for limit, cheap in ((work, True), (work - 1, False)):
        monkeypatch.setattr(settings, "AFFORDABLE", limit)
        assert refit.refits(held) == cheap
    assert refit.refits(planned(holdout=0.2, refit=True))
    assert not refit.refits(planned(holdout=0.2, refit=False))
    assert not refit.refits(planned(refit=True))
    assert not refit.refits(planned(valid=rows, refit=True))
    assert not refit.refits(job.plan(rows, make_spec("fm", options={"epochs": 0}), holdout=0.2, refit=True))


def test_if_the_refit_diverges_the_first_run_is_kept():
    """The only row with a value that is far too large is held out."""
    label = [1.0, 3.0] * 10
    for row in range(20):
        entries = [{0: 1e3 if number == row else 0.01} for number in range(20)]
        spec = make_spec("linear", "sgd", "squared", {"learning_rate": 0.01})
        plan = job.plan(dataset(entries, 1, label), spec, holdout=0.2)
        if row not in plan.rows:
            break
    chosen = job.train(plan)
    before = parameters(plan.model)
    with pytest.raises(DivergedError) as caught:
        refit.refit(chosen, refit.whole(chosen))
    assert caught.value.trained is chosen
    np.testing.assert_array_equal(parameters(plan.model)["w"], before["w"])


class Heard(Events):
    """Keeps the events of a run."""

    def __init__(self):
        self.names = []

    def comparing(self, plan):
        self.names.append("comparing")

    def compared(self, searched):
        self.names.append("compared")

    def planned(self, plan, searched, *, again):
        self.names.append(f"planned {again}")

    def observed(self, plan, *, again, member=0):
        self.names.append(f"observed {again} {member}")
        return super().observed(plan, again=again, member=member)

    def chosen(self, trained, *, again):
        self.names.append(f"chosen {trained.best}")

    def refitting(self, plan):
        self.names.append(f"refitting {plan.spec.values['epochs']}")

    def refitted(self, trained):
        self.names.append(f"refitted {len(trained.epochs)}")


def test_a_run_tells_its_events_in_their_order(rows):
    spec, begins = make_spec("fm", "adagrad", None, {"epochs": 4}), ["comparing", "compared"]
    heard, plan = Heard(), job.plan(rows, spec, holdout=0.2, refit=True)
    _, figures = fit(plan, heard)
    best = figures["best_epoch"]
    ends = [f"chosen {best}", f"refitting {best}", "observed True 0", f"refitted {best}"]
    assert heard.names == [*begins, "planned True", "observed False 0", *ends]
    alone, members = Heard(), Heard()
    fit(job.plan(rows, spec), alone)
    assert alone.names == [*begins, "planned False", "observed False 0", "chosen 4"]
    fit(job.plan(rows, spec), members, 2)
    assert sorted(members.names[2:]) == ["observed False 1", "observed False 2", "planned False"]
