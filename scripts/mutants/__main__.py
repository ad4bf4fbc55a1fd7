"""Breaks the code on purpose, and says which breaks the tests find.

It works in a copy of the tree, which is built in place, and whose tests pass. A compiled module is built again without
optimization. A break is caught if a test of the files that breaks.toml names fails. Ends with status 1 if one is
missed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent.parent
BREAKS = Path(__file__).with_name("breaks.toml")
SOURCES = "cython_src"
PATIENCE = 600  # seconds for the tests of a break, which may make a loop endless
# pytest's exit statuses
PASSED, FAILED = 0, 1


@dataclass(frozen=True)
class Break:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    module: str = ""

    @property
    def compiled(self) -> str:
        """The compiled module to build; "": none."""
        if self.file.endswith(".pyx"):
            return ".".join(Path(self.file).relative_to(SOURCES).with_suffix("").parts)
        return self.module

    def text(self, tree: Path) -> str:
        """Return the broken file of a tree. Raises ValueError unless it has the text once."""
        text = (tree / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


def read() -> list[Break]:
    entries = tomllib.loads(BREAKS.read_text())["break"]
    return [Break(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def copied(folder: Path) -> Path:
    """Copy the files of the tree that git knows or would add, the compiled modules, and the folder of the build."""
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    modules = [str(path.relative_to(ROOT)) for path in (ROOT / "fmcli").rglob("*.so")]
    if not modules:
        sys.exit("the tree must be built in place")
    for name in [*listed.split("\0")[:-1], *modules]:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copytree(ROOT / "build", folder / "build")
    # Compiled Python is valid by its source's bytes: by its time, it might survive a break within the same second.
    command = ["-m", "compileall", "-qq", "--invalidation-mode", "checked-hash", "fmcli"]
    subprocess.run([sys.executable, *command], cwd=folder, check=True)
    return folder


def build(tree: Path, module: str) -> None:
    """Build a compiled module of a tree, without optimization. Raises CalledProcessError."""
    environ = os.environ | {"FMCLI_ONLY": module, "CXXFLAGS": "-O0 -w"}
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "build_ext", "--inplace"]
    subprocess.run(command, cwd=tree, env=environ, check=True, capture_output=True, text=True)


def failing(tree: Path, tests: tuple[str, ...]) -> str | None:
    """Return the first of the tests that fails; None if all pass. Raises ValueError if they cannot run."""
    command = [sys.executable, "-m", "pytest", "-qx", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    files = [f"tests/{name}" for name in tests]
    try:
        done = subprocess.run([*command, *files], cwd=tree, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return "a test that does not end"
    if done.returncode == PASSED:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.M)
    if done.returncode != FAILED or not found:
        raise ValueError(done.stdout[-2000:] + done.stderr[-2000:])
    return found[1]


def found_by(tree: Path, broken: Break) -> str | None:
    """Return the test that finds a break, and mend the tree; None if no test finds it."""
    source, module = tree / broken.file, broken.compiled
    kept = [source, *tree.glob(module.replace(".", "/") + ".*.so")] if module else [source]
    bytes_of = {path: path.read_bytes() for path in kept}
    source.write_text(broken.text(tree))
    try:
        if module:
            build(tree, module)
        return failing(tree, broken.tests)
    finally:
        for path, data in bytes_of.items():  # the source first: it is newer than what was made of the broken one
            path.unlink(missing_ok=True)  # another process may have it mapped
            path.write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="a part of the names of the breaks to try (default: all)")
    names = parser.parse_args().name
    chosen = [one for one in read() if not names or any(name in one.name for name in names)]
    if not chosen:
        parser.error(f"no break has a name with {' or '.join(names)}")
    missed = 0
    with TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        for broken in chosen:
            begin = time.monotonic()
            test = found_by(tree, broken)
            missed += test is None
            verdict = f"caught: {broken.name} ({test})" if test else f"MISSED: {broken.name}"
            print(f"{verdict}, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} breaks caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
