"""The penalty's value against the slow definition."""

import numpy as np
import pytest
from problems import fill

from fmcli._core.penalty import Penalty
from fmcli._core.stub import Stub
from fmcli.registry import MODELS
from reference import slow_models

STRENGTHS = {"l1_w": 0.3, "l1_v": 0.7, "l2_w": 1.1, "l2_v": 1.9}
pytestmark = pytest.mark.isa


@pytest.mark.parametrize("name", [*MODELS, "stub"])
@pytest.mark.parametrize("only", [*STRENGTHS, None])
def test_value(name, only):
    model = (Stub if name == "stub" else MODELS[name].load())(
        6, 2, **({"rank": 5} if name == "stub" or "rank" in MODELS[name].options else {})
    )
    model.allocate(2)
    params = fill(model, np.random.default_rng(0))
    strengths = {key: value for key, value in STRENGTHS.items() if only in (key, None)}
    slow = slow_models.penalty_value(params, slow_models.Penalty(**strengths))
    assert Penalty(**strengths).value(model) == pytest.approx(slow, rel=1e-6)
    assert slow > 0 or only in (("l1_w", "l2_w") if name == "shfm" else ("l1_v", "l2_v"))
