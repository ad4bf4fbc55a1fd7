"""Metrics of groups of rows, compared with their definitions and with scikit-learn."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmcli.errors import UsageError
from fmcli.registry.losses import LOSSES
from fmcli.scoring.metrics import Outcome, allowed, check, measure, metric_of, need_groups
from fmcli.scoring.ranking import OfGroups

NAMES = ("gauc", "ndcg", "ndcg@1", "ndcg@3", "map", "mrr", "mrr@2", "recall@2", "precision@3", "hit@2", "recall@10")


# The definitions, for the (label, score) of the rows of one group in plain Python; None if they are undefined.


def slow_gauc(rows):
    pairs = [(s, t) for (y, s), (z, t) in itertools.product(rows, rows) if y > z]
    return sum(1 if s > t else 0.5 if s == t else 0 for s, t in pairs) / len(pairs) if pairs else None


def over_orders(rows, value):
    """The mean over all orders of the rows by decreasing score, of a function of the labels in this order."""
    orders = itertools.permutations(rows)
    by_score = [order for order in orders if all(a[1] >= b[1] for a, b in itertools.pairwise(order))]
    return math.fsum(value([y for y, _ in order]) for order in by_score) / len(by_score)


def slow_ndcg(rows, places):
    def gain(order):
        return math.fsum((2 ** max(y, 0) - 1) / math.log2(place + 1) for place, y in enumerate(order[:places], start=1))

    best = gain(sorted((y for y, _ in rows), reverse=True))
    return over_orders(rows, gain) / best if best else None


def in_places(places, value):
    """A metric of the numbers of relevant rows in the first places, and in all of them."""

    def slow(rows):
        relevant = sum(y > 0 for y, _ in rows)
        return over_orders(rows, lambda y: value(sum(x > 0 for x in y[:places]), relevant)) if relevant else None

    return slow


def slow_mrr(rows, places):
    def reciprocal(order):
        return next((1 / place for place, y in enumerate(order[:places], start=1) if y > 0), 0)

    return over_orders(rows, reciprocal) if any(y > 0 for y, _ in rows) else None


def slow_map(rows):
    precisions = [sum(z > 0 for z, t in rows if t >= s) / sum(t >= s for _, t in rows) for y, s in rows if y > 0]
    return sum(precisions) / len(precisions) if precisions else None


SLOW = {
    "gauc": slow_gauc,
    "map": slow_map,
    "ndcg": lambda rows: slow_ndcg(rows, len(rows)),
    "ndcg@1": lambda rows: slow_ndcg(rows, 1),
    "ndcg@3": lambda rows: slow_ndcg(rows, 3),
    "mrr": lambda rows: slow_mrr(rows, len(rows)),
    "mrr@2": lambda rows: slow_mrr(rows, 2),
    "recall@2": in_places(2, lambda found, relevant: found / relevant),
    "recall@10": in_places(10, lambda found, relevant: found / relevant),
    "precision@3": in_places(3, lambda found, relevant: found / 3),
    "hit@2": in_places(2, lambda found, relevant: found > 0),
}


@st.composite
def groups(draw, labels):
    """Some groups of up to six rows (label, score) with few different scores."""
    rows = st.tuples(st.sampled_from(labels), st.sampled_from([-1e300, -1.0, 0.0, 0.5]))
    return draw(st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=5))


@pytest.mark.parametrize(("loss", "labels"), [("squared", [-2.5, 0.0, 0.5, 1.0, 3.0]), ("logistic", [-1.0, 1.0])])
@given(data=st.data())
def test_against_definitions(loss, labels, data):
    found = data.draw(groups(labels))
    rows = [(group * 2**40 - 5, y, s) for group, rows in enumerate(found) for y, s in rows]
    group, label, score = map(np.array, zip(*data.draw(st.permutations(rows)), strict=True))
    measured = measure(NAMES, Outcome(loss, label, score[:, None], group=group))
    for name, value in measured.items():
        defined = [of_group for of_group in map(SLOW[name], found) if of_group is not None]
        expected = sum(defined) / len(defined) if defined else math.nan
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), name


@pytest.fixture(scope="module")
def large():
    """Labels from 0 to 30, scores with ties, and groups of different sizes."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 40, 3000) ** 2
    label = rng.integers(0, 31, 3000).astype(float)
    return group, label, np.round(rng.normal(label / 20), 1)


def test_rows_of_weight_0_are_left_out_and_other_weights_do_not_count(large):
    group, label, score = large
    kept = score > 0.3
    weight = np.where(kept, 1 + label, 0)
    some = Outcome("squared", label[kept], score[kept, None], group=group[kept])
    assert measure(NAMES, Outcome("squared", label, score[:, None], weight, group=group)) == measure(NAMES, some)


def test_without_groups_they_are_undefined():
    outcome = Outcome("squared", np.array([0.0, 1.0]), np.array([[0.0], [1.0]]))
    assert all(map(math.isnan, measure(NAMES, outcome).values()))


def test_one_group_of_equal_labels_is_undefined():
    outcome = Outcome("squared", np.zeros(3), np.arange(3.0)[:, None], group=np.zeros(3, np.int32))
    assert all(map(math.isnan, measure(NAMES, outcome).values()))


def test_metrics_of_places():
    assert (metric_of("ndcg@7").name, metric_of("ndcg@7").larger_is_better) == ("ndcg@7", True)
    assert need_groups(["auc", "ndcg@7", "rmse", "map"]) == ["ndcg@7", "map"]
    for name in ("ndcg@", "ndcg@0", "ndcg@-1", "ndcg@1.5"):
        with pytest.raises(UsageError, match=f"there is no metric '{name}'; write ndcg@K with a number of places K"):
            metric_of(name)
    with pytest.raises(UsageError, match="there is no metric 'auc@3'; did you mean"):
        metric_of("auc@3")
    with pytest.raises(UsageError, match="metric ndcg@3 does not fit loss softmax"):
        check(["ndcg@3"], "softmax")


@pytest.mark.parametrize("loss", LOSSES)
def test_they_fit_every_loss_of_one_score(loss):
    assert ("gauc" in allowed(loss)) == (LOSSES[loss].task != "classes")
    assert "gauc" not in allowed(loss, grouped=False)


@pytest.mark.parametrize("program", ["ranx", "ir-measures"])
def test_against_values_of_other_programs(program):
    """The rows have different scores, and labels of 0 and 1, for which the gains of all programs are the same."""
    figures = json.loads((Path(__file__).parent / "reference" / "rankings.json").read_text())
    group, _, label, score = map(np.array, zip(*figures["rows"], strict=True))
    outcome = Outcome("squared", label.astype(np.float64), score[:, None], group=group)
    assert measure(figures[program], outcome) == pytest.approx(figures[program], rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_several_outcomes_keep_their_groups(name, rng):
    """Groups of the same number are others in each outcome, as the folds of a comparison have them."""
    outcomes = [
        Outcome("squared", rng.integers(0, 3, n), rng.normal(size=(n, 1)), group=rng.integers(0, 4, n))
        for n in (30, 25)
    ]
    each = [metric_of(name).of_groups(one.grouped.ranked) for one in outcomes]
    expected = OfGroups.concatenated(each).mean()
    assert measure([name], Outcome.concatenated(outcomes))[name] == pytest.approx(expected, rel=1e-12)
