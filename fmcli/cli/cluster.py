"""The options of the commands that run on a Dask cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.system.addresses import SECURE

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.cluster.connection import Cluster
    from fmcli.cluster.scoring import ExtentProgress
    from fmcli.registry.choices import Choices
    from fmcli.scoring.prediction import Counts

CLUSTER = ("cluster", "tls_ca_file", "tls_cert", "tls_key")
ADDRESS = re.compile(r"local:[1-9]\d{0,3}|(tcp|tls)://\S+:\d+")


@dataclass(frozen=True)
class ClusterAddress:
    """The cluster of a command, as in fmcli.cluster.connection.Address."""

    address: str
    ca: str | None
    cert: str | None
    key: str | None

    def __post_init__(self) -> None:
        """Check the address. Raises UsageError if it is none, or certificates have no use."""
        if not ADDRESS.fullmatch(self.address):
            raise UsageError(
                f"--cluster {self.address}: it must be tcp://HOST:PORT or tls://HOST:PORT of a scheduler, or local:N "
                "for N processes on this machine"
            )
        if (self.ca or self.cert or self.key) and not self.address.startswith(SECURE):
            raise UsageError(f"--tls-ca-file, --tls-cert and --tls-key apply only to {SECURE} addresses")

    @property
    def files(self) -> list[str]:
        """The files that this machine reads."""
        return [path for path in (self.ca, self.cert, self.key) if path is not None]

    def check(self, inputs: Sequence[str]) -> None:
        """Raise UsageError for inputs that workers cannot read."""
        if "-" in inputs:
            raise UsageError("the workers of a cluster cannot read standard input; give files that they can read")

    @contextmanager
    def connected(self, log: Log) -> Iterator[Cluster]:
        """Connect with the cluster, and log it. After it, a signal that came meanwhile ends the process."""
        from fmcli.cluster.connection import Address, connected
        from fmcli.system.interrupt import Deferred

        with Deferred() as signals, connected(Address(self.address, self.ca, self.cert, self.key), signals) as cluster:
            page = f", dashboard {cluster.dashboard}" if cluster.dashboard else ""
            log.line(f"cluster {self.address}: workers {cluster.workers}, threads {cluster.threads}{page}")
            yield cluster


def address_of(choices: Choices) -> ClusterAddress | None:
    """Return the cluster; None if there is none. Raises UsageError."""
    if choices.cluster is None:
        return None
    return ClusterAddress(choices.cluster, choices.tls_ca_file, choices.tls_cert, choices.tls_key)


def log_progress(log: Log, progress: ExtentProgress, counts: Counts, begin: float) -> None:
    """Show how many parts and rows have been scored since a time."""
    if log.due():
        speed = counts.rows / (time.perf_counter() - begin)
        log.progress(f"{progress.done:,} of {progress.extents:,} parts  {counts.rows:,} rows  {speed:,.0f} rows/s")
