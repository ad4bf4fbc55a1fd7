"""evaluate --over: rankings of all items for each user, compared with predictions of all pairs."""

import json
import math

import pytest
from inprocess import instead

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
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "-e", "8", "-k", "3", "-o", "m", "train")
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


def ranked_films(run, tmp_path, seen):
    """Return user -> films by score, without seen ones that have no row to evaluate."""
    users = {u for u, *_ in TEST}
    (tmp_path / "pairs").write_text("".join(f"{u}:1 {film(i)}\n" for u in users for i in range(FILMS)))
    score = iter(map(float, run.ok("predict", "-q", "--raw", "m", "pairs").stdout.split()))
    scores = {user: [next(score) for _ in range(FILMS)] for user in users}
    kept = {u: {i for i in range(FILMS) if (u, i) not in seen or any((u, i) == row[:2] for row in TEST)} for u in users}
    return {u: sorted(kept[u], key=lambda i: (-scores[u][i], i)) for u in users}


def test_lists_are_measured_by_their_items(run, text, tmp_path):
    """Coverage, novelty and the share of the head, by their definitions."""
    # Users without rows to evaluate make items popular, too; pairs to evaluate are ranked even if they were seen.
    others = [(40 + u, u * u % 7) for u in range(6)] + [(u, i) for u, i, _ in TEST[:4]]
    (tmp_path / "others").write_text("".join(f"5 {u}:1 {film(i)}\n" for u, i in others))
    pairs = {(u, i) for u, i, _ in SEEN if i != 17} | {*others}
    (tmp_path / "train").write_text("".join(f"{y} {u}:1 {film(i)}\n" for u, i, y in SEEN if i != 17))
    count = [sum(i == j for _, j in pairs) for i in range(FILMS)]
    assert max(count) > 2 > min(count) == 0
    head = sorted(range(FILMS), key=lambda i: (-count[i], i))[: FILMS // 5]
    novelty = [-math.log2(max(one, 1) / len({u for u, _ in pairs})) for one in count]
    films = ranked_films(run, tmp_path, pairs)
    expected = {}
    for places in (1, 3, 15):
        lists = [of_user[:places] for of_user in films.values()]
        for name, of_film in (("novelty", novelty.__getitem__), ("popularity", head.__contains__)):
            means = [math.fsum(map(of_film, some)) / len(some) for some in lists]
            expected[f"{name}@{places}"] = math.fsum(means) / len(means)
        expected[f"coverage@{places}"] = len({i for some in lists for i in some}) / FILMS
    names = [part for name in (*expected, "map") for part in ("-x", name)]
    seen = ["--seen", "others", "--seen", "train"]
    # The same with the pairs twice.
    found = {run.ok(*text, *seen * times, "--json", *names, "-j", str(times)).stdout for times in (1, 2)}
    metrics = json.loads(found.pop())["metrics"]
    assert not found
    assert [*metrics] == [*expected, "map"]
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert "above" in run.fails(1, *text, *seen, "--fail-below", "popularity@3=0.001").stderr
    run.ok(*text, *seen, "--fail-below", f"coverage@3={expected['coverage@3']}")


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
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "--label", "stars", *join, "-o", "m", "train.csv")
    command = ("evaluate", "m", "test.csv", "--over", "f.csv", "--seen", "train.csv", "--relevant", "4", *join)
    found = {run.ok(*command, *more).stdout for more in ([], ["-j", "1"], ["-j", "3"], ["--group-field", "user"])}
    assert len(found) == 1
    unseen = command[:5] + command[7:]
    assert run.ok(*unseen).stdout == run.ok(*unseen, "--group-field", "user").stdout not in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-x", "rmse"], "--over ranks items, so rmse cannot be computed"),
        (["--no-worse-than", "m"], "--over and --no-worse-than cannot be combined"),
        (["-x", "novelty@5"], "metric novelty@5 needs pairs that tell how popular items are; use --seen FILE"),
        (["-x", "novelty"], "write novelty@K with a number of places"),
        (["-x", "coverage@0"], "write coverage@K with a number of places"),
        (["--over", "users"], "has no item: it needs exactly the features of one row of users"),
        (["--over", "twice"], "twice: two rows have the same features"),
    ],
)
def test_what_cannot_be_ranked_has_a_message(run, text, tmp_path, options, message):
    (tmp_path / "users").write_text("0:1\n1:1\n")
    (tmp_path / "twice").write_text(f"{film(1)}\n{film(1)}\n")
    done = run(*instead(text, *options, command="evaluate"))
    assert done.returncode not in (0, 70)
    assert message in done.stderr
    assert "needs --over" in run.fails(2, "evaluate", "m", "test", "--seen", "train").stderr
    assert "fmcli evaluate --over computes it" in run.fails(2, "evaluate", "m", "test", "-x", "coverage@3").stderr


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


