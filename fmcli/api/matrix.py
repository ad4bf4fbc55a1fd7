"""Matrices as rows: sparse and dense arrays, and lists of dicts from names of features to values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.api.errors import refuse
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import FeatureIds
from fmcli.data.fields import LARGEST
from fmcli.data.sparse_ids import with_dictionary
from fmcli.data.text.formats import LARGEST_INDEX
from fmcli.errors import BadInputError
from fmcli.system.memory import require_if_large
from fmcli.text import escaped

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fmcli.data.shards.observed_rows import Seen

# Bytes of an entry in compressed form: half for its value, half for its column.
ENTRY_BYTES = 8


def rows_of(X: Any, fields: NDArray[np.int32] | None = None) -> Dataset:
    """Return the rows of a matrix, whose column j is feature j, or of a list of dicts, whose keys are features.

    A canonical CSR matrix of float32 with int32 indices is not copied, and no matrix is changed.

    Parameters
    ----------
    X : sparse matrix, array of numbers (rows, columns), or sequence of dicts.
    fields : (columns) the field of each column.

    Raises
    ------
    BadInputError
        If X is none of these, or has numbers that are not finite or too large for float32.
    """
    if hasattr(X, "tocsr"):
        indptr, index, value, features = of_sparse(X)
    elif is_records(X):
        if fields is not None:
            raise BadInputError("dicts have no columns, so there can be no fields of columns")
        return of_records(X)
    else:
        require_unmasked("X", X)
        indptr, index, value, features = of_dense(np.asarray(X))
    if features > LARGEST_INDEX + 1:
        raise BadInputError(f"X has {features:,} columns, more than the {LARGEST_INDEX + 1:,} that are possible")
    if fields is not None and len(fields) != features:
        raise BadInputError(f"X has {features:,} columns, but fields has {len(fields):,} numbers; each needs one")
    field = None if fields is None else fields[index]
    data = Dataset(indptr, index, value, None, features, field)
    return with_dictionary(data) if data.nnz else data


def require_unmasked(name: str, values: Any) -> None:
    """Raise BadInputError for an array with masked values: the data behind a mask are no values."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise BadInputError(f"{name} has masked values: give {name}.filled(number), or leave out such rows")


def is_records(X: Any) -> bool:
    """Return whether rows are given as dicts."""
    return isinstance(X, Sequence) and not isinstance(X, str | bytes) and len(X) > 0 and isinstance(X[0], Mapping)


Compressed = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32] | None, int]


def of_sparse(X: Any) -> Compressed:
    """Return the compressed rows of a sparse matrix. Raises BadInputError."""
    require_two(X.ndim)
    require_numbers("X", X.dtype)
    require_sound(X)
    if X.format != "csr":
        require_if_large(ENTRY_BYTES * X.nnz, "X by rows")
    rows: csr_array = X.tocsr()
    if rows is not X:  # formats without arrays of their own, such as lists, are checked as the rows they give
        require_sound(rows)
    cast = (rows.dtype != np.float32) + (rows.indices.dtype != np.int32)
    require_if_large(ENTRY_BYTES // 2 * cast * rows.nnz, "X as float32 with int32 indices")
    if not rows.has_canonical_format or not np.all(rows.data):
        require_if_large((rows.dtype.itemsize + rows.indices.itemsize) * rows.nnz, "a copy of X with sorted indices")
        rows = rows.copy() if rows is X or np.shares_memory(rows.data, X.data) else rows
        rows.sum_duplicates()
        rows.eliminate_zeros()
    features = int(rows.shape[1])
    index = read_only(rows.indices.astype(np.int32, copy=False))
    return read_only(rows.indptr.astype(np.int64)), index, checked(rows.data), features


def require_sound(X: Any) -> None:
    """Raise BadInputError for a sparse matrix whose arrays contradict each other: scipy checks only some of that when
    it makes a matrix, and its compiled functions read and write wherever the arrays point."""
    try:
        if X.format == "coo":
            for axis, place in enumerate(X.coords):
                if len(place) != len(X.data) or (len(place) and not 0 <= place.min() <= place.max() < X.shape[axis]):
                    raise ValueError(f"the indices of axis {axis} do not fit {len(X.data)} entries of shape {X.shape}")
        elif hasattr(X, "check_format"):
            # A second matrix of the same arrays: the check may shorten the arrays of its matrix.
            type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False).check_format(full_check=True)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"X is a damaged sparse matrix: {error}") from error


