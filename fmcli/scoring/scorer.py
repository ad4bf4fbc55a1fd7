"""A saved model that is ready to score rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fmcli.data.counts.occurrences import UNKNOWN, Occurrences, kept
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import SHARED, Dictionary
from fmcli.data.file_formats import is_table
from fmcli.data.labels import Labels, saved_labels
from fmcli.data.numbering import Numbering, moved
from fmcli.data.tables.head import PREDICTION
from fmcli.data.tables.reading import By, TableSource, as_tables
from fmcli.data.tables.schema import Schema
from fmcli.data.text.chunks import RowError
from fmcli.data.text.sources import name_of
from fmcli.data.transform import Transform
from fmcli.errors import LEAVE_OUT, BadInputError, FmcliError, UsageError
from fmcli.losses.links import SCORES
from fmcli.model_file.check import check_array, check_arrays, check_entries
from fmcli.model_file.container import ModelFile, load
from fmcli.model_file.known_pairs import KnownPairs, saved_pairs
from fmcli.model_file.state import as_kept, draw_name, drawn_names
from fmcli.model_file.transform import checked_numbering, saved_transform
from fmcli.models.drawn import NOISE
from fmcli.models.layout import CUTPOINTS, REAL_TYPE
from fmcli.models.model import Model
from fmcli.models.split import Split
from fmcli.models.workspace import Workspace
from fmcli.records import dataclass
from fmcli.registry.build import build_model
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.solvers import SAMPLERS
from fmcli.scoring.averages import mean_score, spread
from fmcli.scoring.calibration import Calibration, saved_calibration
from fmcli.scoring.draws import Draws
from fmcli.scoring.extra_outputs import NOTHING, ExtraOutputs
from fmcli.scoring.intervals import intervals
from fmcli.scoring.metrics import LEVELS, Range, predicted_numbers, probabilities
from fmcli.scoring.written import lines_of
from fmcli.system.memory import require_if_large

# Bytes per score of a chunk: the score, the prediction, and the prediction's text.
SCORE_BYTES = 64

OutputType = Literal["raw", "value", "prob", "label"]


@dataclass(frozen=True)
class Scorer:
    """A model that is ready to score rows.

    draws : the model, with earlier draws or other members of an ensemble; predictions are averages over all of them.
    transform : the transform from rows to rows of the model.
    meta : the metadata of the model file.
    path : the path of the model file, for messages.
    occurrences : how often features, and pairs of features, occur.
    calibration : the fitted map from scores to probabilities, which replaces the loss's; or None.
    noise : (draws) the precision of the labels in each draw, with the model's own last; None: not known.
    missing : cells of tables that count as empty, in addition to the texts given in training.
    known : the users, items and observed pairs of training; None: it was trained on other rows.
    """

    draws: Draws
    transform: Transform
    meta: dict[str, Any]
    path: str
    occurrences: Occurrences = UNKNOWN
    calibration: Calibration | None = None
    noise: NDArray[np.float64] | None = None
    missing: tuple[str, ...] = ()
    known: KnownPairs | None = None

    @property
    def model(self) -> Model:
        """The model with the parameters of the last draw."""
        return self.draws.model

    @property
    def labels(self) -> Labels:
        """The loss, and the label values."""
        return self.transform.labels

    @property
    def numbering(self) -> Numbering | Dictionary | None:
        """The numbering of features with columns; None: every feature has a column."""
        return self.transform.numbering

    @property
    def seen(self) -> NDArray[np.bool_]:
        """(columns) whether the feature of each column occurred in training."""
        return self.transform.seen

    @property
    def members(self) -> int:
        """The number of trained models; each may have several draws."""
        return int(self.meta["members"])

    @property
    def dimension(self) -> int:
        """The number of features, including features without a column."""
        return self.transform.dimension

    def refuse_unseen(self, data: Dataset) -> None:
        """Raise RowError for the first entry of rows whose feature did not occur in training."""
        columns = data.index if self.numbering is None else self.numbering.columns_of(data.index)
        known = (columns >= 0) & (columns < self.model.features)
        known[known] = self.seen[columns[known]]
        if not known.all():
            entry = int(known.argmin())
            row = int(np.searchsorted(data.indptr, entry, side="right")) - 1
            column = int(data.index[entry])
            feature = self.numbering.id(column) if isinstance(self.numbering, Dictionary) else column
            complaint = "this feature did not, and unseen features are an error"
            raise RowError(row, "a feature that occurred in training", complaint, feature)

    def ids(self, columns: NDArray[Any]) -> list[int] | list[int | str]:
        """Return the features of columns, as in the text."""
        return columns.tolist() if self.numbering is None else self.numbering.written(columns)

    def dense(self, array: NDArray[Any], axis: int, fill: float = 0) -> NDArray[Any]:
        """Return an array whose axis of columns becomes an axis of all features."""
        if not isinstance(self.numbering, Numbering):
            return array
        return moved(array, axis, slice(None), self.numbering.ids, self.dimension, fill)

    @property
    def span(self) -> tuple[int, int] | None:
        """The smallest and the largest index of training; None without features, or with a dictionary."""
        columns = np.flatnonzero(self.seen)
        if not len(columns) or isinstance(self.numbering, Dictionary):
            return None
        low, high = (
            columns[[0, -1]].tolist() if self.numbering is None else self.numbering.ids[columns[[0, -1]]].tolist()
        )
        return low, high

    @property
    def needs_fields(self) -> bool:
        """Whether rows to score need fields: the model has a number of fields."""
        kind: ModelEntry = MODELS[self.meta["model"]]
        return "fields" in kind.context

    @cached_property
    def table(self) -> Schema | None:
        """The schema of tables, from training or inferred from the names of features. None if features have no
        names, or have fields, which names do not tell."""
        found = self.transform.table
        if found is not None or self.needs_fields or not isinstance(self.numbering, Dictionary):
            return found
        ids = self.numbering.written(range(len(self.numbering)))
        names = [id for id in ids if isinstance(id, str) and id != SHARED]
        return Schema.of_names(names) if names else None

    def tables(
        self,
        paths: Sequence[str],
        joined: Mapping[str, str] | None = None,
        by: By | None = None,
        *,
        partial: bool = False,
        fields: bool = False,
    ) -> list[str]:
        """Return inputs, with tables as tables: inputs that have the columns of the training tables; if the model was
        trained on text, inputs with names of tables.

        joined : column -> the table whose rows it refers to.
        by : the column with the groups of labeled rows; None: the column of training.
        partial : whether tables may lack columns.
        fields : whether rows have fields even if the model needs none.

        Raises BadInputError, MissingInputError and UsageError.
        """
        found = self._tables(paths, joined, by, partial=partial, fields=fields or self.needs_fields)
        if self.missing and not any(isinstance(path, TableSource) for path in found):
            raise UsageError(f"{name_of(paths[0])} is not a table", missing_values=LEAVE_OUT)
        return found

    def _tables(
        self, paths: Sequence[str], joined: Mapping[str, str] | None, by: By | None, *, partial: bool, fields: bool
    ) -> list[str]:
        table = self.transform.table
        if table is None and (of_names := [path for path in paths if is_table(path)]):
            if self.table is None:
                why = "whose fields have no names" if fields else "whose features have no names"
                raise BadInputError(
                    f"{of_names[0]} is a table by its name, but the model was trained on text, {why}",
                    format={"libsvm": "if it is such text"},
                )
            more: dict[str, Any] = {"fields": False, "joined": joined, "by": by, "partial": partial}
            own = self.table.with_missing(self.missing)
            return [TableSource.of(path, own, **more) if path in of_names else path for path in paths]
        table = table and table.with_missing(self.missing)
        return as_tables(paths, table, fields=fields, joined=joined, by=by, partial=partial)

    def scores(self, data: Dataset, threads: int = 1) -> NDArray[np.float64]:
        """Return scores (rows, outputs) of rows with the columns of the model, calibrated if a calibration was fitted.
        With several draws, they are the scores of the mean prediction. Raises NotEnoughMemoryError."""
        return self.calibrated(self.raw_scores(data, threads))

    def raw_scores(self, data: Dataset, threads: int = 1) -> NDArray[np.float64]:
        """Return the scores before calibration; see `scores`."""
        return self.labels.unit.undo(mean_score(self.labels.loss, self.draws, self.prepared(data), threads))

    def calibrated(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores with calibrated probabilities; unchanged without a calibration."""
        return score if self.calibration is None else self.calibration.of(self.labels.loss, score)

    def splits(self) -> list[Split]:
        """Return how scores split into terms, for each draw. Raises NotEnoughMemoryError, and UsageError for a kind
        without terms."""
        if self.draws.halved:
            require_if_large(len(self.draws) * self.draws.bytes, f"all draws of {self.path}")
        return [model.split() for model in self.draws]

    def prepared(self, data: Dataset) -> Dataset:
        """Return rows as the model scores them. Raises NotEnoughMemoryError if their scores do not fit into memory."""
        room = self.draws.bytes + Workspace.bytes_needed(self.model, data.longest, gradients=False)
        require_if_large(room + SCORE_BYTES * data.rows * self.model.columns, f"scoring rows with {self.path}")
        return self.transform.valued(data)

    def default_output(self) -> OutputType:
        """Return "prob" if the loss has probabilities, else "value"; also "value" for levels."""
        return "prob" if self.has_probabilities and not self.has_levels else "value"

    @property
    def clip(self) -> Range | None:
        """The range that predictions are clipped to."""
        return self.transform.label_range if self.meta["options"].get("clip") else None

    @property
    def has_levels(self) -> bool:
        """Whether labels are ordered."""
        return LOSSES[self.labels.loss].task in LEVELS

    @property
    def has_probabilities(self) -> bool:
        return LOSSES[self.labels.loss].load_link().probable

    def predictions(self, data: Dataset, output: OutputType, threads: int = 1) -> NDArray[np.float64]:
        """Return the predictions of rows with the columns of the model; see `predicted`. Raises
        NotEnoughMemoryError."""
        return self.predicted((self.raw_scores if output == "raw" else self.scores)(data, threads), output)

    def predicted(self, score: NDArray[np.float64], output: OutputType) -> NDArray[np.float64]:
        """Return (rows, columns) raw scores (for levels, minus each cutpoint); values (for numbers the scores, clipped
        if the model was trained with clipping; for counts their exponentials; for levels the mean level);
        probabilities; or labels, which may be numbers.

        Classes have a column each, in increasing order of the labels. For two label values, the probability is the
        positive label's. If a score is NaN, so is the label.
        """
        if output == "label" and self.labels.values:
            if self.has_levels:
                chosen = probabilities(self.labels.loss, score).argmax(axis=1)
            else:
                threshold = LOSSES[self.labels.loss].load_link().threshold
                chosen = (score[:, 0] > threshold).astype(np.intp) if self.model.outputs == 1 else score.argmax(axis=1)
            label = np.array(self.labels.values)[chosen]
            return np.where(np.isnan(score).any(axis=1), np.nan, label)[:, None]
        if output in ("label", "value"):
            predicted = predicted_numbers(self.labels.loss, score, self.clip)
            return predicted + self.labels.values[0] if self.has_levels and self.labels.values else predicted
        if output == "prob":
            return probabilities(self.labels.loss, score)
        return score

    @property
    def averages_scores(self) -> bool:
        """Whether the mean prediction of the draws is the prediction of their mean score."""
        return LOSSES[self.labels.loss].load_link() is SCORES

    def spread(self, data: Dataset) -> NDArray[np.float64]:
        """Return (rows, outputs) the standard deviations of the draws' predictions: of predicted numbers, or of the
        probability of the larger label or of each class. The rows have the columns of the model."""
        undo = self.labels.unit.undo
        return spread(self.labels.loss, self.draws, self.prepared(data), lambda score: self.calibrated(undo(score)))

    def require_intervals(self) -> None:
        """Raise UsageError if the model cannot give intervals."""
        if self.noise is None:
            raise UsageError(
                f"{self.path} does not know the noise of its labels: intervals need a model of numbers that "
                f"{' or '.join(SAMPLERS)} has trained, by a version that keeps the noise of each draw"
            )

    def intervals(self, data: Dataset, level: float) -> NDArray[np.float64]:
        """Return (rows, 2) the ends of the intervals that contain the labels with probability `level`; see
        `fmcli.scoring.intervals`. The rows have the columns of the model."""
        assert self.noise is not None
        unit = self.labels.unit
        score = np.array([unit.undo(each[:, 0]) for each in self.draws.scores(self.prepared(data))])
        return intervals(score, self.noise / unit.scale**2, level, self.clip)

    def prediction_names(self, output: OutputType, beside: ExtraOutputs = NOTHING) -> list[str]:
        """Return the column names of predictions, and of the figures beside them, in a table."""
        several, texts = output != "label" and self.model.outputs > 1, self.labels.cells
        if output == "prob" and self.labels.positive is not None:
            several, texts = True, texts[1:]
        names = [f"{PREDICTION}_{label}" for label in texts] if several else [PREDICTION]
        deviations = [name.replace(PREDICTION, "std") for name in names] if beside.spread else []
        return [*names, *deviations, *(["lower", "upper"] if beside.interval is not None else [])]

    def beside(self, data: Dataset, wanted: ExtraOutputs) -> list[NDArray[np.float64]]:
        """Return the figures beside the predictions of rows with the columns of the model: arrays (rows, columns)."""
        spread = [self.spread(data)] if wanted.spread else []
        return [*spread, *([] if wanted.interval is None else [self.intervals(data, wanted.interval)])]

    def text(self, predictions: NDArray[np.float64], output: OutputType) -> bytes:
        """Return a line of text for each row of predictions. Numbers have the fewest digits that read back as the same
        number of the build's real type (see `lines_of`); labels have the fewest that read back as the same double."""
        if output == "label" and self.labels.values:
            return b"".join([b"%b\n" % line for line in self.label_lines(predictions, self.labels.texts)])
        return lines_of(predictions, self.labels.unit)

    def lines(self, predictions: NDArray[np.float64], output: OutputType, *, of_table: bool) -> list[bytes]:
        """Return the lines of `text` without line ends; in a table, labels are spelled as in the training table."""
        if of_table and output == "label" and self.labels.values:
            return self.label_lines(predictions, self.labels.cells)
        return self.text(predictions, output).splitlines()

    def label_lines(self, predictions: NDArray[np.float64], texts: Sequence[str]) -> list[bytes]:
        """Return predicted labels as text."""
        names = {label: text.encode() for label, text in zip(self.labels.values or (), texts, strict=True)}
        return [names.get(label, b"nan") for label in predictions[:, 0].tolist()]


