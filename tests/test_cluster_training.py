"""Training on a cluster: the rows equal one machine's, and nothing depends on the workers."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from clusters import Here
from problems import FOLLOWED, TRAINED, assert_close, taken, validation_rows
from test_every_pair import LEARNABLE, planted
from test_stored_rows import rows_of

from fmcli.cluster import rounds as rounds_module
from fmcli.cluster.cache import open_partitions
from fmcli.cluster.partitions import Inputs, divide
from fmcli.cluster.rows import PartitionedShards
from fmcli.cluster.tasks import BUILD
from fmcli.data.labels import NUMBERS
from fmcli.data.shards.weights import with_label_weights
from fmcli.data.stored.caching import Reading
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import Stream
from fmcli.data.text.pieces import concatenated
from fmcli.data.text.reader import read
from fmcli.errors import BadInputError
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss
from fmcli.registry.catalog import refusal
from fmcli.registry.models import MODELS
from fmcli.registry.specs import make_spec
from fmcli.registry.streams import ROUND_STREAM, generator
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.solvers.stochastic.round_loop import RoundLoop
from fmcli.solvers.stochastic.sample_rounds import SampleRounds
from fmcli.solvers.stochastic.trainer import make_solver
from fmcli.training import job
from fmcli.training.checkpoint import Checkpoint
from fmcli.training.growth import grown_file
from fmcli.training.planning import prepare, strengths_of
from fmcli.training.saving import load_warm_start, save_model
from fmcli.training.setup import hold_out
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import Settings, make_model
from fmcli.training.several.learning import learn

ROWS, EPOCHS, ROUND = 300, 2, 40
READING = Reading("auto", False, False, True)
SOLVERS = ("adagrad", "ftrl", "lbfgs")


def text_of(data):
    """The rows of a data set as text."""
    value = np.ones(data.nnz) if data.value is None else data.value
    field = None if data.field is None else data.field
    lines = []
    for row in range(data.rows):
        entries = range(*data.indptr[row : row + 2].tolist())
        fields = ["" if field is None else f"{field[at]}:" for at in entries]
        tokens = [f"{f}{data.index[at]}:{value[at]:.9g}" for f, at in zip(fields, entries, strict=True)]
        lines.append(" ".join([f"{data.label[row]:.17g}", *tokens]))
    return "\n".join(lines) + "\n"


def opened(paths, workers=1, reading=READING, most=2500, bad=None):
    """The partitions of some files on a number of workers."""
    cluster = Here(workers)
    division = divide(paths, "auto", reading.keep_fields, "it", Stream(), most, BUILD)
    inputs = Inputs(division.partitions, replace(reading, format=division.format), False, None, BUILD)
    return open_partitions(cluster, inputs, division.format, bad or BadLines())


def settings(model, solver, holdout=None, **options):
    options = {"epochs": EPOCHS, "norm": False, **taken(model, LEARNABLE), **options}
    if model == "llfm" and solver != "lbfgs":
        options["llfm_variant"] = "do"
    if solver != "lbfgs":
        options["round_size" if MODELS[model].rounds else "seed"] = ROUND if MODELS[model].rounds else 1
    return Settings(make_spec(model, solver, None, options), holdout=holdout)


def arrays(trained):
    model = trained.plan.model
    return {**model.parameters, **{f"{name}.{i}": a for name, s in model.states.items() for i, a in enumerate(s)}}


def same_bits(first, second):
    return all(array.tobytes() == second[name].tobytes() for name, array in first.items())


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Writes the rows of a data set for a model to two files; returns their paths."""
    monkeypatch.setattr(rounds_module, "LEAST_ROWS", 8)
    monkeypatch.setattr(rounds_module, "GROWTH", 1 / 4)
    monkeypatch.setattr(rounds_module, "BROUGHT_ROWS", 20)

    def written(model, loss="squared"):
        data = planted(model, loss, rows=ROWS)[0]
        for number, part in enumerate((data.take(np.arange(170)), data.take(np.arange(170, ROWS)))):
            (tmp_path / f"rows{number}").write_text(text_of(part))
        return [str(tmp_path / "rows0"), str(tmp_path / "rows1")], data

    return written


# Every third kind with a solver of sums, and some with all.
KINDS = [
    (model, solver)
    for number, model in enumerate({**dict.fromkeys([*TRAINED][::3]), "ffm": None, "llfm": None})
    for solver in SOLVERS
    if not refusal(model, solver)
    and (solver == SOLVERS[number % 2] or (solver == "lbfgs" and model in ("ffm", "llfm")))
]


