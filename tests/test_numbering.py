"""Columns for only the features that occur: their numbering, and the models with these columns."""

import numpy as np
import pytest
from problems import dataset

from fmcli.data.dataset import NO_UNIT, Dataset, restored
from fmcli.data.numbering import Numbering, moved, occurring
from fmcli.export.arrays import exported
from fmcli.inspect.inspection import inspect_model, views
from fmcli.model_file.check import FEATURES, SEEN
from fmcli.model_file.container import load, save
from fmcli.registry.specs import make_spec
from fmcli.scoring.prediction import Counts, predict
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving
from fmcli.training.setup.rows import RowsInMemory

LARGEST = 2**31 - 2


@pytest.mark.parametrize("highest", [1, 63, 64, 10_000, LARGEST])
def test_columns_of_features_are_their_places_among_those_that_occur(rng, highest):
    index = np.unique(np.append(rng.integers(0, highest + 1, 200), highest)).astype(np.int32)
    numbering = occurring(rng.permutation(np.repeat(index, 2)).astype(np.int32), highest + 1)
    assert (numbering.ids.tolist(), numbering.dimension) == (index.tolist(), highest + 1)
    asked = np.unique(np.clip(np.concatenate([index - 1, index, index + 1]), 0, LARGEST)).astype(np.int32)
    places = {j: place for place, j in enumerate(index.tolist())}
    assert numbering.columns_of(asked).tolist() == [places.get(j, -1) for j in asked.tolist()]


def test_a_joined_numbering_has_the_features_of_both():
    one, other = Numbering(np.array([1, 5], np.int32), 9), Numbering(np.array([1, 7], np.int32))
    both = one.united(other)
    assert (both.ids.tolist(), both.dimension) == ([1, 5, 7], 9)
    assert both.united(one) is both
    assert one.united(both) is both


WRAPPED = [0, 2**31 - 1, -(2**31), -1, 1]  # increasing if differences of int32 overflow


@pytest.mark.parametrize(("ids", "dimension"), [([1, 1], 3), ([2, 1], 3), ([-1, 1], 3), ([0, 3], 3), (WRAPPED, 3)])
def test_invalid_numberings_are_refused(ids, dimension):
    with pytest.raises(ValueError, match="increasing"):
        Numbering(np.array(ids, np.int32), dimension)


def test_rows_lose_only_the_entries_without_a_column():
    data = Dataset(
        np.array([0, 2, 2, 4]), np.array([0, 4, 2, 4], np.int32), np.array([1, 2, 3, 4], np.float32), None, 5
    )
    some = data.renumbered(Numbering(np.array([0, 4], np.int32), 5))
    assert (some.indptr.tolist(), some.index.tolist(), some.value.tolist()) == ([0, 2, 2, 3], [0, 1, 1], [1, 2, 4])
    again = data.compacted().renumbered(some.numbering)
    assert (again.index.tolist(), again.dimension) == ([0, 1, 1], 5)


@pytest.mark.parametrize("own", [False, True])
def test_the_columns_of_a_runs_own_rows_take_no_memory(rng, own):
    index = np.concatenate([np.sort(rng.choice(1000, 3, False)) for _ in range(100)]).astype(np.int32)
    data = Dataset(np.arange(0, 301, 3), index.copy(), np.ones(300, np.float32), rng.random(100), 1000)
    numbering = occurring(index, 1000)
    found = RowsInMemory(data, own=own).on_columns(numbering, threads=3).data
    assert found.index.tolist() == np.searchsorted(np.unique(index), index).tolist()
    assert np.shares_memory(found.index, data.index) == own
    assert own or data.index.tolist() == index.tolist()


# ---- Models ----


def rows(rng, ids):
    """Rows with fields, whose features are some of `ids`."""
    keys = [sorted((int(ids[j]), int(j) % 3) for j in rng.choice(len(ids), 4, False)) for _ in range(40)]
    return [dict.fromkeys(x, 1.0) for x in keys]


def trained(path, data, warm_start=None, **options):
    """Train an ffm and save it; returns the run."""
    spec = make_spec("ffm", None, "logistic", {"epochs": 2, "rank": 2, **options})
    done = job.train(job.plan(data, spec, warm_start=warm_start))
    saving.save_model(str(path), done, job.summary(done), "ffm")
    return done


