"""A cluster gives the lines, numbers and messages of one machine, also if workers are killed."""

import gc
import gzip
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import urlopen
from weakref import WeakSet

import numpy as np
import pytest
from modelfiles import write

from fmcli.cluster import connection, scoring, tasks
from fmcli.cluster.connection import Address, Cluster, InterruptedRunError, connected
from fmcli.cluster.scoring import Scoring, loaded
from fmcli.cluster.tasks import RowReading, SharedModel
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import RowGroups, Stream
from fmcli.data.text.sources import FileRange
from fmcli.errors import (
    BadInputError,
    FmcliError,
    MissingInputError,
    NotEnoughMemoryError,
    OutputError,
    UnavailableError,
    UsageError,
)
from fmcli.scoring.evaluation import evaluate_model, figures, usual_metrics
from fmcli.scoring.prediction import Counts, predict
from fmcli.scoring.scorer import load_model
from fmcli.scoring.summary import Combined

distributed = pytest.importorskip("distributed")
LocalCluster, Security = distributed.LocalCluster, distributed.Security
pytest.importorskip("cryptography")
ROWS = 400


@pytest.fixture(scope="module")
def signals():
    return SimpleNamespace(signal=0)


@pytest.fixture(scope="module")
def cluster(signals):
    with connected(Address("local:2"), signals) as cluster:
        yield cluster


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(scoring, "PART_BYTES", 1000)


@pytest.fixture
def files(tmp_path, rng):
    """A model, and the patterns of three files of rows; one is compressed."""
    write(str(tmp_path / "m"), "fm", None, "logistic")
    texts = []
    for number in range(3):
        rows = [f"{rng.integers(2)} {i % 3}:{rng.normal():.3f} {3 + i % 3}:1" for i in range(ROWS)]
        texts.append("\n".join(rows).encode())
        (tmp_path / f"rows{number}").write_bytes(gzip.compress(texts[-1]) if number == 1 else texts[-1])
    return str(tmp_path / "m"), [str(tmp_path / "rows[01]"), str(tmp_path / "rows2")], tmp_path


def scored(cluster, path, inputs, bad=None, labeled=False, stream=None, refuse_unseen=False, build=tasks.BUILD):
    scorer, model = loaded(path)
    counts, bad = Counts(), bad or BadLines()
    request = RowReading("auto", labeled, bad.skip, stream or Stream(), refuse_unseen, build)
    return scorer, counts, Scoring(cluster, model, inputs, request, counts, bad)


@pytest.mark.parametrize(
    ("output", "stream", "skip"),
    [("prob", Stream(), False), ("label", Stream(passthrough=True), True), ("raw", Stream(id_column=1), True)],
)
def test_the_lines_are_those_of_one_machine(cluster, small_parts, files, output, stream, skip):
    path, patterns, folder = files
    if skip:
        (folder / "rows2").write_bytes((folder / "rows2").read_bytes().replace(b"1 1:", b"1 1:x", 9))
    messages: list[list[str]] = [[], []]
    inputs = [str(folder / f"rows{number}") for number in range(3)]
    expected, alone = Counts(), BadLines(skip, None, messages[0].append)
    whole = b"".join(predict(load_model(path), inputs, output=output, counts=expected, bad=alone, stream=stream))
    bad = BadLines(skip, None, messages[1].append)
    _, counts, run = scored(cluster, path, patterns, bad, stream=stream)
    assert b"".join(run.predict(output)) == whole
    assert counts == expected
    assert bad.count == alone.count
    assert messages[0] == messages[1]
    assert bool(messages[0]) == skip
    assert run.progress.done == run.progress.extents > 6


def test_metrics_are_those_of_one_machine(cluster, small_parts, files):
    path, patterns, folder = files
    inputs = [str(folder / f"rows{number}") for number in range(3)]
    expected = Counts()
    scorer, counts, run = scored(cluster, path, patterns, labeled=True)
    outcome = evaluate_model(scorer, inputs, format="auto", threads=1, counts=expected)
    names, joined = usual_metrics("logistic", of_model=True, grouped=False), Combined()
    for _ in run.evaluate(names, True, joined):
        pass
    assert counts == expected
    assert joined.table.sum() == 3 * ROWS
    got, want = joined.figures(names, scorer), figures(names, outcome, scorer)
    assert got == pytest.approx(want, rel=1e-13)
    assert got["auc"] == want["auc"]


