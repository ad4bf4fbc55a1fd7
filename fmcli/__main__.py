"""`python -m fmcli` and the command `fmcli`.

Until its first line Python answers an interrupt by an exception with a traceback. So nothing is imported before the
handler of signals is in place that is not needed for it, and only the command sets it: importing a module never does.
"""

import sys

try:
    from fmcli.system.interrupt import end_by_signals
except ModuleNotFoundError as missing:
    from pathlib import Path

    from fmcli.errors import UsageError

    folder = Path(__file__).resolve().parent.parent
    print(
        f"fmcli: error: {folder} has fmcli's source, but no compiled modules for this Python ({missing.name})\n"
        f"install it: python -m pip install {folder}\nif it is installed, run the command fmcli, or leave this folder",
        file=sys.stderr,
    )
    sys.exit(UsageError.exit_status)


def main() -> None:
    """Run the command that the process was started with, and end the process."""
    end_by_signals()
    from fmcli.cli import main

    main()


if __name__ == "__main__":
    main()
