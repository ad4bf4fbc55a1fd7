"""What a search may cost. The unit is one training: the run of the usual options and its refit, on the same folds.

Work is counted, not timed, so that the same data give the same choices.
"""

from __future__ import annotations

import math

from fmcli.registry.models import MODELS
from fmcli.training.planning import Plan
from fmcli.training.setup.fitting import are_dense
from fmcli.training.several.refit import visits

# Other values of an option may take one training together, until one of them wins. Kinds and solvers together may
# take this many; so may each of their runs and of drawn options.
MOST_TRAININGS = 10
# Few rows have longer runs, which take a few seconds: a run that overfits within few epochs is compared with others
# that learn slowly, and a better kind may need hundreds of epochs. So values of options have this many epochs at least,
# and kinds and solvers that do not sample this much work together.
LEAST_EPOCHS, LEAST_WORK = 20, 5 * 10**8
# Solvers that sample have whole runs in a comparison if these take this much work together, about ten seconds.
WORK_OF_CHAINS = 3 * 10**9
# A run of a solver that samples is a chain of this share of its sweeps, or of the smaller share if a sweep has more
# than MANY_VISITS visits, on as many folds as take a part of a second: all values together take one training, or less
# than a half, on each.
SHARE_OF_SWEEPS, MANY_VISITS, SHARE_OF_MANY = 1 / 6, 10**6, 1 / 15
# Runs of values of options are longer than LEAST_EPOCHS only up to this much work, and there are only as many folds as
# take this much together; sparse rows may have more folds, because models overfit them within a few epochs, so that a
# single fold chooses their number badly.
MOST_WORK, WORK_OF_SPARSE = 10**8, 4 * 10**8
# A parameter of any kind takes as long as this many entries of fm: it is copied, and waits for memory.
ENTRIES_A_PARAMETER = 4


def work(plan: Plan) -> int:
    """Return the work of an epoch, by which its time grows: visits of entries of a factor, and of parameters."""
    kind, solver = MODELS[plan.spec.model], plan.spec.solver_entry
    cost = kind.cost * kind.cost_with.get(solver.name, 1.0) * solver.cost
    return round(cost * visits(plan)) + ENTRIES_A_PARAMETER * int(plan.model.parameter_count)


def epochs_of(plan: Plan) -> int:
    """Return how many epochs the run of a value of an option has at most on each fold."""
    asked: int = plan.spec.values["epochs"]
    if plan.spec.solver_entry.is_sampler:
        return math.ceil(asked * (SHARE_OF_SWEEPS if visits(plan) <= MANY_VISITS else SHARE_OF_MANY))
    return min(asked, max(LEAST_EPOCHS, MOST_WORK // work(plan)))


def affordable_folds(plan: Plan, epochs: int) -> int:
    """Return on how many folds runs of `epochs` epochs may be compared."""
    if plan.spec.solver_entry.is_sampler:
        return max(1, MOST_WORK // (4 * epochs * work(plan)))
    most = MOST_WORK if have_most_features(plan) else WORK_OF_SPARSE
    return max(1, most // (max(1, epochs) * work(plan)))


def have_most_features(plan: Plan) -> bool:
    """Return whether rows have most features, so that each learns from most rows."""
    facts = plan.facts
    return are_dense(facts["rows"], facts["nonzeros"], facts["features"])
