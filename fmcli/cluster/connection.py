"""The connection with a Dask cluster: its workers, and the results of tasks in order.

Dask sends tasks to workers, and repeats the tasks of workers that end. This module bounds the number of waiting
results, notices a lost scheduler, and turns Dask's errors into messages.
"""

from __future__ import annotations

import gc
import logging
import pydoc
import signal
import time
import warnings
from asyncio import run_coroutine_threadsafe
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from multiprocessing.resource_tracker import ensure_running
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fmcli.cluster.tasks import BUILD
from fmcli.errors import FmcliError, NotEnoughMemoryError, UnavailableError, UsageError
from fmcli.records import dataclass
from fmcli.system.addresses import SECURE
from fmcli.system.interrupt import Deferred

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

LOCAL = "local:"
# Seconds for a scheduler to answer, and for a first worker to appear.
PATIENCE = 15
# While waiting for results, check for signals and for the scheduler every POLL seconds.
POLL = 0.2
# Seconds before the list of workers is read again, and without any worker before the cluster is given up. A killed
# worker is back some seconds later.
REFRESH, LONGEST_WITHOUT = 5.0, 300.0
# Seconds that a worker may be paused (Dask pauses workers that are short of memory) before the run ends.
LONGEST_PAUSE = 60.0
# Tasks in flight per thread of the workers: one runs, the next is ready, and results wait for earlier results.
AHEAD = 3
# A task in which this many workers in turn have ended is considered the reason.
DEATHS = 10
# Loggers to which Dask gives a level. Their errors, even critical ones, are raised again here.
LOGGERS, ABOVE_ALL = ("distributed", "distributed.client"), logging.CRITICAL + 1
# Disables the web servers of a local cluster: they would serve their pages to anybody.
WITHOUT_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
# The values that identify a worker's build. pydoc finds them by name, even on workers without fmcli.
VERSION, REAL_NAME = "fmcli.__version__", "fmcli.kernels.simd.REAL"

T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """Where the cluster is.

    text : tcp://host:port, tls://host:port, or local:N for N worker processes on this machine.
    ca, cert, key : files with the certificate of the authority, and the certificate and the key of this client.
    """

    text: str
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @property
    def processes(self) -> int | None:
        """The number of worker processes on this machine; None: the cluster is elsewhere."""
        return int(self.text.removeprefix(LOCAL)) if self.text.startswith(LOCAL) else None


class InterruptedRunError(Exception):
    """A signal is waiting. It ends the process after the cluster has been cleaned up."""


