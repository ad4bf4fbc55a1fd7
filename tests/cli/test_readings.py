"""Whole numbers as names or quantities, and bins of numbers: what the quick search of a table chooses."""

import json
import math

import numpy as np
import pytest

import fmcli
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.other_kinds import BINS, other_kinds
from fmcli.data.tables.surveying import schema_of

ROWS = 1_500
pd = pytest.importorskip("pandas")


def frame(effect, seed=0, rows=ROWS):
    """Return rows whose label is an effect of an age, which as a number is a quantity by default, with some noise."""
    rng = np.random.default_rng(seed)
    age, size = rng.integers(18, 78, rows), rng.normal(size=rows).round(4)
    noise = 0.2 * rng.normal(size=rows)
    return pd.DataFrame({"age": age, "size": size, "y": (effect(age, size) + noise).round(4)})


def by_age(age, size):
    """An effect of each age by itself."""
    return np.random.default_rng(1).normal(size=100)[age] + size


def in_steps(age, size):
    """An effect with steps of a number with fractions."""
    return 2.0 * ((size * 2) % 2 > 1) + age / 20


def straight(age, size):
    return age / 20 + size


@pytest.fixture
def written(tmp_path):
    """A function that writes rows as a table, and other rows of the same effect, and returns their names."""

    def write(effect):
        names = [str(tmp_path / name) for name in ("train.csv", "test.csv")]
        for seed, name in enumerate(names):
            frame(effect, seed).to_csv(name, index=False)
        return names

    return write


@pytest.mark.parametrize(
    ("effect", "taken"), [(by_age, "--categorical age"), (in_steps, f"--bins {BINS}"), (straight, None)]
)
def test_the_reading_that_predicts_best_is_taken(run, written, tmp_path, effect, taken):
    train, test = written(effect)
    done = run.ok("train", "--quick-search", train, "--label", "y", "-o", "m", "--log-json", "log")
    lines = [line for line in done.stderr.splitlines() if line.startswith("tried --") and "using it" in line]
    readings = [line.split(":")[0] for line in lines if "--bins" in line or "--categorical" in line]
    assert readings == ([f"tried {taken}"] if taken else [])
    options = json.loads((tmp_path / "log").read_text().splitlines()[0])["options"]
    derived = {name for name in ("bins", "categorical") if options.get(name, {}).get("from") == "derived from data"}
    assert derived == ({taken.split()[0][2:]} if taken else set())
    run.ok("train", train, "--label", "y", "-o", "plain", "--no-quick-search")
    found, plain = (
        json.loads(run.ok("evaluate", "--json", name, test).stdout)["metrics"]["rmse"] for name in ("m", "plain")
    )
    assert found < (0.6 if taken else 1.02) * plain


def test_columns_that_are_named_stay_what_they_are(run, written):
    train, _ = written(by_age)
    done = run.ok("train", "--quick-search", train, "--label", "y", "-o", "m", "--numeric", "age,size", "--bins", "4")
    assert "--categorical" not in done.stderr
    assert f"--bins {BINS}" not in done.stderr


@pytest.mark.parametrize("form", ["file", "frame", "pair", "Data"])
def test_rows_of_python_are_read_in_other_ways_too(written, form):
    """A file gives the same model as the command; whole numbers of a frame are quantities by their type."""
    train, test = written(by_age)
    rows = pd.read_csv(train)
    X, y = rows.drop(columns="y"), rows["y"]
    if form == "Data":
        from fmcli.sklearn import FMRegressor

        model = FMRegressor(random_state=1).fit(X, y).model_
    else:
        given = {"file": train, "frame": rows, "pair": (X, y)}[form]
        model = fmcli.train(given, label=None if form == "pair" else "y")
    others = pd.read_csv(test)
    error = model.predict(others.drop(columns="y")) - others["y"]
    assert math.sqrt((error**2).mean()) < 0.35
    assert np.std(others["y"]) > 1


def test_a_run_goes_on_with_the_reading_that_its_first_process_chose(run, start, written, tmp_path):
    train, _ = written(by_age)
    command = ("train", "--quick-search", train, "--label", "y", "-e", "60", "--patience", "60")
    run.ok(*command, "-o", "whole")
    process = start(*command, "--checkpoint", "c", "--checkpoint-every", "1e-9", "-o", "m")
    while not (tmp_path / "c").exists():
        assert process.poll() is None
    process.kill()
    process.communicate()
    done = run.ok(*command, "--checkpoint", "c", "--resume", "-o", "m")
    assert "continuing with " in done.stderr
    assert "quick search: --categorical age" in done.stderr
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def kinds(columns, named=None):
    """Return the other ways to read a table of these columns."""
    named = named or ColumnRoles(label="y")
    return list(other_kinds(named, *schema_of(columns, named, 1)))


@pytest.fixture
def table(tmp_path):
    """A function that writes columns of a table, and returns its inputs."""

    def write(**columns):
        name = str(tmp_path / "t.csv")
        pd.DataFrame({**columns, "y": np.arange(400) % 7}).to_csv(name, index=False)
        return [name]

    return write


def test_only_columns_whose_kind_is_open_are_read_in_other_ways(table):
    numbers = np.arange(400)
    assert kinds(table(hour=numbers % 8, text=[f"t{i % 3}" for i in numbers])) == [{"numeric": ("hour",)}]
    assert kinds(table(age=numbers % 50)) == [{"categorical": ("age",)}, {"bins": BINS}]
    assert kinds(table(age=numbers % 50, size=numbers / 7)) == [
        {"categorical": ("age",)},
        {"bins": BINS},
        {"bins": BINS, "categorical": ("age",)},
    ]
    assert kinds(table(item_id=numbers % 50, truth=numbers % 2, text=[f"t{i % 3}" for i in numbers])) == []
    assert kinds(table(rare=numbers % 150 + 1000)) == [{"bins": BINS}]  # too few rows of each number
    named = ColumnRoles(label="y", numeric=("age",), bins=4)
    assert kinds(table(age=numbers % 50, hour=numbers % 8), named) == [{"numeric": ("age", "hour")}]
