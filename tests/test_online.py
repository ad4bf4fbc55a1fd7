"""Training in one pass over a stream is resuming, segment after segment, with the solver's state."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from problems import TRAINED, taken
from test_every_pair import LEARNABLE, planted

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import FeatureIds
from fmcli.data.text.pieces import TextRows
from fmcli.errors import UsageError
from fmcli.registry.modes import check_modes
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.solvers.trainer import Observer
from fmcli.training import job
from fmcli.training.planning import prepare
from fmcli.training.saving import load_warm_start, save_model
from fmcli.training.setup import streamed
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.streamed import Segments, StreamedRows
from fmcli.training.several import online
from fmcli.training.several.online import prepare_stream, train_online
from fmcli.training.trained import summary

ROWS, SEGMENTS, EVERY = 300, 3, 60


class Kept(Observer):
    """Keeps the running mean loss."""

    every = EVERY

    def __init__(self):
        self.losses = []

    def loss(self, epoch, rows, loss):
        self.losses.append((epoch, rows, loss))


def stream_of(pieces, settings):
    """The rows of a stream of such pieces."""
    return StreamedRows(Segments(pieces, "stream", settings.spec.values["batch_size"], settings.threads))


def growing(data):
    """The rows in an order in which new features come all the time, in pieces that have the columns so far."""
    last = np.array([data.index[data.indptr[i] : data.indptr[i + 1]].max() for i in range(data.rows)])
    data = data.take(np.argsort(last, kind="stable"))
    bounds = np.linspace(0, data.rows, 10).astype(int)
    for start, stop in pairwise(bounds):
        piece = data.take(np.arange(start, stop))
        yield TextRows(piece.within(int(piece.index.max()) + 1), None)


@pytest.mark.parametrize("model", list(TRAINED))
def test_a_stream_is_trained_on_as_by_runs_that_resume(monkeypatch, tmp_path, model):
    solvers = [name for name in SOLVERS if SOLVERS[name].by_rows]
    able = [name for name in solvers if not SOLVERS[name].refuses.keys() & set(TRAINED[model].positive)]
    options = {"epochs": 1, "norm": False, "shuffle": False, **taken(model, LEARNABLE)}
    settings = Settings(make_spec(model, able[list(TRAINED).index(model) % len(able)], None, options), stream=True)
    data = planted(model, "squared", rows=ROWS)[0]
    seen = []
    segments = streamed.segments

    def recorded(*arguments):
        for segment in segments(*arguments):
            seen.append(segment[0])
            yield segment

    monkeypatch.setattr(streamed, "segments", recorded)
    monkeypatch.setattr(streamed, "SEGMENT_BYTES", data.nbytes // SEGMENTS)
    monkeypatch.setattr(online, "REAL_TYPE", np.dtype(np.uint8))  # so that a segment need not be as large as the model
    kept = Kept()
    of_stream = train_online(prepare_stream(settings, stream_of(growing(data), settings)), observer=kept)
    assert len(seen) > 1
    assert seen[-1].features > seen[0].features

    path, spec, losses = str(tmp_path / "m"), settings.spec, []
    for segment in seen:
        warm = load_warm_start(path) if losses else None
        # All segments are one epoch, on whose number penalties and the order of rows depend.
        warm = warm and replace(warm, run=replace(warm.run, epochs=0))
        plan = prepare(replace(settings, spec=spec, warm_start=warm), RowsInMemory(segment))
        spec = plan.spec
        trained = job.train(plan)
        losses.append((segment.rows, trained.epochs[0].loss))
        save_model(path, trained, {}, "libsvm", keep_state=True)
    assert plan.model.parameters.keys() == of_stream.plan.model.parameters.keys()
    for name, array in plan.model.parameters.items():
        np.testing.assert_array_equal(array, of_stream.plan.model.parameters[name], name)
    figures = summary(of_stream)
    assert (figures["rows"], figures["nonzeros"], figures["epochs"]) == (data.rows, data.nnz, 1)
    assert figures["features"] == len(np.unique(data.index))
    assert figures["loss"] == pytest.approx(np.average([loss for _, loss in losses], weights=[n for n, _ in losses]))
    assert [rows for _, rows, _ in kept.losses] == list(range(EVERY, ROWS + 1, EVERY))
    counts = of_stream.plan.counts
    assert counts is None or counts.sum() <= data.nnz


def test_the_running_loss_is_that_of_all_rows(monkeypatch):
    data = planted("fm", "squared", rows=ROWS)[0]
    spec = make_spec("fm", "sgd", None, {"epochs": 1, "shuffle": False})
    whole, parts = Kept(), Kept()
    for kept, size in ((whole, 1 << 30), (parts, 4000)):
        monkeypatch.setattr(streamed, "SEGMENT_BYTES", size)
        pieces = [TextRows(data.take(np.arange(at, at + 30)), None) for at in range(0, ROWS, 30)]
        settings = Settings(spec, stream=True)
        trained = train_online(prepare_stream(settings, stream_of(pieces, settings)), observer=kept)
        assert kept.losses[-1] == (1, ROWS, pytest.approx(trained.epochs[0].loss))
    assert len(whole.losses) == ROWS // EVERY
    assert [rows for _, rows, _ in parts.losses] == [rows for _, rows, _ in whole.losses]


def test_batches_are_not_divided(monkeypatch):
    piece = Dataset(np.arange(8), np.zeros(7, np.int32), None, np.ones(7), 1)
    cut = list(streamed.segments([TextRows(piece, None)] * 9, lambda: 150, 5, 1))
    assert [last for _, last in cut] == [False] * (len(cut) - 1) + [True]
    sizes = [data.rows for data, _ in cut]
    assert sum(sizes) == 63
    assert len(sizes) > 3
    assert all(size % 5 == 0 for size in sizes[:-1])


def test_segments_are_as_large_as_what_is_copied_after_each(monkeypatch):
    monkeypatch.setattr(streamed, "SEGMENT_BYTES", 150)
    piece = Dataset(np.arange(8), np.zeros(7, np.int32), None, np.ones(7), 1)
    segments = Segments(iter([TextRows(piece, None)] * 40), "stream", 1, 1)
    first = next(segments)[0].data
    segments.enlarge(3 * first.nbytes)
    next(segments)  # its pieces were being read
    assert next(segments)[0].data.rows >= 2 * first.rows
    segments.enlarge(0)
    next(segments)
    assert next(segments)[0].data.rows == first.rows


@pytest.mark.parametrize(
    ("solver", "options"), [("cd", {"epochs": 1}), ("sgd", {"epochs": 2}), ("adagrad", {"epochs": 1, "round_size": 8})]
)
def test_what_needs_the_rows_again_is_refused(solver, options):
    with pytest.raises(UsageError):
        check_modes({"online": True}, make_spec("fm", solver, None, options))


def test_new_ids_get_parameters_as_they_come(monkeypatch):
    """A stream whose ids are names from the second segment on gives a model with a dictionary of all ids."""
    pieces = []
    for names in ([], [b"x:1", b"y"], [b"z"]):
        ids = FeatureIds()
        columns = [ids.column_of(id) for id in (3, 2**40, *names)] if names else [3, 5]
        index = np.array(columns * 30, dtype=np.int32)
        indptr = np.arange(0, len(index) + 1, len(columns))
        data = Dataset(indptr, index, None, np.tile([0.0, 1.0], 15), 1 + max(columns), trusted=True)
        pieces.append(TextRows(data, ids if names else None))
    monkeypatch.setattr(streamed, "SEGMENT_BYTES", 1)
    monkeypatch.setattr(online, "REAL_TYPE", np.dtype(np.void(0)))
    settings = Settings(make_spec("fm", "adagrad", None, {"epochs": 1, "rank": 2}), stream=True)
    trained = train_online(prepare_stream(settings, stream_of(pieces, settings)))
    columns = trained.plan.data.numbering
    assert columns.written(range(len(columns))) == [3, 5, 2**40, "x:1", "y", "z"]
    assert trained.seen.all()
    assert trained.plan.model.parameters["V"].shape == (1, 6, 2)
    assert np.abs(trained.plan.model.parameters["V"]).min() > 0
