#!/usr/bin/env python3
"""Make the system fail under fmcli, and print what happens: the exit status, the message and the older output files.

    python scripts/faults/table.py
    python scripts/faults/table.py --only disk memory

The faults: a disk that is full at any operation that writes, or fails, a limit of the size of files, a folder or file
that cannot be written, an input that is missing, fails, or is truncated or removed at any read, two runs that write the
same files, and a small address space. Needs Linux and gcc, which compiles preload.c. A run has failed if it ends by a
signal, with another status or without a message, or if an output file is neither the older nor the new one. Prints a
table in Markdown, and failures below it. The exit status is 1 if there is a failure.
"""

from __future__ import annotations

import argparse
import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = ROOT / "sample_data" / "adult.train.libsvm"
# Root may write to read-only folders otherwise.
WITHOUT_PRIVILEGE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
PATIENCE = 60.0
DONE, NO_MEMORY, NOT_WRITTEN, BUSY = 0, 4, 74, 75
BAD_DATA, UNREADABLE = 65, 66
PAIRS = 10  # of runs at the same time
MEGABYTE = 1 << 20
TABLE = 60  # rows of a table
SIZES = (0, 1 << 10)  # limits of the size of a file, below the size of all outputs
MANY = 60  # copies of the rows, whose memory matters
LIMITS = range(80, 561, 40)  # of the address space, in MB


@dataclass(frozen=True)
class Command:
    """A command in a folder with `rows`, a model `old.fm`, and earlier outputs.

    outputs : the files that it writes whole or not at all.
    followed : files that may end anywhere, because others read them while they are written.
    """

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    followed: tuple[str, ...] = ()


TRAIN = ("train", "-q", "-k", "2", "-e", "2")
COMMANDS = {
    "train": Command((*TRAIN, "-o", "m.fm", "--log-json", "log", "rows"), ("m.fm",), ("log",)),
    "train --checkpoint": Command(
        (*TRAIN, "-o", "m.fm", "--checkpoint", "c", "--checkpoint-every", "0.001", "rows"), ("m.fm",)
    ),
    "train --disk": Command((*TRAIN, "-o", "m.fm", "--disk", "--cache", "cache", "rows"), ("m.fm", "cache")),
    "train --ensemble": Command((*TRAIN, "--ensemble", "2", "-o", "m.fm", "rows"), ("m.fm",)),
    "train --online": Command(("train", "-q", "-k", "2", "--online", "-o", "m.fm", "rows"), ("m.fm",)),
    "train --test": Command(
        (
            "train",
            "-q",
            "-k",
            "2",
            "-s",
            "mcmc",
            "-e",
            "4",
            "-o",
            "m.fm",
            "--test",
            "rows",
            "--test-output",
            "out",
            "rows",
        ),
        ("m.fm", "out"),
    ),
    "convert": Command(("convert", "-q", "--label", "c", "--categorical", "a,b", "-o", "out", "table"), ("out",)),
    "negatives": Command(("negatives", "-q", "--pair", "a,b", "-o", "out", "table"), ("out",)),
    "split": Command(("split", "-q", "rows", "one", "two"), ("one", "two")),
    "predict": Command(("predict", "-q", "-o", "scores", "old.fm", "rows"), ("scores",)),
    "export .txt": Command(("export", "-q", "old.fm", "m.txt"), ("m.txt",)),
    "export .npz": Command(("export", "-q", "old.fm", "m.npz"), ("m.npz",)),
}


@dataclass
class Row:
    """What happened to the runs with one fault."""

    fault: str
    command: str
    runs: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)


