"""The loss ordinal: cutpoints, probabilities, the mean label, and their metrics."""

import numpy as np
import pytest
from modelfiles import copy_of
from problems import dataset
from scipy.stats import norm
from test_every_pair import planted

from fmcli.errors import BadInputError, UsageError
from fmcli.losses.links import level_probabilities
from fmcli.model_file import container
from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving

CUTPOINTS = [0.0, 0.6, 2.0]


def ordinal(data, *, valid=None, loss="ordinal", threads=1, warm_start=None, **options):
    spec = make_spec("fm", "mcmc", loss, {"rank": 2, "epochs": 12, "burn_in": 4, "draws": 4, **options})
    return job.train(job.plan(data, spec, valid=valid, threads=threads, warm_start=warm_start, patience=1))


def saved(trained, path):
    saving.save_model(str(path), trained, job.summary(trained), "libsvm")
    return str(path)


def latent_rows(rows=4000, seed=0):
    """Rows with a known score, and labels 3 .. 6 by known cutpoints."""
    rng = np.random.default_rng(seed)
    features = [[int(f) + 10 * field for field, f in enumerate(rng.integers(10, size=2))] for _ in range(rows)]
    weights = rng.normal(size=20)
    score = 1 + weights[features].sum(axis=1)
    label = 3 + np.searchsorted(CUTPOINTS, score + rng.normal(size=rows))
    return dataset([dict.fromkeys(row, 1.0) for row in features], 20, label.astype(float)), score


def test_planted_cutpoints_and_probabilities_are_found(tmp_path):
    data, score = latent_rows()
    trained = ordinal(data, epochs=250, burn_in=50, draws=100, rank=1)
    scorer = load_model(saved(trained, tmp_path / "m"))
    draws = np.array([draw.parameters["cutpoints"][0] for draw in scorer.draws])
    assert (draws[:, 0] == 0).all()
    np.testing.assert_allclose(draws.mean(axis=0), CUTPOINTS, atol=0.15)
    assert (draws[:, 1:].std(axis=0) > 0.005).all()
    assert (draws[:, 1:].std(axis=0) < 0.1).all()
    table = scorer.predictions(data, "prob")
    truth = np.diff(norm.cdf(np.array([-np.inf, *CUTPOINTS, np.inf]) - score[:, None]), axis=1)
    assert np.abs(table - truth).mean() < 0.02


def test_predictions_of_a_file_are_those_of_the_mean_table(tmp_path):
    train, test = planted("fm", "ordinal", rows=400)
    trained = ordinal(train, valid=test)
    scorer = load_model(saved(trained, tmp_path / "m"))
    margins = [score_rows(draw, test) for draw in scorer.draws]
    each = [
        np.diff(norm.cdf(np.pad(-m, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf))))) for m in margins
    ]
    values = np.array([2.0, 3.0, 4.0, 5.0])
    table = scorer.predictions(test, "prob")
    np.testing.assert_allclose(table, np.mean(each, axis=0), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(scorer.predictions(test, scorer.default_output())[:, 0], table @ values, rtol=1e-9)
    np.testing.assert_array_equal(scorer.predictions(test, "label")[:, 0], values[table.argmax(axis=1)])
    np.testing.assert_allclose(scorer.spread(test)[:, 0], np.std(np.array(each) @ values, axis=0, ddof=1), rtol=1e-9)
    measured = trained.epochs[-1].valid["rmse"]
    assert measured == pytest.approx(np.sqrt(np.mean((table @ values - test.label) ** 2)))
    assert measured < test.label.std()
    assert scorer.text(scorer.predictions(test, "label"), "label").split()[0] in (b"2", b"3", b"4", b"5")


def test_metrics_of_ordered_labels():
    rng = np.random.default_rng(0)
    margins = -np.sort(rng.normal(0, 2, (200, 3)))
    label, weight = rng.integers(4, size=200), rng.uniform(0.5, 2, size=200)
    table = np.diff(norm.cdf(np.pad(-margins, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))))
    np.testing.assert_allclose(level_probabilities(margins), table, rtol=1e-9, atol=1e-15)
    found = measure(
        ["rmse", "mae", "logloss", "accuracy", "brier"], Outcome("ordinal", label.astype(float), margins, weight)
    )
    error, right = table @ np.arange(4) - label, table.argmax(axis=1) == label
    wanted = {
        "rmse": np.sqrt(np.average(error**2, weights=weight)),
        "mae": np.average(abs(error), weights=weight),
        "logloss": np.average(-np.log(table[range(200), label]), weights=weight),
        "accuracy": np.average(right, weights=weight),
        "brier": np.average(((table - np.eye(4)[label]) ** 2).sum(axis=1), weights=weight),
    }
    assert found == pytest.approx(wanted)


