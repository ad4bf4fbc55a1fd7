"""Training on rows in a cache: the cache has all rows, its shards are trained on as rows in memory are, and damage is
found."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from problems import TRAINED, dataset, pairwise, taken, validation_rows
from test_every_pair import LEARNABLE, planted

from fmcli.choosing.automatic import choose
from fmcli.choosing.cross_validation import FoldTraining, cross_validate, fold_numbers
from fmcli.choosing.folds import Folding, folds_of
from fmcli.choosing.plans import fold_plans
from fmcli.data.counts.occurrences import CHECKSUMS, checksum, checksum_of
from fmcli.data.shards.weights import Weighting, with_label_weights
from fmcli.data.stored import cache as caches
from fmcli.data.stored.cache import Cache, build
from fmcli.data.stored.caching import Reading, cache_of
from fmcli.data.text.faults import BadLines
from fmcli.data.text.pieces import TextFacts, TextRows, concatenated
from fmcli.data.text.reader import read
from fmcli.errors import BadInputError
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.registry.streams import SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic import round_epochs
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.solvers.stochastic.round_loop import RoundLoop
from fmcli.solvers.stochastic.sample_rounds import SampleRounds
from fmcli.solvers.stochastic.trainer import make_solver
from fmcli.training import job
from fmcli.training.baseline import baseline_of
from fmcli.training.planning import prepare, strengths_of
from fmcli.training.saving import load_warm_start, save_model
from fmcli.training.setup import hold_out
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.stored import rows_of_cache

ROWS, EPOCHS = 300, 3
READING = Reading("auto", False, False, True)
WITH_SHARDS = [name for name, kind in TRAINED.items() if kind.rounds]
SHARD_SOLVERS = [name for name, solver in SOLVERS.items() if solver.rounds]


@pytest.fixture
def small(monkeypatch):
    """Chunks and shards of few rows."""
    monkeypatch.setattr(caches, "CHUNK_BYTES", 6000)
    monkeypatch.setattr(caches, "SHARD_BYTES", 4000)
    monkeypatch.setattr(caches, "STRIPS", 16)


def stored(path, data, shuffled=True, weighted=False):
    """A cache of the rows of a data set."""
    about = {"keep_fields": data.field is not None, "label_weights": weighted, "inputs": None}
    pieces = [data.take(np.arange(at, min(at + 50, data.rows))) for at in range(0, data.rows, 50)]
    build(str(path), (TextRows(piece, None) for piece in pieces), about, shuffled=shuffled, threads=1)
    return Cache(str(path))


def rows_of(data):
    """The rows of a data set, each as a tuple."""
    value = np.ones(data.nnz) if data.value is None else data.value
    field = np.zeros(data.nnz) if data.field is None else data.field
    columns = [array.tolist() for array in (data.index, field, value)]
    ends = data.indptr.tolist()
    return [
        (label, *(tuple(column[start:stop]) for column in columns))
        for label, start, stop in zip(data.label.tolist(), ends, ends[1:], strict=False)
    ]


def all_rows(path):
    """The rows of all shards of a cache, each as a tuple."""
    cache = Cache(str(path))
    try:
        return [row for shard in range(len(cache.shards)) for row in rows_of(cache.load(shard))]
    finally:
        cache.close()


def test_a_text_without_rows_changes_no_names_of_labels():
    facts, names = caches.CacheHeader(), ("spam", "ham")
    for text in (TextFacts(bytes=9, names=names), TextFacts(bytes=5, repeated_rows=2)):
        facts.take(text)
    assert (facts.names, facts.bytes, facts.repeated_rows) == (names, 14, 2)


@pytest.mark.parametrize("shuffled", [True, False])
def test_the_shards_have_all_rows(small, tmp_path, rng, shuffled):
    data = planted("fm", "squared", rows=ROWS)[0].changed(
        value=rng.normal(size=ROWS * 6).astype(np.float32), weight=rng.random(ROWS)
    )
    cache = stored(tmp_path / "c", data, shuffled, weighted=True)
    shards = [cache.load(shard) for shard in range(len(cache.shards))]
    assert len(shards) >= 3
    assert [shard.rows for shard in shards] == [cache.rows_of(shard) for shard in range(len(shards))]
    read = [row for shard in shards for row in rows_of(shard)]
    assert (read == rows_of(data)) == (not shuffled)
    assert sorted(read) == sorted(rows_of(data))
    assert sorted(np.concatenate([shard.weight for shard in shards])) == sorted(data.weight)
    assert cache.counts.tolist() == np.bincount(data.index).tolist()
    facts = cache.facts
    assert (facts.rows, facts.nonzeros, facts.longest) == (data.rows, data.nnz, data.longest)
    assert facts.longest_square == data.longest_square()
    assert facts.total_weight == pytest.approx(data.total_weight())
    if shuffled:  # each shard has rows of all chunks
        places = {row: place for place, row in enumerate(rows_of(data))}
        for shard in shards:
            assert np.ptp([places[row] for row in rows_of(shard)]) > 0.7 * ROWS


def plan_of(cache, model, solver, threads=2, **options):
    options = {"epochs": EPOCHS, "norm": False, "scale_labels": False, **taken(model, LEARNABLE), **options}
    return prepare(Settings(make_spec(model, solver, None, options), threads=threads), rows_of_cache(cache))


@pytest.mark.parametrize("model", list(TRAINED))
def test_training_on_shards_is_training_on_all_rows_in_their_order(small, tmp_path, model):
    """Each kind with a solver: the loop over all rows in memory, in the order of the shards, gives the same bytes."""
    solvers = [name for name, solver in SOLVERS.items() if solver.by_rows]
    refused = [name for name in solvers if SOLVERS[name].refuses.keys() & set(TRAINED[model].positive)]
    able = [name for name in solvers if name not in refused]
    solver = able[list(TRAINED).index(model) % len(able)]
    cache = stored(tmp_path / "c", planted(model, "squared", rows=ROWS)[0])
    trained = job.train(plan_of(cache, model, solver))
    assert_trained_by_hand(trained, plan_of(cache, model, solver))
    assert trained.epochs[-1].loss < 0.99 * trained.epochs[0].loss or MODELS[model].name == "linear"


@pytest.mark.parametrize(("model", "solver", "threads"), pairwise(WITH_SHARDS, SHARD_SOLVERS, [1, 3]))
def test_shard_steps_on_shards_are_those_in_memory(small, tmp_path, rng, monkeypatch, model, solver, threads):
    """Single rows until the middle of a shard of the cache, and then shards of rows."""
    monkeypatch.setattr(round_epochs, "SAMPLES_BEFORE", 20)
    monkeypatch.setattr(round_epochs, "PIECE", 16)
    monkeypatch.setattr(round_epochs, "cpu_count", lambda: 8)
    data = planted(model, "squared", rows=ROWS)[0].changed(weight=0.5 + rng.random(ROWS))
    cache = stored(tmp_path / "c", data, weighted=True)
    options = {"round_size": 8, **({"adaptive": True} if solver == "fobos" else {})}
    plans = [plan_of(cache, model, solver, threads, **options) for _ in range(2)]
    trained = job.train(plans[0])
    assert_trained_by_hand(trained, plans[1], 8, 160)
    assert trained.updates == EPOCHS * ROWS
    assert trained.epochs[-1].loss < trained.epochs[0].loss


def assert_trained_by_hand(trained, plan, size=1, single=EPOCHS * ROWS):
    """Training has the result of the loop over all rows in memory, in the order of the epochs: a step for each of the
    first `single` rows, and then for shards of `size` rows."""
    assert len(plan.source.sizes) >= 3
    rows = make_solver(plan.spec)
    loss = build_loss(plan.spec, "squared", 1)
    plan.model.allocate(rows.slots)
    job.start(plan, loss)
    rows.bind(plan.model, Penalty(**strengths_of(plan.spec)))
    rows.start()
    pieces = [data for data, _ in plan.source.every()]
    begins = np.cumsum([0, *(data.rows for data in pieces)])
    whole = concatenated(pieces)
    mean_weight = whole.total_weight() / whole.rows
    loop = RowLoop(plan.model, rows, loss, whole, 1, mean_weight)
    by_shards = RoundLoop(plan.model, rows, loss) if size > 1 else None
    for epoch in range(1, EPOCHS + 1):
        random, order = generator(plan.spec, SHUFFLE_STREAM, epoch), list(range(len(begins) - 1))
        random.shuffle(order)
        for shard in order:
            numbers = np.arange(begins[shard], begins[shard + 1], dtype=np.int32)
            random.shuffle(numbers)
            first = min(single, len(numbers))
            single -= first
            loop.train_on(numbers, 0, first)
            if first < len(numbers):
                chosen = whole.take(numbers[first:])
                divisor = mean_weight if rows.averages_weights else 1.0
                by_sample = plan.model.pair_block >= 0
                ends = round_epochs.round_ends(chosen.rows, size)
                in_shards = SampleRounds(chosen, ends, mean_weight=divisor, by_sample=by_sample)
                by_shards.train_on(None, in_shards, np.arange(len(in_shards), dtype=np.int32), 0, len(in_shards))
        rows.end_epoch()
        plan.model.end_epoch()
    for name, array in plan.model.parameters.items():
        np.testing.assert_array_equal(array, trained.plan.model.parameters[name], name)


def test_held_out_rows_are_not_trained_on(small, tmp_path):
    data = planted("fm", "squared", rows=ROWS)[0]
    data = data.changed(label=np.round(data.label))
    cache = stored(tmp_path / "c", data)
    settings = Settings.of(make_spec("fm", "adagrad", None, {"epochs": 2}), holdout=0.4, refit=True)
    plan = prepare(settings, rows_of_cache(cache))
    held = rows_of(validation_rows(plan))
    trained = [row for shard, rows in plan.source.every() for row in rows_of(shard.take(rows))]
    assert len(held) == round(0.4 * ROWS)
    assert sorted(held + trained) == sorted(rows_of(data))
    counts = np.bincount([j for row in trained for j in row[1]], minlength=data.features)
    assert plan.counts.tolist() == counts.tolist()
    assert plan.source.nonzeros == sum(len(row[1]) for row in trained)
    assert plan.source.count == len(trained) == ROWS - len(held)
    whole = plan.source.whole()
    assert whole.count == ROWS
    assert whole.occurrences(1)[1].tolist() == cache.counts.tolist()
    of_shards = [checksum(shard, rows) for shard, rows in plan.source.every()]
    assert checksum_of(plan.source) == sum(of_shards) % CHECKSUMS != checksum_of(whole)
    assert checksum_of(whole) == checksum(data, np.arange(ROWS, dtype=np.int32))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("size", [64, 1 << 20])
def test_the_held_out_rows_are_those_of_rows_in_memory(small, tmp_path, monkeypatch, shuffled, size):
    monkeypatch.setattr(hold_out, "RANGE", size)
    data = planted("fm", "squared", rows=ROWS)[0]
    cache = stored(tmp_path / "c", data, shuffled)
    assert len(cache.shards) > 1
    assert cache.chunks > 1
    for seed, (share, last) in itertools.product(range(3), [(0.01, False), (0.3, False), (None, False), (0.3, True)]):
        spec = make_spec("fm", "adagrad", None, {"epochs": 2, "seed": seed})
        settings = Settings(spec, holdout=share, holdout_last=last)
        found, expected = (prepare(settings, rows) for rows in (rows_of_cache(cache), RowsInMemory(data)))
        assert rows_of(validation_rows(found)) == rows_of(validation_rows(expected))
        if share:
            assert validation_rows(found).rows == round(share * ROWS)
        if last:
            assert rows_of(validation_rows(found)) == rows_of(data)[-round(share * ROWS) :]


@pytest.mark.parametrize(
    ("options", "settings", "weighting"),
    [
        ({}, {}, None),
        ({"scale": "zscore"}, {"quick_search": True}, None),
        ({}, {"min_count": 60, "share_rare": True}, Weighting(balanced=True)),
    ],
)
def test_folds_of_a_cache_are_those_of_rows_in_memory(small, tmp_path, options, settings, weighting):
    """L-BFGS sums over all rows, so their order in the cache changes its last digits only."""
    data = planted("fm", "logistic", rows=ROWS)[0]
    data = data.changed(weight=0.5 + np.random.default_rng(0).random(ROWS))
    every = [rows_of_cache(stored(tmp_path / "c", data, weighted=True)), RowsInMemory(data)]
    assert not every[0].in_memory
    spec = make_spec("fm", "lbfgs", "logistic", {"epochs": 4, **options})
    made = Settings.of(spec, holdout=None, **settings)
    candidate, found = FoldTraining(made, weighting, room=1 << 30), []
    for rows in every:
        facts = rows.facts_of_rows()
        folds = list(folds_of(fold_numbers(candidate, facts, Folding(3)), in_order=False))
        found.append(list(cross_validate(candidate, rows, facts, folds, ["auc", "logloss"])))
    for one, other in zip(*found, strict=True):
        assert one.fold.test.tolist() == other.fold.test.tolist()
        assert one.figures["features"] == other.figures["features"]
        assert one.figures["best_epoch"] == other.figures["best_epoch"]
        np.testing.assert_allclose(one.score, other.score, rtol=1e-3, atol=1e-4)
    plans = [fold_plans(prepare(replace(made, alternatives=(spec,)), rows), 3) for rows in every]
    for one, other in zip(*plans, strict=True):
        assert rows_of(validation_rows(one)) == rows_of(validation_rows(other))
        assert one.source.numbers.tolist() == other.source.numbers.tolist()
        assert (one.counts == other.counts).all()


def test_kinds_are_compared_on_the_shards_of_a_cache_as_in_memory(small, tmp_path):
    data = planted("fm", "squared", rows=ROWS)[0]
    others = tuple(make_spec(kind, "lbfgs", None, {"epochs": 5}) for kind in ("fm", "poly2"))
    settings = Settings(make_spec("linear", "lbfgs", None, {"epochs": 5}), holdout=None, alternatives=others)
    searches = [
        choose(prepare(settings, one))[1] for one in (rows_of_cache(stored(tmp_path / "c", data)), RowsInMemory(data))
    ]
    kinds = [[(one.model, one.reached.epochs, one.chosen) for one in each.trials] for each in searches]
    assert kinds[0] == kinds[1]
    values = [[one.reached.value for one in each.trials] for each in searches]
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    assert len(values[0]) == 3


def test_a_cache_of_one_shard_has_the_rows_in_the_order_of_the_text(small, tmp_path, monkeypatch):
    monkeypatch.setattr(caches, "SHARD_BYTES", 1 << 20)
    data = planted("fm", "squared", rows=ROWS)[0]
    cache = stored(tmp_path / "c", data)
    assert len(cache.shards) == 1
    assert cache.chunks > 1
    assert rows_of(cache.load(0)) != rows_of(data) == rows_of(rows_of_cache(cache).data)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "poisson", "hinge", "huber"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_constant_is_that_of_all_training_rows(small, tmp_path, rng, loss, weighted):
    """The last rows of the text have other labels, and a shard has other shares of them than all rows."""
    label = rng.permutation(np.arange(ROWS) % 5 == 0) * 1.0 + (loss in ("softmax", "poisson")) * (np.arange(ROWS) > 200)
    weight = 0.5 + rng.random(ROWS) if weighted else None
    data = planted("fm", "squared", rows=ROWS)[0].changed(label=label, weight=weight)
    cache = stored(tmp_path / "c", data, weighted=weighted)
    settings = Settings(make_spec("fm", "adagrad", loss, {"epochs": 1, "scale_labels": False}), holdout=0.4)
    of_labels = {0.0: 3.0} if weighted else {}
    plan = prepare(settings, rows_of_cache(cache).with_label_weights(of_labels))
    raw = [cache.load(shard) for shard in left(plan)]
    rows = concatenated([data.take(rows) for data, (_, rows) in zip(raw, plan.source.every(), strict=True)])
    whole = prepare(replace(settings, holdout=0.0), RowsInMemory(with_label_weights(rows, of_labels)))
    assert plan.source.labels.rows == rows.rows < ROWS
    built = build_loss(plan.spec, loss, plan.transform.labels.outputs)
    found, expected = baseline_of(plan, built), baseline_of(whole, built)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-12)
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert len(plan.rows) < len(whole.rows)
    for one in (plan, whole):
        one.model.allocate(0)
        job.start(one, built)
    np.testing.assert_allclose(plan.model.parameters["bias"], whole.model.parameters["bias"], rtol=1e-6)


def test_a_cache_is_used_again_for_the_same_rows_only(tmp_path):
    text, path = tmp_path / "t", str(tmp_path / "c")

    def reason(reading=READING, inputs=None):
        cache, why = cache_of(path, inputs or [str(text)], reading, threads=2, bad=BadLines())
        assert cache.facts.rows == len(text.read_text().splitlines())
        cache.close()
        return why

    text.write_text("1 1:1 2:0.5\n0 3:1\n")
    assert reason() == "there was none"
    assert reason() == ""
    text.write_text("1 1:1 2:0.6\n0 3:1\n")
    assert reason() == "the earlier one has other inputs"
    libsvm = Reading("libsvm", False, False, False)
    assert reason(libsvm) == "the earlier one has another format and another order of rows"
    whole = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(whole[:-1])
    assert reason(libsvm) == "the earlier one cannot be used: it is truncated"
    assert (tmp_path / "c").read_bytes() == whole
    (tmp_path / "c").write_text("1 1:1\n")
    with pytest.raises(BadInputError, match="is not a cache"):
        reason()


@pytest.mark.parametrize(
    "labels",
    [
        {0.0: (150, 150.0), 0.5: (150, 150.0)},
        {0.0: (5, 5.0), 1.0: (295, 295.0)},
        {0.0: (150, 0.0), 1.0: (150, 0.0)},
        {0.0: (150, 1e308), 1.0: (150, 1e308)},
    ],
)
def test_a_header_that_contradicts_the_labels_is_found(small, tmp_path, labels):
    data = planted("fm", "squared", rows=ROWS)[0].changed(label=np.arange(ROWS) % 2.0)
    cache = stored(tmp_path / "c", data)
    cache.facts.labels = labels
    settings = Settings(make_spec("fm", "adagrad", "squared", {"epochs": 1}), holdout=0.5)
    with pytest.raises(BadInputError, match=r"the cache cannot be used: .* header"):
        job.train(prepare(settings, rows_of_cache(cache)))


@pytest.mark.parametrize("ids", ["small", "names", "late"])
@pytest.mark.parametrize("beside", [False, True])
def test_rows_keep_their_weights(small, tmp_path, rng, ids, beside):
    """The label of a row is its number. There are two inputs, and possibly weights beside the labels."""
    weight = rng.integers(1, 9, ROWS)
    lines = lines_of({"small": range(30), "names": NAMES, "late": range(30)}[ids], rng)
    if ids == "late":
        lines[200:] = lines_of(NAMES, rng)[200:]
    lines = [f"{row}{':2' * beside}{line[line.index(' ') :]}" for row, line in enumerate(lines)]
    for name, text in (("a", lines[:70]), ("b", lines[70:]), ("w", [f"{w}\n" for w in weight])):
        (tmp_path / name).write_text("".join(text))
    reading = Reading("libsvm", False, beside, True, sample_weights=str(tmp_path / "w"))
    inputs = [str(tmp_path / "a"), str(tmp_path / "b")]

    def again():
        cache, why = cache_of(str(tmp_path / "c"), inputs, reading, threads=2, bad=BadLines())
        shards = [cache.load(shard) for shard in range(len(cache.shards))]
        assert len(shards) >= 3
        found = {label: w for data in shards for label, w in zip(data.label, data.weight, strict=True)}
        assert found == {row: (1 + beside) * w for row, w in enumerate(weight)}
        assert (cache.dictionary is not None) == (ids != "small")
        assert cache.facts.total_weight == (1 + beside) * weight.sum()
        return why

    assert again() == "there was none"
    assert again() == ""
    weight[rng.integers(ROWS)] += 1
    (tmp_path / "w").write_text("".join(f"{w}\n" for w in weight))
    assert again() == "the earlier one has other sample weights"
    without = replace(reading, sample_weights=None)
    cache, why = cache_of(str(tmp_path / "c"), inputs, without, threads=1, bad=BadLines())
    assert why == "the earlier one has other sample weights"
    assert cache.weighted == beside


def test_damage_is_found(small, tmp_path, rng):
    """Every changed byte, and every length."""
    data = planted("fm", "squared", rows=60)[0]
    stored(tmp_path / "c", data).close()
    assert sorted(all_rows(tmp_path / "c")) == sorted(rows_of(data))
    whole = (tmp_path / "c").read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        damaged = damaged if rng.random() < 0.8 else whole[: rng.integers(len(whole))]
        (tmp_path / "d").write_bytes(damaged)
        with pytest.raises(BadInputError):
            all_rows(tmp_path / "d")


def test_lbfgs_reads_the_shards_for_each_gradient(small, tmp_path):
    """The sums of losses have another order, but the minimum is the same."""
    cache = stored(tmp_path / "c", planted("linear", "logistic", rows=ROWS)[0])
    settings = Settings.of(
        make_spec("linear", "lbfgs", None, {"l2": 0.01, "tol": 1e-9}), threads=2, holdout=0.3, patience=200
    )
    plan = prepare(settings, rows_of_cache(cache))
    shards = list(plan.source.every())
    assert len(shards) >= 2
    trained = job.train(plan)
    rows = concatenated([data.take(rows) for data, rows in shards])
    whole = prepare(replace(settings, holdout=0.0, spec=plan.spec), RowsInMemory(rows), validation_rows(plan))
    assert whole.source.count == plan.source.count
    expected = [epoch.objective for epoch in job.train(whole).epochs]
    assert trained.epochs[-1].objective == pytest.approx(expected[-1], rel=1e-6)
    assert expected[-1] < 0.9 * expected[0]


@pytest.mark.parametrize("variant", ["do", "apl", "jo"])
def test_lbfgs_updates_anchors_on_all_shards(small, tmp_path, variant):
    """From the same start values, the anchors and objectives equal the result of rows in memory."""
    cache = stored(tmp_path / "c", planted("llfm", "squared", rows=ROWS)[0])
    options = {**taken("llfm", LEARNABLE), "llfm_variant": variant, "anchors": 3, "norm": False}

    def trained(epochs, prepared, **settings):
        spec = make_spec("llfm", "lbfgs", None, {**options, "epochs": epochs})
        return job.train(prepared(Settings.of(spec, threads=2, **settings)))

    save_model(str(tmp_path / "m"), trained(0, lambda settings: prepare(settings, rows_of_cache(cache))), {}, "libsvm")
    shards = [cache.load(shard) for shard in range(len(cache.shards))]
    assert len(shards) >= 3
    whole, start = concatenated(shards), load_warm_start(str(tmp_path / "m"))
    found = trained(22, lambda settings: prepare(settings, rows_of_cache(cache)), warm_start=start)
    expected = trained(22, lambda settings: prepare(settings, RowsInMemory(whole)), warm_start=start)
    objectives = [epoch.objective for epoch in found.epochs]
    assert objectives == pytest.approx([epoch.objective for epoch in expected.epochs], rel=1e-4)
    assert objectives[-1] < 0.9 * objectives[0]
    anchors = found.plan.model.parameters["anchors"]
    np.testing.assert_allclose(anchors, expected.plan.model.parameters["anchors"], rtol=1e-3, atol=1e-4)
    assert (anchors != start.arrays["anchors"]).any() == (variant != "do")


def test_earlier_rows_hold_as_they_do_rows_in_memory(small, tmp_path):
    cache = stored(tmp_path / "c", planted("fm", "squared", rows=ROWS)[0])
    first, *others = (cache.load(shard) for shard in range(len(cache.shards)))
    assert len(others) >= 2
    spec = make_spec("fm", "lbfgs", None, {"rank": 2, "epochs": 3})
    save_model(str(tmp_path / "m"), job.train(job.plan(first, spec)), {}, "libsvm")
    settings = Settings(spec, warm_start=load_warm_start(str(tmp_path / "m")))
    every = RowsInMemory(concatenated([first, *others]))
    plans = [prepare(settings, rows) for rows in (every, rows_of_cache(cache))]
    assert plans[0].spec.values["init_strength"] == plans[1].spec.values["init_strength"] == 1
    found = [[epoch.objective for epoch in job.train(plan).epochs] for plan in plans]
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert found[0][-1] < 0.99 * found[0][0]


@pytest.mark.parametrize("method", ["standard", "max-abs", "zscore"])
def test_scales_are_those_of_all_training_rows(small, tmp_path, rng, method):
    data = planted("fm", "squared", rows=ROWS)[0]
    data = data.changed(value=(1 + 1000 * rng.random(data.nnz)).astype(np.float32))
    bounds, label = data.indptr.tolist(), data.label
    places = (slice(*ends) for ends in itertools.pairwise(bounds))
    entries = [dict(zip(data.index[at].tolist(), data.value[at].tolist(), strict=True)) for at in places]
    number = data.features  # a column that most rows have
    for row in entries[: 8 * len(entries) // 10]:
        row[number] = rng.normal(5, 1)
    data = dataset(entries, number + 1, label)
    cache = stored(tmp_path / "c", data)
    settings = Settings(make_spec("fm", "adagrad", None, {"epochs": 1, "scale": method}), holdout=0.3)
    plan = prepare(settings, rows_of_cache(cache))
    scale = plan.transform.scale
    raw = [cache.load(shard) for shard, size in enumerate(plan.source.sizes) if size]
    rows = concatenated([data.take(rows) for data, (_, rows) in zip(raw, plan.source.every(), strict=True)])
    whole = prepare(replace(settings, holdout=0.0), RowsInMemory(rows))
    seen = whole.seen
    assert scale.centered == (method == "zscore")
    for name, array in scale.arrays().items():
        assert array[: len(seen)][seen] == pytest.approx(whole.transform.scale.arrays()[name][seen], rel=1e-6)
    trained = concatenated([data.take(rows) for data, rows in plan.source.every()])
    assert trained.value == pytest.approx(scale.of(rows).value, rel=1e-6)
    assert np.abs(validation_rows(plan).value).max() < 50


@pytest.mark.parametrize(
    ("model", "solver", "size"), [("fm", "fobos", 1), ("ffm", "adagrad", 1), ("hofm", "ftrl", 1), ("fm", "adagrad", 4)]
)
def test_resuming_is_exact(small, tmp_path, monkeypatch, model, solver, size):
    monkeypatch.setattr(round_epochs, "SAMPLES_BEFORE", 90)
    cache, path = stored(tmp_path / "c", planted(model, "squared", rows=ROWS)[0]), str(tmp_path / "m")

    def trained(epochs, warm_start=None):
        spec = make_spec(model, solver, None, {"epochs": epochs, "round_size": size, **taken(model, LEARNABLE)})
        return job.train(prepare(Settings(spec, warm_start=warm_start), rows_of_cache(cache)))

    save_model(path, trained(2), {}, "ffm", keep_state=True)
    parts, whole = trained(1, load_warm_start(path)), trained(3)
    assert len(whole.plan.source.sizes) >= 3
    for name, array in whole.plan.model.parameters.items():
        np.testing.assert_array_equal(array, parts.plan.model.parameters[name], name)


def lines_of(ids, rng):
    """Rows of text with three of the ids in each, and labels that depend on them."""
    rows = [rng.choice(len(ids), 3, replace=False) for _ in range(ROWS)]
    return ["".join([f"{int(sum(row) % 2)}", *(f" {ids[j]}:1" for j in row), "\n"]) for row in rows]


NAMES = [f"u{j % 7}:x{j}" if j % 2 else str(2**40 + 7 * j) for j in range(30)]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("model", ["fm", "ffm"])
def test_a_dictionary_is_that_of_rows_in_memory(small, tmp_path, rng, model, late):
    """late : whether the first ids are small numbers."""
    lines = lines_of(NAMES, rng)
    if late:
        lines = lines_of(range(20), rng) + lines
    if model == "ffm":
        lines = [re.sub(r" (?=\S+:1)", " 1:", line) for line in lines]
    path = tmp_path / "t"
    path.write_text("".join(lines))
    form = "libsvm" if model == "fm" else "ffm"
    reading = Reading(form, model == "ffm", False, True)
    cache, _ = cache_of(str(tmp_path / "c"), [str(path)], reading, threads=2, bad=BadLines())
    table = read([str(path)], format=form, keep_fields=model == "ffm")
    ours, theirs = cache.dictionary, table.dataset.numbering
    assert ours.written(range(len(ours))) == theirs.written(range(len(theirs)))
    shards = [cache.load(shard) for shard in range(len(cache.shards))]
    assert len(shards) >= 3
    assert sorted(row for shard in shards for row in rows_of(shard)) == sorted(rows_of(table.dataset))
    assert cache.counts.tolist() == table.dataset.counts(np.arange(table.dataset.rows, dtype=np.int32)).tolist()
    spec = make_spec(model, "adagrad", None, {"epochs": 2})
    trained = job.train(prepare(Settings(spec, holdout=0.2), rows_of_cache(cache)))
    save_model(str(tmp_path / "m"), trained, {}, form, keep_state=True)
    new = tmp_path / "new"
    new.write_text(
        "".join(lines_of([*NAMES[:5], "another", "one"], rng)).replace(" ", " 1:" if model == "ffm" else " ")
    )
    more, _ = cache_of(str(tmp_path / "d"), [str(new)], reading, threads=1, bad=BadLines())
    warm_start = load_warm_start(str(tmp_path / "m"))
    plan = prepare(Settings(spec, warm_start=warm_start), rows_of_cache(more))
    assert len(plan.source.sizes) >= 2
    columns = plan.data.numbering
    assert {"another", "one"} <= set(columns.written(range(len(columns))))
    seen = {columns.id(int(j)) for data, rows in plan.source.every() for j in data.take(rows).index}
    assert seen == {"another", "one", *map(number_of, NAMES[:5])}
    assert np.array_equal(plan.counts > 0, [columns.id(j) in seen for j in range(len(columns))])


@pytest.mark.parametrize("ids", [range(30), NAMES])
@pytest.mark.parametrize("model", ["fm", "ffm"])
@pytest.mark.parametrize("share", [False, True])
def test_rare_features_are_those_in_memory(small, tmp_path, rng, model, ids, share):
    field = " 1:" if model == "ffm" else " "
    path, form = tmp_path / "t", "ffm" if model == "ffm" else "libsvm"
    path.write_text("".join(lines_of(ids, rng)).replace(" ", field))
    reading = Reading(form, model == "ffm", False, True)
    cache, _ = cache_of(str(tmp_path / "c"), [str(path)], reading, threads=1, bad=BadLines())
    settings = Settings(
        make_spec(model, "adagrad", None, {"epochs": 1, "norm": False}), min_count=15, share_rare=share, holdout=0.5
    )
    plan = prepare(settings, rows_of_cache(cache))
    shards = [(cache.load(shard), rows) for shard, (_, rows) in zip(left(plan), plan.source.every(), strict=True)]
    whole = concatenated([data.take(rows) for data, rows in shards])
    held_out = [(cache.load(shard), rows) for shard, rows in plan.source.left.items()]
    assert len(held_out) >= 2
    held = concatenated([data.take(np.setdiff1d(np.arange(data.rows), rows)) for data, rows in held_out])
    expected = prepare(replace(settings, holdout=0.0), RowsInMemory(whole), held)
    assert 0 < expected.seen.sum() < 30
    assert plan.counts[plan.seen].tolist() == expected.counts[expected.seen].tolist()
    assert plan.source.nonzeros == expected.source.nonzeros == expected.data.nnz
    stored = concatenated([data.take(rows) for data, rows in plan.source.every()])
    assert rows_of(stored) == rows_of(expected.data)
    assert sorted(rows_of(validation_rows(plan))) == sorted(rows_of(validation_rows(expected)))
    both = max(expected.data.longest_square(), validation_rows(expected).longest_square())
    assert plan.source.totals.longest_square == both
    assert (both > 3) == share  # the rare features of a row are added up
    assert job.train(plan).plan.model.features == expected.model.features


def test_a_model_with_a_shared_column_is_resumed(small, tmp_path, rng):
    """Features that it does not know share that column, and several of them in a row are added up."""
    path = tmp_path / "t"
    path.write_text("".join(lines_of(NAMES, rng)))
    table = read([str(path)], format="libsvm")
    spec = make_spec("fm", "adagrad", None, {"epochs": 1})
    trained = job.train(prepare(Settings(spec, min_count=25, share_rare=True), RowsInMemory(table.dataset)))
    save_model(str(tmp_path / "m"), trained, {}, "libsvm", keep_state=True)
    settings = Settings(spec, warm_start=load_warm_start(str(tmp_path / "m")))
    path.write_text("".join(lines_of([*NAMES, "another", "one"], rng)))
    cache, _ = cache_of(str(tmp_path / "c"), [str(path)], replace(READING, format="libsvm"), threads=1, bad=BadLines())
    plan = prepare(settings, rows_of_cache(cache))
    whole = concatenated([cache.load(shard) for shard in range(len(cache.shards))])
    expected = prepare(settings, RowsInMemory(whole))
    assert rows_of(concatenated([data for data, _ in plan.source.every()])) == rows_of(expected.data)
    assert plan.counts.tolist() == expected.counts.tolist()
    assert plan.source.nonzeros == expected.data.nnz < whole.nnz


def left(plan):
    """The shards that have rows to train on."""
    return [shard for shard, size in enumerate(plan.source.sizes) if size]


def number_of(id):
    return int(id) if id.isdigit() else id
