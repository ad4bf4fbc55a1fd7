"""Data sets with the shapes of public ones that are not at hand: their users, items and words have power laws, and
labels follow tastes that overlap, with noise. Each function returns lines of text, the same ones each time."""

import ast
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

Lines = list[bytes]
Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
# The column of the label in tables.
LABEL = "y"


def popularity(count: int, exponent: float) -> Floats:
    """Return shares that fall with the rank."""
    shares = np.arange(1, count + 1, dtype=float) ** -exponent
    return shares / shares.sum()


def tastes(random: Generator, count: int, width: int, focus: float) -> Floats:
    """Return (count, width) shares of tastes; with a small focus, one or two tastes have almost all."""
    return random.dirichlet(np.full(width, focus), size=count)


def pairs(
    random: Generator, users: Floats, items: Floats, rows: int, popular: Floats, active: Floats
) -> tuple[Ids, Ids]:
    """Return different pairs of a user and an item, which has a taste that the user has, too.

    users, items : (count, width) their tastes; popular, active : how often they occur.
    """
    user = np.sort(random.choice(len(users), size=2 * rows, p=active))
    taste = (random.random(len(user))[:, None] > users[user].cumsum(axis=1)).sum(axis=1).clip(0, users.shape[1] - 1)
    item = np.empty(len(user), dtype=np.int64)
    for number in range(users.shape[1]):
        shares = popular * items[:, number]
        mine = taste == number
        item[mine] = random.choice(len(items), size=int(mine.sum()), p=shares / shares.sum())
    _, first = np.unique(user * len(items) + item, return_index=True)
    chosen = np.sort(random.permutation(first)[:rows])
    return user[chosen], item[chosen]


def indicators(label: Sequence[float], *columns: Ids) -> Lines:
    """Return rows with one id of each field."""
    begins = np.cumsum([0, *(int(column.max()) + 1 for column in columns)])
    ids = [(begin + column).tolist() for begin, column in zip(begins, columns, strict=False)]
    return [
        f"{y:.6g} {' '.join(f'{field}:{one}:1' for field, one in enumerate(row))}\n".encode()
        for y, *row in zip(label, *ids, strict=True)
    ]


def tag_counts() -> Lines:
    """How often each of 500 users gave each of 2,000 tags. A few users and tags with few rows have large counts, which
    the adaptive steps of AdaGrad reach late."""
    random, users, tags = default_rng(101), 500, 2_000
    own, theirs = tastes(random, users, 8, 0.3), tastes(random, tags, 8, 0.1)
    user, tag = pairs(random, own, theirs, 20_000, popularity(tags, 0.5), random.permutation(popularity(users, 0.5)))
    of_user, of_tag = random.normal(0, 1, users), random.normal(0, 1.5, tags)
    common = 0.85 * (own[user] * theirs[tag]).sum(axis=1)
    mean = np.exp(-2 + of_user[user] + of_tag[tag] + common)
    return indicators((1 + random.poisson(mean * random.gamma(50, 1 / 50, len(user)))).tolist(), user, tag)


def log_plays() -> Lines:
    """The logarithm of how often each of 400 users heard 50 artists. Users differ in how regular they are, so a sampler
    from a large start fits the noise of some."""
    random, users, artists = default_rng(102), 400, 5_000
    own, theirs = tastes(random, users, 10, 0.3), tastes(random, artists, 10, 0.1)
    user, artist = pairs(random, own, theirs, 20_000, popularity(artists, 0.8), np.full(users, 1 / users))
    rank = np.log(1 + artist)
    slope, deviation = 0.1 * (1 + random.normal(0, 1, users)), 0.6 * np.exp(random.normal(0, 0.5, users))
    of_user, of_artist = random.normal(5, 0.8, users), random.normal(0, 0.25, artists)
    common = 0.8 * (own[user] * theirs[artist]).sum(axis=1) - slope[user] * (rank - rank.mean())
    noise = deviation[user] * random.normal(0, 1, len(user))
    plays = np.exp(of_user[user] + of_artist[artist] + common + noise)
    return indicators(np.log(1 + np.floor(plays)).tolist(), user, artist)


