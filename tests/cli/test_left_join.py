"""--join is a left join: a row that refers to no row of the other table has its columns as missing cells."""

import pytest

from fmcli.text import figure

QUICK = ("-e", "4", "--holdout", "0", "--no-quick-search", "--label", "y")
USERS = 12
AGES = [20.5 + 1.25 * user for user in range(USERS)]
MEAN = sum(AGES) / USERS
JOIN = ("--join", "user=users.csv")
REFERS = "to no row of users.csv, whose columns are missing there\n"


@pytest.fixture
def orders(tmp_path):
    """Orders, some with a user that users.csv lacks or without a user; and the same as text. Returns how many."""
    users = "".join(f"u{user},job {user % 3},{age}\n" for user, age in enumerate(AGES))
    (tmp_path / "users.csv").write_text(f"user,job,age\n{users}")
    table, text, lost = ["user,film,y"], [], 0
    for row in range(240):
        user, film, y = row % (USERS + 2), row * 7 % 5, 1 + row * 5 % 11
        name = f"u{user}" if user <= USERS else ""
        table.append(f"{name},f{film},{y}")
        of_user = f"job=job%20{user % 3}:1 age:{AGES[user]}" if user < USERS else f"age:{MEAN:.9g} age=:1"
        text.append(f"{y} {f'user={name}:1 ' if name else ''}film=f{film}:1 {of_user}")
        lost += user >= USERS
    for path, lines in (("t.csv", table), ("t.txt", text)):
        (tmp_path / path).write_text("\n".join(lines) + "\n")
    return lost


def test_convert_writes_missing_cells(run, tmp_path, orders):
    done = run.ok("convert", "--label", "y", *JOIN, "t.csv")
    assert done.stdout == (tmp_path / "t.txt").read_bytes()
    assert f"column user: {orders:,} rows refer {REFERS}" in done.stderr
    other = run.ok("convert", "-q", "--label", "y", "--missing", "feature", *JOIN, "t.csv").stdout.decode()
    assert other.count("job=:1") == other.count("age=:1") == orders
    none = run.ok("convert", "-q", "--label", "y", "--missing", "none", *JOIN, "t.csv").stdout.decode()
    assert "=:1" not in none
    assert none.count(f"age:{MEAN:.9g}") == orders


@pytest.mark.parametrize(
    "mode",
    [(), ("-m", "ffm"), ("-s", "mcmc"), ("--disk", "--cache", "c"), ("--hash-bits", "8"), ("--bins", "3")],
    ids=["rows", "fields", "mcmc", "disk", "hash", "bins"],
)
def test_a_model_is_that_of_the_joined_rows(run, orders, mode):
    bins, fields = "--bins" in mode, {"ffm", "mcmc"} & {*mode}
    form = (*(mode if bins else ()), *(("--to", "ffm") if fields else ()))
    run.ok("convert", "-q", "--label", "y", *JOIN, *form, "t.csv", "-o", "t.txt")
    log = run.ok("train", *QUICK, *mode, *JOIN, "-o", "m.fm", "t.csv").stderr
    filled = f"filled with the mean {figure(MEAN)} and marked by the feature age="
    assert f"fractions, such as 20.5, {orders} rows without one: {filled}\n" in log
    assert f"column user: {orders} rows refer {REFERS}" in log
    same = () if bins else (*mode, "--scale", "standard" if "ffm" in mode else "zscore")
    run.ok("train", *QUICK[:-2], *same, "-o", "text.fm", "t.txt")
    done = run.ok("predict", *JOIN, "m.fm", "t.csv")
    assert f"column user: {orders} rows refer {REFERS}" in done.stderr
    assert done.stdout == run.ok("predict", "text.fm", "t.txt").stdout


def test_rows_without_a_match_are_predicted(run, tmp_path, orders):
    """The model was trained without such rows: numbers are the mean, and nothing else."""
    found = [line for line in (tmp_path / "t.csv").read_text().splitlines() if f"u{USERS}," not in line]
    (tmp_path / "all.csv").write_text("\n".join(line for line in found if line[0] != ",") + "\n")
    run.ok("train", *QUICK, *JOIN, "-o", "m.fm", "all.csv")
    (tmp_path / "new.csv").write_text("user,film,y\nu1,f1,2\nzz,f1,3\n,f2,3\n")
    (tmp_path / "new.txt").write_text(
        f"2 user=u1:1 film=f1:1 job=job%201:1 age:{AGES[1]}\n3 film=f1:1 age:{MEAN}\n3 film=f2:1 age:{MEAN}\n"
    )
    assert "use --join user=TABLE" in run.fails(2, "predict", "m.fm", "new.csv").stderr
    expected = run.ok("predict", "-q", "m.fm", "new.txt").stdout
    for words in (("new.csv",), ("-",), ("--unbuffered", "-")):
        done = run.ok("predict", *JOIN, "m.fm", *words, input=(tmp_path / "new.csv").read_bytes())
        assert done.stdout == expected
        assert f"column user: 2 rows refer {REFERS}" in done.stderr
    assert f"column user: 2 rows refer {REFERS}" in run.ok("evaluate", *JOIN, "m.fm", "new.csv").stderr
    log = run.ok("train", "-i", "m.fm", "-e", "1", *JOIN, "-o", "n.fm", "new.csv").stderr
    assert f"column user: 2 rows refer {REFERS}" in log
    (tmp_path / "one.csv").write_text("user,film\nzz,f1\n")
    done = run.ok("predict", *JOIN, "m.fm", "one.csv")
    assert "column user: 1 row refers to no row of users.csv" in done.stderr
    assert "warning: no row" not in done.stderr


@pytest.mark.parametrize("mode", [("--online",), ("--cluster", "local:1")])
def test_streams_and_workers_count_rows_without_a_match(run, orders, mode):
    named = ("--categorical", "user,film,job", "--numeric", "age", *mode, *JOIN)
    log = run.ok("train", "--label", "y", *named, "-o", "m.fm", "t.csv").stderr
    assert f"column user: {orders} rows refer {REFERS}" in log


def test_recommend_knows_rows_without_a_match(run, tmp_path, orders):
    run.ok("train", *QUICK, *JOIN, "-o", "m.fm", "t.csv")
    (tmp_path / "users.txt").write_text("user\nu1\nzz\n")
    (tmp_path / "films.txt").write_text("film\nf1\nf2\n")
    words = ("--given", "users.txt", "--over", "films.txt", *JOIN)
    done = run.ok("recommend", "m.fm", *words)
    assert len(done.stdout.splitlines()) == 1 + 4
    assert "column user: 1 row refers to no row of users.csv" in done.stderr


def test_keys_of_another_kind_are_an_error(run, tmp_path, orders):
    users = (tmp_path / "users.csv").read_text().replace("\nu", "\n")
    (tmp_path / "numbers.csv").write_text(users)
    wrong = ("--join", "user=numbers.csv")
    for words in (("train", *QUICK), ("convert", "--label", "y"), ("cv", *QUICK[:2], "--label", "y")):
        error = run.fails(65, *words, *wrong, "t.csv").stderr
        assert "t.csv: no row has a cell in the column 'user' that is one of numbers.csv: the two columns are " in error
    run.ok("train", *QUICK, *JOIN, "-o", "m.fm", "t.csv")
    done = run.ok("predict", "-q", *wrong, "m.fm", "t.csv")
    assert "fmcli: warning: no row has a cell in the column 'user' that is one of numbers.csv" in done.stderr