@pytest.fixture
def log(run, tmp_path):
    """A model of pairs and their negatives, the pairs alone, others to evaluate, and all films."""
    pairs = sorted({(u, (u * 7 + i * i) % FILMS) for u in range(USERS) for i in range(6)})
    for name, rows in (("pairs.csv", pairs[::2]), ("rest.csv", pairs[1::2])):
        (tmp_path / name).write_text("user,film\n" + "".join(f"u{u},f{i}\n" for u, i in rows))
    (tmp_path / "test.csv").write_text("user,film,label\n" + "".join(f"u{u},f{i},1\n" for u, i in pairs[1::2]))
    (tmp_path / "films.csv").write_text("film\n" + "".join(f"f{i}\n" for i in range(FILMS)))
    (tmp_path / "users.csv").write_text("user\n" + "".join(f"u{u}\n" for u in range(USERS)))
    run.ok("negatives", "-q", "--pair", "user,film", "--per-pair", "3", "-o", "rows.csv", "pairs.csv")
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "--label", "label", "-o", "m", "rows.csv")
    return len(pairs[::2])


def test_negatives_are_not_seen_and_pairs_need_no_label(run, tmp_path, log):
    """In evaluate as in recommend: the rows of training with negatives, the log without labels, and text of both."""
    for name in ("rows", "test"):
        run.ok("convert", "-q", "--label", "label", "-o", f"{name}.libsvm", f"{name}.csv")
    run.ok("convert", "-q", "-o", "films.libsvm", "films.csv")
    evaluate = ("evaluate", "--json", "-x", "recall@10", "-x", "gauc", "m", "test.csv", "--over", "films.csv")
    recommend = ("recommend", "m", "--given", "users.csv", "--over", "films.csv")
    found = [json.loads(run.ok(*evaluate, "--seen", seen).stdout) for seen in ("pairs.csv", "rows.csv")]
    assert found[0] == found[1]
    assert found[0]["pairs_seen"] == log
    assert found[0] == json.loads(run.ok(*evaluate, "--seen", "rows.csv", "--group-field", "user").stdout)
    lists = {run.ok(*recommend, "--seen", seen).stdout for seen in ("pairs.csv", "rows.csv")}
    assert len(lists) == 1
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "-o", "m", "rows.libsvm")
    assert {run.ok(*recommend, "--seen", seen).stdout for seen in ("pairs.csv", "rows.csv")} == lists
    of_text = run.ok("evaluate", "--json", "m", "test.libsvm", "--over", "films.libsvm", "--seen", "rows.libsvm").stdout
    assert json.loads(of_text)["pairs_seen"] == log


