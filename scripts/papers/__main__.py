"""Repeat the experiments of the papers, and show their results.

    python scripts/papers                            write the page fmcli/guide/papers.md from the kept results
    python scripts/papers --list                     list the experiments
    python scripts/papers --show [ll pn_beta]        print the results of all experiments, or of these, in Markdown
    python scripts/papers --figures FOLDER [ll]      draw the figures of all experiments, or of these
    python scripts/papers --raw FOLDER               run all experiments, then write the page
    python scripts/papers --raw FOLDER ll pn_beta    run these experiments, then write the page

FOLDER has the raw files of the data sets, which the results name; nothing is fetched. With more folders, --raw is given
for each of them. Each experiment prints its rules before it runs, and PASS or FAIL for each of them afterwards. Its
results are kept in scripts/papers/results.json.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # CPU seconds would count the threads that wait

from measures import Results
from page import drawn, keep, kept, results, written
from runner import ALL, Experiment
from sets import Raw

DIGITS = 6  # significant digits of the results that are kept


def rounded(value: Any) -> Any:
    """Return nested lists and dictionaries with rounded numbers."""
    if isinstance(value, dict):
        return {str(name): rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def perform(experiment: Experiment, folders: list[Path]) -> bool:
    """Run an experiment, and keep its results unless cases are skipped. Returns whether they are kept."""
    print(f"{experiment.name}: {experiment.source}: {experiment.title}", flush=True)
    for rule in experiment.rules:
        print(f"  rule: {rule.text}", flush=True)
    raw, begin = Raw(*folders), time.process_time()
    rows, skipped = rounded(experiment.run(raw))
    for rule in experiment.rules:
        print(f"  {experiment.verdict(rule, Results(rows))}: {rule.text}", flush=True)
    if not skipped:
        run = {"seconds": round(time.process_time() - begin, 1), "data": raw.built, "rows": rows}
        keep(kept() | {experiment.name: run})
    return not skipped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments; without any, all")
    parser.add_argument("--raw", type=Path, action="append", metavar="FOLDER", help="the raw files of the data sets")
    parser.add_argument("--show", action="store_true", help="print results that are kept")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the figures into this folder")
    parser.add_argument("--list", action="store_true", help="list the experiments")
    given = parser.parse_args()
    by_name = {one.name: one for one in ALL}
    if given.list:
        for name, one in by_name.items():
            print(f"{name:16} {one.source}: {one.title}")
        return
    if unknown := set(given.names) - set(by_name):
        parser.error(f"there is no experiment {', '.join(sorted(unknown))}; --list lists them")
    if given.show:
        print(results(kept(), given.names))
        return
    if given.names and not given.raw and not given.figures:
        parser.error("--raw names the folder of raw files, which the experiments need")
    names = given.names or list(by_name)
    missing = [name for name in names if given.raw and not perform(by_name[name], given.raw)]
    for path, text in (drawn(kept(), names, given.figures) if given.figures else written()).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {os.path.relpath(path)}")
    if missing:
        sys.exit(f"data are missing, so the results are not kept: {', '.join(missing)}")


if __name__ == "__main__":
    main()
