"""The folders of the package: the allowed imports between them and between their modules."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import pytest

import fmcli

ROOT = Path(__file__).resolve().parent.parent
SIDES = (ROOT / "fmcli", ROOT / "cython_src" / "fmcli")
# The modules of the package that one module imports.
MOST_IMPORTS = 38
# In the order of the package's docstring: each folder imports only earlier ones.
ORDER = re.findall(
    r"^    ([a-z_]+)  +\S", fmcli.__doc__.partition("The folders")[2].partition("errors.py")[0], re.MULTILINE
)
COMPILED = re.compile(r"^ *(?:from (fmcli[\w.]*) c?import (.+)|cimport (fmcli[\w.]*))", re.MULTILINE)
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi")
HEADERS = (".h", ".inl", ".cpp")
INCLUDE = re.compile(r"""^ *(?:# *include|cdef extern from) +"(fmcli/[^"]+)\"""", re.MULTILINE)


@cache
def sources():
    return [path for side in SIDES for path in side.rglob("*") if path.suffix in (*SUFFIXES, *HEADERS)]


@cache
def imported(path, types=False):
    """Return the dotted names of the modules of fmcli that a source imports, without imports under TYPE_CHECKING unless
    with `types`, and of the files that it includes."""
    return [name for name, typing in names_in(path) if name.startswith("fmcli.") and (types or not typing)]


@cache
def names_in(path):
    """Return the dotted names of all modules that a source imports, each with whether the import is under
    TYPE_CHECKING, and of the files that it includes."""
    if path.suffix in (".py", ".pyi"):
        return [*names_in_python(path)]
    return [(name, False) for name in names_in_others(path)]


def names_in_others(path):
    text = path.read_text()
    yield from (name.replace("/", ".") for name in INCLUDE.findall(text))
    if path.suffix in HEADERS:
        return
    if path.suffix in (".pyx", ".pxd"):
        for module, names, alone in COMPILED.findall(text):
            yield alone or module
            if module:
                yield from (f"{module}.{name.strip()}" for name in names.split(","))


def names_in_python(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    typing = {id(node) for test in nodes if is_type_checking(test) for node in ast.walk(test)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield node.module, id(node) in typing
            yield from ((f"{node.module}.{alias.name}", id(node) in typing) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in typing) for alias in node.names)


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def folders(path):
    """Return the folders of the package that a source is in, from the outermost on."""
    side = next(side for side in SIDES if path.is_relative_to(side))
    return path.relative_to(side).parent.parts


def folder(path):
    """Return the top-level folder of the package that a source is in, or None."""
    return next(iter(folders(path)), None)


def test_the_docstring_lists_every_folder():
    assert sorted(ORDER) == sorted({folder(path) for path in sources()} - {None})


def test_the_docstring_names_files_that_exist():
    files = [path.as_posix() for path in (*sources(), *(ROOT / "scripts").glob("*.py"))]
    for name in re.findall(r"[\w/]+\.(?:pyx|pyi|pxd|py|inl|h)\b", fmcli.__doc__):
        assert any(file.endswith(f"/{name}") for file in files), name


@pytest.mark.parametrize("name", ORDER)
def test_a_folder_imports_only_those_before_it(name):
    allowed = ORDER[: ORDER.index(name) + 1]
    for path in sources():
        if folder(path) != name:
            continue
        used = {module.split(".")[1] for module in imported(path)}
        assert not (used & set(ORDER)) - set(allowed), path


def test_the_picture_shows_the_layers_and_the_values_of_a_run():
    """A folder imports only from layers below its own; the modules of the values have their classes."""
    svg = "{http://www.w3.org/2000/svg}"
    picture = ElementTree.parse(ROOT / "scripts/rooms.svg").getroot()
    layers = [
        [span.text for span in layer.iter(f"{svg}tspan") if span.get("class") == "room"]
        for layer in picture.iter(f"{svg}g")
        if layer.get("class") == "layer"
    ]
    level = {name: -place for place, layer in enumerate(layers) for name in layer}
    assert sorted(level) == sorted(ORDER)
    for path in sources():
        for module in imported(path):
            used = module.split(".")[1]
            if folder(path) and used in level and used != folder(path):
                assert level[used] < level[folder(path)], (path, module)
    values = [value for value in picture.iter(f"{svg}g") if value.get("class") == "value"]
    assert len(values) == 5
    for value in values:
        name, _, module = (text.text for text in value.iter(f"{svg}text"))
        assert hasattr(importlib.import_module("fmcli." + module.removesuffix(".py").replace("/", ".")), name)


def test_no_folders_import_each_other_in_a_circle():
    """A folder and one within it are two: either imports the other, directly or through further ones, or neither."""
    used = {folders(path): set() for path in sources()}
    for path in sources():
        for module in imported(path):
            parts = tuple(module.split(".")[1:])
            while parts and parts not in used:
                parts = parts[:-1]
            if parts and parts != folders(path):
                used[folders(path)].add(parts)
    TopologicalSorter(used).prepare()  # raises CycleError, with the circle


@cache
def used_modules():
    """Return for each module the modules that it imports, also for types and within functions. `fmcli` itself, which
    has the interface for Python and the version, does not count."""
    used = {}
    for path in sources():
        if path.suffix in SUFFIXES:
            name = ".".join((*folders(path), path.stem)).removesuffix(".__init__")
            used.setdefault(name, set()).update(one.removeprefix("fmcli.") for one in imported(path, types=True))
    for name, modules in used.items():
        for module in list(modules):
            while module not in used and "." in module:
                modules.discard(module)
                module = module.rpartition(".")[0]
            modules.add(module)
        modules -= {name, "__init__"}
    return used


def test_no_modules_import_each_other_in_a_circle():
    TopologicalSorter(used_modules()).prepare()  # raises CycleError, with the circle


def test_no_module_needs_too_many_others():
    for name, modules in used_modules().items():
        assert len(modules) <= MOST_IMPORTS, name


def test_no_two_classes_of_python_have_one_name():
    texts = [path.read_text() for path in sources() if path.suffix == ".py"]
    names = Counter(name for text in texts for name in re.findall(r"^class (\w+)", text, re.MULTILINE))
    assert not {name for name, times in names.items() if times > 1}


def test_what_all_may_import_imports_no_folder():
    for path in sources():
        if folder(path) is None and path.name not in ("__init__.py", "__main__.py"):
            assert not {module.split(".")[1] for module in imported(path)} & set(ORDER)


def test_predicting_imports_only_what_it_needs(tmp_path):
    code = """
import sys
before = set(sys.modules)
from fmcli.scoring.prediction import predict
import fmcli.cli.predict
others = ("fmcli.training", "fmcli.solvers", "concurrent", "logging", "shutil", "tempfile")
sys.exit(sorted(name for name in sys.modules.keys() - before if name.startswith(others)) or None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr


# A flag of fmcli in a message, such as "leave out -i" or "use --loss squared"; command lines; and a flag of the table.
FLAG = re.compile(r"(?<!ulimit)(?:^|[\s(])--?[a-z]")
COMMAND_LINE, A_FLAG = re.compile(r"\b(fmcli|dask worker|ulimit) "), re.compile(r"--?[a-z-]+")


def test_the_compiled_core_names_no_flags():
    """Errors of the core have the names of options; the command replaces them by flags."""
    for path in (ROOT / "cython_src").rglob("*.pyx"):
        for line in path.read_text().splitlines():
            assert not re.search(r"""["'][^"']* ?--[a-z]""", line.partition("  #")[0]), f"{path}: {line}"


def test_no_module_below_the_commands_spells_out_flags():
    """Messages and helps of these modules have the names of choices. Only command lines have flags, and the table that
    gives each choice its flags."""
    for path in SIDES[0].rglob("*.py"):
        if folder(path) in (None, "cli"):
            continue
        text = path.read_text()
        if not FLAG.search(text):
            continue
        tree = ast.parse(text)
        expressions = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        spelled = [node.value for node in texts if id(node) not in expressions and FLAG.search(node.value)]
        spelled = [text for text in spelled if not COMMAND_LINE.search(text) and not A_FLAG.fullmatch(text)]
        assert not spelled, path
