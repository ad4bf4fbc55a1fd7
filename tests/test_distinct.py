"""The distinct ids equal NumPy's."""

import numpy as np
import pytest

from fmcli.solvers.rounds.distinct import distinct


@pytest.mark.parametrize("most", [1, 2, 2047, 2048, 5_000_000, 2**31 - 1])
@pytest.mark.parametrize("count", [0, 1, 3000])
def test_distinct_ids_and_places(rng, most, count):
    ids = rng.integers(0, most, size=count).astype(np.int32)
    found, places = distinct(ids)
    wanted, inverse = np.unique(ids, return_inverse=True)
    assert found.tolist() == wanted.tolist()
    assert places.tolist() == inverse.tolist()
    assert found.dtype == places.dtype == np.int32


def test_negative_ids_are_refused():
    with pytest.raises(ValueError, match="negative"):
        distinct(np.array([3, -1], dtype=np.int32))