def test_groups_may_have_rows_of_several_parts(cluster, small_parts, files, rng):
    path, _, folder = files
    rows = [f"{rng.integers(2)} qid:{i % 9} {i % 3}:{rng.normal():.3f} {3 + i % 3}:1\n" for i in range(ROWS)]
    inputs = [str(folder / "rows0")]
    (folder / "rows0").write_text("".join(rows))
    row_groups = RowGroups(optional=True)
    scorer, _, run = scored(cluster, path, inputs, labeled=True, stream=Stream(row_groups=row_groups))
    assert run.grouped
    names, joined = ["gauc", "ndcg", "map"], Combined()
    for _ in run.evaluate(names, False, joined):
        pass
    outcome = evaluate_model(scorer, inputs, format="auto", threads=1, counts=Counts(), row_groups=row_groups)
    assert joined.figures(names, scorer) == figures(names, outcome, scorer)
    (folder / "rows0").write_text("1 0:1\n" + "".join(rows))
    *_, run = scored(cluster, path, inputs, labeled=True, stream=Stream(row_groups=row_groups))
    assert not run.grouped


@pytest.mark.parametrize("refuse", [False, True])
def test_an_error_has_the_line_of_its_file(cluster, small_parts, files, refuse):
    path, patterns, folder = files
    lines = (folder / "rows2").read_text().split("\n")
    lines[333] = "1 77:1" if refuse else "1 1:x"
    (folder / "rows2").write_text("\n".join(lines))
    with pytest.raises(BadInputError) as alone:
        list(predict(load_model(path), [str(folder / "rows2")], output="raw", counts=Counts(), refuse_unseen=refuse))
    assert "rows2:334:3: found" in str(alone.value)
    *_, run = scored(cluster, path, patterns, refuse_unseen=refuse)
    before = []
    with pytest.raises(BadInputError) as error:
        before.extend(run.predict("raw"))
    assert str(error.value) == str(alone.value)
    assert b"".join(before).count(b"\n") >= 2 * ROWS + 300


def test_a_folder_of_parts(cluster, small_parts, files):
    path, patterns, folder = files
    *_, run = scored(cluster, path, patterns)
    whole = b"".join(run.predict("prob"))
    (folder / "out").mkdir()
    *_, run = scored(cluster, path, patterns)
    list(run.write("prob", str(folder / "out")))
    names = sorted(os.listdir(folder / "out"))
    assert names == [f"part-{number:05d}" for number in range(run.progress.extents)]
    assert b"".join((folder / "out" / name).read_bytes() for name in names) == whole
    (folder / "rows2").write_bytes(b"1 1:1\n" * 900 + b"1 1:x\n")
    *_, run = scored(cluster, path, patterns)
    with pytest.raises(BadInputError):
        list(run.write("prob", str(folder / "other")))
    with pytest.raises(OutputError, match="cannot be written"):
        list(run.write("prob", str(folder / "none" / "other")))
    assert sorted(os.listdir(folder)) == ["m", "out", "rows0", "rows1", "rows2"]


def test_killed_workers_change_nothing(cluster, small_parts, files):
    path, patterns, _ = files
    *_, run = scored(cluster, path, patterns)
    whole = b"".join(run.predict("prob"))
    *_, run = scored(cluster, path, patterns)
    lines = []
    for number, text in enumerate(run.predict("prob")):
        lines.append(text)
        if number == 2:
            os.kill(next(iter(cluster._client.run(os.getpid).values())), signal.SIGKILL)
    assert b"".join(lines) == whole


def test_errors_of_workers_name_the_worker(cluster, files):
    path, _, folder = files
    for inputs in ([str(folder / "none")], [str(folder / "none*")]):
        *_, run = scored(cluster, path, inputs)
        with pytest.raises(MissingInputError, match=r"worker tls://127\S+: (cannot read|no file matches) .*none"):
            list(run.predict("raw"))
    *_, run = scored(cluster, path, [str(folder / "rows0")], build="fmcli 0")
    with pytest.raises(UsageError, match=r"worker .* has fmcli .*, but fmcli 0 runs the command; install"):
        list(run.predict("raw"))


