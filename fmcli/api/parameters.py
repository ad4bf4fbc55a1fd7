"""The keyword parameters of training, from one table for functions and estimators: names, defaults, and docs.

The options of the registry are parameters under their names, so that a new one appears by itself.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, Signature, signature
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from fmcli.api.values import option_value, value_of
from fmcli.api.words import counterpart
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.options import OPTIONS, Option
from fmcli.registry.words import notes

F = TypeVar("F", bound=Callable[..., Any])
# Where the parameters stand in a docstring.
PLACE = "{parameters}"
WIDTH = 100
# Parameters that have another name in scikit-learn.
RENAMED = {"seed": "random_state", "threads": "n_jobs"}


class Doc(NamedTuple):
    """The type of a parameter in words, and its help."""

    kind: str
    help: str


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How a model is trained, except for the options of the registry; DOCS describes them."""

    model: str | None = None
    solver: str | None = None
    loss: str | None = None
    holdout: float | str | None = None
    refit: bool | None = None
    look: bool = True
    auto: bool = False
    metrics: Iterable[str] | None = None
    patience: int | None = None
    calibrate: str | None = None
    class_weight: Mapping[Any, float] | str | None = None
    positive: Any = None
    min_count: int = 1
    share_rare: bool = False
    init_model: Any = None
    only_new: bool = False
    keep_state: bool | None = None
    ensemble: int = 1
    max_seconds: float | None = None
    threads: int | None = None
    cache: str | PathLike[str] | None = None
    memory: float | None = None
    label: str | None = None
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    several: Sequence[str] = ()
    vector: Sequence[str] = ()
    separator: str = "|"
    delimiter: str | None = None
    ignore: Sequence[str] = ()
    missing_values: Sequence[str] = ()
    missing: str = "auto"
    decimal: str = ""
    bins: int = 0
    weight_column: str | None = None
    group_field: str | None = None


# The type of each choice in words, and its help, in the order of the signature.
DOCS = {
    "model": Doc("str, optional", "Kind, as in ``fmcli models``; fm by default."),
    "solver": Doc("str, optional", "Solver; by default that of the kind, mostly adagrad."),
    "loss": Doc("str, optional", "Loss; by default, one that fits the labels."),
    "holdout": Doc(
        "float or str, optional",
        'Share of the rows to hold out, by which the epoch is chosen; 0: none; "last:0.1": the last tenth, and of '
        'tables "time:COL:0.1", "group:COL:0.1" and "last-of:COL:1": the last times, whole groups, the last row of '
        "each group. By default 0.05, or 500 rows if that is more, but at most 0.2; none of fewer than 100 rows.",
    ),
    "refit": Doc(
        "bool, optional",
        "Whether to train again on all rows for the best number of epochs. By default, only if it is cheap.",
    ),
    "look": Doc("bool", "Whether a short look at held-out rows may choose options that are not given, if it is cheap."),
    "auto": Doc(
        "bool",
        "Whether other kinds of models and solvers are compared on held-out rows, with at most 10 times the work of "
        "the usual training, or a few seconds, and the best one is trained; ``model`` or ``solver``, if given, "
        "remains.",
    ),
    "metrics": Doc(
        "str or iterable of str, optional", "Metrics of the validation data; the first metric chooses the epoch."
    ),
    "patience": Doc(
        "int, optional",
        "Training stops after so many epochs without a better one; 3, or 10 if the solver is not stochastic, or of at "
        "most 5,000 rows, or 50,000 with most features.",
    ),
    "calibrate": Doc(
        '{"isotonic", "platt"}, optional',
        "Calibrate the probabilities of two labels, by five more models of four fifths of the rows, which score the "
        "others.",
    ),
    "class_weight": Doc(
        'dict or "balanced", optional', "Weights by label; balanced: all labels have the same total weight."
    ),
    "positive": Doc(
        "label, optional",
        "The positive one of two labels, whose probability is predicted; by default, the usual one of pairs such as "
        "yes and no, else the later name or the larger number.",
    ),
    "min_count": Doc("int", "Features in fewer rows are dropped."),
    "share_rare": Doc("bool", "Whether the features that ``min_count`` drops share a column."),
    "init_model": Doc(
        "Model or file, optional", "The model to resume from, whose options hold unless others are given."
    ),
    "only_new": Doc(
        "bool", "Whether to learn only the features that ``init_model`` has not seen, all else being constant."
    ),
    "keep_state": Doc(
        "bool, optional", "Whether the model keeps its solver's state, to resume from. By default, only if it is small."
    ),
    "ensemble": Doc("int", "How many models to train, with a seed each, whose predictions are averaged."),
    "max_seconds": Doc("float, optional", "Training ends after so many seconds, with the best model so far."),
    "threads": Doc("int, optional", "Threads; one for each core by default. The result does not depend on it."),
    "cache": Doc(
        "str or path, optional",
        "File in which the rows are kept, and from which every epoch reads them, as with ``--disk``: for more rows "
        "than fit into memory.",
    ),
    "memory": Doc("float, optional", "Megabytes that rows may take in memory with ``cache``; 1000 by default."),
    "label": Doc("str, optional", "Of a frame or a table: the column of the label."),
    "categorical": Doc(
        "str or sequence of str", "Of a table: columns of names; see ``fmcli help tables`` for the default."
    ),
    "numeric": Doc("str or sequence of str", "Of a table: columns of numbers."),
    "several": Doc(
        "str or sequence of str", "Of a table: multi-valued columns, with a feature for each value in a cell."
    ),
    "vector": Doc(
        "str or sequence of str",
        "Of a table: columns of vectors of numbers, with a feature for each place; lists of floats in a frame are "
        "vectors by themselves.",
    ),
    "separator": Doc("str", "The separator of the values in a cell of a column of `several` or `vector`."),
    "delimiter": Doc(
        "str, optional",
        "Of a table: what separates cells; by default the first of ::, tab, comma, semicolon and | in its first line.",
    ),
    "ignore": Doc("str or sequence of str", "Of a table: columns that are not used."),
    "missing_values": Doc("str or sequence of str", "Of a table: cells that are like empty ones, such as ?."),
    "missing": Doc(
        '{"auto", "none", "feature"}',
        "Of a table: in which columns a missing cell is the feature ``column=``: columns of numbers with gaps in "
        "training, none, or all. A missing number is also the mean of its column.",
    ),
    "decimal": Doc(
        '{"", ".", ","}',
        "Of a table: the decimal mark of numbers in local notation, such as 1.067,5 or $1,067.5; by default, numbers "
        "are plain.",
    ),
    "bins": Doc("int", "Of a table: columns of numbers are cut into so many bins, each a feature; 0: they are not."),
    "weight_column": Doc("str, optional", "Of a table: the column of the rows' weights."),
    "group_field": Doc(
        "str, optional",
        "Of a table: the column of the rows' groups, for ranking; a feature, too, if ``categorical`` names it.",
    ),
}
# The choices about the columns of tables.
OF_TABLES = (
    "label",
    "categorical",
    "numeric",
    "several",
    "vector",
    "separator",
    "delimiter",
    "ignore",
    "missing_values",
    "missing",
    "decimal",
    "bins",
    "weight_column",
    "group_field",
)
# The choices that estimators do not have, because fit gets rows and labels.
OF_ROWS = ("label", "positive", "weight_column", "group_field", "cache", "memory")
# The default of each choice.
DEFAULTS: Mapping[str, Any] = {one.name: one.default for one in fields(Choices)}


