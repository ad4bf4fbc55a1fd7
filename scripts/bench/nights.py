"""What updates of a model by the rows of each night (train -i) do to old rows and to newcomers.

    python scripts/bench/nights.py ROWS [--newcomers FROM] [--nights 7] [--first "-s ftrl"] [--update "-e 10"] ...

ROWS is libsvm text. Rows whose first feature has the number FROM or a larger one are those of newcomers, in the order
of these numbers; without --newcomers, they are the second half of the rows, in the order of the file. Newcomers come in
equal shares, a share each night. A fifth of the old rows and of those of newcomers is held out. The metric of both is
printed before the first night, after the last one, for each --update, and for training on all rows at once.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HELD_OUT = 0.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, metavar="ROWS")
    parser.add_argument("--newcomers", type=int, metavar="FROM")
    parser.add_argument("--nights", type=int, default=7)
    parser.add_argument("--first", default="", metavar="OPTIONS", help="of the first runs, inherited by nights")
    parser.add_argument("--before", default="", metavar="OPTIONS", help="of the run before the first night")
    parser.add_argument("--update", action="append", default=[], metavar="OPTIONS", help="of the runs of nights")
    parser.add_argument("--metric", default="rmse")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    lines = arguments.rows.read_text().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_nights(folder, lines, arguments)

        def train(output: str, *inputs: str, options: str = "") -> None:
            run(folder, "train", "-q", *shlex.split(options), "-o", output, *inputs)

        def show(name: str, model: str) -> None:
            found = [metric_of(folder, model, part, arguments.metric) for part in ("old", "new")]
            print(f"{name:30}{found[0]:9.4f}{found[1]:9.4f}", flush=True)

        nights = [f"night{night}" for night in range(arguments.nights)]
        train("whole.fm", "first", *nights, options=arguments.first)
        show("all rows at once", "whole.fm")
        train("before.fm", "first", options=f"{arguments.first} {arguments.before}")
        show(f"before {arguments.before}", "before.fm")
        for options in arguments.update or [""]:
            shutil.copy(folder / "before.fm", folder / "model.fm")
            for night in nights:
                train("model.fm", night, options=f"-i model.fm {options}")
            show(f"nights {options}", "model.fm")
    return 0


def write_nights(folder: Path, lines: list[str], arguments: argparse.Namespace) -> None:
    """Write the files `first` and `night0`, `night1` and so on, with the rows to train on, and `old.check` and
    `new.check` with those that are held out."""
    if arguments.newcomers is None:
        is_new, of_night = np.arange(len(lines)) >= len(lines) // 2, np.arange(len(lines))
    else:
        of_night = np.array([int(line.split()[1].partition(":")[0]) for line in lines])
        is_new = of_night >= arguments.newcomers
    held_out = np.random.default_rng(arguments.seed).random(len(lines)) < HELD_OUT

    def write(name: str, rows: np.ndarray) -> None:
        (folder / name).write_text("".join(lines[row] for row in rows))

    write("first", np.flatnonzero(~is_new & ~held_out))
    write("old.check", np.flatnonzero(~is_new & held_out))
    write("new.check", np.flatnonzero(is_new & held_out))
    known = np.flatnonzero(is_new & ~held_out)
    each = np.unique(of_night[known])
    for night, ids in enumerate(np.array_split(each, arguments.nights)):
        write(f"night{night}", known[np.isin(of_night[known], ids)])


def metric_of(folder: Path, model: str, part: str, metric: str) -> float:
    """Return a metric of a model on the held-out rows of a part."""
    return float(
        json.loads(run(folder, "evaluate", "--json", "-q", "-x", metric, model, f"{part}.check"))["metrics"][metric]
    )


def run(folder: Path, *arguments: str) -> str:
    """Run a command in the folder, and return its standard output."""
    command = [sys.executable, "-m", "fmcli", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