def test_a_signal_cancels_what_runs(cluster, signals, small_parts, files, monkeypatch):
    path, patterns, _ = files
    *_, run = scored(cluster, path, patterns)
    lines = run.predict("raw")
    next(lines)
    monkeypatch.setattr(signals, "signal", 2)
    with pytest.raises(InterruptedRunError):
        list(lines)
    cluster.close()

    def tasks_left(dask_scheduler):
        return len(dask_scheduler.tasks)

    deadline = time.monotonic() + 20
    while cluster._client.run_on_scheduler(tasks_left) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cluster._client.run_on_scheduler(tasks_left) == 0


def test_tasks_that_fail_because_of_their_worker(cluster):
    from distributed.scheduler import KilledWorker

    killed = KilledWorker("task", SimpleNamespace(address="tcp://there:1"), 3)
    with pytest.raises(NotEnoughMemoryError, match=r"scoring a: 4 workers in turn ended .* tcp://there:1; if they had"):
        cluster._fail(killed, "scoring a")
    with pytest.raises(UsageError, match="scoring a: a worker has no fmcli"):
        cluster._fail(ModuleNotFoundError("", name="fmcli.cluster"), "scoring a")


def test_a_worker_that_remains_paused(cluster, monkeypatch):
    """Dask pauses a worker while it has too little memory. A short pause does no harm."""
    true = cluster._client.scheduler_info
    looks = []

    def paused(**arguments):
        looks.append(time.monotonic())
        found = true(**arguments)
        first = min(found["workers"])
        return {**found, "workers": {**found["workers"], first: {**found["workers"][first], "status": "paused"}}}

    monkeypatch.setattr(cluster._client, "scheduler_info", paused)
    monkeypatch.setattr(connection, "REFRESH", 0.0)
    assert cluster.result(cluster.submit(time.sleep, 0.1), "scoring a") is None
    assert looks
    monkeypatch.setattr(connection, "LONGEST_PAUSE", 0.1)
    with pytest.raises(NotEnoughMemoryError, match=r"scoring a: worker tls://\S+ has been paused for 0 seconds"):
        cluster.result(cluster.submit(time.sleep, 1), "scoring a")
    cluster.close()
    monkeypatch.undo()
    assert cluster.result(cluster.submit(abs, -1), "scoring a") == 1


def test_workers_with_another_fmcli(cluster, monkeypatch):
    monkeypatch.setattr("fmcli.__version__", "9.8")
    with pytest.raises(UsageError, match=r"worker tls://\S+ has fmcli \S+, but .* runs here"):
        cluster._checked_workers()
    monkeypatch.setattr(connection, "VERSION", "fmcli.nothing")
    with pytest.raises(UsageError, match=r"worker tls://\S+ has no fmcli; install"):
        cluster._checked_workers()


def test_a_scheduler_that_is_not_there(monkeypatch, signals):
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    with (
        pytest.raises(UnavailableError, match=r"cannot connect to the cluster tcp://127.0.0.1:9: "),
        connected(Address("tcp://127.0.0.1:9"), signals),
    ):
        pass


