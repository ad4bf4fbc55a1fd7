"""Speed of reading text: fmcli with 1 and 2 threads beside scikit-learn, on the same file in the same run.

    python scripts/bench/parse.py train.libsvm

Prints MB of text per second from a warm file to rows in memory, the best of several runs, and the ratio to scikit-learn
(which reads libsvm only; it is run on the first megabytes, as its speed does not depend on the size).
"""

import argparse
import io
import os
import time
from collections.abc import Callable
from pathlib import Path

from fmcli.data import reader

RUNS = 7
SKLEARN_RUNS = 3
SKLEARN_BYTES = 20_000_000


def best(run: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def sklearn_speed(path: str) -> float:
    """Bytes per second of load_svmlight_file on the file's beginning."""
    from sklearn.datasets import load_svmlight_file

    with open(path, "rb") as file:
        text = file.read(SKLEARN_BYTES)
    text = text[: text.rindex(b"\n") + 1]
    return len(text) / best(lambda: load_svmlight_file(io.BytesIO(text)), SKLEARN_RUNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="a libsvm or ffm file")
    path = parser.parse_args().path
    size = os.path.getsize(path)
    is_ffm = reader.read([path]).format == "ffm"
    print(f"{Path(path).name}: {size / 1e6:.0f} MB, {'ffm' if is_ffm else 'libsvm'}")
    reference = None if is_ffm else sklearn_speed(path)
    if reference:
        print(f"  scikit-learn       {reference / 1e6:7.0f} MB/s")
    for threads in (1, 2):
        speed = size / best(lambda threads=threads: reader.read([path], threads=threads), RUNS)
        ratio = f"  {speed / reference:5.1f} x scikit-learn" if reference else ""
        print(f"  fmcli, {threads} thread{'s' if threads > 1 else ' '}   {speed / 1e6:7.0f} MB/s{ratio}")


if __name__ == "__main__":
    main()
