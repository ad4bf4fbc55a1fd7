"""Remote files give the same rows and models as local ones. If a transfer fails, it is an error, not a shorter file."""

import bz2
import gzip
import http.server
import io
import re
import sys
import threading
from pathlib import Path

import pytest

from fmcli import cli
from fmcli.data.text.reader import read
from fmcli.data.text.sources import size_on_disk
from fmcli.errors import MissingInputError, TransferError, UsageError
from fmcli.system import addresses, remote

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

TEXT = b"".join(b"%d %d:1 %d:0.5\n" % (i % 2, i % 7, 10 + i % 11) for i in range(500))
TAGS = {"rows": '"1"'}
FILES = {"rows": TEXT, "rows.gz": gzip.compress(TEXT), "rows.bz2": bz2.compress(TEXT)}


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends FILES whole, and from the folder `short` only parts; without their lengths from `chunked`, with TAGS from
    `tagged`, and from `parts` also the parts that are asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply(True)

    def do_HEAD(self):
        self.reply(False)

    def reply(self, with_body):
        folder, _, name = self.path.partition("?")[0][1:].rpartition("/")
        body = FILES.get(name)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if folder == "parts" else None
        self.send_response(404 if body is None else 403 if folder == "closed" else 206 if asked else 200)
        body = body or b""
        if folder in ("tagged", "parts"):
            self.send_header("ETag", TAGS[name])
        if asked:
            self.send_header("Content-Range", f"bytes {asked[1]}-{asked[2]}/{len(body)}")
            body = body[int(asked[1]) : int(asked[2]) + 1]
        if folder == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            parts = (body[:100], body[100:]) if with_body else ()
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
        else:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(body[: len(body) // 2] if folder == "short" else body)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def places():
    """The beginnings of the addresses of FILES by protocol."""
    memory = fsspec.filesystem("memory")
    for name, data in FILES.items():
        memory.pipe(f"/fmcli/{name}", data)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        host = f"127.0.0.1:{server.server_port}"
        yield {
            "memory": "memory://fmcli/",
            "http": f"http://{host}/",
            "chunked": f"http://{host}/chunked/",
            "host": host,
        }
        server.shutdown()
        thread.join()
    memory.rm("/fmcli", recursive=True)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(remote, "READ_BYTES", 1000)


@pytest.fixture
def run(monkeypatch, tmp_path, capfd):
    """Run the command in this process, in an empty folder. Returns its status and its messages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_close_output", lambda: None)

    def ran(*arguments):
        status = cli.run(arguments)
        return status, capfd.readouterr().err

    return ran


@pytest.mark.parametrize(
    ("place", "name"), [("memory", "rows"), ("memory", "rows.bz2"), ("http", "rows"), ("chunked", "rows.gz")]
)
def test_remote_rows_are_those_of_a_local_file(places, tmp_path, place, name):
    (tmp_path / "rows").write_bytes(TEXT)
    one, other = read([str(tmp_path / "rows")]), read([places[place] + name] * 2)
    assert other.dataset.rows == 2 * one.dataset.rows == 1000
    assert other.dataset.index[: one.dataset.nnz].tolist() == one.dataset.index.tolist()
    assert other.bytes == 2 * len(TEXT)


def test_the_size_is_known_where_the_file_system_says(places):
    assert (
        size_on_disk(places["memory"] + "rows.gz") == size_on_disk(places["http"] + "rows.gz") == len(FILES["rows.gz"])
    )
    assert size_on_disk(places["chunked"] + "rows") == size_on_disk(places["http"] + "nosuch") == 0


def test_commands_take_addresses_and_name_the_model_after_them(places, run):
    rows = f"http://user:word@{places['host']}/rows?key=secret"
    status, told = run("train", "-m", "linear", "-e", "2", rows)
    assert status == 0
    assert f"read http://{places['host']}/rows: 500 rows" in told
    assert "secret" not in told
    assert "word" not in told
    FILES["m.fm"] = Path("rows.fm").read_bytes()
    fsspec.filesystem("memory").pipe("/fmcli/m.fm", FILES["m.fm"])
    assert run("predict", "-o", "local", "rows.fm", rows)[0] == 0
    for place in ("memory", "http"):
        model = places[place] + "m.fm"
        assert run("predict", "-o", place, model, places[place] + "rows.gz")[0] == 0
        assert Path(place).read_bytes() == Path("local").read_bytes()
        assert run("evaluate", model, rows)[0] == 0
    status, told = run("inspect", places["memory"] + "m.fm")
    assert (status, f"{len(FILES['m.fm']):,} bytes" in told) == (0, True)


@pytest.mark.parametrize(
    ("place", "status", "message"),
    [
        ("http://{}/nosuch", 66, "cannot read http://{}/nosuch: status 404, Not Found"),
        ("http://{}/closed/rows?key=secret", 66, "cannot read http://{}/closed/rows: status 403, Forbidden"),
        ("http://127.0.0.1:1/rows", 66, "cannot read http://127.0.0.1:1/rows: Cannot connect to host 127.0.0.1:1"),
        ("memory://fmcli/nosuch", 66, "cannot read memory://fmcli/nosuch: no such file"),
        ("nosuch://rows", 2, "cannot read nosuch://rows: Protocol not known: nosuch"),
        ("http://{}/short/rows", 74, "http://{}/short/rows: the transfer ended after "),
        ("http://{}/short/rows.gz", 74, "http://{}/short/rows.gz: the transfer ended after "),
    ],
)
def test_what_cannot_be_read_is_an_error(places, run, place, status, message):
    found, told = run("train", place.format(places["host"]))
    assert found == status
    assert told.startswith(f"fmcli: error: {message}".format(places["host"]))
    assert "secret" not in told


@pytest.mark.parametrize("place", ["memory", "tagged", "parts", "http"])
def test_caches_of_remote_rows(places, run, monkeypatch, place):
    """They are used again if the file system knows of changes, and if the ends are the same where it sends parts."""
    address = places.get(place, f"{places['http']}{place}/") + "rows"
    monkeypatch.setitem(TAGS, "rows", '"1"')
    monkeypatch.setitem(FILES, "rows", TEXT)

    def told():
        status, told = run("train", "--disk", "--cache", "c", "-e", "1", "-o", "m", address)
        assert status == 0
        return told

    assert "made the cache c, because there was none" in told()
    unknown = f"made the cache c, because it is not known whether {address} has changed"
    assert (unknown if place == "http" else "using the cache c") in told()
    changed = TEXT[:-2] + b"7\n"
    if place == "memory":
        fsspec.filesystem("memory").pipe("/fmcli/rows", changed)
    elif place == "tagged":
        TAGS["rows"] = '"2"'
    FILES["rows"] = changed
    assert (unknown if place == "http" else "because the earlier one has other inputs") in told()
    fsspec.filesystem("memory").pipe("/fmcli/rows", TEXT)


class Flaky(io.BytesIO):
    """A file that fails after some chunks, or ends before its size."""

    def __init__(self, size, fails):
        super().__init__(TEXT)
        self.size, self.fails = size, fails

    def read(self, size=-1):
        if self.fails and self.tell() > 2000:
            raise OSError("connection reset")
        return super().read(size)


@pytest.mark.parametrize(
    ("size", "fails", "reason"), [(len(TEXT) + 1, False, "its size is"), (None, True, "connection")]
)
def test_a_transfer_that_fails_is_an_error(monkeypatch, size, fails, reason):
    class FileSystem:
        protocol = "flaky"

        def open(self, path, mode):
            return Flaky(size, fails)

    monkeypatch.setattr(remote, "find", lambda path: (FileSystem(), path))
    with pytest.raises(TransferError, match=rf"^flaky://rows: the transfer ended after [0-9,]+ bytes: {reason}"):
        read(["flaky://rows"])
    with remote.RemoteFile("flaky://rows") as file, pytest.raises(TransferError):
        file.read()


def test_a_reader_that_stops_early_leaves_no_thread(places):
    before = set(threading.enumerate())
    with remote.RemoteFile(places["memory"] + "rows") as file:
        assert file.read(10) == TEXT[:10]
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive() or thread.name == "fsspecIO"


@pytest.mark.parametrize(
    ("path", "module", "message"),
    [
        ("s3://bucket/rows", "fsspec", "pip install 'fsspec[http]'"),
        ("https://host/rows", "aiohttp", "pip install 'fsspec[http]'"),
        ("s3://bucket/rows", "s3fs", "Install s3fs to access S3"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, path, module, message):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError) as raised:
        read([path])
    assert message in str(raised.value)


def test_remote_outputs_are_refused(places, run):
    rows = places["memory"] + "rows"
    for arguments in (["train", "-o"], ["train", "-o", "m.fm", "--log-json"]):
        status, told = run(*arguments, "s3://bucket/file", rows)
        assert (status, "cannot write s3://bucket/file: only local files are written" in told) == (2, True)


def test_a_local_file_may_look_like_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s3:/bucket").mkdir(parents=True)
    Path("s3:/bucket/rows").write_bytes(TEXT)
    assert read(["./s3://bucket/rows"]).dataset.rows == 500
    with pytest.raises(MissingInputError):
        read(["s3:/nosuch"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://me:word@bucket/a?b, c", "s3://bucket/a?b, c"),
        ("'https://host/a/b.gz?x=1&y=2' and what?", "'https://host/a/b.gz' and what?"),
        ("read https://host/a?x=1: 5 rows", "read https://host/a: 5 rows"),
        ("mail a@b.c?", "mail a@b.c?"),
    ],
)
def test_messages_have_no_secrets(text, shown):
    assert addresses.without_secrets(text) == shown


def test_fsspec_is_imported_only_for_addresses(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "fmcli.system.remote", None)
    Path("rows").write_bytes(TEXT)
    assert run("train", "-m", "linear", "-e", "1", "-q", "rows") == (0, "")
    assert run("predict", "-q", "-o", "scores", "rows.fm", "rows") == (0, "")
