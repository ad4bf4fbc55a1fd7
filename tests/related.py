"""Tables of users and items, rows that refer to them, and the same rows joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

Entries = list[tuple[int, float]]


@dataclass(frozen=True)
class Tables:
    """Rows and the relations that they refer to.

    labels : of the rows.
    own : the entries of the rows themselves.
    relations : of each relation, the entries of the rows of its relation.
    maps : of each relation, the row of the relation for each row.
    """

    labels: list[float]
    own: list[Entries]
    relations: list[list[Entries]]
    maps: list[list[int]]

    def joined(self) -> list[Entries]:
        """The entries of the rows, with the entries of the rows that they refer to."""
        pairs = zip(self.relations, self.maps, strict=True)
        each = zip(self.own, *([relation[row] for row in rows] for relation, rows in pairs), strict=True)
        return [sorted(chain.from_iterable(parts)) for parts in each]

    def renumbered(self, ids: list[int]) -> Tables:
        """The same tables with the id ids[j] in place of j."""

        def change(rows: list[Entries]) -> list[Entries]:
            return [sorted((ids[j], x) for j, x in entries) for entries in rows]

        return Tables(self.labels, change(self.own), [change(relation) for relation in self.relations], self.maps)

    def write(self, folder: Path, prefix: str = "rows", name: Callable[[int], str] = str) -> tuple[str, str, list[str]]:
        """The paths of the rows and of the joined rows, and the options for the relations. `name` gives ids."""
        rows, joined = folder / f"{prefix}.libsvm", folder / f"{prefix}.joined.libsvm"
        rows.write_text(lines(self.own, self.labels, name))
        joined.write_text(lines(self.joined(), self.labels, name))
        options = []
        for number, (relation, numbers) in enumerate(zip(self.relations, self.maps, strict=True)):
            table, which = folder / f"{prefix}.relation{number}", folder / f"{prefix}.map{number}"
            table.write_text(lines(relation, name=name))
            which.write_text("".join(f"{row}\n" for row in numbers))
            options += ["--relation", f"{table}={which}"]
        return str(rows), str(joined), options


def lines(rows: Iterable[Entries], labels: Iterable[float] | None = None, name: Callable[[int], str] = str) -> str:
    """libsvm text."""
    texts = [" ".join(f"{name(index)}:{value:g}" for index, value in entries) for entries in rows]
    if labels is None:
        return "".join(f"{text}\n" for text in texts)
    return "".join(f"{label:g} {text}".rstrip() + "\n" for label, text in zip(labels, texts, strict=True))


def tables(rows: int = 300, users: int = 11, items: int = 7, seed: int = 0, binary: bool = False) -> Tables:
    """Random rows with the number of the user, and relations with features of users and items; values are multiples of
    1/8. The ids of the parts are one range after the other. A relation has a row without entries."""
    generator = np.random.default_rng(seed)

    def entries(first: int, count: int, most: int) -> Entries:
        chosen = np.sort(generator.permutation(count)[: generator.integers(most + 1)])
        return [(first + int(j), int(generator.integers(1, 9)) / 8) for j in chosen]

    maps = [generator.integers(size, size=rows).tolist() for size in (users, items)]
    own = [entries(0, 5, 3) for _ in range(rows)]
    relations = [[entries(10, 9, 6) for _ in range(users)], [entries(30, 12, 8) for _ in range(items)]]
    relations[1][0] = []
    effects = generator.normal(size=50)
    found = Tables([0.0] * rows, own, relations, maps)
    score = [sum(effects[j] * x for j, x in row) for row in found.joined()]
    labels = np.array(score) + 0.1 * generator.normal(size=rows)
    return Tables((labels > 0).astype(float).tolist() if binary else labels.round(3).tolist(), own, relations, maps)
