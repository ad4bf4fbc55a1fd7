"""--implicit: learning from observed pairs of users and items."""

import json
import re
import time

import numpy as np
import pytest

import fmcli
from fmcli.model_file.container import ModelFile, load, save

USERS, ITEMS, TASTES = 40, 32, 4
SIDES = ("--implicit", "--user", "user", "--item", "film")
# A run of a moment.
SHORT = (*SIDES, "-k", "4", "-e", "8")


def plays(rng, users=range(USERS), each=9, taste=0.8):
    """Pairs of a user and an item, most of them of the user's taste, which is that of the item's number."""
    pairs = []
    for user in users:
        liked = rng.random(ITEMS) + (np.arange(ITEMS) % TASTES == user % TASTES) * taste
        pairs += [(user, int(item)) for item in np.argsort(-liked)[:each]]
    return [pairs[place] for place in rng.permutation(len(pairs))]


def table(path, pairs, header="user,film", form="u{},f{}"):
    path.write_text("".join([header + "\n", *(form.format(*one) + "\n" for one in pairs)]))
    return path


@pytest.fixture
def log(tmp_path, rng):
    return table(tmp_path / "plays.csv", plays(rng))


def arrays(run, model):
    out = model.with_suffix(".npz")
    run.ok("export", model, out)
    with np.load(out) as found:
        return {name: found[name] for name in found.files}


def test_held_out_items_without_other_pairs_are_misses(run, tmp_path, rng):
    """As `recommend` leaves them out. Every other user has played an item of its own last."""
    pairs = [*plays(rng), *((user, ITEMS + user) for user in range(USERS) if user % 2)]
    log = table(tmp_path / "log.csv", pairs)
    done = run.ok("train", *SHORT, "--no-refit", "-x", "recall@20", "-o", "m.fm", log)
    assert 0.25 < figures(done.stderr, "recall@20")[0] <= 0.5


def figures(text, name):
    """A metric of held-out pairs, and that of the most popular items."""
    found = re.search(rf"{name} ([\d.]+) \(the most popular items: ([\d.]+)\)", text)
    return float(found[1]), float(found[2])


def test_users_get_items_of_their_taste(run, log, tmp_path):
    done = run.ok("train", "--quick-search", *SIDES, "-k", "8", "-o", tmp_path / "m.fm", log)
    model, popular = figures(done.stderr, "recall@10")
    assert model > popular + 0.2
    assert f"{USERS * 9} different pairs of {USERS} users and {ITEMS} items" in done.stderr
    assert f"Predicts {USERS} held-out pairs with " in done.stderr  # the last pair of each
    for option in ("--unseen-weight", "--l2-v"):
        assert re.search(rf"^tried .*{option} [\d.]+", done.stderr, re.M)


def test_sha2_keeps_its_beta(run, log, tmp_path):
    """The log says so, unless the user has; negative ones are as good, also to learn new users with."""
    command = ("train", "--quick-search", *SIDES, "-m", "sha2", "-k", "8", "-o", tmp_path / "m.fm", log)
    done, line = run.ok(*command), "beta keeps its initial values, because all pairs count (--no-fit-beta)"
    assert line in done.stderr
    model, popular = figures(done.stderr, "recall@10")
    assert model > popular + 0.2
    assert arrays(run, tmp_path / "m.fm")["beta"].tolist() == [[1, -1] * 4]
    new = table(tmp_path / "new.csv", [(USERS, item) for item in (1, 5, 9, 13)])
    top = run.ok("recommend", "--fold-in", new, "--top", "4", "m.fm").stdout.decode()
    of_new = [int(item) % TASTES for item in re.findall(rf"^u{USERS}\tf(\d+)", top, re.M)]
    assert len(of_new) == 4
    assert of_new.count(1) >= 3
    assert line not in run.ok(*command[:-2], "n.fm", "--no-fit-beta", "--beta-start", "ones", "-e", "1", log).stderr
    assert arrays(run, tmp_path / "n.fm")["beta"].tolist() == [[1] * 8]


@pytest.fixture
def popular(tmp_path, rng):
    """A log of users without tastes: some items are more popular than others."""
    chance = 1 / (1 + np.arange(ITEMS)) / np.sum(1 / (1 + np.arange(ITEMS)))
    pairs = [(user, item) for user in range(150) for item in rng.choice(ITEMS, 6, replace=False, p=chance)]
    return table(tmp_path / "popular.csv", pairs)


def test_pairs_without_tastes_are_ranked_as_popular_items_are(run, popular, tmp_path):
    done = run.ok("train", "--quick-search", *SIDES, "-k", "8", "-o", tmp_path / "m.fm", popular)
    model, of_popular = figures(done.stderr, "ndcg@10")
    assert of_popular > 0.25
    assert model > of_popular - 2 * 0.4 / np.sqrt(150)  # two standard errors