def shown(path):
    return {view.name: figures for view, figures in views(inspect_model(str(path)))}


@pytest.fixture
def problem(rng, tmp_path):
    """The same rows with features 0 to 8, and with others up to the largest; a model of each."""
    ids = [3, 40, 41, 500, 10_000, 10_001, 2_000_000, 2**30, LARGEST]
    small = rows(rng, list(range(9)))
    large = [{(ids[j], f): value for (j, f), value in x.items()} for x in small]
    labels = [float(rng.integers(2)) for _ in small]
    data = dataset(small, 9, labels), dataset(large, LARGEST + 1, labels)
    return ids, data, [trained(tmp_path / name, one) for name, one in zip("ab", data, strict=True)], tmp_path


def test_an_ffm_depends_on_the_order_of_its_features_only(problem):
    ids, _, (a, b), folder = problem
    for name, array in a.plan.model.parameters.items():
        np.testing.assert_array_equal(array, b.plan.model.parameters[name])
    scorers = [load_model(str(folder / name)) for name in "ab"]
    lines = [b"".join(f"0:{j}:1 1:{k}:1 0:99:2\n".encode() for j, k in zip(names[::3], names[1::3], strict=True))
             for names in (list(range(9)), ids)]  # fmt: skip
    written = []
    for scorer, text, name in zip(scorers, lines, "ab", strict=True):
        (folder / f"{name}.ffm").write_bytes(text)
        counts = Counts()
        written.append(b"".join(predict(scorer, [str(folder / f"{name}.ffm")], output="raw", counts=counts)))
        assert (counts.nonzeros, counts.unseen) == (9, 3)
    assert written[0] == written[1]
    assert len(set(written[0].split())) == 3


def test_features_have_their_own_numbers_outside(problem):
    ids, _, _, folder = problem
    one, other = shown(folder / "a"), shown(folder / "b")
    assert other["model"]["features"] == LARGEST + 1
    assert other["model"]["features_occurring"] == 9
    for view in ("weights", "frequent"):
        assert [row["feature"] for row in other[view]] == [ids[row["feature"]] for row in one[view]]
    assert other["training"]["sparsity"] == pytest.approx(1, abs=1e-6)  # of all features
    arrays = exported(load_model(str(folder / "b")))  # too large with all features
    assert arrays[FEATURES].tolist() == ids
    assert arrays["V"].shape == (1, 9, 3, 2)


def test_a_warm_start_knows_features_by_their_numbers(problem, rng):
    ids, (_, data), (_, b), folder = problem
    new = dataset([{(7, 0): 1.0, (500, 1): 1.0}, {(500, 1): 1.0, (2_000_001, 2): 1.0}] * 3, 2_000_002, [1.0, 0.0] * 3)
    warm_start = saving.load_warm_start(str(folder / "b"))
    done = trained(folder / "c", new, warm_start, epochs=0)
    assert done.plan.data.numbering.ids.tolist() == sorted([*ids, 7, 2_000_001])
    assert done.plan.data.dimension == LARGEST + 1
    known = done.plan.data.numbering.columns_of(np.array(ids, np.int32))
    np.testing.assert_array_equal(done.plan.model.parameters["w"][:, known], b.plan.model.parameters["w"])
    first, later = (load_model(str(folder / name)).scores(data.renumbered(numbering))
                    for name, numbering in (("b", b.plan.data.numbering), ("c", done.plan.data.numbering)))  # fmt: skip
    np.testing.assert_allclose(later, first, rtol=1e-6)
    times = {row["feature"]: row["rows"] for row in shown(folder / "c")["frequent"]}
    before = {row["feature"]: row["rows"] for row in shown(folder / "b")["frequent"]}
    assert times[500] == before[500] + 6


