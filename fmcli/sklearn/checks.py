"""Checks of scikit-learn's `check_estimator` that this package's estimators fail, each with its reason."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_regressor
from sklearn.utils.validation import has_fit_parameter

CHECKS_OF_WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
STEPS = "a stochastic solver takes two steps for a row that occurs twice, and one larger step for one of weight 2"
ROUNDING = (
    "the check compares to 1e-7; sums over weighted rows and over repeated ones are rounded in different ways, which "
    "float32 parameters, searches for a step and random draws magnify"
)
ALPHA = "the check sets alpha as a strength of regularization; here, alpha is the step size of FTRL alone"


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Return the checks of `check_estimator` that an estimator fails.

    Parameters
    ----------
    estimator : FMClassifier, FMRegressor, FMRanker or FMFeatures

    Returns
    -------
    dict of str
        The reason for each failure, by the name of the check.
    """
    if not has_fit_parameter(estimator, "sample_weight"):
        return {}
    failed = dict.fromkeys(CHECKS_OF_WEIGHTS, STEPS if hasattr(estimator, "partial_fit") else ROUNDING)
    return {**failed, "check_regressors_train": ALPHA} if is_regressor(estimator) else failed
