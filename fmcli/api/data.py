"""Rows with labels, from matrices or from files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fmcli.api.errors import in_python
from fmcli.api.matrix import require_numbers, require_unmasked, rows_of
from fmcli.api.values import threads_of
from fmcli.data.dataset import Dataset
from fmcli.data.fields import LARGEST, LARGEST_GROUP, without_fields
from fmcli.data.labels import LONGEST_NAME, NUMBERS, Names, is_name, listed_names
from fmcli.data.shards.weights import Weighting, weigh
from fmcli.data.text.formats import RowGroups
from fmcli.data.text.reader import read as read_text
from fmcli.errors import BadInputError
from fmcli.registry.models import MODELS
from fmcli.system.addresses import file_of
from fmcli.text import escaped, quote, readable
from fmcli.training.setup.rows import needs_fields

if TYPE_CHECKING:
    from fmcli.data.tables.named import ColumnRoles
    from fmcli.data.tables.schema import Schema
    from fmcli.registry.specs import Spec

LIBSVM, FFM = "libsvm", "ffm"
# The types of missing values of pandas, which cannot be compared.
MISSING = ("NAType", "NaTType")
# What only frames and series of pandas have.
PANDAS = "iloc"
# One file, or several that are concatenated.
Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Data:
    """Labeled rows in memory, of matrices; `fmcli.read` makes them of files.

    Parameters
    ----------
    X : sparse matrix, array, or list of dict
        Shape (rows, columns): column j is feature j. A canonical CSR matrix of float32 with int32 indices is not
        copied, and must not be changed as long as the result is in use. In a list of dicts, one for each row, the keys
        are features, and a text as a value makes the feature ``key=text`` of value 1.
    y : array-like, optional
        Shape (rows,): numbers, or texts, which are classes.
    weight : array-like, optional
        Shape (rows,): weights, which are not negative; 1 by default.
    fields : array-like of int, optional
        Shape (columns,): the field of each column, for models with fields (ffm) and priors by field (mcmc).
    group : array-like, optional
        Shape (rows,): rows with equal values are a group (a query, a user), for ranking.

    Raises
    ------
    BadInputError
        If shapes do not fit, or for numbers that are not finite; it is a ValueError.
    """

    dataset: Dataset
    names: Names
    format: str
    schema: Schema | None = None
    _groups: NDArray[Any] | None = None  # the names of groups 0, 1, ..
    # The frame of the rows, and what reads it again with other kinds of columns; None: they come from no frame, or its
    # columns were known.
    _frame: Any = None
    _read_as: Callable[[ColumnRoles], Data] | None = None

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        weight: ArrayLike | None = None,
        fields: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> None:
        with in_python():
            made = of_matrix(X, y, weight=weight, fields=fields, group=group)
        self.dataset, self.names, self.format, self._groups = made.dataset, made.names, made.format, made._groups

    @classmethod
    def _of(cls, dataset: Dataset, names: Names, format: str, schema: Schema | None = None) -> Data:
        """Return rows that have been made already.

        names : the names of labels 0, 1, ..
        schema : the columns of the table that the rows come from; None: they come from no table.
        """
        made = cls.__new__(cls)
        made.dataset, made.names, made.format, made.schema = dataset, names, format, schema
        return made

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.dataset.rows

    @property
    def nonzeros(self) -> int:
        """The number of entries that are not 0."""
        return self.dataset.nnz

    def __repr__(self) -> str:
        return f"<Data: {self.rows:,} rows, {self.nonzeros:,} non-zeros>"


def of_matrix(
    X: Any,
    y: ArrayLike | None = None,
    *,
    weight: ArrayLike | None = None,
    fields: ArrayLike | None = None,
    group: ArrayLike | None = None,
    names: Names | None = None,
) -> Data:
    """Return the rows of a matrix with their labels; see Data.

    names : the names of labels 0, 1, .., in increasing order; None: the labels decide.

    Raises BadInputError.
    """
    require_order(X, y=y, weight=weight, group=group)
    of_columns = None if fields is None else field_numbers(fields)
    dataset = rows_of(X, of_columns)
    return labeled(dataset, LIBSVM if fields is None else FFM, y, weight=weight, group=group, names=names)


def labeled(
    dataset: Dataset,
    format: str,
    y: ArrayLike | None,
    *,
    weight: ArrayLike | None = None,
    group: ArrayLike | None = None,
    names: Names | None = None,
    schema: Schema | None = None,
) -> Data:
    """Return rows with labels, weights and groups; see Data and `of_matrix`. Raises BadInputError."""
    label, found = (None, NUMBERS) if y is None else labels_of(y, names)
    added: dict[str, NDArray[Any]] = {}
    if label is not None:
        require_rows("y", label, dataset.rows)
        added["label"] = label
    if weight is not None:
        added["weight"] = weights_of(weight, dataset.rows)
    groups = None
    if group is not None:
        number = one_dimension("group", group)
        require_rows("group", number, dataset.rows)
        groups, place = np.unique(number, return_inverse=True)
        added["group"] = place.astype(np.int32)
    if added:
        dataset = dataset.changed(**added)
    if weight is not None:
        weigh(dataset, Weighting())  # raises an error if all are 0
    made = Data._of(dataset, found, format, schema)
    made._groups = groups
    return made


def labels_of(y: ArrayLike, known: Names | None = None) -> tuple[NDArray[np.float64], Names]:
    """Return (rows) labels, and the names of labels 0, 1, .. if they are names. Raises BadInputError.

    known : these names, or NUMBERS; None: the labels decide.
    """
    label = one_dimension("y", y)
    require_numbers("y", label.dtype)
    if label.dtype.kind == "O" and not known and all(isinstance(one, Real) for one in label.tolist()):
        label = label.astype(np.float64)
    if label.dtype.kind in "biuf" and not known:
        numbers = np.ascontiguousarray(label, dtype=np.float64)
        if not np.isfinite(numbers).all():
            raise BadInputError(f"y has the label {numbers[~np.isfinite(numbers)][0]}; labels must be finite numbers")
        return numbers, NUMBERS
    texts = np.array([name_of(one) for one in label.tolist()], dtype=object)
    if known == NUMBERS:
        raise BadInputError(f"y has labels that are texts, such as {texts[0]!r}, but training labels are numbers")
    names = tuple(sorted(set(texts), key=str.encode)) if known is None else known
    place = {name: at for at, name in enumerate(names)}
    for text in set(texts) - place.keys():
        raise BadInputError(f"the model does not know the label {readable(text)}, only {listed_names(names)}")
    return np.array([place[text] for text in texts], dtype=np.float64), names


def name_of(label: Any) -> str:
    """Return a label as the name of a class. Raises BadInputError."""
    if label is None or type(label).__name__ in MISSING or label != label:
        raise BadInputError(f"y has a label that is missing ({label}); leave its row out, or give it a class")
    name = escaped(str(label))
    if not is_name(name):
        raise BadInputError(
            f"y has the label {quote(name.encode())}, expected numbers, or printable texts of at most {LONGEST_NAME} "
            "characters"
        )
    return name


def weights_of(weight: ArrayLike, rows: int) -> NDArray[np.float64]:
    """Return (rows) weights. Raises BadInputError for weights that are negative or not finite."""
    numbers = one_dimension("weight", weight)
    require_rows("weight", numbers, rows)
    require_numbers("weight", numbers.dtype)
    if numbers.dtype.kind not in "biuf" or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise BadInputError("weight has a number that is negative or not finite")
    return np.ascontiguousarray(numbers, dtype=np.float64)


def whole_numbers(name: str, values: ArrayLike, largest: int = LARGEST) -> NDArray[np.int64]:
    """Return (n) numbers. Raises BadInputError for numbers that are not integers from 0 to the largest one."""
    numbers = one_dimension(name, values)
    if numbers.dtype.kind not in "iu" or (len(numbers) and (numbers.min() < 0 or numbers.max() > largest)):
        raise BadInputError(f"{name} needs integers from 0 to {largest}")
    return numbers.astype(np.int64)


def field_numbers(fields: ArrayLike) -> NDArray[np.int32]:
    """Return (columns) the fields of columns. Raises BadInputError for numbers that fields cannot have."""
    return whole_numbers("fields", fields, LARGEST_GROUP).astype(np.int32)


def one_dimension(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of one dimension; a single column is one. Raises BadInputError for others."""
    require_unmasked(name, values)
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise BadInputError(f"{name} has the shape {array.shape}, expected one number for each row")
    return array


