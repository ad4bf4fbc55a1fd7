"""evaluate --over: rankings of all items for each user, compared with predictions of all pairs."""

import json
import math

import pytest

USERS, FILMS = 12, 20
RATINGS = [(u, (u * 5 + i * 3) % FILMS, 1 + (u + i * i) % 5) for u in range(USERS) for i in range(8)]
NEW = [(USERS + 1, 4, 5), (USERS + 2, 9, 5), (USERS + 2, 3, 1)]  # two users that are not in training
TEST = [(u, i, y) for u, i, y in RATINGS if (u + i) % 4 == 0] + NEW
SEEN = [(u, i, y) for u, i, y in RATINGS if (u + i) % 4]


def film(i):
    return f"{100 + i}:1 {200 + i % 3}:0.5"


@pytest.fixture
def text(run, tmp_path):
    """A model, rows to evaluate, all items, and the rows of training."""
    for name, rows in (("train", SEEN), ("test", TEST)):
        (tmp_path / name).write_text("".join(f"{y} {u}:1 {film(i)}\n" for u, i, y in rows))
    (tmp_path / "films").write_text("".join(f"{film(i)}\n" for i in range(FILMS)))
    run.ok("train", "-q", "--no-look", "--holdout", "0", "-e", "8", "-k", "3", "-o", "m", "train")
    return "evaluate", "m", "test", "--over", "films"


def slow(run, tmp_path, seen):
    """Return recall@3, precision@3, hit@3, mrr and map for label 4 and above, and the number of users with such."""
    pairs = [(u, i) for u in {u for u, *_ in TEST} for i in range(FILMS)]
    (tmp_path / "pairs").write_text("".join(f"{u}:1 {film(i)}\n" for u, i in pairs))
    score = dict(zip(pairs, map(float, run.ok("predict", "-q", "--raw", "m", "pairs").stdout.split()), strict=True))
    found = []
    for user in {u for u, *_ in TEST}:
        mine = {i for u, i, _ in TEST if u == user}
        relevant = {i for u, i, y in TEST if u == user and y >= 4}
        kept = [i for i in range(FILMS) if i in mine or (user, i) not in seen]
        order = sorted(kept, key=lambda i: -score[user, i])
        assert len({score[user, i] for i in kept}) == len(kept)
        if relevant:
            places = [order.index(i) + 1 for i in relevant]
            first = sum(place <= 3 for place in places)
            precisions = [sum(p <= place for p in places) / place for place in places]
            figures = first / len(relevant), first / 3, first > 0, 1 / min(places), sum(precisions) / len(relevant)
            found.append(figures)
    names = ("recall@3", "precision@3", "hit@3", "mrr", "map")
    return dict(zip(names, (math.fsum(column) / len(found) for column in zip(*found, strict=True)), strict=True)), len(
        found
    )


@pytest.mark.parametrize("with_seen", [False, True], ids=["all", "unseen"])
def test_all_items_are_ranked(run, text, tmp_path, with_seen):
    seen = ["--seen", "train"] if with_seen else []
    names = [part for name in ("recall@3", "precision@3", "hit@3", "mrr", "map") for part in ("-x", name)]
    found = json.loads(run.ok(*text, *seen, *names, "--relevant", "4", "--json").stdout)
    expected, users = slow(run, tmp_path, {(u, i) for u, i, _ in SEEN} if with_seen else set())
    assert found["metrics"] == pytest.approx(expected, rel=1e-12)
    if with_seen:  # what is evaluated is ranked, even if it is among the pairs that were seen
        again = run.ok(*text, *seen, "--seen", "test", *names, "--relevant", "4", "--json").stdout
        assert json.loads(again)["metrics"] == found["metrics"]
    assert found["users"] == len({u for u, *_ in TEST})
    assert found["users_without"] == found["users"] - users > 0
    assert found["pairs_seen"] == (len({(u, i) for u, i, _ in SEEN if u in {u for u, *_ in TEST}}) if with_seen else 0)


def test_groups_are_users(run, text, tmp_path):
    """Rows with the same qid are a user, with the features of the first of these rows."""
    expected = run.ok(*text, "--seen", "train").stdout
    for name, rows in (("train", SEEN), ("test", TEST)):
        (tmp_path / name).write_text("".join(f"{y} qid:{u} {u}:1 {film(i)}\n" for u, i, y in rows))
    assert run.ok(*text, "--seen", "train").stdout == expected
    lines = (tmp_path / "test").read_text().splitlines()
    (tmp_path / "test").write_text("\n".join([*lines[:-1], lines[-1].replace(" 14:1", " 14:1 7:1")]) + "\n")
    assert run.ok(*text, "--seen", "train").stdout == expected


def test_tables_and_threads(run, tmp_path):
    (tmp_path / "f.csv").write_text("film,genre\n" + "".join(f"f{i},g{i % 3}\n" for i in range(FILMS)))
    for name, rows in (("train.csv", SEEN), ("test.csv", TEST)):
        (tmp_path / name).write_text("user,film,stars\n" + "".join(f"u{u},f{i},{y}\n" for u, i, y in rows))
    join = ("--join", "film=f.csv")
    run.ok("train", "-q", "--no-look", "--holdout", "0", "--label", "stars", *join, "-o", "m", "train.csv")
    command = ("evaluate", "m", "test.csv", "--over", "f.csv", "--seen", "train.csv", "--relevant", "4", *join)
    found = {run.ok(*command, *more).stdout for more in ([], ["-j", "1"], ["-j", "3"], ["--group-field", "user"])}
    assert len(found) == 1
    unseen = command[:5] + command[7:]
    assert run.ok(*unseen).stdout == run.ok(*unseen, "--group-field", "user").stdout not in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-x", "rmse"], "--over ranks items, so that rmse cannot be computed"),
        (["--no-worse-than", "m"], "--over and --no-worse-than cannot be combined"),
        (["--over", "users"], "has no item: of the features of users, it needs exactly those of one row"),
        (["--over", "twice"], "twice: two rows have the same features"),
    ],
)
def test_what_cannot_be_ranked_has_a_message(run, text, tmp_path, options, message):
    (tmp_path / "users").write_text("0:1\n1:1\n")
    (tmp_path / "twice").write_text(f"{film(1)}\n{film(1)}\n")
    done = run(*text, *options)
    assert done.returncode not in (0, 70)
    assert message in done.stderr
    assert "needs --over" in run.fails(2, "evaluate", "m", "test", "--seen", "train").stderr


def test_relevant_rows_of_groups(run, text, tmp_path):
    """Without --over, the rows of each group are ranked; groups without relevant rows are left out, and counted."""
    (tmp_path / "test").write_text("".join(f"{y} qid:{u} {u}:1 {film(i)}\n" for u, i, y in TEST))
    done = run.ok("evaluate", "--json", "m", "test", "-x", "recall@9", "-x", "map", "--relevant", "4")
    assert json.loads(done.stdout)["metrics"]["recall@9"] == 1
    users = {u for u, *_ in TEST}
    without = len(users - {u for u, _, y in TEST if y >= 4})
    assert f"{without} of {len(users)} groups have no relevant row" in done.stderr
    everything = json.loads(run.ok("evaluate", "--json", "m", "test", "-x", "map").stdout)["metrics"]["map"]
    assert everything == 1 > json.loads(done.stdout)["metrics"]["map"]