def test_chosen_options_are_those_of_the_log(run, popular, tmp_path):
    """With them, a run without a search has the same model: a better penalty of factors leaves the other one."""
    command = ("train", *SIDES, "-k", "8", "--unseen-weight", "0.5", "-o", tmp_path / "m.fm", popular)
    done = run.ok(*command[:-3], "--quick-search", *command[-3:])
    *_, strength = re.findall(r"^tried --l2-v (\S+):.*using it", done.stderr, re.M)
    chosen = arrays(run, tmp_path / "m.fm")
    assert "l2_v" in load(str(tmp_path / "m.fm")).meta["given"]
    run.ok(*command[:-3], "--no-quick-search", "--l2-v", strength, *command[-3:])
    again = arrays(run, tmp_path / "m.fm")
    assert all(np.array_equal(again[name], chosen[name]) for name in chosen)


def test_a_model_that_is_no_better_than_popular_items_is_named(run, popular, tmp_path):
    done = run.ok(
        "train",
        *SHORT,
        "--no-linear",
        "--no-bias",
        "--l2",
        "1e-9",
        "--unseen-weight",
        "1e-6",
        "-q",
        "-o",
        tmp_path / "m.fm",
        popular,
    )
    assert re.search(r"ndcg@10 is .* the most popular items \([\d.]+\); try a stronger penalty", done.stderr)
    run.fails(
        3,
        "train",
        *SHORT,
        "--no-linear",
        "--no-bias",
        "--l2",
        "1e-9",
        "--unseen-weight",
        "1e-6",
        "--fail-worse-than-constant",
        "-o",
        tmp_path / "n.fm",
        popular,
    )
    assert not (tmp_path / "n.fm").exists()


def test_the_metrics_are_those_of_all_unseen_items(run, log, tmp_path):
    """By the predictions of all pairs."""
    model, events = tmp_path / "m.fm", tmp_path / "log.json"
    run.ok("train", *SHORT, "--no-refit", "-x", "recall@5", "-o", model, "--log-json", events, log)
    [*_, summary] = map(json.loads, events.read_text().splitlines())
    pairs = [line.split(",") for line in log.read_text().splitlines()[1:]]
    every = table(tmp_path / "all.csv", [(u, i) for u in range(USERS) for i in range(ITEMS)])
    scores = np.array(run.ok("predict", model, every).stdout.split(), dtype=float).reshape(USERS, ITEMS)
    hits, popular_hits = [], []
    counts = np.zeros(ITEMS)
    last = {user: place for place, (user, _) in enumerate(pairs)}
    for place, (user, film) in enumerate(pairs):
        counts[int(film[1:])] += place != last[user]
    for user, place in last.items():
        held = int(pairs[place][1][1:])
        seen = [int(film[1:]) for at, (one, film) in enumerate(pairs) if one == user and at != place]
        unseen = np.setdiff1d(np.arange(ITEMS), seen)
        for order, found in ((scores[int(user[1:])], hits), (counts, popular_hits)):
            above = np.sum(order[unseen] > order[held])
            ties = np.sum(order[unseen] == order[held])
            found.append(min(max(5 - above, 0), ties) / ties)
    assert summary["valid"]["recall@5"] == pytest.approx(np.mean(hits))
    assert summary["valid_constant"]["recall@5"] == pytest.approx(np.mean(popular_hits))
    assert 0.2 < np.mean(hits) < 1


def held_out(run, path, *options):
    """The metric of the held-out pairs, and that of popular items."""
    return figures(run.ok("train", *SHORT, "--no-refit", *options, "-o", "m.fm", path).stderr, "ndcg@10")


def test_the_latest_pairs_are_held_out(run, tmp_path, rng):
    pairs = [(*pair, 3 * at) for at, pair in enumerate(plays(rng))]
    ordered, mixed = (
        table(tmp_path / name, rows, "user,film,when", "u{},f{},{}")
        for name, rows in (("ordered.csv", pairs), ("mixed.csv", [pairs[at] for at in rng.permutation(len(pairs))]))
    )
    last = held_out(run, ordered)
    assert held_out(run, mixed) != last
    assert held_out(run, mixed, "--decay", "time:when:900000000000") == pytest.approx(last, abs=1e-3)
    some = held_out(run, ordered, "--holdout", "last:0.9")
    assert held_out(run, mixed, "--holdout", "time:when:0.9")[1] == pytest.approx(some[1], abs=0.1)
    python = {"implicit": True, "user": "user", "item": "film", "rank": 4, "epochs": 8, "quick_search": False}
    found, expected = (
        fmcli.train(str(mixed), holdout="time:when:0.9", refit=False, **python),
        fmcli.train(str(ordered), holdout="last:0.9", refit=False, **python),
    )
    assert sorted(found.users) == sorted(expected.users)


