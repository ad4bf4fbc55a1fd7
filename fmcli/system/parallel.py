"""Tasks that release the GIL, in several threads."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_parallel(work: Callable[[Task], Result], tasks: Sequence[Task], threads: int) -> list[Result]:
    """Return the results of `work` on the tasks, in the order of the tasks, computed by this many threads."""
    if threads == 1 or len(tasks) < 2:
        return [work(task) for task in tasks]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, tasks))


def begun(work: Callable[[], Result], threads: int) -> Callable[[], Result]:
    """Return a function that returns the result of `work`, or raises its error. With several threads, one of them
    begins the work now; otherwise, it is done when its result is asked for."""
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