class Cluster:
    """A connection with workers that have this fmcli.

    revive : restarts local workers that Dask has given up because they were killed while starting; None: the workers
        are elsewhere.
    threads : the number of threads of all workers.
    sent, received : bytes of the parameters sent to workers in training, and of the sums received from them.
    """

    def __init__(self, client: Client, name: str, signals: Deferred, revive: Callable[[], None] | None = None) -> None:
        self._client, self._name, self._signals, self._revive = client, name, signals, revive
        self._pending: set[Future] = set()
        self._patient = False
        self._places: tuple[float, list[str]] = 0.0, []
        self._paused: dict[str, float] = {}  # worker -> since when
        self._last_there = self._revived = time.monotonic()
        self.sent = self.received = 0
        self.workers, self.threads = self._checked_workers()

    @property
    def dashboard(self) -> str | None:
        """The address of the scheduler's web pages; None for a local cluster, or if the scheduler has no bokeh."""
        if self._revive:
            return None
        with suppress(Exception):
            if self._client.run_on_scheduler(pydoc.locate, "bokeh.__version__"):
                return str(self._client.dashboard_link)
        return None

    def submit(self, function: Callable[..., T], *arguments: Any, worker: str | None = None) -> Future:
        """Send a task, to `worker` if possible. Its arguments may be futures."""
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a large argument, such as a model
            future = self._client.submit(function, *arguments, pure=False, **where)
        self._pending.add(future)
        return future

    def result(self, future: Future, purpose: str) -> Any:
        """Return the result of a task; see `results`."""
        return self.results([future], purpose)[0]

    def results(self, futures: Sequence[Future], purpose: str) -> list[Any]:
        """Return the results of tasks, in order. `purpose` is for messages.

        Raises UnavailableError, InterruptedRunError, and NotEnoughMemoryError if workers repeatedly end in a task or
        remain paused.
        """
        since = time.monotonic()
        self._check(purpose, since)
        gathering = self._client.gather(list(futures), asynchronous=True)
        gathered = run_coroutine_threadsafe(gathering, self._client.loop.asyncio_loop)
        try:
            while not wait([gathered], timeout=POLL).done:
                self._check(purpose, since)
            results = list(gathered.result())
        except (FmcliError, InterruptedRunError):
            raise
        except Exception as error:
            self._fail(error, purpose)
        finally:
            gathered.cancel()
        self._pending.difference_update(futures)
        return results

    def _check(self, purpose: str, since: float) -> None:
        """Raise an error if a signal waits, or the cluster is gone or out of memory. `since` is when the wait began."""
        if self._signals.signal and not self._patient:
            raise InterruptedRunError
        if self._client.status != "running":
            self._lost()
        self._look_after(purpose, since)

    def in_order(
        self, items: Iterable[T], send: Callable[[T], Future], purpose: Callable[[T], str], at_once: bool = False
    ) -> Iterator[tuple[T, Any]]:
        """Yield each item and the result of its task, in order.

        at_once : whether all tasks are sent at once; otherwise, a bounded number of tasks is in flight.
        """
        waiting: deque[tuple[T, Future]] = deque()
        rest = iter(items)
        most, taken = AHEAD * self.threads, 0
        while True:
            while (at_once or len(waiting) < most) and (item := next(rest, None)) is not None:
                waiting.append((item, send(item)))
            if not waiting:
                return
            item, future = waiting.popleft()
            yield item, self.result(future, purpose(item))
            taken += 1
            if taken % most == 0:  # Dask's objects have cycles that hold results; the command rarely collects cycles
                gc.collect()

    @property
    def places(self) -> list[str]:
        """The addresses of the workers, each repeated for its threads; refreshed every REFRESH seconds."""
        if time.monotonic() > self._places[0] + REFRESH or not self._places[1]:
            try:
                workers = self._client.scheduler_info(n_workers=-1)["workers"]
            except Exception:  # the next result says what is wrong
                workers = {}
            now = time.monotonic()
            found = [place for place, worker in sorted(workers.items()) for _ in range(worker["nthreads"])]
            paused = (place for place, worker in workers.items() if worker.get("status") == "paused")
            self._places = now, found
            self._paused = {place: self._paused.get(place, now) for place in paused}
            self._last_there = now if found else self._last_there
        return self._places[1]

    def _look_after(self, purpose: str, since: float) -> None:
        """Restart missing local workers. Raises UnavailableError after LONGEST_WITHOUT seconds without workers, and
        NotEnoughMemoryError if a worker has been paused for LONGEST_PAUSE seconds of the wait."""
        there = len(self.places)
        if there < self.threads and self._revive and time.monotonic() > self._revived + REFRESH:
            self._revived = time.monotonic()
            self._revive()
        if not there and time.monotonic() > self._last_there + LONGEST_WITHOUT:
            raise UnavailableError(
                f"the cluster {self._name} has had no workers for {LONGEST_WITHOUT:.0f} seconds; start some: dask "
                "worker ADDRESS"
            )
        for worker, paused in self._paused.items():
            if time.monotonic() > max(since, paused) + LONGEST_PAUSE:
                raise NotEnoughMemoryError(
                    f"{purpose}: worker {worker} has been paused for {LONGEST_PAUSE:.0f} seconds, because it uses most "
                    "of its memory limit; give workers more, or start more of them"
                )

    @property
    def signal(self) -> int:
        """The number of the signal that waits; 0: none."""
        return int(self._signals.signal)

    def end(self) -> None:
        """Raise InterruptedRunError if a signal waits."""
        if self.signal:
            raise InterruptedRunError

    @contextmanager
    def deferring(self) -> Iterator[Cluster]:
        """In this context, a signal waits until `end`."""
        self._patient = True
        try:
            yield self
        finally:
            self._patient = False

    def close(self) -> None:
        """Cancel all pending tasks."""
        with suppress(Exception):
            self._client.cancel(list(self._pending), force=True)
        self._pending.clear()

    def _checked_workers(self) -> tuple[int, int]:
        from distributed import TimeoutError

        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise UnavailableError(
                f"the cluster {self._name} has no workers; start some: dask worker ADDRESS"
            ) from None
        threads = dict(self._client.nthreads())
        for name in (VERSION, REAL_NAME):
            for worker, found in self._client.run(pydoc.locate, name, on_error="return").items():
                if found is None or isinstance(found, Exception):
                    raise UsageError(f"worker {worker} has no fmcli; install {BUILD} where it runs, and start it again")
                if found != pydoc.locate(name):
                    raise UsageError(f"worker {worker} has fmcli {found}, but {BUILD} runs here; install the same one")
        return len(threads), sum(threads.values())

    def _lost(self) -> NoReturn:
        raise UnavailableError(f"the scheduler of the cluster {self._name} is gone; start it and run the command again")

    def _fail(self, error: Exception, purpose: str) -> NoReturn:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            raise NotEnoughMemoryError(
                f"{purpose}: {error.allowed_failures + 1} workers in turn ended during it, the last one "
                f"{error.last_worker.address}; if they had too little memory, give them more, or fewer threads"
            ) from error
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "fmcli":
            raise UsageError(f"{purpose}: a worker has no fmcli; install {BUILD} where it runs") from error
        if isinstance(error, (CancelledError, CommClosedError)):
            self._lost()
        raise error


