"""Names that do not exist, answered with those that may have been meant."""

from collections.abc import Collection

from fmcli.errors import UsageError

# Names closer than this count as meant (difflib's ratio; of two letters one may be wrong), and so many are said.
CLOSE, CLOSE_IF_SHORT, SHORT, MOST = 0.6, 0.5, 3, 3
# Up to so many names are all said, beside those that are close and where none is.
SHORT_LIST, LIST = 12, 30


def no_such(what: str, name: str, names: Collection[str]) -> str:
    """What to say to a name that does not exist: "there is no model 'fn'; did you mean fm? there are: linear, fm".

    A list that is long is said only where nothing is close, a very long one never.
    """
    meant = close(name, names)
    said = f"there is no {what} {name!r}"
    if meant:
        said += f"; did you mean {' or '.join([', '.join(meant[:-1]), meant[-1]] if meant[1:] else meant)}?"
    if len(names) <= (SHORT_LIST if meant else LIST):
        said += f"{'' if meant else ';'} there are: {', '.join(names)}"
    return said


def close(name: str, names: Collection[str]) -> list[str]:
    """The names that may have been meant, the closest first. Case, dashes in front and underscores do not count."""
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
    """The name, if it exists. Raises UsageError naming others where it does not."""
    if name not in names:
        raise UsageError(no_such(what, name, names))
    return name
