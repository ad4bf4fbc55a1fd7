"""Names of the arrays beside each draw, from which a run draws the parameters of new features given all others."""

from __future__ import annotations

from fmcli.models.parameters import Parameters

# The names of the arrays with the precision of the labels, and the priors' means and precisions, in each draw; and of
# that with the numbers of the groups of features that have the priors, -1 if all features are in one.
NOISE, PRIORS, PRIOR_GROUPS = "noise", "priors", "prior_groups"


def priors_in(model: Parameters, groups: int) -> int:
    """Return how many priors a draw has, if features are in so many groups: one for each number in a group's rows of
    parameters, and one for each other array."""
    found = 0
    for layout in model.layout:
        if layout.trained and layout.weight != "bias" and not layout.constraint:
            columns = sum(array.vectors * array.columns for array in layout.body)
            each = groups * layout.rows_each * columns if layout.by_feature else len(layout.body)
            found += each + (groups * layout.rows_each if layout.by_feature else 1) * bool(layout.weight)
    return found
