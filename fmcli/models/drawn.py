"""The names of a draw's extra arrays, from which a run draws the parameters of new features given all others."""

from __future__ import annotations

from fmcli.models.parameters import Parameters

# The arrays of each draw with the precision of the labels, the priors' means and precisions, and the numbers of the
# feature groups that have priors (-1 if all features are in one group).
NOISE, PRIORS, PRIOR_GROUPS = "noise", "priors", "prior_groups"


def priors_in(model: Parameters, groups: int) -> int:
    """Return the number of priors of a draw with this number of feature groups: one per group and number in a parameter
    row, and one per other array."""
    found = 0
    for layout in model.layout:
        if layout.trained and layout.weight != "bias" and not layout.constraint:
            columns = sum(array.vectors * array.columns for array in layout.body)
            each = groups * layout.rows_each * columns if layout.by_feature else len(layout.body)
            found += each + (groups * layout.rows_each if layout.by_feature else 1) * bool(layout.weight)
    return found
