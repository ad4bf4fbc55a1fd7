"""The corpora of the fuzzers: inputs that reach different code, which the tests replay (tests/corpus)."""

import io
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "tests" / "corpus"
LONGEST = 4096  # bytes of an input, so the corpora are small


def unpack(name: str, folder: Path) -> None:
    """Write the inputs of a corpus to a folder, a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.tar.xz"
    if path.exists():
        with tarfile.open(path) as archive:
            for entry in archive:
                inputs = archive.extractfile(entry)
                assert inputs is not None
                (folder / entry.name).write_bytes(inputs.read())


def pack(folder: Path, name: str) -> None:
    """Make a corpus of the files in a folder, without long ones. Its bytes depend only on the files' bytes."""
    inputs = [path.read_bytes() for path in folder.iterdir() if path.stat().st_size <= LONGEST]
    inputs.sort(key=lambda data: (len(data), data))
    with tarfile.open(FOLDER / f"{name}.tar.xz", "w:xz") as archive:
        for number, data in enumerate(inputs):
            entry = tarfile.TarInfo(str(number))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
