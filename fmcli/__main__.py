"""`python -m fmcli` and the command `fmcli`.

Before the signal handler is set, Python answers an interrupt with a traceback. So nothing else is imported before it is
set. Only the command sets it; importing a module never does.
"""

import gc
import sys

# Objects between two searches for cyclic garbage: more than all imports create, which Python would otherwise search
# several times while a command starts.
OBJECTS = 200_000

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
    """Run the command line of this process, and exit."""
    end_by_signals()
    gc.set_threshold(OBJECTS)
    from fmcli.cli import main

    main()


if __name__ == "__main__":
    main()
