"""Block steps in whole runs: how epochs are divided, and what the result does not depend on. The steps themselves are
compared with their definition in test_solvers.py."""

import numpy as np
import pytest
from problems import FOLLOWED, ROW_SOLVERS, TRAINED, assert_close, build, dataset, pairwise, random_rows

from fmcli.errors import UsageError
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic import blocks
from fmcli.solvers.stochastic.block_loop import BlockLoop, takes_blocks
from fmcli.solvers.stochastic.blocks import SAMPLES_BEFORE
from fmcli.solvers.stochastic.sample_blocks import SampleBlocks
from fmcli.solvers.stochastic.trainer import make_solver
from fmcli.training.job import plan, train

FEATURES, ROWS, SIZE = 12, 700, 4  # blocks of 4 rows begin after 1024 rows, in the second epoch
WITH_BLOCKS = [name for name, kind in TRAINED.items() if kind.blocks]
BLOCK_SOLVERS = [name for name, solver in ROW_SOLVERS.items() if solver.blocks]


def rows_with_labels(rows=ROWS, ones=False, weights=False):
    rng = np.random.default_rng(2)
    samples = random_rows(rng, rows, FEATURES, ones=ones)
    return dataset(samples, FEATURES, rng.integers(2, size=rows), rng.uniform(0.5, 2, rows) if weights else None)


def trained(data, name, solver, threads=1, **options):
    adaptive = {"adaptive": True} if solver == "fobos" else {}
    spec = make_spec(name, solver, None, {"block_size": SIZE, "init_std": 0.1, **adaptive, **options})
    return train(plan(data, spec, threads=threads))


def arrays(run):
    model = run.plan.model
    return {**model.parameters, **{f"{name}.{i}": a for name, s in model.states.items() for i, a in enumerate(s)}}


def assert_same_bits(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes(), name


@pytest.mark.parametrize(("name", "solver", "weights"), pairwise(WITH_BLOCKS, BLOCK_SOLVERS, [True, False]))
def test_the_number_of_threads_does_not_change_a_bit(name, solver, weights, monkeypatch):
    monkeypatch.setattr(blocks, "SAMPLES_BEFORE", 1)  # large blocks, because threads wait for each other after each one
    monkeypatch.setattr(blocks, "cpu_count", lambda: 8)
    data = rows_with_labels(300, weights=weights)
    one, *others = [trained(data, name, solver, threads, epochs=2, block_size=64) for threads in (1, 2, 3, 8)]
    for other in others:
        assert_same_bits(arrays(one), arrays(other))


def test_blocks_stay_together(monkeypatch):
    """They begin after 324 rows of the second epoch. Its other rows stay in their blocks; its first 324 rows are in
    blocks from the third epoch on."""
    arranged, trained_on = [], []

    class Recorded(SampleBlocks):
        def __init__(self, data, ends, **keywords):
            super().__init__(data, ends, **keywords)
            arranged.append(len(self))

    class Loop(BlockLoop):
        def run(self, pool, of, order, start, stop, total=0):
            trained_on.append((of.data.rows, order[start:stop].tolist()))
            return super().run(pool, of, order, start, stop, total)

    monkeypatch.setattr(blocks, "SampleBlocks", Recorded)
    monkeypatch.setattr(blocks, "BlockLoop", Loop)
    trained(rows_with_labels(), "fm", "adagrad", epochs=4)
    assert arranged == [94, 81]
    assert sorted(rows for rows, _ in trained_on) == [324, 324, 376, 376, 376]
    orders = [order for rows, order in trained_on if rows == 376]
    assert orders[0] == list(range(94))
    assert all(sorted(order) == orders[0] for order in orders)
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize(("name", "solver", "ones"), pairwise(WITH_BLOCKS, BLOCK_SOLVERS, [True, False]))
def test_blocks_of_one_row_are_the_usual_steps(name, solver, ones, monkeypatch):
    data = rows_with_labels(ones=ones)
    by_rows = trained(data, name, solver, epochs=1, block_size=1)
    monkeypatch.setattr(blocks, "SAMPLES_BEFORE", 0)
    monkeypatch.setattr(blocks, "block_ends", lambda rows, size: np.arange(rows + 1))
    in_blocks = trained(data, name, solver, epochs=1)
    if solver == "fobos":  # blocks do not defer the penalties of the rows that they touch, which changes the rounding
        assert_close(in_blocks.plan.model.parameters, by_rows.plan.model.parameters, FOLLOWED)
    else:
        assert_same_bits(arrays(in_blocks), arrays(by_rows))
        assert in_blocks.epochs[0].loss == pytest.approx(by_rows.epochs[0].loss, rel=1e-12)


@pytest.mark.parametrize("solver", BLOCK_SOLVERS)
def test_the_first_steps_are_of_single_rows(solver):
    data = rows_with_labels(SAMPLES_BEFORE * SIZE)
    in_blocks, by_rows = [trained(data, "fm", solver, epochs=1, block_size=size) for size in (SIZE, 1)]
    assert_same_bits(arrays(in_blocks), arrays(by_rows))


def test_components_declare_whether_they_have_block_steps():
    for name, kind in TRAINED.items():
        assert not kind.blocks or takes_blocks(build(name, FEATURES, rank=2)), name
    for name, solver in ROW_SOLVERS.items():
        options = {"learning_rate": 0.1, "adaptive": True}
        given = {option: value for option, value in options.items() if option in solver.options}
        assert make_solver(make_spec("fm", name, None, given)).takes_blocks == solver.blocks, name
    for name, loss in LOSSES.items():
        built = loss.load()(**({"outputs": 3} if loss.task in ("classes", "levels") else {}))
        assert np.isfinite(built.smoothness) == loss.bounded, name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"solver": "sgd"}, "sgd cannot train in blocks"),
        ({"model": "ffm", "solver": "adagrad"}, "ffm cannot train in blocks"),
        ({"model": "llfm", "solver": "sgd"}, "llfm and sgd cannot train in blocks"),
        ({"solver": "fobos"}, "fobos trains in blocks only with --adaptive; leave out --block-size 8"),
        ({"solver": "fobos", "options": {"adaptive": True, "prox": "exact"}}, "cannot be combined with --prox exact"),
        ({"loss": "hinge"}, "loss hinge cannot train in blocks"),
        ({"options": {"batch_size": 2}}, "--block-size 8 cannot be combined with --batch-size"),
        ({"solver": "cd"}, "--block-size"),
    ],
)
def test_blocks_are_refused_where_there_are_none(options, words):
    options = {"solver": "adagrad", **options, "options": {**options.get("options", {}), "block_size": 8}}
    with pytest.raises(UsageError, match=words):
        make_spec(**options)


def test_no_more_threads_than_processors(monkeypatch):
    started = []

    class Loop(BlockLoop):
        def __init__(self, model, solver, loss, threads):
            super().__init__(model, solver, loss, threads)
            started.append(threads)

    monkeypatch.setattr(blocks, "cpu_count", lambda: 2)
    monkeypatch.setattr(blocks, "BlockLoop", Loop)
    for threads in (1, 2, 8):
        trained(rows_with_labels(20), "fm", "adagrad", threads, epochs=1)
    assert started == [1, 2, 2]


def test_blocks_must_cover_the_samples():
    data = rows_with_labels(20)
    for ends in ([0, 5], [0, 5, 5, 20], [1, 20], [0]):
        with pytest.raises(ValueError, match="blocks"):
            SampleBlocks(data, np.array(ends))
