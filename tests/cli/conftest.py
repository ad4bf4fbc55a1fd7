"""Fixtures that run the command as a separate process, with exit status, streams and signals as users see them."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from forks import Forks
from inprocess import ADDRESS_SPACE, run_here

import fmcli

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = ROOT / "sample_data"
COMMAND = (sys.executable, "-m", "fmcli")
PACKAGE = str(Path(fmcli.__file__).resolve().parent.parent)
# The time limit of a command in seconds, so a hanging command fails.
PATIENCE = 60


def prepare() -> None:
    """Set default signal handlers, as in a shell's foreground process, and the memory limit."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start fmcli in an empty folder, with pipes for its streams. Further keywords are passed to Popen.

    environ : the whole environment. Default: the tests' environment.
    preexec : called in the new process.
    before : Python statements that run before fmcli.
    """

    def started(*arguments, environ=os.environ, preexec=lambda: None, before="", **keywords):
        def prepared() -> None:
            prepare()
            preexec()

        code = f"{before}; from fmcli.__main__ import main; main()"
        command = (sys.executable, "-c", code) if before else COMMAND
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*command, *map(os.fsencode, arguments)],
            preexec_fn=prepared,
            env={**environ, "PYTHONPATH": PACKAGE},
            **({"stdin": pipe, "stdout": pipe, "stderr": pipe, "cwd": tmp_path} | keywords),
        )

    return started


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    # NumPy's warnings about infinite and undefined numbers must not reach users, so they are errors here (status 70).
    environ = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONWARNINGS": "error::RuntimeWarning"}
    forks = Forks(environ, PATIENCE, prepare)
    yield forks
    forks.close()


class Run:
    """Runs fmcli to its end in a folder. stderr of the result is text.

    The command runs in the process of the tests (see inprocess.py), or in one that is forked if `fork` (see forks.py).
    If further keywords of `start` are given, a new process is started instead.

    Training has no quick search, unless --quick-search, --no-quick-search or --auto are given: it takes most of the
    time of a small run.
    """

    def __init__(self, start: Callable[..., subprocess.Popen[bytes]], forks: Forks, folder: Path) -> None:
        self.start, self.forks, self.folder = start, forks, folder

    def __call__(
        self,
        *arguments: str | Path,
        input: bytes | None = None,
        variables: Mapping[str, str] | None = None,
        fork: bool = False,
        **keywords,
    ) -> subprocess.CompletedProcess:
        """`input` is standard input, `variables` are added to the environment."""
        if arguments[:1] == ("train",) and not {"--quick-search", "--no-quick-search", "--auto"}.intersection(
            arguments
        ):
            arguments = ("train", "--no-quick-search", *arguments[1:])
        if not keywords:
            return (self.forks.run if fork else run_here)(arguments, self.folder, input, variables)
        if input is None and "stdin" not in keywords:
            keywords["stdin"] = subprocess.DEVNULL
        with self.start(*arguments, **keywords) as process:
            try:
                out, err = process.communicate(input, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        text = None if err is None else err.decode()
        return subprocess.CompletedProcess(process.args, process.returncode, out, text)

    def ok(self, *arguments: str | Path, **keywords) -> subprocess.CompletedProcess:
        """Run a command that must succeed."""
        return self.fails(0, *arguments, **keywords)

    def fails(self, status: int, *arguments: str | Path, **keywords) -> subprocess.CompletedProcess:
        """Run a command that must end with this status."""
        done = self(*arguments, **keywords)
        assert done.returncode == status, done.stderr
        return done


@pytest.fixture
def run(start, forks, tmp_path) -> Run:
    return Run(start, forks, tmp_path)


@pytest.fixture(scope="session")
def sample() -> Path:
    """The folder of the sample data."""
    return SAMPLE


@pytest.fixture(scope="session")
def adult_model(tmp_path_factory) -> Path:
    """A model of the adult sample with logistic loss. Tests must not change the file."""
    return _model(tmp_path_factory, "adult.train.libsvm")


@pytest.fixture(scope="session")
def diabetes_model(tmp_path_factory) -> Path:
    """A model of the diabetes sample with squared loss. Tests must not change the file."""
    return _model(tmp_path_factory, "diabetes.train.libsvm")


@pytest.fixture(scope="session")
def large(tmp_path_factory) -> Path:
    """The adult sample, repeated until it spans several of the reader's buffers; each row has its own label."""
    path = tmp_path_factory.mktemp("large") / "large.libsvm"
    rows = [line.split(" ", 1)[1] for line in (SAMPLE / "adult.train.libsvm").read_text().splitlines()] * 16
    path.write_text("".join(f"{label % 7} {row}\n" for label, row in enumerate(rows)))
    assert path.stat().st_size > 2 << 20
    return path


def _model(tmp_path_factory, name: str) -> Path:
    path = tmp_path_factory.mktemp("model") / f"{name}.fm"
    run_here(["train", "-q", "--no-quick-search", "-o", path, SAMPLE / name], path.parent).check_returncode()
    return path
