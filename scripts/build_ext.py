"""The build command: which modules are compiled, what they share, and the choice of the real type.

``FMCLI_REAL=double pip install .`` builds with double parameters and state; the default is float. pyproject.toml cannot
read the environment, and a stale build folder would be reused without a word when the choice changes: both are done
here.
"""

import os
import re
import shlex
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "cython_src"
# Cython writes its code for arrays, some 20,000 lines, once into this module instead of into each module of the core.
# It is C, none of it is a hot loop, and what a compiler warns of there (-w) cannot be mended here.
SHARED = "fmcli.cython_shared"
SHARED_FLAGS = ["-O1", "-g0", "-w"]
# But not for this one: it is imported before signals are handled, and therefore imports nothing.
ALONE = "fmcli.system.interrupt"
DIRECTIVES = {
    "language_level": 3,
    "auto_pickle": False,  # objects of the core hold pointers: pickle refuses them without code for it
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "allow_none_for_extension_args": False,  # None where an object or an array must be is a TypeError
}
# -ffp-contract=off: every instruction set gives the same bits. -Wno-psabi: vectors wider than the machine's are passed
# between inlined functions only, so how an ABI would pass them does not matter.
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-ffp-contract=off", "-g0", "-Wall", "-Wextra", "-Wno-psabi"]
# How a source names others: by a cimport, or by an include of a path below cython_src.
CIMPORT = re.compile(r"^ *(?:from ([\w.]+) cimport|cimport ([\w.]+))", re.MULTILINE)
INCLUDE = re.compile(r"""^ *(?:# *include|cdef extern from) +"([^"]+)\"""", re.MULTILINE)


def modules() -> list[Extension]:
    """A module for every .pyx below cython_src, with the .cpp files of its folder if it is the only module there."""
    found = []
    for path in sorted(SOURCES.rglob("*.pyx")):
        alone = len(list(path.parent.glob("*.pyx"))) == 1
        sources = [path, *(sorted(path.parent.glob("*.cpp")) if alone else ())]
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        depends = sorted(set().union(*(needed(source) for source in sources)))
        found.append(Extension(name, [relative(source) for source in sources], depends=[relative(d) for d in depends]))
    return found


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def needed(source: Path) -> set[Path]:
    """All files below cython_src that a source cimports or includes, directly or through others."""
    known: set[Path] = set()
    new = {source, source.with_suffix(".pxd")}
    while new:
        path = new.pop()
        if path in known or not path.is_file():
            continue
        known.add(path)
        text = path.read_text()
        for modules in CIMPORT.findall(text):
            new.add((SOURCES / "/".join("".join(modules).split("."))).with_suffix(".pxd"))
        new |= {SOURCES / include for include in INCLUDE.findall(text)}
    return known - {source}


def pythons_flags() -> list[str]:
    """The flags with which Python itself was compiled, such as -fwrapv, if setuptools leaves them out: it does where
    CXXFLAGS is set."""
    return shlex.split(sysconfig.get_config_var("CFLAGS") or "") if "CXXFLAGS" in os.environ else []


class BuildExt(build_ext):
    """Compile the core as C++17 with one set of flags, and all of it anew when FMCLI_REAL or this file has changed."""

    def finalize_options(self):
        self.distribution.ext_modules = [Extension(SHARED, []), *modules()]
        super().finalize_options()
        self.real = os.environ.get("FMCLI_REAL", "float")
        if self.real not in ("float", "double"):
            raise SystemExit(f"FMCLI_REAL is {self.real!r}; it can be float or double")
        # Here and not in pyproject.toml: an editable install makes the command anew without reading that table.
        self.parallel = self.parallel or len(os.sched_getaffinity(0))
        for extension in self.extensions:
            if extension.name == SHARED:
                extension.extra_compile_args = SHARED_FLAGS
                continue
            extension.language = "c++"
            extension.include_dirs = [relative(SOURCES)]
            extension.depends = [*extension.depends, "scripts/build_ext.py"]
            # Setuptools puts the builder's own flags first, where ours would override them; the last one counts.
            extension.extra_compile_args = [*pythons_flags(), *FLAGS, *shlex.split(os.environ.get("CXXFLAGS", ""))]
            extension.define_macros = [("FMCLI_REAL", self.real)]

    def run(self):
        stamp = Path(self.build_temp) / "real"
        changed = not stamp.exists() or stamp.stat().st_mtime < Path(__file__).stat().st_mtime
        if changed or stamp.read_text() != self.real:
            self.force = True
            stamp.unlink(missing_ok=True)
        super().run()
        # Written only now: a build that stopped half-way, and commands that only ask this one for its file list, leave
        # no claim behind.
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.real)

    def build_extensions(self):
        """Translate all modules to C++ in the folder of temporary files, and compile them.

        The translation uses a process for each core: in the threads of the command, one module waits for another, and
        Cython cannot write the shared module beside others.
        """
        alone = [extension for extension in self.extensions if extension.name == ALONE]
        others = [extension for extension in self.extensions if extension.name != ALONE]
        for extensions, shared in ((others, SHARED), (alone, None)):
            translated = cythonize(
                extensions,
                nthreads=self.parallel,
                force=bool(self.force),
                build_dir=self.build_temp,
                include_path=[relative(SOURCES)],
                compiler_directives=DIRECTIVES,
                shared_utility_qualified_name=shared,
            )
            for extension, source in zip(extensions, translated, strict=True):
                extension.sources = source.sources
        super().build_extensions()
