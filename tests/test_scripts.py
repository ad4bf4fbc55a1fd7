"""The scripts have help, and those that fuzz run a few cases."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "scripts").glob("*/*.py"))


def run(*arguments):
    command = [sys.executable, *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}  # they import others
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)


# Prints --help of all scripts in one process, because most of the time goes into their common imports.
HELP = """
import contextlib, io, json, os, runpy, sys
written = {}
for script in sys.argv[1:]:
    sys.argv, sys.path[0] = [script, "--help"], os.path.dirname(script)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as ended:
            assert not ended.code, script
    written[script] = out.getvalue()
print(json.dumps(written))
"""


def test_scripts_have_help():
    done = run("-c", HELP, *map(str, SCRIPTS))
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    for script in SCRIPTS:
        shared_by_others = "argparse" not in script.read_text()
        assert "usage:" in written[str(script)] or shared_by_others, script


@pytest.mark.parametrize("target", ["cache", "checkpoint", "model"])
def test_forged_files_are_tried(target, tmp_path):
    done = run(ROOT / "scripts" / "fuzz" / "files.py", target, "--runs", "20", "--folder", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    totals = json.loads(done.stdout)
    assert sum(totals["counts"].values()) == totals["runs"] == 20
    assert totals["hits"] == 0
    assert any((tmp_path / "corpus").iterdir())


def test_deliberate_breaks_fit_the_code():
    """Each has its text once in a file, and names tests and a compiled module that exist."""
    for broken in runpy.run_path(str(ROOT / "scripts" / "mutants" / "__main__.py"))["read"]():
        assert broken.text(ROOT) != (ROOT / broken.file).read_text()
        assert all((ROOT / "tests" / name).is_file() for name in broken.tests), broken.name
        source = ROOT / "cython_src" / broken.compiled.replace(".", "/")
        assert source.with_suffix(".pyx").is_file() == broken.file.startswith("cython_src"), broken.name
