"""Columns of tables to predict that are unlike the training columns: another spelling of names, another unit."""

import pytest

import fmcli

HEADER = "user,color,share,y"


def rows_of(count, color=str, user=str, share=float):
    """Return a table whose cells some functions change."""
    cells = [(f"u{i % 20}", ("Red", "Blue", "Green")[i % 3], i * 7 % 50 + 0.5, 1 + i % 5) for i in range(count)]
    return "\n".join([HEADER, *(f"{user(u)},{color(c)},{share(x):g},{y}" for u, c, x, y in cells)]) + "\n"


@pytest.fixture
def model(run, tmp_path):
    (tmp_path / "train.csv").write_text(rows_of(400))
    run.ok("train", "-q", "--label", "y", "-e", "2", "--holdout", "0", "--no-quick-search", "-o", "m.fm", "train.csv")
    return "m.fm"


CASES = [
    ({"color": str.upper}, "column color: none of 60 rows has a value that occurred in training, such as Red"),
    ({"user": lambda text: f"0{text}"}, "column user: none of 60 rows has a value"),
    ({"user": lambda text: text if text == "u7" else "new", "color": str.upper}, "column color: none"),
    ({"share": lambda number: number * 1000}, "column share: its mean is 24,500 in 60 rows, but was 25.00 in training"),
    ({"share": lambda number: number / 100}, "column share: its mean is 0.2450"),
    ({"share": lambda number: -999}, "column share: its mean is -999"),
]


@pytest.mark.parametrize(("changes", "told"), CASES)
def test_a_column_unlike_training_is_told(run, tmp_path, model, changes, told):
    """predict, evaluate and Python name the column."""
    (tmp_path / "new.csv").write_text(rows_of(60, **changes))
    for command in ("predict", "evaluate"):
        assert told in " ".join(run.ok(command, model, "new.csv").stderr.split())
    loaded = fmcli.load(tmp_path / model)
    for use in (loaded.predict, loaded.evaluate):
        with pytest.warns(UserWarning, match=told):
            use(tmp_path / "new.csv")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"share": lambda number: number + 100},  # a trend
        {"share": lambda number: 20.5},
        {"user": lambda text: "new" if text < "u5" else text},
    ],
)
def test_other_columns_are_not(run, tmp_path, model, changes):
    (tmp_path / "new.csv").write_text(rows_of(60, **changes))
    assert "warning" not in run.ok("predict", model, "new.csv").stderr


def test_few_rows_may_all_be_new(run, tmp_path, model):
    (tmp_path / "new.csv").write_text(rows_of(10, user=lambda text: f"new {text}"))
    assert "warning" not in run.ok("predict", model, "new.csv").stderr
