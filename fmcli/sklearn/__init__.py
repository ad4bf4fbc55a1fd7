"""Estimators of scikit-learn: FMClassifier, FMRegressor, FMRanker, and the transformer FMFeatures.

They train what ``fmcli.train`` and the command train, with the same bits, under the conventions of scikit-learn.
"""

from fmcli.sklearn.checks import expected_failed_checks
from fmcli.sklearn.estimators import FMClassifier, FMRanker, FMRegressor
from fmcli.sklearn.features import FMFeatures

__all__ = ["FMClassifier", "FMFeatures", "FMRanker", "FMRegressor", "expected_failed_checks"]
