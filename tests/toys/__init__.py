"""A toy model, loss, solver and group penalty that follow the recipes of CONTRIBUTING.md: their registry entries and
slow definitions. The Cython module with the toys (pieces.pyx) is compiled when the tests of the recipes run."""

import importlib.util
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from fmcli.kernels.simd import REAL
from fmcli.losses.links import of_probability
from fmcli.registry.losses import LOSSES, LossEntry
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.solvers import SOLVERS, SolverEntry
from reference import slow_losses, slow_solvers
from reference.kinds import KINDS, Kind, affine
from reference.slow_penalties import Group

HERE = Path(__file__).resolve().parent
MODULE = "toy_pieces"

MODEL = ModelEntry(
    "toy-fwfm",
    "FM in which each pair of fields has a weight.",
    f"{MODULE}:FwFM",
    ("rank", "bias", "linear"),
    context=("fields",),
    by_fields=True,
)
LOSS = LossEntry("toy-log-cosh", "log cosh of the error.", f"{MODULE}:LogCosh", task="real", metrics=("rmse", "mae"))
LINKED = LossEntry(
    "toy-cloglog",
    "Complementary log-log loss, for labels with two values.",
    f"{MODULE}:CLogLog",
    task="binary",
    metrics=("logloss", "auc"),
    link="toys:CLOGLOG",
    likelihood=True,
    bounded=False,
)
# Its score is the logarithm of an intensity.
CLOGLOG = of_probability(lambda score: -np.expm1(-np.exp(score)), lambda p: np.log(-np.log1p(-p)))
SOLVER = SolverEntry(
    "toy-rmsprop", "RMSProp.", f"{MODULE}:RMSProp", ("learning_rate", "learning_rate_w", "learning_rate_v")
)


def fwfm(p, x, o):
    """b + <w, x> + sum over pairs of r_{field(i),field(j)} <v_i, v_j> x_i x_j.

    Pairs of a feature with itself, and fields unknown to the model, are skipped.
    """
    total = affine(p, x)
    for (i, f), (j, g) in combinations(x, 2):
        low, high = sorted((f, g))
        if i != j and high < o["fields"]:
            total = (
                total + p["r"][high * (high + 1) // 2 + low] * (p["V"][i] * p["V"][j]).sum(axis=0) * x[i, f] * x[j, g]
            )
    return total


KIND = Kind(
    fwfm, {**KINDS["fm"].arrays, "r": (6,)}, {"fields": 3}, by_field=True, fast=False, starts={"r": 1}, explained=False
)


def log_cosh(y, scores):
    return np.log(np.cosh(scores[0] - y))


def cloglog(y, scores):
    return np.exp(scores[0]) if y < 0 else -np.log(-np.expm1(-np.exp(scores[0])))


def rmsprop(r, g, t, o):
    r.kept["G"] = 0.9 * r.kept["G"] + 0.1 * g**2
    h = (np.sqrt(r.kept["G"]) + 1e-6) / r.rate
    r.phi = r.prox(r.phi - g / h, h)


def largest(v):
    """max |v_i|."""
    return np.abs(v).max(initial=0)


def prox_of_largest(c, d, strength, rest):
    """sign(c) min(|c|/d, t), where t is the larger of max |rest_i| and the root of Σ max(|c| − d t, 0) = λ."""
    excess = lambda t: np.maximum(np.abs(c) - d * t, 0).sum() - strength  # noqa: E731
    least = largest(rest)
    level = least if excess(least) <= 0 else brentq(excess, least, largest(c / d), xtol=1e-15)
    return np.sign(c) * np.minimum(np.abs(c) / d, level)


LARGEST = Group(largest, prox_of_largest)
BY_LARGEST = replace(SOLVER, path=f"{MODULE}:ByLargest")

# The registry tables, each with a toy's name and entry.
LINES = (
    (MODELS, MODEL.name, MODEL),
    (LOSSES, LOSS.name, LOSS),
    (LOSSES, LINKED.name, LINKED),
    (SOLVERS, SOLVER.name, SOLVER),
    (KINDS, MODEL.name, KIND),
    (slow_losses.LOSSES, LOSS.name, log_cosh),
    (slow_losses.LOSSES, LINKED.name, cloglog),
    (slow_losses.PROBABILITY, LINKED.name, lambda score: 1 - np.exp(-np.exp(min(score, 700)))),
    (slow_losses.SMOOTHNESS, LOSS.name, 1.0),
    (slow_solvers.UPDATES, SOLVER.name, rmsprop),
    (slow_solvers.STATE, SOLVER.name, {"G": lambda r, o: 0.0}),
)


def register() -> None:
    """Register the toys. Call this before importing any module that reads these tables on import."""
    for table, name, line in LINES:
        table[name] = line


def compile_pieces(folder: Path) -> None:
    """Compile the toys' module into a folder, optimized so far that building and testing take the least time."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    spec = importlib.util.spec_from_file_location("build_ext", HERE.parent.parent / "scripts" / "build_ext.py")
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    declared = folder / "declared"  # the tree may not have been built in place
    core.derived().write(core.SOURCES, declared)
    pieces = Extension(
        MODULE,
        [str(HERE / "pieces.pyx")],
        include_dirs=[str(core.SOURCES), str(HERE)],
        define_macros=[("FMCLI_REAL", REAL)],
        extra_compile_args=[*core.FLAGS, "-O1", "-w"],
        language="c++",
    )
    translated = cythonize(
        [pieces],
        build_dir=str(folder),
        include_path=[str(core.SOURCES), str(declared)],
        compiler_directives=core.DIRECTIVES,
        shared_utility_qualified_name=core.SHARED,
        quiet=True,
    )
    command = Distribution({"name": MODULE, "ext_modules": translated}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(folder), str(folder / "objects")
    command.ensure_finalized()
    command.run()
