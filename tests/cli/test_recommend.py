"""fmcli recommend: as predict and sort, for text and tables."""

import json

import numpy as np
import pytest

import fmcli

USERS, FILMS = 20, 30
RATINGS = [(i % USERS, i * 7 % FILMS, 1 + (i % USERS + i * 7 % FILMS) % 5) for i in range(400)]
TRAIN = ("train", "-q", "--no-quick-search", "--holdout", "0", "-e", "5", "-k", "4", "-o", "m")


@pytest.fixture
def text(run, tmp_path):
    """A model of ratings as libsvm text, the rows that it was trained on, and all users and films."""
    (tmp_path / "train").write_text("".join(f"{y} {u}:1 {100 + i}:1\n" for u, i, y in RATINGS))
    (tmp_path / "users").write_text("".join(f"{u}:1\n" for u in range(USERS)))
    (tmp_path / "films").write_text("".join(f"{100 + i}:1 {200 + i % 3}:0.5\n" for i in reversed(range(FILMS))))
    run.ok(*TRAIN, "train")
    return "m", "--given", "users", "--over", "films"


@pytest.fixture
def tables(run, tmp_path):
    """The same as tables, with joined columns, and titles that the model does not know."""
    (tmp_path / "r.csv").write_text("user,film,stars\n" + "".join(f"u{u},{i},{y}\n" for u, i, y in RATINGS))
    jobs = ("nurse", "civil servant")
    (tmp_path / "u.csv").write_text("user,job\n" + "".join(f"u{u},{jobs[u % 2]}\n" for u in range(USERS)))
    titles = "".join(f'{i},{1990 + i % 4},"Film, the {i}th",{"Drama" if i % 3 else "War"}\n' for i in range(FILMS))
    (tmp_path / "f.csv").write_text(f"film,year,title,genre\n{titles}")
    joins = ("--join", "user=u.csv", "--join", "film=f.csv")
    run.ok(*TRAIN, "--label", "stars", *joins, "--ignore", "title", "--categorical", "film,year", "r.csv")
    return "m", "--given", "u.csv", "--over", "f.csv"


def lines(done):
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


def best(run, pairs, top, tmp_path, header="", *options):
    """Return the best pairs of each user, (user, film, prediction), by predicting all of them and sorting."""
    (tmp_path / "pairs").write_text(header + "".join(line for _, _, line in pairs))
    raw = run.ok("predict", "-q", "--raw", *options, "m", "pairs").stdout.split()
    texts = run.ok("predict", "-q", *options, "m", "pairs").stdout.decode().split()
    rows = sorted(range(len(pairs)), key=lambda at: (pairs[at][0], -float(raw[at]), at))
    place = {}
    found = []
    for at in rows:
        user = pairs[at][0]
        place[user] = place.get(user, 0) + 1
        if place[user] <= top:
            found.append([user, pairs[at][1], texts[at]])
    return found


def test_text_is_as_predict_and_sort(run, text, tmp_path):
    films = (tmp_path / "films").read_text().splitlines(keepends=True)
    seen = {(u, i) for u, i, _ in RATINGS}
    pairs = [
        (u, line.partition(":")[0], f"{u}:1 {line}")
        for u in range(USERS)
        for line in films
        if (u, int(line[:3]) - 100) not in seen
    ]
    head, *found = lines(run.ok("recommend", "-q", "--seen", "train", "--top", "4", *text))
    assert head == ["given", "item", "prediction"]
    assert [[int(user), *rest] for user, *rest in found] == best(run, pairs, 4, tmp_path)


