"""Memory: what can be had, asked before it is taken, so that a refusal has a number and no process is killed."""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from fmcli.errors import NotEnoughMemoryError
from fmcli.system.machine import ROOT, cgroup_folders, lines, number

# Bytes in use below which a message does not name them.
WORTH_SAYING = 1 << 20
LARGE = 64 << 20  # bytes that are worth a look at what is left
# Address space of scipy's parts.
SCIPY_OPTIMIZE, SCIPY_SPARSE = 150 << 20, 40 << 20
UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
# Limit, use and the part of the use that is file cache which the kernel gives back: files of cgroup v2, then v1.
CGROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available(root: Path = ROOT) -> int:
    """Bytes that this process can still take: the least of free memory, RLIMIT_AS and the cgroups' limits.

    Swap does not count: training in it would not end. sys.maxsize where nothing says how much there is.
    """
    return _tightest(root)[0]


def require(needed: int, purpose: str, root: Path = ROOT, *, held: int = 0) -> None:
    """Raise NotEnoughMemoryError unless `needed` bytes can be had, of which `held` are in use already; `purpose` begins
    the message: "reading a.svm"."""
    free, limit, remedy = _tightest(root)
    if needed - held > free:
        has = f", {human_bytes(held)} of which are in use already" if held >= WORTH_SAYING else ""
        raise NotEnoughMemoryError(
            f"{purpose} needs {human_bytes(needed)} of memory{has}, but only {human_bytes(free)} can be had ({limit}): "
            f"{remedy}, or ask for less: a smaller rank, fewer features or rows"
        )


def require_if_large(needed: int, purpose: str, *, held: int = 0) -> None:
    """As `require`, but without a look where so little is needed that looking would take longer than it is worth."""
    if needed - held >= LARGE:
        require(needed, purpose, held=held)


def require_scipy(part: int, user: str) -> None:
    """Raise NotEnoughMemoryError unless a part of scipy of that size can be loaded, which `user` needs."""
    if "scipy" not in sys.modules:
        require_address_space(part, f"loading scipy, which {user} needs,")


def require_address_space(needed: int, purpose: str) -> None:
    """Raise NotEnoughMemoryError unless ulimit -v leaves so many bytes: libraries that are loaded with less of them may
    end the process, or never come back."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        require(needed, purpose)


def human_bytes(n: int) -> str:
    """A size for people to read, in powers of 1024: 1.5 GiB."""
    if n < 1024:
        return f"{n} bytes"
    size, unit = n / 1024, 0
    # What would be printed as 1024.0 belongs to the next unit.
    while round(size, 1) >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {UNITS[unit]}"


def _tightest(root: Path) -> tuple[int, str, str]:
    free, limit, remedy = min(_limits(root))
    return max(free, 0), limit, remedy


def _limits(root: Path) -> Iterator[tuple[int, str, str]]:
    """Every limit: the bytes left under it, its name, and what raises it."""
    yield sys.maxsize, "no limit is known", "use a machine with more memory"
    for line in lines(root / "proc/meminfo"):
        name, size = line.split()[:2]
        if name == "MemAvailable:":
            yield int(size) * 1024, "free on this machine", "stop other programs, use a machine with more memory"
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        mapped = sum(int(line.split()[0]) for line in lines(root / "proc/self/statm")) * os.sysconf("SC_PAGE_SIZE")
        yield address_space - mapped, "left under ulimit -v", "raise that limit"
    for folder in cgroup_folders("memory", root):
        for limit_file, use_file, cache_name in CGROUP_FILES:
            limit, use = number(folder / limit_file), number(folder / use_file)
            if limit is not None and use is not None:
                cache = _statistic(folder / "memory.stat", cache_name)
                yield limit - use + cache, "left in the container or cgroup", "raise its limit"


def _statistic(path: Path, name: str) -> int:
    return next((int(value) for key, value in map(str.split, lines(path)) if key == name), 0)
