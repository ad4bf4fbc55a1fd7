"""The rules that tell the kind of a column from its name and the facts about its cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from fmcli.data.tables.schema import CATEGORY, IGNORED, NUMBER, TIME, VECTOR
from fmcli.data.tables.unclear import (
    MOST_DESCRIBED,
    MOSTLY,
    NAMES,
    SOME,
    UNCLEAR_DATES,
    cause,
    date_order,
    described,
    joined,
)
from fmcli.errors import Also, BadInputError
from fmcli.text import MARKERS, listed

# A column of integers is a category if each number has this many rows. A few numbers, such as hours, days or months,
# often act independently; with many numbers, such as ages, neighbors act alike.
ROWS_PER_NAME, FEW_NAMES, ROWS_PER_FEW = 100, 31, 40
# The same limit for a column named like ids. With fewer rows, little is learned about each id.
ROWS_PER_ID = 5
# If this share of the integers are distinct, they are ids or measurements: only the user knows.
NEARLY_ALL = 0.9
# In a column of numbers, at most this many unusual words may still be markers of missing values.
FEW_WORDS = 2
# The last word in the names of id columns. Some names end with "id" without a boundary, such as userid.
ENTITIES = (
    *("user", "item", "customer", "client", "member", "visitor", "session", "product", "article", "movie", "film"),
    *("book", "song", "track", "artist", "video", "restaurant", "hotel", "shop", "store", "seller", "merchant", "ad"),
    *("device", "campaign", "zip", "postal", "post"),
)
ID_NAME = re.compile(rf"({'|'.join(ENTITIES)})?[ _]?(id|ids|key|code)|[uipcsto]id|uuid|guid|{'|'.join(ENTITIES)}")
# Where words of a name begin: at a capital after a small letter, or after a sign.
WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def check_order(name: str, facts: Mapping[str, Any], source: str) -> None:
    """Raise BadInputError for a column of times whose dates may begin with the day or with the month."""
    if cause(facts) in UNCLEAR_DATES:
        raise BadInputError(f"{source}: {described({name: facts})[0][0]}")


def kind_of(name: str, facts: Mapping[str, Any]) -> str | None:
    """Return the kind of a column with this name and these facts; None if the user must say."""
    present, distinct = facts["cells"] - facts["missing"], facts["distinct"]
    if not present:
        return IGNORED
    if facts["kind"] is not None:
        return str(facts["kind"])
    if facts["is_vector"]:
        return VECTOR
    if facts["texts"] and date_order(facts) is not None:
        return TIME
    if may_be_unclear(facts) and cause(facts) not in (None, NAMES):
        return None
    if has_text(facts):
        return None if is_mixed(facts) or cause(facts) else CATEGORY
    if facts["fractions"] > facts["rounded"] or facts["bits"] == present:
        return NUMBER
    if facts["rounded"] and (facts["whole"] or is_id(name)):
        return None
    if not facts["whole"]:
        return NUMBER
    rows = present * facts["times"]
    if rows >= (ROWS_PER_FEW if distinct <= FEW_NAMES else ROWS_PER_NAME) * distinct:
        return CATEGORY
    if is_id(name):
        return CATEGORY if rows >= ROWS_PER_ID * distinct else None
    return None if distinct >= NEARLY_ALL * present else NUMBER


def may_be_unclear(facts: Mapping[str, Any]) -> bool:
    """Return whether some cells of a column are texts, or points may group the digits of its numbers."""
    return bool(facts["texts"] or facts["grouped_cell"])


def is_id(name: str) -> bool:
    """Return whether a column's name marks ids: user_id, movieId, zip code, item."""
    words = [word for word in WORDS.split(name) if word]
    return bool(words) and ID_NAME.fullmatch(words[-1].lower()) is not None


def is_mixed(facts: Mapping[str, Any]) -> bool:
    """Return whether a column has numbers and a few words, which may be missing values or categories. Numbers with a
    leading 0 are categories, such as zip codes."""
    numbers = facts["cells"] - facts["missing"] - facts["texts"]
    if facts["is_text"] or facts["padded"] or not numbers:
        return False
    few = not facts["other_words"] and len(unusual(facts["words"])) <= FEW_WORDS
    # Categories rarely have fractions, whatever the other cells are.
    return few or numbers >= MOSTLY * (numbers + facts["texts"]) or facts["points"] > SOME * (numbers + facts["texts"])


def unusual(words: Iterable[str]) -> list[str]:
    """Return the words that do not usually mark missing values."""
    return [word for word in words if word.lower() not in MARKERS]


def markers_of(facts: Mapping[str, Any], kind: str | None) -> tuple[str, ...]:
    """Return the words of a column that mark missing numbers, times or vectors: all of its other cells are numbers,
    times or vectors, and the words are usual markers. kind : as named."""
    if not (facts["words"] or facts["odd"]):  # as in most columns
        return ()
    kind = kind or facts["kind"]
    if is_special(facts) and kind in (None, VECTOR):
        return () if facts["other_odd"] or unusual(facts["odd"]) else tuple(facts["odd"])
    none = kind not in (None, NUMBER) or facts["is_text"] or facts["other_words"] or not has_numbers(facts)
    return () if none or unusual(facts["words"]) else tuple(facts["words"])