def test_tables_are_as_predict_and_sort(run, tables, tmp_path):
    seen = {(u, i) for u, i, _ in RATINGS}
    pairs = [(u, str(i), f"u{u},{i}\n") for u in range(USERS) for i in range(FILMS) if (u, i) not in seen]
    options = ("--join", "user=u.csv", "--join", "film=f.csv")
    head, *found = lines(run.ok("recommend", "-q", "--seen", "r.csv", "--top", "3", "--show", "title,job", *tables))
    assert head == ["user", "job", "film", "title", "prediction"]
    assert all(title == f"Film, the {film}th" for _, _, film, title, _ in found)
    assert all(job == ("civil servant" if int(user[1:]) % 2 else "nurse") for user, job, *_ in found)
    found = [[int(user[1:]), film, prediction] for user, _, film, _, prediction in found]
    expected = best(run, pairs, 3, tmp_path, "user,film\n", *options)
    assert found == expected
    # Joined here, as in training.
    (tmp_path / "ids.csv").write_text("user\n" + "".join(f"u{u}\n" for u in range(USERS)))
    joined = run.ok(
        "recommend", "-q", "--seen", "r.csv", "--top", "3", *options[:2], "m", "--given", "ids.csv", "--over", "f.csv"
    )
    assert [[int(user[1:]), *rest] for user, *rest in lines(joined)[1:]] == expected


