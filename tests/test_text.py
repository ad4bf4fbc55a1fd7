"""Formatting of numbers, labels and file names for people and programs."""

import numpy as np
import pytest

from fmcli.cli.figures import section
from fmcli.data.labels import Labels, fit_labels
from fmcli.errors import BadInputError
from fmcli.text import number, printable, shell_word


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567.0, "1234567"), (0.1, "0.1"), (-0.0, "0"), (1e-5, "1e-05"), (1 / 3, "0.3333333333333333"), (-1, "-1")],
)
def test_numbers_have_the_fewest_digits_that_read_back(value, text):
    assert number(value) == number(np.float64(value)) == text
    assert float(text) == value


def test_labels_that_differ_are_told_apart():
    close = [1234567.0, 1234568.0, 1234569.0]
    with pytest.raises(BadInputError, match=r"these are 1234567, 1234568, 1234569$"):
        fit_labels(np.array(close), "logistic")
    with pytest.raises(BadInputError, match=r"the label 0\.3, only 0\.1, 0\.30000000000000004"):
        Labels("logistic", (0.1, 0.1 + 0.2)).encode(np.array([0.3]))
    lines = section([{"label": value, "f1": 1234567.0} for value in close]).splitlines()
    assert [line.split() for line in lines[1:]] == [[number(value), "1,234,567"] for value in close]
    assert section({"labels": close}) == "labels  1234567 1234568 1234569\n"


def test_counts_are_never_negative():
    labels = Labels("poisson", None)
    assert labels.encode(np.array([0.0, 2])).tolist() == [0, 2]
    assert labels.encode(np.array([])).size == 0
    with pytest.raises(BadInputError, match=r"^valid\.txt: loss poisson takes counts, but a label is -1$") as error:
        labels.encode(np.array([3.0, -1]), "valid.txt")
    assert "squared" in error.value.options["loss"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ab'c d.txt", "ab'c d.txt"),
        ("é.txt", "é.txt"),
        ("a\nb", r"$'a\nb'"),
        ("\x1b[31m'\\", r"$'\x1b[31m\'\\'"),
        ("x\udcff", r"$'x\xff'"),
    ],
)
def test_file_names_are_shown_as_they_are_where_a_terminal_can(name, shown):
    assert printable(name) == shown
    assert printable(name).isprintable()


def test_file_names_can_be_pasted():
    assert shell_word("ab'c.txt") == "'ab'\"'\"'c.txt'"
    assert shell_word("a\nb") == r"$'a\nb'"
