"""The base of all estimators: parameters from the table of choices, fitting, and the conventions of scikit-learn."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from fmcli.api.data import Data, field_numbers, name_of
from fmcli.api.errors import in_python
from fmcli.api.matrix import is_records, require_no_times, require_unmasked
from fmcli.api.model import Model
from fmcli.api.parameters import OF_ROWS, RENAMED, documented, listed, parameters, split
from fmcli.api.recording import LOG
from fmcli.api.rows import form_of, is_frame, of_pair
from fmcli.api.training import resumed, trained_model
from fmcli.api.words import counterpart
from fmcli.data.labels import Names
from fmcli.errors import FmcliError
from fmcli.registry.models import DEFAULT_MODEL
from fmcli.registry.specs import make_spec
from fmcli.training.setup.chosen import spec_of

if TYPE_CHECKING:
    from fmcli.api.keywords import Parameters
    from fmcli.data.tables.schema import Schema

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise ImportError("fmcli.sklearn needs scikit-learn 1.6 or later: pip install scikit-learn") from error

# Parameter in scikit-learn -> its name in `fmcli.train`, if they differ.
NAMES = {new: old for old, new in RENAMED.items()}
LARGEST_SEED = 2**31 - 1
# The parameters that only estimators have, with their defaults, and as lines of a docstring.
OWN = {"callbacks": (), "warm_start": False, "verbose": 0}
HELP_OF_OWN = """
callbacks : callable or sequence of callable
    As in `fmcli.train`.
warm_start : bool
    Whether `fit` continues the model that it trained before, if there is one.
