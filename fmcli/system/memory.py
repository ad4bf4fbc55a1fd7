"""Available memory. It is checked before an allocation, so an error message can name the size needed, and the kernel
does not kill the process."""

import os
import resource
import sys
from collections.abc import Iterator

from fmcli.errors import NotEnoughMemoryError
from fmcli.system.machine import ROOT, cgroup_folders, lines, number

# Messages omit bytes in use below this number.
SHOWN_BYTES = 1 << 20
LARGE = 64 << 20  # smaller requests are not checked
# The address space that loading scipy.sparse takes.
SCIPY_SPARSE = 40 << 20
UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
# The files with a cgroup's limit and usage, and the statistic of its reclaimable file cache: for cgroup v2, then v1.
CGROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available(root: str = ROOT) -> int:
    """Return the bytes that this process can still allocate: the minimum of free memory, RLIMIT_AS and the cgroups'
    limits.

    Swap does not count, because training in swap would take too long. sys.maxsize if no limit is known.
    """
    return _tightest(root)[0]


def require(needed: int, purpose: str, root: str = ROOT, *, held: int = 0) -> None:
    """Raise NotEnoughMemoryError unless `needed` bytes are available, including `held` bytes already in use. The
    message starts with `purpose`: "reading a.svm"."""
    free, limit, remedy = _tightest(root)
    if needed - held > free:
        has = f" ({human_bytes(held)} are already in use)" if held >= SHOWN_BYTES else ""
        raise NotEnoughMemoryError(
            f"{purpose} needs {human_bytes(needed)} of memory{has}, but only {human_bytes(free)} are available "
            f"({limit}): {remedy}, or use a smaller rank, fewer features or fewer rows"
        )


def require_if_large(needed: int, purpose: str, *, held: int = 0) -> None:
    """Like `require`, but without a check if so little is needed that the check is not worth its time."""
    if needed - held >= LARGE:
        require(needed, purpose, held=held)


def require_scipy(part: int, user: str) -> None:
    """Raise NotEnoughMemoryError unless a part of scipy of this size can be loaded. `user` : who needs it, for the
    message."""
    if "scipy" not in sys.modules:
        require_address_space(part, f"loading scipy, which {user} needs,")


def require_address_space(needed: int, purpose: str) -> None:
    """Raise NotEnoughMemoryError unless ulimit -v leaves this many bytes: with less, a library may abort the process or
    hang while it is loaded."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        require(needed, purpose)


def peak(root: str = ROOT) -> int:
    """Return this process's peak memory in bytes."""
    for line in lines(f"{root}/proc/self/status"):
        name, _, size = line.partition(":")
        if name == "VmHWM":
            return int(size.split()[0]) * 1024
    # Linux includes the memory that the process had before it became this program, so this is only the fallback.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def human_bytes(n: int) -> str:
    """Return a size as readable text, in powers of 1024: 1.5 GiB."""
    if n < 1024:
        return f"{n} bytes"
    size, unit = n / 1024, 0
    # A size that would be printed as 1024.0 gets the next unit.
    while round(size, 1) >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {UNITS[unit]}"


def _tightest(root: str) -> tuple[int, str, str]:
    free, limit, remedy = min(_limits(root))
    return max(free, 0), limit, remedy


def _limits(root: str) -> Iterator[tuple[int, str, str]]:
    """Yield every limit: the bytes left under it, its name, and how to raise it."""
    yield sys.maxsize, "no limit is known", "use a machine with more memory"
    for line in lines(f"{root}/proc/meminfo"):
        name, size = line.split()[:2]
        if name == "MemAvailable:":
            yield int(size) * 1024, "free on this machine", "stop other programs, use a machine with more memory"
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        mapped = sum(int(line.split()[0]) for line in lines(f"{root}/proc/self/statm")) * os.sysconf("SC_PAGE_SIZE")
        yield address_space - mapped, "left under ulimit -v", "raise that limit"
    for folder in cgroup_folders("memory", root):
        for limit_file, use_file, cache_name in CGROUP_FILES:
            limit, use = number(f"{folder}/{limit_file}"), number(f"{folder}/{use_file}")
            if limit is not None and use is not None:
                statistics = map(str.split, lines(f"{folder}/memory.stat"))
                cache = next((int(value) for key, value in statistics if key == cache_name), 0)
                yield limit - use + cache, "left in the container or cgroup", "raise its limit"