def require_order(X: Any, **values: Any) -> None:
    """Raise BadInputError for a series of pandas that has the index of X in another order: as values belong to rows by
    their places, most rows would get the value of another row."""
    index = X.index if hasattr(X, PANDAS) else None
    for name, one in values.items():
        if index is None or not hasattr(one, PANDAS) or one.index.equals(index) or len(one) != len(index):
            continue
        if one.index.is_unique and not len(index.difference(one.index, sort=False)):
            raise BadInputError(
                f"{name} has the index of X in another order; give {name}.loc[X.index], or {name}.to_numpy() if its "
                "rows are in the order of X"
            )


def require_rows(name: str, values: NDArray[Any], rows: int) -> None:
    """Raise BadInputError unless there is a value for each row."""
    if len(values) != rows:
        raise BadInputError(f"{name} has {len(values):,} values, but X has {rows:,} rows; each row needs one")


def read(
    files: Files,
    *,
    format: str = "auto",
    label_weights: bool = False,
    group_field: int | None = None,
    groups: bool = False,
    hash_bits: int = 0,
    threads: int | None = None,
) -> Data:
    """Read libsvm or ffm text, as ``fmcli train`` does.

    Parameters
    ----------
    files : str, path, or list of these
        Files, which may be compressed or remote, and are concatenated.
    format : {"auto", "libsvm", "ffm"}
    label_weights : bool
        Whether a label may be followed by a colon and the weight of the row.
    group_field : int, optional
        The rows whose entries of this field are equal are a group; for ffm text.
    groups : bool
        Whether rows with the same ``qid:N`` are a group.
    hash_bits : int
        Columns are the last bits of hashes of the ids; 0: ids are not hashed.
    threads : int, optional
        By default, one for each core.

    Returns
    -------
    Data

    Raises
    ------
    BadInputError
        For errors in the text, with file, line and column; it is a ValueError.
    MissingInputError
        If a file cannot be opened; it is a FileNotFoundError.
    NotEnoughMemoryError
        It is a MemoryError.
    """
    with in_python():
        row_groups = RowGroups(group_field) if groups or group_field is not None else None
        return of_files(files, format, None, label_weights, row_groups, hash_bits, threads)