def context_clicks(rows: int) -> Lines:
    """Which apps users open in which context, and two apps that they do not open for each: ten fields."""
    random, width = default_rng(103), 12
    count, apps = 900, 4_000
    users, items = tastes(random, count, width, 0.2), tastes(random, apps, width, 0.1)
    popular, active = popularity(apps, 0.9), random.permutation(popularity(count, 0.9))
    own = pairs(random, users, items, 20 * count, popular, np.full(count, 1 / count))
    begins = np.searchsorted(own[0], np.arange(count + 1))
    opened = round(rows / 3)
    user = random.choice(count, size=opened, p=active)
    sizes = (begins[1:] - begins[:-1])[user]
    favourite = begins[user] + (sizes * random.random(opened) ** 3).astype(int)
    item = own[1][favourite]
    # The context: some of it belongs to the user, and apps are of a time of the day.
    home = random.choice(80, size=count, p=popularity(80, 1.2))
    city = home * 3 + random.integers(3, size=count)
    hour_of = random.integers(7, size=apps)
    hour = np.where(random.random(opened) < 0.4, hour_of[item], random.integers(7, size=opened))
    day, weather = random.integers(7, size=opened), random.choice(9, size=opened, p=popularity(9, 1.0))
    place, cost = random.integers(3, size=count), (random.random(apps) < 0.3).astype(int)
    where = np.where(random.random(opened) < 0.7, place[user], random.integers(3, size=opened))
    other = random.choice(apps, size=(2, opened), p=popular / popular.sum())
    context = [hour, day, (day > 4).astype(int), where, weather, home[user], city[user]]
    all_apps = np.concatenate([item, *other])
    columns = [np.tile(user, 3), all_apps, cost[all_apps], *(np.tile(one, 3) for one in context)]
    label = np.repeat([1, 0, 0], opened)
    order = random.permutation(3 * opened)
    return indicators(label[order].tolist(), *(column[order] for column in columns))


@cache
def docstrings(package: str) -> tuple[str, ...]:
    """Return the docstrings of the functions and classes of a package, without running it; none if it is not there."""
    spec = find_spec(package)
    found = []
    for path in sorted(Path(spec.origin).parent.rglob("*.py")) if spec and spec.origin else ():
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                found.append(text)
    return tuple(found)


def texts(rows: int = 8_000, fewest: int = 20) -> Lines:
    """Docstrings of scikit-learn and of SciPy, as tf-idf of their words; the label is the package."""
    random = default_rng(104)
    both = [(label, text) for label, name in enumerate(("sklearn", "scipy")) for text in docstrings(name)]
    words = [(label, Counter(re.findall("[a-z]{2,}", text.lower()))) for label, text in dict.fromkeys(both)]
    words = [one for one in words if one[1].total() >= fewest]
    words = [words[place] for place in random.permutation(len(words))[:rows]]
    frequency = Counter(word for _, counted in words for word in counted)
    known = {word: place for place, word in enumerate(sorted(word for word, times in frequency.items() if times > 2))}
    found = []
    for label, counted in words:
        of = {
            known[word]: (1 + math.log(times)) * (1 + math.log(len(words) / frequency[word]))
            for word, times in counted.items()
            if word in known
        }
        norm = math.hypot(*of.values())
        found.append(f"{label} {' '.join(f'{word}:{of[word] / norm:.4g}' for word in sorted(of))}\n".encode())
    return found


def table(**columns: NDArray[np.generic]) -> Lines:
    """Return the lines of a table; the first one names its columns."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [f"{','.join(map(str, row))}\n".encode() for row in (tuple(columns), *rows)]


def bands() -> Lines:
    """Seven classes, which are bands of a number with steps that other columns move a little."""
    random, rows = default_rng(105), 4_000
    height, slope, water = random.normal(2800, 280, rows), random.gamma(2, 7, rows), random.exponential(260, rows)
    soil, shade = random.integers(12, size=rows), random.normal(220, 25, rows)
    level = height - 0.05 * water + 6 * random.normal(0, 1, 12)[soil] + random.normal(0, 6, rows)
    kind = np.searchsorted(np.quantile(level, [0.08, 0.2, 0.45, 0.6, 0.85, 0.95]), level)
    kind = np.array(list("abcdefg"))[random.permutation(7)[kind]]
    return table(
        y=kind, height=height.round(1), slope=slope.round(1), water=water.round(1), shade=shade.round(1), soil=soil
    )


def houses() -> Lines:
    """Prices of houses by numbers: some work in steps, some by place, and some together."""
    random, rows = default_rng(106), 8_000
    area, rooms = np.exp(random.normal(4.7, 0.4, rows)), random.poisson(2.5, rows) + 1
    grade, year = random.binomial(12, 0.55, rows), random.integers(1900, 2016, rows)
    north, east = random.uniform(47.1, 47.8, rows), random.uniform(-122.5, -121.3, rows)
    floors = random.choice([1.0, 1.5, 2.0, 3.0], size=rows, p=[0.5, 0.1, 0.35, 0.05])
    month = random.integers(1, 13, rows)
    near = 0.7 * np.exp(-((north - 47.6) ** 2 + (east + 122.2) ** 2) / 0.03)
    age = 0.15 * np.abs(year - 1965) / 50
    log = 0.7 * np.log(area) + 0.11 * (grade - 7) + 0.02 * np.maximum(grade - 8, 0) ** 2 + near + age + 0.02 * floors
    log += 0.1 * (grade - 7) * near + 0.03 * np.minimum(rooms, 4) + random.normal(0, 0.17, rows)
    return table(
        y=np.exp(9.4 + log).round(-2),
        area=area.round(),
        rooms=rooms,
        grade=grade,
        year=year,
        north=north.round(4),
        east=east.round(3),
        floors=floors,
        month=month,
    )
