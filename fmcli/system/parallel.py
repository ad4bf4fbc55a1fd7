"""Run tasks that release the GIL in several threads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from fmcli.errors import FmcliError

Task = TypeVar("Task")
Result = TypeVar("Result")


class Pool(Protocol):
    """Threads for many short tasks."""

    def map(self, work: Callable[..., Result], *tasks: Iterable[Any]) -> Iterator[Result]:
        """Yield the results of `work` on the tasks, in the order of the tasks."""
        ...


class CallingThread:
    """A pool of only the calling thread: handing over a short task would take longer than the task."""

    map: Callable[..., Iterator[Any]] = staticmethod(map)


@contextmanager
def pool_of(threads: int) -> Iterator[Pool]:
    """Yield a pool of this many threads. They end with the context."""
    if threads == 1:
        yield CallingThread()
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        yield pool


def in_parallel(work: Callable[[Task], Result], tasks: Sequence[Task], threads: int) -> list[Result]:
    """Return the results of `work` on the tasks, in order, computed by this many threads."""
    if threads == 1 or len(tasks) < 2:
        return list(map(work, tasks))
    with pool_of(threads) as pool:
        return list(pool.map(work, tasks))


def in_turn(work: Callable[[Task], Result], tasks: Iterable[Task], threads: int) -> Iterator[Result]:
    """Yield the results of `work` on the tasks, in order, computed by this many threads while further tasks are made.
    An error in making a task comes after the results before it."""
    if threads == 1:
        yield from map(work, tasks)
        return
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        failed = None
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
        except FmcliError as error:
            failed = error
        while waiting:
            yield waiting.popleft().result()
        if failed is not None:
            raise failed


def begun(work: Callable[[], Result], threads: int) -> Callable[[], Result]:
    """Return a function that returns the result of `work`, or raises its error. With several threads, a thread starts
    the work now; otherwise the work is done when the result is requested."""
    if threads == 1:
        return work
    from threading import Thread

    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    def result() -> Result:
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    thread = Thread(target=run, daemon=True)
    thread.start()
    return result
