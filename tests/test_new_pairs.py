"""New users and items of a model of observed pairs: the minimum over all pairs of their parameters alone."""

import numpy as np
import pytest
from scipy.optimize import minimize
from test_all_pairs import KINDS

import fmcli
from fmcli.solvers.coordinate import minimizer
from reference import slow_models

ALPHA, STRENGTHS = 0.3, {"w": 0.05, "V": 0.08, "UV": 0.08}
# Users and items have an id and one of several further features, with values.
USERS, ITEMS, USER_FEATURES, ITEM_FEATURES = 9, 7, [40, 41, 42], [50, 51]
FEATURES = 60
GROUP = np.array([0] * 20 + [1] * 20 + [0] * 10 + [1] * 10)  # of users, and of items


def part(rng, id, others):
    return {id: 1.0, int(rng.choice(others)): float(np.float32(rng.uniform(0.5, 1.5)))}


class Log:
    """Pairs of known users and items, and pairs with new ones: users 10 to 12; the last one has a new further
    feature, and items 30 and 31. User 12 and item 31 are in one pair."""

    def __init__(self):
        rng = np.random.default_rng(5)
        self.users = {u: part(rng, u, USER_FEATURES) for u in range(USERS)}
        self.items = {i: part(rng, i, ITEM_FEATURES) for i in range(20, 20 + ITEMS)}
        known = [(u, 20 + (u + step) % ITEMS) for u in self.users for step in (0, 1, 3)]
        self.new_users = {u: part(rng, u, USER_FEATURES) for u in (10, 11)} | {12: {12: 1.0, 45: 0.7}}
        self.new_items = {i: part(rng, i, ITEM_FEATURES) for i in (30, 31)}
        self.of_users = {10: [20, 23], 11: [21, 22, 25], 12: [20, 24, 31]}
        self.of_items = {30: [0, 4, 5], 31: [2, 7]}
        new = [(u, i) for u, items in self.of_users.items() for i in items]
        new += [(u, i) for i, users in self.of_items.items() for u in users]
        self.known = {pair: float(rng.integers(1, 6)) for pair in known}
        self.new = {pair: float(rng.integers(1, 6)) for pair in new}

    def part(self, id):
        return {**self.users, **self.items, **self.new_users, **self.new_items}[id]

    def text(self, path, pairs):
        lines = []
        for (u, i), count in pairs.items():
            entries = [(0, self.part(u)), (1, self.part(i))]
            lines.append(f"{count:g} " + " ".join(f"{f}:{j}:{x!r}" for f, row in entries for j, x in row.items()))
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def model(self, tmp_path, kind="fm", power=1.0, **options):
        options = {"rank": 3, **options} if kind != "linear" else options
        path = self.text(tmp_path / "known.ffm", self.known)
        sides = {"implicit": True, "user": "0", "item": "1", "holdout": 0, "quick_search": False}
        strengths = {"l2_w": STRENGTHS["w"], "l2_v": STRENGTHS["V"], "unseen_weight": ALPHA, "l2_power": power}
        return fmcli.train(path, model=kind, epochs=20, init_std=0.3, **sides, **strengths, **options)

    def objective(self, kind, params, power, pairs):
        """The sum over some new pairs, and over all pairs of a new and a known part, as models.md defines it."""

        def score(u, i):
            return slow_models.score(kind, params, {**self.part(u), **self.part(i)}, {"group": GROUP})[0]

        users, items = {u for u, _ in pairs} - {*self.users}, {i for _, i in pairs} - {*self.items}
        every = [(u, i) for u in users for i in self.items] + [(u, i) for i in items for u in self.users]
        total = sum((1 + np.log(count)) * (1 - score(*pair)) ** 2 for pair, count in pairs.items())
        total += ALPHA * sum(score(*pair) ** 2 for pair in every)
        for j in self.new_features(pairs):
            times = sum(j in self.part(u) or j in self.part(i) for u, i in pairs)
            times += ALPHA * sum(j in self.part(u) for u in users) * ITEMS
            times += ALPHA * sum(j in self.part(i) for i in items) * USERS
            squares = (STRENGTHS[name] * np.sum(params[name][0, j] ** 2) for name in params.keys() & STRENGTHS)
            total += times**power / 2 * sum(squares)
        return total

    def new_features(self, pairs):
        known = {j for id in (*self.users, *self.items) for j in self.part(id)}
        return sorted({j for pair in pairs for id in pair for j in self.part(id)} - known)


def parameters(model):
    """The parameters by the numbers of features."""
    found = {}
    names = [int(id) for id in model._scorer.ids(np.arange(model._scorer.model.features))]
    for name, array in model._scorer.model.parameters.items():
        found[name] = np.array(array, float)
        if name in STRENGTHS:
            found[name] = np.zeros((1, FEATURES, *array.shape[2:]))
            found[name][:, names] = array
    return found


