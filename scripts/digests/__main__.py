"""Digests of many runs of the command, to show that a change of the code changes no byte of what it writes.

    python scripts/digests save FILE       run all cases, and write their digests
    python scripts/digests compare FILE    run all cases, and name the cases whose digests differ: status 1
    python scripts/digests compare FILE --sanitize BUILD    the same with sanitizers, whose reports end a case

The digests depend on the machine's C library, so none are kept: save them with the code before a change, and compare
after it. A case (lines.py, modes.txt) is one command or several, in a folder of its own with the drawn data. Its digest
covers standard output and all files that the commands have written, except for caches (.cache), which have the times of
their inputs. A command that fails ends the program.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drawn import write_data
from lines import cases

sys.path.append(str(Path(__file__).resolve().parent.parent / "fuzz"))
import sanitized

SECONDS = 600  # the time limit of a command


def digest(name: str, commands: list[str], data: Path, environment: dict[str, str]) -> tuple[str, str]:
    """Return the name and the digest of a case. Its commands run in an empty folder with links to the data."""
    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for path in data.iterdir():
            (folder / path.name).symlink_to(path)
        for command in commands:
            done = subprocess.run(
                [sys.executable, "-m", "fmcli", *shlex.split(command)],
                cwd=folder,
                capture_output=True,
                timeout=SECONDS,
                env=environment,
            )
            if done.returncode:
                sys.exit(f"{name}: status {done.returncode} of {command}\n{done.stderr.decode()}")
            found.update(done.stdout)
        for path in sorted(folder.iterdir()):
            if path.suffix != ".cache" and path.is_file() and not path.is_symlink():
                found.update(b"%b\n%b" % (os.fsencode(path.name), path.read_bytes()))
    return name, found.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["save", "compare"])
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases that run at the same time")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the cases whose names contain this text")
    parser.add_argument("--sanitize", type=Path, metavar="BUILD", help="run the build with sanitizers in this folder")
    arguments = parser.parse_args()
    path = list(filter(None, sys.path[1:]))
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    if arguments.sanitize:
        sanitized.build(arguments.sanitize)
        path.insert(0, str(arguments.sanitize.resolve()))
        environment |= sanitized.variables()
    environment["PYTHONPATH"] = os.pathsep.join(path)
    chosen = {name: commands for name, commands in cases().items() if arguments.only in name}
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(arguments.jobs) as pool:
        write_data(Path(place))
        found = dict(pool.map(lambda case: digest(*case, Path(place), environment), chosen.items()))
    if arguments.action == "save":
        arguments.file.write_text(json.dumps(found, indent=0) + "\n")
        print(f"{len(found)} cases")
        return 0
    known = {name: value for name, value in json.loads(arguments.file.read_text()).items() if arguments.only in name}
    different = sorted(name for name in found.keys() & known.keys() if found[name] != known[name])
    print("different:", *different)
    new, gone = sorted(found.keys() - known.keys()), sorted(known.keys() - found.keys())
    print(f"{len(different)} of {len(found)} cases differ; new: {new}; gone: {gone}")
    return 1 if different or found.keys() != known.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
