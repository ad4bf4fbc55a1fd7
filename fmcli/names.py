"""Unknown names, with suggestions of similar names."""

from collections.abc import Collection

from fmcli.errors import UsageError

# Names with at least this similarity (difflib's ratio; in short names, one of two letters may be wrong) are suggested,
# at most MOST of them.
CLOSE, CLOSE_IF_SHORT, SHORT, MOST = 0.6, 0.5, 3, 3
# All names are listed if there are at most so many: with suggestions, and without.
SHORT_LIST, LIST = 12, 30


def no_such(what: str, name: str, names: Collection[str]) -> str:
    """The message for an unknown name: "there is no model 'fn'; did you mean fm? there are: linear, fm".

    A long list of names is added only if no name is similar, a very long one never.
    """
    meant = close(name, names)
    said = f"there is no {what} {name!r}"
    if meant:
        said += f"; did you mean {' or '.join([', '.join(meant[:-1]), meant[-1]] if meant[1:] else meant)}?"
    if len(names) <= (SHORT_LIST if meant else LIST):
        said += f"{'' if meant else ';'} there are: {', '.join(names)}"
    return said


def close(name: str, names: Collection[str]) -> list[str]:
    """Similar names, the most similar one first. Case, leading dashes, and "_" or "-" make no difference."""
    from difflib import get_close_matches

    def plain(text: str) -> str:
        return text.lower().lstrip("-").replace("_", "-")

    by_plain = {plain(text): text for text in names}
    wanted = plain(name)
    if wanted in by_plain:
        return [by_plain[wanted]]
    beginning = [text for text in by_plain if len(wanted) > 1 and text.startswith(wanted)]
    cutoff = CLOSE_IF_SHORT if len(wanted) <= SHORT else CLOSE
    found = dict.fromkeys([*beginning, *get_close_matches(wanted, by_plain, MOST, cutoff)])
    return [by_plain[text] for text in found][:MOST]


def find_name(what: str, name: str, names: Collection[str]) -> str:
    """The name, if it exists. Otherwise raises UsageError with similar names."""
    if name not in names:
        raise UsageError(no_such(what, name, names))
    return name
