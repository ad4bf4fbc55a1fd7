"""Losses of the order of rows choose the epoch by rankings of all items, where groups are users with ids."""

import json
import re
import warnings

import numpy as np
import pytest

import fmcli
from fmcli.data.dataset import Dataset
from fmcli.data.labels import fit_labels
from fmcli.data.shards.paired_rows import PairedRows
from fmcli.registry.specs import make_spec
from fmcli.training.setup.item_ranking import features_of_users, item_ranking, without_users
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import HoldOut

USERS, ITEMS = 40, 30
SPEC = make_spec("fm", loss="bpr")


def pairs(rng, per_user=16, user_ids=True):
    """Return rows of users, with a group of 4 users as a further feature, and items; each group likes other items."""
    user = np.repeat(np.arange(USERS), per_user)
    item = np.concatenate([rng.permutation(ITEMS)[:per_user] for _ in range(USERS)])
    label = (item % 4 == user % 4).astype(float)
    columns = np.stack([user if user_ids else user // 8, USERS + item, USERS + ITEMS + user % 4], axis=1)
    indptr = np.arange(len(user) + 1, dtype=np.int64) * 3
    index = columns.astype(np.int32).ravel()
    return Dataset(indptr, index, None, label, USERS + ITEMS + 4, group=user.astype(np.int32))


def test_features_of_all_rows_of_groups_are_those_of_users(rng):
    of_users = features_of_users(pairs(rng))
    assert of_users.tolist() == [True] * USERS + [False] * ITEMS + [True] * 4
    assert features_of_users(pairs(rng, user_ids=False)) is None


def test_held_out_rows_are_relevant_and_ranked_with_all_other_items(rng):
    data = pairs(rng)
    labels = fit_labels(data.label, "bpr")
    rows = RowsInMemory.of(data).hold_out(SPEC, labels, HoldOut(0.3))
    assert (data.label[rows.held] == 1).all()
    assert len(rows.held) == round(0.3 * data.label.sum())
    left = np.bincount(data.group[rows.rows], data.label[rows.rows], USERS)
    assert (left[np.bincount(data.group, data.label, USERS) > 0] > 0).all()
    found = rows.ranking.validation(data, rows.rows, labels)
    for user in np.unique(data.group[rows.held]):
        mine = found.take(np.flatnonzero(found.group == user).astype(np.int32))
        item = mine.index.reshape(-1, 3)[:, 1] - USERS
        held = data.take(rows.held[data.group[rows.held] == user]).index.reshape(-1, 3)[:, 1] - USERS
        kept = data.take(rows.rows[(data.group[rows.rows] == user) & (data.label[rows.rows] == 1)])
        assert set(item) == set(range(ITEMS)) - set(kept.index.reshape(-1, 3)[:, 1] - USERS)
        assert set(item[mine.label == 1]) == set(held)
        assert len(set(item)) == len(item)
        assert (mine.index.reshape(-1, 3)[:, 0] == user).all()


@pytest.mark.parametrize("hold_out", [HoldOut(0.3, last=True), HoldOut(0.3, grouped=True)])
def test_groups_that_are_asked_for_are_held_out_whole(rng, hold_out):
    data = pairs(rng)
    rows = RowsInMemory.of(data).hold_out(SPEC, fit_labels(data.label, "bpr"), hold_out)
    assert rows.ranking is None
    assert not set(data.group[rows.held]) & set(data.group[rows.rows])


def test_few_relevant_rows_are_no_ranking(rng):
    data = pairs(rng, per_user=2)
    assert item_ranking(data, np.arange(data.rows, dtype=np.int32), fit_labels(data.label, "bpr"), 0.1, SPEC) is None


def test_users_get_lists_of_their_own_by_default(run, tmp_path):
    """Each user likes the items of one kind; the most popular items are the same for all."""
    rng = np.random.default_rng(4)
    lines = []
    for user in range(60):
        own = [item for item in range(40) if item % 4 == user % 4 or item < 3]
        lines += [f"u{user},i{item}\n" for item in rng.permutation(own)[:9]]
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(lines))
    (tmp_path / "items.csv").write_text("item\n" + "".join(f"i{item}\n" for item in range(40)))
    (tmp_path / "users.csv").write_text("user\n" + "".join(f"u{user}\n" for user in range(60)))
    run.ok("negatives", "-q", "--pair", "user,item", "--per-pair", "2", "-o", "rows.csv", "log.csv")
    columns = ("--label", "label", "--group-field", "user", "--categorical", "user")
    train = ("train", "--verbose", "--quick-search", "--loss", "bpr", *columns)
    done = run.ok(*train, "--log-json", "log", "-o", "m", "rows.csv")
    assert re.search(r"held out .* %, ranked with other items of their users, [\d,]+ rows in all, to ", done.stderr)
    epochs = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if '"event": "epoch"' in line]
    assert all({"ndcg", "gauc"} == one["valid"].keys() for one in epochs)
    command = ("recommend", "--json", "--top", "8", "m", "--given", "users.csv", "--over", "items.csv")
    done = run.ok(*command)
    lists = [json.loads(line)["items"] for line in done.stdout.decode().splitlines()]
    kinds = [[int(one["item"][1:]) % 4 == user % 4 for one in items] for user, items in enumerate(lists)]
    assert np.mean(kinds) > 0.6
    assert "same list" not in done.stderr
    users, items = tmp_path / "users.csv", tmp_path / "items.csv"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fmcli.load(tmp_path / "m").recommend(users, items, 8)
    run.ok(
        "train", "-q", "--no-quick-search", "--loss", "bpr", *columns, "--l2-v", "1e3", "-e", "2", "-o", "m", "rows.csv"
    )
    assert "all rows of users.csv get the same list" in run.ok(*command, "--seen", "rows.csv").stderr
    with pytest.warns(UserWarning, match=r"all rows of given get the same list.*\(categorical\).*weaker l2_v"):
        fmcli.load(tmp_path / "m").recommend(users, items, 8, seen=tmp_path / "rows.csv")


