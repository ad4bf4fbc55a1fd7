"""Threads that read and parse buffers of text, and put the results back in order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Lock, Semaphore, Thread
from typing import TypeVar

from fmcli.data.text.parser import Room, Rows
from fmcli.data.text.sources import TextBuffer
from fmcli.errors import FmcliError

# Buffers in flight in addition to one per thread, so no thread waits for the consumer of the results.
BUFFERS_AHEAD = 2
# After an error, wait this many seconds for a reading thread, then leave it behind: its pipe may stay open and empty
# forever.
PATIENCE = 0.5

T = TypeVar("T")


def in_order(
    source: Iterator[TextBuffer], parse: Callable[[int, TextBuffer], T], threads: int
) -> Generator[tuple[TextBuffer, T], None, None]:
    """Yield the buffers and the results of `parse(number, buffer)`, in order; numbers count from 0.

    With several threads, each thread reads the next buffer and parses it while the text is in the cache of its core. An
    error of the source comes after the buffers before it.
    """
    number = 0
    for buffer in source:
        yield buffer, parse(number, buffer)
        number += 1
        if threads > 1:
            break
    second = next(source, None)
    if second is None:  # a single buffer needs no threads
        return
    from concurrent.futures import Future
    from itertools import chain, count
    from queue import SimpleQueue

    numbered = zip(count(number), chain([second], source), strict=False)
    reading, free, closed = Lock(), Semaphore(threads + BUFFERS_AHEAD), False
    results: SimpleQueue[Future[tuple[TextBuffer, T]] | None] = SimpleQueue()  # None: there are no more buffers

    def work() -> None:
        while True:
            future: Future[tuple[TextBuffer, T]] = Future()
            with reading:
                free.acquire()
                try:
                    found = None if closed else next(numbered, None)
                except FmcliError as error:
                    future.set_exception(error)
                    results.put(future)
                    found = None
                results.put(future if found else None)
            if found is None:
                free.release()
                return
            number, buffer = found
            try:
                future.set_result((buffer, parse(number, buffer)))
            except BaseException as error:
                future.set_exception(error)

    workers = [Thread(target=work, daemon=True) for _ in range(threads)]
    try:
        for worker in workers:
            worker.start()
        while (future := results.get()) is not None:
            yield future.result()
            free.release()
    finally:
        closed = True
        free.release(threads)
        if reading.acquire(timeout=PATIENCE):
            reading.release()
            for worker in workers:
                if worker.ident is not None:  # the thread was started
                    worker.join()


@contextmanager
def closing_unless_read(source: Generator[TextBuffer, None, None]) -> Iterator[None]:
    """Close a source of buffers at the end, unless a thread that was left behind is still waiting for text."""
    try:
        yield
    finally:
        with suppress(ValueError):  # the generator is executing
            source.close()


class Appender:
    """Appends rows that threads have parsed, in the order of their buffers.

    Each thread copies its own rows; only the places are assigned in turn.
    """

    def __init__(self, total: Rows, first: int) -> None:
        self.total, self.turn = total, first
        self.parsed: dict[int, Rows] = {}  # rows by number that wait for their turn
        self.idle: list[Rows] = []
        self.copying = 0
        self.changed = Condition()

    def append(self, number: int, rows: Rows) -> None:
        """Append the rows of a buffer once the rows of all earlier buffers have been appended."""
        with self.changed:
            self.parsed[number] = rows
        while room := self._next_room():
            room()
            room.rows.clear()
            self.idle.append(room.rows)
            with self.changed:
                self.copying -= 1
                self.changed.notify_all()

    def _next_room(self) -> Room | None:
        """Return the room for the rows whose turn it is; None if they are not parsed yet."""
        with self.changed:
            # The arrays cannot move while other threads copy.
            while (rows := self.parsed.get(self.turn)) and self.copying and not self.total.has_room(rows):
                self.changed.wait()
            if rows is None:
                return None
            del self.parsed[self.turn]
            self.turn += 1
            self.copying += 1
            return self.total.make_room(rows)
