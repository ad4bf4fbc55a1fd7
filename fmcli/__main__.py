"""`python -m fmcli` and the command `fmcli`."""

import sys
from pathlib import Path
from typing import NoReturn

try:
    from fmcli._core.interrupt import end_by_signals
except ModuleNotFoundError as missing:
    from fmcli.errors import UsageError

    folder = Path(__file__).resolve().parent.parent
    print(
        f"fmcli: error: {folder} has fmcli's source, but no compiled modules for this Python ({missing.name})\n"
        f"install it: python -m pip install {folder}\nif it is installed, run the command fmcli, or leave this folder",
        file=sys.stderr,
    )
    sys.exit(UsageError.exit_status)


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process."""
    # Before anything else is imported: until then an interrupt is an exception of Python's, with a traceback.
    end_by_signals()
    from fmcli.cli import main

    main()


if __name__ == "__main__":
    main()
