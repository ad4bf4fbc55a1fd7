"""Output files are complete or absent, and error messages name the path and the reason."""

import errno
import fcntl
import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from fmcli.errors import OutputError
from fmcli.system import leftovers
from fmcli.system.files import atomic_output, identity_of, log_output, probe_output, scratch_output


def write(path, data=b"new"):
    with atomic_output(str(path)) as file:
        file.write(data)


def write_then(path, act):
    """Write some bytes, then raise an exception or call a function while they are still in the buffer."""
    with atomic_output(path) as file:
        file.write(b"half")
        if isinstance(act, type):
            raise act
        act()


@pytest.fixture
def open_folder():
    """A folder that every user may access; pytest's folders are private."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


@pytest.fixture
def no_privileges():
    """Drop root privileges, because root ignores file permissions."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


def test_writes_a_new_file_and_replaces_an_old_one(tmp_path):
    path = tmp_path / "model.fm"
    write(path, b"first")
    assert path.read_bytes() == b"first"
    write(path, b"second, in many pieces" * 100_000)
    assert path.read_bytes() == b"second, in many pieces" * 100_000
    assert os.listdir(tmp_path) == ["model.fm"]


def test_a_name_without_a_folder_is_in_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    probe_output("model.fm")
    write("model.fm")
    assert os.listdir(tmp_path) == ["model.fm"]


def test_a_name_as_long_as_the_file_system_takes(tmp_path):
    path = tmp_path / ("m" * 255)
    write(path)
    assert path.read_bytes() == b"new"
    with pytest.raises(OutputError, match="File name too long"):
        probe_output(f"{path}m")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_mode_follows_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write(tmp_path / "out")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755, 0o4644])
def test_a_replaced_file_keeps_its_permissions(tmp_path, mode):
    """It has them before anything is written, and no other bits, such as set-user-ID."""
    path = tmp_path / "out"
    path.touch()
    path.chmod(mode)
    with atomic_output(str(path)) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode & 0o777
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode & 0o777
    assert path.read_bytes() == b"new"


def test_nothing_is_seen_before_the_end(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with atomic_output(str(path)) as file:
        file.write(b"new" * 100_000)
        assert path.read_bytes() == b"old"
        [temporary] = set(os.listdir(tmp_path)) - {"out"}
        assert temporary.startswith(".")
    assert path.read_bytes() == b"new" * 100_000


def test_the_bytes_reach_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor):
        status = os.fstat(descriptor)
        calls.append(("fsync", "folder" if stat.S_ISDIR(status.st_mode) else status.st_size))
        fsync(descriptor)

    def record_replace(a, b):
        calls.append(("replace", os.path.basename(b)))
        replace(a, b)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    write(tmp_path / "out")
    assert calls == [("fsync", 3), ("replace", "out"), ("fsync", "folder")]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError, SystemExit, GeneratorExit])
def test_any_exception_leaves_the_older_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(error):
        write_then(str(path), error)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_an_error_inside_the_with_block_is_not_an_output_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_output(str(tmp_path / "out")):
        (tmp_path / "input that is missing").read_bytes()


def test_a_rename_that_fails_is_reported_and_cleaned_up(tmp_path, monkeypatch):
    def refuse(a, b):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OutputError, match="out: cannot be written: Operation not permitted"):
        write(tmp_path / "out")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("size", [10_000, 10])
