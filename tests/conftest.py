"""Common fixtures, and the choice of the package to test: the checkout if it was built in place, else the installed."""

import atexit
import gc
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# If Python must not keep compiled modules beside their sources, it keeps them in pytest's cache: otherwise, each
# process that the tests start would compile what it imports, which takes longer than most tests.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / ".pytest_cache" / "compiled")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# Matrices are small, and threads that wait for others would take the time of other tests. Commands set this, too.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

# What tests write need not survive the end of the machine, for which each of thousands of files waits for the disk.
os.fsync = lambda descriptor: None

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# `python -m pytest` puts the checkout first on the path. If the checkout was not built in place, its fmcli/ has no
# compiled modules and would hide the installed package, which has them.
if not any((ROOT / "fmcli").rglob("*.so")):
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]

# Subprocesses started by the tests import the same package from any working directory.
PACKAGE = Path(importlib.util.find_spec("fmcli").origin).resolve().parent.parent
os.environ |= {"PYTHONPATH": str(PACKAGE), "PYTHONSAFEPATH": "1"}

# Random inputs have no time limit, so a busy machine causes no failures. HYPOTHESIS_PROFILE=nightly tries many
# more inputs.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


NUMBERS = count()  # of the folders of tests

# Some modules look for what is left at the end of the interpreter. Not before: pytest collects garbage several times at
# its end.
atexit.register(gc.unfreeze)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Unless -n is given, test folders on every core, and single files in one process, which starts sooner.

    Each worker gets modules as a whole, whose imports and fixtures others would repeat, and takes tests from workers
    that are slower.
    """
    if hasattr(config, "workerinput") or not config.pluginmanager.hasplugin("xdist"):
        return  # a worker must not start further workers
    folders = all(Path(argument).is_dir() for argument in config.args)
    if folders and config.option.numprocesses is None:
        config.option.numprocesses = len(os.sched_getaffinity(0))
    if config.option.numprocesses and config.option.dist == "no":
        config.option.dist = "worksteal"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collection, and leave the collected tests out of later collections: each would go
    through the thousands of tests and the modules, and nothing of them is freed before the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the test. Pytest's own fixture looks through the folders of all earlier tests for a free name."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a file of rows that does not exist yet."""
    return str(tmp_path / "rows.svm")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
