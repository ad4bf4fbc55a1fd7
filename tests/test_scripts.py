"""The scripts run: what they find is for whoever runs them on whole data sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "sample_data"
ADULT = (SAMPLE / "adult.train.libsvm", SAMPLE / "adult.test.libsvm")
# Small runs of scripts that take data of this kind.
SMALL = {
    "sgl_adult": [*ADULT, "--rank", "2", "--epochs", "1"],
    "sh_sparsity": ADULT,
}
SCRIPTS = sorted((ROOT / "scripts").glob("*/*.py"))


def run(script, *arguments):
    command = [sys.executable, ROOT / script, *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}  # they share modules
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_it_says_what_it_is_for(script):
    done = run(script, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout or "argparse" not in script.read_text()  # parts that several scripts share


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name):
    done = run(Path("scripts/papers") / f"{name}.py", *SMALL[name])
    assert done.returncode == 0, done.stderr
    assert "fm" in done.stdout
