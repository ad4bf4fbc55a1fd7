"""Groups of rows: how they are read, and that they are kept with the rows."""

import re

import numpy as np
import pytest
from texts import write

from fmcli.data.column_values import scaled
from fmcli.data.dataset import Dataset
from fmcli.data.text import formats, reader
from fmcli.errors import BadInputError


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "train.svm")


@pytest.mark.parametrize("threads", [1, 3])
def test_groups_are_those_of_queries(path, threads, monkeypatch):
    queries = [7, 2**63 - 1, 7, 0, 7, 2**63 - 1] * 50
    text = b"".join(b"# note\n\n%d qid:%d %d:1\n" % (i % 2, query, i) for i, query in enumerate(queries))
    monkeypatch.setattr(formats, "BUFFER_BYTES", 100)
    rows = reader.read([write(path, text)], threads=threads, row_groups=reader.RowGroups())
    assert rows.dataset.group.dtype == np.int32
    np.testing.assert_array_equal(rows.dataset.group, np.unique(queries, return_inverse=True)[1])
    assert reader.read([path]).dataset.group is None


@pytest.mark.parametrize("keep_fields", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_groups_are_those_of_a_field(path, threads, keep_fields, monkeypatch):
    """The features of the field may be numbers and names, in any place of a row; features of value 0 do not count."""
    users = [b"7", b"7", b"+07", b"ann", b"8", b"ann", b"\xc3\xa9", b"9000000000"] * 40
    form = b"1 0:%d:1 2:%b:0.5 1:7:1\n1 2:4:0 2:%b:1\n"
    text = b"".join(form % (i, user, user) for i, user in enumerate(users))
    monkeypatch.setattr(formats, "BUFFER_BYTES", 99)
    how = {"threads": threads, "keep_fields": keep_fields, "row_groups": reader.RowGroups(2)}
    group = reader.read([write(path, text)], **how).dataset.group
    known = {b"+07": b"7"}
    expected = np.repeat([known.get(user, user) for user in users], 2)
    np.testing.assert_array_equal(group[:, None] == group, expected[:, None] == expected)


def test_the_groups_of_a_subset_of_rows_and_columns():
    rows = Dataset(
        np.array([0, 1, 2, 4]), np.array([0, 1, 0, 2], np.int32), None, np.zeros(3), 3, group=np.array([4, 9, 4])
    )
    assert rows.take(np.array([2, 1], np.int32)).group.tolist() == [4, 9]
    for same in (
        rows.within(2),
        rows.compacted(),
        scaled(rows, np.ones(3, np.float32)),
        rows.changed(label=np.ones(3)),
    ):
        assert same.group.tolist() == [4, 9, 4]
    assert any(array is rows.group for array in rows.arrays)
    with pytest.raises(ValueError, match="group has 2 entries, but 3 are needed"):
        rows.changed(group=np.zeros(2, np.int32))


GROUPLESS = {
    (b"1 qid:1 1:1\n0 2:1\n", None): ":2:1: found '0', expected label qid:number; the row has no query number",
    (b"1 qid:1 1:1\n0\n", None): ":2:1: found '0', expected label qid:number; the row has no query number",
    (b"1 1:1\n0 qid:1 2:1\n", None): ": ranking and held-out groups need to know which rows belong together",
    (b"1 qid:1 1:1\n", 0): ": found libsvm text, whose features have no fields",
    (b"1 1:2:3\n0 0:2:3\n", 1): ":2:1: found '0', expected one feature in the field of the groups; the row has none",
    (b"1 1:2:3 1:2:3\n", 1): ":1:9: found '1:2:3', expected one feature in the field of the groups; the row has a",
    (b"1 1:2:x\n", 1): ":1:3: found '1:2:x', expected field:index:value; value 'x' is not a number",
}


@pytest.mark.parametrize(("text", "field"), GROUPLESS)
def test_rows_without_groups(path, text, field):
    with pytest.raises(BadInputError, match=re.escape(GROUPLESS[text, field])):
        reader.read([write(path, text)], row_groups=reader.RowGroups(field))
    if field is None and text.startswith(b"1 1"):
        assert reader.read([path], row_groups=reader.RowGroups(optional=True)).dataset.group is None