def of_dense(X: NDArray[Any]) -> Compressed:
    """Return the compressed rows of an array (rows, columns). Raises BadInputError."""
    require_numbers("X", X.dtype)
    if X.dtype.kind not in "biuf":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise BadInputError(
                f"X has the type {X.dtype}, not numbers: {error}; turn texts into features, give dicts, or give a "
                "frame to fmcli.train"
            ) from error
    require_two(X.ndim)
    there = X != 0
    count = np.count_nonzero(there, axis=1)
    require_if_large(2 * ENTRY_BYTES * int(count.sum()), "the entries of X that are not 0")
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(count, dtype=np.int64)])
    return indptr, np.nonzero(there)[1].astype(np.int32), checked(X[there]), X.shape[1]


def of_records(X: Sequence[Mapping[Any, Any]]) -> Dataset:
    """Return the rows of dicts, with a dictionary of the features: keys are names, or numbers that are not negative,
    and a text as a value makes the feature key=text. Raises BadInputError."""
    ids, index, value, ends = FeatureIds(), [], [], [0]
    for row, record in enumerate(X):
        if not isinstance(record, Mapping):
            raise BadInputError(f"X[{row}] is of the type {type(record).__name__}, not a dict like the first row")
        for key, amount in record.items():
            name, number = (f"{key}={amount}", 1.0) if isinstance(amount, str) else (key, amount)
            index.append(ids.column_of(id_of(name, row)))
            value.append(number)
        ends.append(len(index))
    try:
        values = np.array(value)
        require_numbers("X", values.dtype)
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"X has a value that is neither a number nor a text: {error}") from error
    dictionary, columns = ids.sorted(np.ones(len(ids), dtype=np.bool_))
    column, row_of = columns[np.array(index, dtype=np.intp)], np.repeat(np.arange(len(X)), np.diff(ends))
    order = np.lexsort((column, row_of))
    column, row_of, values = column[order], row_of[order], values[order]
    twice = (np.diff(column) == 0) & (np.diff(row_of) == 0)
    if twice.any():
        at = int(twice.argmax())
        raise BadInputError(f"X[{row_of[at]}] has the feature {dictionary.id(int(column[at]))} twice")
    there = values != 0
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(row_of[there], minlength=len(X)))])
    return Dataset(
        indptr, column[there].astype(np.int32), checked(values[there]), None, len(dictionary), numbering=dictionary
    )


def id_of(key: Any, row: int) -> int | bytes:
    """Return the id of a feature in text: of a number itself, of a name its bytes. Raises BadInputError."""
    if isinstance(key, Integral) and not isinstance(key, bool) and 0 <= int(key) <= LARGEST:
        return int(key)
    if isinstance(key, str) and key:
        return int(key) if key.isdecimal() and int(key) <= LARGEST else escaped(key).encode()
    raise BadInputError(f"X[{row}] has the key {key!r}, expected a name, or a number that is not negative")


def checked(value: NDArray[Any]) -> NDArray[np.float32] | None:
    """Return values as float32; None if all are 1. Raises BadInputError for values that are not finite."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(value, dtype=np.float32)
    low, high = (single.min(), single.max()) if len(single) else (1, 1)  # not a number if any is
    if not (np.isfinite(low) and np.isfinite(high)):
        found = float(value[np.isfinite(single).argmin()])
        raise BadInputError(
            "X has a value that is not a number (NaN): replace missing values, or leave their entries out"
            if np.isnan(found)
            else f"X has the value {found:g}, but values must be finite, and of a magnitude below 3.4e38"
        )
    return None if low == high == 1 else read_only(single)


def require_numbers(name: str, dtype: np.dtype[Any]) -> None:
    """Raise BadInputError for complex numbers and times, which NumPy would turn into numbers that mean less."""
    if dtype.kind == "c":
        raise BadInputError(f"{name} has complex numbers; give real ones, such as {name}.real or abs({name})")
    require_no_times(name, dtype)


def require_no_times(name: str, dtype: np.dtype[Any]) -> None:
    """Raise BadInputError for times."""
    if dtype.kind in "mM":
        raise BadInputError(
            f"{name} has times ({dtype}), not numbers; give numbers of a unit, such as "
            f"({name} - {name}.min()) / np.timedelta64(1, 'D')"
        )


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def require_two(dimensions: int) -> None:
    """Raise BadInputError unless a matrix has two dimensions."""
    if dimensions != 2:
        advice = "reshape a single row with X.reshape(1, -1), a single column with X.reshape(-1, 1)"
        raise BadInputError(f"X has {dimensions} dimensions, expected 2 (rows, columns); {advice}")


def pairs_of(seen: Any, contexts: int, items: int) -> Seen:
    """Return the pairs of a context and an item that have an entry in a matrix. Raises UsageError."""
    from scipy.sparse import csr_array

    from fmcli.data.shards.observed_rows import Seen

    matrix = csr_array(seen)
    refuse(matrix.shape != (contexts, items), f"seen has the shape {matrix.shape}, but must have {(contexts, items)}")
    row, column = matrix.nonzero()
    return Seen.of(row.astype(np.int64), column.astype(np.int64), contexts)
