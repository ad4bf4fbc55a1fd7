"""The build command: the compiled modules, their shared code, and the choice of the floating-point type.

``FMCLI_REAL=double pip install .`` builds with double parameters and solver state; the default is float. This is done
here because pyproject.toml cannot read the environment, and because the build folder must not be reused if the type
changes. CXXFLAGS follow the flags here, so "-O0 -g" is a build for a debugger. With FMCLI_ONLY, only the module of
this name is built, in a tree whose other modules have been (`scripts/check one MODULE`).
"""

import importlib.util
import os
import re
import shlex
import shutil
import sysconfig
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

from Cython.Build import cythonize
from setuptools import Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "cython_src"
# The declarations for Cython and the tables of kernels that scripts/declarations.py makes from the headers.
GENERATED = ROOT / "build" / "generated"
# Cython writes its code for arrays, about 20,000 lines, into this module once, instead of into each compiled module. It
# is C code without hot loops, and its compiler warnings are disabled (-w) because it is generated.
SHARED = "fmcli.cython_shared"
SHARED_FLAGS = ["-O1", "-g0", "-w"]
# This module does not use the shared module: it is imported before signals are handled, and must not import others.
ALONE = "fmcli.system.interrupt"
DIRECTIVES = {
    "language_level": 3,
    "auto_pickle": False,  # objects hold pointers and cannot be pickled
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "allow_none_for_extension_args": False,  # passing None for an object or an array raises TypeError
}
# -ffp-contract=off: results have the same bits on every instruction set. -fno-gcse: omits a pass of gcc that takes a
# twentieth of the time and speeds up nothing here; clang has no such pass. -Wno-psabi: vectors that are wider than the
# registers are passed only between inlined functions, so the calling convention does not matter.
FLAGS = [
    *("-std=c++17", "-fno-math-errno", "-ffp-contract=off", "-fno-gcse", "-g0"),
    *("-Wall", "-Wextra", "-Wno-psabi", "-Wno-ignored-optimization-argument"),
]
# Kernels, and modules with loops of their own over text, entries or rows, are optimized fully. The others call kernels
# for each sample or row, and are as fast at the lower level, which compiles them in half the time.
HOT = (
    *("fmcli.*kernels", "fmcli.data.*", "fmcli.losses.*", "fmcli.models.second_order.poly2"),
    *("fmcli.scoring.scores", "fmcli.scoring.interleaved", "fmcli.scoring.recommend.*"),
    *("fmcli.solvers.full_batch.*", "fmcli.solvers.rounds.*", "fmcli.solvers.stochastic.batch"),
)
HOT_LEVEL, LEVEL = ["-O3"], ["-O1"]
# The ways in which a source refers to other files: a cimport, or an include of a path below cython_src.
CIMPORT = re.compile(r"^ *(?:from ([\w.]+) cimport|cimport ([\w.]+))", re.MULTILINE)
INCLUDE = re.compile(r"""^ *(?:# *include|cdef extern from) +"([^"]+)\"""", re.MULTILINE)


