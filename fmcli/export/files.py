"""The files that the parameters of a model are written to: the end of the name says the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fmcli.registry.entry import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fmcli.scoring.scorer import Scorer

# The end of a file's name -> the function that writes a scorer's parameters to a path, and returns its arrays by name.
WRITERS = {
    ".npz": "fmcli.export.arrays:write_npz",
    ".txt": "fmcli.export.text:write_txt",
    ".tsv": "fmcli.export.table:write_tsv",
    ".parquet": "fmcli.export.table:write_parquet",
}


def write(scorer: Scorer, path: str) -> dict[str, NDArray[Any]]:
    """Write the parameters of a model; any other name is one of text. Returns the arrays.

    Raises OutputError, NotEnoughMemoryError, and UsageError for a model of several draws.
    """
    writer = next((writer for end, writer in WRITERS.items() if path.endswith(end)), WRITERS[".txt"])
    written: dict[str, NDArray[Any]] = load(writer)(scorer, path)
    return written
