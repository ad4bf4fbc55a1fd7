"""The sample files agree with their README."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

FOLDER = Path(__file__).resolve().parent.parent / "sample_data"


def lines(name: str) -> list[list[str]]:
    return [line.split(" ") for line in (FOLDER / name).read_text().splitlines()]


@pytest.mark.parametrize(("part", "rows"), [("train", 2500), ("test", 1500)])
def test_adult_holds_the_same_rows_in_both_formats(part, rows):
    libsvm, ffm = lines(f"adult.{part}.libsvm"), lines(f"adult.{part}.ffm")
    assert len(libsvm) == len(ffm) == rows
    for plain, with_fields in zip(libsvm, ffm, strict=True):
        assert plain == [with_fields[0]] + [entry.split(":", 1)[1] for entry in with_fields[1:]]


@pytest.mark.parametrize("part", ["train", "test"])
def test_the_table_of_adult_has_the_same_rows(part):
    header, *rows = [line.split(",") for line in (FOLDER / f"adult.{part}.csv").read_text().splitlines()]
    fields = dict(zip(header, [0, 1, 3, 5, 6, 9, 12], strict=False))
    columns = {name: {} for name in fields}
    for row, (label, *entries) in zip(rows, lines(f"adult.{part}.ffm"), strict=True):
        cells, numbers = dict(zip(header, row, strict=True)), dict(map(int, entry.split(":")[:2]) for entry in entries)
        assert cells["income"] == (">50K" if label == "1" else "<=50K")
        for name, field in fields.items():
            assert columns[name].setdefault(numbers.get(field), cells[name]) == cells[name]
            assert (cells[name] == "") == (field not in numbers)
    assert all(len(set(names.values())) == len(names) for names in columns.values())


def test_columns_of_adult_belong_to_the_fields_of_the_readme():
    last = [4, 12, 17, 33, 38, 45, 59, 65, 70, 72, 74, 76, 81, 122]
    for part in ("train", "test"):
        rows = lines(f"adult.{part}.ffm")
        assert {label for label, *_ in rows} == {"-1", "1"}
        for _, *entries in rows:
            fields, columns, values = zip(*(map(int, entry.split(":")) for entry in entries), strict=True)
            assert list(fields) == sorted(set(fields))
            assert list(fields) == [next(f for f, end in enumerate(last) if column <= end) for column in columns]
            assert set(values) == {1}


def test_diabetes_is_the_standardized_data():
    x, y = load_diabetes(return_X_y=True, scaled=False)
    order = np.random.default_rng(0).permutation(442)
    train, test = np.sort(order[:331]), np.sort(order[331:])
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    for part, chosen in (("train", train), ("test", test)):
        rows = lines(f"diabetes.{part}.libsvm")
        np.testing.assert_array_equal([float(label) for label, *_ in rows], y[chosen])
        entries = np.array([[[float(n) for n in entry.split(":")] for entry in row[1:]] for row in rows])
        assert (entries[:, :, 0] == np.arange(10)).all()
        np.testing.assert_allclose(entries[:, :, 1], x[chosen], rtol=1e-5)


def test_all_files_are_small_and_named_in_the_readme():
    names = sorted(path.name for path in FOLDER.iterdir())
    assert sum((FOLDER / name).stat().st_size for name in names) < 1_000_000
    text = (FOLDER / "README.md").read_text()
    for name in names:
        stem, _, rest = name.partition(".")
        assert rest == "md" or f"`{stem}.{{train,test}}.{rest.partition('.')[2]}`" in text
