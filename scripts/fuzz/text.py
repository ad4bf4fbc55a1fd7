#!/usr/bin/env python3
"""Fuzz the text reader (text.cpp), the importer of Arrow streams (arrow.cpp), or the scanner of tables (table.cpp),
with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.

    python scripts/fuzz/text.py --runs 100000000
    python scripts/fuzz/text.py arrow --runs 100000000
    python scripts/fuzz/text.py --runs 100000000 --folder FOLDER --minimize

Compiles it with clang, which needs its runtime libraries (libclang-rt-19-dev for clang++-19), and starts from the
corpus in tests/corpus, if there is one. An input that ends the process is written to a file whose name begins with
"crash-", and FOLDER/TARGET FILE runs it again. The exit status is libFuzzer's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from corpora import ROOT, pack, unpack

FLAGS = ("-std=c++17", "-O2", "-g1", "-Wall", "-Wextra", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined")
SANITIZERS = "-fsanitize=fuzzer,address,undefined"
# A small quarantine and no stacks of allocations take a third less time; a crash is run again with both.
FAST = {"ASAN_OPTIONS": "quarantine_size_mb=1:malloc_context_size=0:detect_stack_use_after_return=0"}
# Bytes of an input; many short ones find more than few long ones.
LONGEST = {"text": 120, "arrow": 400, "table": 120}
# Executions of each input: libFuzzer's own work takes several times as long as one.
WAYS = {"text": 1, "arrow": 1, "table": 8}
# Words that random changes hardly find.
WORDS = (
    *("qid:", "nan", "inf", "e-", "e+", "0x", "#", " 1:1", " 0:1:1", "\\x0d\\x0a", "0.1", "16777217"),
    *("2147483646", "2147483647", "9223372036854775807", "9223372036854775808", "18446744073709551616"),
    *("3.4028235e38", "3.4028236e38", "1e-45", "7e-46", "1.7976931348623157e308"),
    *("2024-02-29", "5/1/2024 1:05 PM", "Sep 20, 1997", "+02:00", "[1, 2 3]", "1|2|3", "1.234,5", '\\"'),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("target", nargs="?", choices=("text", "arrow", "table"), default="text")
    parser.add_argument("--runs", type=int, default=10_000_000, help="executions")
    parser.add_argument("--compiler", default="clang++", help="of clang")
    parser.add_argument("--folder", type=Path, help="where the program and the corpus are kept")
    parser.add_argument("--minimize", action="store_true", help="afterwards, write the smallest corpus to tests/corpus")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fmcli-fuzz-") as temporary:
        folder = options.folder or Path(temporary)
        program, corpus = build(folder, options.compiler, options.target), folder / "corpus"
        unpack(options.target, corpus)
        words = folder / "words"
        words.write_text("".join(f'"{word}"\n' for word in WORDS))
        runs = options.runs // WAYS[options.target]
        status = fuzz(program, f"-dict={words}", f"-runs={runs}", "-print_final_stats=1", corpus)
        if options.minimize and status == 0:
            smallest = Path(temporary) / "smallest"
            smallest.mkdir()
            status = fuzz(program, "-merge=1", smallest, corpus)
            pack(smallest, options.target)
    return status


def build(folder: Path, compiler: str, target: str) -> Path:
    """Compile the harness of a target."""
    folder.mkdir(parents=True, exist_ok=True)
    program, source = folder / target, Path(__file__).with_name(f"{target}.cpp")
    subprocess.run([compiler, *FLAGS, SANITIZERS, f"-I{ROOT / 'cython_src'}", source, "-o", program], check=True)
    return program


def fuzz(program: Path, *arguments: str | Path) -> int:
    """Run libFuzzer. Returns its exit status."""
    command = [program, "-detect_leaks=0", f"-max_len={LONGEST[program.name]}", *arguments]
    return subprocess.run(command, env={**os.environ, **FAST}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
