"""Training takes numbers too small to be normal for 0, because processors are slow with them."""

import numpy as np
import pytest
from problems import REAL
from test_every_pair import planted

from fmcli.registry.specs import make_spec
from fmcli.training import job

TINY = np.finfo(np.float64 if REAL == "double" else np.float32).tiny
# Start values are normal, and the penalty shrinks them by a share in each step.
SHRINKING = {"rank": 4, "init_std": float(1e3 * TINY), "l2_v": 10.0, "epochs": 3}


@pytest.mark.parametrize(
    ("model", "solver", "options"),
    [
        ("fm", "adagrad", {}),
        ("hofm", "adagrad", {}),
        ("fm", "adagrad", {"batch_size": 3}),
        ("fm", "adagrad", {"round_size": 4}),
        ("fm", "cd", {}),
        ("anova", "cd", {}),
    ],
)
def test_factors_that_shrink_to_nothing_become_0(model, solver, options):
    data = planted("linear", "squared", rows=300)[0]
    plan = job.plan(
        data, make_spec(model, solver, None, {**SHRINKING, **options}), holdout=0.0, quick_search=False, threads=2
    )
    job.train(plan)
    factors = np.concatenate([array.ravel() for array in plan.model.parameters.values() if array.ndim >= 2])
    assert np.count_nonzero(factors) < len(factors)
    assert not np.any((np.abs(factors) < TINY) & (factors != 0))


def test_afterwards_arithmetic_is_as_before():
    data = planted("linear", "squared", rows=300)[0]
    half = np.array([TINY]) / 2
    for solver in ("adagrad", "cd"):
        job.train(job.plan(data, make_spec("fm", solver, None, SHRINKING), holdout=0.0, quick_search=False))
        assert half[0] != 0
        assert np.array_equal(half + half, [TINY])
