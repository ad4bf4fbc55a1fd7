"""The scripts have help, the fuzzers run a few cases, and the judge of defaults resumes and compares."""

import importlib
import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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


def test_harnesses_of_libfuzzer_compile():
    sources = sorted((ROOT / "scripts" / "fuzz").glob("*.cpp"))
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'cython_src'}"]
    started = [subprocess.Popen([*command, source], stderr=subprocess.PIPE, text=True) for source in sources]
    assert [one.communicate()[1] for one in started] == [""] * len(sources)


@pytest.mark.parametrize("target", ["checkpoint", "foreign", "json"])
def test_forged_files_are_tried(target, tmp_path):
    done = run(ROOT / "scripts" / "fuzz" / "files.py", target, "--runs", "8", "--folder", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    totals = json.loads(done.stdout)
    assert sum(totals["counts"].values()) == totals["runs"] == 8
    assert totals["hits"] == 0
    assert any((tmp_path / "corpus").iterdir())


def test_deliberate_breaks_fit_the_code():
    """Each has its text once in a file, and names tests and a compiled module that exist."""
    for broken in runpy.run_path(str(ROOT / "scripts" / "mutants" / "__main__.py"))["read"]():
        assert broken.text(ROOT) != (ROOT / broken.file).read_text()
        assert all((ROOT / "tests" / name).is_file() for name in broken.tests), broken.name
        source = ROOT / "cython_src" / broken.compiled.replace(".", "/")
        made = any(source.with_suffix(suffix).is_file() for suffix in (".pyx", ".h"))  # kernels are made from kernels.h
        assert made == broken.file.startswith("cython_src"), broken.name


@pytest.fixture
def judge(monkeypatch):
    """The names in scripts/bench/defaults.py."""
    folder = ROOT / "scripts" / "bench"
    monkeypatch.syspath_prepend(str(folder))
    yield vars(importlib.import_module("defaults"))
    for name in ("defaults", "judged_sets"):
        sys.modules.pop(name)


def test_defaults_are_judged_on_rows_held_out(judge, tmp_path):
    lines = [b"%d\n" % i for i in range(50)]
    drawn = []
    for number in range(2):
        train, held = (path.read_bytes().splitlines(keepends=True) for path in judge["split"](lines, number, tmp_path))
        assert len(held) == 10
        assert sorted(train + held) == sorted(lines)
        drawn.append(held)
    assert drawn[0] != drawn[1]


def test_probabilities_are_judged_by_their_loss_however_they_were_learned(judge):
    logistic, probit, squared = (SimpleNamespace(loss=loss) for loss in ("logistic", "probit", "squared"))
    assert judge["metric_for"](probit, logistic) == "logloss"
    assert judge["metric_for"](squared, logistic) == judge["metric_for"](logistic, squared) == "auc"
    assert judge["metric_for"](squared, squared) == "rmse"


def test_the_judge_of_defaults_goes_on_where_it_was_stopped(judge, tmp_path, monkeypatch, rng):
    rows = tmp_path / "regression" / "diabetes" / "train.std.libsvm"
    rows.parent.mkdir(parents=True)
    rows.write_text("".join(f"{y:.3f} 1:{x:.3f}\n" for y, x in rng.normal(size=(60, 2))))
    results = tmp_path / "results.jsonl"
    arguments = ["run", str(results), str(tmp_path), "--quick", "--sets", "diabetes", "adult"]  # adult is missing
    tried = ["-m linear", "-m fm -e 2", "-m ffm"]  # the last one needs fields
    monkeypatch.setattr(sys, "argv", ["defaults.py", *arguments, *(word for one in tried for word in ("--try", one))])
    judge["main"]()
    first = judge["read"](results)
    assert [one["options"] for one in first] == tried
    assert first[0]["linear"] == [0, 0]
    assert first[1]["value"] > 0
    assert "fields" in first[2]["error"]
    results.write_text("".join(json.dumps(one) + "\n" for one in first[1:]))
    judge["main"]()
    again = judge["read"](results)
    assert again[:2] == first[1:]
    assert [{**one, "seconds": 0} for one in again[2:]] == [{**first[0], "seconds": 0}]


def test_defaults_that_take_long_are_judged_on_one_split(judge):
    lines, quick, slow = [b"1\n"] * 50, {"seconds": 5.0}, {"seconds": 5.1}

    def runs_of(*given):
        return judge["runs_of"](*given, 5.0)

    every = [(split, seed) for split in range(5) for seed in range(3)]
    assert list(runs_of("-m fm", lines, ["-m fm"], quick)) == every
    assert list(runs_of("-m pn", lines, ["-m fm"], quick)) == [(0, 0), (1, 0), (2, 0)]
    for first in (slow, {"error": "it needs fields"}, None):
        assert list(runs_of("-m fm", lines, ["-m fm"], first)) == [(0, 0)]
    assert list(runs_of("-m fm", 1001 * lines, ["-m fm"], quick)) == [(0, 0), (0, 1), (0, 2)]
    assert list(runs_of("-m pn", [b"1" * 10_000_001], ["-m fm"], quick)) == [(0, 0)]


def test_the_table_of_defaults_marks_what_is_clearly_worse(judge):
    def one(options, value, constant, linear=0.0, split=0):
        of_all = {"set": "u1", "split": split, "seed": 0, "options": options, "seconds": 2.0, "metric": "rmse"}
        return {**of_all, "value": value, "constant": [constant, 0.1], "linear": [linear, 0.1]}

    before = [one("-m fm", 1.2, 0.5), one("-m fm", 9.0, 0.5, split=1)]  # no run has the second split now
    runs = [one("-m linear", 1.0, -1.0), one("-m fm", 1.08, 0.25, -0.5), one("-m pn", 1.5, 0.5, 0.35)]
    diverged = {"set": "u1", "split": 0, "seed": 0, "options": "-m ffm", "seconds": 2.0, "value": math.inf}
    lines = list(judge["table"]([*runs, diverged], before))
    cells = {line[:9].strip(): line[9:].split() for line in lines[1:]}
    assert cells["-m linear"] == ["1.0000", "0.00%", "2.00"]
    assert cells["-m fm"] == ["1.0800c", "8.00%", "2.00"]
    assert cells["change"] == ["-10.00%"]
    assert cells["-m pn"] == ["1.5000CL", "50.00%", "2.00"]
    assert cells["-m ffm"] == ["infCL", "900.00%", "2.00"]
    assert "worse than constant: 3 of 4 cells (75.0%) by more than 2 standard errors, 2 by more than 3" in lines
    assert "worse than linear: 2 of 3 cells (66.7%) by more than 2 standard errors, 2 by more than 3" in lines
    assert lines[-1] == "-m fm is behind the best kind by 8.00% in the mean"
