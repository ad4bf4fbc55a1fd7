"""The build: the contents of the sdist, the compiled modules, and the choice of the real type."""

import fnmatch
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

import fmcli

ROOT = Path(__file__).resolve().parent.parent
TOP = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE")
FOLDERS = ("fmcli", "cython_src", "tests", "sample_data", "scripts", ".ci", ".github")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the sources, so the build writes nothing into the checkout."""
    copy = tmp_path_factory.mktemp("build") / "fmcli"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in TOP:
        shutil.copy(ROOT / name, copy)
    return copy


@cache
def build_script():
    spec = importlib.util.spec_from_file_location("build_script", ROOT / "scripts" / "build_ext.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def modules():
    return build_script().modules()


def run_python(code, *arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


BUILD = """
import sys
from setuptools import setup
from setuptools.build_meta import build_sdist
folder = sys.argv[1]  # which the next line changes
build_sdist(folder)
setup(script_args=["--quiet", "build_py", "--build-lib", folder])
"""


def test_the_sdist_holds_every_source_and_the_package_the_guide(checkout, tmp_path):
    sources = {str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_file()}
    done = run_python(BUILD, str(tmp_path), cwd=checkout)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("fmcli_train-*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()}
    assert {"scripts/check", ".ci/run", "cython_src/fmcli/base/types.h", "tests/test_build.py"} <= held
    assert sources - held == set()
    assert {name for name in held - sources if "egg-info" not in name} == {"PKG-INFO", "setup.cfg"}
    assert {path.name for path in (tmp_path / "fmcli" / "guide").iterdir()} == {
        path.name for path in (ROOT / "fmcli" / "guide").iterdir()
    }


def test_the_version_is_stated_once(checkout):
    """The version is in fmcli/__init__.py, where the build reads it."""
    stated = [
        str(path.relative_to(checkout))
        for path in [*checkout.glob("*.*"), *(checkout / "fmcli").rglob("*.py")]
        if path.is_file() and re.search(r"^[\W_]*version[\W_]*[:=]\s*.?\d", path.read_text(), re.M)
    ]
    assert stated == ["fmcli/__init__.py"]
    code = "from setuptools import Distribution as D; d = D(); d.parse_config_files(); print(d.get_version())"
    done = run_python(code, cwd=checkout)
    assert done.stdout.strip() == fmcli.__version__, done.stderr


def test_nothing_installs_the_stranger_of_the_same_name(checkout):
    """The distribution fmcli of the package index is another program."""
    files = [path for folder in ("fmcli", ".ci", ".github") for path in (checkout / folder).rglob("*")]
    texts = [
        path.read_text()
        for path in [*files, *checkout.glob("*.*")]
        if path.suffix in ("", ".py", ".md", ".yml") and path.is_file()
    ]
    assert sum(text.count("pip install") for text in texts) > 10
    for text in texts:
        assert not re.search(r"fmcli\[[a-z]|pip install [-\w ]*['\"]?fmcli(?!-train)\b", text)
    names = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (names["name"], names["scripts"]) == ("fmcli-train", {"fmcli": "fmcli.__main__:main"})


def test_all_files_name_the_same_python_versions():
    """The Python versions are the same in the classifiers, the wheels, and both parts of continuous integration."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    minors = [m[1] for c in project["project"]["classifiers"] if (m := re.search(r":: 3\.(\d+)$", c))]
    assert project["project"]["requires-python"] == f">=3.{minors[0]}"
    assert project["tool"]["cibuildwheel"]["build"] == [f"cp3{minor}-*" for minor in minors]
    assert re.findall(r"\bpython3\.(\d+)", (ROOT / ".ci" / "run").read_text()) == minors
    assert sorted(re.findall(r"^ +3\.(\d+)$", (ROOT / ".github/workflows/tests.yml").read_text(), re.M)) == minors


def test_every_source_is_compiled_or_needed_by_one_that_is():
    found = modules()
    sources = [source for module in found for source in module.sources]
    assert len(sources) == len(set(sources))
    used = {*sources, *(needed for module in found for needed in module.depends)}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "cython_src").rglob("*") if path.is_file()}
    generated = str(build_script().GENERATED.relative_to(ROOT))
    assert {path for path in there if Path(path).name != "__init__.pxd"} == {
        path for path in used if not path.startswith(generated)
    }


