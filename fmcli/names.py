"""Unknown names, with suggestions of similar names."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from fmcli.errors import UsageError

# A suggestion has at most one wrong letter per LETTERS_PER_ERROR letters of the name, or one in all, and at least one
# right letter. There are at most MOST suggestions.
LETTERS_PER_ERROR, MOST = 3, 3
# The largest number of names that are listed in full, with suggestions and without.
SHORT_LIST, LIST = 12, 40


def no_such(what: str, name: str, names: Collection[str], *, listed: bool = True) -> str:
    """Return the message for an unknown name: "there is no model 'fn'; did you mean fm? there are: linear, fm".

    A long list of names is added only if no name is similar, a very long one never; with `listed` false, no list.
    """
    meant = close(name, names)
    said = f"there is no {what} {name!r}"
    if meant:
        said += f"; did you mean {one_of(meant)}?"
    if listed and len(names) <= (SHORT_LIST if meant else LIST):
        said += f"{'' if meant else ';'} there are: {', '.join(names)}"
    return said


def listing(names: Sequence[str], most: int = LIST) -> str:
    """Return names as a list of the first ones, and the number of others: "a, b, c and 99,997 more"."""
    others = len(names) - most
    return ", ".join(names) if others <= 0 else f"{', '.join(names[:most])} and {others:,} more"


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name in the alphabet that occurs twice, other than the empty one; None if there is none."""
    return min((name for name, count in Counter(names).items() if name and count > 1), default=None)


def one_of(names: Sequence[str]) -> str:
    """Return names as a choice: "a, b or c"."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def close(name: str, names: Collection[str]) -> list[str]:
    """Return similar names, the most similar first: names that begin with this one, then names with it as one of their
    words, then names with few other letters. Case, dashes, and "_" or "-" make no difference."""

    def plain(text: str) -> str:
        return text.lower().lstrip("-").replace("_", "-")

    by_plain = {plain(text): text for text in names}
    wanted = plain(name)
    if wanted in by_plain:
        return [by_plain[wanted]]
    run_together = [text for text in by_plain if text.replace("-", "") == wanted.replace("-", "")]
    if run_together:
        return [by_plain[text] for text in run_together][:MOST]
    beginning = sorted((text for text in by_plain if len(wanted) > 1 and text.startswith(wanted)), key=len)
    containing = sorted((text for text in by_plain if len(wanted) > 1 and wanted in text.split("-")), key=len)
    allowed = min(max((len(wanted) + 1) // LETTERS_PER_ERROR, 1), len(wanted) - 1)
    as_long = [text for text in by_plain if abs(len(text) - len(wanted)) <= allowed]
    errors = {text: wrong_letters(wanted, text) for text in as_long}
    misspelled = sorted((text for text in as_long if errors[text] <= allowed), key=errors.__getitem__)
    return [by_plain[text] for text in dict.fromkeys([*beginning, *containing, *misspelled])][:MOST]


def wrong_letters(one: str, other: str) -> int:
    """Return the fewest letters to insert, leave out, replace or exchange with their neighbor that make one text of
    the other (the optimal string alignment distance)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        previous, before, row = before, row, [i]
        for j, wanted in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], previous[j - 2] + 1)
    return row[-1]


def find_name(what: str, name: str, names: Collection[str]) -> str:
    """Return the name, if it exists. Otherwise raises UsageError with similar names."""
    if name not in names:
        raise UsageError(no_such(what, name, names))
    return name
