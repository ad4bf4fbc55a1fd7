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


def numbered(tmp_path, form):
    """Tables of users, films and the pairs of the first user, whose ids are whole numbers in a form, such as 3.0."""
    table(tmp_path / "given.csv", [("user",), ("1",)])
    table(tmp_path / "over.csv", [("film",), *((film,) for film in range(ITEMS))])
    table(tmp_path / "had.csv", [("user", "film"), *((form.format(1), form.format(film)) for film in range(3))])
    return ["--given", "given.csv", "--over", "over.csv", "--seen", "had.csv", "m.fm"]


@pytest.mark.parametrize("form", ["{}", "{}.0", "{}.00"])
def test_seen_ids_are_spelled_as_in_any_other_table(run, tmp_path, form):
    """A column of whole numbers with an empty cell has become 1.0, 2.0."""
    pairs = [(user, (user + 3 * n) % ITEMS) for n in range(4) for user in range(USERS)]
    table(tmp_path / "plays.csv", [("user", "film"), *pairs])
    run.ok("train", *SIDES, "-o", "m.fm", "plays.csv")
    done = run.ok("recommend", *numbered(tmp_path, form))
    assert {film for _, film in pairs_of(done)} == {str(film) for film in range(3, ITEMS)}
    assert "leaves out nothing" not in done.stderr


def test_seen_rows_without_a_pair_are_a_warning(run, seen, tmp_path):
    run.ok("train", *SIDES, "-o", "m.fm", "plays.csv")
    table(tmp_path / "had.csv", [("user", "film"), ("U1", "F1")])
    table(tmp_path / "users.csv", [("user",), ("u1",)])
    told = "had.csv: no row is a pair of ids of users.csv and films.csv, so it leaves out nothing"
    assert (
        told in run.ok("recommend", "--given", "users.csv", "--over", "films.csv", "--seen", "had.csv", "m.fm").stderr
    )
    pandas = pytest.importorskip("pandas")
    frames = [pandas.read_csv(tmp_path / name) for name in ("users.csv", "films.csv", "had.csv")]
    with pytest.warns(UserWarning, match="no row is a pair of ids of given and over, so it leaves out nothing"):
        fmcli.load(tmp_path / "m.fm").recommend(*frames[:2], seen=frames[2])


def test_python_names_users_as_the_table_does(run, tmp_path):
    """Without the escapes of text of features."""
    users = ["a b", "50%", "c:d", "a%20b"]
    table(tmp_path / "plays.csv", [("user", "film"), *((user, f"f{n}") for n in range(3) for user in users)])
    run.ok("train", *SIDES, "-o", "m.fm", "plays.csv")
    assert sorted(fmcli.load(tmp_path / "m.fm").users) == sorted(users)


def test_scores_of_pairs_are_not_compared_with_counts(run, seen, tmp_path):
    table(tmp_path / "counted.csv", [("user", "film", "n"), *((*pair, 2) for pair in sorted(seen))])
    run.ok("train", *SIDES, "--count", "n", "-o", "m.fm", "counted.csv")
    told = "m.fm ranks items for users, and has no labels to compare with"
    for arguments in (("evaluate", "m.fm"), ("inspect", "m.fm", "--permute", "--importance")):
        assert told in run.fails(2, *arguments, "counted.csv").stderr
    with pytest.raises(ValueError, match="ranks items for users"):
        fmcli.load(tmp_path / "m.fm").evaluate(str(tmp_path / "counted.csv"))


def test_more_items_than_memory_are_no_bug(run, seen, tmp_path):
    run.ok("train", *SIDES, "-o", "m.fm", "plays.csv")
    every = run.ok("recommend", "--top", str(10**20), "m.fm")
    assert len(pairs_of(every)) == USERS * ITEMS - len(seen)
    with pytest.raises(MemoryError, match="of memory"):
        fmcli.load(tmp_path / "m.fm").recommend(top=10**20)
