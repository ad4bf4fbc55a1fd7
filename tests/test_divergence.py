"""Runs whose result is not finite, or far worse than a constant prediction, raise DivergedError."""

import numpy as np
import pytest
from problems import dataset, grouped
from test_every_pair import planted

from fmcli.errors import DivergedError
from fmcli.registry.build import build_loss
from fmcli.registry.losses import LOSSES
from fmcli.registry.remedies import diverged
from fmcli.registry.specs import make_spec
from fmcli.training import job, saving
from fmcli.training.baseline import Baseline, baseline_of, beats
from fmcli.training.divergence import MOST_AT_END

# One feature, which is always 1: an sgd step multiplies the error of a row by 1 - rate.
ROWS = [{0: 1.0}] * 40
LABELS = {
    "real": [1.0, 3.0] * 20,
    "counts": [1.0, 3.0] * 20,
    "binary": [1.0, -1.0] * 20,
    "soft": [1.0, 0.25] * 20,
    "classes": [0.0, 1, 2, 1] * 10,
    "order": [1.0, 3.0] * 20,
}


def plan(rate, loss="squared", *, labels=None, epochs=3, solver="sgd", keywords=None, **options):
    labels = LABELS[LOSSES[loss].task] if labels is None else labels
    options |= {"epochs": epochs, "l2": 0.0} | ({"learning_rate": rate} if solver == "sgd" else {})
    spec = make_spec("linear", solver, loss, options)
    return job.plan(grouped(dataset(ROWS, 1, labels)), spec, **(keywords or {}))


def test_a_loss_that_rises_far_above_the_constants_is_divergence():
    seen = []
    with pytest.raises(DivergedError, match=r"epoch 2; the best constant has 0.5.* learning_rate 0.01 ") as caught:
        job.train(plan(2.2, bias=False, epochs=5), on_epoch=seen.append)
    assert len(seen) == 1
    assert seen[0].loss > 1000 * 0.5
    assert caught.value.trained is None


def test_a_single_epoch_is_judged_by_the_model_that_it_leaves():
    with pytest.raises(DivergedError, match=r"the model's loss on the training rows is .*, the best constant's 0.5"):
        job.train(plan(2.2, bias=False, epochs=1))
    assert job.train(plan(2.2, bias=False, epochs=1, keywords={"stream": True})).best == 1
    with pytest.raises(DivergedError, match="epoch 2"):
        job.train(plan(2.2, bias=False, epochs=3, keywords={"stream": True}))


@pytest.mark.parametrize("solver", ["sgd", "fobos"])
@pytest.mark.parametrize(("model", "scale"), [("fm", "none"), ("fm", "standard"), ("pn", "none")])
def test_default_steps_are_fit_for_outliers(solver, model, scale):
    """Columns with a heavy tail, as in real standardized data, on which the usual step size diverges."""
    generator = np.random.default_rng(5)
    values = generator.standard_t(3, (2000, 8))
    values[::500] *= 8
    values /= values.std(axis=0)
    label = values @ generator.normal(size=8) + 0.1 * values[:, 0] * values[:, 1]
    data = dataset([dict(enumerate(row)) for row in values.tolist()], 8, label.tolist())
    options = {"scale": scale, "epochs": 5}
    with pytest.raises(DivergedError):
        job.train(job.plan(data, make_spec(model, solver, options={**options, "learning_rate": 0.01})))
    trained = job.train(job.plan(data, make_spec(model, solver, options=options)))
    rmse = trained.plan.evaluation.measure(trained.plan.model, trained.outcome)["rmse"]
    assert rmse < 0.5 * label.std()
    # With rows of unit length there are no outliers, and the usual step size is the default.
    normed = job.plan(data, make_spec(model, solver, options={**options, "norm": True}))
    assert normed.spec.values["learning_rate"] == 0.01


def test_a_loss_slightly_above_the_constant_is_not_divergence():
    """With these steps, the error of the last row stays about the same."""
    trained = job.train(plan(1.5, bias=False))
    assert 1 < trained.epochs[-1].loss / trained.baseline.loss < MOST_AT_END


def test_start_values_are_not_judged_unless_they_are_not_finite():
    far = plan(0.1, labels=[100.0, 101.0] * 20, bias=False, epochs=0)
    assert job.train(far).best == 0
    with pytest.raises(DivergedError, match="start values have a parameter that is not a finite number"):
        job.train(job.plan(dataset([{0: 1.0}, {1: 1.0}], 2, [0.0, 1.0]), make_spec("fm", options={"init_std": 1e300})))
    with pytest.raises(DivergedError, match=r"labels have values up to 1e\+300, too large for parameters"):
        job.train(plan(0.1, labels=[1e300, 1.0] * 20, epochs=0))


def test_labels_that_are_all_the_same_give_no_measure():
    assert job.train(plan(2.2, labels=[5.0] * 40, bias=False)).best == 3


