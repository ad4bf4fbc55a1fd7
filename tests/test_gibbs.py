"""Gibbs sampling: what it draws from, which draws are kept, and what they predict together."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from modelfiles import export_arrays
from problems import TRAINED, build, dataset, random_rows
from test_every_pair import planted

from fmcli.data.fields import NO_GROUP, fields_of_features, without_fields
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.data.text.prior_groups import PriorGroups
from fmcli.errors import DivergedError, UsageError
from fmcli.losses.loss import Ordinal, Squared
from fmcli.models.layout import CUTPOINTS
from fmcli.penalties.penalty import Penalty
from fmcli.registry.catalog import refusal
from fmcli.registry.specs import make_spec, resolve
from fmcli.scoring.averages import MeanScore
from fmcli.scoring.scorer import load_model
from fmcli.solvers.coordinate import minimizer as coordinate
from fmcli.solvers.gibbs.sampler import NOISE, GibbsSampler, Hyperpriors
from fmcli.training import job, saving
from fmcli.training.draw_sizes import kept_sweeps
from reference.joint import differences, z_scores

KINDS = [name for name in TRAINED if not refusal(name, "mcmc")]
# The largest magnitude of a z-score: with 500 statistics, one exceeds it with probability 3e-4.
LARGEST = 5.0
SMALL = {"rank": 2, "order": 3, "anchors": 2, "pair_bits": 4, "split_index": 2, "augment": True}


def few_rows(name, seen=(True,) * 4, **_):
    """The last features do not occur if they are not `seen`."""
    rows = random_rows(np.random.default_rng(1), 9, sum(seen), fields=3 if TRAINED[name].by_fields else 0)
    return dataset(rows, len(seen), np.zeros(len(rows)))


def make(name, data):
    model = build(name, data.features, **SMALL)
    model.prepare(TrainingRows(data, np.arange(data.rows, dtype=np.int32)), np.random.default_rng(0))
    return model


def joint(name, sampler, replicates, **options):
    data = few_rows(name, **options)
    return z_scores(list(differences(partial(make, name, data), data, sampler, replicates, **options)))


# With all kinds; with probit; with fields, whose features have their own priors; and with features that do not occur.
CASES = [
    *((name, {}) for name in KINDS),
    ("fm", {"probit": True}),
    ("fm", {"cutpoints": 3}),
    ("llfm", {"cutpoints": 1}),
]
CASES += [(name, {"fields": np.array([0, 1, 1, 0], dtype=np.int32)}) for name in ("fm", "lifted-anova", "llfm")]
UNSEEN = {"seen": np.array([True, True, True, True, False]), "fields": np.array([0, 1, 1, 0, 1], dtype=np.int32)}
CASES += [(name, UNSEEN) for name in ("fm", "ffm", "hofm")]


@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name}-{'-'.join(options)}" for name, options in CASES])
def test_sweeps_keep_the_joint_distribution(name, options):
    found = joint(name, GibbsSampler, 100, **options)
    assert len(found) > 10
    assert max(map(abs, found.values())) < LARGEST, found


class TooLoud(GibbsSampler):
    """Forgets that the exponent has half the squares."""

    def _draw_noise(self, pool, loss):
        super()._draw_noise(pool, 2 * loss)


class TooSure(GibbsSampler):
    """Counts every parameter several times for its prior."""

    def _normal_gamma(self, generator, count, *moments):
        return super()._normal_gamma(generator, 5 * count, *moments)


class OffCenter(GibbsSampler):
    """Draws parameters around 2 instead of their prior mean."""

    def _enter(self, number):
        super()._enter(number)
        self.priors.mean[number][...] = 2


class TooWide(GibbsSampler):
    """Has another prior of the gaps between cutpoints."""

    def prepare(self, **options):
        self.loss = Ordinal(outputs=self.loss.outputs, gap_mean=0.5, gap_std=0.5)
        super().prepare(**options)


class WithoutJacobian(GibbsSampler):
    """Takes the proposals, which are symmetric in the logarithms of gaps, for symmetric ones of squares of the gaps."""

    def _draw_cutpoints(self, pool, walk, loss):
        prior = walk.prior
        walk.prior = lambda gaps: prior(gaps) + 2 * gaps.sum()
        super()._draw_cutpoints(pool, walk, loss)
        walk.prior = prior


class Unseeing(GibbsSampler):
    """Draws cutpoints from their prior, whatever the labels are."""

    def _draw_cutpoints(self, pool, walk, loss):
        walk.step(self.model.parameters[CUTPOINTS], self.generator(self.priors.sweep, NOISE), 0.0, lambda: 0.0)


@pytest.mark.parametrize(
    ("wrong", "sweeps", "cutpoints"),
    [(TooLoud, 2, 0), (TooSure, 2, 0), (OffCenter, 2, 0), (TooWide, 2, 3), (WithoutJacobian, 2, 3), (Unseeing, 12, 3)],
)
def test_the_check_of_the_joint_distribution_finds_errors(wrong, sweeps, cutpoints):
    found = joint("linear", wrong, 150 if wrong is Unseeing else 100, cutpoints=cutpoints, sweeps=sweeps)
    assert max(map(abs, found.values())) > LARGEST, found


def test_means_and_precisions_of_priors_have_their_conditional_distribution():
    """Its density is the numbers' density times the hyperpriors', up to a constant."""
    prior, x = Hyperpriors(prior_shape=2, mean_strength=0.7), np.array([2.0, 3.5, 2.5])
    normal = lambda v, mean, precision: np.log(precision) / 2 - precision * (v - mean) ** 2 / 2  # noqa: E731
    gamma = lambda v, shape, rate: (shape - 1) * np.log(v) - rate * v  # noqa: E731
    drawn = {}

    def draw_normal(mean, deviation):
        return drawn.update(mean=mean, deviation=deviation)

    numbers = SimpleNamespace(gamma=lambda shape: drawn.update(shape=shape) or 1.0, normal=draw_normal)
    sampler = SimpleNamespace(hyperpriors=prior)
    _, precision = GibbsSampler._normal_gamma(sampler, numbers, np.array(3), x.sum(), (x**2).sum(), 3)
    mean, rate, strength = drawn["mean"], 1 / precision, drawn["deviation"] ** -2 / precision
    apart = [
        gamma(v, drawn["shape"], rate) + normal(m, mean, strength * v)
        - gamma(v, 2, 3) - normal(m, 0, 0.7 * v) - normal(x, m, v).sum()
        for v in (0.2, 1.0, 3.0) for m in (-1.0, 0.5, 2.0)
    ]  # fmt: skip
    np.testing.assert_allclose(apart, apart[0], atol=1e-9)


def test_draws_of_a_linear_model_have_its_exact_posterior():
    """With sharp distributions of the precisions and a flat bias, for rows with weights."""
    rng, noise, precision = np.random.default_rng(0), 1.7, 0.8
    x, weight = rng.normal(size=(30, 4)).astype(np.float32), rng.uniform(0.5, 2, size=30)
    y = x @ rng.normal(size=4) + rng.normal(size=30) + 0.3
    data = dataset([dict(enumerate(map(float, row))) for row in x], 4, y, weight)
    model = build("linear", 4)
    model.allocate(0)
    sure = 1e12
    priors = Hyperpriors(sure, sure / noise, sure, prior_rate_w=sure / precision, mean_strength=sure)
    sampler = GibbsSampler(model, Squared(), Penalty(), data, hyperpriors=priors)
    draws = []
    sampler.run(2500, lambda *_: draws.append([*model.parameters["w"][0], model.parameters["bias"][0]]))
    found = np.array(draws[100:], dtype=np.float64)
    wide = np.column_stack([x, np.ones(30)]).astype(np.float64)
    covariance = np.linalg.inv(noise * (wide.T * weight) @ wide + np.diag([precision] * 4 + [0]))
    mean = covariance @ (noise * (wide.T * weight) @ y)
    errors = (found.mean(axis=0) - mean) / np.sqrt(covariance.diagonal() / len(found))
    assert np.abs(errors).max() < 6  # successive draws depend on each other
    scale = np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    np.testing.assert_allclose(np.cov(found.T) / scale, covariance / scale, atol=0.12)


def test_the_fields_of_features():
    rows = [{(0, 3): 1.0, (2, 0): 0.5, (2, 3): 2.0}, {}, {(2, 7): 1.5, (3, 7): 4.0}]
    data = dataset(rows, 4, [1.0, 2.0, 3.0])
    found = fields_of_features(data)
    assert found.place.tolist() == [1, NO_GROUP, 0, 2]
    assert found.numbers.tolist() == [0, 3, 7]
    merged, wanted = without_fields(data), dataset([{0: 1.0, 2: 2.5}, {}, {2: 1.5, 3: 4.0}], 4, [1.0, 2.0, 3.0])
    assert merged.field is None
    for ours, theirs in zip(merged.arrays, wanted.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    once = dataset([{(0, 1): 1.0, (2, 0): 1.0}], 3)
    assert without_fields(once).index is once.index


@pytest.mark.parametrize("model", ["fm", "ffm"])
def test_features_of_a_field_have_priors_of_their_own(model, tmp_path):
    data, _ = planted("ffm", "squared", rows=500)
    plans = [
        job.plan(rows, make_spec(model, "mcmc", None, {"epochs": 3, "norm": False}))
        for rows in (data, *([without_fields(data)] if model == "fm" else []))
    ]
    assert plans[0].source.fields.place.max() == 2
    files = [saved(job.train(plan), tmp_path / str(number)) for number, plan in enumerate(plans)]
    assert len(set(files)) == len(plans), "without fields, there is one prior for all features"
    assert load_model(str(tmp_path / "0")).meta["fields"] == (3 if model == "ffm" else 0)


def test_groups_of_a_file_have_the_moments_of_their_features(monkeypatch):
    """Each column of factors, and the weights, in the first sweep, when the factors have their start values."""
    data, _ = planted("fm", "squared", rows=50)
    of = {feature: feature * feature % 7 for feature in range(data.features)}  # 0, 1, 2 and 4
    spec = make_spec("fm", "mcmc", "squared", {"epochs": 1, "rank": 2})
    plan = job.plan(data.changed(features=data.features + 3), spec, groups=PriorGroups("file", None, of))
    found, draw = [], GibbsSampler._normal_gamma

    def recorded(self, generator, count, total, squares, rate):
        found.append((self.model.parameters["V"][0].astype(np.float64), count, total, squares, rate))
        return draw(self, generator, count, total, squares, rate)

    monkeypatch.setattr(GibbsSampler, "_normal_gamma", recorded)
    job.train(plan)
    members = [[j for j, group in of.items() if group == number and plan.seen[j]] for number in (0, 1, 2, 4)]
    assert min(map(len, members)) > 3
    ((V, count, total, squares, rate),) = found  # the columns are two factors, and the weights, which are still 0
    np.testing.assert_array_equal(count, np.transpose([[len(features) for features in members]] * 3))
    np.testing.assert_allclose(total[:, :2], [V[features].sum(axis=0) for features in members])
    np.testing.assert_allclose(squares[:, :2], [(V[features] ** 2).sum(axis=0) for features in members])
    assert not total[:, 2].any()
    assert rate == pytest.approx([0.5, 0.5, 0.5])


def trained_model(data, *, model="fm", loss=None, valid=None, threads=1, **options):
    spec = make_spec(model, "mcmc", loss, {"epochs": 8, "burn_in": 2, "draws": 3, "norm": False, **options})
    return job.train(job.plan(data, spec, valid=valid, threads=threads, patience=1))


def saved(trained, path):
    saving.save_model(str(path), trained, job.summary(trained), "libsvm")
    return path.read_bytes()


@pytest.mark.parametrize(("model", "loss"), [("fm", "squared"), ("lifted-anova", "probit"), ("hofm-simplex", None)])
def test_threads_do_not_change_the_model(model, loss, tmp_path, monkeypatch):
    """With rows that threads share, and rows that they draw together."""
    for name, value in {"ENTRIES_TO_SHARE": 1, "ENTRIES_A_TASK": 500, "ENTRIES_OF_LARGE_ROW": 400}.items():
        monkeypatch.setattr(coordinate, name, value)
    monkeypatch.setattr(coordinate, "SAMPLES_A_TASK", 128)
    data, _ = planted(model, loss or "squared", rows=1000)
    files = {saved(trained_model(data, model=model, loss=loss, threads=n), tmp_path / str(n)) for n in (1, 2, 3)}
    assert len(files) == 1


@pytest.mark.parametrize(("loss", "clip"), [("squared", True), ("probit", None)])
def test_the_mean_of_the_draws_is_what_training_evaluates_and_what_the_file_predicts(loss, clip, tmp_path):
    train, test = planted("fm", loss, rows=500)
    sweeps = []
    spec = make_spec("fm", "mcmc", loss, {"epochs": 8, "burn_in": 2, "draws": 3, "clip": clip})
    plan = job.plan(train, spec, valid=test, patience=1)
    trained = job.train(plan, lambda epoch: sweeps.append((plan.validation.outcome(plan.model).score, epoch.valid)))
    assert len(sweeps) == len(trained.epochs) == trained.best == 8, "there is no early stopping"
    saved(trained, tmp_path / "m")
    scorer = load_model(str(tmp_path / "m"))
    mean = MeanScore(loss)
    for number in (4, 6, 8):
        mean.add(sweeps[number - 1][0])
    assert scorer.scores(test).tobytes() == mean.score().tobytes()
    assert plan.validation.measure(plan.model, plan.validation.outcome_of(scorer.scores(test))) == sweeps[-1][1]
    own = plan.validation.measure(plan.model, plan.validation.outcome_of(sweeps[2][0]))
    assert sweeps[2][1] == own, "before the first draw is kept"
    assert job.summary(trained)["draws"] == 3
    assert scorer.meta["training"]["convergence"].keys() >= {"sweeps", "r_hat", "scores_effective"}
    # What is averaged are predictions: probabilities, not scores.
    predict = scorer.predictions(test, scorer.default_output())[:, 0]
    each = [sweeps[number - 1][0][:, 0] for number in (4, 6, 8)]
    if loss == "probit":
        from scipy.special import ndtr

        each = [ndtr(score) for score in each]
    wanted = np.mean(each, axis=0)
    low, high = scorer.clip or (-np.inf, np.inf)
    np.testing.assert_allclose(predict, np.clip(wanted, low, high), rtol=1e-12)
    np.testing.assert_allclose(scorer.spread(test)[:, 0], np.std(each, axis=0, ddof=1), rtol=1e-9, atol=1e-12)


def test_mean_probabilities_keep_their_digits():
    mean = MeanScore("probit")
    for score in ([[-20.0], [20.0], [0.0]], [[-21.0], [21.0], [0.0]]):
        mean.add(np.array(score))
    found = mean.score()[:, 0]
    assert -20.2 < found[0] < -20.0
    np.testing.assert_allclose(found, [found[0], -found[0], 0])


def test_the_draws_are_at_equal_distances_and_end_with_the_last_sweep():
    def kept(drawn=9, of_others=1.0, **options):
        spec = make_spec("fm", "mcmc", "squared", options)
        facts = {"rows": 9, "nonzeros": 9, "features": 9, "validated": False}
        return sorted(kept_sweeps(resolve(spec, **facts, drawn=4 * drawn, kept=round(4 * drawn * of_others))))

    assert kept(epochs=10, burn_in=4, draws=3) == [6, 8, 10]
    assert kept(epochs=10, burn_in=7, draws=50) == [8, 9, 10]
    assert kept(epochs=10, burn_in=0, draws=1) == [10]
    assert kept(epochs=0) == []
    assert kept(epochs=1) == [1], "the default burn-in leaves a sweep"
    assert [len(kept(drawn=drawn)) for drawn in (9, 160_000, 4_000_001)] == [200, 100, 4]
    assert [len(kept(drawn, 0.5)) for drawn in (9, 160_000, 320_000, 4_000_001)] == [200, 199, 99, 7]
    assert min(kept()) > 20


def test_another_seed_and_a_continued_run_have_other_numbers(tmp_path):
    data, _ = planted("fm", "squared", rows=500)
    one, other = (trained_model(data, seed=seed).plan.model.parameters["V"].copy() for seed in (1, 2))
    assert not np.allclose(one, other)
    first = trained_model(data, draws=1)
    saved(first, tmp_path / "m")
    warm_start = saving.load_warm_start(str(tmp_path / "m"))
    spec = warm_start.continued(None, None, None, {"epochs": 8})
    second = job.train(job.plan(data, spec, warm_start=warm_start))
    assert second.plan.task.epochs_before == 8
    changes = [np.diff([epoch.loss for epoch in run.epochs]) for run in (first, second)]
    assert not np.allclose(*changes)


@pytest.mark.parametrize(
    ("model", "loss", "options", "message"),
    [
        (
            "pn",
            None,
            {},
            "mcmc draws parameters in which scores are affine, which scores of pn are not; use model lifted-pn",
        ),
        ("kernel-basis", None, {}, "kernel-basis is solved in closed form"),
        ("sglfm", None, {}, "sglfm needs l1 and group_l1, which mcmc does not support"),
        (
            "fm",
            "logistic",
            {},
            "mcmc draws parameters under loss squared, probit or ordinal only, not under logistic",
        ),
        ("fm", "softmax", {}, "not under softmax"),
        ("fm", None, {"l2": 0.1}, "l2 cannot be used with mcmc: .* by the prior"),
        ("fm", None, {"batch_size": 5}, "batch_size cannot be used with mcmc"),
        ("fm", None, {"epochs": 5, "burn_in": 5}, "burn_in 5 leaves none of 5 sweeps"),
        ("fm", None, {"draws": 0}, "draws is 0"),
    ],
)
def test_refusals(model, loss, options, message):
    with pytest.raises(UsageError, match=message):
        make_spec(model, "mcmc", loss, options)


def test_data_without_features_have_a_bias_only(tmp_path):
    data = dataset([{}, {}, {}], 0, [1, 2, 4])
    saved(trained_model(data), tmp_path / "m")
    assert np.isfinite(load_model(str(tmp_path / "m")).scores(data)).all()


def test_weights_are_precisions_which_probit_does_not_have():
    data, _ = planted("fm", "probit", rows=500)
    weighted = data.changed(weight=np.linspace(0.5, 2, data.rows))
    with pytest.raises(UsageError, match="mcmc takes the weights of rows as precisions"):
        trained_model(weighted)


def test_scores_that_overflow_end_training_instead_of_being_drawn_for_ever():
    data = dataset([{0: 3e38, 1: 3e38}, {0: 3e38}, {1: -3e38}], 2, [0.0, 1.0, 0.0])
    with pytest.raises(DivergedError):
        trained_model(data, loss="probit")


def test_factors_that_rows_do_not_tell_apart_are_drawn_from_their_priors(rng):
    """With two features, the rows tell the factors' sum of products only: the sums of squares have rank 1 but for
    rounding, which must not count as what is known about the other directions."""
    rows = [dict(enumerate(row)) for row in rng.normal(size=(100, 2))]
    data = dataset(rows, 2, rng.choice([-1.0, 1.0], size=100))
    trained = trained_model(data, loss="probit", rank=32, epochs=100)
    assert max(epoch.loss for epoch in trained.epochs) < 2 * np.log(2)


def test_a_model_of_several_draws_is_not_exported(tmp_path):
    data, _ = planted("fm", "squared", rows=500)
    saved(trained_model(data), tmp_path / "several")
    with pytest.raises(UsageError, match="has 3 draws of all parameters"):
        export_arrays(str(tmp_path / "several"))
    saved(trained_model(data, draws=1), tmp_path / "one")
    assert export_arrays(str(tmp_path / "one")).keys() == {"bias", "w", "V"}
    assert load_model(str(tmp_path / "one")).meta["draws"] == 1
