"""The text of a number is the shortest one that is read back as the same number of the build's real type."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fmcli.data.writer import REAL, format_table, format_values

pytestmark = pytest.mark.exact

Real = {"float": np.float32, "double": np.float64}[REAL]
EXTREMES = [
    np.finfo(Real).max,
    np.finfo(Real).min,
    np.finfo(Real).tiny,
    np.finfo(Real).smallest_subnormal,
    1e300,
    5e-324,
]


def lines_of(values):
    text = format_values(np.array(values, dtype=np.float64)).decode("ascii")
    assert text.endswith("\n") or not len(values)
    return text.splitlines()


@given(st.lists(st.floats(allow_nan=False)))
@example([])
@example(EXTREMES)
@example([-x for x in EXTREMES])
@example([np.inf, -np.inf])
def test_numbers_are_read_back_as_they_were(values):
    lines = lines_of(values)
    assert len(lines) == len(values)
    with np.errstate(over="ignore"):
        for line, value in zip(lines, values, strict=True):
            assert Real(float(line)) == Real(value)


def test_no_text_is_shorter_or_nearer():
    """The digits equal numpy's, in the shorter notation, or without an exponent if both are as short."""
    bits = np.random.default_rng(0).integers(0, 1 << 8 * np.dtype(Real).itemsize, 3000, np.uint64)
    spread = bits.astype(f"u{np.dtype(Real).itemsize}").view(Real)
    near = np.random.default_rng(1).normal(0, 1, 1000) * 10.0 ** np.arange(-6, 4).repeat(100)
    powers = 2.0 ** np.arange(-126, 25)
    of_few_digits = [1.5e-5, 1e-3, 0.012, 0.00012, 1e-4, 20.0, 1e5, 1e6, 1.2e6, 3.5e7, 3.586888385509157e16]
    values = np.concatenate([spread[np.isfinite(spread)], np.concatenate([near, powers, of_few_digits]).astype(Real)])
    for value, line in zip(values, lines_of(values), strict=True):
        fixed = np.format_float_positional(value, trim="-")
        scientific = np.format_float_scientific(value, trim="-", exp_digits=2)
        exact = str(int(value)) if value == int(value) else fixed
        assert line == (scientific if len(scientific) < len(fixed) else exact)


def test_the_widest_numbers_fit_in_a_row():
    """Every number has the maximum width, so the computed bound leaves no room to spare."""
    widest = -np.finfo(Real).tiny * (1 + np.finfo(Real).eps)
    assert lines_of(np.full(10_000, widest)) == lines_of([widest]) * 10_000
    assert len(lines_of([widest])[0]) >= np.finfo(Real).precision + 7


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (123456.0, "123456"),
        (1e-5, "1e-05"),
        (np.nan, "nan"),
        (-np.nan, "nan"),
        (np.inf, "inf"),
    ],
)
def test_plain_numbers(value, text):
    assert lines_of([value]) == [text]


def test_a_negative_number_that_rounds_to_zero_is_zero():
    assert lines_of([-1e-60]) == ["0" if REAL == "float" else "-1e-60"]


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5)))
def test_tables(values):
    lines = format_table(values).decode("ascii").splitlines()
    if values.shape[1] == 0:
        assert lines == []
        return
    assert [line.split(" ") for line in lines] == [lines_of(row) for row in values]


def test_values_that_may_not_be_written_to():
    values = np.ones(2)
    values.flags.writeable = False
    assert format_values(values) == b"1\n1\n"
    assert format_table(values[:, None]) == b"1\n1\n"


@pytest.mark.parametrize("values", [np.ones(4)[::2], np.ones(2, dtype=np.float32), np.ones((2, 2))])
def test_other_arrays_are_refused(values):
    with pytest.raises(ValueError, match=r"Buffer|ndarray"):
        format_values(values)
