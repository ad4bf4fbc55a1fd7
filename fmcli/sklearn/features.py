"""The transformer: the factors of a row as features for other estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from fmcli.sklearn.base import Estimator, labels_for, with_signature


@with_signature
class FMFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):  # type: ignore[misc]
    """The factors of rows as an embedding: the sum of the factors of a row's features, weighted by their values.

    The model is trained to predict y, classes or numbers, like FMClassifier and FMRegressor.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : fmcli.Model
    n_features_in_ : int
    """

    _needs_labels = True

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train the model on rows with labels.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            As in `FMClassifier.fit`.
        y : array-like
            Shape (rows,): classes or numbers.

        Returns
        -------
        self
        """
        X, label, _ = self._given(X, y, None, reset=True, numbers=False)
        kind = type_of_target(label)
        is_number = kind.startswith("continuous") or self.loss == "squared"
        names = None if is_number else labels_for(np.unique(label))
        loss = self.loss or ("squared" if is_number else "logistic" if kind == "binary" else "softmax")
        if len(label) < 2:
            raise ValueError("a model needs several rows, but n_samples=1")
        changed = {"loss": loss, **self._resumed()}
        self.model_ = self._trained(self._data(X, label, names, changed=changed), None, changed)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the factors of rows.

        Parameters
        ----------
        X : array, sparse matrix, list of dict, or frame
            Shape (rows, columns).

        Returns
        -------
        ndarray
            Shape (rows, rank), or (rows, classes * rank) for more than two classes.
        """
        check_is_fitted(self)
        return self.model_.factors(self._rows(X, reset=False))

    @property
    def _n_features_out(self) -> int:
        """The number of columns that `transform` returns."""
        outputs, _, rank = self.model_.parameters["V"].shape
        return int(outputs * rank)