@pytest.mark.parametrize(("model", "solver"), KINDS)
def test_the_number_of_workers_does_not_change_a_bit(rows, model, solver):
    paths, data = rows(model)
    reading = Reading("auto", data.field is not None, False, True)
    runs = []
    for workers in (1, 3):
        cache = opened(paths, workers, reading)
        assert len(cache.rows) > 3
        plan = prepare(settings(model, solver, holdout=0.1), PartitionedShards(cache))
        runs.append(job.train(plan))
        assert len({place for _, place in cache.cluster.tasks if place}) == workers
    assert same_bits(*map(arrays, runs))
    assert runs[0].epochs[0].valid == runs[1].epochs[0].valid
    assert runs[0].epochs[-1].loss < runs[0].baseline.loss


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize(("share", "last"), [(0.1, False), (None, False), (0.3, True), (0, False)])
def test_the_held_out_rows_are_those_of_one_machine(rows, monkeypatch, names, share, last):
    """A rare class has its share of them, and they are in the order of the text."""
    paths, _ = rows("fm", "logistic")
    labels = [(("no", "yes") if names else ("0", "1"))[row % 29 == 0] for row in range(ROWS)]
    for number, part in enumerate((slice(170), slice(170, None))):
        path = Path(paths[number])
        tokens = [line.partition(" ")[2] for line in path.read_text().splitlines()]
        path.write_text("".join(f"{label} {text}\n" for label, text in zip(labels[part], tokens, strict=True)))
    monkeypatch.setattr(hold_out, "RANGE", 64)
    chosen = Settings(make_spec("fm", "adagrad", "logistic", {"epochs": 2}), holdout=share, holdout_last=last)
    table = read(paths)
    forms = PartitionedShards(opened(paths)), RowsInMemory(table.dataset, table.labels or NUMBERS)
    plans = [prepare(chosen, one) for one in forms]
    assert len({plan.source.count for plan in plans}) == 1
    if share == 0:
        assert not any(plan.validation for plan in plans)
        return
    found, expected = map(validation_rows, plans)
    assert rows_of(found) == rows_of(expected)
    if not last:
        assert (found.label == found.label.max()).sum() == round(len(range(0, ROWS, 29)) * found.rows / ROWS)


@pytest.mark.parametrize(("model", "solver"), [("fm", "adagrad"), ("hofm-simplex", "ftrl")])
def test_rounds_are_those_of_memory(rows, model, solver):
    """The same steps as in memory, on the rows of each round in the order of the partitions."""
    paths, _ = rows(model)
    plan = prepare(settings(model, solver, holdout=0, epochs=1), PartitionedShards(opened(paths)))
    found = job.train(plan)

    source, spec = plan.source, plan.spec
    cluster, inputs = source.partitions.cluster, source.partitions.inputs.value
    shared = source.goal(plan.task, 1.0).value
    ends = rounds_module.ends_of_rounds(plan.task, 1)
    assert np.diff(ends).tolist() == [20, 20, 20, 20] + [16] * 3 + [32] * 4 + [ROUND, 4]
    numbers = range(len(source.sizes))
    of_rounds = [
        [shared.take(inputs, number, in_round(shared, inputs, number, *cut)) for number in numbers]
        for cut in pairwise(ends)
    ]
    sizes = [sum(part.rows for part in parts) for parts in of_rounds]
    assert sum(sizes) == ROWS
    assert max(np.abs(sizes - np.diff(ends))) <= len(source.sizes)
    singly, sizes = sizes[:4], sizes[4:]
    orders = [np.arange(count, dtype=np.int32) for count in singly]
    for at, order in enumerate(orders):
        generator(spec, ROUND_STREAM, 1, at).shuffle(order)
    first, data = (concatenated([part for parts in some for part in parts]) for some in (of_rounds[:4], of_rounds[4:]))
    assert sorted([*first.label, *data.label]) == sorted(planted(model, "squared", rows=ROWS)[0].label.tolist())

    model_, loss = make_model(spec, data.features, 1, 0), build_loss(spec, spec.loss, 1)
    step = make_solver(spec)
    again = replace(plan, model=model_)
    model_.allocate(step.slots)
    job.start(again, loss)
    step.bind(model_, Penalty(**strengths_of(spec)))
    step.start()
    order = np.concatenate([order + np.int32(sum(singly[:at])) for at, order in enumerate(orders)])
    RowLoop(model_, step, loss, first).train_on(order, 0, sum(singly))
    rounds = SampleRounds(data, np.cumsum([0, *sizes]), by_sample=model_.pair_block >= 0)
    RoundLoop(model_, step, loss).train_on(None, rounds, np.arange(len(sizes), dtype=np.int32), 0, len(sizes))
    step.end_epoch()
    assert_close(found.plan.model.parameters, model_.parameters, FOLLOWED)
    assert cluster.tasks