def test_python_leaves_out_the_pairs_of_a_frame(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql(f"CREATE OR REPLACE TABLE r AS SELECT 'u' || u AS user, i AS film, y AS stars FROM {values(RATINGS)}")
    distinct = "SELECT DISTINCT {0} FROM r ORDER BY {0}"
    frame, users, films = map(duckdb.sql, ("FROM r", distinct.format("user"), distinct.format("film")))
    model = fmcli.train(
        frame, label="stars", categorical=["film"], numeric=None, epochs=2, holdout=0, quick_search=False
    )
    named = [[str(row[0]) for row in rows.fetchall()] for rows in (users, films)]
    known = {(f"u{u}", str(i)) for u, i, _ in RATINGS}
    pairs = np.array([[(user, film) in known for film in named[1]] for user in named[0]])
    of_matrix = model.recommend(users, films, FILMS, seen=pairs)
    assert (of_matrix[0] == -1).sum() == len(known)
    for one, other in zip(model.recommend(users, films, FILMS, seen=frame), of_matrix, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    with pytest.raises(ValueError, match="seen has rows, so given must be a frame or a file"):
        model.recommend([{"user=u0": 1}], films, seen=frame)
    with pytest.raises(ValueError, match="seen: there is no column 'film'"):
        model.recommend(users, films, seen=users)


def values(rows):
    return f"(VALUES {', '.join(map(str, rows))}) AS t(u, i, y)"


def test_json_has_the_same(run, tables):
    table = lines(run.ok("recommend", "-q", "--top", "2", "--show", "title", *tables))[1:]
    found = [
        json.loads(line)
        for line in run.ok("recommend", "-q", "--top", "2", "--show", "title", "--json", *tables).stdout.splitlines()
    ]
    assert [one["user"] for one in found] == [f"u{u}" for u in range(USERS)]
    assert [
        [one["user"], item["film"], item["title"], item["prediction"]] for one in found for item in one["items"]
    ] == [[user, film, title, float(prediction)] for user, film, title, prediction in table]


def test_any_number_of_threads_writes_the_same_bytes(run, text):
    found = {run.ok("recommend", "-q", "-j", str(j), *text).stdout for j in (1, 2, 5)}
    assert len(found) == 1


def test_reasons_are_parts_of_the_score(run, tables, tmp_path):
    """Main effects of features of the item, and interactions with them, as predict --explain has them."""
    done = run.ok("recommend", "-q", "--top", "2", "--explain", "3", "--json", *tables)
    one = json.loads(done.stdout.splitlines()[4])
    item = one["items"][1]
    (tmp_path / "pair.csv").write_text(f"user,film\n{one['user']},{item['film']}\n")
    joins = ("--join", "user=u.csv", "--join", "film=f.csv")
    parts = json.loads(
        run.ok("predict", "-q", "--explain", "20", "--explain-format", "json", *joins, "m", "pair.csv").stdout
    )
    all_parts = parts["main"] | {" & ".join(sorted(each["features"])): each["value"] for each in parts["interactions"]}
    of_film = {
        name: value for name, value in all_parts.items() if any(word in name for word in ("film", "year", "genre"))
    }
    largest = sorted(of_film.items(), key=lambda part: -part[1])[:3]
    assert {" & ".join(sorted(name.split(" & "))): value for name, value in item["reasons"].items()} == pytest.approx(
        {name: value for name, value in largest if value > 0}
    )
    assert item["reasons"]
    assert " +0." in lines(run.ok("recommend", "-q", "--top", "2", "--explain", "3", *tables))[1][-1]


def test_ids_are_tokens_and_seen_pairs_first_features(run, text, tmp_path):
    (tmp_path / "users").write_text("".join(f"user{u} {u}:1\n" for u in range(USERS)))
    (tmp_path / "films").write_text("".join(f"film{i} {100 + i}:1\n" for i in range(FILMS)))
    done = run.ok("recommend", "--seen", "train", "--id-column", "1", "--top", "29", *text)
    seen = {(f"user{u}", f"film{i}") for u, i, _ in RATINGS}
    found = [(user, film) for user, film, _ in lines(done)[1:]]
    assert len(found) == USERS * FILMS - len(seen)
    assert not set(found) & seen
    assert "from 30 items, without 60 seen pairs, " in done.stderr
    assert done.stderr.endswith("; 20 rows got fewer than 29\n")


def test_one_user_from_standard_input(run, text):
    done = run.ok("recommend", "-q", "m", "--given", "-", "--over", "films", "--top", "1", input=b"3:1\n")
    assert done.stdout.startswith(b"given\titem\tprediction\n3\t1")
    assert len(lines(done)) == 2


def test_poly2_is_scored_by_pairs(run, text):
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "-m", "poly2", "-o", "m", "train")
    done = run.ok("recommend", "--seen", "train", *text)
    assert "all pairs are scored one by one, because its pairs of features have a weight each" in done.stderr
    assert len(lines(done)) == 1 + USERS * 10


def test_repeated_equal_rows_count_once(run, text, tmp_path):
    once = run.ok("recommend", "m", "--given", "users", "--over", "films").stdout
    for name in ("users", "films"):
        rows = (tmp_path / name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join([*rows, *rows[:3]]))
    assert run.ok("recommend", "m", "--given", "users", "--over", "films").stdout == once


WRONG_ROWS = [
    ({"users": "1:1\n1:1 2:1\n"}, [], "users: rows 1 and 2 have the same id, 1; ids must be unique"),
    ({"users": "1:1\n# no row\n\n"}, [], "users: row 2 has no feature, as its id; each row needs one"),
    ({"users": "1:1\n2:1 103:1\n"}, [], "users: row 2 has the feature 103, which films has too; a feature must belong"),
    ({"users": "a 1:1\nb 1:2\n"}, ["--id-column", "1", "--seen", "train"], "row 2 begins with the feature 1, as an"),
    ({}, ["--show", "title"], "--show title: neither users nor films has this column"),
    ({}, ["--id-column", "name"], "is not a table, so it has no column 'name'"),
    ({}, ["--id-column", "1,1,1"], "takes a column for --given and one for --over"),
    ({}, ["--top", "0"], "'--top': 0 is not in the range x>=1"),
    ({}, ["--seen", "absent"], "cannot read absent"),
]
WRONG_TABLES = [
    ("name\na\n", [], "u.csv: the table has none of the columns that the model knows: user, film, job"),
    ("user,genre\nu1,War\n", [], "u.csv and f.csv both have the column 'genre', which the model knows"),
    ("user\nu1\n", ["--id-column", "usr,film"], "there is no column 'usr'"),
    ("user\nu1\n", ["--seen", "t.csv"], "t.csv: there is no column 'film'"),
    ("user\nu1\n", ["--seen", "t.libsvm"], "must all be tables, or none"),
    ("user\nu1\n", ["--join", "town=u.csv"], "the model joins no table by 'town'"),
]


def test_wrong_rows_have_messages(run, text, tmp_path):
    usual = (tmp_path / "users").read_text()
    for files, options, message in WRONG_ROWS:
        (tmp_path / "users").write_text(files.get("users", usual))
        done = run("recommend", *text, *options)
        assert done.returncode not in (0, 70), message
        assert message in done.stderr
        assert done.stdout == b""


def test_wrong_tables_have_messages(run, tables, tmp_path):
    (tmp_path / "t.csv").write_text("user\nu1\n")
    (tmp_path / "t.libsvm").write_text("1 user=u1:1\n")
    for users, options, message in WRONG_TABLES:
        (tmp_path / "u.csv").write_text(users)
        done = run("recommend", *tables, *options)
        assert done.returncode not in (0, 70), message
        assert message in done.stderr


def test_a_column_that_no_table_has_is_a_warning(run, tables, tmp_path):
    (tmp_path / "u.csv").write_text("user\nu1\n")
    done = run.ok("recommend", *tables)
    assert "warning: both tables lack the column 'job' of the model: scoring as if it were empty" in done.stderr


def test_classes_are_refused(run, text, tmp_path):
    run.ok("train", "-q", "-e", "1", "--loss", "softmax", "-o", "m", "train")
    assert "scores of 5 classes" in run.fails(2, "recommend", *text).stderr


def test_from_python(run, text, tmp_path):
    """Row numbers of items and predictions; -1 and nan where there are fewer."""
    from scipy.sparse import csr_array

    model = fmcli.load(tmp_path / "m")
    users = csr_array((np.ones(USERS), (np.arange(USERS), np.arange(USERS))), shape=(USERS, 300))
    films = csr_array((np.ones(FILMS), (np.arange(FILMS), 100 + np.arange(FILMS))), shape=(FILMS, 300))
    seen = csr_array((np.ones(400), ([u for u, *_ in RATINGS], [i for _, i, _ in RATINGS])), shape=(USERS, FILMS))
    items, predictions = model.recommend(users, films, 29, seen=seen)
    assert items.shape == predictions.shape == (USERS, 29)
    for u in range(USERS):
        unseen = [i for i in range(FILMS) if (u, i) not in {(a, b) for a, b, _ in RATINGS}]
        pairs = users[[u] * len(unseen)] + films[unseen]
        score = model.predict(pairs, output="raw")
        order = np.argsort(-score, kind="stable")[:29]
        assert items[u, : len(order)].tolist() == np.array(unseen)[order].tolist()
        np.testing.assert_array_equal(predictions[u, : len(order)], model.predict(pairs)[order])
        assert (items[u, len(order) :] == -1).all()
        assert np.isnan(predictions[u, len(order) :]).all()


def test_similar_features_are_of_the_same_column(run, tables):
    found = json.loads(run.ok("inspect", "--similar", "film=3", "--top", "50", "--json", "m").stdout)["similar"]
    assert {row["feature"] for row in found} == {f"film={i}" for i in range(FILMS) if i != 3}
    head, first = (
        line.split() for line in run.ok("inspect", "--similar", "genre=War", "m").stdout.decode().splitlines()
    )
    assert head == ["feature", "rows", "cosine", "adds"]
    assert first[0] == "genre=Drama"
    assert "named COLUMN=CELL, such as film=0" in run.fails(2, "inspect", "--similar", "3", "m").stderr


@pytest.mark.parametrize("option", ["--given", "--over"])
def test_inputs_without_rows_are_refused(run, tables, tmp_path, option):
    (tmp_path / "none.csv").write_text("user\n" if option == "--given" else "film\n")
    at = tables.index(option)
    done = run.fails(65, "recommend", *tables[: at + 1], "none.csv", *tables[at + 2 :])
    assert "none.csv: there are no rows" in done.stderr


def test_newcomers_are_folded_in(run, text, tmp_path):
    """Their recommendations equal the grown model's."""
    new = "".join(f"{1 + i % 5} {300 + i % 3}:1 {100 + i * 7 % FILMS}:1\n" for i in range(24))
    (tmp_path / "new").write_text(new)
    (tmp_path / "users").write_text("3:1\n300:1\n302:1\n")
    run.ok("train", "-q", "-i", "m", "--only-new", "-o", "grown", "new")
    done = run.ok("recommend", "--fold-in", "new", "--seen", "new", *text)
    assert "learned 3 new features from 24 rows of new, " in done.stderr
    grown = run.ok("recommend", "-q", "--seen", "new", "grown", *text[1:])
    assert done.stdout == grown.stdout != run.ok("recommend", "-q", "--seen", "new", *text).stdout
