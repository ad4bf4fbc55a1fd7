"""The objects that stay with workers between tasks: copies of objects, and partitions of the rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Future

    from fmcli.cluster.connection import Cluster


class Resident:
    """An object with a copy on each worker. The copy stays there, with the additions of tasks.

    Dask removes replicas of a result that no task is waiting for, so each worker gets a result of its own.

    value : the object on the client.
    """

    def __init__(self, cluster: Cluster, value: Any) -> None:
        self.value, self._cluster = value, cluster
        self._sent = cluster.submit(itself, value)
        self._there: dict[str | None, Future] = {}

    def on(self, place: str | None) -> Future:
        """Return the copy on a worker, as an argument of tasks there."""
        if place not in self._there:
            self._there[place] = self._cluster.submit(itself, self._sent, worker=place)
        return self._there[place]


class Homes:
    """Which worker has each partition. A partition moves only if its worker has gone or has more than its share.

    Neighbors share a worker as far as possible, because their sums are added first.

    count : the number of partitions.
    """

    def __init__(self, cluster: Cluster, count: int) -> None:
        self._cluster, self._count = cluster, count
        self._homes: dict[int, str] = {}
        self._places: list[str] = []

    def of(self, number: int) -> str | None:
        """Return the address of the worker of a partition; None: there are no workers now."""
        places = self._cluster.places
        if places != self._places:
            self._settle(places)
        return self._homes.get(number)

    def _settle(self, places: list[str]) -> None:
        threads, taken = Counter(places), Counter[str]()
        each = -(-self._count // max(1, len(places)))
        before, self._homes, self._places = self._homes, {}, places
        for number, place in before.items():
            if taken[place] < each * threads[place]:
                self._homes[number] = place
                taken[place] += 1
        for number in range(self._count) if places else ():
            if number not in self._homes:
                place = next(place for place in places if taken[place] < each * threads[place])
                self._homes[number] = place
                taken[place] += 1


def itself(value: Any) -> Any:
    """Return the value."""
    return value