def in_round(shared, inputs, number, first, last):
    """The rows of a partition in a round of the first epoch."""
    order = shared.order(inputs, number, 1)
    every = [(shard, row) for shard, rows in order for row in rows.tolist()]
    some = every[len(every) * first // ROWS : len(every) * last // ROWS]
    return [(shard, np.array([row], dtype=np.int32)) for shard, row in some]


def test_weights_of_labels_reach_the_workers(rows):
    paths, _ = rows("fm")
    weights = {float(read(paths).dataset.label[0]): 50.0}
    chosen = settings("fm", "lbfgs", holdout=0, epochs=3, tol=0)
    there = job.train(prepare(chosen, PartitionedShards(opened(paths, 2), weights)))
    weighted = with_label_weights(read(paths).dataset, weights)
    here = job.train(prepare(chosen, RowsInMemory(weighted)))
    assert there.plan.source.total_weight == here.plan.source.total_weight > weighted.rows
    assert there.epochs[0].objective == pytest.approx(here.epochs[0].objective, rel=1e-6)


@pytest.mark.parametrize("model", ["fm", "ffm", "llfm", "poly2"])
def test_lbfgs_has_the_objective_of_one_machine(rows, model, tmp_path):
    paths, data = rows(model)
    reading = Reading("auto", data.field is not None, False, False)
    chosen = settings(model, "lbfgs", holdout=0, epochs=12, tol=0)
    there = job.train(prepare(chosen, PartitionedShards(opened(paths, 2, reading))))
    table = read(paths, keep_fields=reading.keep_fields, compact=MODELS[model].compact)
    here = job.train(prepare(chosen, RowsInMemory(table.dataset)))
    for number in (0, 4):
        assert there.epochs[number].objective == pytest.approx(here.epochs[number].objective, rel=1e-6)
    assert there.epochs[-1].objective == pytest.approx(here.epochs[-1].objective, rel=1e-2)


def test_earlier_rows_hold_as_on_one_machine(rows, tmp_path):
    paths, data = rows("fm")
    chosen = settings("fm", "lbfgs", holdout=0, epochs=3)
    save_model(str(tmp_path / "m"), job.train(prepare(chosen, RowsInMemory(data.take(np.arange(99))))), {}, "libsvm")
    chosen = replace(chosen, warm_start=load_warm_start(str(tmp_path / "m")))
    plans = [prepare(chosen, rows) for rows in (PartitionedShards(opened(paths, 2)), RowsInMemory(data))]
    assert plans[0].spec.values["init_strength"] == plans[1].spec.values["init_strength"] == 1
    found = [[epoch.objective for epoch in job.train(plan).epochs] for plan in plans]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_new_features_are_learned_as_on_one_machine(rows, tmp_path):
    paths, data = rows("fm")
    few = data.take(np.arange(9))
    save_model(str(tmp_path / "m"), job.train(prepare(settings("fm", "adagrad"), RowsInMemory(few))), {}, "libsvm")
    start = load_warm_start(str(tmp_path / "m"))
    chosen = Settings.of(start.of_new_features({}), warm_start=start, only_new=True)
    plans = [prepare(chosen, rows) for rows in (PartitionedShards(opened(paths, 2)), RowsInMemory(data))]
    found = [grown_file(learn(plan)).tensors["V"] for plan in plans]
    assert plans[0].new_features.sets
    np.testing.assert_allclose(*found, atol=1e-4)


TEXTS = {
    "numbers": ["1 0:1 5:2\n0 3:1\n", "1 9:0.5\n0 5:1 9:1\n"],
    "names": ["yes a:1 5:2\nno b:1\n", "no a:0.5 zz:1\nyes 5:1 c:1\n"],
    "late names": ["1 0:1 5:2\n0 3:1\n", "1 user=7:0.5\n0 5:1 user=7:1\n"],
    "large numbers": ["1 0:1 5:2\n0 3:1\n", "1 99999999999:0.5\n0 5:1 9:1\n"],
    "sparse numbers": ["1 0:1 5:2\n0 3:1\n", "1 99999999:0.5\n0 5:1 9:1\n"],
}


@pytest.mark.parametrize("hash_bits", [0, 6])
@pytest.mark.parametrize("text", TEXTS)
def test_columns_and_labels_are_those_of_one_machine(tmp_path, text, hash_bits):
    paths = []
    for number, rows in enumerate(TEXTS[text]):
        (tmp_path / f"{number}").write_text(rows)
        paths.append(str(tmp_path / f"{number}"))
    reading = Reading("auto", False, False, False, hash_bits=hash_bits)
    cache = opened(paths, 2, reading, most=10)
    table = read(paths, labels=None, hash_bits=hash_bits)
    here = table.dataset
    assert [len(part) for part in cache.extents] == [1] * len(cache.extents)
    assert cache.facts.names == table.labels
    assert cache.facts.features == here.features
    assert cache.counts.tolist() == here.counts(np.arange(here.rows, dtype=np.int32)).tolist()
    there = concatenated(list(cache.fetch(cache.shared(), "all")))
    for name in ("indptr", "index", "label"):
        assert getattr(there, name).tolist() == getattr(here, name).tolist(), name
    if here.numbering is not None:
        written = [numbering.written(range(here.features)) for numbering in (cache.dictionary, here.numbering)]
        assert written[0] == written[1]


def test_bad_lines_have_their_numbers(tmp_path):
    (tmp_path / "a").write_text("1 0:1\n" * 40 + "0 1:x\n" + "0 1:1\n")
    with pytest.raises(BadInputError, match="a:41:3: "):
        opened([str(tmp_path / "a")], 1, most=100)


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_scales_and_rare_features_are_those_of_one_machine(rows, scale, tmp_path):
    paths, _ = rows("fm")
    chosen = replace(settings("fm", "adagrad", holdout=0, scale=scale), min_count=24)
    there = prepare(chosen, PartitionedShards(opened(paths, 2)))
    here = prepare(chosen, RowsInMemory(read(paths).dataset))
    assert there.counts.tolist() == here.counts.tolist()
    assert 0 < there.seen.sum() < len(there.seen)
    assert there.spec.values == here.spec.values
    if scale != "none":
        assert_close(there.transform.scale.arrays(), here.transform.scale.arrays(), {"rtol": 1e-5})


class StopError(Exception):
    """Ends a run."""


@pytest.mark.parametrize("solver", ["adagrad", "lbfgs"])
def test_a_run_continues_where_a_checkpoint_was_written(rows, solver, tmp_path):
    paths, _ = rows("fm")
    chosen = settings("fm", solver, holdout=0.1, epochs=4)

    def run(keeper=None, workers=1):
        plan = prepare(chosen, PartitionedShards(opened(paths, workers)))
        if keeper:
            keeper.belongs_to(plan, False)
        return job.train(plan, keeper=keeper)

    class Ended(Checkpoint):
        pauses = 0

        def pause(self, ends):
            self.pauses += 1
            if self.pauses == 3:
                self.write()
                raise StopError

    whole = run()
    with pytest.raises(StopError):
        run(Ended(str(tmp_path / "kept"), 600))
    keeper = Checkpoint(str(tmp_path / "kept"), 600)
    keeper.read()
    continued = run(keeper, workers=2)
    assert continued.continued is not None
    assert same_bits(arrays(continued), arrays(whole))


@pytest.mark.parametrize("solver", ["adagrad", "lbfgs"])
def test_workers_that_are_lost_change_nothing(rows, solver, monkeypatch):
    paths, _ = rows("fm")
    chosen = settings("fm", solver, holdout=0.1)
    whole = job.train(prepare(chosen, PartitionedShards(opened(paths, 1))))
    cache = opened(paths, 4)
    plan = prepare(chosen, PartitionedShards(cache))
    submit = cache.cluster.submit

    def losing(function, *arguments, worker=None):
        if len(cache.cluster.tasks) % 10 == 9 and len(cache.cluster.places) > 1:
            cache.cluster.lose(cache.cluster.places[0])
        return submit(function, *arguments, worker=worker)

    monkeypatch.setattr(cache.cluster, "submit", losing)
    assert same_bits(arrays(job.train(plan)), arrays(whole))
    assert len(cache.cluster.places) == 1


def test_the_rows_of_a_round():
    sizes = [rounds_module.round_size(rows) for rows in (10, 100_000, 950_000, 10**7, 10**9)]
    assert sizes == [2**10, 2**10, 2**14, 2**14, 2**20]
