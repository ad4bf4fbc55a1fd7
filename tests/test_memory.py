"""Available memory and processors, read from simulated /proc and cgroup trees, and with a real limit."""

import os
import subprocess
import sys

import pytest

from fmcli.errors import NotEnoughMemoryError
from fmcli.system.machine import cpu_count
from fmcli.system.memory import available, human_bytes, peak, require

MIB = 1024 * 1024
V2_MOUNT = "30 23 0:26 {inside} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 {inside} /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:32 {inside} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "34 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)


@pytest.fixture
def machine(tmp_path):
    """A function that writes files into a root folder and returns its path: machine({"proc/meminfo": ...})."""

    def build(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path)

    return build


def meminfo(mib):
    return f"MemTotal:       99999999 kB\nMemFree:  1 kB\nMemAvailable:   {mib * 1024} kB\nHugePages_Total:       0\n"


def group_v2(mib_limit, mib_use, mib_cache=0):
    limit = "max" if mib_limit is None else str(mib_limit * MIB)
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{mib_use * MIB}\n",
        "memory.stat": f"anon 5\ninactive_file {mib_cache * MIB}\nactive_file 77777777\n",
    }


def group_v1(mib_limit, mib_use, mib_cache=0):
    limit = 9223372036854771712 if mib_limit is None else mib_limit * MIB
    return {
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.usage_in_bytes": f"{mib_use * MIB}\n",
        "memory.stat": f"inactive_file 1\ntotal_inactive_file {mib_cache * MIB}\n",
    }


def under(folder, files):
    return {f"{folder}/{name}": text for name, text in files.items()}


def test_free_memory_of_the_machine(machine):
    assert available(machine({"proc/meminfo": meminfo(300)})) == 300 * MIB


def test_without_information_there_is_no_limit(tmp_path):
    assert available(tmp_path) == sys.maxsize
    require(10**15, "anything", tmp_path)


