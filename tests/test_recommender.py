"""FMRecommender gives the lists of its model, from matrices and from frames."""

import pickle

import duckdb
import numpy as np
import pytest
from scipy.sparse import csr_matrix

import fmcli
from fmcli.sklearn import FMRecommender

USERS, ITEMS, TASTES = 40, 32, 4
QUICK = {"rank": 4, "epochs": 8, "quick_search": False, "random_state": 0}


@pytest.fixture
def pairs(rng):
    """(users, items) counts, most of them of the user's taste, which is that of the item's number."""
    liked = rng.random((USERS, ITEMS)) + 0.8 * (np.arange(ITEMS) % TASTES == np.arange(USERS)[:, None] % TASTES)
    threshold = np.sort(liked, axis=1)[:, -9, None]
    return np.where(liked >= threshold, rng.integers(1, 4, liked.shape), 0)


@pytest.fixture
def fitted(pairs):
    return FMRecommender(**QUICK).fit(csr_matrix(pairs))


def test_users_get_the_items_with_the_largest_scores(pairs, fitted):
    ids, scores = fitted.recommend(n=ITEMS)
    rows = np.zeros((USERS * ITEMS, USERS + ITEMS))
    user, item = np.divmod(np.arange(USERS * ITEMS), ITEMS)
    rows[np.arange(len(rows)), user] = rows[np.arange(len(rows)), USERS + item] = 1
    every = fitted.model_.predict(rows).reshape(USERS, ITEMS)
    for one in range(USERS):
        unseen = np.flatnonzero(pairs[one] == 0)
        expected = unseen[np.argsort(-every[one, unseen], kind="stable")]
        assert ids[one, : len(unseen)].tolist() == expected.tolist()
        np.testing.assert_array_equal(scores[one, : len(unseen)], every[one, expected])
    assert (ids[:, ITEMS - 9 :] == -1).all()
    assert np.isnan(scores[:, ITEMS - 9 :]).all()
    liked, _ = fitted.recommend(n=ITEMS // TASTES, filter_seen=False)
    assert np.mean(liked % TASTES == np.arange(USERS)[:, None] % TASTES) > 0.7
    some, _ = fitted.recommend([5, 3], 2, items=[8, 1, 9, 2], filter_seen=False)
    chosen = np.array([8, 1, 9, 2])
    assert some.tolist() == chosen[np.argsort(-every[[5, 3]][:, chosen])[:, :2]].tolist()


def test_a_frame_has_texts_as_ids(pairs):
    user, item = np.nonzero(pairs)
    shuffled = np.random.default_rng(1).permutation(len(user))  # held-out pairs are the last ones
    values = ", ".join(f"({user[at]}, 'f{item[at]}', {pairs[user[at], item[at]]})" for at in shuffled)
    frame = duckdb.sql(f"SELECT * FROM (VALUES {values}) AS plays(who, film, n)")
    one = FMRecommender(**QUICK).fit(frame, user="who", item=["film"], count="n")
    options = {"seed" if name == "random_state" else name: value for name, value in QUICK.items()}
    model = fmcli.train(frame, implicit=True, user="who", item="film", count="n", **options)
    assert all(np.array_equal(one.model_.parameters[name], each) for name, each in model.parameters.items())
    ids, scores = one.recommend(n=3)
    place, expected = model.recommend(top=3)
    assert ids.tolist() == [[model.items[at] for at in row] for row in place]
    np.testing.assert_array_equal(scores, expected)
    few, _ = one.recommend([7, "3"], 3)  # ids in cells are texts
    at = one.users_.tolist()
    assert few.tolist() == [ids[at.index("7")].tolist(), ids[at.index("3")].tolist()]
    missing, _ = one.recommend(["7"], 2, items=["f0"], filter_seen=True)
    assert missing[0, 1] is None
    again = pickle.loads(pickle.dumps(one))
    assert again.recommend(n=3)[0].tolist() == ids.tolist()
    one.fit(frame, user="who", item=["film"], count="n", decay="time:n:1")
    model = fmcli.train(frame, implicit=True, user="who", item="film", count="n", decay="time:n:1", **options)
    np.testing.assert_array_equal(one.recommend(n=3)[1], model.recommend(top=3)[1])


def test_similar_items_and_users_have_factors_of_one_direction(fitted):
    factors = fitted.model_.parameters["V"][0].astype(np.float64)
    unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
    for found, own, first, count in (
        (fitted.similar_items(6, 5), 6, USERS, ITEMS),
        (fitted.similar_users(6, 5), 6, 0, USERS),
    ):
        cosine = unit[first : first + count] @ unit[first + own]
        expected = [at for at in np.argsort(-cosine) if at != own][:5]
        assert found[0].tolist() == expected
        np.testing.assert_allclose(found[1], cosine[expected], rtol=1e-5)
        assert np.mean(found[0] % TASTES == own % TASTES) > 0.7


def test_items_without_pairs_are_scored_by_their_features(pairs):
    known = np.where(np.arange(ITEMS) < ITEMS - TASTES, pairs, 0)
    genre, taste = np.eye(TASTES)[np.arange(ITEMS) % TASTES], np.eye(TASTES)[np.arange(USERS) % TASTES]
    one = FMRecommender(**QUICK).fit(csr_matrix(known), user_features=taste, item_features=csr_matrix(genre))
    ids, _ = one.recommend(n=1, items=range(ITEMS - TASTES, ITEMS))
    assert np.mean(ids[:, 0] % TASTES == np.arange(USERS) % TASTES) > 0.9
    rows, first = np.zeros((ITEMS, USERS + ITEMS + 2 * TASTES)), USERS + TASTES
    rows[:, first:] = np.hstack([np.eye(ITEMS), genre])
    factors = one.model_.factors(rows)
    unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
    found, cosine = one.similar_items(ITEMS - 1, 7)
    expected = (unit @ unit[-1])[:-1]
    assert found.tolist() == np.argsort(-expected, kind="stable")[:7].tolist()
    np.testing.assert_allclose(cosine, expected[found], rtol=1e-5)


def test_the_order_of_a_matrix_is_no_order_of_time(pairs):
    """Held-out pairs are random: if each user's last column were held out, no training pair would have it."""
    pairs[:, -1] = 1
    one = FMRecommender(**QUICK).fit(csr_matrix(pairs))
    assert one.history_[-1]["valid_ndcg@10"] > 0.25


def test_parameters_that_observed_pairs_lack_are_not_there():
    names = FMRecommender().get_params()
    assert {"rank", "unseen_weight", "l2_power", "loss", "negatives", "random_state"} <= names.keys()
    assert not {"class_weight", "ensemble", "scale", "user"} & names.keys()


def test_drawn_pairs_are_an_option(pairs):
    one = FMRecommender(loss="bpr", rank=8, epochs=40, negatives=9, random_state=0).fit(csr_matrix(pairs))
    liked, _ = one.recommend(n=ITEMS // TASTES, filter_seen=False)
    assert np.mean(liked % TASTES == np.arange(USERS)[:, None] % TASTES) > 0.7
    assert one.model_.loss == "bpr"


BAD = {
    "no user": (lambda one: one.recommend(["u1"]), "there is no user 'u1'"),
    "no item": (lambda one: one.similar_items(99), "there is no item '99'"),
    "columns": (lambda one: one.fit(np.eye(3), user="user"), "name columns"),
    "features": (
        lambda one: one.fit(np.eye(3), item_features=np.eye(4)),
        "item_features has 4 rows, but X has 3 items",
    ),
    "frame": (
        lambda one: one.fit(duckdb.sql("SELECT 'a' AS u, 'b' AS i"), user="u", item="i", user_features=np.eye(2)),
        "user and item name a table's features",
    ),
    "a count": (lambda one: one.fit(np.eye(3) / 2), "row 1 has the count 0.5"),
    "twice": (lambda one: one.set_params(warm_start=True).fit(np.eye(3)), "was trained with implicit"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused(fitted, case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call(fitted)


def test_labels_of_pairs_are_counts():
    options = {"implicit": True, "user": "0", "item": "1", "epochs": 1}
    rows, fields = np.array([[1, 0, 1], [0, 1, 1]]), [0, 0, 1]
    with pytest.raises(ValueError, match="are texts"):
        fmcli.train(fmcli.Data(rows, ["a", "b"], fields=fields), **options)
    with pytest.raises(ValueError, match="no further weights"):
        fmcli.train(fmcli.Data(rows, [1, 2], weight=[1, 2], fields=fields), **options)
    with pytest.raises(ValueError, match="have no fields"):
        fmcli.train(fmcli.Data(rows, [1, 2]), **options)