def test_a_module_depends_on_what_it_includes_and_on_nothing_else():
    depends = {module.name: {Path(path).name for path in module.depends} for module in modules()}
    assert {"types.h", "row_updates.inl", "vector.h"} <= depends["fmcli.solvers.stochastic.kernels"]
    assert {"types.h", "anova.inl", "vector.h"} <= depends["fmcli.models.polynomial.kernels"]
    assert {"solver.pxd", "parameters.pxd", "kernels.h"} <= depends["fmcli.solvers.stochastic.sgd"]
    assert depends["fmcli.data.numbering"] == {"numbering.pxd"}
    assert "row_updates.inl" not in depends["fmcli.solvers.stochastic.sgd"]


KERNEL_ROOMS = ("models", "models.polynomial", "penalties", "solvers.coordinate", "solvers.stochastic")


def test_a_new_kernel_rebuilds_its_own_folder_only():
    """The list of kernels of a folder is read by its own modules, and by modules that call one of its kernels."""
    depends = {module.name: set(module.depends) for module in modules()}
    for room in KERNEL_ROOMS:
        header = f"cython_src/fmcli/{room.replace('.', '/')}/kernels.h"
        outside = [name for name, needed in depends.items() if header in needed and room not in name]
        assert len(outside) <= 2, outside


def test_no_call_of_a_function_that_prefetches_can_be_dropped():
    # GCC takes a function that only prefetches for one without an effect, and removes its calls, unless it is always
    # inlined or called by a pointer, as kernels, virtual functions and methods of Cython that are not inline.
    direct = re.compile(r"^(?: +|(?:static )?inline ).*\bvoid prefetch\w*\(.*\{|cdef inline void prefetch_")
    safe = re.compile(r"always_inline|virtual|override")
    lines = [
        (path.name, line)
        for path in sorted((ROOT / "cython_src").rglob("*"))
        if path.suffix in (".h", ".inl", ".pyx", ".pxd")
        for line in path.read_text().splitlines()
        if direct.search(line)
    ]
    assert len(lines) > 5
    assert [line for line in lines if not safe.search(line[1])] == []


def test_no_struct_is_declared_twice():
    """Cython's declarations of structs that folders exchange are derived from the headers, not written by hand."""
    derived = build_script().derived().files(ROOT / "cython_src")
    structs = set(re.findall(r"^    ctypedef struct (\w+):", "\n".join(text for _, text in derived), re.M))
    assert {"Sample", "Anova", "BucketSpace", "ModelKernels"} <= structs
    for path in [*(ROOT / "cython_src").rglob("*.pxd"), *(ROOT / "cython_src").rglob("*.pyx")]:
        again = structs & set(re.findall(r"^    (?:ctypedef |cdef )?struct (\w+):", path.read_text(), re.M))
        assert not again, path


HEADER = """
#include "fmcli/base/types.h"
enum { FEW = 2, MANY };  // constants
template <class T>
struct PairOf {
    T left, right;
};
typedef PairOf<double> ExactPair;
typedef struct Loop {
    const double *label, *weight;  // NULL: all 1
    ptrdiff_t end[MANY];
    bool (*f)(void* self, ptrdiff_t i);
} Loop;
static inline __attribute__((always_inline)) ptrdiff_t last(const Loop* loop, bool whole) {
    enum { INSIDE = 1 };
    if (whole) {
        return INSIDE;
    }
    return 0;
}
static inline int one(int a) { return a; }
"""
DECLARED = """
cdef extern from "fmcli/x.h" nogil:
    enum:
        FEW
        MANY
    ctypedef struct ExactPair:
        double left
        double right
    ctypedef struct Loop:
        const double* label
        const double* weight
        Py_ssize_t end[MANY]
        bint (*f)(void* self, Py_ssize_t i) noexcept nogil
    Py_ssize_t last(const Loop* loop, bint whole)
    int one(int a)
"""


def test_the_declarations_follow_the_header():
    declared = build_script().derived().declarations(HEADER, "fmcli/x.h", {"fmcli/base/types.h"})
    assert declared.partition("\n\n")[2] == DECLARED
    assert "\nfrom fmcli.base.types cimport *\n" in declared


