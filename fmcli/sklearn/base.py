"""What all estimators have: parameters from the table of training, fitting, and the conventions of scikit-learn."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from fmcli.api.data import Data, of_matrix
from fmcli.api.errors import in_python
from fmcli.api.matrix import is_records
from fmcli.api.model import Model
from fmcli.api.parameters import OF_TABLES, RENAMED, documented, parameters, split
from fmcli.api.training import LOG, trained_model
from fmcli.data.labels import Names
from fmcli.data.pieces import concatenated
from fmcli.errors import FmcliError
from fmcli.registry.specs import make_spec

if TYPE_CHECKING:
    from fmcli.api.keywords import Parameters

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("fmcli.sklearn needs scikit-learn 1.6 or later: pip install scikit-learn") from error

# The names of `fmcli.train` for parameters that have another one in scikit-learn.
NAMES = {new: old for old, new in RENAMED.items()}
LARGEST_SEED = 2**31 - 1
# The types of numbers that are taken as they are.
NUMBERS = (np.float32, np.float64)


def with_signature(cls: type[Any]) -> type[Any]:
    """Return a class of estimators whose constructor and docstring have the parameters of training."""
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    verbose = Parameter("verbose", Parameter.KEYWORD_ONLY, default=0)
    every = [own, *parameters(RENAMED, (*OF_TABLES, *cls._without)), verbose]

    def __init__(self: Any, **given: Any) -> None:  # noqa: N807 (it becomes that of the class)
        known = cls._usual
        if unknown := given.keys() - known.keys():
            raise TypeError(f"{cls.__name__} has no parameter {min(unknown)!r}")
        vars(self).update({**known, **given})

    __init__.__signature__ = Signature(every)  # type: ignore[attr-defined]
    cls._usual = {one.name: one.default for one in every[1:]}
    cls.__init__ = __init__
    cls.__doc__ = documented(cls.__doc__ or "", RENAMED, (*OF_TABLES, *cls._without))
    return cls


class Estimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators have.

    _loss : the loss if none is given; None: the labels decide.
    _without : the parameters of training that it does not have.
    """

    _loss: str | None = None
    _without: tuple[str, ...] = ()
    _usual: Mapping[str, Any] = {}
    model_: Model
    n_features_in_: int

    if TYPE_CHECKING:  # `with_signature` makes it

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
        return tags

    @property
    def history_(self) -> list[dict[str, Any]]:
        """A dict of figures for each epoch; see `fmcli.Model`."""
        check_is_fitted(self)
        return self.model_.history

    def _choices(self) -> dict[str, Any]:
        """Return the parameters under the names of `fmcli.train`."""
        given = {NAMES.get(name, name): value for name, value in self.get_params(deep=False).items()}
        del given["verbose"]
        seed = given["seed"]
        if seed is not None and not isinstance(seed, int | np.integer):
            given["seed"] = int(check_random_state(seed).randint(LARGEST_SEED))
        given["threads"] = effective_n_jobs(given["threads"])
        given["loss"] = given.get("loss") or self._loss
        return given

    def _trained(
        self, data: Data, eval_set: Any, names: Names | None, fields: NDArray[np.int64] | None, **changed: Any
    ) -> Model:
        """Return the model of the parameters. Raises the errors of `fmcli.train`."""
        choices, options = split({**self._choices(), **changed})
        with in_python(), reporting(self.verbose):
            valid = None if eval_set is None else self._evaluated(eval_set, names, fields)
            return trained_model(data, valid, choices, options)

    def _rows(self, X: Any, reset: bool) -> Any:
        """Return a matrix, or dicts, checked as in scikit-learn."""
        if is_records(X):
            return X
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=NUMBERS)

    def _evaluated(self, eval_set: Any, names: Names | None, fields: NDArray[np.int64] | None) -> Data:
        """Return validation data: of a pair (X, y), or of a list of pairs, concatenated."""
        pairs: Sequence[Any] = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
        if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise ValueError("eval_set must be a pair (X, y), or a list of pairs")
        made = [of_matrix(self._rows(X, reset=False), y, fields=fields, names=names) for X, y in pairs]
        return Data.of(concatenated([one.dataset for one in made]), made[0].names, made[0].format)

    def _predicted(self, X: Any, output: Any, **more: Any) -> Any:
        """Return predictions of the fitted model."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        fields = vars(self).get("fields_")
        threads = effective_n_jobs(self.n_jobs)
        return self.model_.predict(rows, output, fields=fields, threads=threads, **more)

    def _is_stochastic(self) -> bool:
        """Return whether the solver takes steps row by row, so that it can go on with further rows."""
        choices = self._choices()
        try:
            return make_spec(choices["model"] or "fm", choices["solver"]).by_rows
        except FmcliError:
            return False


def labels_for(classes: NDArray[Any]) -> Names | None:
    """Return classes as names of labels; None if they are numbers."""
    return None if classes.dtype.kind in "biuf" else tuple(str(one) for one in classes)


@contextmanager
def reporting(verbose: int) -> Iterator[None]:
    """Write the log to standard error as long as the context lasts, if verbose, and if no handler takes it."""
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