def test_an_epoch_that_validation_found_better_is_kept_only_if_it_is_good():
    data = dataset([{0: 1.0}] * 3, 1, [1.0, 2, 3])
    with pytest.raises(DivergedError) as caught:
        job.train(plan(2.2, bias=False, keywords={"valid": data}))
    assert caught.value.trained is None
    good = plan(0.1, epochs=6, keywords={"valid": data, "patience": 6})
    with pytest.raises(DivergedError, match="epoch 3") as caught:
        job.train(good, on_epoch=lambda epoch: good.model.parameters["w"].fill(1e9) if epoch.number == 2 else None)
    assert caught.value.trained.best in (1, 2)
    assert np.abs(good.model.parameters["w"]).max() < 10


@pytest.mark.parametrize(
    ("loss", "solver"),
    [
        (loss, solver)
        for loss in LOSSES
        for solver in ("sgd", "cd", "lbfgs")
        if not LOSSES[loss].drawn and (solver == "sgd" or (LOSSES[loss].smooth and not LOSSES[loss].pairwise))
    ],
)
def test_an_earlier_model_that_is_not_finite_is_not_written_again(loss, solver, tmp_path):
    trained = job.train(plan(0.1, loss, epochs=1))
    path = str(tmp_path / "m")
    trained.plan.model.parameters["w"][..., 0] = np.nan
    saving.save_model(path, trained, {}, "libsvm")
    warm_start = saving.load_warm_start(path)
    for epochs in (0, 2):
        with pytest.raises(DivergedError, match=f"{path} has a parameter that is not a finite number"):
            job.train(plan(0.1, loss, epochs=epochs, solver=solver, keywords={"warm_start": warm_start}))


def test_scores_that_overflow_are_not_saved():
    """The product of finite factors and values overflows."""
    huge = dataset([{0: 1e30, 1: 1e30}, {0: 1.0}], 2, [-1.0, 1.0])
    spec = make_spec("fm", "sgd", "hinge", {"epochs": 0, "init_std": 1e30})
    with pytest.raises(DivergedError, match="the start values give a training row a score") as raised:
        job.train(job.plan(huge, spec))
    assert raised.value.options.keys() == {"init_std", "scale"}


def test_state_that_is_not_finite_is_not_saved(tmp_path):
    trained = job.train(plan(0.1, epochs=1, solver="adagrad"))
    trained.plan.model.states["w"][0][...] = np.inf
    path = tmp_path / "m"
    with pytest.raises(DivergedError, match="state, which would be saved with the model, is not finite"):
        saving.save_model(str(path), trained, {}, "libsvm", keep_state=True)
    assert not path.exists()
    saving.save_model(str(path), trained, {}, "libsvm")


@pytest.mark.parametrize(
    ("loss", "label", "scores", "value"),
    [
        ("squared", [1.0, 1, 4], [2.0], 1.0),
        ("logistic", [1.0, 1, 1, -1], [np.log(3)], np.log(4) - 0.75 * np.log(3)),
        ("logistic", [1.0, -1], [0.0], np.log(2)),
        ("hinge", [1.0, -1, -1], [-1.0], 1.0),
    ],
)
def test_the_best_constant(loss, label, scores, value):
    of_labels = job.plan(dataset(ROWS[: len(label)], 1, label), make_spec("linear", loss=loss))
    baseline = baseline_of(
        of_labels, build_loss(of_labels.spec, of_labels.transform.labels.loss, of_labels.transform.labels.outputs)
    )
    np.testing.assert_allclose(baseline.scores, scores)
    assert baseline.loss == pytest.approx(value, rel=1e-6)


def test_the_constant_is_measured_on_validation_rows():
    data, test = planted("linear", "squared")
    judged = job.plan(data, make_spec("linear"), valid=test, metrics=("rmse", "r2", "sparsity")).validation
    found = Baseline(np.array([2.0]), 1.0).measure(judged)
    assert found.keys() == {"rmse", "r2"}
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((test.label - 2) ** 2)))


def test_better_than_the_constant():
    assert beats("rmse", 1.0, 1.1)
    assert not beats("rmse", 1.1, 1.1)
    assert beats("auc", 0.6, 0.5)
    assert not beats("auc", 0.5, 0.5)
    assert beats("auc", np.nan, 0.5)


@pytest.mark.parametrize(
    ("solver", "scale", "remedies"),
    [
        (
            "sgd",
            "none",
            "try a smaller step: learning_rate 0.22 (it was 2.2), or scale the features with scale standard",
        ),
        ("sgd", "standard", "try a smaller step: learning_rate 0.22 (it was 2.2)"),
        (
            "sgd -v",
            "standard",
            "try smaller steps: learning_rate 0.22 (it was 2.2), learning_rate_v 0.5 (it was 5)",
        ),
        ("ftrl", "standard", "try smaller steps: alpha 0.01 (it was 0.1), alpha_v 0.005 (it was 0.05)"),
        ("cd", "none", "scale the features with scale standard"),
        ("cd", "max-abs", "look for labels and values that are far too large"),
    ],
)
def test_suggested_options_are_not_in_use_yet(solver, scale, remedies):
    steps = {"sgd": {"learning_rate": 2.2}, "sgd -v": {"learning_rate": 2.2, "learning_rate_v": 5}}.get(solver, {})
    error = diverged(make_spec("fm", solver.split()[0], options={"scale": scale, **steps}), "so it is")
    assert str(error) == f"training diverged: so it is; {remedies}"