verbose : int
    Whether to write the log to standard error, if the logger "fmcli" has no handler."""
# Parameters of a run that replace its estimator's.
Changed = Mapping[str, Any]
NO_CHANGES: Changed = {}
# The types of numbers that are not converted.
NUMBERS = (np.float32, np.float64)


def with_signature(cls: type[Any]) -> type[Any]:
    """Return a class of estimators with the training parameters in its constructor and docstring."""
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in OWN.items()]
    every = [own, *parameters(RENAMED, (*OF_ROWS, *cls._without)), *more]

    def __init__(self: Any, **given: Any) -> None:  # noqa: N807 (it becomes the class's)
        known, given = cls._usual, listed(given)
        if unknown := given.keys() - known.keys():
            name = min(unknown)
            raise TypeError(f"{cls.__name__} has no parameter {name!r}{counterpart(name)}")
        vars(self).update({**known, **given})

    __init__.__signature__ = Signature(every)  # type: ignore[attr-defined]
    cls._usual = {one.name: one.default for one in every[1:]}
    cls.__init__ = __init__
    cls.__doc__ = documented(cls.__doc__ or "", RENAMED, (*OF_ROWS, *cls._without), HELP_OF_OWN)
    return cls


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators.

    _loss : the default loss; None: the labels decide.
    _without : the training parameters that the estimator lacks.
    _needs_labels : whether `fit` needs labels; classifiers and regressors say so by themselves.
    """

    _loss: str | None = None
    _without: tuple[str, ...] = ()
    _needs_labels = False
    _usual: Mapping[str, Any] = {}
    model_: Model
    fields_: NDArray[np.int32] | None
    n_features_in_: int
    callbacks: Any
    warm_start: bool
    verbose: int

    if TYPE_CHECKING:  # `with_signature` makes it at run time

        def __init__(self, **parameters: Unpack[Parameters]) -> None: ...

    def __getattr__(self, name: str) -> Any:
        """Return an array of the model by its name in the papers, followed by an underscore: w_, V_, beta_."""
        model = vars(self).get("model_")
        if model is not None and name.endswith("_") and not name.startswith("_"):
            arrays = model.parameters
            if name[:-1] in arrays:
                array = arrays[name[:-1]]
                return array[0] if len(array) == 1 else array
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required |= self._needs_labels
        return tags

    @property
    def history_(self) -> list[dict[str, Any]]:
        """A dict of figures for each epoch; see `fmcli.Model`."""
        check_is_fitted(self)
        return self.model_.history

    def _choices(self) -> dict[str, Any]:
        """Return the parameters by their names in `fmcli.train`."""
        given = {NAMES.get(name, name): getattr(self, name) for name in self._usual}
        for name in OWN:
            del given[name]
        seed = given["seed"]
        if seed is not None and not isinstance(seed, int | np.integer):
            given["seed"] = int(check_random_state(seed).randint(LARGEST_SEED))
        given["threads"] = effective_n_jobs(given["threads"])
        given["loss"] = given.get("loss") or self._loss
        return given

    def _trained(self, data: Any, eval_set: Any, changed: Changed = NO_CHANGES) -> Model:
        """Train a model with the parameters, some of them changed. data : as in `fmcli.train`. Raises its errors."""
        with in_python(), reporting(self.verbose):
            choices = split({**self._choices(), **changed})
            if choices.seed is None and choices.init_model is None:
                choices = choices.changed(seed=int(check_random_state(None).randint(LARGEST_SEED)))
            valid = None if eval_set is None else self._evaluated(eval_set, data)
            callbacks = (self.callbacks,) if callable(self.callbacks) else tuple(self.callbacks)
            return trained_model(data, valid, choices, callbacks)

    def _resumed(self) -> dict[str, Any]:
        """Return the changed parameters with which `fit` continues its previous model."""
        return {"init_model": self.model_} if self.warm_start and "model_" in vars(self) else {}

    def _rows(self, X: Any, reset: bool) -> Any:
        """Return a matrix checked by scikit-learn; return dicts or a frame as they are."""
        if is_records(X):
            return X
        if self._is_frame(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        require_plain_matrix(X)
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=NUMBERS)

    def _is_frame(self, X: Any) -> bool:
        """Return whether X is a frame. Raises BadInputError as a ValueError."""
        with in_python():
            return is_frame(X)

    def _given(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, numbers: bool
    ) -> tuple[Any, NDArray[Any], NDArray[np.float64] | None]:
        """Return rows, labels and weights, checked by scikit-learn. numbers : whether labels must be numbers."""
        with in_python():
            require_unmasked("y", y)
            require_unmasked("sample_weight", sample_weight)
        if is_records(X) or self._is_frame(X):
            X, label = self._rows(X, reset), column_or_1d(y, warn=True)
            if not len(label):
                raise ValueError(f"X has 0 samples, but {type(self).__name__} needs at least one to train on")
        else:
            require_plain_matrix(X)
            X, label = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=NUMBERS, y_numeric=numbers)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, label, dtype=np.float64, ensure_non_negative=True)
        return X, label, sample_weight

    def _data(
        self,
        X: Any,
        label: Any,
        names: Names | None,
        *,
        weight: Any = None,
        group: Any = None,
        schema: Schema | None = None,
        changed: Changed = NO_CHANGES,
    ) -> Data:
        """Return rows with labels. schema : of a frame's columns, if known. Raises BadInputError."""
        with in_python():
            choices = split({**self._choices(), **changed})
            warm_start = resumed(choices.init_model)
            schema = schema or (warm_start.transform.table if warm_start else None)
            form = form_of(choices, spec_of(choices, warm_start), names, schema)
            return of_pair(X, label, form, weight=weight, fields=vars(self).get("fields_"), group=group)

    def _evaluated(self, eval_set: Any, data: Data) -> list[Data]:
        """Return validation data from a pair (X, y), or from a list of pairs, which are concatenated."""
        pairs: Sequence[Any] = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
        if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise ValueError("eval_set must be a pair (X, y), or a list of pairs")
        return [self._data(self._rows(X, reset=False), y, data.names, schema=data.schema) for X, y in pairs]

    def _set_fields(self, fields: Any) -> None:
        """Keep the field of each column."""
        self.fields_ = None if fields is None else field_numbers(fields)

    def _predicted(self, X: Any, output: Any, **more: Any) -> Any:
        """Return predictions of the fitted model."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        fields = vars(self).get("fields_")
        threads = effective_n_jobs(self.n_jobs)
        return self.model_.predict(rows, output, fields=fields, threads=threads, **more)

    def _is_stochastic(self) -> bool:
        """Return whether the solver makes steps row by row, and so can continue with further rows."""
        choices = self._choices()
        try:
            return make_spec(choices["model"] or DEFAULT_MODEL, choices["solver"]).by_rows
        except FmcliError:
            return False


def require_plain_matrix(X: Any) -> None:
    """Raise BadInputError as a ValueError for a matrix of times, which scikit-learn would convert to numbers, or with
    masked values, whose mask scikit-learn would drop."""
    with in_python():
        require_unmasked("X", X)
        if isinstance(dtype := getattr(X, "dtype", None), np.dtype):
            require_no_times("X", dtype)


def labels_for(classes: NDArray[Any]) -> Names | None:
    """Return classes as names of labels, sorted; None if they are numbers."""
    return None if classes.dtype.kind in "biuf" else tuple(sorted(name_of(one) for one in classes))


@contextmanager
def reporting(verbose: int) -> Iterator[None]:
    """Write the log to standard error in this context, if `verbose` is set and no handler takes the log."""
    if not verbose or any(not isinstance(one, logging.NullHandler) for one in LOG.handlers):
        yield
        return
    handler, level = logging.StreamHandler(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
