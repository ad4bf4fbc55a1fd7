"""Output files: written atomically, and checked for write access before the work that fills them."""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from fmcli.errors import OutputError
from fmcli.system.interrupt import Temporary
from fmcli.system.leftovers import create_locked, new_name, remove_leftovers

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PERMISSIONS = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def atomic_output(path: str) -> Iterator[BinaryIO]:
    """Open `path` for writing, so a reader finds the previous file or the complete new one, never a part.

    The bytes go to a hidden file in the same folder. If the context succeeds, the hidden file replaces `path`, with the
    permissions of the previous file; after an exception, it is removed. If `path` is a symbolic link, the link stays
    and its target is replaced. A device or a pipe cannot be replaced and is written directly.

    Raises OutputError, which names `path` and the reason, if writing fails, and BrokenPipeError if the reader of a pipe
    has gone. OSErrors raised inside the context, for example for an input, are not changed.
    """
    target = _target(path)
    if target is None:
        with _writer(path, path, "w") as file:
            yield file
        return
    with _temporary(path, target) as temporary:
        with _writer(path, temporary, "w") as file:
            yield file
            with _naming(path):
                file.flush()
                os.fsync(file.fileno())
        with _naming(path):
            os.replace(temporary, target)
            _sync_folder(os.path.dirname(target))


@contextmanager
def log_output(path: str) -> Iterator[BinaryIO]:
    """`atomic_output` for a log: it also replaces `path` if the context fails, unless writing the log failed."""
    failure: BaseException | None = None
    with atomic_output(path) as file:
        try:
            yield file
        except OutputError:
            raise
        except Exception as error:
            failure = error
    if failure is not None:
        raise failure


@contextmanager
def scratch_output(path: str) -> Iterator[BinaryIO]:
    """Open a file without a name for writing, in the folder of `path`; it disappears with the process. Flushed bytes
    can be read through its descriptor. Raises OutputError, which names `path`."""
    from tempfile import TemporaryFile

    with ExitStack() as stack:
        with _naming(path):
            unnamed = stack.enter_context(TemporaryFile(dir=os.path.dirname(os.path.realpath(path)), buffering=0))
        yield stack.enter_context(_writer(path, os.dup(unnamed.fileno()), "w"))


def probe_output(path: str) -> None:
    """Raise OutputError if `atomic_output(path)` would fail now. An existing file is not changed."""
    target = _target(path)
    if target is None:
        return
    with _temporary(path, target):
        pass


def identity_of(path: str) -> tuple[object, ...] | None:
    """Return a value that two paths share if writing one would overwrite the other: they name the same regular file,
    which may not exist yet, by any name or link. None for a device, a pipe or a folder."""
    try:
        status = os.stat(path)
        return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
    except (OSError, ValueError):
        folder, name = os.path.split(os.path.realpath(path))
    with suppress(OSError):
        status = os.stat(folder)
        return status.st_dev, status.st_ino, name
    return folder, name


class _NamedOutput(io.FileIO):
    """A file whose write errors name the user's path instead of the temporary file."""

    def __init__(self, path: str, opened: str | int, mode: str) -> None:
        self._path = path
        super().__init__(opened, mode)

    def write(self, data: "ReadableBuffer", /) -> int:
        with _naming(self._path):
            return super().write(data)


@contextmanager
def _writer(path: str, opened: str | int, mode: str) -> Iterator[BinaryIO]:
    with _naming(path):
        file = io.BufferedWriter(_NamedOutput(path, opened, mode))
    try:
        yield file
        with _naming(path):
            file.close()
    except BaseException:
        # Writing the rest of the buffer may fail again; report only the first error.
        with suppress(OSError, OutputError):
            file.close()
        raise


def _target(path: str) -> str | None:
    """Return the regular file that `path` names or would create, with links resolved; None for a device or a pipe."""
    if not os.path.basename(path):
        raise OutputError(f"{path or repr(path)}: cannot be written: this is not a file name")
    with _naming(path):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return os.path.realpath(path)
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            # Do not open it here: opening a pipe waits for its reader.
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return None
        # Write access to the folder would suffice to replace a write-protected file, but the file's owner protects it.
        os.close(os.open(path, os.O_WRONLY))
        return os.path.realpath(path)


@contextmanager
def _temporary(path: str, target: str) -> Iterator[str]:
    """Make a temporary file in the folder of `target`, after removing the files of killed runs there. It is removed
    after the context, and if a signal ends the process. Raises OutputError, which names `path`."""
    folder = os.path.dirname(target)
    remove_leftovers(folder)
    temporary = new_name(folder)
    with Temporary(temporary):
        with _naming(path):
            descriptor = create_locked(temporary)
        try:
            _take_permissions(descriptor, target)
            yield temporary
        finally:
            with suppress(OSError):
                os.unlink(temporary)
            os.close(descriptor)


def _take_permissions(descriptor: int, path: str) -> None:
    """Give an open, empty file the permissions of the file that it will replace, if that exists. Some file systems do
    not support permissions."""
    with suppress(OSError):
        os.fchmod(descriptor, os.stat(path).st_mode & PERMISSIONS)


def _sync_folder(folder: str) -> None:
    """Make a rename durable, if the folder is readable and its file system supports it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except FileNotFoundError as error:
        raise OutputError(f"{path}: cannot be written: its folder does not exist") from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