# The power acts on strengths, whatever the kind is.
@pytest.mark.parametrize(("kind", "power"), [*((kind, 0.5) for kind in KINDS), ("fm", 0.0), ("fm", 1.0)])
def test_new_users_and_items_are_at_the_minimum_over_all_pairs(tmp_path, kind, power):
    log = Log()
    model = log.model(tmp_path, kind, power)
    new = log.text(tmp_path / "new.ffm", log.new)
    grown = fmcli.train(new, init_model=model, only_new=True, tol=1e-7, epochs=1000)
    before, after, new = parameters(model), parameters(grown), log.new_features(log.new)
    assert new == [10, 11, 12, 30, 31, 45]
    names = sorted(after.keys() & STRENGTHS)
    for name, array in after.items():
        old = np.delete(array, new, axis=1) if name in names else array
        assert np.array_equal(old, np.delete(before[name], new, axis=1) if name in names else before[name])

    def unpacked(numbers):
        params, at = dict(after), 0
        for name in names:
            params[name] = after[name].copy()
            shape = params[name][0, new].shape
            params[name][0, new] = numbers[at : at + np.prod(shape)].reshape(shape)
            at += np.prod(shape)
        return params

    found = np.concatenate([after[name][0, new].ravel() for name in names])
    best = minimize(lambda numbers: log.objective(kind, unpacked(numbers), power, log.new), found)
    assert found == pytest.approx(best.x, abs=2e-3)
    assert np.abs(found).max() > 0.1


def test_new_parameters_depend_on_their_own_pairs_alone(tmp_path, monkeypatch):
    log = Log()
    model = log.model(tmp_path)
    whole = parameters(fmcli.train(log.text(tmp_path / "new.ffm", log.new), init_model=model, only_new=True))
    monkeypatch.setattr(minimizer, "ENTRIES_TO_SHARE", 1)
    # User 12 is in a pair with item 31.
    for ids in ([10], [11], [30], [12, 31]):
        pairs = {pair: count for pair, count in log.new.items() if {*pair} & {*ids}}
        alone = fmcli.train(log.text(tmp_path / "some.ffm", pairs), init_model=model, only_new=True, threads=2)
        features, alone = log.new_features(pairs), parameters(alone)
        assert features
        for name in ("w", "V"):
            assert np.array_equal(alone[name][:, features], whole[name][:, features])
            assert alone[name][:, features].any()


def test_a_grown_model_knows_its_users_items_and_pairs(tmp_path):
    log = Log()
    model = log.model(tmp_path)
    grown = fmcli.train(log.text(tmp_path / "new.ffm", log.new), init_model=model, only_new=True)
    ids = [f"{u},{next(j for j in log.part(u) if j != u)}" for u in (*log.users, 10, 11, 12)]
    assert [name.split(",")[0] for name in grown.users] == [one.split(",")[0] for one in ids]
    assert [int(name.split(",")[0]) for name in grown.items] == [*dict.fromkeys(i for _, i in log.known), 31, 30]
    items, _ = grown.recommend(top=99)
    for user, row in zip(grown.users, items, strict=True):
        played = {i for u, i in {**log.known, **log.new} if u == int(user.split(",")[0])}
        found = {int(grown.items[item].split(",")[0]) for item in row if item >= 0}
        assert not played & found
        assert played | found == {*log.items, *log.new_items}
    more = log.text(tmp_path / "more.ffm", {(12, 30): 2.0, (11, 31): 1.0})
    with pytest.warns(UserWarning, match="has seen all features"):
        assert fmcli.train(more, init_model=grown, only_new=True).users == grown.users


def test_a_number_of_both_sides_is_refused(tmp_path):
    model = Log().model(tmp_path)
    (tmp_path / "new.ffm").write_text("1 0:20:1 1:35:1\n")
    with pytest.raises(fmcli.errors.BadInputError, match="belongs to items of the model"):
        fmcli.train(str(tmp_path / "new.ffm"), init_model=model, only_new=True)


def test_what_new_pairs_cannot_learn_is_refused(tmp_path):
    log = Log()
    new = log.text(tmp_path / "new.ffm", log.new)
    with pytest.raises(fmcli.errors.UsageError, match="l1 penalty is relative to all pairs"):
        fmcli.train(new, init_model=log.model(tmp_path, l1=0.001), only_new=True)
    rows = fmcli.train(new, epochs=1, quick_search=False, scale_labels=False)
    with pytest.raises(fmcli.errors.UsageError, match="was not trained with implicit"):
        fmcli.train(new, init_model=rows, only_new=True, implicit=True)
    for name, value in {"user": "0", "item": "1", "unseen_weight": 1.0, "l2_power": 0.5, "count": "n"}.items():
        with pytest.raises(fmcli.errors.UsageError, match=name):
            fmcli.train(new, init_model=log.model(tmp_path), only_new=True, **{name: value})