# The type of each choice, as it is annotated.
TYPES: Mapping[str, str] = {one.name: str(one.type) for one in fields(Choices)}


def split(given: Mapping[str, Any]) -> tuple[Choices, dict[str, Any]]:
    """Return keyword arguments as choices and as options of the registry; None means the default of each. Raises
    UsageError for values of other types."""
    choices = {
        name: value_of(name, value, TYPES[name])
        for name, value in given.items()
        if name in DEFAULTS and value is not None
    }
    for name in given:
        if name not in DEFAULTS and name not in OPTIONS and (meant := counterpart(name)):
            raise UsageError(f"there is no option {name!r}{meant}")
    options = {
        name: option_value(OPTIONS[name], value) if name in OPTIONS else value
        for name, value in given.items()
        if name not in DEFAULTS
    }
    return Choices(**choices), options


def parameters(renamed: Mapping[str, str] = {}, without: Iterable[str] = ()) -> Iterator[Parameter]:
    """Yield the keyword parameters of training. renamed : other names of some; without : the names to leave out."""
    for name, default in DEFAULTS.items():
        if name not in without:
            yield Parameter(renamed.get(name, name), Parameter.KEYWORD_ONLY, default=default)
    for name in OPTIONS:
        if name not in without:
            yield Parameter(renamed.get(name, name), Parameter.KEYWORD_ONLY, default=None)


def described(renamed: Mapping[str, str] = {}, without: Iterable[str] = ()) -> str:
    """Return the parameters as a section of a docstring."""
    lines: list[str] = []
    for name, doc in DOCS.items():
        if name not in without:
            lines += entry(renamed.get(name, name), doc.kind, doc.help)
    for name, option in OPTIONS.items():
        if name not in without:
            lines += entry(renamed.get(name, name), f"{kind_of(option)}, optional", f"{option.help} {notes(option)}")
    return "\n".join(lines)


def entry(name: str, kind: str, help: str) -> list[str]:
    """Return the lines of a parameter in a docstring."""
    return [f"{name} : {kind}", *textwrap.wrap(help.strip(), WIDTH, initial_indent="    ", subsequent_indent="    ")]


def kind_of(option: Option) -> str:
    """Return the type of an option in words."""
    kind = option.kind.__name__
    return f"{kind} or list of {kind}" if option.by_degree else kind


def with_parameters(renamed: Mapping[str, str] = {}, without: Iterable[str] = ()) -> Callable[[F], F]:
    """Return a decorator that gives a function with ``**choices`` the signature and the docstring of training."""

    def decorate(function: F) -> F:
        own = signature(function)
        named = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        every = [*named, *parameters(renamed, without)]
        function.__signature__ = Signature(every, return_annotation=own.return_annotation)  # type: ignore[attr-defined]
        function.__doc__ = documented(function.__doc__ or "", renamed, without)
        return function

    return decorate


def documented(text: str, renamed: Mapping[str, str] = {}, without: Iterable[str] = ()) -> str:
    """Return a docstring with the parameters in their place, which is alone in its line."""
    before, _, after = text.partition(PLACE)
    indent = before.rpartition("\n")[2]
    return before + textwrap.indent(described(renamed, without), indent).lstrip() + after
