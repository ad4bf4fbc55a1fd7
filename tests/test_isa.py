"""Every instruction-set level gives the same bits, and a level can be chosen."""

import os
import subprocess
import sys

import pytest

from fmcli.kernels.simd import ISA, LEVELS, available

TRAIN = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from problems import TRAINED
from test_every_pair import FEW, PAIRS, planted, run
from fmcli.kernels.simd import ISA
from fmcli.registry.solvers import SOLVERS
digest = hashlib.sha256()
for model, solver in PAIRS:
    data, _ = planted(model, "logistic", rows=FEW)
    options = {"rank": 21} if "rank" in TRAINED[model].options else {}
    refused = TRAINED[model].refuses.keys() | SOLVERS[solver].refuses.keys()
    options |= {name: 0.01 for name in ("l1", "group_l1") if name not in refused}
    trained = run(model, solver, "logistic", data, epochs=2, **options)
    for array in trained.plan.model.parameters.values():
        digest.update(array.tobytes())
print(ISA, digest.hexdigest())
"""


def python(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_all_levels_train_the_same_bits():
    answers = {}
    for level in available():
        done = python(TRAIN, os.path.dirname(__file__), FMCLI_ISA=level)
        assert done.returncode == 0, done.stderr
        name, answers[level] = done.stdout.split()
        assert name == level
    assert "baseline" in answers
    assert len(set(answers.values())) == 1


def test_the_best_level_is_the_default():
    if "FMCLI_ISA" not in os.environ:
        assert available()[0] == ISA
    assert set(available()) <= set(LEVELS)


def test_a_level_that_is_not_there_is_refused():
    done = python("import fmcli.kernels.simd", FMCLI_ISA="v9")
    assert done.returncode != 0
    assert "FMCLI_ISA is 'v9'" in done.stderr
    assert "baseline" in done.stderr


@pytest.mark.parametrize("level", available())
def test_levels_are_named_as_they_are_chosen(level):
    done = python("from fmcli.kernels.simd import ISA; print(ISA)", FMCLI_ISA=level)
    assert done.stdout.strip() == level
