"""Runs of the command that start in milliseconds: each is forked from a process that has already imported fmcli.

As if started by a shell, each run has its own process, streams, working directory and exit status. It only skips the
start of Python and the imports, which take fifty times as long as most runs.
"""

import gc
import importlib
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, NoReturn

LISTEN = b"listen"  # the request to answer clients of a socket
# A command for shells, which gives its arguments, folder, environment and streams to the process that runs are forked
# from.
COMMAND = """#!{python} -IS
import array, os, sys, _socket
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
connection.connect({address!r})
assigned = [name + b"=" + value for name, value in os.environb.items()]
words = [os.fsencode(word) for word in (os.getcwd(), str(len(assigned)), *assigned, *sys.argv[1:])]
streams = array.array("i", (0, 1, 2)).tobytes()
connection.sendmsg([b"\\0".join(words)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
os._exit(int(connection.recv(64)) & 255)
"""


class Forks:
    """Starts runs.

    environ : the environment of all runs.
    patience : the time limit of a run in seconds, after which SIGALRM ends it.
    prepare : called in the process that all runs are forked from, before Python starts.
    before : statements that run in it before fmcli is imported.
    """

    def __init__(
        self, environ: dict[str, str], patience: int, prepare: Callable[[], None] = lambda: None, before: str = "pass"
    ) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            path = os.pathsep.join([environ["PYTHONPATH"], str(Path(__file__).parent)])
            self._server = subprocess.Popen(
                [sys.executable, "-c", f"{before}; from forks import serve; serve({number}, {patience})"],
                preexec_fn=prepare,
                env=environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[number],
            )

    def run(
        self,
        arguments: Sequence[str | Path],
        folder: Path,
        input: bytes | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess:
        """Run `fmcli ARGUMENTS` in a folder. The default input is /dev/null; stderr is text.

        variables : additional environment variables.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            reader, writer = (os.open(os.devnull, os.O_RDONLY), -1) if input is None else os.pipe()
            try:
                assigned = [f"{name}={value}" for name, value in (variables or {}).items()]
                words = [folder, str(len(assigned)), *assigned, *arguments]
                request = b"\0".join(map(os.fsencode, words))
                socket.send_fds(self._socket, [request], [reader, out.fileno(), err.fileno()])
            finally:
                os.close(reader)
            if input is not None:
                _write(writer, input)
            status = int(self._socket.recv(64))
            return subprocess.CompletedProcess(arguments, status, _content(out), _content(err).decode())

    def command(self, folder: Path) -> Path:
        """Write a command `fmcli` for shells into a folder, from which it runs as long as this exists."""
        address, command = folder / "socket", folder / "fmcli"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(os.fsencode(address))
            listening.listen()
            socket.send_fds(self._socket, [LISTEN], [listening.fileno()])
        command.write_text(COMMAND.format(python=sys.executable, address=str(address)))
        command.chmod(0o755)
        return command

    def close(self) -> None:
        """End the process that all runs are forked from."""
        self._socket.close()
        self._server.wait()


def at_the_end(expression: str) -> str:
    """Statements after which a command prints an expression on standard error as its last action. (It ends without the
    shutdown of the interpreter, and so without atexit.)"""
    printing = f"print({expression}, file=sys.stderr)"
    return f"import os, sys; leave = os._exit; os._exit = lambda status: ({printing}, leave(status))"


def _write(descriptor: int, data: bytes) -> None:
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except BrokenPipeError:
        pass  # the run did not read all of its input


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def serve(number: int, patience: int) -> None:
    """Fork for each request from a socket until its other end is closed."""
    import fmcli
    from fmcli.system.blas import pin_blas

    pin_blas()  # as each command does, before numpy is imported
    _import_all(fmcli)
    gc.freeze()  # otherwise garbage collection in a run would copy all memory pages shared with this process
    _answer(number, patience)


def _answer(number: int, patience: int) -> None:
    """Fork for each request from a socket until its other end is closed."""
    listeners = []
    with socket.socket(fileno=number) as connection:
        while True:
            request, descriptors, _, _ = socket.recv_fds(connection, 1 << 18, 3)
            if not request:
                for listener in listeners:
                    os.kill(listener, signal.SIGTERM)
                    os.waitpid(listener, 0)
                return
            child = os.fork()
            if child == 0:
                connection.close()
                if request == LISTEN:
                    _listen(*descriptors, patience)
                _become(request.split(b"\0"), descriptors, patience)
            for descriptor in descriptors:
                os.close(descriptor)
            if request == LISTEN:
                listeners.append(child)
                continue
            _, status = os.waitpid(child, 0)
            connection.send(b"%d" % os.waitstatus_to_exitcode(status))


def _listen(number: int, patience: int) -> NoReturn:
    """Answer each connection in a process of its own, so the commands of a pipe run at the same time."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for these processes
    with socket.socket(fileno=number) as listening:
        while True:
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listening.close()
                    _answer(connection.detach(), patience)
                    os._exit(0)


def _import_all(package: ModuleType) -> None:
    """Import the modules of a package and of its packages, except the estimators of scikit-learn: no command needs it,
    and forks take longer the more memory a process has."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.name != "fmcli.sklearn":
            found = importlib.import_module(module.name)
            if module.ispkg:
                _import_all(found)


def _become(request: list[bytes], descriptors: list[int], patience: int) -> NoReturn:
    from fmcli.__main__ import main

    signal.alarm(patience)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    folder, assigned, *words = map(os.fsdecode, request)
    os.chdir(folder)
    os.environ |= dict(word.split("=", 1) for word in words[: int(assigned)])
    sys.argv = ["fmcli", *words[int(assigned) :]]
    main()
