"""Predictions of a saved model for rows of text, in streams of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.numbering import Numbering
from fmcli.data.related.files import Joiner, RelationFiles, concatenated_pieces, refuse_labels
from fmcli.data.tables.reading import TableSource
from fmcli.data.text.chunks import Columns, Piece, score_chunks
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import Stream
from fmcli.data.text.line_counter import LineCounter
from fmcli.data.text.sources import Gaps, Input, table_in
from fmcli.model_file.check import MOST_FEATURES
from fmcli.records import dataclass
from fmcli.scoring.drift import PieceSums, Sample, is_sampled, sums_of
from fmcli.scoring.extra_outputs import NOTHING, ExtraOutputs
from fmcli.scoring.scorer import OutputType, Scorer
from fmcli.scoring.written import are_written
from fmcli.system.memory import require_if_large

# Ids that repeat, with this many rows each on average, may be labels.
ROWS_PER_ID = 2

# Pieces of joined rows in flight, in addition to one per thread.
PIECES_AHEAD = 2

T = TypeVar("T")


@dataclass
class Counts:
    """The numbers of scored rows and entries."""

    rows: int = 0
    nonzeros: int = 0
    unseen: int = 0  # nonzero entries of features that did not occur in training
    not_finite: int = 0  # rows with a score that is not a finite number
    comments: int = 0
    labels_as_ids: int = 0  # rows without a label whose id looks like one
    span: tuple[int, int] | None = None  # the smallest and the largest index
    bytes: int = 0  # bytes of text
    extra: frozenset[str] = frozenset()  # columns of tables that the model does not know
    gaps: Gaps = field(default_factory=Gaps)  # of tables
    sample: Sample = field(default_factory=Sample)  # of the rows of tables

    def add(self, other: Counts) -> None:
        """Add the counts of further rows."""
        self.rows += other.rows
        self.nonzeros += other.nonzeros
        self.unseen += other.unseen
        self.not_finite += other.not_finite
        self.comments += other.comments
        self.labels_as_ids += other.labels_as_ids
        self.bytes += other.bytes
        self.extra |= other.extra
        self.gaps.add(other.gaps)
        self.sample.add(other.sample)
        self.widen(other.span)

    def widen(self, span: tuple[int, int] | None) -> None:
        """Extend the span by the smallest and the largest index of further rows."""
        if span and self.span:
            span = min(span[0], self.span[0]), max(span[1], self.span[1])
        self.span = span or self.span


def predict(
    scorer: Scorer,
    paths: Sequence[str],
    *,
    output: OutputType,
    format: str = "auto",
    threads: int = 1,
    counts: Counts,
    bad: BadLines | None = None,
    stream: Stream = Stream(),  # noqa: B008
    refuse_unseen: bool = False,
    beside: ExtraOutputs = NOTHING,
    relations: Sequence[RelationFiles] = (),
) -> Iterator[bytes]:
    """Yield the lines for all rows of the inputs, in order, and add to `counts`. A skipped line with an error gets nan.
    Rows with keys begin with the key and a tab. The figures of `beside` follow the prediction. Rows are joined with the
    rows of `relations`.

    Raises BadInputError and MissingInputError, after the lines for the rows before the error.
    """
    chunks = each_chunk(
        scorer,
        paths,
        predicted_lines(scorer, output, beside),
        format=format,
        threads=threads,
        counts=counts,
        bad=bad,
        stream=stream,
        refuse_unseen=refuse_unseen,
        relations=relations,
    )
    for lines, not_finite in chunks:
        counts.not_finite += not_finite
        yield lines


def predicted_lines(
    scorer: Scorer, output: OutputType, beside: ExtraOutputs = NOTHING
) -> Callable[[Piece], tuple[bytes, int]]:
    """Return a function that returns the prediction lines of some rows, and the number of rows without a finite
    score."""

    def work(piece: Piece) -> tuple[bytes, int]:
        predictions = scorer.predictions(piece.data, output)
        predictions = np.hstack([predictions, *scorer.beside(piece.data, beside)])
        finite = np.isfinite(are_written(predictions, scorer.labels.unit)).all(axis=1)
        predictions[piece.skipped] = np.nan
        if piece.beside is None:
            text = scorer.text(predictions, output)
        else:
            lines = scorer.lines(predictions, output, of_table=piece.beside.of_table)
            text = piece.beside.joined(lines, scorer.prediction_names(output, beside))
        return text, piece.data.rows - int(finite.sum())

    return work


def each_chunk(
    scorer: Scorer,
    paths: Sequence[Input],
    work: Callable[[Piece], T],
    *,
    format: str,
    threads: int,
    labeled: bool = False,
    counts: Counts,
    bad: BadLines | None = None,
    stream: Stream = Stream(),  # noqa: B008
    refuse_unseen: bool = False,
    check: Callable[[Dataset], None] | None = None,
    relations: Sequence[RelationFiles] = (),
    counter: LineCounter | None = None,
) -> Iterator[T]:
    """Yield the results of `work` on chunks of the rows, in order; `counts` and errors are as in `predict`.

    With `labeled`, every row needs a label. `check` and `counter` are as in fmcli.data.text.chunks.score_chunks. Rows
    with relations are joined after `check`; then `work` must not raise RowError.
    """
    if relations:
        pieces = partial(each_chunk, scorer, work=lambda piece: piece, threads=threads, refuse_unseen=refuse_unseen)
        read = []
        for files in relations:
            of_relation = Counts()
            found = pieces(paths=[files.rows], format="libsvm", counts=of_relation, check=refuse_labels)
            read.append((files, concatenated_pieces([piece.data for piece in found])))
            counts.add(replace(of_relation, rows=0))
        with closing(Joiner(read)) as joiner:
            rows = pieces(
                paths=paths, format=format, labeled=labeled, counts=counts, bad=bad, stream=stream, check=check
            )
            yield from joiner.each(rows, work, threads, ahead=0 if stream.unbuffered else threads + PIECES_AHEAD)
        return

    def checked(data: Dataset) -> None:
        if refuse_unseen:
            scorer.refuse_unseen(data)
        if check:
            check(data)

    marks = scorer.transform.marks
    assert marks is not None

    of_table = has_whole_columns(scorer, paths)

    def counted(piece: Piece) -> tuple[T, int, int, PieceSums | None]:
        data = piece.data
        like_labels = data.rows if looks_like_labels(scorer, stream, piece) else 0
        unknown = data.nnz
        if isinstance(scorer.numbering, Numbering) or scorer.transform.norm_of_all:
            data = scorer.transform.in_columns(data)
        unknown -= data.nnz
        unknown += data.count_outside(marks)
        sums = sums_of(data, unknown) if of_table and is_sampled(piece.number) else None
        return work(Piece(data, piece.skipped, piece.beside)), unknown, like_labels, sums

    dictionary = scorer.numbering if isinstance(scorer.numbering, Dictionary) else None
    if dictionary is not None:
        require_if_large(dictionary.bytes_to_search, f"searching the dictionary of {scorer.path}")
    limit = MOST_FEATURES if scorer.transform.norm_of_all else scorer.dimension
    for piece in score_chunks(
        paths,
        counted,
        Columns(limit, dictionary, scorer.transform.hash_bits, refuse_unseen),
        format=format,
        keep_fields=scorer.needs_fields,
        threads=threads,
        labeled=labeled,
        model=scorer.path,
        bad=bad,
        stream=stream,
        check=checked,
        labels=scorer.labels.names,
        counter=counter,
    ):
        result, cold, like_labels, sums = piece.result
        counts.rows += piece.rows
        counts.bytes += piece.bytes
        counts.labels_as_ids += like_labels
        counts.nonzeros += piece.nnz + piece.unseen
        counts.unseen += piece.unseen + cold
        if sums is not None:
            counts.sample.pieces.append(sums._replace(unseen=piece.unseen + cold))
        counts.comments += piece.comments
        counts.widen(piece.span)
        yield result
    for path in paths:
        if table := table_in(path):
            counts.extra |= table.extra
    counts.gaps.add(Gaps.of(paths))


def has_whole_columns(scorer: Scorer, paths: Sequence[Input]) -> bool:
    """Return whether the inputs are tables with all columns of the training tables, so that the columns can be
    compared."""
    tables = [table_in(path) for path in paths]
    return isinstance(scorer.numbering, Dictionary) and all(
        isinstance(table, TableSource) and table.present is None for table in tables
    )


def looks_like_labels(scorer: Scorer, stream: Stream, piece: Piece) -> bool:
    """Return whether the ids of rows without labels may be labels: each id is a label that the model knows, or lies
    between the labels of training, and ids repeat."""
    if stream.id_column != 1 or not piece.beside or piece.data.label is not None:
        return False
    ids = set(piece.beside.texts)
    if ROWS_PER_ID * len(ids) > len(piece.beside.texts):
        return False
    if scorer.labels.names:
        return ids <= set(map(str.encode, scorer.labels.names))
    try:
        numbers = np.array(list(map(float, ids)))
    except ValueError:
        return False
    low, high = (None if scorer.labels.values else scorer.transform.label_range) or (-np.inf, np.inf)
    return bool(((low <= numbers) & (numbers <= high) & scorer.labels.known(numbers)).all())