@contextmanager
def connected(address: Address, signals: Deferred) -> Iterator[Cluster]:
    """Connect with a cluster. At the end, remove everything of this run from it, and stop local workers.

    A scheduler runs whatever a client sends, and every user of this machine can connect to its ports. So local workers
    get a certificate made for this run, and only this process can use them. Dask passes it through pipes; it is on disk
    only while a process loads it, in a folder that other users cannot read.

    Raises UsageError if Dask is missing, or a worker has another build, and UnavailableError.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.security import Security
    except ImportError as error:
        raise UsageError(
            f"a cluster needs Dask, which is not installed ({error.name}); pip install dask distributed"
        ) from error
    for name in LOGGERS:
        logging.getLogger(name).setLevel(ABOVE_ALL)
    count = address.processes
    settings = {"distributed.scheduler.allowed-failures": DEATHS}
    with dask.config.set(settings if count is None else settings | WITHOUT_PAGES):
        if count is not None:
            try:
                temporary = Security.temporary()
            except ImportError as error:
                raise UsageError(
                    f"{address.text} protects its workers with certificates, which need the package "
                    "cryptography; pip install cryptography"
                ) from error
            try:
                with _blocked(signal.SIGINT):
                    local = LocalCluster(
                        n_workers=count,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",
                        scheduler_kwargs={"dashboard": False},
                        protocol=SECURE,
                        security=temporary,
                        silence_logs=logging.CRITICAL,
                    )
            except (RuntimeError, OSError) as error:
                raise UnavailableError(f"the workers of {address.text} cannot be started: {error}") from error

            def revive() -> None:
                local.loop.add_callback(start_missing, local, count)

            with (
                local,
                Client(local, direct_to_workers=True) as client,
                _used(client, address.text, signals, revive) as cluster,
            ):
                yield cluster
            return
        security = None
        if address.text.startswith(SECURE) and (address.ca or address.cert or address.key):
            security = Security(
                tls_ca_file=address.ca,
                tls_client_cert=address.cert,
                tls_client_key=address.key,
                require_encryption=True,
            )
        client = Client.__new__(Client)
        try:
            Client.__init__(client, address.text, timeout=PATIENCE, security=security)
        except Exception as error:  # any exception, even MemoryError: the answer may not come from a scheduler
            # Close the client now: if the garbage collector closed it while the next client starts, it would wait for
            # a lock of its own thread.
            client.close()
            reason = " ".join(str(error).split()) if isinstance(error, OSError) else ""
            reason = reason or f"what answers is no Dask scheduler ({type(error).__name__})"
            raise UnavailableError(f"cannot connect to the cluster {address.text}: {reason}") from error
        with client, _used(client, address.text, signals) as cluster:
            yield cluster


def start_missing(local: LocalCluster, count: int) -> None:
    """Restart missing local workers, up to `count`. Dask keeps the places of workers that were killed while starting,
    as if they were there."""
    from distributed.core import Status

    for name, nanny in list(local.workers.items()):
        if nanny.status in (Status.failed, Status.closed):
            del local.workers[name]
    local.scale(count)


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal in this context. Processes that are started meanwhile, also later by the context's threads, never
    get it: a terminal sends Ctrl-C to workers too, but only the client should answer."""
    ensure_running()  # this process of Python's unblocks the signal when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _used(client: Client, name: str, signals: Deferred, revive: Callable[[], None] | None = None) -> Iterator[Cluster]:
    cluster = Cluster(client, name, signals, revive)
    try:
        yield cluster
    finally:
        cluster.close()
