"""The resources of this process: its control groups and its processors.

Paths are strings, because each command imports this module, and pathlib takes 3 ms to import.
"""

import math
import os
from collections.abc import Iterator

ROOT = ""


def cpu_count(root: str = ROOT) -> int:
    """Return the number of processors that this process may use, by its affinity mask and its cgroups' quotas; at least
    1."""
    # Only some systems, such as Linux, have affinity masks.
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in cgroup_folders("cpu", root):
        quota = _cpu_quota(folder)
        if quota is not None:
            count = min(count, math.ceil(quota))
    return max(count, 1)


def cgroup_folders(controller: str, root: str = ROOT) -> Iterator[str]:
    """Yield the cgroups (v1 and v2) that may limit `controller` for this process, from its own group up to the root.

    A limit applies to all groups below, so every folder counts. Yields nothing if there are no cgroups.
    """
    groups: dict[str, str] = {}
    for line in lines(f"{root}/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):  # cgroup v2 lists no controllers; its path has the key ""
            groups[name] = path
    for line in lines(f"{root}/proc/self/mountinfo"):
        mount, _, system = line.partition(" - ")
        mounted, point = mount.split()[3:5]
        kind, _, options = system.split(maxsplit=2)
        if kind == "cgroup" and controller in options.split(","):
            group = groups.get(controller)
        elif kind == "cgroup2":
            group = groups.get("")
        else:
            continue
        if group is None:
            continue
        # In a container, the mount may show only the group of the process, under a path of the host.
        inner = os.path.relpath(group, mounted).split("/")
        if inner[0] in (os.curdir, os.pardir):
            inner = []
        for level in range(len(inner), -1, -1):
            yield "/".join([root, point.strip("/"), *inner[:level]])


def lines(path: str) -> list[str]:
    """Return the lines of a kernel file; empty if it cannot be read."""
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


def number(path: str) -> int | None:
    """Return the number in a kernel file; None if it has no number or cannot be read."""
    try:
        return int("".join(lines(path)))
    except ValueError:
        return None


def _cpu_quota(folder: str) -> float | None:
    """Return the number of processors that a cgroup may use; None if it sets no limit."""
    for line in lines(f"{folder}/cpu.max"):
        quota, period = line.split()
        return None if quota == "max" else int(quota) / int(period)
    quota_us, period_us = number(f"{folder}/cpu.cfs_quota_us"), number(f"{folder}/cpu.cfs_period_us")
    if quota_us is None or period_us is None or quota_us < 0:
        return None
    return quota_us / period_us
