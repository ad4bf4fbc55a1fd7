"""Pairs of training that recommendations leave out, though users and items have other features today."""

import warnings

import pytest

import fmcli

USERS, ITEMS = 12, 10
SIDES = ("--implicit", "--user", "user", "--item", "film", "-k", "2", "-e", "2")


def table(path, rows):
    path.write_text("".join(f"{','.join(map(str, row))}\n" for row in rows))
    return path


def ages(path, shift):
    return table(path, [("user", "age"), *((f"u{user}", f"a{(user + shift) % 3}") for user in range(USERS))])


@pytest.fixture
def seen(tmp_path):
    pairs = [(f"u{user}", f"f{(user + 3 * n) % ITEMS}") for n in range(4) for user in range(USERS)]
    table(tmp_path / "plays.csv", [("user", "film"), *pairs])
    table(tmp_path / "films.csv", [("film",), *((f"f{film}",) for film in range(ITEMS))])
    return set(pairs)


@pytest.fixture
def aged(run, seen, tmp_path):
    run.ok("train", *SIDES, "--join", f"user={ages(tmp_path / 'ages.csv', 0)}", "-o", "m.fm", "plays.csv")
    return tmp_path / "m.fm"


def pairs_of(done):
    return {tuple(line.split("\t")[:2]) for line in done.stdout.decode().splitlines()[1:]}


def test_users_whose_joined_features_have_changed_have_seen_what_they_had(run, seen, aged, tmp_path):
    older = ages(tmp_path / "older.csv", 1)
    found = pairs_of(run.ok("recommend", "--given", older, aged))
    assert len(found) == USERS * ITEMS - len(seen)
    assert not found & seen
    later = table(tmp_path / "later.csv", [("user", "film"), *((f"u{n}", f"f{n}") for n in range(4))])
    asked = ("--over", "films.csv", "-x", "popularity@3", "-x", "recall@3", "--join")
    done = [run.ok("evaluate", *asked, f"user={users}", aged, later) for users in ("ages.csv", "older.csv")]
    assert ["without 12 seen pairs" in one.stderr for one in done] == [
        True,
        True,
    ]  # 4 of each user, but the labeled one


def test_a_column_that_only_known_users_would_have_is_a_warning(run, seen, aged, tmp_path):
    table(tmp_path / "users.csv", [("user",), ("u1",), ("u2",)])
    done = run.ok("recommend", "--given", "users.csv", aged)
    assert "both tables lack the column 'age' of the model: scoring as if it were empty" in done.stderr
    assert not pairs_of(done) & seen
    frame = pytest.importorskip("pandas").DataFrame({"user": ["u1", "u2"]})
    with pytest.warns(UserWarning, match="both tables lack the column 'age'"):
        fmcli.load(aged).recommend(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fmcli.load(aged).recommend(frame.assign(age=["a1", "a2"]))


def test_users_for_an_item_are_those_who_have_not_seen_it(run, seen, tmp_path):
    run.ok("train", *SIDES, "-o", "m.fm", "plays.csv")
    table(tmp_path / "users.csv", [("user",), *((f"u{user}",) for user in range(USERS))])
    found = pairs_of(run.ok("recommend", "--given", "films.csv", "--over", "users.csv", "--top", str(USERS), "m.fm"))
    assert found == {(f"f{film}", f"u{user}") for film in range(ITEMS) for user in range(USERS)} - {
        (film, user) for user, film in seen
    }


def test_all_rows_of_an_item_that_a_user_has_seen_are_left_out(run, seen, tmp_path):
    run.ok("train", *SIDES, "-o", "m.fm", "plays.csv")
    table(tmp_path / "copies.csv", [("copy", "film"), ("c1", "f1"), ("c2", "f1"), ("c3", "f2")])
    found = pairs_of(run.ok("recommend", "--over", "copies.csv", "--id-column", "user,copy", "m.fm"))
    film_of = {"c1": "f1", "c2": "f1", "c3": "f2"}
    assert found == {
        (f"u{user}", copy) for user in range(USERS) for copy, film in film_of.items() if (f"u{user}", film) not in seen
    }