# Bytes of another server: numbers of parts and of bytes that no memory holds, or none, and bytes that are no message.
@pytest.mark.parametrize("answer", [b"\xff" * 4096, b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(4096)])
def test_what_answers_is_no_scheduler(monkeypatch, signals, answer):
    monkeypatch.setattr(connection, "PATIENCE", 5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    with server.accept()[0] as client:
                        client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        before = threading.enumerate()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        try:
            with (
                pytest.raises(
                    UnavailableError, match=f"cannot connect to the cluster {address}: what answers is no Dask"
                ),
                connected(Address(address), signals),
            ):
                pass
            # The garbage collector must find no client that is not closed: it would wait for a lock of its own thread.
            assert set(threading.enumerate()) <= set(before)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_scheduler_that_is_gone():
    client = SimpleNamespace(
        status="connecting", wait_for_workers=lambda *_, **__: None, nthreads=dict, run=lambda *_, **__: {}
    )
    gone = Cluster(client, "tcp://there:1", SimpleNamespace(signal=0))
    with pytest.raises(UnavailableError, match="the scheduler of the cluster tcp://there:1 is gone"):
        gone.result(None, "scoring a")


def test_a_bounded_number_of_tasks_is_in_flight(monkeypatch):
    monkeypatch.setattr(Cluster, "_checked_workers", lambda _: (2, 2))
    cluster = Cluster(None, "", None)
    sent, most = [], connection.AHEAD * 2
    monkeypatch.setattr(cluster, "result", lambda future, purpose: (future, purpose))
    for number, (item, result) in enumerate(cluster.in_order(range(20), lambda i: sent.append(i) or -i, "n {}".format)):
        assert (item, result) == (number, (-number, f"n {number}"))
        assert len(sent) <= number + most
    assert sent == list(range(20))


def test_results_in_cycles_are_freed(monkeypatch):
    class Result:
        def __init__(self):
            self.itself = self

    monkeypatch.setattr(Cluster, "_checked_workers", lambda _: (1, 1))
    cluster, alive = Cluster(None, "", None), WeakSet()
    monkeypatch.setattr(cluster, "result", lambda future, purpose: Result())
    gc.disable()  # the command lets Python look for cycles seldom
    try:
        for _, result in cluster.in_order(range(12), str, str):
            alive.add(result)
            assert len(alive) <= connection.AHEAD + 1
    finally:
        gc.enable()


@pytest.mark.parametrize("failure", [MemoryError(), NotEnoughMemoryError("scoring rows needs 9 GiB")])
def test_memory_of_a_worker(files, monkeypatch, failure):
    path, _, folder = files
    monkeypatch.setattr(tasks, "_worker", lambda: "tcp://there:1")

    def work(*_):
        raise failure

    monkeypatch.setattr(tasks, "predicted_lines", lambda *_: work)
    _, model = loaded(path)
    request = RowReading("libsvm", False, False, Stream())
    done = tasks.predicted(model, FileRange(str(folder / "rows0"), 0, 99, None), request, "raw", False)
    assert isinstance(done.error, NotEnoughMemoryError)
    assert str(done.error).startswith(f"worker tcp://there:1, {folder}/rows0, bytes 0 to 99: ")
    assert done.result == b""


def test_a_model_that_was_sent_is_the_same(files):
    import pickle

    path, _, _ = files
    scorer, model = loaded(path)
    copy = pickle.loads(pickle.dumps(model))
    assert isinstance(copy, SharedModel)
    assert copy.scorer is copy.scorer
    for name, array in scorer.model.exported().items():
        np.testing.assert_array_equal(copy.scorer.model.exported()[name], array)


def test_dask_is_imported_only_for_a_cluster():
    root = Path(tasks.__file__).parent.parent
    for source in root.rglob("*.py"):
        if source.parent.name != "cluster":
            text = source.read_text()
            assert "import dask" not in text, source
            assert "from distributed" not in text, source
    assert issubclass(UnavailableError, FmcliError)
    assert UnavailableError.exit_status == 69


def test_a_local_cluster_refuses_clients_without_its_certificate(cluster):
    """Its ports are open to all users of this machine, and a scheduler runs whatever a client sends."""
    scheduler = cluster._client.scheduler.address
    workers = cluster._client.scheduler_info(n_workers=-1)["workers"]
    ports = [scheduler, *workers, *(worker["nanny"] for worker in workers.values())]
    assert len(ports) == 1 + 2 * len(workers) == 5
    own = cluster._client.security

    async def connect(address, security):
        comm = await distributed.core.connect(address, timeout=5, **security.get_connection_args("client"))
        comm.abort()

    strangers = {"tcp": Security(), "tls": Security.temporary()}
    for port in ports:
        cluster._client.sync(connect, port, own)
        for protocol, security in strangers.items():
            with pytest.raises(OSError):  # noqa: PT011  a socket's error, or Dask's CommClosedError
                cluster._client.sync(connect, port.replace("tls", protocol), security)


def test_a_local_cluster_has_no_web_pages(cluster):
    """Its web servers ask nobody for a certificate."""
    scheduler = cluster._client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.http_server.port)
    workers = cluster._client.run(lambda dask_worker: dask_worker.http_server.port)
    assert len({scheduler, *workers.values()}) == 3
    for port in (scheduler, *workers.values()):
        for page in ("info/main/workers.html", "json/identity.json", "health", "metrics", "status"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)
    assert cluster.dashboard is None


def test_workers_that_could_not_start_are_started_again():
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local:
        worker = local.workers[0]
        local.sync(worker.close)
        assert list(local.workers) == [0]
        local.loop.add_callback(connection.start_missing, local, 1)
        deadline = time.monotonic() + 60
        while local.workers.get(0, worker) is worker or local.workers[0].status.name != "running":
            assert time.monotonic() < deadline
            time.sleep(0.05)
