"""The memory estimates of runs, compared with the measured peaks of separate processes."""

import importlib.util
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

from fmcli.training.validation import BestEpoch

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("bench_memory", ROOT / "scripts" / "bench" / "memory.py")
memory = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(memory)

# Runs in which different objects take most of the memory: model, solver, shape of the data, further options.
RUNS = {
    "pairs of long rows": ("poly2", "adagrad", "long", []),
    "pairs of long rows in a batch": ("poly2", "ftrl", "long", ["--batch-size", "8"]),
    "columns of pairs": ("poly2", "cd", "long", []),
    "tables of subsets": ("lifted-anova", "adagrad", "long", ["--order", "6"]),
    "tables of running sums, last visits": ("linear", "fobos", "huge", []),
    "records of caches": ("hofm", "cd", "narrow", ["--order", "4"]),
    "a batch of many rows": ("fm", "adagrad", "wide", ["--batch-size", "1024", "-k", "32"]),
    "vectors of the search": ("fm", "lbfgs", "narrow", ["-k", "200"]),
    "fields": ("ffm", "sgd", "wide", ["--holdout", "0.2", "-k", "16"]),
    "anchors": ("llfm", "sgd", "wide", []),
    "sides": ("bilinear", "adagrad", "huge", ["--split-index", "1000"]),
    "square matrices": ("kernel-basis", None, "narrow", ["-k", "700"]),
    "columns of many features": ("linear", "cd", "huge", []),
    "tables of running sums of few steps": ("linear", "fobos", "long", []),
    "rows of anchors by column": ("llfm", "cd", "narrow", ["--anchors", "10", "-e", "1"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("memory"))


@pytest.fixture(scope="module")
def file_of(folder):
    files = {}

    def of(shape):
        if shape not in files:
            files[shape] = memory.write(shape, folder)
        return files[shape]

    return of


@pytest.fixture(scope="module")
def bare(folder):
    """The peak of a nearly empty run that imports the same parts of SciPy as the measured run."""
    peaks = {}

    def of(kind, solver):
        pair = ("llfm" if kind == "llfm" else "fm", "lbfgs" if solver == "lbfgs" else "sgd")
        if pair not in peaks:
            peaks[pair] = memory.baseline(*pair, folder)
        return peaks[pair]

    return of


@pytest.mark.parametrize("what", RUNS)
def test_the_memory_estimate_covers_the_peak(folder, file_of, bare, what):
    kind, solver, shape, extra = RUNS[what]
    options = ["-j", "2", *extra, "-o", f"{folder}/m", file_of(shape)]
    account, peak = memory.run([*memory.kind_of(kind, solver), *options], largest=400e6)
    assert peak is not None, f"an account of {account} bytes is too large for a test"
    peak -= bare(kind, solver)
    assert memory.keeps(account, peak)
    assert not memory.exaggerates(account, peak)


def test_the_best_epoch_is_kept_once():
    """The old snapshot is freed before a better one is taken."""
    alive = weakref.WeakSet()

    class Array:
        pass

    def snapshot():
        assert not alive
        alive.add(kept := Array())
        return [kept]

    validation = SimpleNamespace(
        measure=lambda model: {"auc": 0.5}, chooser="auc", better=lambda new, old: True, patience=1
    )
    best = BestEpoch(validation, SimpleNamespace(snapshot=snapshot), SimpleNamespace(updates=0))
    for number in (1, 2, 3):
        best.evaluate(number)
        assert best.number == number
        assert alive
