"""Training that resumes from an earlier model: exactness, inherited settings, and errors."""

from pathlib import Path

import numpy as np
import pytest
from problems import ROW_SOLVERS
from test_every_pair import planted

from fmcli.errors import BadInputError, UsageError
from fmcli.model_file.container import load, save
from fmcli.registry.specs import make_spec
from fmcli.training import job, saving
from fmcli.training.setup.settings import check_warm_start

SAMPLE = Path(__file__).parent.parent / "sample_data"


def train(rows, spec, **keywords):
    return job.train(job.plan(rows, spec, **keywords))


def saved(path, trained, *, keep_state=True):
    saving.save_model(str(path), trained, job.summary(trained), "libsvm", keep_state=keep_state)
    return str(path)


def labeled(loss):
    rows, _ = planted("fm", {"softmax": "logistic"}.get(loss, loss), rows=4000)
    return rows.changed(label=rows.label + (np.arange(rows.rows) % 2)) if loss == "softmax" else rows


# Combinations of solvers, schedules, batches, penalties and several outputs, in which each occurs at least once.
RUNS = [
    *((solver, "fm", "squared", {}) for solver in ROW_SOLVERS),
    ("sgd", "fm", "softmax", {"schedule": "invscaling", "batch_size": 7, "l1": 1e-3}),
    ("adagrad", "sglfm", "softmax", {"l1_from_epoch": 2, "batch_size": 16}),
    ("ftrl", "shfm", "softmax", {"l1": 0.1, "l1_from_epoch": 2, "batch_size": 3}),
    ("ftrl", "fm", "squared", {"l1": 0.5, "l1_from_epoch": 3}),
    ("ftrl", "hofm", "squared", {"group_l1": 0.1, "l1_from_epoch": 3, "rank": [3, 2]}),
    ("fobos", "glfm", "squared", {"l1_from_epoch": 1, "adaptive": False, "schedule": "inverse", "t0": 100.0}),
    ("fobos", "l1fm", "softmax", {"l1_from_epoch": 2, "adaptive": True, "batch_size": 5}),
    ("adagrad", "llfm", "squared", {"anchors": 3, "rank": 2}),
    ("sgd", "hofm-simplex", "squared", {"shuffle": False}),
    ("adagrad", "fm", "bpr", {"batch_size": 3}),
    ("fobos", "fm", "bpr", {}),
]


@pytest.mark.parametrize(("solver", "model", "loss", "options"), RUNS, ids=["-".join(run[:3]) for run in RUNS])
def test_resuming_after_two_epochs_equals_four_epochs(solver, model, loss, options, tmp_path):
    rows = labeled(loss)
    saved(tmp_path / "whole", train(rows, make_spec(model, solver, loss, {**options, "epochs": 4})))
    first = saved(tmp_path / "first", train(rows, make_spec(model, solver, loss, {**options, "epochs": 2})))
    warm_start = saving.load_warm_start(first)
    resumed = train(rows, warm_start.continued(None, None, None, {"epochs": 2}), warm_start=warm_start)
    second = saved(tmp_path / "second", resumed)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "second").read_bytes()
    before, after = load(first).tensors, load(second).tensors
    assert sum(before[name].tobytes() != after[name].tobytes() for name in before) > 1


def warm_start_of(tmp_path, model="fm", solver=None, loss=None, **options):
    rows, _ = planted("fm", "squared")
    return saving.load_warm_start(saved(tmp_path / "m", train(rows, make_spec(model, solver, loss, options))))


def test_given_options_are_inherited_and_defaults_are_computed_again(tmp_path):
    warm_start = warm_start_of(tmp_path, "fm", "ftrl", "huber", rank=3, l2_v=0.5, alpha=0.2, norm=True, epochs=1)
    spec = warm_start.continued(None, None, None, {})
    assert (spec.model, spec.solver, spec.loss) == ("fm", "ftrl", "huber")
    usual = {**make_spec("fm", "ftrl", "huber").values, "clip": False, "scale_labels": False}
    assert spec.values == {**usual, "rank": 3, "l2_v": 0.5, "alpha": 0.2, "alpha_w": 0.2, "alpha_v": 0.2, "norm": True}
    assert spec.given == {"solver", "rank", "l2_v", "alpha", "norm"}
    assert warm_start.run.changed(spec) == warm_start.run.dropped(spec) == {}
    assert warm_start.run.kept(spec) == {"solver": "ftrl", "alpha": 0.2, "l2_v": 0.5, "norm": True, "rank": 3}


