"""Held-out rows and folds have their share of each class."""

import numpy as np
import pytest

from fmcli.registry.specs import make_spec
from fmcli.training.setup.hold_out import split
from fmcli.training.setup.settings import HoldOut
from fmcli.training.setup.strata import Strata, in_shares, spread

SPEC = make_spec("fm")


def strata(label):
    values, counts = np.unique(label, return_counts=True)
    known = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return Strata(known, lambda wanted: {value: np.flatnonzero(label == value) for value in wanted})


@pytest.mark.parametrize("rows", [101, 1000, 40_000])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.98, 0.02), (0.6, 0.3, 0.1)])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_each_class_has_its_share_of_the_rows_that_are_held_out(rows, shares, share, rng):
    label = rng.choice(len(shares), rows, p=shares).astype(float)
    held, left = split(rows, HoldOut(share), SPEC, strata=strata(label))
    assert sorted([*held, *left]) == list(range(rows))
    assert len(held) == round(share * rows)
    assert (np.diff(held) > 0).all()
    for value in range(len(shares)):
        mine, of_all = (label[held] == value).sum(), (label == value).sum()
        assert mine == pytest.approx(share * of_all, abs=1 if share * of_all < 1000 else 0.05 * share * of_all)
    again = split(rows, HoldOut(share), SPEC, strata=strata(label))[0]
    assert np.array_equal(held, again)
    assert not np.array_equal(
        held, split(rows, HoldOut(share), make_spec("fm", options={"seed": 1}), strata=strata(label))[0]
    )


@pytest.mark.parametrize(("rare", "share"), [(18, 0.2), (100, 0.2), (200, 0.1), (400, 0.05), (3000, 0.05)])
def test_more_rows_are_held_out_if_one_class_is_rare(rare, share):
    label = np.zeros(30_000)
    label[np.linspace(0, 29_999, rare).astype(int)] = 1
    held, _ = split(30_000, HoldOut(None), SPEC, strata=strata(label))
    assert len(held) == 30_000 * share
    assert label[held].sum() == round(rare * share)


def test_a_class_with_several_rows_is_on_both_sides():
    assert in_shares(10, np.array([97, 2, 1])).tolist() == [9, 1, 0]
    assert in_shares(50, np.array([50, 45, 5])).tolist() == [25, 23, 2]
    assert in_shares(2, np.array([1, 1, 1, 1])).sum() == 2
    assert in_shares(0, np.array([5, 5])).tolist() == [0, 0]


def test_consecutive_rows_of_a_spread_have_their_share(rng):
    classes = rng.choice(3, 1000, p=(0.9, 0.08, 0.02)).astype(float)
    order = spread(classes, rng)
    assert sorted(order) == list(range(1000))
    for part in np.split(order, 5):
        for value, size in zip(*np.unique(classes, return_counts=True), strict=True):
            assert abs((classes[part] == value).sum() - size / 5) <= 1
    same = np.zeros(50)
    assert spread(same, np.random.default_rng(3)).tolist() == np.random.default_rng(3).permutation(50).tolist()
