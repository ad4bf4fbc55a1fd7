"""`python -m fmcli` and the command `fmcli`.

Before the signal handler is set, Python answers an interrupt with a traceback. So the command first lets an interrupt
end the process, and then imports nothing before the handler is set. Only the command does so; importing a module never
does.
"""

import gc
import sys

# `signal` would import other modules.
from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

TYPE_CHECKING = False  # not imported from typing, which would import other modules
if TYPE_CHECKING:
    from typing import NoReturn

# Objects between two searches for cyclic garbage: more than all imports create, which Python would otherwise search
# several times while a command starts.
OBJECTS = 200_000


def main() -> None:
    """Run the command line of this process, and exit."""
    if getsignal(SIGINT) is default_int_handler:  # not if it is ignored, as in a job in the background
        signal(SIGINT, SIG_DFL)
    try:
        from fmcli.system.interrupt import end_by_signals
    except ModuleNotFoundError as missing:
        refuse(missing)
    end_by_signals()
    gc.set_threshold(OBJECTS)
    from fmcli.cli import main

    main()


def refuse(missing: ModuleNotFoundError) -> "NoReturn":
    """Exit with a message about a source folder without compiled modules."""
    from pathlib import Path

    from fmcli.errors import UsageError

    folder = Path(__file__).resolve().parent.parent
    print(
        f"fmcli: error: {folder} has fmcli's source, but no compiled modules for this Python ({missing.name})\n"
        f"install it: python -m pip install {folder}\nif it is installed, run the command fmcli, or leave this folder",
        file=sys.stderr,
    )
    sys.exit(UsageError.exit_status)


if __name__ == "__main__":
    main()
