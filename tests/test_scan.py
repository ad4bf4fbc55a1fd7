"""Passes over all numbers of an array, compared with numpy."""

import numpy as np
import pytest

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
