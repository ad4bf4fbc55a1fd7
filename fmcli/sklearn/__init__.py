"""scikit-learn estimators: FMClassifier, FMRegressor, FMRanker, FMRecommender, and the transformer FMFeatures.

They train the same models as ``fmcli.train`` and the command, bit for bit, with the conventions of scikit-learn.
"""

from fmcli.sklearn.checks import expected_failed_checks
from fmcli.sklearn.estimators import FMClassifier, FMRanker, FMRegressor
from fmcli.sklearn.features import FMFeatures
from fmcli.sklearn.recommender import FMRecommender

__all__ = ["FMClassifier", "FMFeatures", "FMRanker", "FMRecommender", "FMRegressor", "expected_failed_checks"]
