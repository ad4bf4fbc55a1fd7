"""The build command: what every compiled module shares, and the choice of the real type.

``FMCLI_REAL=double pip install .`` builds with double parameters and state; the default is float. pyproject.toml cannot
read the environment, and a stale build folder would be reused without a word when the choice changes: both are done
here.
"""

import os
import shlex
from pathlib import Path

from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "cython_src"
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
# What modules include or cimport. One that changes rebuilds every module: none is so slow that a finer list would pay.
SHARED = (".pxd", ".h", ".inl")


class BuildExt(build_ext):
    """Compile all modules as C++17 with one set of flags, and rebuild them when FMCLI_REAL has changed."""

    def finalize_options(self):
        super().finalize_options()
        self.real = os.environ.get("FMCLI_REAL", "float")
        if self.real not in ("float", "double"):
            raise SystemExit(f"FMCLI_REAL is {self.real!r}; it can be float or double")
        # Here and not in pyproject.toml: an editable install makes the command anew without reading that table.
        self.cython_c_in_temp = True
        self.parallel = self.parallel or len(os.sched_getaffinity(0))
        self.cython_directives = DIRECTIVES
        shared = sorted(str(p.relative_to(ROOT)) for p in SOURCES.rglob("*") if p.suffix in SHARED)
        for extension in self.extensions:
            extension.language = "c++"
            extension.include_dirs = [str(SOURCES.relative_to(ROOT)), "cython_src/fmcli/_core"]
            extension.depends = [*shared, "scripts/build_ext.py", "pyproject.toml"]
            # Setuptools puts the builder's own flags first, where ours would override them; the last one counts.
            extension.extra_compile_args = [*FLAGS, *shlex.split(os.environ.get("CXXFLAGS", ""))]
            extension.define_macros = [("FMCLI_REAL", self.real)]

    def run(self):
        stamp = Path(self.build_temp) / "real"
        if not stamp.exists() or stamp.read_text() != self.real:
            self.force = True
            stamp.unlink(missing_ok=True)
        super().run()
        # Written only now: a build that stopped half-way, and commands that only ask this one for its file list, leave
        # no claim behind.
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.real)
