"""The estimators: a classifier, a regressor, and a ranker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fmcli.api.data import Data, name_of
from fmcli.data.labels import NUMBERS as NUMERIC
from fmcli.registry.losses import LOSSES
from fmcli.sklearn.base import Estimator, labels_for, with_signature
from fmcli.text import unescaped

if TYPE_CHECKING:
    F = TypeVar("F", bound=Callable[..., Any])

    def available_if(check: Callable[[Any], bool]) -> Callable[[F], F]:
        """Type scikit-learn's decorator for type checkers: it has no types."""
else:
    from sklearn.utils.metaestimators import available_if

# Names of losses.
SQUARED, SOFTMAX, LOGISTIC, BPR = "squared", "softmax", "logistic", "bpr"
# One more epoch on the given rows, as ``fmcli train -i MODEL --keep-state -e 1 --no-quick-search --holdout 0``.
STEP = {"epochs": 1, "keep_state": True, "quick_search": False, "holdout": 0}
# The metric of a ranker's score.
RANKING = "ndcg"


def is_stochastic(estimator: Estimator) -> bool:
    """Return whether an estimator has `partial_fit`."""
    return estimator._is_stochastic()


def is_probable(estimator: Estimator) -> bool:
    """Return whether a classifier predicts probabilities."""
    loss = vars(estimator).get("loss")
    return loss is None or loss not in LOSSES or bool(LOSSES[loss].load_link().probable)


@with_signature
class FMClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A factorization machine, or another model of fmcli, for classes.

    Two classes share one score, by default with logistic loss; more classes have one score each, with softmax.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    model_ : fmcli.Model
        The trained model, which can be saved for the command. Its arrays are attributes by the names of the papers:
        ``w_``, ``V_``, ``bias_``.
    history_ : list of dict
        Figures of each epoch.
    n_features_in_ : int
    feature_names_in_ : ndarray
        The names of the columns, if `fit` got a frame.
    """

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: Any = None,
        fields: ArrayLike | None = None,
    ) -> Self:
        """Train the model.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns). A CSR matrix of float32 is not copied. Columns of a frame are like columns of a
            table: texts and categories are names, numbers are numbers, and missing numbers become the mean of their
            column.
        y : array-like
            Shape (rows,): the class of each row.
        sample_weight : array-like, optional
            Shape (rows,): weights, at least 0.
        eval_set : (X, y) or list of these, optional
            Validation data to choose the best epoch; several pairs are concatenated.
        fields : array-like of int, optional
            Shape (columns,): the field of each column, for models with fields.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters, rows or labels.
        """
        X, label, weight = self._given(X, y, sample_weight, reset=True, numbers=False)
        check_classification_targets(label)
        self.classes_ = np.unique(label)
        if len(self.classes_) < 2:
            raise ValueError(f"y has 1 class, {self.classes_[0]}; a classifier needs at least 2")
        self._set_fields(fields)
        changed = {"loss": self._loss_of_classes(), "positive": self._positive(), **self._resumed()}
        data = self._data(X, label, labels_for(self.classes_), weight=weight, changed=changed)
        self.model_ = self._trained(data, eval_set, changed)
        return self

    @available_if(is_stochastic)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        fields: ArrayLike | None = None,
    ) -> Self:
        """Train one more epoch on rows, as ``fmcli train -i MODEL --keep-state -e 1`` does.

        Parameters
        ----------
        X, y, sample_weight, fields
            As in `fit`.
        classes : array-like, optional
            All possible classes; required in the first call.

        Returns
        -------
        self
        """
        first = "model_" not in vars(self)
        if first and classes is None:
            raise ValueError("the first call of partial_fit needs classes, because y may lack some of them")
        X, label, weight = self._given(X, y, sample_weight, reset=first, numbers=False)
        check_classification_targets(label)
        if first:
            self.classes_ = np.unique(np.asarray(classes))
            self._set_fields(fields)
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(f"classes are {classes!r}, but the first call had {self.classes_!r}")
        if unknown := set(label.tolist()) - set(self.classes_.tolist()):
            raise ValueError(f"y has the label {min(unknown, key=str)!r}, which is not one of the classes")
        # As names, all classes are known even if some do not occur; a model trained by `fit` may have numbers.
        model = None if first else self.model_
        if model is None or model._scorer.labels.names:
            names = tuple(sorted(name_of(one) for one in self.classes_))
            label = np.array([str(one) for one in label], dtype=object)
        else:
            names = NUMERIC
        steps = {**STEP, "init_model": model, "loss": self._loss_of_classes() if first else None}
        steps["positive"] = self._positive() if first else None
        self.model_ = self._trained(self._data(X, label, names, weight=weight, changed=steps), None, steps)
        return self

    def _positive(self) -> Any:
        """Return the positive one of two classes: in scikit-learn, the second class."""
        return self.classes_[1] if len(self.classes_) == 2 else None

    def _loss_of_classes(self) -> str:
        """Return the loss. Raises ValueError for a loss that is not for classes."""
        loss = self.loss or (LOGISTIC if len(self.classes_) == 2 else SOFTMAX)
        if loss in LOSSES and LOSSES[loss].task not in ("binary", "classes"):
            raise ValueError(f"loss {loss} is not one of classes; use FMRegressor, or another loss")
        return str(loss)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each row.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).

        Returns
        -------
        ndarray
            Shape (rows,): elements of `classes_`.
        """
        check_is_fitted(self)
        found = self._predicted(X, "label")
        if found.dtype.kind == "O":
            place = {str(one): at for at, one in enumerate(self.classes_)}
            return np.asarray(self.classes_[[place[text] for text in found]])
        return np.asarray(self.classes_[np.searchsorted(self.classes_.astype(np.float64), found)])

    @available_if(is_probable)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class. Losses without probabilities have no such method.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).

        Returns
        -------
        ndarray
            Shape (rows, classes), in the order of `classes_`.
        """
        check_is_fitted(self)
        found = self._predicted(X, "prob")
        return (np.column_stack([1 - found, found]) if found.ndim == 1 else found)[:, self._places()]

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).

        Returns
        -------
        ndarray
            Shape (rows, classes), in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows, before conversion to probabilities.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).

        Returns
        -------
        ndarray
            Shape (rows,), where positive scores mean the second class; or (rows, classes) for more than two classes.
        """
        check_is_fitted(self)
        found = np.asarray(self._predicted(X, "raw"))
        if found.ndim == 1:
            return found if self._places() == [0, 1] else -found
        return found[:, self._places()]

    def _places(self) -> list[int]:
        """Return the position of each class among the model's labels. The model orders names as rows of text spell
        them, with codes for blanks."""
        labels = self.model_._scorer.labels
        names = [unescaped(name) for name in labels.words] if labels.names else []
        return [names.index(str(one)) if names else place for place, one in enumerate(self.classes_)]