class Table:
    """Runs commands with faults, in folders that are made anew for each run.

    before : the files of a folder before a run.
    after : command -> its outputs if nothing fails.
    """

    def __init__(self, work: Path) -> None:
        self.work, self.folder = work, work / "folder"
        self.rows: list[Row] = []
        self.failures: list[str] = []
        self.preload = work / "preload.so"
        source = Path(__file__).with_name("preload.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", self.preload, source, "-ldl"], check=True)
        self.before: dict[str, bytes] = {}
        self.after: dict[str, dict[str, bytes]] = {}
        self.set_rows(ROWS.read_bytes())

    def set_rows(self, rows: bytes) -> None:
        """Use these rows from now on."""
        cells = (f"{n % 29},{n % 31},{n % 2}\n" for n in range(TABLE))
        self.before = {"rows": rows, "table": f"a,b,c\n{''.join(cells)}".encode()}
        self.fresh()
        self.run("train", "-q", "-k", "2", "-e", "1", "-o", "old.fm", "rows")
        self.before["old.fm"] = self.content("old.fm")
        self.fresh()
        for name, command in COMMANDS.items():
            done = self.run(*command.arguments)
            assert done.returncode == 0, done.stderr
            self.after[name] = {output: self.content(output) for output in command.outputs}
            # Outputs of an earlier run: valid, but others.
            self.before |= dict.fromkeys((*command.outputs, *command.followed), b"an earlier output\n")
        # An older cache is replaced only if it is a cache.
        other = self.after["train --disk"]["cache"]
        self.before["cache"] = other[: len(other) // 2]

    def fresh(self) -> None:
        """Make the folder as it is before a run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name, data in self.before.items():
            (self.folder / name).write_bytes(data)
        os.utime(self.folder / "rows", (0, 0))  # because a cache has the time of its input

    def content(self, name: str) -> bytes:
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def start(
        self,
        *arguments: str,
        user: Sequence[str] = (),
        prepare: Callable[[], None] = lambda: None,
        **variables: str,
    ) -> subprocess.Popen[str]:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **variables}
        command = [*user, sys.executable, "-m", "fmcli", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=pipe, stderr=pipe, text=True, preexec_fn=prepare
        )

    def run(self, *arguments: str, **how) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments, **how) as process:
            return self.ended(process)

    def ended(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        out, told = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, told)

    def row(self, fault: str, command: str) -> Row:
        self.rows.append(Row(fault, command))
        return self.rows[-1]

    def note(self, row: Row, done: subprocess.CompletedProcess[str], allowed: set[int]) -> None:
        """Add a run to a row, and check it."""
        name, command = row.command, COMMANDS[row.command]
        message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
        row.runs += 1
        row.statuses[done.returncode] += 1
        if done.returncode:
            row.messages[message.removeprefix("fmcli: error: ")] += 1
        wrong = []
        if done.returncode not in allowed:
            wrong.append(f"status {done.returncode}")
        if done.returncode and not message.startswith("fmcli: error: "):
            wrong.append("no message")
        for output in command.outputs:
            data = self.content(output)
            if data == self.after[name][output]:
                row.files["new"] += 1
            elif data == self.before[output]:
                row.files["old"] += 1
                if done.returncode == 0:
                    wrong.append(f"{output} was not written")
            else:
                row.files["LOST"] += 1
                wrong.append(f"{output} is neither the older nor the new file")
        if left := [path.name for path in self.folder.iterdir() if path.name.startswith(".")]:
            wrong.append(f"{left} is left")
        if wrong:
            self.failures.append(f"{row.fault}, {name}: {', '.join(wrong)}: {done.stderr.strip()}")

    def faulty(self, **variables: str) -> dict[str, str]:
        """The variables of a run with preload.c."""
        return {"LD_PRELOAD": str(self.preload), "FAULT_FOLDER": str(self.folder), **variables}

    def operations(self, command: str) -> tuple[int, int]:
        """The numbers of operations of a run that write, and that read the rows."""
        self.fresh()
        count = self.work / "count"
        variables = self.faulty(FAULT_COUNT=str(count), FAULT_INPUT=str(self.folder / "rows"))
        done = self.run(*COMMANDS[command].arguments, **variables)
        assert done.returncode == 0, done.stderr
        writing, reading = map(int, count.read_text().split())
        return writing, reading


def disk(table: Table) -> None:
    """The disk is full at the N-th operation that writes, for every N."""
    for name, command in COMMANDS.items():
        row = table.row("disk full at operation N", name)
        for number in range(1, table.operations(name)[0] + 1):
            table.fresh()
            done = table.run(*command.arguments, **table.faulty(FAULT_WRITE=str(number)))
            table.note(row, done, {NOT_WRITTEN})


def errors(table: Table) -> None:
    """The disk fails at the last operation that writes; and no file may be longer than a limit."""
    for name, command in COMMANDS.items():
        row = table.row("disk fails at the end", name)
        last = table.operations(name)[0]
        table.fresh()
        variables = table.faulty(FAULT_WRITE=str(last), FAULT_ERROR=str(errno.EIO))
        table.note(row, table.run(*command.arguments, **variables), {NOT_WRITTEN})
        for size in SIZES:
            row = table.row(f"ulimit -f {size} bytes", name)
            table.fresh()

            def limited(size: int = size) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

            small = all(len(table.after[name][output]) <= size for output in command.outputs)
            table.note(row, table.run(*command.arguments, prepare=limited), {DONE} if small else {NOT_WRITTEN})


def folders(table: Table) -> None:
    """The folder, or the older output, cannot be written."""
    user = WITHOUT_PRIVILEGE if os.geteuid() == 0 else ()
    for what in ("folder", "file"):
        for name, command in COMMANDS.items():
            row = table.row(f"read-only {what}", name)
            table.fresh()
            for output in command.outputs:
                (table.folder / output).chmod(0o444)
            table.folder.chmod(0o555 if what == "folder" else 0o777)
            table.note(row, table.run(*command.arguments, user=user), {NOT_WRITTEN})
            table.folder.chmod(0o755)


def inputs(table: Table) -> None:
    """The rows are missing; they cannot be read, or are truncated or removed, at the N-th read, for every N."""
    # What is read before the change is enough for some runs; others open the file after it.
    expected = {
        "error": {UNREADABLE},
        "truncate": {DONE, NOT_WRITTEN, BAD_DATA},
        "remove": {DONE, UNREADABLE},
    }
    reading = [name for name, command in COMMANDS.items() if "rows" in command.arguments]
    for name in reading:
        row = table.row("input is missing", name)
        table.fresh()
        (table.folder / "rows").unlink()
        table.note(row, table.run(*COMMANDS[name].arguments), {UNREADABLE})
        reads = table.operations(name)[1]
        for action, statuses in expected.items():
            row = table.row(f"input: {action} at read N", name)
            for number in range(1, reads + 1):
                table.fresh()
                path = str(table.folder / "rows")
                variables = table.faulty(FAULT_INPUT=path, FAULT_ACTION=action, FAULT_READ=str(number))
                table.note(row, table.run(*COMMANDS[name].arguments, **variables), statuses)


def writers(table: Table) -> None:
    """Two runs write the same files at the same time."""
    for name, command in COMMANDS.items():
        row = table.row("two writers", name)
        for _ in range(PAIRS):
            table.fresh()
            with table.start(*command.arguments) as one, table.start(*command.arguments) as other:
                ended = [table.ended(process) for process in (one, other)]
            for done in ended:
                table.note(row, done, {DONE, BUSY} if "--checkpoint" in command.arguments else {DONE})


def memory(table: Table) -> None:
    """The address space is limited."""
    table.set_rows(MANY * ROWS.read_bytes())
    for name, command in COMMANDS.items():
        row = table.row(f"ulimit -v {LIMITS[0]} .. {LIMITS[-1]} MB", name)
        for limit in LIMITS:
            table.fresh()

            def limited(size: int = limit * MEGABYTE) -> None:
                resource.setrlimit(resource.RLIMIT_AS, (size, size))

            table.note(row, table.run(*command.arguments, prepare=limited), {DONE, NO_MEMORY})


FAULTS = {"disk": disk, "errors": errors, "folders": folders, "inputs": inputs, "writers": writers, "memory": memory}


def shown(table: Table) -> str:
    """The table in Markdown."""
    lines = ["| fault | command | runs | status | outputs | message |", "| --- | --- | --- | --- | --- | --- |"]
    for row in table.rows:
        statuses = ", ".join(f"{status} ({count})" for status, count in sorted(row.statuses.items()))
        files = ", ".join(f"{state} ({count})" for state, count in sorted(row.files.items()))
        message = "; ".join(text for text, _ in row.messages.most_common(1)).replace("|", "\\|")
        lines.append(f"| {row.fault} | {row.command} | {row.runs} | {statuses} | {files} | {message} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(FAULTS), default=list(FAULTS), help="the faults to try")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fmcli-faults-") as work:
        Path(work).chmod(0o755)
        table = Table(Path(work))
        for name in options.only:
            FAULTS[name](table)
    print(shown(table))
    for failure in table.failures:
        print(f"FAILED: {failure}")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