def test_unchanged_declarations_are_not_written_again(tmp_path):
    """Otherwise each build would compile all modules that use them."""
    write = build_script().derived().write
    write(ROOT / "cython_src", tmp_path)
    stale = tmp_path / "fmcli" / "gone.pxd"
    stale.touch()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.p*")} | {stale: None}
    write(ROOT / "cython_src", tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.p*")} | {stale: None} == before
    assert not stale.exists()


def test_every_folder_with_modules_is_a_package():
    """Otherwise it is not installed, or Cython does not find its declarations."""
    for folder in {path.parent for path in (ROOT / "cython_src" / "fmcli").rglob("*.pyx")}:
        assert (folder / "__init__.pxd").is_file()
    for folder in {path.parent for path in (ROOT / "fmcli").rglob("*.py*") if path.suffix in (".py", ".pyi")}:
        assert (folder / "__init__.py").is_file()


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A function that simulates a build for a real type and returns whether all modules would have been rebuilt."""
    stops = False

    def compile_nothing(command):
        if stops:
            raise KeyboardInterrupt

    monkeypatch.setattr(build_ext, "run", compile_nothing)
    monkeypatch.setattr(build_script(), "modules", list)  # which are not asked for

    def build(real, run=True, stop=False):
        nonlocal stops
        stops = stop
        monkeypatch.setenv("FMCLI_REAL", real)
        command = build_script().BuildExt(Distribution())
        command.build_temp, command.build_lib = str(tmp_path / "temp"), str(tmp_path / "lib")
        command.finalize_options()
        if run:
            command.run()
        return bool(command.force)

    return build


def test_an_unknown_real_type_is_refused(build):
    with pytest.raises(SystemExit, match="FMCLI_REAL is 'half'; it can be float or double"):
        build("half")


def test_another_real_type_rebuilds_everything(build):
    """Only asking the build command for its files changes nothing."""
    assert [build(real) for real in ("float", "float", "double")] == [True, False, True]
    build("float", run=False)
    assert [build(real) for real in ("double", "float")] == [False, True]


def test_a_missing_compiler_is_named_before_anything_is_translated(monkeypatch):
    monkeypatch.setattr(build_script(), "cythonize", lambda *arguments, **options: pytest.fail("translated"))
    command = build_script().BuildExt(Distribution())
    command.compiler = SimpleNamespace(compiler_so=["no-such-cc", "-O2"], compiler_cxx=[sys.executable])
    with pytest.raises(SystemExit, match=r"no-such-cc cannot be found; install a C\+\+ compiler"):
        command.build_extensions()


def test_every_hot_module_exists():
    """Otherwise a module that has moved would be slower without a word."""
    script = build_script()
    names = [module.name for module in modules()]
    for name in script.HOT:
        assert fnmatch.filter(names, name), name
    assert all(script.level_of(f"fmcli.{room}.kernels") == script.HOT_LEVEL for room in KERNEL_ROOMS)
    assert script.level_of("fmcli.models.second_order.fm") == script.LEVEL


def test_the_builders_flags_come_last(monkeypatch):
    monkeypatch.setattr(build_script(), "modules", lambda: deepcopy(modules()))  # which get flags
    monkeypatch.setenv("CXXFLAGS", "-O0 '-DNAME=a b'")
    distribution = Distribution({"ext_modules": [Extension("name", ["name.pyx"])]})
    build_script().BuildExt(distribution).ensure_finalized()
    extension = distribution.ext_modules[-1]
    assert extension.extra_compile_args[-2:] == ["-O0", "-DNAME=a b"]
    assert "-O3" in extension.extra_compile_args
    assert extension.extra_compile_args[0] == sysconfig.get_config_var("CFLAGS").split()[0]  # setuptools drops them


@pytest.mark.parametrize("next_real", ["float", "double"])
def test_after_a_build_that_stopped_half_way_all_is_rebuilt(build, next_real):
    build("float")
    with pytest.raises(KeyboardInterrupt):
        build("double", stop=True)
    assert build(next_real)


def test_the_source_folder_without_compiled_modules_says_what_to_do(checkout, tmp_path):
    shutil.copytree(checkout / "fmcli", tmp_path / "fmcli")
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    command = [sys.executable, "-m", "fmcli", "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fmcli: error: {tmp_path} has fmcli's source, but no compiled modules")
    assert f"python -m pip install {tmp_path}\n" in done.stderr
    assert "Traceback" not in done.stderr
