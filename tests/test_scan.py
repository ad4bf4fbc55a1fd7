"""Passes over all numbers of an array, compared with numpy."""

import numpy as np
import pytest

from fmcli.base.copies import copy_of, copy_to
from fmcli.base.scan import all_finite, zeros


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 9, 4), (2, 3, 40, 5), (2, 30, 3, 2, 5)])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_scans_of_any_strides(shape, real, rng):
    whole = rng.integers(0, 2, size=(*shape, 3)).astype(real)
    for array in (whole[..., 1], whole[..., :2], np.moveaxis(whole, -1, 0)[1:]):
        assert zeros(array) == array.size - np.count_nonzero(array)
        assert all_finite(array)
    if whole.size:
        for number in (np.nan, np.inf, -np.inf):
            wrong = whole.copy()
            wrong.flat[-1] = number
            assert not all_finite(wrong[..., 2])
            assert all_finite(wrong[..., 0])


def test_copies_of_rows_that_lie_apart():
    """A row may be short, single, or itself of numbers that lie apart."""
    numbers = np.arange(120, dtype=np.float32).reshape(5, 24)
    short, apart, single = numbers[:, :4], numbers[:, ::2], numbers[:, :1]
    for source in (numbers, short, short[:1], apart, apart[:1], single, numbers[0]):
        copy = copy_of(source)
        assert copy.flags.c_contiguous
        assert not np.shares_memory(copy, source)
        np.testing.assert_array_equal(copy, source)
        other = numbers.copy()[: len(source)] * 0
        target = other[:, : source.shape[1]] if source.ndim > 1 else other[0]
        copy_to(target, source)
        np.testing.assert_array_equal(target, source)
        assert np.count_nonzero(other) == np.count_nonzero(source)
