"""Every instruction-set level gives the same bits, and a level can be chosen."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fmcli.kernels.simd import ISA, LEVELS, available

TESTS = Path(__file__).parent
pytestmark = pytest.mark.exact


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments], env={**os.environ, **environment}, capture_output=True, text=True
    )


def trained_bits(level):
    """Return the checksums of all runs with the kernels of a level, a line for each run."""
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = python(TESTS / "trained_bits.py", FMCLI_ISA=level, PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    name, *lines = done.stdout.splitlines()
    assert name == level
    return lines


def test_all_levels_train_the_same_bits():
    """The other tests run only at the best level; these runs reach the same code of the kernels as all of them."""
    with ThreadPoolExecutor() as pool:
        best, *others = pool.map(trained_bits, available())
    assert "baseline" in available()
    assert len(best) > 400
    for lines in others:
        assert lines == best


def test_the_best_level_is_the_default():
    if "FMCLI_ISA" not in os.environ:
        assert available()[0] == ISA
    assert set(available()) <= set(LEVELS)


def test_a_level_that_is_not_there_is_refused():
    done = python("-c", "import fmcli.kernels.simd", FMCLI_ISA="v9")
    assert done.returncode != 0
    assert "FMCLI_ISA is 'v9'" in done.stderr
    assert "baseline" in done.stderr


@pytest.mark.parametrize("level", available())
def test_levels_are_named_as_they_are_chosen(level):
    done = python("-c", "from fmcli.kernels.simd import ISA; print(ISA)", FMCLI_ISA=level)
    assert done.stdout.strip() == level