def derived() -> ModuleType:
    """scripts/declarations.py, which is not on the path when pip builds."""
    spec = importlib.util.spec_from_file_location("declarations", Path(__file__).with_name("declarations.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def modules() -> list[Extension]:
    """A module for every .pyx, with the .cpp files beside it whose names begin as its own."""
    derived().write(SOURCES, GENERATED)
    found = []
    for folder in (GENERATED, SOURCES):  # kernels first: they take longest, and one core would be left with them
        for path in sorted(folder.rglob("*.pyx")):
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            sources = [path, *sorted(path.parent.glob(f"{path.stem}*.cpp"))]
            depends = sorted(set().union(*(needed(source) for source in sources)))
            found.append(Extension(name, list(map(relative, sources)), depends=list(map(relative, depends))))
    return found


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def needed(source: Path) -> set[Path]:
    """All files of the core that a source cimports or includes, directly or indirectly."""
    known: set[Path] = set()
    new = {source, source.with_suffix(".pxd")}
    while new:
        path = new.pop()
        if path in known or not path.is_file():
            continue
        known.add(path)
        text = path.read_text()
        for modules in CIMPORT.findall(text):
            name = "/".join("".join(modules).split("."))
            new |= {(folder / name).with_suffix(".pxd") for folder in (SOURCES, GENERATED)}
        new |= {SOURCES / include for include in INCLUDE.findall(text)}
    return known - {source}


def level_of(module: str) -> list[str]:
    return HOT_LEVEL if any(fnmatch(module, name) for name in HOT) else LEVEL


def pythons_flags() -> list[str]:
    """The flags with which Python itself was compiled, such as -fwrapv. Setuptools omits them if CXXFLAGS is set; else
    the list is empty."""
    return shlex.split(sysconfig.get_config_var("CFLAGS") or "") if "CXXFLAGS" in os.environ else []


def cores() -> int:
    """The number of processors that the build may use; only some systems, such as Linux, have affinity masks."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BuildExt(build_ext):
    """Compile all modules as C++17 with the same flags. All are recompiled if FMCLI_REAL or this file has changed."""

    def finalize_options(self):
        self.only = os.environ.get("FMCLI_ONLY", "")
        found = [Extension(SHARED, []), *modules()]
        self.distribution.ext_modules = [one for one in found if not self.only or one.name in (SHARED, self.only)]
        if self.only and len(self.distribution.ext_modules) < 2:
            raise SystemExit(f"there is no compiled module {self.only}")
        super().finalize_options()
        self.real = os.environ.get("FMCLI_REAL", "float")
        if self.real not in ("float", "double"):
            raise SystemExit(f"FMCLI_REAL is {self.real!r}; it can be float or double")
        # Not set in pyproject.toml, because an editable install creates this command without reading that table.
        self.parallel = self.parallel or cores()
        for extension in self.extensions:
            if extension.name == SHARED:
                extension.extra_compile_args = SHARED_FLAGS
                continue
            extension.language = "c++"
            extension.include_dirs = [relative(SOURCES)]
            extension.depends = [*extension.depends, "scripts/build_ext.py"]
            # Setuptools puts CXXFLAGS before these flags, which would override them; they are repeated at the end.
            own = [*level_of(extension.name), *FLAGS]
            extension.extra_compile_args = [*pythons_flags(), *own, *shlex.split(os.environ.get("CXXFLAGS", ""))]
            extension.define_macros = [("FMCLI_REAL", self.real)]

    def run(self):
        if self.only:
            super().run()
            return
        stamp = Path(self.build_temp) / "real"
        changed = not stamp.exists() or stamp.stat().st_mtime < Path(__file__).stat().st_mtime
        if changed or stamp.read_text() != self.real:
            self.force = True
            stamp.unlink(missing_ok=True)
        super().run()
        # Written last, so neither an interrupted build nor a command that only lists files marks the build as
        # complete.
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.real)

    def require_compiler(self):
        """Exit if there is no compiler, before a translation that takes a minute."""
        commands = {self.compiler.compiler_so[0], self.compiler.compiler_cxx[0]}
        missing = sorted(command for command in commands if not shutil.which(command))
        if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
            missing.append("Python.h")
        if missing:
            raise SystemExit(
                f"fmcli is compiled from C++, but {' and '.join(missing)} cannot be found; install a C++ compiler and "
                "the headers of Python (Debian, Ubuntu: apt install g++ python3-dev; macOS: xcode-select --install)"
            )

    def build_extensions(self):
        """Translate all modules to C++ in the folder of temporary files, and compile them.

        The translation uses one process for each core. The threads of the command cannot be used, because there modules
        would wait for each other, and Cython cannot write the shared module at the same time as others.
        """
        self.require_compiler()
        alone = [extension for extension in self.extensions if extension.name == ALONE]
        others = [extension for extension in self.extensions if extension.name != ALONE]
        for extensions, shared in ((others, SHARED), (alone, None)):
            translated = cythonize(
                extensions,
                nthreads=self.parallel,
                force=bool(self.force),
                build_dir=self.build_temp,
                include_path=[relative(SOURCES), relative(GENERATED)],
                compiler_directives=DIRECTIVES,
                shared_utility_qualified_name=shared,
            )
            for extension, source in zip(extensions, translated, strict=True):
                extension.sources = source.sources
        super().build_extensions()
