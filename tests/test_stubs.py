"""The type stubs agree with the compiled modules."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import fmcli
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS

PACKAGE = Path(fmcli.__file__).parent
STUBS = {
    ".".join(("fmcli", *path.relative_to(PACKAGE).with_suffix("").parts)): ast.parse(path.read_text())
    for path in PACKAGE.rglob("*.pyi")
}
COMPILED = {
    ".".join(("fmcli", *path.parent.relative_to(PACKAGE).parts, path.name.partition(".")[0]))
    for path in PACKAGE.rglob("*.so")
}


def public(body):
    """Yield (name, definition) of the public names in a stub; constants and attributes only if they are annotated."""
    for node in body:
        if isinstance(node, ast.AnnAssign):
            name = node.target.id
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = node.name
        else:
            continue
        if not name.startswith("_"):
            yield name, node


def parameters(node):
    """Return the names of a function's parameters in order."""
    given = node.args
    groups = (given.posonlyargs, given.args, [given.vararg], given.kwonlyargs, [given.kwarg])
    return [argument.arg for group in groups for argument in group if argument]


def check(owner, name, node):
    real = getattr(owner, name)
    if isinstance(node, ast.FunctionDef) and callable(real):
        assert list(inspect.signature(real).parameters) == parameters(node), f"{owner}.{name}"
    is_property = isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "property" for d in node.decorator_list)
    assert is_property <= (not callable(real)), f"{owner}.{name}"


def test_all_names_in_a_stub_exist():
    for name in STUBS:
        module = importlib.import_module(name)
        for top, node in public(STUBS[name].body):
            assert hasattr(module, top)
            check(module, top, node)
            if not isinstance(node, ast.ClassDef):
                continue
            kind = getattr(module, top)
            bases = {ast.unparse(base) for base in node.bases} or {"object"}
            assert {base.__name__ for base in kind.__bases__} == bases or bases == {"NamedTuple"}
            for member, definition in public(node.body):
                if isinstance(definition, ast.AnnAssign) and bases <= {"object", "Exception"}:
                    continue  # an instance attribute, set in __init__
                check(kind, member, definition)


def test_all_public_functions_and_methods_are_in_the_stub():
    for name in STUBS:
        module = importlib.import_module(name)
        promised = dict(public(STUBS[name].body))
        defined = {key: value for key, value in vars(module).items() if getattr(value, "__module__", None) == name}
        assert {key for key in defined if not key.startswith("_")} <= promised.keys()
        for key, node in promised.items():
            if not isinstance(node, ast.ClassDef):
                continue
            inherited = {member for base in getattr(module, key).__bases__ for member in dir(base)}
            members = {member for member in vars(getattr(module, key)) if not member.startswith("_")}
            assert members - inherited <= dict(public(node.body)).keys(), key


def test_every_compiled_module_that_python_uses_has_a_stub():
    used = {piece.path.partition(":")[0] for table in (MODELS, SOLVERS, LOSSES) for piece in table.values()}
    for path in PACKAGE.rglob("*.py"):
        used.update(re.findall(r"^ *from (fmcli[\w.]*) import ", path.read_text(), re.M))
    assert "fmcli.solvers.stochastic.loop" in used & COMPILED
    assert used & COMPILED <= STUBS.keys()
