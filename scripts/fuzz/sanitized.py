"""A build of fmcli with AddressSanitizer and UndefinedBehaviorSanitizer, in a separate folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from corpora import ROOT

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "fmcli", "cython_src", "scripts", "tests")
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1"
LIBRARY = "libasan.so"
# Leaks are not detected, because Python does not free its own memory at exit. A small file must not cause a larger
# allocation than the maximum here. A report ends the process by a signal, which no error of the harness does.
ASAN_OPTIONS = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096:abort_on_error=1"
UBSAN_OPTIONS = "print_stacktrace=1:abort_on_error=1"


def build(folder: Path) -> None:
    """Copy the sources, and compile them with sanitizers unless the folder has compiled ones; this takes minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / name, folder / name)
    if any((folder / "fmcli").rglob("*.so")):
        return
    print(f"compiling with sanitizers in {folder}", flush=True)
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "build_ext", "--inplace"]
    flags = dict.fromkeys(("CFLAGS", "CXXFLAGS", "LDFLAGS"), SANITIZE)
    done = subprocess.run(command, cwd=folder, env={**os.environ, **flags}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])


def variables() -> dict[str, str]:
    """The environment variables of a process that uses the build."""
    library = subprocess.check_output(["gcc", f"-print-file-name={LIBRARY}"], text=True).strip()
    return {"LD_PRELOAD": library, "ASAN_OPTIONS": ASAN_OPTIONS, "UBSAN_OPTIONS": UBSAN_OPTIONS}
