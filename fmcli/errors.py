"""The errors of fmcli. Each class has the exit status of the command line."""

from collections.abc import Callable
from typing import Any

from fmcli.records import dataclass

# Around the names of choices in messages: no text that users can give has it.
MARK = "\0"
# Instead of a value of an option: the error disappears without the option.
LEAVE_OUT = object()


@dataclass(frozen=True)
class Also:
    """A value that is needed besides the values of other options."""

    value: Any


def called(name: str) -> str:
    """Return a choice in the message of an error; front ends replace it by what they call the choice."""
    return f"{MARK}{name}{MARK}"


class FmcliError(Exception):
    """Base of every error that fmcli raises on purpose; its text is the message for the user.

    Parameters
    ----------
    text : may have choices by name, as `called` writes them, because a caller in Python has no command line.
    options : name -> value of the choices that help, which front ends add to the text. None: the option, with another
        value; LEAVE_OUT; or a dict of values, each with its purpose, or "": {"squared": "to fit them as numbers"};
        Also, beside the others. Values that are lists, such as names of columns, are tuples.
    """

    exit_status = 70

    def __init__(self, *text: object, **options: Any) -> None:
        super().__init__(*text)
        self.options = options

    @property
    def marked(self) -> str:
        """The text as it was given, for the text of another error."""
        return super().__str__()

    def __str__(self) -> str:
        return self.text(lambda name: name)

    def text(self, of: Callable[[str], str]) -> str:
        """Return the message, with what a front end calls each choice (see `called`)."""
        parts = self.marked.split(MARK)
        return "".join(of(part) if place % 2 else part for place, part in enumerate(parts))


class NotMetError(FmcliError):
    """A metric is worse than its limit."""

    exit_status = 1


class UsageError(FmcliError):
    """Invalid options or arguments, detected before any data is read."""

    exit_status = 2


class NothingNewError(UsageError):
    """No row has a feature that a model has not seen."""


class DivergedError(FmcliError):
    """Training produced a number that is not finite.

    trained : a fmcli.training.trained.Trained of the best epoch before, where validation found one; else None.
    """

    exit_status = 3
    trained: Any = None


class WorseThanConstantError(FmcliError):
    """The trained model is worse than a constant, and must not be written."""

    exit_status = 3


class NotEnoughMemoryError(FmcliError):
    """The number of bytes needed, computed before the allocation, exceeds the available memory."""

    exit_status = 4


class BadInputError(FmcliError):
    """Input data or a model file are invalid."""

    exit_status = 65


class MissingInputError(FmcliError):
    """An input cannot be opened."""

    exit_status = 66


class UnavailableError(FmcliError):
    """The scheduler of a cluster cannot be reached, or is gone."""

    exit_status = 69


class TransferError(FmcliError):
    """An input ended before its end, or the transfer of a remote input failed."""

    exit_status = 74


class OutputError(FmcliError):
    """An output cannot be written."""

    exit_status = 74


class BusyError(FmcliError):
    """Another run uses a file that only one run may use."""

    exit_status = 75


class BugError(FmcliError):
    """An internal error."""

    exit_status = 70