def test_a_small_probability_keeps_its_digits():
    table = level_probabilities(np.array([[20.0, 19.0, 9.0], [-9.0, -19.0, -20.0]]))
    np.testing.assert_allclose(table[0, :2], [norm.sf(20), norm.sf(19) - norm.sf(20)], rtol=1e-12)
    np.testing.assert_allclose(table[1], table[0, ::-1], rtol=1e-12)


def test_threads_do_not_change_the_model_and_a_run_continues_with_its_cutpoints(tmp_path):
    data, _ = planted("fm", "ordinal", rows=400)
    files = {(tmp_path / saved(ordinal(data, threads=n), tmp_path / str(n))).read_bytes() for n in (1, 2)}
    assert len(files) == 1
    warm_start = saving.load_warm_start(str(tmp_path / "1"))
    start = job.train(job.plan(data, warm_start.continued(None, None, None, {"epochs": 0}), warm_start=warm_start))
    np.testing.assert_array_equal(start.plan.model.parameters["cutpoints"], warm_start.model.parameters["cutpoints"])


@pytest.mark.parametrize(("model", "options"), [("fm", {"bias": False}), ("llfm", {"anchors": 2})])
def test_cutpoints_start_without_a_bias_of_all_rows_too(model, options):
    data, _ = latent_rows(300)
    spec = make_spec(model, "mcmc", "ordinal", {"epochs": 0, **options})
    start = job.train(job.plan(data, spec)).plan.model.parameters["cutpoints"][0]
    above = [np.mean(data.label > level) for level in (3, 4, 5)]
    np.testing.assert_allclose(start, norm.ppf(above[0]) - norm.ppf(above), rtol=1e-5)


def test_a_label_that_does_not_occur_has_a_cutpoint():
    data, _ = latent_rows(300)
    trained = ordinal(data.changed(label=np.where(data.label == 4, 5, data.label)))
    assert trained.plan.transform.labels.values == (3, 4, 5, 6)
    assert np.all(np.diff(trained.plan.model.parameters["cutpoints"][0]) > 0)


@pytest.mark.parametrize("label", [[0.5, 1, 2], [1, 2, 30], [2, 2, 2]])
def test_labels_that_are_no_levels_are_refused(label):
    with pytest.raises(BadInputError, match="loss ordinal takes at most 20 consecutive integers"):
        ordinal(dataset([{0: 1.0}] * 3, 1, label))


def test_weights_and_other_solvers_are_refused():
    data, _ = planted("fm", "ordinal", rows=400)
    with pytest.raises(UsageError, match="takes the weights of rows as precisions"):
        ordinal(data.changed(weight=np.full(data.rows, 2.0)))
    with pytest.raises(UsageError, match="loss ordinal has parameters of its own, which only solver mcmc draws"):
        make_spec("fm", "cd", "ordinal")


@pytest.mark.parametrize("cutpoints", [[1, 2, 3], [0, 2, 1], [0, np.nan, 1], [0, 1, np.inf]])
def test_files_with_cutpoints_that_do_not_increase_are_refused(cutpoints, tmp_path):
    data, _ = planted("fm", "ordinal", rows=400)
    file = copy_of(container.load(saved(ordinal(data), tmp_path / "m")))
    file.tensors["draw.1.cutpoints"][0] = cutpoints
    container.save(str(tmp_path / "forged"), file)
    with pytest.raises(BadInputError, match="cutpoints does not begin with 0 and increase"):
        load_model(str(tmp_path / "forged"))


@pytest.mark.filterwarnings("error")
def test_an_infinite_score_has_the_first_or_the_last_label():
    assert level_probabilities(np.array([[np.inf] * 2, [-np.inf] * 2])).tolist() == [[0, 0, 1], [1, 0, 0]]
