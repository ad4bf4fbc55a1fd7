"""Rows in every form that callers in Python give: Data, matrices with labels, files, tables, frames, and chunks."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fmcli.api.data import FFM, LIBSVM, PANDAS, Data, labeled, of_files, of_matrix, paths_of, require_order
from fmcli.api.errors import refuse
from fmcli.api.matrix import is_records
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.file_formats import is_table
from fmcli.data.labels import NUMBERS, Names, listed_names, relabeled, sorted_names
from fmcli.data.shards.weights import multiplied
from fmcli.data.tables.declared import doubts
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.reading import By, TableSource, columns_of, head_of_table, ignored_columns
from fmcli.data.tables.schema import WEIGHT, Schema
from fmcli.data.tables.surveying import schema_of
from fmcli.data.text.formats import RowGroups
from fmcli.data.text.pieces import TextFacts, TextRows, concatenated_by_ids
from fmcli.data.text.reader import read_unlabeled
from fmcli.data.text.sources import FileRange, Input
from fmcli.errors import BadInputError
from fmcli.names import listing
from fmcli.records import dataclass
from fmcli.registry.models import MODELS
from fmcli.system.machine import cpu_count
from fmcli.text import one_line, readable
from fmcli.training.setup.ages import ages_of
from fmcli.training.setup.chosen import held_of
from fmcli.training.setup.named_columns import known_schema, named_of, with_sides
from fmcli.training.setup.observed import PairsInMemory, doubt_about_ids, observed, terms_of

if TYPE_CHECKING:
    from fmcli.registry.choices import Choices
    from fmcli.registry.specs import Spec
    from fmcli.training.setup.warm_start import WarmStart

LOG = logging.getLogger("fmcli")
# Why rows cannot decay.
WITHOUT_TIMES = "decay needs a frame or a table, with a column of times"
# The name of a frame in messages.
FRAME = "the frame"
# The methods by which queries of other programs return their rows; methods that return frames are first.
LAZY = ("toPandas", "to_table", "collect", "compute")


@dataclass(frozen=True)
class RowForm:
    """How rows are read.

    names : the names of labels 0, 1, .., as a model knows them; None: the labels decide.
    schema : the columns of tables, as a model knows them; None: it is found.
    named : the columns of tables that are named, if there is no schema.
    by : the source of the groups of the rows of tables; None: nothing.
    fields : whether the features of tables have fields.
    """

    names: Names | None = None
    schema: Schema | None = None
    named: ColumnRoles | None = None
    by: By | None = None
    fields: bool = False
    threads: int = 1

    def like(self, names: Names, schema: Schema | None) -> RowForm:
        """Return how further rows are read, whose labels and columns are known."""
        return replace(self, names=names, schema=schema, named=None, by=None)


def form_of(choices: Choices, spec: Spec, names: Names | None, schema: Schema | None, rows: Any = None) -> RowForm:
    """Return how the rows of a run are read. names, schema : as the model to resume from knows them. rows : if they are
    tables, their new columns may be ignored. Raises UsageError."""
    held = held_of(choices)
    fields = MODELS[spec.model].needs_fields(spec.values) or spec.solver_entry.is_sampler or choices.auto
    by = None if held.column is None else By(held.column, held.times)
    named = named_of(choices, choices.group_field, held.column if held.times else None)
    tables = table_inputs(rows) if is_files(rows) or is_frame(rows) else []
    if choices.implicit:
        fields = True
        if tables and (is_frame(rows) or is_table(str(tables[0]))):
            named = with_sides(named, choices, head_of_table(tables[0], named.form).names)
    known = known_schema(choices, lambda known: columns_of(tables, known), schema)
    return RowForm(names, known, named, by, fields, choices.threads or cpu_count())


def is_files(rows: Any) -> bool:
    """Return whether rows are given as one file or several."""
    if isinstance(rows, str | os.PathLike):
        return True
    return isinstance(rows, list) and bool(rows) and all(isinstance(one, str | os.PathLike) for one in rows)


def is_frame(rows: Any) -> bool:
    """Return whether rows are a frame, which other programs can read as a stream of Arrow. One of pandas whose columns
    have numbers in place of names is a matrix.

    Raises BadInputError for a frame of a query that has not run yet, and for columns with other names than texts.
    """
    if not hasattr(rows, "__arrow_c_stream__"):
        for method in () if hasattr(rows, "__array__") else LAZY:
            if callable(getattr(rows, method, None)):
                raise BadInputError(f"a {type(rows).__name__} has no rows yet; give the result of its {method}()")
        return False
    if not hasattr(rows, PANDAS):
        return True
    if rows.ndim != len(("rows", "columns")):
        return False
    others = [name for name in rows.columns if not isinstance(name, str)]
    if not others:
        return True
    if len(others) == rows.shape[1] and all(isinstance(name, Integral) for name in others):
        return False
    raise BadInputError(
        f"a frame has the name {others[0]!r} of a column, which is not text; rename its columns: "
        "frame.columns = [str(name) for name in frame.columns]"
    )


def is_labeled(rows: Any) -> bool:
    """Return whether rows are given as a pair (X, y), or as Data."""
    return isinstance(rows, Data) or (isinstance(rows, tuple) and len(rows) == 2)


def is_chunks(rows: Any) -> bool:
    """Return whether rows are given as an iterator or a list of chunks."""
    return isinstance(rows, Iterator) or (isinstance(rows, list) and bool(rows) and is_labeled(rows[0]))


def kept(rows: Any) -> Any:
    """Return an iterator of frames as a list, because the kinds of their columns depend on all rows; other rows as
    they are."""
    if not isinstance(rows, Iterator):
        return rows
    first = list(islice(rows, 1))
    return [*first, *rows] if frames_of(first) else chain(first, rows)


def frames_of(rows: Any, name: str = FRAME) -> dict[str, Any]:
    """Return a frame, which gets a name, or a list of frames, by names for messages; nothing for other rows."""
    if is_frame(rows):
        return {name: rows}
    several = isinstance(rows, list) and all(map(is_frame, rows))
    return {f"frame {number}": frame for number, frame in enumerate(rows)} if several else {}


def inputs_of(rows: Any, form: RowForm) -> tuple[list[str], Schema | None] | None:
    """Return frames and files as inputs of the reader, and their columns if they are tables; None for other rows.
    Raises BadInputError, MissingInputError and UsageError."""
    frames = frames_of(rows)
    if not frames and not is_files(rows):
        return None
    named = form.named or ColumnRoles()
    tables = frames or named.label is not None or any(map(is_table, paths_of(rows)))
    if not tables:
        return paths_of(rows), form.schema
    if form.schema is None:
        form = replace(form, schema=schema_and_doubts(table_inputs(rows), named, form))
    return list(table_paths(rows, form)), form.schema


def table_inputs(rows: Any) -> list[Input]:
    """Return frames or files as inputs of the reader."""
    return [extent_of(*one) for one in frames_of(rows).items()] or list(paths_of(rows))


def tables_again(rows: Any) -> list[Input]:
    """Return the frames, or files, of rows as inputs of the reader if they can be read again; nothing for others."""
    if is_labeled(rows):
        frame = rows._frame if isinstance(rows, Data) else rows[0]
        return [extent_of(FRAME, frame)] if is_frame(frame) else []
    return table_inputs(rows) if is_files(rows) or frames_of(rows) else []


def schema_and_doubts(inputs: Sequence[Input], named: ColumnRoles, form: RowForm) -> Schema:
    """Return the columns of tables. Warn of columns of frames whose types may imply the wrong kinds. Raises
    BadInputError, MissingInputError and UsageError."""
    schema, facts = schema_of(inputs, named, form.threads)
    for doubt in doubts(schema, facts, named.kinds()):
        warnings.warn(doubt, stacklevel=2)
    return schema


def extent_of(name: str, frame: Any) -> FileRange:
    """Return a frame as an input, without the index of pandas, which would be a column of it."""
    return FileRange(name, frame=frame.reset_index(drop=True) if hasattr(frame, PANDAS) else frame)


def table_paths(rows: Any, form: RowForm, *, partial: bool = False, name: str = FRAME) -> list[TableSource]:
    """Return frames, or files, as tables with the schema of a form.

    partial : as in TableSource.of.
    name : of a frame, for messages.
    """
    assert form.schema is not None
    more: dict[str, Any] = {"fields": form.fields, "by": form.by, "partial": partial}
    if frames := frames_of(rows, name):
        return [
            TableSource.of(name, form.schema, frame=extent_of(name, one).frame, **more) for name, one in frames.items()
        ]
    return [TableSource.of(path, form.schema, **more) for path in paths_of(rows)]


def as_data(rows: Any, what: str, form: RowForm) -> Data:
    """Return labeled rows in memory.

    rows : Data, files, a frame, (X, y), or chunks, an iterator or a list of Data, (X, y) or frames.
    what : the name of the parameter, for messages.

    Raises BadInputError and UsageError.
    """
    if isinstance(rows, Data):
        return with_names(rows, what, form.names)
    rows = kept(rows)
    if (inputs := inputs_of(rows, form)) is not None:
        return of_inputs(*inputs, form)
    if is_chunks(rows):
        return of_chunks(rows, what, form)
    refuse(
        hasattr(rows, PANDAS) and rows.ndim > 1,
        f"the columns of {what} have numbers in place of names; name them, such as {what}.columns = "
        f"[f'x{{name}}' for name in {what}.columns], or give {what} as a pair (X, y)",
    )
    refuse(
        not is_labeled(rows),
        f"{what} must be (X, y), the name of a file, a list of them, fmcli.Data, what fmcli.read returns, a frame with "
        "label, or an iterator of such pairs or frames",
    )
    X, y = rows
    return of_pair(X, y, form)


def of_pair(
    X: Any,
    y: ArrayLike,
    form: RowForm,
    *,
    weight: ArrayLike | None = None,
    fields: ArrayLike | None = None,
    group: ArrayLike | None = None,
) -> Data:
    """Return rows with labels. Parameters are as in Data, but X can be a frame, which is read like a table. Raises
    BadInputError and UsageError."""
    if not is_frame(X):
        require_names(X, form.schema)
        return of_matrix(X, y, weight=weight, fields=fields, group=group, names=form.names)
    refuse(form.by is not None, "rows of a frame can be held out by a column only if label names one, too")
    refuse(fields is not None, "the fields of a frame are its columns, so none can be given")
    named = replace(form.named or ColumnRoles(), labeled=False)
    refuse(named.label is not None, "the labels are given twice, as y and by label")
    for option, column in (("weight_column", named.weight), ("group_field", named.group)):
        refuse(column is not None, f"{option} needs a frame with its labels, and label, in place of a pair (X, y)")
    require_order(X, y=y, weight=weight, group=group)
    schema = form.schema or schema_and_doubts([extent_of(FRAME, X)], named, form)
    rows = unlabeled(X, replace(form, schema=schema))
    format = FFM if form.fields else LIBSVM
    made = labeled(rows, format, y, weight=weight, group=group, names=form.names, schema=schema)
    if form.schema is None:
        made._frame = X
        made._read_as = lambda named: of_pair(X, y, replace(form, named=named), weight=weight, group=group)
    return made


def require_names(X: Any, schema: Schema | None) -> None:
    """Raise BadInputError for a matrix in place of a frame, whose columns a schema knows by their names."""
    if schema is not None and not is_records(X):
        raise BadInputError(
            "the model knows the columns of a table by their names, and X has none; give a frame, or dicts"
        )


def unlabeled(frame: Any, form: RowForm) -> Dataset:
    """Return the rows of a frame, whose columns the schema of a form knows, without labels. Raises BadInputError."""
    paths = table_paths(frame, form)
    rows = read_unlabeled(paths, keep_fields=form.fields, threads=form.threads).dataset
    warn_of_ignored(paths, form)
    return rows.changed(label=None)


def of_inputs(paths: list[str], schema: Schema | None, form: RowForm) -> Data:
    """Return the rows of files or tables. Raises the errors of `reader.read`."""
    row_groups = RowGroups() if isinstance(paths[0], TableSource) and paths[0].by else None
    read = of_files(paths, "auto", form.names, has_weights(schema), row_groups, threads=form.threads)
    warn_of_ignored(paths, form)
    return Data._of(read.dataset, read.names, read.format, schema)


def warn_of_ignored(paths: Sequence[str], form: RowForm) -> None:
    """Warn of the columns of tables to train on that the model to resume from does not know."""
    found = ignored_columns(paths)
    if found and form.named is not None:
        warn(f"ignored columns, which the model does not know: {one_line(listing(sorted(found)))}")


def observed_pairs(
    rows: Any, what: str, form: RowForm, choices: Choices, warm_start: WarmStart | None
) -> tuple[PairsInMemory, Schema | None, str]:
    """Return observed pairs, what their columns are if they are of a table, and their format. Raises BadInputError and
    UsageError."""
    if isinstance(rows, Data):
        refuse(choices.decay is not None, WITHOUT_TIMES)
        refuse(bool(rows.names), f"the labels of {what} are texts, but the labels of observed pairs are counts")
        refuse(rows.dataset.weight is not None, f"the labels of {what} are counts, so it has no further weights")
        pairs = observed(rows.dataset, what, terms_of(choices, None, warm_start), None)
        return replace(pairs, in_order=False), None, rows.format
    inputs = inputs_of(kept(rows), form)
    refuse(inputs is None, f"{what} must be a frame, or files, whose columns are the columns of user and of item")
    assert inputs is not None
    paths, schema = inputs
    terms = terms_of(choices, schema, warm_start)
    table = read_unlabeled(paths, threads=form.threads)
    pairs = observed(table.dataset, what, terms, schema, ages_of(choices, paths, LOG.info, warn))
    if doubt := doubt_about_ids(pairs, schema):
        warn(doubt)
    return pairs, schema, table.format


def with_decay(read: Data, rows: Any, form: RowForm, choices: Choices) -> Data:
    """Return rows, which were read as a form says, with weights that decay if they are to. Raises BadInputError and
    UsageError."""
    if choices.decay is None:
        return read
    inputs = inputs_of(rows, replace(form, schema=read.schema))
    refuse(inputs is None, WITHOUT_TIMES)
    assert inputs is not None
    weight = ages_of(choices, inputs[0], LOG.info, warn).weight
    assert weight is not None
    return Data._of(multiplied(read.dataset, weight), read.names, read.format, read.schema)


def warn(text: str) -> None:
    """Give a warning."""
    warnings.warn(text, stacklevel=3)


def has_weights(schema: Schema | None) -> bool:
    """Return whether a column of tables has the weights of rows."""
    return schema is not None and WEIGHT in schema.kinds.values()


def with_names(rows: Data, what: str, names: Names | None) -> Data:
    """Return rows whose labels have known names; None: any. Raises BadInputError."""
    if names is None or rows.names == names:
        return rows
    if not rows.names or not names:
        raise BadInputError(f"the labels of {what} are {'texts' if rows.names else 'numbers'}, unlike the model's")
    for unknown in set(rows.names) - set(names):
        raise BadInputError(f"the model does not know the label {readable(unknown)}, only {listed_names(names)}")
    places = np.array([names.index(name) for name in rows.names], dtype=np.float64)
    return changed(rows, places, names)


def changed(rows: Data, places: NDArray[np.float64], names: Names) -> Data:
    """Return rows whose labels have other numbers, as positions of names. places : the new number of each label."""
    return Data._of(relabeled(rows.dataset, places), names, rows.format, rows.schema)


def of_chunks(chunks: Any, what: str, form: RowForm) -> Data:
    """Return the rows of chunks, concatenated in memory. Raises BadInputError and UsageError."""
    groups: dict[Any, int] = {}
    pieces = list(chunk_rows(chunks, what, form, groups=groups))
    refuse(not pieces, f"{what} has no chunks")
    last = pieces[-1].facts
    data = concatenated_by_ids(pieces, form.threads, only_seen=True)
    if groups:
        number = np.unique(np.array(list(groups)), return_inverse=True)[1].astype(np.int32)
        data = data.changed(group=number[data.group])
    rows = Data._of(data, NUMBERS, last.format)
    if last.names is None:
        return rows
    names, places = sorted_names([name.encode() for name in last.names], what)
    return changed(rows, places, names)


def chunk_rows(
    chunks: Any,
    what: str,
    form: RowForm,
    change: Callable[[Data], Dataset] = lambda data: data.dataset,
    groups: dict[Any, int] | None = None,
) -> Iterator[TextRows]:
    """Yield the rows of each chunk, as the rows of a text are yielded (see `stored.caching.pieces`). Raises
    BadInputError and UsageError.

    change : the function that is applied to them.
    groups : gets the number of each group; chunks can have parts of a group. None: groups are refused.
    """
    places = {name: place for place, name in enumerate(form.names or NUMBERS)}
    first: tuple[bool, ...] | None = None
    for number, chunk in enumerate(chunks):
        name = f"chunk {number} of {what}"
        refuse(not is_labeled(chunk) or is_frame(chunk), f"{name} is of the type {type(chunk).__name__}, not (X, y)")
        data = as_data(chunk, name, form)
        refuse(data.schema != form.schema, f"{name} has a frame as X; give frames with their labels, and label")
        refuse(data.dataset.label is None or not data.rows, f"{name} has no {'rows' if data.rows == 0 else 'labels'}")
        if data.dataset.group is not None:
            refuse(groups is None, f"{name} has groups, which need all rows in memory: leave out cache")
            assert groups is not None
            data = with_groups(data, name, groups)
        facts = TextFacts(data.format)
        if data.names:
            of_chunk = np.array([places.setdefault(one, len(places)) for one in data.names], dtype=np.float64)
            data = changed(data, of_chunk, tuple(places))
            facts = TextFacts(data.format, names=tuple(places))
        rows = change(data)
        parts = (bool(data.names), rows.weight is not None, rows.field is not None, rows.group is not None)
        first = first or parts
        refuse(parts != first, f"{name} differs from the first one in texts as labels, weights, fields or groups")
        ids = rows.numbering.ids if isinstance(rows.numbering, Dictionary) else None
        yield TextRows(rows.changed(numbering=None), ids, facts)


def with_groups(data: Data, name: str, groups: dict[Any, int]) -> Data:
    """Return rows with the numbers of their groups in all chunks; new groups get new numbers. Raises UsageError."""
    refuse(
        data._groups is None, f"{name} has the groups of files, which may continue in others; give all files at once"
    )
    assert data._groups is not None
    number = np.array([groups.setdefault(one, len(groups)) for one in data._groups.tolist()], dtype=np.int32)
    return Data._of(data.dataset.changed(group=number[data.dataset.group]), data.names, data.format, data.schema)