@with_signature
class FMRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A factorization machine, or another model of fmcli, for numbers.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : fmcli.Model
        The trained model, which can be saved for the command. Its arrays are attributes by the names of the papers:
        ``w_``, ``V_``, ``bias_``.
    history_ : list of dict
        Figures of each epoch.
    n_features_in_ : int
    feature_names_in_ : ndarray
        The names of the columns, if `fit` got a frame.
    """

    _loss = SQUARED
    _without = ("class_weight",)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: Any = None,
        fields: ArrayLike | None = None,
    ) -> Self:
        """Train the model.

        Parameters
        ----------
        X, sample_weight, eval_set, fields
            As in `FMClassifier.fit`.
        y : array-like
            Shape (rows,): the number of each row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters, rows or labels.
        """
        X, label, weight = self._given(X, y, sample_weight, reset=True, numbers=True)
        self._set_fields(fields)
        changed = self._resumed()
        self.model_ = self._trained(self._data(X, label, NUMERIC, weight=weight, changed=changed), eval_set, changed)
        return self

    @available_if(is_stochastic)
    def partial_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, fields: ArrayLike | None = None
    ) -> Self:
        """Train one more epoch on rows, as ``fmcli train -i MODEL --keep-state -e 1`` does.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        fields : array-like of int, optional
            Shape (columns,): the field of each column; only in the first call.

        Returns
        -------
        self
        """
        first = "model_" not in vars(self)
        X, label, weight = self._given(X, y, sample_weight, reset=first, numbers=True)
        if first:
            self._set_fields(fields)
        steps = {**STEP, "init_model": None if first else self.model_}
        self.model_ = self._trained(self._data(X, label, NUMERIC, weight=weight, changed=steps), None, steps)
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> NDArray[np.float64]: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).
        return_std : bool
            Whether to return the standard deviations over draws, too. Models by mcmc and ensembles have them.

        Returns
        -------
        ndarray, or (ndarray, ndarray) with ``return_std``
            Shape (rows,).
        """
        check_is_fitted(self)
        return self._predicted(X, "value", std=return_std)


@with_signature
class FMRanker(Estimator):
    """A factorization machine, or another model of fmcli, that ranks the rows of a group; the default loss is bpr, a
    loss of pairs of rows.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : fmcli.Model
    history_ : list of dict
    n_features_in_ : int
    """

    _loss = BPR
    _without = ("class_weight",)
    _needs_labels = True

    def fit(self, X: Any, y: ArrayLike, *, qid: ArrayLike | None = None, fields: ArrayLike | None = None) -> Self:
        """Train the model.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
        y : array-like
            Shape (rows,): the relevance of each row; larger is better.
        qid : array-like, optional
            Shape (rows,): rows with equal values form a group (a query, a user); by default, all rows are one group.
        fields : array-like of int, optional
            Shape (columns,): the field of each column.

        Returns
        -------
        self
        """
        self._set_fields(fields)
        data = self._grouped(X, y, qid, reset=True)
        if data.rows < 2:
            raise ValueError("a ranker needs rows of a group to compare, but n_samples=1")
        is_whole = qid is None and self.holdout is None  # a single group cannot be held out
        self.model_ = self._trained(data, None, {**self._resumed(), **({"holdout": 0} if is_whole else {})})
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return scores. They are comparable only within a group.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).

        Returns
        -------
        ndarray
            Shape (rows,).
        """
        check_is_fitted(self)
        return np.asarray(self._predicted(X, "raw"))

    def score(self, X: Any, y: ArrayLike, *, qid: ArrayLike | None = None) -> float:
        """Return the normalized discounted cumulative gain of the predicted order.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).
        y : array-like
            Shape (rows,): the relevance of each row.
        qid : array-like, optional
            Shape (rows,): as in `fit`.

        Returns
        -------
        float
            The mean over groups.
        """
        check_is_fitted(self)
        return self.model_.evaluate(self._grouped(X, y, qid, reset=False), [RANKING])[RANKING]

    def _grouped(self, X: Any, y: ArrayLike, qid: ArrayLike | None, reset: bool) -> Data:
        """Return labeled rows with groups. Raises ValueError."""
        X, label, _ = self._given(X, y, None, reset=reset, numbers=True)
        group = np.zeros(len(label), dtype=np.int64) if qid is None else qid
        schema = None if reset and not self._resumed() else self.model_._scorer.transform.table
        return self._data(X, label, NUMERIC, group=group, schema=schema, changed=self._resumed() if reset else {})
