"""Learning from observed pairs, beside which all pairs count: what a run on all weighted pairs gives, without them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from problems import build, choices, parameters, taken

from fmcli.data.dataset import Dataset
from fmcli.data.shards.observed_rows import AllPairsTerms, ObservedRows, Sides
from fmcli.losses.loss import Squared
from fmcli.penalties.penalty import Penalty
from fmcli.registry.models import MODELS
from fmcli.registry.specs import make_spec
from fmcli.solvers.coordinate import minimizer
from fmcli.solvers.coordinate.all_pairs import AllPairs, PairUpdater
from fmcli.solvers.coordinate.pair_links import PairLinks
from fmcli.solvers.coordinate.pairs import AllPairsDescent
from fmcli.solvers.coordinate.trainer import CoordinateTrainer
from fmcli.solvers.trainer import Observer, Task
from reference import slow_descent, slow_models

KINDS = [name for name, kind in MODELS.items() if kind.pairs]
CONTEXTS, ITEMS, OF_CONTEXTS, FEATURES = 7, 6, 12, 24
ALPHA = 0.3


def sparse(rng, rows, first, features, ids):
    """Rows with an id each, if there are ids, and with some further features of a range."""
    found = []
    for row in range(rows):
        others = first + rows * ids + rng.choice(features - rows * ids, 2, replace=False)
        x = {int(j): float(rng.uniform(0.5, 1.5)) for j in others}
        found.append({**({first + row: 1.0} if ids else {}), **x})
    return found


def dataset(rows, label=None, weight=None):
    flat = [sorted(row.items()) for row in rows]
    index, value = np.array([entry for row in flat for entry in row]).reshape(-1, 2).T
    return Dataset(
        np.cumsum([0, *map(len, flat)]), index.astype(np.int32), value.astype(np.float32), label, FEATURES, None, weight
    )


class Pairs:
    """Contexts and items with features of several values, and weighted pairs of some of them."""

    def __init__(self, seed=0, ids=True):
        rng = np.random.default_rng(seed)
        self.contexts = sparse(rng, CONTEXTS, 0, OF_CONTEXTS, ids)
        self.items = sparse(rng, ITEMS, OF_CONTEXTS, FEATURES - OF_CONTEXTS, ids)
        order = rng.permutation(CONTEXTS * ITEMS)[:17]
        # Every context and every item is in a pair.
        some = [*(c * ITEMS + c % ITEMS for c in range(CONTEXTS)), *order.tolist()]
        self.context, self.item = np.divmod(np.unique(some), ITEMS)
        self.weight = rng.uniform(0.5, 3, len(self.context))

    def rows(self):
        pairs = zip(self.context, self.item, strict=True)
        return dataset(
            [{**self.contexts[c], **self.items[i]} for c, i in pairs], np.ones(len(self.context)), self.weight
        )

    def every(self):
        """All pairs as rows; their labels; and their weights: minimising their squared errors is the same."""
        rows = [{**c, **i} for c in self.contexts for i in self.items]
        observed = np.zeros(len(rows))
        observed[self.context * ITEMS + self.item] = self.weight
        return rows, observed / (observed + ALPHA), observed + ALPHA

    def source(self, power=1.0, alpha=ALPHA):
        data = self.rows()
        every = np.arange(data.rows, dtype=np.int32)
        return ObservedRows(data, every, np.arange(FEATURES) >= OF_CONTEXTS, AllPairsTerms(alpha, power))

    def counts(self, alpha=ALPHA):
        """Of each feature: its observed pairs, and all pairs with it times alpha."""
        found = np.zeros(FEATURES)
        for c, i in zip(self.context, self.item, strict=True):
            for j in {**self.contexts[c], **self.items[i]}:
                found[j] += 1
        for rows, others in ((self.contexts, ITEMS), (self.items, CONTEXTS)):
            for row in rows:
                for j in row:
                    found[j] += alpha * others
        return found


def allocated(kind, seed=1, rank=5, **options):
    model = build(kind, FEATURES, rank=rank, split_index=OF_CONTEXTS, fit_beta=False, **options)
    model.pack()
    model.allocate(0)
    rng = np.random.default_rng(seed)
    for name, array in model.parameters.items():
        array[...] = rng.normal(0, 2 if name == "beta" else 0.4, array.shape)
    return model


def linked(pairs, weight):
    """The contexts and items as parts, and the links of the observed pairs."""
    sides = Sides(dataset(pairs.contexts), dataset(pairs.items), pairs.context, pairs.item)
    return sides.parts(), PairLinks.of(sides, weight)


def descent_of(model, pairs, weight, strength, penalty=None, threads=1):
    parts, links = linked(pairs, weight)
    penalty = penalty or Penalty()
    return AllPairsDescent(model, Squared(), penalty, parts, threads, links=links, strength=strength, known=None)


def scores(kind, model, pairs):
    """The scores of all pairs, by the definition of the kind."""
    params = {name: array.astype(float) for name, array in parameters(model).items()}
    known = choices(model)
    return np.array(
        [[slow_models.score(kind, params, {**c, **i}, known)[0] for i in pairs.items] for c in pairs.contexts]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_term_is_the_sum_over_all_pairs(kind):
    pairs, model = Pairs(), allocated(kind)
    every = scores(kind, model, pairs)
    expected = ALPHA / 2 * np.sum(every**2)
    observed = np.sum(pairs.weight / 2 * (1 - every[pairs.context, pairs.item]) ** 2)
    with ThreadPoolExecutor(1) as pool:
        assert descent_of(model, pairs, 0 * pairs.weight, ALPHA).objective(pool)[0] == pytest.approx(expected, rel=1e-6)
        assert descent_of(model, pairs, pairs.weight, 0.0).objective(pool)[0] == pytest.approx(observed, rel=1e-6)
    assert expected > 0.1
    assert observed > 0.1


def minimum(phi, r, G, l1, l2):
    """The step to the minimum over a slice, in place of slow_descent.sweeps."""
    assert not l1.any()
    return np.linalg.solve(G + np.diag(l2), -r - l2 * phi)


@pytest.mark.parametrize("rank", [5, 20])  # one slice of parameters, and two
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_each_step_is_that_of_all_pairs(monkeypatch, kind, ids, rank):
    pairs, model = Pairs(ids=ids), allocated(kind, rank=rank)
    in_order, parts = slow_descent.in_order, [*pairs.contexts, *pairs.items]

    def place(row):
        """Features of contexts come first, and of either side the ones that most parts have."""
        feature = row[0][1][1]
        return feature >= OF_CONTEXTS, -sum(feature in part for part in parts)

    def common_first(layout, *others):
        found = in_order(layout, *others)
        return sorted(found, key=place) if layout.by_feature else found

    monkeypatch.setattr(slow_descent, "in_order", common_first)
    monkeypatch.setattr(slow_descent, "sweeps", minimum)
    rows, label, weight = pairs.every()
    total = weight.sum()
    penalty = {"l2_w": 0.02, "l2_v": 0.03}
    slow = slow_descent.Problem(
        kind, model.layout, rows, label, weight / total, "squared", slow_models.Penalty(**penalty), choices(model)
    )
    before = parameters(model)
    expected = slow_descent.epoch(slow, before, FEATURES)
    observed = pairs.weight.sum()
    share = total / observed  # the objective is relative to the weight of the observed pairs
    strengths = Penalty(**{name: share * value for name, value in penalty.items()})
    descent = descent_of(model, pairs, pairs.weight / observed, ALPHA / observed, strengths)
    descent.run(1, lambda *_: False)
    after = parameters(model)
    for name, array in expected.items():
        assert after[name] == pytest.approx(array, rel=2e-3, abs=2e-4), name
        assert np.abs(array - before[name]).max() > 0.01 or name == "beta"


def train(source, kind="fm", epochs=6, threads=1, **options):
    options = {"l2_w": 0.1, "l2_v": 0.1, **taken(kind, {"fit_beta": False}), **options}
    spec = make_spec(kind, "cd", "squared", {"epochs": epochs, **options})
    model = allocated(kind, rank=options.get("rank", 8))
    task = Task(spec, model, source, threads=threads)
    trainer = CoordinateTrainer(task)
    trainer.prepare(Squared(), Penalty(), Observer())
    found = []
    trainer.run(epochs, lambda loss, penalty: bool(found.append((loss, penalty))))
    return model, found


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_objective_is_its_definition_and_never_rises(kind, power):
    pairs = Pairs(2)
    model, found = train(pairs.source(power), kind, l2_w=0.1, l2_v=0.2, **({} if kind == "linear" else {"rank": 5}))
    s, end = scores(kind, model, pairs), parameters(model)
    observed = s[pairs.context, pairs.item]
    loss = np.sum(pairs.weight * (1 - observed) ** 2) + ALPHA * np.sum(s**2)
    times = pairs.counts() ** power
    of_all = (len(pairs.context) + ALPHA * CONTEXTS * ITEMS) ** power
    strengths = {"w": 0.1, "V": 0.2, "UV": 0.2}
    penalty = sum(
        strengths[name] / 2 * np.sum(times * (end[name][0].reshape(FEATURES, -1) ** 2).sum(axis=1))
        for name in end.keys() & strengths.keys()
    )
    penalty += 0.2 / 2 * of_all * np.sum(end["v0"] ** 2) if "v0" in end else 0
    double = 2 * pairs.weight.sum()
    assert found[-1] == pytest.approx((loss / double, penalty / double), rel=1e-4)
    objectives = [sum(one) for one in found]
    assert all(after <= before + 1e-9 for before, after in pairwise(objectives))
    assert objectives[-1] < objectives[0] - 1e-3


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_a_linear_model_ends_at_the_minimum(power):
    """That of least squares over all pairs."""
    pairs = Pairs(3)
    model, _ = train(pairs.source(power), "linear", epochs=1500, l2_w=2.0)
    rows, label, weight = pairs.every()
    x = np.array([[1.0, *(row.get(j, 0.0) for j in range(FEATURES))] for row in rows])
    l2 = np.diag(np.append(0, 2.0 / 2 * pairs.counts() ** power))
    best = np.linalg.solve(x.T @ (weight[:, None] * x) + l2, x.T @ (weight * label))
    assert np.append(model.parameters["bias"], model.parameters["w"]) == pytest.approx(best, abs=1e-5)
    assert np.abs(best).max() > 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_do_not_depend_on_threads(monkeypatch, kind):
    monkeypatch.setattr(minimizer, "ENTRIES_OF_LARGE_ROW", 6)
    monkeypatch.setattr(minimizer, "ENTRIES_TO_SHARE", 1)
    ends = [parameters(train(Pairs(4).source(), kind, threads=threads)[0]) for threads in (1, 2, 3)]
    for one in ends[1:]:
        assert all(np.array_equal(one[name], ends[0][name]) for name in one)


@pytest.mark.parametrize("rank", [5, 20])
def test_sha2_with_beta_of_ones_is_shfm(rank):
    ends = []
    for kind in ("shfm", "sha2"):
        model = allocated(kind, rank=rank)
        if kind == "sha2":
            model.parameters["beta"][...] = 1
        descent_of(model, Pairs(), Pairs().weight, ALPHA).run(3, lambda *_: False)
        ends.append(parameters(model))
    shfm, sha2 = ends
    assert all(np.array_equal(sha2[name], shfm[name]) for name in shfm)


def test_rows_that_all_threads_update_have_the_same_steps(monkeypatch):
    usual, _ = train(Pairs(4).source())
    monkeypatch.setattr(minimizer, "ENTRIES_OF_LARGE_ROW", 2)
    other, _ = train(Pairs(4).source(), threads=2)
    for name, array in parameters(usual).items():
        assert parameters(other)[name] == pytest.approx(array, abs=1e-5)


def test_the_sides_of_pairs_are_their_different_parts():
    pairs = Pairs(5)
    sides = pairs.source().sides
    assert (sides.contexts.rows, sides.items.rows) == (CONTEXTS, ITEMS)
    numbers = dict(zip(sides.context.tolist(), pairs.context.tolist(), strict=True))
    assert len(numbers) == CONTEXTS
    assert [numbers[number] for number in sides.context.tolist()] == pairs.context.tolist()


def test_what_all_pairs_need_is_checked():
    pairs, model = Pairs(), allocated("fm")
    parts, links = linked(pairs, pairs.weight)
    twice = [*pairs.contexts, *pairs.contexts[:ITEMS]]
    with pytest.raises(ValueError, match="in common"):
        AllPairs(model, Penalty(), dataset(twice, np.zeros(len(twice))), links, 1.0)
    with pytest.raises(ValueError, match="no sums"):
        AllPairs(allocated("anova"), Penalty(), parts, links, 1.0)
    with pytest.raises(ValueError, match="of these parts"):
        AllPairs(model, Penalty(), parts.take(np.arange(5, dtype=np.int32)), links, 1.0)
    with pytest.raises(ValueError, match="of these parts"):
        AllPairs(model, Penalty(), parts, replace(links, other=links.other + len(parts)), 1.0)
    with pytest.raises(ValueError, match="constant parts"):
        AllPairs(model, Penalty(), parts, links, 1.0, known=(0, ITEMS + 1))
    with pytest.raises(IndexError):
        PairUpdater(AllPairs(model, Penalty(), parts, links, 1.0)).measure(0, len(parts) + 1)
    with pytest.raises(IndexError):
        PairUpdater(AllPairs(model, Penalty(), parts, links, 1.0)).measure_pairs(-1, 2)