@pytest.mark.parametrize("solver", ["adagrad", "mcmc"])
def test_a_run_numbers_the_features_that_occur_if_they_are_few_of_many(rng, tmp_path, solver):
    """Such a run has the parameters of one on rows in which they are numbered already."""
    ids = np.sort(rng.choice(100_000, 9, replace=False))
    small = rows(rng, list(range(9)))
    labels = [float(rng.integers(2)) for _ in small]
    large = dataset([{(int(ids[j]), f): value for (j, f), value in x.items()} for x in small], 100_000, labels)
    spec = make_spec("fm", solver, None, {"epochs": 2, "rank": 2, **({"burn_in": 0} if solver == "mcmc" else {})})
    done, numbered = (job.train(job.plan(data, spec)) for data in (large, dataset(small, 9, labels)))
    assert done.plan.model.features == 9
    for name, array in numbered.plan.model.parameters.items():
        np.testing.assert_array_equal(done.plan.model.parameters[name], array)
    saving.save_model(str(tmp_path / "m"), done, job.summary(done), "ffm")
    scorer = load_model(str(tmp_path / "m"))
    found = [scorer.scores(data.renumbered(done.plan.data.numbering)) for data in (large,)]
    np.testing.assert_array_equal(found[0], done.plan.evaluation.outcome(done.all_draws).score)


def test_a_run_that_may_go_on_with_other_features_does_not_number_them(rng):
    data = dataset(rows(rng, [3, 40, 70_000, 70_001]), 70_002, [0.0, 1.0] * 20)
    for epochs, features in ((1, 70_002), (2, 4)):
        assert job.plan(data, make_spec("fm", None, None, {"epochs": epochs})).model.features == features
    assert job.plan(data, make_spec("poly2", None, None, {"epochs": 2})).model.features == 70_002
    options = {"epochs": 2, "split_index": 50}
    assert job.plan(data, make_spec("bilinear", None, None, options)).model.features == 70_002
    few = dataset(rows(rng, [3, 40, 50, 65_535]), 1 << 16, [0.0, 1.0] * 20)
    assert job.plan(few, make_spec("fm", None, None, {"epochs": 2})).model.features == 1 << 16


def test_files_with_parameters_of_all_features_are_read(problem):
    """As of imported models."""
    _, (data, _), (a, _), folder = problem
    file, ids = load(str(folder / "a")), np.arange(9, dtype=np.int32) + 2
    model = load_model(str(folder / "a")).model
    for name, array in [*file.tensors.items()]:
        axis = 0 if name == "counts" else model.feature_axis(name)
        if axis is not None:
            file.tensors[name] = moved(array, axis, slice(None), ids, 11)
    del file.tensors[FEATURES]
    file.meta |= {"columns": None, "features": 11, "frequent": [[j + 2, f] for j, f in file.meta["frequent"]]}
    file.tensors[SEEN] = np.packbits(np.isin(np.arange(11), ids), bitorder="little")
    save(str(folder / "old"), file)
    shifted = Dataset(data.indptr, data.index + np.int32(2), None, data.label, 11, data.field)
    want = load_model(str(folder / "a")).scores(data)
    np.testing.assert_array_equal(load_model(str(folder / "old")).scores(shifted), want)
    done = trained(folder / "new", shifted, saving.load_warm_start(str(folder / "old")), epochs=0)
    assert done.plan.data.numbering.ids.tolist() == ids.tolist()
    np.testing.assert_array_equal(done.plan.model.parameters["V"], a.plan.model.parameters["V"])


def test_an_axis_is_moved_and_filled():
    array = np.arange(6.0).reshape(2, 3)
    found = moved(array, 1, np.array([0, 2]), np.array([3, 1]), 5, fill=-1)
    assert found.tolist() == [[-1, 2, -1, 0, -1], [-1, 5, -1, 3, -1]]


def test_arrays_that_begin_anywhere_in_a_message_are_aligned():
    def misaligned(array):
        found = np.frombuffer(b"." + array.tobytes(), dtype=array.dtype, offset=1)
        assert not found.flags.aligned
        return found

    ids = np.array([2, 5, 7], dtype=np.int32)
    numbering = Numbering(misaligned(ids))
    assert numbering.ids.flags.aligned
    assert numbering.ids.tolist() == ids.tolist()
    indptr, label = np.array([0, 2, 3], dtype=np.int64), np.array([1.0, 2.0])
    arrays = misaligned(indptr), misaligned(np.array([0, 2, 1], dtype=np.int32)), None, misaligned(label)
    data = restored(*arrays, 3, None, None, None, numbering, NO_UNIT)
    assert all(array.flags.aligned for array in (data.indptr, data.index, data.label))
    assert (data.index.tolist(), data.label.tolist()) == ([0, 2, 1], [1.0, 2.0])
