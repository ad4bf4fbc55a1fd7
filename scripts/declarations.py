"""What the build derives from the C headers, so each struct and each list of kernels is written once.

`write` makes, in a folder that lies beside cython_src and mirrors it:

- a .pxd for each header in DECLARED: its structs, constants and functions as Cython sees them;
- for each folder whose kernels.h lists kernels in a struct, a module `kernels` with a pointer to the table of these
  functions for this machine, and a source for each instruction set, which compiles them from the folder's .inl files.
"""

import re
from collections.abc import Iterator
from pathlib import Path

# The headers whose declarations Cython needs whole.
DECLARED = (
    *("base/types.h", "base/fields.h", "**/arguments.h", "**/kernels.h"),
    *("solvers/gibbs/random.h", "solvers/stochastic/row_entries.h"),
)
# The source of a table for each instruction set. fmcli/kernels/levels.h checks that the machine has these instructions.
LEVELS = {
    "baseline": "{unit}",
    "v3": """#define VECTOR_BYTES 32
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi,bmi2,fma")
#endif
{unit}#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
""",
}
UNIT = """#include "{folder}/kernels.h"
{includes}extern const {struct} fmcli_kernels_{level};
const {struct} fmcli_kernels_{level} = {{{kernels}}};
"""
MODULE = '''"""The table of the kernels of this folder for this machine's instruction set."""

from fmcli.kernels.simd import ISA


cdef extern from *:
    """
    extern const {struct} fmcli_kernels_baseline;
    #if defined(__x86_64__)
    extern const {struct} fmcli_kernels_v3;
    #else
    #define fmcli_kernels_v3 fmcli_kernels_baseline
    #endif
    """
    const {struct} fmcli_kernels_baseline, fmcli_kernels_v3

kernels = &fmcli_kernels_v3 if ISA == "v3" else &fmcli_kernels_baseline
'''
PIECE = re.compile(
    r"""
      template\ <class\ (?P<parameter>\w+)>\ struct\ (?P<template>\w+)\ \{(?P<generic>[^}]*)\};
    | typedef\ struct\ \w+\ \{(?P<members>[^}]*)\}\ (?P<struct>\w+);
    | typedef\ (?P<made>\w+)<(?P<of>\w+)>\ (?P<alias>\w+);
    | typedef\ (?P<type>[\w ]+)\ (?P<name>\w+);
    | enum\ \{(?P<constants>[^}]*)\};
    | static\ inline\ (?:__attribute__\(\(always_inline\)\)\ )?(?P<function>[^(){};]+\([^)]*\))\ \{
    """,
    re.VERBOSE,
)
FUNCTION_BODY = re.compile(r"(\) \{)(?:[^\n]*\}$|$.*?^\}$)", re.MULTILINE | re.DOTALL)
SPELLED = {"ptrdiff_t": "Py_ssize_t", "bool": "bint", "FMCLI_REAL": "double"}
INCLUDE = re.compile(r'^#include "(fmcli/.+)\.h"$', re.MULTILINE)
KERNEL = re.compile(r"\(\*(\w+)\)")
LIST = re.compile(r"typedef struct (\w+Kernels) \{(.*?)\}", re.DOTALL)


def write(sources: Path, to: Path) -> None:
    """Write the files that are not there or that differ, so the others stay older than what was built of them."""
    wanted = dict(files(sources))
    for path in [*to.rglob("*")] if to.exists() else []:
        if path.is_file() and str(path.relative_to(to)) not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = to / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def files(sources: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each file, relative to the folder, and its text."""
    found = sorted(path for pattern in DECLARED for path in (sources / "fmcli").glob(pattern))
    for path in found:
        name = path.relative_to(sources)
        declared = declarations(path.read_text(), str(name), {str(other.relative_to(sources)) for other in found})
        for folder in list(name.parents)[:-1]:
            yield str(folder / "__init__.pxd"), ""
        if name.name != "kernels.h":
            yield str(name.with_suffix(".pxd")), declared
            continue
        struct, members = LIST.findall(without_comments(path.read_text()))[0]
        yield str(name.with_suffix(".pxd")), f"{declared}\n\ncdef const {struct}* kernels\n"
        yield str(name.with_suffix(".pyx")), MODULE.format(struct=struct)
        names = ", ".join(KERNEL.findall(members))
        includes = "".join(f'#include "{one.relative_to(sources)}"\n' for one in sorted(defining(path.parent)))
        for level, source in LEVELS.items():
            unit = UNIT.format(folder=name.parent, includes=includes, struct=struct, level=level, kernels=names)
            yield str(name.with_name(f"kernels_{level}.cpp")), source.format(unit=unit)


def defining(folder: Path) -> list[Path]:
    """Return the files that define the kernels of a folder, in it and in folders below it without a list."""
    below = [path for path in folder.iterdir() if path.is_dir() and not (path / "kernels.h").exists()]
    return [*folder.glob("*.inl"), *(path for other in below for path in defining(other))]


def declarations(header: str, name: str, known: set[str]) -> str:
    """Return the .pxd of a header, which includes other headers in `known`."""
    lines = [f"# scripts/declarations.py wrote this file from {name}."]
    lines += ["from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t"]
    used = [other for other in INCLUDE.findall(header) if f"{other}.h" in known]
    lines += [f"from {other.replace('/', '.')} cimport *" for other in used]
    lines += ["", "", f'cdef extern from "{name}" nogil:']
    text = " ".join(FUNCTION_BODY.sub(r"\1", without_comments(header)).split())
    generic: dict[str, tuple[str, str]] = {}
    for piece in PIECE.finditer(text):
        if piece["template"]:
            generic[piece["template"]] = piece["parameter"], piece["generic"]
        elif piece["struct"]:
            lines += structure(piece["struct"], piece["members"])
        elif piece["alias"]:
            parameter, members = generic[piece["made"]]
            lines += structure(piece["alias"], re.sub(rf"\b{parameter}\b", piece["of"], members))
        elif piece["name"]:
            lines.append(f"    ctypedef {spelled(piece['type'])} {piece['name']}")
        elif piece["constants"]:
            lines += ["    enum:", *(f"        {each.split('=')[0].strip()}" for each in piece["constants"].split(","))]
        else:
            lines.append(f"    {spelled(piece['function'])}")
    return "\n".join(lines) + "\n"


def structure(name: str, members: str) -> list[str]:
    """Return the lines of a struct, with a line for each member."""
    lines = [f"    ctypedef struct {name}:"]
    for member in filter(None, map(str.strip, spelled(members).split(";"))):
        if KERNEL.search(member):
            lines.append(f"        {member} noexcept nogil")
            continue
        match = re.fullmatch(r"((?:const )?\w+)(.*)", member)
        assert match, f"{name}: {member}"
        for declarator in match[2].split(","):
            stars = "*" * declarator.count("*")
            lines.append(f"        {match[1]}{stars} {declarator.replace('*', '').strip()}")
    return lines


def without_comments(header: str) -> str:
    return re.sub(r"//.*|^#.*", "", header, flags=re.MULTILINE)


def spelled(text: str) -> str:
    """Return C types as Cython spells them."""
    return re.sub(r"\w+", lambda word: SPELLED.get(word[0], word[0]), text)