def test_pairs_in_the_order_of_items_are_not_in_the_order_of_time(run, tmp_path, rng):
    """In which the last one of each user would be one of the last items."""
    pairs = plays(rng)
    by_item = [*pairs, *((user, ITEMS) for user in range(USERS))]
    one = table(tmp_path / "sorted.csv", sorted(by_item))
    other = table(tmp_path / "mixed.csv", [*pairs, *((user, ITEMS) for user in range(USERS))])
    done = run.ok("train", *SHORT, "-o", "m.fm", one)
    assert "held-out pairs are random, not last" in done.stderr
    assert figures(done.stderr, "ndcg@10")[1] > 0.05
    done = run.ok("train", *SHORT, "-o", "m.fm", other)
    assert "held-out pairs are random" not in done.stderr
    nothing = "ndcg@10 is 0 on the validation data"  # the last item has no other pair
    assert nothing in done.stderr
    assert nothing in run.ok("train", *SHORT, "--no-refit", "--holdout", "last:0.99", "-o", "m.fm", one).stderr


@pytest.mark.parametrize("count", ["--count", "--weight-column"])
def test_repeated_pairs_add_up(run, log, tmp_path, rng, count):
    pairs = plays(rng)
    times = rng.integers(1, 5, len(pairs))
    counted = table(
        tmp_path / "counted.csv", [(*one, n) for one, n in zip(pairs, times, strict=True)], "user,film,n", "u{},f{},{}"
    )
    repeated = table(tmp_path / "repeated.csv", [one for one, n in zip(pairs, times, strict=True) for _ in range(n)])
    one, other = tmp_path / "one.fm", tmp_path / "other.fm"
    run.ok("train", *SHORT, count, "n", "-o", one, counted)
    run.ok("train", *SHORT, "-o", other, repeated)
    first, second = arrays(run, one), arrays(run, other)
    same = all(np.array_equal(first[name], second[name]) for name in first)
    assert same == (count == "--count")  # which takes the logarithm, as rows that are counted do


def test_text_with_fields_is_as_the_table(run, tmp_path, rng):
    pairs = plays(rng)
    log = table(tmp_path / "plays.csv", pairs, form="{},{}")
    text = tmp_path / "plays.ffm"
    text.write_text("".join(f"0:{u}:1 3:{1000 + i}:1\n" for u, i in pairs))
    one, other = tmp_path / "one.fm", tmp_path / "other.fm"
    first = run.ok("train", *SHORT, "-o", one, log).stderr
    second = run.ok("train", "--implicit", "--user", "0", "--item", "3", *SHORT[len(SIDES) :], "-o", other, text).stderr
    assert figures(first, "ndcg@10") == pytest.approx(figures(second, "ndcg@10"), abs=0.15)
    assert run.ok("predict", other, text).stdout.count(b"\n") == len(pairs)


@pytest.mark.parametrize("kind", ["linear", "fm", "shfm"])
def test_the_file_is_the_same_for_any_number_of_threads(run, log, tmp_path, kind):
    files = []
    for threads in ("1", "2"):
        model = tmp_path / f"{threads}.fm"
        size = () if kind == "linear" else ("-k", "4")
        run.ok("train", *SIDES, *size, "-e", "4", "-m", kind, "-j", threads, "-o", model, log)
        files.append(model.read_bytes())
    assert files[0] == files[1]


