"""--decay: the weight of a row halves with its age."""

import time
from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import pytest

import fmcli

DAY = 86400
CD = ("-q", "-s", "cd", "--no-quick-search", "--label", "y")


@pytest.fixture
def days(rng):
    return rng.integers(0, 90, 300)


def table(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def rows_of(days, when):
    return [(f"n{i % 5}", f"{3 * (i % 5) + i % 7 / 7:.4f}", when(int(day))) for i, day in enumerate(days)]


FORMS = {
    "dates": (lambda day: (datetime(2025, 1, 1) + timedelta(day)).date(), "30d"),
    "dates and hours": (lambda day: datetime(2025, 1, 1) + timedelta(day), "720h"),
    "days first": (lambda day: f"{datetime(2025, 1, 1) + timedelta(day):%d.%m.%Y}", "4.2857142857142857w"),
    "numbers": (lambda day: day, "30"),
}


@pytest.mark.parametrize("form", FORMS)
def test_weights_are_those_of_a_file(run, tmp_path, days, form):
    when, half_life = FORMS[form]
    log = table(tmp_path / "t.csv", "x,y,when", rows_of(days, when))
    plain = table(tmp_path / "plain.csv", "x,y", [row[:2] for row in rows_of(days, when)])
    weight = 2.0 ** (-(days.max() - days) / 30)
    (tmp_path / "w").write_text("".join(f"{one!r}\n" for one in weight.tolist()))
    run.ok("train", *CD, "-o", "expected.fm", "--sample-weights", "w", plain)
    done = run.ok("train", *CD[1:], "-o", "m.fm", "--decay", f"time:when:{half_life}", log)
    assert f"weights halve with each {half_life} before" in done.stderr
    assert f"300 rows count as {weight.sum() ** 2 / (weight**2).sum():.0f}" in done.stderr
    expected, found = (run.ok("predict", model, plain).stdout for model in ("expected.fm", "m.fm"))
    np.testing.assert_allclose(np.array(found.split(), float), np.array(expected.split(), float), rtol=1e-6)


def test_weights_multiply_and_the_column_can_be_a_feature(run, tmp_path, days):
    rows = [(*row, 1 + i % 2) for i, row in enumerate(rows_of(days, int))]
    log = table(tmp_path / "t.csv", "x,y,when,w", rows)
    multiplied = [(x, y, when, repr(w * 2.0 ** (-(int(days.max()) - when) / 9))) for x, y, when, w in rows]
    product = table(tmp_path / "p.csv", "x,y,when,w", multiplied)
    options = (*CD, "--weight-column", "w")
    run.ok("train", *options, "--ignore", "when", "-o", "expected.fm", product)
    run.ok("train", *options, "--decay", "time:when:9", "-o", "m.fm", log)
    assert run.ok("predict", "m.fm", log).stdout == run.ok("predict", "expected.fm", log).stdout
    run.ok("train", *options, "--numeric", "when", "-o", "expected.fm", product)
    run.ok("train", *options, "--numeric", "when", "--decay", "time:when:9", "-o", "m.fm", log)
    assert run.ok("predict", "m.fm", log).stdout == run.ok("predict", "expected.fm", log).stdout


def test_python_and_every_form_of_a_table_have_the_bits_of_the_command(run, tmp_path, days):
    when = FORMS["dates"][0]
    log = table(tmp_path / "t.csv", "x,y,when", rows_of(days, when))
    parts = [
        table(tmp_path / name, "x,y,when", rows_of(part, when))
        for name, part in (("a.csv", days[:99]), ("b.csv", days))
    ]
    options = {"label": "y", "solver": "cd", "quick_search": False, "decay": "time:when:2w"}
    run.ok("train", *CD, "--decay", "time:when:2w", "-o", "m.fm", log)
    expected = fmcli.load(tmp_path / "m.fm").parameters
    frame = duckdb.read_csv(str(log))
    for rows in (str(log), frame, frame.pl() if hasattr(frame, "polars") else frame.arrow().read_all()):
        found = fmcli.train(rows, **options).parameters
        assert all(np.array_equal(found[name], each) for name, each in expected.items()), type(rows)
    days = np.concatenate([days[:99], days])
    whole = table(tmp_path / "whole.csv", "x,y,when", rows_of(days[:99], when) + rows_of(days[99:], when))
    one, other = (fmcli.train(rows, **options) for rows in (list(map(str, parts)), str(whole)))
    assert all(np.array_equal(one.parameters[name], each) for name, each in other.parameters.items())
    with pytest.raises(ValueError, match="decay needs a frame or a table"):
        fmcli.train((np.ones((9, 2)), np.arange(9)), decay="time:when:2w")


def test_classes_are_weighted_as_well(run, tmp_path, days):
    rows = [(x, i % 3 % 2, when) for i, (x, _, when) in enumerate(rows_of(days, int))]
    log = table(tmp_path / "t.csv", "x,y,when", rows)
    weight = [repr((1 + 3 * y) * 2.0 ** (-(int(days.max()) - when) / 30)) for _, y, when in rows]
    (tmp_path / "w").write_text("".join(f"{one}\n" for one in weight))
    options = (*CD, "--loss", "logistic", "--ignore", "when")
    run.ok("train", *options, "--sample-weights", "w", "-o", "expected.fm", log)
    run.ok("train", *options, "--decay", "time:when:30", "--class-weight", "1=4", "-o", "m.fm", log)
    assert run.ok("predict", "m.fm", log).stdout == run.ok("predict", "expected.fm", log).stdout


def test_counts_of_observed_pairs_decay(run, tmp_path, rng):
    """A pair has the sum of its decayed counts as weight, up to 1, and 1 + log(sum) above."""
    pairs = [(int(u), int(i), int(n), int(t)) for u, i, n, t in rng.integers(1, [20, 15, 5, 60], (400, 4))]
    pairs = sorted(pairs, key=lambda one: one[3])
    log = table(tmp_path / "t.csv", "user,item,n,when", pairs)
    newest, total = pairs[-1][3], {}
    for user, item, n, when in pairs:
        total[user, item] = total.pop((user, item), 0) + n * 2.0 ** (-(newest - when) / 20)
    weight = [(*pair, repr(float(one if one < 1 else 1 + np.log(one)))) for pair, one in total.items()]
    plain = table(tmp_path / "w.csv", "user,item,w", weight)
    options = ("--implicit", "--user", "user", "--item", "item", "-k", "4", "-e", "4")
    run.ok("train", *options, "--weight-column", "w", "-o", "expected.fm", plain)
    run.ok("train", *options, "--count", "n", "--decay", "time:when:20", "-o", "m.fm", log)
    expected, found = (run.ok("predict", model, plain).stdout for model in ("expected.fm", "m.fm"))
    np.testing.assert_allclose(np.array(found.split(), float), np.array(expected.split(), float), rtol=1e-4, atol=1e-5)


def test_a_time_that_is_later_than_now_is_named(run, tmp_path, days):
    def when(day):
        return datetime.fromtimestamp(time.time() + DAY * (day - 80), UTC).date()

    log = table(tmp_path / "t.csv", "x,y,when", rows_of(days, when))
    assert "which is later than now" in run.ok("train", *CD, "--decay", "time:when:30d", log).stderr
    with pytest.warns(UserWarning, match="later than now"):
        fmcli.train(str(log), label="y", decay="time:when:30d", epochs=1)


REFUSED = {
    "when:30d": (2, "has not the form time:COLUMN:HALF-LIFE"),
    "time:when:30q": (2, "there is no unit 'q'; there are: s, min, h, d, w, y"),
    "time:when:0d": (2, "'0' is not a positive number"),
    "time:when:1.2.3d": (2, "'1.2.3' is not a positive number"),
    "time:when:30": (2, "'when' has dates, so the half-life has a unit"),
    "time:number:30d": (2, "'number' has numbers, so the half-life has no unit"),
    "time:gap:30d": (65, "t.csv:9:24: found '', expected a date and time in the column 'gap'"),
    "time:whn:30d": (65, "there is no column 'whn'; did you mean when?"),
}


@pytest.mark.parametrize("decay", REFUSED)
def test_what_decays_is_checked(run, tmp_path, days, decay):
    rows = [(x, y, when, i, "" if i == 7 else when) for i, (x, y, when) in enumerate(rows_of(days, FORMS["dates"][0]))]
    log = table(tmp_path / "t.csv", "x,y,when,number,gap", rows)
    status, message = REFUSED[decay]
    done = run.fails(status, "train", *CD, "--numeric", "number", "--decay", decay, log)
    assert message in done.stderr


def test_rows_that_are_read_once_or_have_no_columns_are_refused(run, tmp_path, days):
    log = table(tmp_path / "t.csv", "x,y,when", rows_of(days, int))
    decay = ("--decay", "time:when:3")
    for mode in (["--disk"], ["--online"], ["--on-bad-line", "skip"]):
        assert "--decay" in run.fails(2, "train", "--label", "y", *mode, *decay, log).stderr
    (tmp_path / "rows").write_text("1 1:1\n0 2:1\n")
    assert "libsvm text already" in run.fails(65, "train", *decay, "rows").stderr
    assert "--decay" in run.fails(2, "train", "--format", "libsvm", *decay, "rows").stderr
