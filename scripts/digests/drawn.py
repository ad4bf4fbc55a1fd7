"""The data of the cases, drawn from a seed: small files of every type that the command reads."""

import gzip
from pathlib import Path

import numpy as np

SEED, ROWS, TRAINED, FEATURES, FIELDS, ENTRIES = 11, 400, 300, 40, 4, 5
ROWS_OF_QUERY = 8
FAR = 7_000_000_000  # too large for a column
USERS, FILMS, JOBS = 30, 20, 5


def write_data(folder: Path) -> None:
    """Write all files into a folder.

    Two values, real numbers, counts, classes, soft labels and ratings, as libsvm and ffm text; rows of groups; named
    features; relations; a table; weights and feature groups; compressed and bad lines.
    """
    rng = np.random.default_rng(SEED)
    ids = [sorted(rng.choice(FEATURES, ENTRIES, replace=False)) for _ in range(ROWS)]
    values = rng.choice([0.5, 1.0, 1.0, 2.0], size=(ROWS, ENTRIES))
    weights, factors = rng.normal(size=FEATURES), rng.normal(size=(FEATURES, 3))
    sums = [
        sum(x * factors[j] for j, x in zip(row, value, strict=True)) for row, value in zip(ids, values, strict=True)
    ]
    score = np.array([weights[row] @ value for row, value in zip(ids, values, strict=True)]) + [s @ s / 4 for s in sums]
    score = (score - score.mean()) / score.std()
    labels = {
        "two": np.where(score + 0.3 * rng.normal(size=ROWS) > 0, 1, -1),
        "real": np.round(score + 0.1 * rng.normal(size=ROWS), 4),
        "counts": rng.poisson(np.exp(score.clip(-2, 2))),
        "classes": np.digitize(score, [-0.5, 0.5]),
        "soft": np.round(1 / (1 + np.exp(-score)), 4),
        "ratings": np.digitize(score + 0.5 * rng.normal(size=ROWS), [-1.2, -0.3, 0.4, 1.1]) + 1,
    }
    entries = [list(zip(*row, strict=True)) for row in zip(ids, values, strict=True)]
    spellings = {"libsvm": "{j}:{x:g}", "ffm": "{field}:{j}:{x:g}", "names": "f{field}=n{j}:{x:g}"}
    for form, spelling in spellings.items():
        rows = [" ".join(spelling.format(j=j, x=x, field=j % FIELDS) for j, x in row) for row in entries]
        for kind, label in labels.items():
            lines = [f"{y} {text}\n" for y, text in zip(label, rows, strict=True)]
            (folder / f"{kind}.{form}").write_text("".join(lines[:TRAINED]))
            (folder / f"{kind}.test.{form}").write_text("".join(lines[TRAINED:]))
        query = {"libsvm": "qid:{}", "ffm": f"{FIELDS}:{{}}:1", "names": "qid:{}"}[form]
        lines = [
            f"{y} {query.format(FEATURES + i // ROWS_OF_QUERY)} {text}\n"
            for i, (y, text) in enumerate(zip(labels["ratings"], rows, strict=True))
        ]
        (folder / f"queries.{form}").write_text("".join(lines))
    two = (folder / "two.libsvm").read_text()
    (folder / "packed.libsvm.gz").write_bytes(gzip.compress(two.encode(), mtime=0))
    (folder / "bad.libsvm").write_text(f"{two}1 5:x\n")
    (folder / "weights.txt").write_text("".join(f"{w:.3f}\n" for w in rng.uniform(0.5, 2, TRAINED)))
    (folder / "groups.txt").write_text("".join(f"{j % FIELDS}\n" for j in range(FEATURES)))
    far = [f"{y} {FAR + i * FAR // ROWS}:1 {i % 7}:1\n" for i, y in enumerate(labels["two"])]
    (folder / "far.libsvm").write_text("".join(far))
    write_relations(folder, rng)
    write_table(folder, rng)


def write_relations(folder: Path, rng: np.random.Generator) -> None:
    """Write rows that refer to users and films, and the two files of their features."""
    pairs = rng.integers(0, (USERS, FILMS), size=(ROWS, 2))
    label = np.round(rng.normal(size=USERS)[pairs[:, 0]] + rng.normal(size=FILMS)[pairs[:, 1]], 3)
    (folder / "pairs.libsvm").write_text("".join(f"{y} {u}:1\n" for y, (u, _) in zip(label, pairs, strict=True)))
    for name, column, number in (("users", 0, USERS), ("films", 1, FILMS)):
        (folder / f"{name}.rows").write_text("".join(f"{place}\n" for place in pairs[:, column]))
        (folder / f"{name}.libsvm").write_text(
            "".join(f"{100 + 100 * column + i}:1 {300 + 10 * column + rng.integers(JOBS)}:1\n" for i in range(number))
        )


def write_table(folder: Path, rng: np.random.Generator) -> None:
    """Write tables of ratings, pairs, films and users."""
    lines = ["user,film,rating,time\n"]
    lines += [f"{rng.integers(USERS)},f {rng.integers(FILMS)},{rng.integers(1, 6)},{i * 3}\n" for i in range(ROWS)]
    (folder / "ratings.csv").write_text("".join(lines))
    seen = {tuple(pair) for pair in rng.integers(0, (USERS, FILMS), size=(ROWS // 4, 2)).tolist()}
    (folder / "films.csv").write_text("user,film\n" + "".join(f"{u},{f}\n" for u, f in sorted(seen)))
    (folder / "titles.csv").write_text("film,title\n" + "".join(f"f {i},title {i}\n" for i in range(FILMS)))
    jobs = ["user,job,age\n", *(f'{i},"job {i % JOBS}",{20 + i}\n' for i in range(USERS))]
    (folder / "users.csv").write_text("".join(jobs))
