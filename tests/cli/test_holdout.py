"""Forms of --holdout: no group is on both sides, no later row is trained on, and other modes say why not."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from fmcli.errors import UsageError
from fmcli.registry.specs import make_spec
from fmcli.training.setup.hold_out import split
from fmcli.training.setup.settings import HoldOut

SPEC = make_spec("fm")
ROWS = 300
GROUPS = np.random.default_rng(4).integers(0, 40, ROWS)


@pytest.fixture
def trained_on(run, tmp_path):
    """Return the numbers of the rows that a run does not hold out: each row has its own feature, and the linear
    model keeps a weight of each row that it was trained on."""
    (tmp_path / "t").write_text(
        "".join(f"{n % 2} qid:{group} 0:{n}:1 1:{1000 + group}:0.01\n" for n, group in enumerate(GROUPS))
    )

    def rows(*options):
        fixed = ["-q", "-m", "linear", "-s", "sgd", "-e", "2", "--no-refit", "--no-quick-search", "-o", "m"]
        run.ok("train", *fixed, *options, "t")
        run.ok("export", "m", "w.txt")
        weights = (tmp_path / "w.txt").read_text().split("\narray w ")[1].splitlines()[1].split()
        return {row for row, weight in enumerate(weights[:ROWS]) if float(weight) != 0}

    return rows


@pytest.mark.parametrize("options", [[], ["--disk", "--cache", "c"], ["--disk", "--cache", "c", "--memory", "1"]])
def test_no_run_trains_on_rows_after_those_that_are_held_out(trained_on, options):
    assert trained_on("--holdout", "last:0.1", *options) == set(range(270))


@pytest.mark.parametrize("form", ["group:qid:0.2", "group:1:0.2"])
def test_no_group_is_held_out_in_part(trained_on, form):
    seen = trained_on("--holdout", form)
    held = set(range(ROWS)) - seen
    assert 0.2 * ROWS <= len(held) <= 0.2 * ROWS + np.bincount(GROUPS).max()
    assert not set(GROUPS[sorted(held)]) & set(GROUPS[sorted(seen)])
    assert seen == trained_on("--holdout", form, "-j", "2") != trained_on("--holdout", form, "--seed", "7")


@pytest.mark.parametrize("form", ["last-of:qid:2", "last-of:1:2"])
def test_the_last_rows_of_each_group_are_held_out(trained_on, form):
    expected = set()
    for group in range(40):
        mine = np.flatnonzero(group == GROUPS)
        expected |= set(mine[:-2].tolist() if len(mine) > 2 else mine.tolist())
    assert trained_on("--holdout", form) == expected


TIMES = np.random.default_rng(5).integers(0, 60, ROWS)
CLOCKS = {
    "numbers": str,
    "fractions": lambda time: f"{time - 30}.5",
    "dates": lambda time: f"{1969 + time // 30}-02-{1 + time % 28:02}",
    "times": lambda time: f"2024-02-{28 + time // 48:02} {time // 2 % 24:02}:{time % 2 * 30:02}",
    "zones": lambda time: f"2024-05-01T{2 + time // 30:02}:{time % 30:02}:00.25{'+02:00' if time % 2 else '+00:00'}",
}


def seconds(text):
    """Return the time in a cell, by Python's own reader."""
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_last_times_of_a_table_are_held_out(run, tmp_path, clock):
    texts = [CLOCKS[clock](int(time)) for time in TIMES]
    times = np.array([seconds(text) for text in texts])
    rows = [f"{n % 2},r{n},{text}" for n, text in enumerate(texts)]
    (tmp_path / "t.csv").write_text("y,row,time\n" + "\n".join(rows) + "\n")
    fixed = ["-q", "-m", "linear", "-s", "sgd", "-e", "2", "--no-refit", "--no-quick-search", "--label", "y", "-o", "m"]
    run.ok("train", *fixed, "--categorical", "row", "--holdout", "time:time:0.1", "t.csv")
    run.ok("export", "m", "w.txt")
    text = (tmp_path / "w.txt").read_text()
    weights, names = (text.split(f"array {name} ")[1].splitlines()[1].split() for name in ("w", "features"))
    seen = {int(name.removeprefix("row=r")) for name, weight in zip(names, weights, strict=True) if float(weight)}
    held = set(range(ROWS)) - seen
    assert held == set(np.flatnonzero(times >= times[sorted(held)].min()).tolist())
    sizes = [np.sum(times >= one) for one in np.unique(times)]
    assert abs(len(held) - 0.1 * ROWS) == min(abs(size - 0.1 * ROWS) for size in sizes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--holdout", "group:0.1"], "'group:0.1' has none of the forms FRACTION, last:FRACTION"),
        (["--holdout", "group:user:0.1"], "t is not a table, and other rows have groups by qid"),
        (["--holdout", "last-of:qid:0"], "'0' is not a number of rows"),
        (["--holdout", "first:0.1"], "has none of the forms"),
        (["--holdout", "last:1"], "'1' is not a share in the range 0<=x<1"),
        (["--holdout", "last:0.1", "-v", "t"], "-v and --holdout cannot be combined"),
        (["--holdout", "last:0.1", "--online"], "--online and --holdout cannot be combined"),
        (["--holdout", "group:qid:0.1", "--cluster", "local:1"], "partitions do not keep the groups of rows"),
        (["--holdout", "group:qid:0.1", "--disk", "--cache", "c"], "a cache does not keep the groups of rows"),
        (
            ["--holdout", "group:qid:0.1", "-x", "gauc", "--group-field", "0"],
            "--holdout and ranking must have the same groups",
        ),
    ],
)
def test_forms_that_a_run_cannot_have(run, tmp_path, arguments, words):
    (tmp_path / "t").write_text("1 qid:1 0:1:1\n")
    assert words in run.fails(2, "train", *arguments, "t").stderr