def test_a_given_option_overrides_inherited_refinements(tmp_path):
    warm_start = warm_start_of(tmp_path, l2=0.25, l2_v=0.5, learning_rate=0.5, epochs=1)
    spec = warm_start.continued(None, None, None, {"l2": 0.125})
    assert [spec.values[name] for name in ("l2", "l2_w", "l2_v")] == [0.125] * 3
    assert spec.values["learning_rate"] == 0.5
    assert warm_start.run.changed(spec) == {"l2": (0.25, 0.125), "l2_v": (0.5, 0.125)}
    part = warm_start.continued(None, None, None, {"l2_v": 0.75})
    assert [part.values[name] for name in ("l2_w", "l2_v")] == [0.25, 0.75]


def test_another_solver_has_its_own_options(tmp_path):
    warm_start = warm_start_of(tmp_path, l2=0.25, learning_rate=0.5, epochs=1)
    spec = warm_start.continued(None, "sgd", None, {})
    assert (spec.values["l2"], spec.values["learning_rate"]) == (0.25, make_spec(solver="sgd").values["learning_rate"])
    summed = warm_start.continued(None, "ftrl", None, {})
    assert summed.values["l2"] == make_spec(solver="ftrl").values["l2"] != 0.25, "ftrl's weigh against sums"
    assert warm_start.run.dropped(summed) == {"learning_rate": 0.5}


def test_another_kind_of_the_same_parameters_has_its_own_penalties(tmp_path):
    warm_start = warm_start_of(tmp_path, rank=3, l2=0.25, epochs=1)
    spec = warm_start.continued("sglfm", None, None, {})
    assert (spec.solver, spec.values["rank"]) == ("fobos", 3)
    usual = make_spec("sglfm").values
    others = usual.keys() - {"rank", "clip", "scale_labels"}
    assert {name: spec.values[name] for name in others} == {name: usual[name] for name in others}
    rows, _ = planted("fm", "squared")
    resumed = train(rows, warm_start.continued("sglfm", None, None, {"epochs": 0}), warm_start=warm_start)
    for name, array in resumed.plan.model.parameters.items():
        np.testing.assert_array_equal(array, warm_start.model.parameters[name])


@pytest.mark.parametrize(
    ("model", "loss", "options", "message"),
    [
        ("shfm", None, {}, "a model of kind fm, whose parameters do not fit shfm"),
        ("kernel-basis", None, {}, "is solved from its data"),
        (None, None, {"rank": 5}, "has V of shape .*, this run"),
        (None, None, {"linear": False}, "differ in having w"),
        (None, "logistic", {}, "was trained with loss squared, not logistic"),
        (None, None, {"order": 3}, "order does not apply to fm"),
    ],
)
def test_other_parameters_are_refused(model, loss, options, message, tmp_path):
    warm_start = warm_start_of(tmp_path, epochs=1)
    with pytest.raises(UsageError, match=message):
        check_warm_start(warm_start, warm_start.continued(model, None, loss, options))


def test_new_features_have_the_start_values_of_a_new_run(tmp_path):
    rows, _ = planted("fm", "squared", rows=500)
    known = np.arange(rows.features) % 5 > 0
    first = train(rows.only(known), make_spec("fm", None, None, {"epochs": 1}))
    warm_start = saving.load_warm_start(saved(tmp_path / "m", first))
    resumed = train(rows, warm_start.continued(None, None, None, {"epochs": 0}), warm_start=warm_start)
    fresh = train(rows, make_spec("fm", None, None, {"epochs": 0}))
    before, now, new = (trained.plan.model.parameters["V"][0] for trained in (first, resumed, fresh))
    np.testing.assert_array_equal(now[known], before[first.plan.seen])
    np.testing.assert_array_equal(now[~known], new[~known])
    assert now.all()


def test_a_file_with_inconsistent_components_is_refused(tmp_path):
    warm_start_of(tmp_path, epochs=1)
    file = load(str(tmp_path / "m"))
    file.meta |= {"model": "sglfm", "solver": "lbfgs"}
    save(str(tmp_path / "forged"), file)
    with pytest.raises(BadInputError, match="not a valid model: sglfm needs l1"):
        saving.load_warm_start(str(tmp_path / "forged"))
