"""`python -m fmcli` and the command `fmcli`."""

from typing import NoReturn

from fmcli._core.interrupt import end_by_signals


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process."""
    # Before anything else is imported: until then an interrupt is an exception of Python's, with a traceback.
    end_by_signals()
    from fmcli.cli import main

    main()


if __name__ == "__main__":
    main()
