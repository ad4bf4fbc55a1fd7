"""The value of the penalty, compared with the slow definition."""

import numpy as np
import pytest
from problems import TRAINED, build, choices, dataset, fill

from fmcli.errors import UsageError
from fmcli.losses.loss import Squared
from fmcli.penalties.penalty import GROUP_PENALTIES, Penalty
from fmcli.registry import options
from fmcli.registry.specs import make_spec
from fmcli.solvers.full_batch.lbfgs import LBFGS
from fmcli.solvers.stochastic.sgd import SGD
from reference import slow_models, slow_penalties

STRENGTHS = {"l1_w": 0.3, "l1_v": 0.7, "l2_w": 1.1, "l2_v": 1.9, **dict.fromkeys(GROUP_PENALTIES, 0.4)}
LINEAR = ("l1_w", "l2_w")
FACTORS = ("l1_v", "l2_v")
pytestmark = pytest.mark.exact


@pytest.mark.parametrize("name", TRAINED)
def test_value(name):
    for only in (*STRENGTHS, None):
        check_value(name, only)


def check_value(name, only):
    """A group is a row of one block; in hofm, each feature has rows in two blocks."""
    model_options = {"rank": 5, "by_row": only in (*GROUP_PENALTIES, None)}
    model = build(name, 6, 2, **model_options)
    solver = SGD(learning_rate=1)
    model.allocate(solver.slots)
    params = fill(model, np.random.default_rng(0))
    others = GROUP_PENALTIES[1:] if only is None else ()  # only one group penalty may be in force
    strengths = {key: value for key, value in STRENGTHS.items() if only in (key, None) and key not in others}
    slow = slow_models.penalty_value(name, params, slow_models.Penalty(**strengths), choices(model, **model_options))
    penalty = Penalty(**strengths)
    solver.bind(model, penalty)
    assert penalty.value(model) == pytest.approx(slow, rel=1e-6)
    # It is 0 only if the model has no parameters that the strength acts on.
    absent = (() if "w" in params else LINEAR) + (() if params.keys() - {"bias", "w"} else FACTORS)
    assert (slow > 0) == (only not in absent)


def test_no_strength_is_no_penalty():
    model = build("fm", 6, 2, rank=5)
    model.allocate(0)
    fill(model, np.random.default_rng(0))
    assert Penalty().value(model) == 0


def test_the_registry_lists_the_group_penalties():
    assert options.GROUP_PENALTIES == GROUP_PENALTIES == tuple(slow_penalties.GROUPS)


def test_group_penalties_that_cannot_be_combined_are_refused():
    with pytest.raises(ValueError, match="one at a time, not group_l1, group_l9"):
        Penalty(group_l1=1, group_l9=1)
    for option in GROUP_PENALTIES[1:]:
        with pytest.raises(ValueError, match="one at a time"):
            Penalty(group_l1=1, **{option: 1})
        with pytest.raises(UsageError, match="cannot be combined; choose one"):
            make_spec("fm", "cd", "squared", {"group_l1": 1, option: 1})


@pytest.mark.parametrize("only", ["l1_w", "l1_v", "nuclear", *GROUP_PENALTIES])
def test_lbfgs_ignores_no_penalty(only):
    model = build("pn", 6, rank=2)
    model.allocate(0)
    with pytest.raises(ValueError, match="supports l2 penalties only"):
        LBFGS(model, Squared(), Penalty(**{only: 0.1}), dataset([{0: 1.0}], 6, np.ones(1)))