def test_new_users_and_items_are_scored_by_their_features(run, tmp_path, rng):
    """Which users and items have in tables that are joined."""
    users = table(tmp_path / "users.csv", [(u, u % TASTES) for u in range(USERS + 8)], "user,taste", "u{},t{}")
    films = table(tmp_path / "films.csv", [(i, i % TASTES) for i in range(ITEMS)], "film,genre", "f{},g{}")
    log = table(tmp_path / "plays.csv", [(u, i) for u, i in plays(rng) if i < ITEMS - 4])
    joins = ("--join", f"user={users}", "--join", f"film={films}")
    model = tmp_path / "m.fm"
    run.ok("train", *SHORT, *joins, "-o", model, log)
    new = table(tmp_path / "new.csv", [(USERS + u, i) for u in range(8) for i in range(ITEMS)])
    scores = np.array(run.ok("predict", *joins, model, new).stdout.split(), dtype=float).reshape(8, ITEMS)
    hidden = []
    for user, row in enumerate(scores):
        assert np.mean(np.argsort(-row)[: ITEMS // TASTES] % TASTES == user % TASTES) > 0.7
        hidden.append(np.argmax(row[ITEMS - 4 :]) == user % TASTES)
    assert np.mean(hidden) > 0.6  # of items that no training pair has


def recommended(text):
    """Pairs of a user and a film, in order."""
    return [tuple(line.split("\t")[:2]) for line in text.decode().splitlines()[1:]]


def test_all_users_get_the_best_items_that_they_have_not_played(run, log, tmp_path):
    model, top = tmp_path / "m.fm", 5
    run.ok("train", *SHORT, "-o", model, log)
    done = run.ok("recommend", "--top", str(top), model)
    pairs = [tuple(line.split(",")) for line in log.read_text().splitlines()[1:]]
    users = list(dict.fromkeys(user for user, _ in pairs))
    every = [(u, f"f{i}") for u in users for i in range(ITEMS)]
    table(tmp_path / "all.csv", every, form="{},{}")
    scores = dict(zip(every, map(float, run.ok("predict", model, tmp_path / "all.csv").stdout.split()), strict=True))
    played = set(pairs)
    expected = {
        user: sorted(
            (-score, film) for (one, film), score in scores.items() if one == user and (one, film) not in played
        )
        for user in users
    }
    found = recommended(done.stdout)
    assert [user for user, _ in found] == [user for user in users for _ in range(top)]
    for user, film in found:
        assert (-scores[user, film], film) in expected[user][:top]
    # Some users, and some items; other pairs that they have seen.
    some = table(tmp_path / "some.csv", [("u3",), ("u1",), ("u3",)], "user", "{}")
    few = run.ok("recommend", "--top", str(top), "--given", some, model)
    assert recommended(few.stdout) == [pair for user in ("u3", "u1") for pair in found if pair[0] == user]
    films = table(tmp_path / "films.csv", [(i,) for i in range(8)], "film", "f{}")
    best = recommended(run.ok("recommend", "--top", "1", "--given", some, "--over", films, model).stdout)
    assert best == [(user, next(f for _, f in expected[user] if int(f[1:]) < 8)) for user in ("u3", "u1")]
    again = recommended(
        run.ok("recommend", "--top", "32", "--given", some, "--over", films, "--seen", "all.csv", model).stdout
    )
    assert again == []


def test_items_of_which_the_model_knows_nothing_are_left_out(run, log, tmp_path):
    """Their scores would equal an average item's, above the scores of most items that training has seen."""
    run.ok("train", *SHORT, "-o", tmp_path / "m.fm", log)
    table(tmp_path / "user.csv", [(3,)], "user", "u{}")
    table(tmp_path / "films.csv", [(item,) for item in (0, 98, 1, 99, 2)], "film", "f{}")
    done = run.ok("recommend", "--given", "user.csv", "--over", "films.csv", "m.fm")
    assert "2 items of films.csv have no feature that the model knows, and are left out" in done.stderr
    films = [line.split(b"\t")[1] for line in done.stdout.splitlines()[1:]]
    assert films
    assert not {b"f98", b"f99"} & set(films)
    over = pytest.importorskip("pandas").DataFrame({"film": ["f98", "f0", "f1", "f2"]})
    with pytest.warns(UserWarning, match="1 item of over has no feature"):
        items, _ = fmcli.load(tmp_path / "m.fm").recommend(None, over, top=4)
    assert not (items == 0).any()
    assert (items >= 0).any(axis=1).all()


@pytest.mark.parametrize("word", ["NULL", "n/a", "NaN"])
def test_ids_that_usually_mark_missing_ones_are_told(run, log, word):
    log.write_text(f"{log.read_text()}{word},f1\n{word},f2\nu1,{word}\n")
    told = f"the user '{word}' has 2 pairs and the film '{word}' has 1 pair: if these ids are missing, leave their rows"
    assert f"warning: {told}" in run.ok("train", *SHORT, "-o", "m.fm", log).stderr
    with pytest.warns(UserWarning, match=told):
        fmcli.train(log, implicit=True, user="user", item="film", epochs=1)


def test_python_recommends_what_the_command_does(run, log, tmp_path):
    run.ok("train", *SHORT, "-o", tmp_path / "m.fm", log)
    expected = recommended(run.ok("recommend", "--top", "3", "m.fm").stdout)
    model = fmcli.load(tmp_path / "m.fm")
    found, _ = model.recommend(top=3)
    users, items = model.users, model.items
    assert [(user, items[item]) for user, row in zip(users, found, strict=True) for item in row] == expected
    few, _ = model.recommend([{f"user={user}": 1} for user in users[:2]], top=3)
    assert few.tolist() == found[:2].tolist()
    other, _ = model.recommend(top=3, seen=np.zeros((USERS, ITEMS)))
    assert other.tolist() != found.tolist()
    table(tmp_path / "rows.csv", [(u, i, i % 2) for u in range(9) for i in range(9)], "user,film,y", "u{},f{},{}")
    plain = fmcli.train(
        str(tmp_path / "rows.csv"), label="y", categorical=["user", "film"], epochs=1, quick_search=False
    )
    with pytest.raises(ValueError, match="does not know its items"):
        plain.recommend()


@pytest.mark.filterwarnings("ignore:all rows of given get the same list")  # by linear
@pytest.mark.parametrize("kind", ["linear", "fm", "shfm", "sha2", "bilinear"])
def test_inner_products_of_vectors_order_items_as_recommend_does(run, log, tmp_path, kind):
    size = () if kind == "linear" else ("-k", "4")
    run.ok("train", *SIDES, *size, "-e", "8", "-m", kind, "-o", "m.fm", log)
    done = run.ok("export", "m.fm", "--vectors", "items.npy", "users.npy")
    items, users = np.load(tmp_path / "items.npy"), np.load(tmp_path / "users.npy")
    assert items.shape[1] == (1 if kind == "linear" else 5)
    assert f"items: {ITEMS} x {items.shape[1]}\nwrote items.npy\nusers: {USERS} x {users.shape[1]}" in done.stderr
    model = fmcli.load(tmp_path / "m.fm")
    np.testing.assert_array_equal(model.vectors()[0], items)
    np.testing.assert_array_equal(model.vectors()[1], users)
    assert (len(items), len(users)) == (len(model.items), len(model.users)) == (ITEMS, USERS)
    rows = [{f"user={user}": 1, f"film={item}": 1} for user in model.users for item in model.items]
    beyond = model.predict(rows).reshape(USERS, ITEMS) - users @ items.T
    assert np.ptp(beyond, axis=1).max() < 1e-5
    assert np.ptp(beyond) > 1e-3  # a constant per user is left out
    found, _ = model.recommend(top=5, seen=np.zeros((USERS, ITEMS)))
    score = np.take_along_axis(users @ items.T, found, axis=1)
    assert (np.diff(score, axis=1) < 1e-5).all()
    assert (np.sort(users @ items.T, axis=1)[:, ::-1][:, :5] - score < 1e-5).all()


def test_vectors_need_two_files_and_a_model_of_pairs(run, log, tmp_path):
    run.ok("train", *SHORT, "-o", "m.fm", log)
    to = ("--vectors", "items.npy", "users.npy")
    assert "two files, and no out.npz" in run.fails(2, "export", "m.fm", "out.npz", *to).stderr
    assert ".npy files" in run.fails(2, "export", "m.fm", "--vectors", "items.npy", "users.npz").stderr
    assert "the same file" in run.fails(2, "export", "m.fm", "--vectors", "a.npy", "a.npy").stderr
    assert "missing argument 'OUT'" in run.fails(2, "export", "m.fm").stderr
    assert "--qubo" in run.fails(2, "export", "--qubo", "m.fm", *to).stderr
    (tmp_path / "rows.libsvm").write_text("1 1:1 2:1\n0 3:1 4:1\n")
    run.ok("train", "-e", "1", "-o", "n.fm", "rows.libsvm")
    assert "n.fm does not know its users and items" in run.fails(2, "export", "n.fm", *to).stderr
    assert not (tmp_path / "items.npy").exists()


def test_contexts_are_named_by_their_columns(run, tmp_path, rng):
    films = table(tmp_path / "films.csv", [(i, i % TASTES) for i in range(ITEMS)], "film,genre", "f{},g{}")
    pairs = [(u, u % 2, i) for u, i in plays(rng)]
    log = table(tmp_path / "plays.csv", pairs, "user,device,film", "u{},d{},f{}")
    model, sides = tmp_path / "m.fm", ("--implicit", "--user", "user,device", "--item", "film")
    run.ok("train", *sides, "-k", "4", "-e", "4", "--join", f"film={films}", "-o", model, log)
    done = run.ok("recommend", "--top", "1", "--json", model).stdout.decode()
    found = [json.loads(line) for line in done.splitlines()]
    assert {one["user,device"] for one in found} == {f"u{u},d{u % 2}" for u in range(USERS)}
    assert all(re.fullmatch(r"f\d+", one["items"][0]["film"]) for one in found)


def test_text_is_recommended_by_its_first_features(run, tmp_path, rng):
    text = tmp_path / "plays.ffm"
    text.write_text("".join(f"0:{u}:1 1:{100 + i}:1\n" for u, i in plays(rng)))
    run.ok("train", "--implicit", "--user", "0", "--item", "1", "-k", "4", "-e", "4", "-o", "m.fm", text)
    found = recommended(run.ok("recommend", "--top", "2", "m.fm").stdout)
    assert {user for user, _ in found} == {str(u) for u in range(USERS)}
    assert all(int(film) >= 100 for _, film in found)


def test_rankings_of_later_pairs_leave_out_those_of_training(run, log, tmp_path, rng):
    model = tmp_path / "m.fm"
    run.ok("train", *SHORT, "-o", model, log)
    films = table(tmp_path / "films.csv", [(i,) for i in range(ITEMS)], "film", "f{}")
    played = {tuple(line.split(",")) for line in log.read_text().splitlines()[1:]}
    later = [(u, i) for u, i in plays(rng) if (f"u{u}", f"f{i}") not in played]
    new = table(tmp_path / "later.csv", later)
    names = [part for name in ("recall@10", "coverage@3", "novelty@3", "popularity@3") for part in ("-x", name)]
    of_model = run.ok("evaluate", "--json", *names, "--over", films, model, new).stdout
    of_log = run.ok("evaluate", "--json", *names, "--over", films, "--seen", log, model, new).stdout
    assert json.loads(of_model)["metrics"] == json.loads(of_log)["metrics"]
    assert json.loads(of_model)["metrics"]["recall@10"] > 0.3
    assert json.loads(of_model)["pairs_seen"] == len(played)
    unknown = table(tmp_path / "unknown.csv", [(1, 90), (2, 91)])
    table(tmp_path / "others.csv", [(90,), (91,)], "film", "f{}")
    assert "warning" not in run.ok("evaluate", "--over", "others.csv", model, unknown).stderr


def test_items_of_which_the_model_knows_nothing_rank_last(run, log, tmp_path, rng):
    """As `recommend` leaves them out, no user gets them; a user who wants one is a miss."""
    run.ok("train", *SHORT, "-o", "m.fm", log)
    played = {tuple(line.split(",")) for line in log.read_text().splitlines()[1:]}
    later = [(u, i) for u, i in plays(rng) if (f"u{u}", f"f{i}") not in played]
    table(tmp_path / "films.csv", [(i,) for i in range(ITEMS)], "film", "f{}")
    table(tmp_path / "more.csv", [(i,) for i in range(ITEMS + 20)], "film", "f{}")
    table(tmp_path / "later.csv", later)
    table(tmp_path / "new.csv", [(u, ITEMS + u) for u in range(20)])

    def figures_of(over, rows):
        done = run.ok("evaluate", "--json", "-x", "recall@5", "-x", "mrr", "--over", over, "m.fm", rows)
        return json.loads(done.stdout)["metrics"], done.stderr

    known, of_known = figures_of("films.csv", "later.csv")
    assert figures_of("more.csv", "later.csv")[0] == known
    assert known["recall@5"] > 0.2
    misses, of_new = figures_of("more.csv", "new.csv")
    assert misses["recall@5"] == 0
    assert 1 / (ITEMS + 20) < misses["mrr"] < 1 / (ITEMS - 9)
    assert "20 items without a feature that the model knows, ranked last" in of_new
    assert "ranked last" not in of_known


def test_models_of_other_rows_know_no_users(run, log, tmp_path):
    rows = table(
        tmp_path / "rows.csv", [(u, i, 1 + i % 2) for u in range(9) for i in range(9)], "user,film,stars", "u{},f{},{}"
    )
    run.ok("train", "--label", "stars", "--categorical", "user,film", "-o", "m.fm", rows)
    assert "m.fm does not know its items" in run.fails(2, "recommend", "m.fm").stderr


def test_models_of_pairs_refuse_further_rows(run, log, tmp_path):
    """Which would train another objective, and lose the users, the items and their pairs."""
    run.ok("train", *SHORT, "-o", "m.fm", log)
    new = table(tmp_path / "new.csv", [(u, 3, 1) for u in range(50, 60)], "user,film,plays", "u{},f{},{}")
    refused = "m.fm was trained with --implicit, and every pair without a row counts, too"
    for implicit in ((), SIDES):
        assert refused in run.fails(2, "train", "-i", "m.fm", *implicit, "-o", "grown.fm", new).stderr
    run.ok("train", *BPR, "-o", "bpr.fm", log)
    refused = "loss bpr compares rows"
    assert refused in run.fails(2, "train", "-i", "bpr.fm", "--only-new", "-o", "grown.fm", new).stderr
    assert refused in run.fails(2, "predict", "--fold-in", new, "bpr.fm", new).stderr
    assert not (tmp_path / "grown.fm").exists()
    with pytest.raises(fmcli.errors.UsageError, match="was trained with implicit"):
        fmcli.train(str(new), init_model=str(tmp_path / "m.fm"))


@pytest.mark.parametrize(("kind", "joins"), [("fm", False), ("fm", True), ("bilinear", True)])
def test_new_users_get_items_of_their_taste(run, tmp_path, rng, kind, joins):
    """By the grown model as by --fold-in; with counts, and with features in tables that are joined."""
    people = range(USERS + 12)
    pairs = plays(rng, people)
    last = {user: place for place, (user, _) in enumerate(pairs)}
    rows = [(*pair, place % 3 + 1) for place, pair in enumerate(pairs)]
    header = "user,film,n", "u{},f{},{}"
    table(tmp_path / "log.csv", [row for row in rows if row[0] < USERS], *header)
    table(tmp_path / "new.csv", [row for at, row in enumerate(rows) if row[0] >= USERS and at != last[row[0]]], *header)
    table(tmp_path / "held.csv", [pairs[last[user]] for user in people if user >= USERS])
    films = table(tmp_path / "films.csv", [(i, i % 3) for i in range(ITEMS)], "film,hue", "f{},h{}")
    table(tmp_path / "users.csv", [(u, u % 5) for u in people], "user,town", "u{},t{}")
    join = ("--join", "user=users.csv", "--join", f"film={films}") if joins else ()
    run.ok("train", *SHORT, "-m", kind, "--count", "n", *join, "--l2-power", "0", "-o", "m.fm", "log.csv")
    new = ("train", "-i", "m.fm", "--only-new", *join)
    assert "cannot be combined" in run.fails(2, *new, "--fail-worse-than-constant", "new.csv").stderr
    done = run.ok(*new, "-o", "grown.fm", "new.csv")
    assert "learning 12 new features from" in done.stderr
    assert "held-out" not in done.stderr
    grown = run.ok("recommend", "--top", "5", "grown.fm").stdout
    folded = run.ok("recommend", "--top", "5", *join, "--fold-in", "new.csv", "m.fm")
    assert "learned 12 new features from" in folded.stderr
    assert f"from {ITEMS} items" in folded.stderr
    assert folded.stdout == grown
    assert {user for user, _ in recommended(grown)} == {f"u{user}" for user in people}
    measured = run.ok("evaluate", "--json", "-x", "recall@5", *join, "--over", films, "grown.fm", "held.csv")
    assert json.loads(measured.stdout)["metrics"]["recall@5"] > 0.5
    known = table(tmp_path / "known.csv", [(u, i) for u in range(9) for i in range(9)])
    before, after = (run.ok("predict", *join, model, known).stdout for model in ("m.fm", "grown.fm"))
    assert before == after


DAMAGE = {
    "an item that does not exist": ("observed.seen", lambda array: array + 1000),
    "items of a user twice": ("observed.seen", np.zeros_like),
    "pairs that begin later": ("observed.begins", lambda array: array + 1),
    "a user too many": ("observed.users.begins", lambda array: np.append(array, array[-1])),
    "a weight below 0": ("observed.terms", np.negative),
    "half of the weights": ("observed.terms", lambda array: array[:1]),
    "a field below 0": ("observed.users.fields", lambda array: array - 9),
    "a feature that does not exist": ("observed.items.index", lambda array: array + 10_000),
    "another type": ("observed.seen", lambda array: array.astype(np.int64)),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_pairs_of_a_file_are_found(run, log, tmp_path, case):
    path = tmp_path / "m.fm"
    run.ok("train", *SHORT, "-o", path, log)
    file = load(str(path))
    name, change = DAMAGE[case]
    save(str(path), ModelFile(file.meta, {**file.tensors, name: change(file.tensors[name])}))
    assert "is not a valid model" in run.fails(65, "recommend", path).stderr


def test_python_gives_the_bits_of_the_command(run, log, tmp_path):
    model = tmp_path / "m.fm"
    run.ok("train", *SHORT, "-o", model, log)
    options = {"implicit": True, "user": "user", "item": "film", "rank": 4, "epochs": 8, "quick_search": False}
    found = fmcli.train(str(log), **options)
    expected = fmcli.load(model)
    assert all(np.array_equal(found.parameters[name], expected.parameters[name]) for name in expected.parameters)
    with pytest.raises(fmcli.errors.UsageError, match="user"):
        fmcli.train(str(log), implicit=True, item="film")
    with pytest.raises(fmcli.errors.UsageError, match="frame, or files"):
        fmcli.train((np.ones((3, 2)), np.ones(3)), **options)


BPR = (*SIDES, "--loss", "bpr", "-k", "4", "-e", "6")


@pytest.mark.parametrize("solver", ["adagrad", "ftrl"])
@pytest.mark.parametrize("draws", [(), ("--negatives", "9", "--negatives-by", "popularity")])
def test_drawn_pairs_teach_tastes(run, log, solver, draws):
    done = run.ok("train", *SIDES, "--loss", "bpr", "-k", "8", "-e", "60", "-s", solver, *draws, "-o", "m.fm", log)
    model, popular = figures(done.stderr, "recall@10")
    assert model > popular + 0.1
    assert run.ok("recommend", "--top", "3", "m.fm").stdout.count(b"\n") == 1 + 3 * USERS


def test_draws_differ_by_epoch_and_not_by_threads(run, log, tmp_path):
    files = []
    for threads in ("1", "2"):
        run.ok("train", *BPR, "--negatives", "2", "-j", threads, "-o", "m.fm", log)
        files.append((tmp_path / "m.fm").read_bytes())
    assert files[0] == files[1]
    losses = []
    for seed in ("0", "1"):
        run.ok("train", *BPR, "--learning-rate", "1e-12", "--holdout", "0", "--log-json", "log", "--seed", seed, log)
        events = map(json.loads, (tmp_path / "log").read_text().splitlines())
        losses.append([one["loss"] for one in events if one["event"] == "epoch"])
    assert len({*losses[0], *losses[1]}) == 12  # parameters that hardly move have another loss on each draw


LONG = ("-k", "4", "-e", "300", "--patience", "300")
INTERRUPTED = {
    "drawn pairs": (*SIDES, "--loss", "bpr", "--negatives", "3", *LONG, "plays.csv"),
    "all pairs": (*SIDES, *LONG, "plays.csv"),
    "new users": ("-i", "known.fm", "--only-new", "-e", "2000", "--tol", "1e-15", "new.csv"),
}


@pytest.mark.parametrize("case", INTERRUPTED)
def test_an_interrupted_run_continues(run, start, log, tmp_path, rng, case):
    run.ok("train", *SHORT, "-o", "known.fm", log)
    table(tmp_path / "new.csv", plays(rng, range(USERS, 4 * USERS)))
    command = ("train", "--no-quick-search", *INTERRUPTED[case])
    run.ok(*command, "-o", "whole.fm")
    process = start(*command, "--checkpoint", "c", "--checkpoint-every", "1e-9", "-o", "m.fm")
    for _ in range(2000):
        if (tmp_path / "c").exists():
            break
        time.sleep(0.01)
    process.kill()
    process.communicate()
    done = run.ok(*command, "--checkpoint", "c", "--resume", "-o", "m.fm")
    assert "continuing with " in done.stderr
    assert (tmp_path / "m.fm").read_bytes() == (tmp_path / "whole.fm").read_bytes()


REFUSED = {
    "all pairs": ([*SIDES, "--loss", "bpr", "--unseen-weight", "1"], "drawn pairs stand for all others"),
    "metric": ([*SIDES, "--holdout", "0", "-x", "recall@10"], "figures come from held-out pairs"),
    "negatives": ([*SIDES, "--negatives", "3"], "--negatives needs --implicit with --loss bpr"),
    "solver of pairs": ([*SIDES, "--loss", "bpr", "-s", "cd"], "loss bpr compares pairs of rows"),
    "kind of pairs": ([*SIDES, "--loss", "bpr", "-m", "ffm"], "models linear, "),
    "disk": ([*SIDES, "--loss", "bpr", "--disk"], "users and items in memory"),
    "checkpoint": (["--quick-search", *SIDES, "--checkpoint", "c"], "held-out pairs choose (use --no-quick-search)"),
    "--user": (["--implicit", "--item", "film"], "--implicit needs the columns of users and of items"),
    "no column": ([*SIDES[:-1], "fim"], "no column 'fim'"),
    "both": (["--implicit", "--user", "user", "--item", "user"], "have a column in common"),
    "label": ([*SIDES, "--label", "user"], "observed pairs have no labels"),
    "loss": ([*SIDES, "--loss", "squared"], "observed pairs have no labels"),
    "without --implicit": (["--user", "user"], "--implicit"),
    "solver": ([*SIDES, "-s", "adagrad"], "needs -s cd"),
    "kind": ([*SIDES, "-m", "ffm"], "models linear, fm, shfm, sha2, bilinear"),
    "beta": ([*SIDES, "-m", "sha2", "--fit-beta"], "only if beta keeps its initial values; leave out --fit-beta"),
    "groups of bilinear": ([*SIDES, "-m", "bilinear", "--split-index", "9"], "the two groups are users and items"),
    "groups": ([*SIDES, "--holdout", "group:n:0.5"], "pairs are held out by user"),
    "group penalty": ([*SIDES, "--group-l1", "1"], "all pairs have no such step"),
    "neither": ([*SIDES, "--numeric", "n"], "'n' is neither of --user nor of --item"),
    "weights": ([*SIDES, "--count", "n", "--weight-column", "n"], "both give pairs a weight"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_observed_pairs_need_is_checked(run, tmp_path, case):
    options, message = REFUSED[case]
    table(tmp_path / "plays.csv", [(1, 2, 3), (2, 3, 4)], "user,film,n", "u{},f{},{}")
    assert message in run.fails(65 if case == "no column" else 2, "train", *options, "plays.csv").stderr


BAD = {
    "count": ("user,film,n\nu1,f1,2\nu1,f2,0.5\n", ["--count", "n"], "row 2 has the count 0.5; leave out rows whose"),
    "weight": ("user,film,n\nu1,f1,2\nu1,f2,-1\n", ["--weight-column", "n"], "row 2 has the weight -1; leave out"),
    "zero": ("user,film,n\nu1,f1,2\nu1,f2,0\n", ["--weight-column", "n"], "row 2 has the weight 0; leave out"),
    "none": ("user,film,n\nu1,f1,2\nu1,f2,\n", ["--count", "n"], "row 2 has no count; leave out"),
    "user": ("user,film\nu1,f1\n,f2\n", [], "row 2 has no user"),
    "item": ("user,film\nu1,f1\nu2,\n", [], "row 2 has no item"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_pairs_are_named(run, tmp_path, case):
    text, options, message = BAD[case]
    (tmp_path / "bad.csv").write_text(text)
    assert message in run.fails(65, "train", *SIDES, *options, "bad.csv").stderr


def test_text_without_fields_has_no_sides(run, tmp_path):
    (tmp_path / "rows.libsvm").write_text("1:1 2:1\n3:1 4:1\n")
    done = run.fails(65, "train", "--implicit", "--user", "0", "--item", "1", "rows.libsvm")
    assert "have no fields" in done.stderr
    (tmp_path / "empty.ffm").touch()
    done = run.fails(65, "train", "--implicit", "--user", "0", "--item", "1", "empty.ffm")
    assert "empty.ffm: there are no rows to train on" in done.stderr
    (tmp_path / "rows.ffm").write_text("0:1:1 1:1:1\n0:3:1 1:4:1\n")
    done = run.fails(65, "train", "--implicit", "--user", "0", "--item", "1", "rows.ffm")
    assert "of users and one of items" in done.stderr