def test_a_write_that_fails_names_the_users_path(tmp_path, size):
    """The file size is limited. Small writes fail when the buffer is flushed, large ones at once."""
    path = tmp_path / "out"
    path.write_bytes(b"old")
    code = (
        "import resource, sys\n"
        "from fmcli.errors import OutputError\n"
        "from fmcli.system.files import atomic_output\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5))\n"
        "try:\n"
        "    with atomic_output(sys.argv[1]) as file:\n"
        "        file.write(bytes(int(sys.argv[2])))\n"
        "except OutputError as error:\n"
        "    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path), str(size)], capture_output=True, text=True, check=True)
    assert out.stdout == f"{path}: cannot be written: File too large\n"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_a_full_disk():
    with pytest.raises(OutputError, match="/dev/full: cannot be written: No space left on device"):
        write("/dev/full")
    with pytest.raises(OutputError, match="No space left on device"):
        write("/dev/full", bytes(1_000_000))


def test_an_interrupt_is_not_hidden_by_a_full_disk():
    with pytest.raises(KeyboardInterrupt):
        write_then("/dev/full", KeyboardInterrupt)


def test_devices_are_written_not_replaced():
    probe_output("/dev/null")
    write("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_is_written_and_probing_does_not_wait_for_its_reader(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    probe_output(str(path))
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert received == [b"new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_pipe_whose_reader_is_gone_stays_a_broken_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BrokenPipeError):
        write_then(str(path), lambda: os.close(reader))


def test_standard_output_by_its_device_name(tmp_path):
    code = "from fmcli.system.files import atomic_output\nwith atomic_output('/dev/stdout') as file: file.write(b'new')"
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert out.stdout == b"new"


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "model", tmp_path / "link"
    link.symlink_to("there/model")
    probe_output(str(link))
    assert not target.exists()
    write(link, b"made through the link")
    assert target.read_bytes() == b"made through the link"
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path / "there") == ["model"]


def test_a_hard_link_keeps_the_older_file(tmp_path):
    (tmp_path / "out").write_bytes(b"old")
    os.link(tmp_path / "out", tmp_path / "kept")
    write(tmp_path / "out")
    assert (tmp_path / "kept").read_bytes() == b"old"


def test_probing_leaves_no_trace(tmp_path):
    path = tmp_path / "out"
    probe_output(str(path))
    assert os.listdir(tmp_path) == []
    path.write_bytes(b"old")
    os.utime(path, ns=(1, 1))
    probe_output(str(path))
    assert os.listdir(tmp_path) == ["out"]
    assert path.read_bytes() == b"old"
    assert path.stat().st_mtime_ns == 1


@pytest.mark.parametrize("attempt", [probe_output, write])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/out", "its folder does not exist"),
        ("folder", "Is a directory"),
        (".", "Is a directory"),
        ("folder/", "this is not a file name"),
        ("new/", "this is not a file name"),
        ("file/out", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("dangling", "its folder does not exist"),
    ],
)
def test_places_that_cannot_be_written(tmp_path, attempt, name, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("missing/out")
    before = sorted(os.listdir(tmp_path))
    path = f"{tmp_path}/{name}"
    with pytest.raises(OutputError) as caught:
        attempt(path)
    assert str(caught.value) == f"{path}: cannot be written: {reason}"
    assert sorted(os.listdir(tmp_path)) == before
    assert caught.value.exit_status == 74


@pytest.mark.parametrize("attempt", [probe_output, write])
def test_the_empty_name(attempt):
    with pytest.raises(OutputError, match="'': cannot be written: this is not a file name"):
        attempt("")


@pytest.mark.parametrize("attempt", [probe_output, write])
@pytest.mark.usefixtures("no_privileges")
def test_permissions(open_folder, attempt):
    closed = open_folder / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    with pytest.raises(OutputError, match="closed/out: cannot be written: Permission denied"):
        attempt(closed / "out" if attempt is write else str(closed / "out"))
    protected = open_folder / "protected"
    protected.write_bytes(b"old")
    protected.chmod(0o444)
    with pytest.raises(OutputError, match="protected: cannot be written: Permission denied"):
        attempt(str(protected))
    assert protected.read_bytes() == b"old"
    assert sorted(os.listdir(open_folder)) == ["closed", "protected"]


@pytest.mark.usefixtures("no_privileges")
def test_a_folder_that_may_be_written_but_not_listed(open_folder):
    box = open_folder / "box"
    box.mkdir()
    box.chmod(0o333)
    write(box / "out")
    assert (box / "out").read_bytes() == b"new"


def test_no_descriptor_is_lost(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 8, hard))
    try:
        for _ in range(20):
            write(tmp_path / "out")
            probe_output(str(tmp_path / "out"))
            with pytest.raises(OutputError):
                write("/dev/full")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("error", [None, KeyError])
def test_a_file_without_a_name_is_closed(tmp_path, error):
    with pytest.raises(error) if error else nullcontext(), scratch_output(str(tmp_path / "m")) as file:
        file.write(b"half")
        assert os.listdir(tmp_path) == []
        if error:
            raise error
    assert file.closed


def test_identity_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a").touch()
    Path("b").touch()
    os.link("a", "hard")
    os.symlink("a", "soft")
    os.symlink("new", "to_new")
    os.symlink(".", "here")
    os.mkfifo("pipe")
    for same in ["a", "./a", "hard", "soft", "here/a"], ["new", "./new", "to_new", "here/to_new", tmp_path / "new"]:
        assert len({identity_of(str(path)) for path in same}) == 1, same
    assert len({identity_of(path) for path in ("a", "b", "new", "newer", "no/new")}) == 5
    assert {identity_of(path) for path in ("/dev/null", "here", "pipe")} == {None}


def test_a_log_is_in_place_at_the_end_whatever_that_is(tmp_path):
    path = tmp_path / "log"
    for text, error in (b"one", None), (b"two", ValueError("of the run")):
        failing = pytest.raises(ValueError, match="of the run") if error else nullcontext()
        with failing, log_output(str(path)) as file:
            file.write(text)
            file.flush()
            assert not path.exists() or path.read_bytes() == b"one"
            if error:
                raise error
        assert path.read_bytes() == text
        assert os.listdir(tmp_path) == ["log"]
    with pytest.raises(OutputError, match="full"), log_output(str(path)):
        raise OutputError("the disk is full")
    assert path.read_bytes() == b"two"


# ---- Temporary files of killed runs ----

KILLED = """
import os, sys
from fmcli.system.files import atomic_output
with atomic_output(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), 9)
"""


def killed_while_writing(path):
    """Kill a run while it writes, and return the name of the temporary file that it leaves."""
    before = set(os.listdir(path.parent))
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60).returncode == -9
    (left,) = set(os.listdir(path.parent)) - before
    return left


