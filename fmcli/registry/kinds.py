"""Kinds of values of choices, besides int, float, bool and str. fmcli/cli/choices.py converts text of the command line
to them, and fmcli/api/values.py objects of Python."""

from __future__ import annotations

from typing import NamedTuple


class ValueKind(NamedTuple):
    """A kind of values.

    name : the name of the kind.
    annotation : the type of an argument in Python; one of the types that fmcli/api/values.py reads.
    words : the type in words, for docstrings.
    """

    name: str
    annotation: str
    words: str


Kind = type | ValueKind

PATH, NAME_OR_NAMES = "str | PathLike[str]", "str or sequence of str"
# A switch without a flag --no-NAME.
FLAG = ValueKind("flag", "bool", "bool")
# The number of times that a flag is given.
COUNT = ValueKind("count", "int", "int")
# Names separated by commas; and texts. A repeated option adds to the list.
NAMES = ValueKind("names", "Sequence[str]", NAME_OR_NAMES)
TEXTS = ValueKind("texts", "Sequence[str]", NAME_OR_NAMES)
# A label; and a weight for each of several labels.
LABEL = ValueKind("label", "Any", "label")
WEIGHTS = ValueKind("weights", "Mapping[Any, float] | str", 'dict or "balanced"')
# Which rows are held out.
HELD = ValueKind("held", "float | str", "float or str")
# Input files.
INPUT = ValueKind("input", PATH, "str or path")
INPUTS = ValueKind("inputs", PATH, "str or path")
MODEL_FILE = ValueKind("model file", "Any", "Model, str or path")
QUERY = ValueKind("query", "str", "str")
JOINED = ValueKind("joined tables", "Mapping[str, Any]", "dict")
RELATIONS = ValueKind("relations", "Mapping[str, Any]", "dict")
# Output files.
NEW_MODEL = ValueKind("new model", PATH, "str or path")
NEW_DATA = ValueKind("new data", PATH, "str or path")
NEW_LOG = ValueKind("new log", PATH, "str or path")
NEW_CACHE = ValueKind("new cache", PATH, "str or path")
NEW_CHECKPOINT = ValueKind("new checkpoint", PATH, "str or path")
# Kinds whose values are lists.
LISTS = (NAMES, TEXTS, INPUTS, JOINED, RELATIONS)