@pytest.mark.parametrize(
    ("limits", "parent", "expected"),
    [
        ((200, 50), (None, 60), 150),
        ((200, 50, 30), (None, 60), 180),
        ((None, 50), (100, 60), 40),  # the parent group has the limit
        ((200, 50), (180, 100, 10), 90),
        ((None, 50), (None, 60), 1000),
        ((100, 130), (None, 130), 0),  # the limit was lowered below the memory in use
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_cgroups_limit_from_every_level(machine, version, limits, parent, expected):
    if version == 2:
        top, group, lines, mounts = "sys/fs/cgroup", group_v2, "0::/user/job\n", V2_MOUNT
    else:
        top, group, lines, mounts = "sys/fs/cgroup/memory", group_v1, "4:memory:/user/job\n0::/\n", V1_MOUNTS
    root = machine(
        {
            "proc/meminfo": meminfo(1000),
            "proc/self/cgroup": lines,
            "proc/self/mountinfo": mounts.format(inside="/"),
            **under(f"{top}/user/job", group(*limits)),
            **under(f"{top}/user", group(*parent)),
        }
    )
    assert available(root) == expected * MIB


@pytest.mark.parametrize("group", ["/docker/abc", "/", "/docker/another"])
def test_a_container_sees_its_own_group_at_the_top(machine, group):
    root = machine(
        {
            "proc/meminfo": meminfo(1000),
            "proc/self/cgroup": f"4:memory:{group}\n",
            "proc/self/mountinfo": V1_MOUNTS.format(inside="/docker/abc"),
            **under("sys/fs/cgroup/memory", group_v1(200, 50)),
        }
    )
    assert available(root) == 150 * MIB


def test_missing_files_of_a_cgroup(machine):
    root = machine(
        {
            "proc/meminfo": meminfo(1000),
            "proc/self/cgroup": "0::/job\n",
            "proc/self/mountinfo": V2_MOUNT.format(inside="/"),
            "sys/fs/cgroup/job/memory.max": f"{100 * MIB}\n",
        }
    )
    assert available(root) == 1000 * MIB
    machine({"sys/fs/cgroup/job/memory.current": f"{40 * MIB}\n"})
    assert available(root) == 60 * MIB


def test_a_memory_error_has_the_numbers_the_purpose_and_a_solution(machine):
    root = machine({"proc/meminfo": meminfo(300)})
    require(300 * MIB, "reading a.svm", root)
    with pytest.raises(NotEnoughMemoryError) as caught:
        require(300 * MIB + 1, "reading a.svm", root)
    assert str(caught.value) == (
        "reading a.svm needs 300.0 MiB of memory, but only 300.0 MiB are available (free on this machine): "
        "stop other programs, use a machine with more memory, or use a smaller rank, fewer features or fewer rows"
    )
    assert caught.value.exit_status == 4


def test_memory_already_held_is_not_required_again(machine):
    root = machine({"proc/meminfo": meminfo(100)})
    require(150 * MIB, "reading", root, held=50 * MIB)
    with pytest.raises(NotEnoughMemoryError, match=r"\(49\.0 MiB are already in use\)"):
        require(150 * MIB, "reading", root, held=49 * MIB)


def test_a_real_limit_of_the_address_space():
    code = (
        "import mmap, resource\n"
        "from fmcli.errors import NotEnoughMemoryError\n"
        "from fmcli.system.memory import available, require\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "before = available()\n"
        "kept = mmap.mmap(-1, 2**28)\n"
        "after = available()\n"
        "print(before, after)\n"
        "try:\n"
        "    require(after + 2**20, 'the test')\n"
        "except NotEnoughMemoryError as error:\n"
        "    print(error)\n"
        "mmap.mmap(-1, after - 2**22)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    numbers, message = out.splitlines()
    before, after = map(int, numbers.split())
    assert 2**28 < before < 2**30
    assert abs(before - after - 2**28) < 2**22
    assert "ulimit -v" in message


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (3 * 1024**3 // 2, "1.5 GiB"),
        (5 * 1024**4, "5.0 TiB"),
        (10**22, "8881784.2 PiB"),
    ],
)
def test_readable_sizes(n, text):
    assert human_bytes(n) == text


@pytest.fixture
def eight_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


@pytest.mark.usefixtures("eight_cpus")
@pytest.mark.parametrize(
    ("quota", "expected"), [(None, 8), (100_000, 1), (150_000, 2), (50_000, 1), (400_000, 4), (10**9, 8)]
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_quota_limits_the_processors(machine, version, quota, expected):
    if version == 2:
        files = {"sys/fs/cgroup/user/cpu.max": f"{'max' if quota is None else quota} 100000\n"}
        lines, mounts = "0::/user/job\n", V2_MOUNT
    else:
        top = "sys/fs/cgroup/cpu,cpuacct/user"
        files = {
            f"{top}/cpu.cfs_quota_us": f"{-1 if quota is None else quota}\n",
            f"{top}/cpu.cfs_period_us": "100000\n",
        }
        lines, mounts = "2:cpu,cpuacct:/user/job\n", V1_MOUNTS
    root = machine({"proc/self/cgroup": lines, "proc/self/mountinfo": mounts.format(inside="/"), **files})
    assert cpu_count(root) == expected


@pytest.mark.usefixtures("eight_cpus")
def test_processors_without_cgroups(tmp_path):
    assert cpu_count(tmp_path) == 8


def test_a_system_without_affinity_masks(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cpu_count(tmp_path) == 3


def test_the_affinity_mask_of_this_process():
    code = (
        "import os\n"
        "from fmcli.system.machine import cpu_count\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "print(cpu_count())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_this_machine():
    assert 0 < available() <= sys.maxsize
    assert 1 <= cpu_count() <= len(os.sched_getaffinity(0))


def test_the_peak_is_that_of_the_kernel(tmp_path):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "status").write_text("Name:\tfmcli\nVmPeak:\t  9000 kB\nVmHWM:\t  1234 kB\n")
    assert peak(str(tmp_path)) == 1234 * 1024
    code = (
        "import numpy; from fmcli.system.memory import peak; before = peak(); numpy.ones(1 << 23);"
        "print(peak() - before, peak('/none') > 1 << 26)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    grown, there = done.stdout.split()
    assert 60 << 20 < int(grown) < 70 << 20
    assert there == "True"