@pytest.mark.parametrize("loss", ["squared", "bpr"])
def test_of_two_labels_the_larger_one_is_relevant(run, tmp_path, log, loss):
    """Whatever the two numbers are: 1 and 2 as 0 and 1, for rows, for all items, and in training."""
    train = (
        "train",
        "-q",
        "--no-quick-search",
        "--loss",
        loss,
        "--group-field",
        "user",
        "-x",
        "map",
        "-x",
        "ndcg",
        "-e",
        "3",
    )
    found = []
    for low in (0, 1, -3):
        for name in ("rows", "test"):
            lines = (tmp_path / f"{name}.csv").read_text().splitlines()
            rows = [line.rpartition(",") for line in lines[1:]]
            text = "".join(f"{pair},{low + int(label)}\n" for pair, _, label in rows)
            (tmp_path / f"{name}{low}.csv").write_text(f"user,film,label\n{text}")
        run.ok(*train, "--label", "label", "--log-json", "log", "-o", f"m{low}", f"rows{low}.csv")
        valid = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        names = ("-x", "map", "-x", "ndcg", "-x", "gauc")
        options = ("--over", "films.csv", "--seen", f"rows{low}.csv")
        of_rows = run.ok("evaluate", "--json", *names, "--group-field", "user", f"m{low}", f"rows{low}.csv").stdout
        of_all = run.ok("evaluate", "--json", *names, f"m{low}", f"test{low}.csv", *options).stdout
        epochs = [value for one in valid if one["event"] == "epoch" for value in one["valid"].values()]
        found.append(
            [*epochs, *(value for text in (of_rows, of_all) for value in json.loads(text)["metrics"].values())]
        )
        assert all(0 < value < 1 for value in found[-1])
    assert found[1] == pytest.approx(found[0], rel=0.01)
    assert found[2] == pytest.approx(found[0], rel=0.01)


def test_gauc_of_all_items_is_of_relevant_ones_and_others(run, tmp_path, text):
    """A row with a label that is not relevant counts as an item without a row does."""
    (tmp_path / "test").write_text("".join(f"{y} {u}:1 {film(i)}\n" for u, i, y in TEST if y >= 4))
    options = ("-x", "gauc", "--over", "films", "--relevant", "4", "-q")
    expected = run.ok("evaluate", "m", "test", *options).stdout
    (tmp_path / "test").write_text("".join(f"{y} {u}:1 {film(i)}\n" for u, i, y in TEST if y != 3 or u < 5))
    assert run.ok("evaluate", "m", "test", *options).stdout == expected


def test_seen_rows_that_tell_nothing_are_named(run, tmp_path, log):
    command = ("evaluate", "m", "test.csv", "--over", "films.csv", "--seen", "other.csv")
    (tmp_path / "other.csv").write_text("user,film\nnobody,f1\n")
    assert "--seen other.csv: no row has both a user of test.csv and an item" in run.ok(*command).stderr
    (tmp_path / "other.csv").write_text("film\nf1\n")
    done = run.fails(65, *command)
    assert "other.csv: its rows do not tell which ones of test.csv they belong to, without the col" in done.stderr


def test_a_log_without_labels_is_seen_whatever_tells_the_users(run, tmp_path, log):
    """The column of groups in training has the users if it has features; else rows need labels for their groups."""
    train = (
        "train",
        "-q",
        "--no-quick-search",
        "--loss",
        "bpr",
        "--label",
        "label",
        "--group-field",
        "user",
        "-e",
        "2",
    )
    command = ("evaluate", "--json", "-x", "recall@10", "m", "test.csv", "--over", "films.csv", "--seen")
    run.ok(*train, "--categorical", "user", "-o", "m", "rows.csv")
    found = [json.loads(run.ok(*command, name).stdout) for name in ("pairs.csv", "rows.csv")]
    assert found[0] == found[1]
    assert found[0]["pairs_seen"] == log
    run.ok(*train, "-o", "m", "rows.csv")
    assert json.loads(run.ok(*command, "rows.csv").stdout)["pairs_seen"] == log
    assert "pairs.csv: its rows need the column 'label'" in run.fails(65, *command, "pairs.csv").stderr