@pytest.mark.parametrize("next_run", [lambda path: probe_output(str(path)), write], ids=["probe", "write"])
def test_the_next_run_removes_what_a_killed_one_left(tmp_path, next_run):
    left = killed_while_writing(tmp_path / "m")
    assert leftovers.NAME.fullmatch(left)
    assert (tmp_path / left).read_bytes() == b"half"
    next_run(tmp_path / "other")
    assert left not in os.listdir(tmp_path)


def test_files_of_runs_that_may_be_alive_are_kept(tmp_path):
    left = killed_while_writing(tmp_path / "m")
    other_kernel = f".fmcli-{'0' * 8}-{left.split('-')[2]}"
    (tmp_path / left).rename(tmp_path / other_kernel)
    others = {other_kernel, ".fmcli-notes.tmp", f"{left}.bak", left}
    for name in others - {other_kernel, left}:
        (tmp_path / name).write_text("mine")
    (tmp_path / left).symlink_to(other_kernel)
    with atomic_output(str(tmp_path / "m")) as file:
        (remaining,) = set(os.listdir(tmp_path)) - others
        write(tmp_path / "other")
        assert remaining in os.listdir(tmp_path), "its writer lives"
        file.write(b"whole")
    assert (tmp_path / "m").read_bytes() == b"whole"
    assert set(os.listdir(tmp_path)) == {"m", "other", *others}


def test_a_file_that_is_removed_before_it_is_locked_is_created_again(tmp_path, monkeypatch):
    path = tmp_path / "t"
    lock, stolen = fcntl.flock, []

    def late(descriptor, how):
        if not stolen:
            stolen.append(os.unlink(path))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    descriptor = leftovers.create_locked(str(path))
    assert os.fstat(descriptor).st_ino == path.stat().st_ino
    os.close(descriptor)


def test_a_file_system_without_locks_keeps_leftovers(tmp_path, monkeypatch):
    left = killed_while_writing(tmp_path / "m")

    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write(tmp_path / "m")
    assert set(os.listdir(tmp_path)) == {"m", left}