def is_special(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column except odd texts are times or vectors."""
    most = max(facts["days"], facts["months"], facts["lists"])
    return bool(0 < most == facts["cells"] - facts["missing"] - facts["others"])


def not_clear(facts: Mapping[str, Mapping[str, Any]], source: str) -> BadInputError:
    """Return the error about unclear columns, with the options by which the user declares their kinds."""
    of_text = {
        name: one
        for name, one in facts.items()
        if may_be_unclear(one) and (why := cause(one)) is not None and not (why == NAMES and is_mixed(one))
    }
    rest = {name: one for name, one in facts.items() if name not in of_text}
    told, helps = described(of_text)
    mixed, place = {name: one for name, one in rest.items() if one["texts"]}, source
    whole = {name: one for name, one in rest.items() if kind_of(name, without_texts(one)) is None}
    messages, options = [], dict[str, Any]()
    if whole:
        for name, one in islice(whole.items(), MOST_DESCRIBED):
            figures = without_texts(one)
            present = figures["cells"] - figures["missing"]
            such = f"{figures['distinct']:,} different whole numbers in {present:,} cells, such as {one['example']}"
            rounded = f"rounded numbers, such as {one['rounded_cell']}"
            both = [such] * bool(figures["whole"]) + [rounded] * bool(one["rounded"])
            messages.append(f"{name!r} ({', beside '.join(both)})")
        columns, are = ("column", "is a number or an id") if len(whole) == 1 else ("columns", "are numbers or ids")
        messages = [f"cannot tell whether the {columns} {listed(messages, len(whole))} {are}"]
        every = tuple(whole)
        options |= {
            "numeric": {every: "for numbers"},
            "categorical": {every: "for ids"},
            "ignore": {every: "for neither"},
        }
    if mixed:
        lines = [line for one in mixed.values() for line in one["words"].values()]
        if len(lines) == 1 and not told:
            place = f"{source}:{lines[0]}"
        found = []
        for name, one in mixed.items():
            words = [f"{word!r}" + (f" (line {at})" if len(lines) > 1 else "") for word, at in one["words"].items()]
            more = ", and other texts," if one["other_words"] else ""
            found.append(f"{listed(words, len(words))}{more} in the column {name!r}")
        others = "numbers" if not any(one["other_words"] for one in mixed.values()) else "mostly numbers"
        messages.append(f"found {listed(found[:MOST_DESCRIBED], len(found))}, whose other cells are {others}")
        texts = tuple(dict.fromkeys(word for one in mixed.values() for word in one["words"]))
        if whole:
            options["missing_values"] = Also(texts)
        else:
            options = {
                "missing_values": {texts: "for cells that are missing"},
                "categorical": {tuple(mixed): "for names"},
            }
    return BadInputError(f"{place}: {'; '.join([*told, *messages])}", **joined(helps, options))


def has_text(facts: Mapping[str, Any]) -> bool:
    """Return whether a column is declared as text, or has cells that are not numbers."""
    return bool(facts["texts"] or facts["is_text"])


def is_of_names(facts: Mapping[str, Any]) -> bool:
    """Return whether a column holds names: it has text, or its type says so."""
    return has_text(facts) or facts["kind"] == CATEGORY


def has_numbers(facts: Mapping[str, Any] | None) -> bool:
    """Return whether some cells of a column are numbers."""
    return facts is not None and facts["whole"] + facts["fractions"] > 0


def means_of(facts: Mapping[str, Any], kind: str, order: str | None) -> tuple[float, ...]:
    """Return the values that replace a missing cell, with the digits of feature values: the mean of a column's numbers,
    the mean of the days of its times, or the mean at each place of its vectors."""
    if kind == VECTOR:
        means = facts["mean_places"]
    elif kind == TIME:
        means = [facts["mean_month" if order == "month" else "mean_day"]]
    else:
        means = [facts["mean"]] if has_numbers(facts) else []
    return tuple([float(f"{mean:.9g}") for mean in means])


def without_texts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a column, with cells that are not numbers counted as missing."""
    missing, distinct = facts["missing"] + facts["texts"], facts["distinct"] - len(facts["words"])
    return {**facts, "texts": 0, "others": 0, "words": {}, "missing": missing, "distinct": max(distinct, 0)}


def without(markers: Sequence[str], facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a column, with its markers counted as missing: all cells that are not numbers, or not times
    or vectors."""
    if not markers:
        return facts
    if not is_special(facts):
        return without_texts(facts)
    odd, distinct = facts["others"], facts["distinct"] - len(markers)
    left = {"texts": facts["texts"] - odd, "others": 0, "odd": {}}
    return {**facts, **left, "missing": facts["missing"] + odd, "distinct": max(distinct, 0)}


def is_whole(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column are whole numbers."""
    return not (has_text(facts) or facts["fractions"])


def is_truth(facts: Mapping[str, Any]) -> bool:
    """Return whether all cells of a column are true or false."""
    return 0 < facts["truths"] == facts["cells"] - facts["missing"] and not facts["is_text"]
