"""The speed of all parts of fmcli in one table, compared with other tools and with an earlier run.

    python scripts/bench/all.py [--rows 1000000] [--only parse] [--save now.json] [--compare before.json] [--json]
                                [--chart speed.svg]

Data are generated in a temporary folder: rows of 20 ids with Zipf frequencies and as many features as rows, ratings of
users and items, and variants with other numbers of rows, ids and features. The cases are run in turn, several times,
and the fastest run of each counts, because other processes can only make a run slower. The limit of an epoch is the
time of a compiled loop that only reads and writes the same memory. Other tools (scikit-learn's reader, pandas,
DuckDB, Vowpal Wabbit, xLearn, myFM, modern-fm) are measured if they are installed.

--compare lists the cases that take over 5 % longer than in the saved run, and exits with status 1 if there are any.
Both runs must have the same number of rows and be from the same machine.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import chart
from cases import OTHERS, Bench, cases

# A case counts as slower if its time has grown by more than this factor.
SLOWER = 1.05
# Pixels of the chart's labels.
LABELS = 280


def table(seconds: dict[str, float], work: dict[str, str], before: dict[str, float]) -> str:
    """The seconds of each case, its speed in the unit of the case, and the ratio to an earlier run."""
    width = max(map(len, seconds))
    lines = []
    for name, value in seconds.items():
        ratio = f"{value / before[name]:8.2f} of before" if name in before else ""
        lines.append(f"{name:<{width}}  {value:9.4f} s  {work.get(name, ''):<16}{ratio}".rstrip())
    return "\n".join(lines)


def slower(seconds: dict[str, float], before: dict[str, float]) -> list[str]:
    """The cases of fmcli that are slower than before."""
    return [name for name, value in seconds.items() if ours(name) and value > SLOWER * before.get(name, value)]


def ours(name: str) -> bool:
    """Whether a case measures fmcli."""
    return not any(other in name for other in OTHERS)


def charts(seconds: dict[str, float]) -> list[dict]:
    """A chart of each group of cases."""
    groups: dict[str, list[list]] = {}
    for name, value in seconds.items():
        group, _, rest = name.partition(": ")
        groups.setdefault(group, []).append([f"{chart.OURS} {rest}" if ours(name) else rest, round(value, 4)])
    source = "scripts/bench/all.py"
    return [{"title": group, "data": source, "unit": "s", "bars": bars} for group, bars in groups.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3, help="of each case")
    parser.add_argument("--only", default="", help="only cases whose name begins so")
    parser.add_argument("--save", type=Path, help="write the seconds to this file")
    parser.add_argument("--compare", type=Path, help="an earlier run's file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--chart", type=Path, help="draw the seconds into this SVG file")
    given = parser.parse_args()
    before = json.loads(given.compare.read_text()) if given.compare else {}
    if before and before["rows"] != given.rows:
        parser.error(f"{given.compare} is of {before['rows']} rows; use --rows {before['rows']}")
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), given.rows)
        chosen = {name: run for name, run in cases(bench).items() if name.startswith(given.only)}
        if not chosen:
            parser.error(f"no case begins with {given.only}")
        for _ in range(given.runs):
            for name, run in chosen.items():
                seconds[name] = min(run(), seconds.get(name, float("inf")))
    run = {"rows": given.rows, "seconds": seconds}
    print(json.dumps(run) if given.json else table(seconds, bench.work, before.get("seconds", {})))
    if given.save:
        given.save.write_text(json.dumps(run, indent=1) + "\n")
    if given.chart:
        given.chart.write_text("\n".join(chart.lines(charts(seconds), LABELS)) + "\n")
    found = slower(seconds, before.get("seconds", {}))
    for name in found:
        print(f"slower: {name}: {seconds[name]:.4f} s, before {before['seconds'][name]:.4f} s", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as failed:
        sys.exit(f"{failed.cmd}: status {failed.returncode}\n{failed.stderr}")