def test_users_without_features_are_told_before_training(run, tmp_path, rng):
    rows = [f"u{user},i{item},{label}" for user in range(40) for label in (0, 1) for item in rng.permutation(20)[:6]]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,y", *rows]) + "\n")
    command = (
        "train",
        "--loss",
        "bpr",
        "--label",
        "y",
        "--group-field",
        "user",
        "--no-quick-search",
        "-e",
        "1",
        "r.csv",
    )
    text = "the rows have no features of users: different groups have the same rows"
    err = run.ok(*command).stderr
    assert err.index(text) < err.index("epoch 1 ")
    assert text not in run.ok(*command, "--categorical", "user").stderr
    options = {"loss": "bpr", "label": "y", "group_field": "user", "quick_search": False, "epochs": 1, "holdout": 0}
    with pytest.warns(UserWarning, match=rf"{text}.*\(categorical makes"):
        fmcli.train(tmp_path / "r.csv", **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=text)
        fmcli.train(tmp_path / "r.csv", categorical=["user"], **options)


def paired(indptr, index, value, features, group, rng):
    label = rng.integers(0, 2, len(group)).astype(float)
    data = Dataset(indptr, index, value, label, features, group=group.astype(np.int32))
    return PairedRows(data, np.arange(data.rows, dtype=np.int32))


def test_ids_groups_of_users_and_queries_are_features_of_users(rng):
    for found in (pairs(rng), pairs(rng, user_ids=False)):
        assert without_users(PairedRows(found, np.arange(found.rows, dtype=np.int32)), str) == ""
    queries, width = 300, 5  # each row of numbers is a pair of a query and a document
    indptr, index = np.arange(queries + 1, dtype=np.int64) * width, np.tile(np.arange(width, dtype=np.int32), queries)
    value = rng.normal(size=queries * width).astype(np.float32)
    assert without_users(paired(indptr, index, value, width, np.arange(queries) // 10, rng), str) == ""
    alone = np.arange(queries + 1, dtype=np.int64)
    items = rng.integers(0, 20, queries).astype(np.int32)
    assert "no features of users" in without_users(paired(alone, items, None, 20, np.arange(queries) // 10, rng), str)
