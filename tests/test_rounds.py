"""Rounds in whole runs: how epochs are divided, and what the result does not depend on. The steps themselves are
compared with their definition in test_solvers.py."""

from itertools import product

import numpy as np
import pytest
from problems import FOLLOWED, ROW_SOLVERS, TRAINED, assert_close, dataset, in_turn, random_rows

from fmcli.errors import UsageError
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic import round_epochs
from fmcli.solvers.stochastic.round_epochs import SAMPLES_BEFORE
from fmcli.solvers.stochastic.round_loop import RoundLoop
from fmcli.solvers.stochastic.sample_rounds import SampleRounds
from fmcli.training.job import plan, train

FEATURES, ROWS, SIZE = 12, 700, 4  # rounds of 4 rows begin after 1024 rows, in the second epoch
WITH_ROUNDS = [name for name, kind in TRAINED.items() if kind.rounds]
ROUND_SOLVERS = [name for name, solver in ROW_SOLVERS.items() if solver.rounds]


def rows_with_labels(rows=ROWS, ones=False, weights=False):
    rng = np.random.default_rng(2)
    samples = random_rows(rng, rows, FEATURES, ones=ones)
    return dataset(samples, FEATURES, rng.integers(2, size=rows), rng.uniform(0.5, 2, rows) if weights else None)


def trained(data, name, solver, threads=1, **options):
    adaptive = {"adaptive": True} if solver == "fobos" else {}
    spec = make_spec(name, solver, None, {"round_size": SIZE, "init_std": 0.1, **adaptive, **options})
    return train(plan(data, spec, threads=threads))


def arrays(run):
    model = run.plan.model
    return {**model.parameters, **{f"{name}.{i}": a for name, s in model.states.items() for i, a in enumerate(s)}}


def assert_same_bits(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes(), name


# Each model once, each solver with both values of a switch.
CASES = in_turn(WITH_ROUNDS, product(ROUND_SOLVERS, [True, False]))


@pytest.mark.parametrize(("name", "solver", "weights"), CASES)
def test_the_number_of_threads_does_not_change_a_bit(name, solver, weights, monkeypatch):
    monkeypatch.setattr(
        round_epochs, "SAMPLES_BEFORE", 1
    )  # large rounds, because threads wait for each other after each one
    monkeypatch.setattr(round_epochs, "cpu_count", lambda: 8)
    data = rows_with_labels(300, weights=weights)
    one, *others = [trained(data, name, solver, threads, epochs=2, round_size=64) for threads in (1, 2, 3, 8)]
    for other in others:
        assert_same_bits(arrays(one), arrays(other))


def test_rounds_stay_together(monkeypatch):
    """They begin after 324 rows of the second epoch. Its other rows stay in their rounds; its first 324 rows are in
    rounds from the third epoch on."""
    arranged, trained_on = [], []

    class Recorded(SampleRounds):
        def __init__(self, data, ends, **keywords):
            super().__init__(data, ends, **keywords)
            arranged.append(len(self))

    class Loop(RoundLoop):
        def train_on(self, pool, of, order, start, stop, total=0):
            trained_on.append((of.data.rows, order[start:stop].tolist()))
            return super().train_on(pool, of, order, start, stop, total)

    monkeypatch.setattr(round_epochs, "SampleRounds", Recorded)
    monkeypatch.setattr(round_epochs, "RoundLoop", Loop)
    trained(rows_with_labels(), "fm", "adagrad", epochs=4)
    assert arranged == [94, 81]
    assert sorted(rows for rows, _ in trained_on) == [324, 324, 376, 376, 376]
    orders = [order for rows, order in trained_on if rows == 376]
    assert orders[0] == list(range(94))
    assert all(sorted(order) == orders[0] for order in orders)
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize(("name", "solver", "ones"), CASES)
def test_rounds_of_one_row_are_the_usual_steps(name, solver, ones, monkeypatch):
    data = rows_with_labels(ones=ones)
    by_rows = trained(data, name, solver, epochs=1, round_size=1)
    monkeypatch.setattr(round_epochs, "SAMPLES_BEFORE", 0)
    monkeypatch.setattr(round_epochs, "round_ends", lambda rows, size: np.arange(rows + 1))
    in_rounds = trained(data, name, solver, epochs=1)
    if solver == "fobos":  # rounds do not defer the penalties of the rows that they touch, which changes the rounding
        assert_close(in_rounds.plan.model.parameters, by_rows.plan.model.parameters, FOLLOWED)
    else:
        assert_same_bits(arrays(in_rounds), arrays(by_rows))
        assert in_rounds.epochs[0].loss == pytest.approx(by_rows.epochs[0].loss, rel=1e-12)


@pytest.mark.parametrize("solver", ROUND_SOLVERS)
def test_the_first_steps_are_of_single_rows(solver):
    data = rows_with_labels(SAMPLES_BEFORE * SIZE)
    in_rounds, by_rows = [trained(data, "fm", solver, epochs=1, round_size=size) for size in (SIZE, 1)]
    assert_same_bits(arrays(in_rounds), arrays(by_rows))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"solver": "sgd"}, "sgd cannot train in rounds"),
        ({"model": "ffm", "solver": "adagrad"}, "ffm cannot train in rounds"),
        ({"model": "llfm", "solver": "sgd"}, "llfm and sgd cannot train in rounds"),
        ({"solver": "fobos"}, "fobos trains in rounds only with adaptive; leave out round_size 8"),
        ({"solver": "fobos", "options": {"adaptive": True, "prox": "exact"}}, "cannot be combined with prox exact"),
        ({"loss": "hinge"}, "loss hinge cannot train in rounds"),
        ({"options": {"batch_size": 2}}, "round_size 8 cannot be combined with batch_size"),
        ({"solver": "cd"}, "round_size"),
    ],
)
def test_rounds_are_refused_where_there_are_none(options, words):
    options = {"solver": "adagrad", **options, "options": {**options.get("options", {}), "round_size": 8}}
    with pytest.raises(UsageError, match=words):
        make_spec(**options)


def test_no_more_threads_than_processors(monkeypatch):
    started = []

    class Loop(RoundLoop):
        def __init__(self, model, solver, loss, threads):
            super().__init__(model, solver, loss, threads)
            started.append(threads)

    monkeypatch.setattr(round_epochs, "cpu_count", lambda: 2)
    monkeypatch.setattr(round_epochs, "RoundLoop", Loop)
    for threads in (1, 2, 8):
        trained(rows_with_labels(20), "fm", "adagrad", threads, epochs=1)
    assert started == [1, 2, 2]


def test_rounds_must_cover_the_samples():
    data = rows_with_labels(20)
    for ends in ([0, 5], [0, 5, 5, 20], [1, 20], [0]):
        with pytest.raises(ValueError, match="rounds"):
            SampleRounds(data, np.array(ends))
