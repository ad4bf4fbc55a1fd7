#!/usr/bin/env python3
"""Generate code from the list of kernels: the table of functions for C++, and the declarations for Cython.

    python scripts/kernels.py           write both files
    python scripts/kernels.py --check   exit with status 1 if a file is not up to date

The list is `struct Kernels` in cython_src/fmcli/kernels/kernels.h, which has a function pointer for each kernel.
"""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "cython_src" / "fmcli" / "kernels"
MEMBER = re.compile(r"(\w+) \(\*(\w+)\)\(([^;]*)\);")
COMMENT = re.compile(r"//.*")
PARAMETER = re.compile(r"^(.*?[ *])\w+$")
WIDTH = 116
CYTHON = {"ptrdiff_t": "Py_ssize_t", "bool": "bint"}
HEADER = "scripts/kernels.py writes this file from the list in kernels.h."


def kernels(header: str) -> list[tuple[str, str, list[str]]]:
    """(result type, name, types of the parameters) of each kernel in the list."""
    text = COMMENT.sub("", header[header.index("typedef struct Kernels {") :])
    return [(result, name, types(parameters)) for result, name, parameters in MEMBER.findall(text)]


def types(parameters: str) -> list[str]:
    """The parameters without their names, as Cython spells them."""
    found = []
    for parameter in " ".join(parameters.split()).split(", "):
        match = PARAMETER.match(parameter)
        assert match, parameter
        found.append(re.sub(r"\w+", lambda word: CYTHON.get(word[0], word[0]), match[1].strip()))
    return found


def table(members: list[tuple[str, str, list[str]]]) -> str:
    """The initializer of a table."""
    return f"// {HEADER}\n" + "".join(f"{name},\n" for _, name, _ in members)


def declarations(members: list[tuple[str, str, list[str]]]) -> str:
    """The struct as Cython sees it."""
    lines = [f"# {HEADER}", "from fmcli.base.fields cimport FieldEntries"]
    lines += ["from fmcli.base.types cimport Block, BlockGradient, ColumnView, Csr, Factors, Points, Sample"]
    lines += ["from fmcli.base.types cimport SampleStates, SparseGradient, ThreadShare, real"]
    lines += ["from fmcli.kernels.arguments cimport *", "from libc.stdint cimport int32_t", "", ""]
    lines += ['cdef extern from "fmcli/kernels/kernels.h" nogil:', "    struct Kernels:", "        const char* name"]
    for result, name, parameters in members:
        line = f"        {result} (*{name})({', '.join(parameters)}) noexcept nogil"
        if len(line) > WIDTH:
            lines.append(f"        {result} (*{name})(")
            line = " " * 11
            for i, parameter in enumerate(parameters):
                end = "," if i < len(parameters) - 1 else ") noexcept nogil"
                if len(line) + 1 + len(parameter) + len(end) > WIDTH:
                    lines.append(line)
                    line = " " * 11
                line += f" {parameter}{end}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    members = kernels((FOLDER / "kernels.h").read_text())
    wanted = {FOLDER / "table.inl": table(members), FOLDER / "table.pxd": declarations(members)}
    if sys.argv[1:] == ["--check"]:
        stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
        if stale:
            print(f"{' and '.join(stale)} do not follow the list in kernels.h: run python scripts/kernels.py")
        return 1 if stale else 0
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
