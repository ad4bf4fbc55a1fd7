"""The penalty's value against the slow definition."""

import numpy as np
import pytest
from problems import TRAINED, build, choices, fill

from fmcli.models.stub import Stub
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.stochastic.sgd import SGD
from reference import slow_models

STRENGTHS = {"l1_w": 0.3, "l1_v": 0.7, "l2_w": 1.1, "l2_v": 1.9, "group_l1": 0.4}
LINEAR = ("l1_w", "l2_w")
FACTORS = ("l1_v", "l2_v")
pytestmark = pytest.mark.isa


# A group is a row of one block, and the stub's features have two.
CASES = [(name, only) for name in TRAINED for only in (*STRENGTHS, None)]
CASES += [("stub", only) for only in (*LINEAR, *FACTORS)]


@pytest.mark.parametrize(("name", "only"), CASES)
def test_value(name, only):
    own = {"rank": 5, "by_row": only in ("group_l1", None)}
    model = Stub(6, 2, rank=5) if name == "stub" else build(name, 6, 2, **own)
    solver = SGD(learning_rate=1)
    model.allocate(solver.slots)
    params = fill(model, np.random.default_rng(0))
    strengths = {key: value for key, value in STRENGTHS.items() if only in (key, None)}
    slow = slow_models.penalty_value(params, slow_models.Penalty(**strengths), choices(model, **own))
    penalty = Penalty(**strengths)
    solver.bind(model, penalty)
    assert penalty.value(model) == pytest.approx(slow, rel=1e-6)
    # It is 0 only where the model has nothing that the strength acts on.
    absent = (() if "w" in params else LINEAR) + (() if params.keys() - {"bias", "w"} else FACTORS)
    assert (slow > 0) == (only not in absent)


def test_no_strength_is_no_penalty():
    model = build("fm", 6, 2, rank=5)
    model.allocate(0)
    fill(model, np.random.default_rng(0))
    assert Penalty().value(model) == 0
