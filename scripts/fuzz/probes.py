"""Coverage of Python modules, which costs nothing once it is known.

A module is compiled with a probe at the beginning of each block and of each part of a condition that may not be
evaluated. A probe is a call that tells the place. Places that an earlier run has reached get none, so a guided
run is as fast as one that is not, but for the places that are still to be found.
"""

import ast
import sys
from collections.abc import Callable, Collection, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

REACHED = "__reached__"
BLOCKS = ("body", "orelse", "finalbody")


class Instrument(ast.NodeTransformer):
    """Puts probes into the source of a module, except at known places."""

    def __init__(self, module: str, known: Collection[str]) -> None:
        self.module, self.known, self.places = module, known, 0

    def probe(self) -> ast.Call | None:
        """A call that tells the next place, and whose value is false; None at a known place."""
        self.places += 1
        place = f"{self.module}:{self.places}"
        return None if place in self.known else ast.Call(ast.Name(REACHED, ast.Load()), [ast.Constant(place)], [])

    def probed(self, expression: ast.expr) -> ast.expr:
        """The expression, before which a probe is evaluated."""
        probe = self.probe()
        return expression if probe is None else ast.BoolOp(ast.Or(), [probe, expression])

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if not isinstance(node, (ast.Module, ast.ClassDef)):
            for name in BLOCKS:
                block = getattr(node, name, None)
                if isinstance(block, list) and block and (probe := self.probe()) is not None:
                    block.insert(int(has_docstring(block)), ast.Expr(probe))
        match node:
            case ast.IfExp():
                node.body, node.orelse = self.probed(node.body), self.probed(node.orelse)
            case ast.Lambda():
                node.body = self.probed(node.body)
            case ast.BoolOp():
                node.values[1:] = [self.probed(value) for value in node.values[1:]]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                node.elt = self.probed(node.elt)
            case ast.DictComp():
                node.key = self.probed(node.key)
        return node


def has_docstring(block: list[ast.stmt]) -> bool:
    first = block[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)


class Loader(SourceFileLoader):
    """Loads a module with probes."""

    def __init__(self, name: str, path: str, known: Collection[str], reached: Callable[[str], None]) -> None:
        super().__init__(name, path)
        self.known, self.reached = known, reached

    def get_code(self, fullname: str) -> CodeType:
        tree = Instrument(fullname, self.known).visit(ast.parse(self.get_data(self.path)))
        code: CodeType = compile(ast.fix_missing_locations(tree), self.path, "exec")
        return code

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, REACHED, self.reached)
        super().exec_module(module)


class Finder:
    """Finds the modules that get probes, by their names or their packages' names."""

    def __init__(self, names: Collection[str], known: Collection[str], reached: Callable[[str], None]) -> None:
        self.names, self.known, self.reached = frozenset(names), known, reached

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if self.names.isdisjoint((name, name.rpartition(".")[0])):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(name, spec.loader.path, self.known, self.reached)
        return spec


def watch(names: Collection[str], known: Collection[str]) -> set[str]:
    """Put probes into modules that will be imported. Returns the set into which they write the places reached."""
    reached: set[str] = set()
    sys.meta_path.insert(0, Finder(names, known, reached.add))
    return reached
