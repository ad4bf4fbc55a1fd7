"""The figures of convergence, compared with their definitions by loops."""

import numpy as np
import pytest
from test_every_pair import planted

from fmcli.cli.train.advice import advice
from fmcli.registry.specs import make_spec
from fmcli.solvers.gibbs import convergence
from fmcli.solvers.gibbs.convergence import Trace, effective_sizes, split_r_hat
from fmcli.training import job


def by_definition(draws):
    """(R-hat, effective size) of a list of numbers, by loops."""
    n = len(draws) // 2
    chains = [draws[len(draws) - 2 * n : len(draws) - n], draws[len(draws) - n :]]
    means = [sum(chain) / n for chain in chains]
    mean = sum(means) / 2
    between = n * sum((value - mean) ** 2 for value in means)
    within = sum(sum((x - m) ** 2 for x in chain) / (n - 1) for chain, m in zip(chains, means, strict=True)) / 2
    total = (n - 1) / n * within + between / n

    def correlation(lag):
        covariance = 0.0
        for chain, m in zip(chains, means, strict=True):
            covariance += sum((chain[i] - m) * (chain[i + lag] - m) for i in range(n - lag)) / (n - 1) / 2
        return 1 - (within - covariance) / total

    pairs = []
    for lag in range(0, n // 2 * 2, 2):
        pair = (1 if lag == 0 else correlation(lag)) + correlation(lag + 1)
        if pair <= 0:
            break
        pairs.append(min([pair, *pairs]))
    return (total / within) ** 0.5, 2 * n / max(1, 2 * sum(pairs) - 1)


@pytest.mark.parametrize("sweeps", [4, 5, 31, 200])
def test_figures_are_those_of_the_definition(sweeps, monkeypatch):
    monkeypatch.setattr(convergence, "COLUMNS_A_TASK", 2)
    rng = np.random.default_rng(sweeps)
    steps = rng.normal(size=(sweeps, 5))
    trace = np.empty_like(steps)
    for number, keeps in enumerate((0.0, 0.5, 0.95, 1.0, -0.4)):  # from independent draws to a random walk
        for i in range(sweeps):
            trace[i, number] = steps[i, number] + (keeps * trace[i - 1, number] if i else 0)
    wanted = np.array([by_definition(list(column)) for column in trace.T])
    np.testing.assert_allclose(split_r_hat(trace), wanted[:, 0], rtol=1e-9)
    np.testing.assert_allclose(effective_sizes(trace), wanted[:, 1], rtol=1e-7)


def test_the_effective_size_of_a_chain_with_known_autocorrelation():
    """An autoregression that keeps 0.8 has an integrated autocorrelation time of 9."""
    rng, count, keeps = np.random.default_rng(1), 100_000, 0.8
    draws = np.zeros((count, 1))
    for i, step in enumerate(rng.normal(size=count)):
        draws[i] = keeps * draws[i - 1] + step
    assert effective_sizes(draws)[0] == pytest.approx(count / 9, rel=0.05)
    assert split_r_hat(draws)[0] == pytest.approx(1, abs=1e-3)
    draws[: count // 2] += 10
    assert split_r_hat(draws)[0] > 2
    assert effective_sizes(draws)[0] < 50


def test_constant_numbers_have_converged():
    trace = np.ones((10, 2))
    assert split_r_hat(trace).tolist() == [1, 1]
    assert effective_sizes(trace).tolist() == [10, 10]


def train(**options):
    data, _ = planted("ffm", "squared", rows=700)
    plan = job.plan(data, make_spec("fm", "mcmc", "squared", {"rank": 2, **options}))
    return job.train(plan)


def test_the_sweeps_after_the_burn_in_are_watched():
    trained = train(epochs=30, burn_in=10)
    figures = trained.convergence
    assert job.summary(trained)["convergence"] == figures
    assert figures["sweeps"] == 20
    for part in ("", "alpha_", "priors_", "scores_"):
        assert figures[f"{part}r_hat"] > 0.9
        assert 0 < figures[f"{part}effective"] <= 20
    (warning,) = [line for line in advice(trained) if "sweeps" in line]
    assert "only 20 sweeps after the burn-in; at least 50 are needed" in warning
    assert train(epochs=5, burn_in=2).convergence == {}, "there are too few sweeps"


def test_a_change_in_the_midst_of_the_sweeps_is_seen():
    numbers = iter(np.random.default_rng(0).normal(size=(80, 3)) + np.repeat([[0.0], [5.0]], 40, axis=0))
    trace = Trace(40, lambda: {"some": next(numbers)})
    for number in range(1, 121):  # the numbers of the burn-in are not asked for
        trace.record(number)
    figures = trace.figures()
    assert figures["sweeps"] == 80
    assert figures["some_r_hat"] > 2


@pytest.mark.parametrize("probable", [False, True])
def test_the_error_of_predictions_is_that_of_their_mean_beside_the_noise(probable):
    """An autoregression that keeps 0.8 has an integrated autocorrelation time of 9."""
    count, random = 2000, np.random.default_rng(0)
    noise, apart = {"alpha": np.array([] if probable else [0.25])}, np.zeros(50)

    def watch():
        apart[...] = 0.8 * apart + random.normal(0, 0.3 * np.sqrt(1 - 0.8**2), size=50)
        return {**noise, "scores": 0.4 + apart}

    trace = Trace(0, watch, probable=probable)
    for number in range(1, count + 1):
        trace.record(number)
    deviation = np.sqrt(0.4 * 0.6) if probable else 2.0
    figures = trace.figures()
    assert figures["error"] == pytest.approx(0.3 / np.sqrt(count / 9) / deviation, rel=0.1)
    assert convergence.warning(figures) is None
    assert "predictions vary by 20% of the labels' noise" in convergence.warning({**figures, "error": 0.2})
    assert "only 49 sweeps after" in convergence.warning({**figures, "sweeps": 49})
