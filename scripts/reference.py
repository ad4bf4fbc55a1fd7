"""Write the files generated from the registry and the commands: the tables of the guide, each between two marks, and
the types of keyword arguments in Python.

python scripts/reference.py     in the root of the repository, with fmcli built in place or installed
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from pathlib import Path

from fmcli.api.parameters import OF_ROWS, PARAMETERS, RENAMED
from fmcli.cli.pages.reference import table
from fmcli.cli.spellings.other_tools import FREE_LETTERS
from fmcli.cli.spellings.translate import SPELLINGS
from fmcli.registry.catalog import catalog
from fmcli.registry.entry import Trial
from fmcli.registry.kinds import ValueKind
from fmcli.registry.losses import LABELS, LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import Option
from fmcli.registry.solvers import SOLVERS
from fmcli.scoring.metrics import METRICS, allowed, default_metrics

PACKAGE = Path(__file__).resolve().parent.parent / "fmcli"
GUIDE, KEYWORDS = PACKAGE / "guide", PACKAGE / "api" / "keywords.py"


def code(words: Iterable[str]) -> str:
    """Words as code: `a`, `b`."""
    return ", ".join(f"`{word}`" for word in words)


def models() -> Iterator[str]:
    """All models, by the solvers that train them."""
    found: dict[tuple[str, str], list[str]] = {}
    for model in catalog()["models"]:
        refused = code(solver for solver in SOLVERS if solver not in model["solvers"])
        found.setdefault((model["solver"], refused), []).append(model["name"])
    yield from table(
        ["model `-m`", "default solver", "not with"],
        ([code(names), code([solver]), refused] for (solver, refused), names in found.items()),
    )


def solvers() -> Iterator[str]:
    """All solvers."""
    yield from table(["solver `-s`", "method"], ([f"`{solver.name}`", solver.help] for solver in SOLVERS.values()))


def losses() -> Iterator[str]:
    """All losses."""
    yield from table(
        ["loss `--loss`", "labels", "default metrics"],
        ([f"`{loss.name}`", LABELS[loss.task], code(default_metrics(loss.name))] for loss in LOSSES.values()),
    )


def metrics() -> Iterator[str]:
    """All metrics, and the losses that they apply to."""
    fits = {name: [loss for loss in LOSSES if name in allowed(loss)] for name in METRICS}
    yield from table(
        ["metric `-x`", "losses", "definition"],
        ([f"`{metric.name}`", shortly(fits[metric.name]), metric.help] for metric in METRICS.values()),
    )


def shortly(some: Collection[str]) -> str:
    """Some losses as code; all losses for two values in words, and all but one loss by the missing loss."""
    missing, binary = set(LOSSES) - set(some), [loss.name for loss in LOSSES.values() if loss.task == "binary"]
    if len(missing) == 1:
        return f"all but {code(missing)}"
    if not set(binary) <= set(some):
        return code(some)
    return ", ".join(filter(None, [LABELS["binary"], code(name for name in some if name not in binary)]))


def spellings() -> Iterator[str]:
    """The options of other tools that are accepted, and the letters that are not used."""
    yield from table(
        ["understood", "from", "means"],
        (
            [
                f"`{f'{flag} {spelling.metavar}'.rstrip()}`",
                spelling.tools,
                code(f"{option} {spelling.fixed or ''}".rstrip() for option in spelling.means),
            ]
            for flag, spelling in SPELLINGS.items()
        ),
    )
    yield ""
    yield (
        f"{code(f'-{letter}' for letter in FREE_LETTERS)} mean different things in different tools, so fmcli refuses "
        "them. For these and other options, the error message names fmcli's option."
    )


def tries() -> Iterator[str]:
    """The values that the quick search tries, and what decides, for the solvers and kinds that have the same."""
    found: dict[tuple[str, Trial], list[str]] = {}
    for entry in (*SOLVERS.values(), *MODELS.values()):
        for name, trial in entry.tries.items():
            found.setdefault((f"--{name.replace('_', '-')}", trial), []).append(entry.name)
    yield from table(
        ["solver or kind", "values tried", "standard errors to win"],
        (
            [code(names), f"`{flag}` {values_of(trial)}".rstrip(), margins_of(trial)]
            for (flag, trial), names in found.items()
        ),
    )


def values_of(trial: Trial) -> str:
    """The values of each path; none of a switch, which is turned on."""
    if trial.paths[0][0] is True:
        return ""
    paths = (", ".join(str(Fraction(value).limit_denominator(1000)) for value in path) for path in trial.paths)
    return ("" if trial.absolute else "times ") + ", or else ".join(paths)


def margins_of(trial: Trial) -> str:
    """The margin of each path."""
    return ", or else ".join(f"{errors:g}" for errors in trial.errors)


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "models": models,
    "solvers": solvers,
    "losses": losses,
    "metrics": metrics,
    "spellings": spellings,
    "tries": tries,
}
# The parameters that only estimators have, or that have another type there.
OF_ESTIMATORS = {"callbacks": "Any", "warm_start": "bool", "verbose": "int", "random_state": "Any"}
MARKS = re.compile(r"(<!-- (?P<part>\w+): [^\n]* -->\n).*?(<!-- end of (?P=part) -->)", re.S)


def written(text: str) -> str:
    """The text of a page with its generated parts updated."""
    return MARKS.sub(lambda found: f"{found[1]}\n{generated(found['part'])}\n\n{found[3]}", text)


def generated(part: str) -> str:
    """The generated text of a part."""
    return "\n".join(PARTS[part]()).strip("\n")


def keywords() -> str:
    """The source of the types of keyword arguments: of fmcli.train, and of estimators."""
    lines = [
        '"""The types of the keyword arguments of training, for type checkers and editors; parameters.py has help.',
        "",
        'Written by scripts/reference.py."""',
        "",
        "from collections.abc import Mapping, Sequence",
        "from os import PathLike",
        "from typing import Any, TypedDict",
        "",
    ]
    types = {name: annotation(choice) for name, choice in PARAMETERS.items()}
    apart = {*OF_ROWS, *RENAMED}
    renamed = {new: types[old] for old, new in RENAMED.items()}
    for name, base, help, own in (
        ("CommonKeywords", "TypedDict", "What fmcli.train and estimators have.", types.keys() - apart),
        ("Keywords", "CommonKeywords", "Keyword arguments of fmcli.train.", apart),
        ("Parameters", "CommonKeywords", "Parameters of estimators.", ()),
    ):
        lines += ["", f"class {name}({base}, total=False):", f'    """{help}"""', ""]
        fields = {one: type for one, type in types.items() if one in own} or {**renamed, **OF_ESTIMATORS}
        lines += [f"    {field}: {type}" for field, type in fields.items()] + [""]
    return "\n".join(lines)


def annotation(choice: Option) -> str:
    """The type of a choice in Python; None means its default."""
    kind = choice.kind.annotation if isinstance(choice.kind, ValueKind) else choice.kind.__name__
    if choice.by_degree:
        kind += f" | list[{kind}]"
    return kind if kind == "Any" else f"{kind} | None"


if __name__ == "__main__":
    for path in sorted(GUIDE.glob("*.md")):
        path.write_text(written(path.read_text()))
    KEYWORDS.write_text(keywords())
