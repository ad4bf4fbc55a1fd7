"""A trained model, as callers in Python have it."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fmcli.api.data import Data, field_numbers, paths_of
from fmcli.api.errors import in_python, refuse
from fmcli.api.matrix import pairs_of, rows_of
from fmcli.api.rows import FRAME, RowForm, as_data, is_files, is_frame, require_names, table_paths, unlabeled
from fmcli.api.values import names_of, path_of, threads_of, value_of
from fmcli.data.dataset import Dataset
from fmcli.data.fields import without_fields
from fmcli.data.text.chunks import Piece
from fmcli.data.text.pieces import concatenated
from fmcli.errors import BadInputError
from fmcli.exchange.importing import IMPORTED_FROM
from fmcli.export.arrays import exported
from fmcli.model_file.container import ModelFile, from_bytes, save, to_bytes
from fmcli.registry.solvers import SAMPLERS
from fmcli.scoring.drift import Sample, doubts
from fmcli.scoring.evaluation import require_labels
from fmcli.scoring.extra_outputs import ExtraOutputs
from fmcli.scoring.metrics import Outcome, default_metrics, measure
from fmcli.scoring.prediction import Counts, each_chunk
from fmcli.scoring.scorer import OutputType, scorer_of
from fmcli.system.memory import require_if_large
from fmcli.text import unescaped

if TYPE_CHECKING:
    from fmcli.data.shards.observed_rows import Seen

Floats = NDArray[np.float64]
Output = Literal["value", "prob", "label", "raw"]
T = TypeVar("T")
CELL_BYTES = 16  # of a recommendation: a row number and a prediction
# The forms of models for other programs.
Form = Literal["libfm", "libffm", "libffm-no-sse", "libffm-text"]


class Model:
    """A trained model, from `fmcli.train`, or from a file by `fmcli.load`.

    It is pickled as its model file, so another process or machine has the same bits.

    Attributes
    ----------
    history : list of dict
        A dict for each epoch: ``epoch``, ``loss``, ``penalty``, ``objective``, ``seconds``, and each metric on the
        validation data as ``valid_NAME``. In an ensemble, in the order of its members, each also has the number of its
        ``member``. Empty for a model from a file.
    """

    def __init__(self, file: ModelFile, name: str = "the model", history: Sequence[dict[str, Any]] = ()) -> None:
        self._file, self._name = file, name
        self._scorer = scorer_of(name, file)
        self.history = list(history)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (to_bytes(self._file), self._name, self.history)

    def __repr__(self) -> str:
        features = f"{self._scorer.dimension:,} features"
        made = f"imported from {self.summary[IMPORTED_FROM]}" if IMPORTED_FROM in self.summary else ""
        return f"<Model: {self.kind}, {self.loss} loss, {features}, {made or f'trained by {self.solver}'}>"

    @property
    def kind(self) -> str:
        """The kind of the model, as in the tables of ``fmcli models``."""
        return str(self._scorer.meta["model"])

    @property
    def solver(self) -> str:
        """The solver that trained it."""
        return str(self._scorer.meta["solver"])

    @property
    def loss(self) -> str:
        """The loss that it was trained with."""
        return self._scorer.labels.loss

    @property
    def options(self) -> dict[str, Any]:
        """The options of the run that trained it, by name: ``options["rank"]``."""
        return dict(self._scorer.meta["options"])

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of the run that trained it: rows, best epoch, metrics."""
        return dict(self._scorer.meta["training"])

    @property
    def labels(self) -> list[float] | list[str] | None:
        """The labels of classes, numbers or texts, in increasing order; of two labels, the negative one first; None if
        labels are numbers to fit."""
        labels = self._scorer.labels
        return list(map(unescaped, labels.words)) if labels.names else labels.shown

    @property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """The arrays by the names of the papers, such as ``bias``, ``w``, ``V``; with several draws, the last draw's.

        An axis of features has an entry for each feature 0, 1, ..; if the model has a dictionary of names, in the order
        of the array ``features``. Raises NotEnoughMemoryError.
        """
        with in_python():
            return exported(self._scorer)

    @overload
    def predict(
        self,
        X: Any,
        output: Output | None = None,
        *,
        fields: ArrayLike | None = None,
        std: Literal[False] = False,
        interval: None = None,
        missing_values: str | Sequence[str] = (),
        threads: int | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self,
        X: Any,
        output: Output | None = None,
        *,
        fields: ArrayLike | None = None,
        std: bool = False,
        interval: float | None = None,
        missing_values: str | Sequence[str] = (),
        threads: int | None = None,
    ) -> tuple[NDArray[Any], ...]: ...
    def predict(
        self,
        X: Any,
        output: Output | None = None,
        *,
        fields: ArrayLike | None = None,
        std: bool = False,
        interval: float | None = None,
        missing_values: str | Sequence[str] = (),
        threads: int | None = None,
    ) -> Any:
        """Return predictions for rows, as ``fmcli predict`` writes them.

        Parameters
        ----------
        X : sparse matrix, array, list of dict, frame, Data, or files
            The rows; see `fmcli.Data` and `fmcli.read`. Files of any size are read in chunks. A frame has the columns
            of the table that the model was trained on.
        output : {"value", "prob", "label", "raw"}, optional
            Numbers; the probability of the positive of two labels, or of each class; labels; or scores. By default,
            probabilities if the loss has them, else numbers.
        fields : array-like of int, optional
            The field of each column, if the model has fields and X is a matrix.
        std : bool
            Whether to return the standard deviation over draws, too; for models by mcmc, and ensembles.
        interval : float, optional
            The probability of an interval that has the label, whose ends are returned, too; for numbers, by mcmc.
        missing_values : str or sequence of str
            Of a table: cells that are like empty ones, beside the texts given in training.
        threads : int, optional
            By default, one for each core.

        Returns
        -------
        ndarray, or tuple of ndarray with ``std`` or ``interval``
            Shape (rows,), or (rows, classes) for the probabilities and scores of more than two classes; the standard
            deviations have the same shape, and the ends of intervals (rows, 2).

        Raises
        ------
        BadInputError
            If X is not valid; it is a ValueError.
        UsageError
            If the model has no such output; it is a ValueError.
        """
        with in_python():
            kind = self._output(output)
            refuse(
                std and len(self._scorer.draws) == 1,
                f"std needs a model of several draws: by solver {' or '.join(SAMPLERS)}, or an ensemble",
            )
            interval = value_of("interval", interval, "float | None")
            number, scorer, beside = threads_of(threads), self._scorer, ExtraOutputs(std, interval)
            if interval is not None:
                scorer.require_intervals()
                refuse(not 0 < interval < 1, "interval must be a probability between 0 and 1")
                refuse(kind != "value", "intervals are of numbers; leave out output")
            found = list(
                self._reading(missing_values)._each(
                    X,
                    fields,
                    number,
                    lambda piece: [scorer.predictions(piece.data, kind), *scorer.beside(piece.data, beside)],
                    lambda data: [scorer.predictions(data, kind, number), *scorer.beside(data, beside)],
                )
            )
            predictions, *others = (np.concatenate(each) for each in zip(*found, strict=True))
            if not others:
                return self._shaped(predictions, kind)
            return self._shaped(predictions, kind), *(self._shaped(other, "raw") for other in others)

    def explain(
        self, X: Any, interactions: int = 0, *, fields: ArrayLike | None = None, threads: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the parts of the score of each row, as ``fmcli predict --explain N --explain-format json`` does.

        Parameters
        ----------
        X, fields, threads
            As in `predict`.
        interactions : int
            The number of terms of several features for each row; with 0, there are no main effects either.

        Returns
        -------
        list of dict
            For each row: its number as ``row``; ``score``, the raw score; ``base``, the score of a row without
            features; and ``features``, the share of each feature by its name, the largest ones first. Base and shares
            sum to the score. With interactions also ``main``, the main effects, ``interactions``, dicts with
            ``features`` and ``value``, and ``rest``; base, main effects, interactions and rest sum to the score. A
            model of several classes has these in ``classes``, a dict for each ``class``.

        Raises
        ------
        BadInputError
            If X is not valid; it is a ValueError.
        UsageError
            If scores of this kind of model are not sums of such parts; it is a ValueError.
        """
        from fmcli.scoring.explain.explanation import Explainer, explained_lines

        with in_python():
            interactions = value_of("interactions", interactions, "int")
            refuse(interactions < 0, f"interactions is {interactions}; it must be at least 0")
            number, explainer = threads_of(threads), Explainer(self._scorer, interactions)
            chunks = self._each(X, fields, number, explainer.work, lambda data: explainer.explain(data, None, number))
            lines = explained_lines(explainer, chunks, json=True, counted=lambda rows: None)
            return [json.loads(line) for text in lines for line in text.splitlines()]

    def recommend(
        self, given: Any = None, over: Any = None, top: int = 10, *, seen: Any = None, threads: int | None = None
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return the items with the largest scores for each of many contexts, as ``fmcli recommend`` does.

        Parameters
        ----------
        given : sparse matrix, array, list of dict, frame, or files, optional
            The contexts, such as users: as X in `predict`, but a part of the features. By default, all users that a
            model of observed pairs (``implicit``) knows, in the order of `users`.
        over : sparse matrix, array, list of dict, frame, or files, optional
            The items, which have no feature in common with contexts. The row of a pair has the features of both. By
            default, all items that such a model knows, in the order of `items`.
        top : int
            The number of items for each context.
        seen : sparse matrix, frame, or files, optional
            Pairs to leave out: the entries of a matrix of shape (contexts, items), or the rows of a frame or a table,
            such as the training rows. A row has a cell of ``given`` and a cell of ``over``, which are also frames or
            tables, in the first column with features of each. By default, the pairs that such a model knows.
        threads : int, optional
            By default, one for each core.

        Returns
        -------
        (ndarray of int, ndarray of float)
            Both of shape (contexts, top): row numbers of items, the best first by raw score, and what `predict` returns
            for the pairs. If fewer are left, the rest of a row is -1 and nan.

        Raises
        ------
        BadInputError
            If rows are not valid, or have a feature in common; it is a ValueError.
        UsageError
            If the model has scores of several classes, or ``seen`` does not fit; it is a ValueError.
        """
        from fmcli.scoring.recommend.known import ITEMS, USERS, known_seen
        from fmcli.scoring.recommend.named import lacking
        from fmcli.scoring.recommend.recommender import Recommender

        with in_python():
            top = value_of("top", top, "int")
            refuse(top < 1, f"top is {top}; it must be at least 1")
            number, scorer = threads_of(threads), self._scorer
            pairs = None
            if seen is None or not (is_files(seen) or self._reads(seen)):
                sides = (self._side(one, side, number) for one, side in ((over, ITEMS), (given, USERS)))
                (items, of_items), (contexts, of_contexts) = sides
                said = [lacking(of_contexts, of_items, scorer.table)]
                pairs = known_seen(scorer, contexts, items)
                pairs = pairs if seen is None else pairs_of(seen, contexts.rows, items.rows)
            else:
                contexts, items, pairs, said = self._seen(given, over, seen, number)
            require_if_large(contexts.rows * top * CELL_BYTES, f"{top:,} items for each of {contexts.rows:,} contexts")
            recommender = Recommender(scorer, items, top)
            if found := recommender.shared(contexts):
                row, column = found
                raise BadInputError(
                    f"row {row} of given has the feature {scorer.ids(np.array([column]))[0]} of an item"
                )
            for warning in filter(None, (*said, *recommender.warnings(contexts, "given", "over", str))):
                warnings.warn(warning, stacklevel=2)
            return recommender.table(contexts, pairs, number)

    @property
    def users(self) -> list[str]:
        """The ids of the users that a model of observed pairs knows, in the order of its rows. Raises UsageError."""
        return self._known("users")

    @property
    def items(self) -> list[str]:
        """The ids of the items that a model of observed pairs knows, in the order of its rows. Raises UsageError."""
        return self._known("items")

    def _known(self, side: str) -> list[str]:
        """Return the ids of a side of observed pairs. Raises UsageError for a model of other rows."""
        from fmcli.scoring.recommend.known import known_rows

        with in_python():
            return [unescaped(id.decode(errors="replace")) for id in known_rows(self._scorer, side).ids]

    def _side(self, X: Any, side: str, threads: int) -> tuple[Dataset, frozenset[str] | None]:
        """Return rows of a side of pairs, with the columns of the model; None: all that the model knows; and the
        columns with features, if they are of a table. Raises BadInputError and UsageError."""
        from fmcli.scoring.recommend.known import known_rows
        from fmcli.scoring.recommend.named import columns_with_features

        if X is None:
            known = known_rows(self._scorer, side)
            return known.data, known.present
        inputs = self._inputs(X, partial=True)
        found = list(self._each(X, None, threads, lambda piece: piece.data, lambda data: data, inputs))
        present = columns_with_features(inputs[0]) if inputs else None
        return concatenated([data.changed(label=np.zeros(data.rows)) for data in found]), present

    def _seen(self, given: Any, over: Any, seen: Any, threads: int) -> tuple[Dataset, Dataset, Seen, list[str]]:
        """Return contexts and items with the columns of the model, the pairs of them in frames or files, and warnings.
        Raises BadInputError, MissingInputError and UsageError."""
        from fmcli.scoring.recommend.named import Naming, check_columns, named_rows, seen_pairs

        sides = []
        for name, rows in (("given", given), ("over", over)):
            inputs = self._inputs(rows, partial=True, name=name)
            refuse(inputs is None or len(inputs) > 1, f"seen has rows, so {name} must be a frame or a file, too")
            assert inputs is not None
            sides.append(named_rows(self._scorer, inputs[0], Naming(), threads=threads, counts=Counts()))
        contexts, items = sides
        lacks = check_columns(contexts, items, self._scorer.table)
        inputs = self._inputs(seen, partial=True, name="seen")
        assert inputs is not None
        pairs, none = seen_pairs(self._scorer, inputs, contexts, items, format="auto", threads=threads)
        return contexts.data, items.data, pairs, [lacks, *none]

    def evaluate(
        self,
        data: Any,
        metrics: str | Iterable[str] = (),
        *,
        missing_values: str | Sequence[str] = (),
        threads: int | None = None,
    ) -> dict[str, float]:
        """Return metrics of the predictions for labeled rows, by name.

        Parameters
        ----------
        data : (X, y), Data, files, or frame
            Rows with labels, as `fmcli.train` takes them; tables with the columns of training.
        metrics : iterable of str, or str
            Names as in ``fmcli evaluate -x``; by default, the metrics that fit the loss.
        missing_values : str or sequence of str
            As in `predict`.
        threads : int, optional
            By default, one for each core.

        Returns
        -------
        dict of float
            An undefined metric is nan.

        Raises
        ------
        BadInputError, UsageError
            They are ValueErrors.
        """
        with in_python():
            names, number = names_of("metrics", metrics), threads_of(threads)
            outcome = self._reading(missing_values)._outcome(data, number)
            return measure(list(names) or default_metrics(self.loss), outcome, number)

    def _outcome(self, data: Any, threads: int | None = None) -> Outcome:
        """Return the labels and scores of labeled rows. Raises BadInputError and UsageError."""
        scorer = self._scorer
        require_labels(scorer)
        read = as_data(data, "data", self._form(threads))
        rows = read.dataset
        if read.schema is not None:
            for doubt in doubts(scorer, Sample.of(scorer.transform, rows)):
                warnings.warn(doubt, stacklevel=4)
        refuse(rows.label is None, "data has no labels, by which predictions could be evaluated")
        score = scorer.scores(scorer.transform.in_columns(rows), threads_of(threads))
        label = scorer.labels.encode(rows.label)
        relevance = scorer.labels.relevance
        return Outcome(self.loss, label, score, rows.weight, clip=scorer.clip, group=rows.group, relevance=relevance)

    def factors(self, X: Any) -> Floats:
        """Return the factors of rows: for each row, the sum of the factors of its features, weighted by their values.

        Parameters
        ----------
        X : sparse matrix, array, or list of dict

        Returns
        -------
        ndarray
            Shape (rows, rank), or (rows, classes * rank): the sums sum_i x_i v_i in the equation of the FM.

        Raises
        ------
        UsageError
            If the model has no array V of factors by feature, or several draws; it is a ValueError.
        """
        from fmcli.export.vectors import factors_of

        with in_python():
            return factors_of(self._scorer, self._in_columns(X, None))

    def vectors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return vectors of the items and the users of a model of observed pairs, as ``fmcli export --vectors`` does.

        Returns
        -------
        (ndarray, ndarray)
            Shapes (items, n) and (users, n), in the order of `items` and `users`. The inner product of an item and a
            user is the score of the pair up to a constant per user.

        Raises
        ------
        UsageError
            For a model of other rows; it is a ValueError.
        """
        from fmcli.export.vectors import vectors

        with in_python():
            return vectors(self._scorer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file, which the command reads, too.

        Parameters
        ----------
        path : str or path
            An existing file is replaced by a complete one only.

        Raises
        ------
        OutputError
            It is an OSError.
        """
        with in_python():
            save(path_of("path", path), self._file)

    def export(self, path: str | os.PathLike[str], *, to: Form | None = None) -> None:
        """Write the arrays as ``fmcli export`` does.

        Parameters
        ----------
        path : str or path
            An .npz file of NumPy; a table of the parameters of features, .tsv or .parquet; any other is text.
        to : str, optional
            Write a model for libFM or libffm instead, whatever the name of the file.

        Raises
        ------
        UsageError
            For a model of several draws, or one that the other program cannot have; it is a ValueError.
        OutputError
            It is an OSError.
        """
        from fmcli.exchange.exporting import foreign, write_for
        from fmcli.export.files import write
        from fmcli.system.files import atomic_output

        with in_python():
            name, scorer = path_of("path", path), self._scorer
            if to is None:
                write(scorer, name)
                return
            theirs = foreign(scorer, to)
            with atomic_output(name) as file:
                write_for(to, theirs, file.write)

    def _output(self, wanted: Output | None) -> OutputType:
        """Return the outputs to predict. Raises UsageError for outputs that the model does not have."""
        scorer = self._scorer
        refuse(
            wanted not in (None, "value", "prob", "label", "raw"),
            f"output is {wanted!r}, expected value, prob, label or raw",
        )
        refuse(
            wanted == "prob" and not scorer.has_probabilities,
            f"a model with {self.loss} loss has no probabilities; use output='raw' for its scores",
        )
        refuse(
            wanted == "value" and scorer.default_output() == "prob",
            f"a model with {self.loss} loss does not predict numbers; use output='prob'",
        )
        return wanted or scorer.default_output()

    def _in_columns(self, X: Any, fields: ArrayLike | None) -> Dataset:
        """Return rows with the columns of the model. Raises BadInputError."""
        of_columns = None if fields is None else field_numbers(fields)
        if isinstance(X, Data):
            rows = X.dataset
        elif self._reads(X):
            rows = unlabeled(X, self._form())
        else:
            require_names(X, self._scorer.transform.table)
            rows = rows_of(X, of_columns)
        if self._scorer.needs_fields:
            refuse(rows.field is None, f"{self.kind} needs fields: give a number for each column of X")
        else:
            rows = without_fields(rows)
        return self._scorer.transform.in_columns(rows)

    def _form(self, threads: int | None = None) -> RowForm:
        """Return how labeled rows are read, with the labels and columns of the model."""
        scorer = self._scorer
        table, fields = scorer.table and scorer.table.with_missing(scorer.missing), scorer.needs_fields
        return RowForm(scorer.labels.names, table, fields=fields, threads=threads_of(threads))

    def _reading(self, missing_values: str | Sequence[str]) -> Model:
        """Return the model that reads further cells of tables as missing ones. Raises UsageError."""
        missing = names_of("missing_values", missing_values)
        if not missing:
            return self
        refuse(self._scorer.table is None, "the model knows no tables, whose cells could be missing")
        reader = object.__new__(Model)
        vars(reader).update(vars(self))
        reader._scorer = replace(self._scorer, missing=missing)
        return reader

    def _reads(self, X: Any) -> bool:
        """Return whether X is a frame whose columns the model knows."""
        return is_frame(X) and self._scorer.table is not None

    def _each(
        self,
        X: Any,
        fields: ArrayLike | None,
        threads: int,
        of_piece: Callable[[Piece], T],
        of_rows: Callable[[Dataset], T],
        inputs: list[str] | None = None,
    ) -> Iterator[T]:
        """Yield the results for the pieces of X, if it is read in pieces, or for all of its rows.

        inputs : X, as inputs of the reader; None: it has all columns of the model.
        """
        paths = self._inputs(X, partial=False) if inputs is None else inputs
        if paths is None:
            yield of_rows(self._in_columns(X, fields))
            return
        is_empty = True
        counts = Counts()
        for one in each_chunk(self._scorer, paths, of_piece, format="auto", threads=threads, counts=counts):
            is_empty = False
            yield one
        for doubt in doubts(self._scorer, counts.sample):
            warnings.warn(doubt, stacklevel=3)
        if is_empty:
            no_fields = np.empty(0, dtype=np.int32) if self._scorer.needs_fields else None
            yield of_rows(self._scorer.transform.in_columns(rows_of(np.empty((0, 0)), no_fields)))

    def _inputs(self, X: Any, *, partial: bool, name: str = FRAME) -> list[str] | None:
        """Return a frame or files as inputs of the reader; None for other rows. name : of a frame, for messages."""
        if self._reads(X):
            return [*table_paths(X, self._form(), partial=partial, name=name)]
        return self._scorer.tables(paths_of(X), partial=partial) if is_files(X) else None

    def _shaped(self, predictions: Floats, output: OutputType) -> NDArray[Any]:
        """Return (rows) or (rows, columns) predictions; labels by their names if they have some."""
        column: NDArray[Any] = predictions[:, 0] if predictions.shape[1] == 1 else predictions
        names = [unescaped(name) for name in self._scorer.labels.names]
        if output == "label" and names:
            return np.array([None if np.isnan(at) else names[int(at)] for at in column.tolist()], dtype=object)
        return np.ascontiguousarray(column)


def _restored(data: bytes, name: str, history: Sequence[dict[str, Any]]) -> Model:
    """Return a pickled model."""
    return Model(from_bytes(data, name), name, history)