def test_rows_without_groups_cannot_be_held_out_by_groups(run, tmp_path):
    (tmp_path / "t").write_text("1 1:1\n0 2:1\n")
    assert "need to know which rows belong together" in run.fails(65, "train", "--holdout", "group:qid:0.5", "t").stderr


@pytest.mark.parametrize("rows", [10, (1 << 20) + 3])
def test_the_last_rows_are_held_out(rows):
    held, rest = split(rows, HoldOut(0.1, last=True), SPEC)
    assert np.array_equal(np.concatenate([rest, held]), np.arange(rows))
    assert len(held) == round(0.1 * rows)
    with pytest.raises(UsageError, match="leaves no rows for validation or no rows for training"):
        split(rows, HoldOut(1e-9, last=True), SPEC)


def test_groups_that_begin_in_the_last_rows_are_held_out():
    group = np.array([0, 0, 1, 1, 2, 1, 2, 3, 4, 3], dtype=np.int32)
    held, rest = split(10, HoldOut(0.3, last=True), SPEC, group)
    assert (held.tolist(), rest.tolist()) == ([7, 8, 9], [0, 1, 2, 3, 4, 5, 6])
    group = np.array([0, 1, 0], dtype=np.int32)
    with pytest.raises(UsageError, match="in whole groups leaves no group for training"):
        split(3, HoldOut(0.4), SPEC, np.zeros(3, dtype=np.int32))
    for share, left in ((0.34, "no group for validation"), (0.99, "no rows for training")):
        with pytest.raises(UsageError, match=left):
            split(3, HoldOut(share, last=True), SPEC, group)


def rare(tmp_path, positives, rows=3000):
    """Write rows with few labels 1, spread evenly, so no part of the file has all labels 1."""
    every = max(1, rows // positives)
    lines = (f"{int(n % every == 0 and n // every < positives)} {n % 7}:1 {10 + n % 11}:1\n" for n in range(rows))
    (tmp_path / "t").write_text("".join(lines))


@pytest.mark.parametrize("options", [(), ("--disk", "--cache", "c"), ("--disk", "--cache", "c", "--memory", "1")])
def test_each_class_has_its_share_of_the_held_out_rows(run, tmp_path, options):
    """A cache holds out the rows that are held out in memory."""
    rare(tmp_path, 60)
    train = ("train", "-q", "-x", "auc", "-e", "3", "--no-refit", "--log-json", "log", "-o", "m")
    run.ok(*train, *options, "t")
    log = (tmp_path / "log").read_text()
    model = (tmp_path / "m").read_bytes()
    run.ok(*train, "t")
    if not options or "--memory" not in options:
        assert (tmp_path / "m").read_bytes() == model
    valid = [json.loads(line)["valid"]["auc"] for line in log.splitlines() if '"epoch"' in line.split(",")[0]]
    assert len(valid) == 3
    assert all(0 <= value <= 1 for value in valid)


@pytest.mark.parametrize(("positives", "warned"), [(12, True), (60, False)])
def test_few_held_out_rows_of_a_class_are_named(run, tmp_path, positives, warned):
    rare(tmp_path, positives)
    done = run.ok("train", "--verbose", "--quick-search", "-x", "auc", "-e", "3", "-o", "m", "t")
    held = round(0.2 * positives)
    assert "held out 600 rows, 20 %, to choose the epoch" in done.stderr
    assert (f"only {held} of the 600 held-out rows on each of 5 folds have the label 1" in done.stderr) == warned
    assert "undefined" not in done.stderr