def load_model(path: str) -> Scorer:
    """Open a model file.

    Raises BadInputError for a file that is damaged or whose model this version does not know, and MissingInputError.
    """
    return scorer_of(path, load(path))


def scorer_of(path: str, file: ModelFile) -> Scorer:
    """Return the model in a file. Raises BadInputError if a file that was read is invalid, and NotEnoughMemoryError."""
    meta, arrays = file.meta, file.tensors
    try:
        if not file.own:
            check_entries(meta)
        kind, features = MODELS[meta["model"]], meta["features"]
        options = {name: meta["options"][name] for name in kind.options}
        numbering = checked_numbering(meta, arrays)
        columns = features if numbering is None else len(numbering)
        labels = saved_labels(meta["loss"], meta["labels"], positive=meta["positive"])

        def make(columns: int) -> Model:
            return build_model(kind, columns, meta["outputs"], options, meta["fields"], cutpoints=labels.cutpoints)

        model = make(columns)
        model.absent = features - columns
        for name, shape in model.shapes().items():
            check_array(name, arrays, shape, "f")
            with np.errstate(over="ignore"):  # overflow is not an error of the file
                arrays[name] = arrays[name].astype(REAL_TYPE, copy=False)  # for a model of the other real type
        model.attach(arrays)
        names = drawn_names(model, meta["members"]) if meta["draws"] > 1 else []
        if not file.own:
            check_arrays(meta, arrays, model)
        of_file = [{name: arrays[draw_name(number, name)] for name in names} for number in range(meta["draws"] - 1)]
        draws = Draws(model, [as_kept(draw, model) for draw in of_file], make)
        for each in draws:
            check_cutpoints(each)
        known = saved_pairs(arrays, columns)
    except FmcliError as error:
        raise BadInputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:  # from the checks of a kind's own arrays
        raise BadInputError(f"{path}: is not a valid model: {error}") from error
    transform = saved_transform(meta, arrays, numbering)
    calibration = saved_calibration(meta, arrays)
    noise = arrays.get(NOISE)
    return Scorer(draws, transform, meta, path, kept(meta, arrays, numbering), calibration, noise, known=known)


def check_cutpoints(model: Model) -> None:
    """Raise ValueError unless the cutpoints of a model, if there are any, start at 0 and increase."""
    if not model.cutpoints:
        return
    first, *others = model.parameters[CUTPOINTS][0].tolist()
    if first != 0 or not all(low < high < np.inf for low, high in pairwise([first, *others])):
        raise ValueError(f"the array {CUTPOINTS} does not begin with 0 and increase")
