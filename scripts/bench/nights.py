"""What updates of a model by the rows of each night (train -i) do to old rows and to newcomers.

    python scripts/bench/nights.py ROWS [--newcomers FROM] [--nights 7] [--first "-s ftrl"] [--update "-e 10"] ...

ROWS is libsvm text. Rows whose first feature has the number FROM or a larger one are those of newcomers, in the order
of these numbers; without --newcomers, they are the second half of the rows, in the order of the file. Newcomers come in
equal shares, a share each night. A fifth of the old rows and of those of newcomers is held out. The metric of the
held-out old rows, new ones and all is printed for training on all rows at once, before the first night, and after the
last one for each --update; of several seeds, their mean.
"""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import fmcli
from fmcli.cli import run
from fmcli.system.blas import pin_blas

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
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the rows that are held out")
    arguments = parser.parse_args()
    lines = arguments.rows.read_text().splitlines(keepends=True)
    pin_blas()
    found = [figures_of(lines, arguments, seed) for seed in arguments.seeds]
    for name in found[0]:
        print(f"{name:40}" + "".join(f"{mean:9.4f}" for mean in np.mean([one[name] for one in found], axis=0)))
    return 0


def figures_of(lines: list[str], arguments: argparse.Namespace, seed: int) -> dict[str, list[float]]:
    """Return the metric of old rows, of new ones and of all, by the name of a model, for a seed."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_nights(folder, lines, arguments, seed)

        def train(output: str, *inputs: str, options: str = "") -> None:
            command = ["train", "-q", *shlex.split(options), "-o", str(folder / output)]
            if not (child := os.fork()):  # which need not import fmcli again
                os._exit(run([*command, *(str(folder / one) for one in inputs)]))
            if os.waitpid(child, 0)[1]:
                sys.exit(1)

        def measure(name: str, output: str) -> None:
            model = fmcli.load(folder / output)
            each = [str(folder / f"{part}.check") for part in ("old", "new")]
            found[name] = [model.evaluate(rows, [arguments.metric])[arguments.metric] for rows in (*each, each)]
            print(f"seed {seed} {name:33}" + "".join(f"{one:9.4f}" for one in found[name]), file=sys.stderr, flush=True)

        nights = [f"night{night}" for night in range(arguments.nights)]
        train("whole.fm", "first", *nights, options=arguments.first)
        measure("all rows at once", "whole.fm")
        train("before.fm", "first", options=f"{arguments.first} {arguments.before}")
        measure(f"before {arguments.before}", "before.fm")
        for options in arguments.update or [""]:
            shutil.copy(folder / "before.fm", folder / "model.fm")
            for night in nights:
                train("model.fm", night, options=f"-i {folder / 'model.fm'} {options}")
            measure(f"nights {options}", "model.fm")
    return found


def write_nights(folder: Path, lines: list[str], arguments: argparse.Namespace, seed: int) -> None:
    """Write the files `first` and `night0`, `night1` and so on, with the rows to train on, and `old.check` and
    `new.check` with those that are held out."""
    if arguments.newcomers is None:
        is_new, of_night = np.arange(len(lines)) >= len(lines) // 2, np.arange(len(lines))
    else:
        of_night = np.array([int(line.split()[1].partition(":")[0]) for line in lines])
        is_new = of_night >= arguments.newcomers
    held_out = np.random.default_rng(seed).random(len(lines)) < HELD_OUT

    def write(name: str, rows: np.ndarray) -> None:
        (folder / name).write_text("".join(lines[row] for row in rows))

    write("first", np.flatnonzero(~is_new & ~held_out))
    write("old.check", np.flatnonzero(~is_new & held_out))
    write("new.check", np.flatnonzero(is_new & held_out))
    known = np.flatnonzero(is_new & ~held_out)
    each = np.unique(of_night[known])
    for night, ids in enumerate(np.array_split(each, arguments.nights)):
        write(f"night{night}", known[np.isin(of_night[known], ids)])


if __name__ == "__main__":
    sys.exit(main())