def of_files(
    files: Files,
    format: str = "auto",
    names: Names | None = None,
    label_weights: bool = False,
    row_groups: RowGroups | None = None,
    hash_bits: int = 0,
    threads: int | None = None,
) -> Data:
    """Return the rows of files, with fields if these have some. Raises the errors of `reader.read`."""
    table = read_text(
        paths_of(files),
        format=format,
        fields_if_any=True,
        threads=threads_of(threads),
        label_weights=label_weights,
        labels=names,
        hash_bits=hash_bits,
        row_groups=row_groups,
    )
    return Data._of(table.dataset, table.labels or NUMBERS, table.format)


def paths_of(files: Files) -> list[str]:
    """Return the names of files, as inputs."""
    several = [files] if isinstance(files, str | os.PathLike) else list(files)
    return [file_of(os.fspath(one)) for one in several]


def for_spec(data: Data, spec: Spec, *, optional: bool = False) -> Dataset:
    """Return the rows as a run needs them: with fields only if these count. optional : see `needs_fields`."""
    kind, dataset = MODELS[spec.model], data.dataset
    if not needs_fields(spec, optional=optional):
        dataset = without_fields(dataset)
    if kind.needs_fields(spec.values) and dataset.field is None:
        raise BadInputError(
            f"{spec.model} needs fields: give fmcli.Data(X, y, fields=..), a number for each column, or ffm text"
        )
    return dataset
