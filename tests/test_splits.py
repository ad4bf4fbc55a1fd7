"""Splits that do not leak: against every possible cut, and against sets of groups and times."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmcli.errors import BadInputError, TransferError, UsageError
from fmcli.prepare import keyed
from fmcli.prepare.keyed import Source
from fmcli.prepare.rules import ByGroup, ByTime, LastOf, cuts, in_random_order
from fmcli.prepare.split import split, split_by
from fmcli.prepare.written import Written

SHARES = tuple(map(Fraction, (7, 2, 1)))


@pytest.fixture(params=[7, 1 << 14])
def chunks(request, monkeypatch):
    """Read rows in chunks of few rows, and in one."""
    monkeypatch.setattr(keyed, "CHUNK_ROWS", request.param)


@pytest.fixture
def table(tmp_path):
    """Write a table of users and times, and return its path and rows."""
    random = np.random.default_rng(5)
    rows = [(f"u{user}", int(time)) for user, time in random.integers((9, 60), size=(200, 2))]
    path = tmp_path / "t.csv"
    path.write_text("user,note,time\n" + "".join(f'{user},"a\nb",{time}\n' for user, time in rows))
    return str(path), rows


def parts_of(rule, source, outputs):
    found = [bytearray() for _ in range(outputs)]
    written = [Written(part.extend) for part in found]
    split_by(rule, source, written)
    for one in written:
        one.flush()
    return [part.decode() for part in found]


def rows_of(part):
    """Return the users and times of a part of the table, whose cells with a line break are whole."""
    header, *rows = part.replace('"a\nb"', "ab").splitlines()
    assert header == "user,note,time"
    return [(row.split(",")[0], int(row.split(",")[2])) for row in rows]


def test_cells_with_line_breaks_stay_whole_in_random_parts(table):
    path, rows = table
    found = [bytearray(), bytearray()]
    written = [Written(part.extend) for part in found]
    split(Source(path, header=True), written, SHARES[:2], seed=1)
    for one in written:
        one.flush()
    first, second = (rows_of(part.decode()) for part in found)
    assert sorted(first + second) == sorted(rows)
    assert len(first) == len(rows) * 7 // 9


@given(st.lists(st.integers(0, 9), min_size=2, max_size=40), st.integers(1, 9))
def test_a_cut_is_the_nearest_one_between_different_keys(keys, share):
    keys = np.sort(keys)
    possible = [at for at in range(1, len(keys)) if keys[at - 1] < keys[at]]
    shares = (Fraction(share), Fraction(10 - share))
    if not possible:
        with pytest.raises(BadInputError, match="too few different times for 2 outputs"):
            cuts(keys, shares, "times")
        return
    (found,) = cuts(keys, shares, "times")
    wanted = len(keys) * Fraction(share, 10)
    assert found in possible
    assert abs(found - wanted) == min(abs(at - wanted) for at in possible)


@given(st.lists(st.integers(0, 9), min_size=3, max_size=40))
def test_every_part_has_keys_if_there_are_enough(keys):
    keys = np.sort(keys)
    if len(np.unique(keys)) < len(SHARES):
        with pytest.raises(BadInputError, match="for 3 outputs"):
            cuts(keys, SHARES, "groups")
        return
    first, second = cuts(keys, SHARES, "groups")
    assert 0 < first < second < len(keys)
    assert keys[first - 1] < keys[first]
    assert keys[second - 1] < keys[second]


@pytest.mark.usefixtures("chunks")
def test_no_time_is_before_a_time_of_an_earlier_part(table):
    path, rows = table
    parts = [rows_of(part) for part in parts_of(ByTime(SHARES), Source(path, time="time"), 3)]
    assert sorted(row for part in parts for row in part) == sorted(rows)
    assert max(time for _, time in parts[0]) < min(time for _, time in parts[1])
    assert max(time for _, time in parts[1]) < min(time for _, time in parts[2])
    assert [round(len(part) / 20) for part in parts] == [7, 2, 1]


@pytest.mark.usefixtures("chunks")
def test_no_group_is_in_two_parts(table):
    path, rows = table
    splits = [
        [rows_of(part) for part in parts_of(ByGroup((Fraction(2), Fraction(1)), seed), Source(path, group="user"), 2)]
        for seed in (0, 0, *range(1, 6))
    ]
    largest = max(sum(user == one for user, _ in rows) for one, _ in rows)
    for parts in splits:
        assert sorted(row for part in parts for row in part) == sorted(rows)
        assert not {user for user, _ in parts[0]} & {user for user, _ in parts[1]}
        assert abs(len(parts[0]) - 2 / 3 * len(rows)) <= largest / 2
    assert splits[0] == splits[1]
    assert len({frozenset(user for user, _ in parts[1]) for parts in splits}) > 2


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("time", ["time", None])
def test_the_last_rows_of_each_group(table, time):
    path, rows = table
    rule = LastOf(20)
    first, second = (rows_of(part) for part in parts_of(rule, Source(path, "user", time), 2))
    whole = 0
    for user in {user for user, _ in rows}:
        of_user = [(t if time else at, t) for at, (one, t) in enumerate(rows) if one == user]
        limit = sorted(of_user)[max(0, len(of_user) - 20)][0]
        last = [t for key, t in of_user if key >= limit]
        last = [] if len(last) == len(of_user) else last
        whole += not last
        assert [t for one, t in second if one == user] == last
        assert len([t for one, t in first if one == user]) == len(of_user) - len(last)
    assert rule.whole == whole > 0


def test_rows_of_text_are_split_by_query_field_and_order(tmp_path):
    ranked = [f"{n % 2} qid:{n % 6} {n + 1}:1" for n in range(60)]
    (tmp_path / "q").write_text("# note\n" + "\n\n".join(ranked))
    parts = parts_of(ByGroup((Fraction(1), Fraction(1)), 0), Source(str(tmp_path / "q"), "qid"), 2)
    queries = [{line.split()[1] for line in part.splitlines()} for part in parts]
    assert [len(found) for found in queries] == [3, 3]
    assert not queries[0] & queries[1]
    seen = [f"{n % 2} 0:u{n % 5}:1 1:{n}:1" for n in range(60)]
    (tmp_path / "f").write_text("\r\n".join(seen))
    first, second = (part.splitlines() for part in parts_of(LastOf(2), Source(str(tmp_path / "f"), "0"), 2))
    assert (first, second) == (seen[:50], seen[50:])
    parts = parts_of(ByTime(SHARES[:2]), Source(str(tmp_path / "q"), time="qid"), 2)
    assert [{line.split()[1] for line in part.splitlines()} for part in parts] == [
        {f"qid:{n}" for n in range(5)},
        {"qid:5"},
    ]
    parts = parts_of(ByTime(SHARES), Source(str(tmp_path / "f")), 3)
    assert [part.splitlines() for part in parts] == [seen[:42], seen[42:54], seen[54:]]


def test_times_may_be_dates(tmp_path):
    times = ["1997-09-20", "1997-09-20T00:00:01Z", "1997-09-21 05:00:00+06:00", "1997-09-21"]
    (tmp_path / "t.csv").write_text("id,at\n" + "".join(f"{n},{times[n]}\n" for n in (3, 2, 1, 0)))
    parts = parts_of(ByTime((Fraction(1),) * 4), Source(str(tmp_path / "t.csv"), time="at"), 4)
    assert [part.splitlines()[1][0] for part in parts] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "of", "message"),
    [
        ("id,at\n1,\n", {"time": "at"}, "t:2:3: found '', expected a number, or a date and time in the column 'at'"),
        ("id,at\n1,5\n2,later\n", {"time": "at"}, "t:3:3: found 'later', expected a number in the column 'at'"),
        ("id,at\n1,5\n2,nan\n", {"time": "at"}, "t:3:3: found 'nan', expected a number in the column 'at'"),
        ("id,at\n1,5\n", {"group": "od"}, "there is no column 'od'; did you mean id?"),
        ("7,5\n1,5\n", {"group": "user"}, "t:1: found 7, 5 as the names of columns; the table has no header"),
        ("1 0:1:1\n0 1:1:1\n", {"group": "0"}, "t:2:1: found '0', expected one feature in the field of the groups"),
        ("1 qid:1 1:1\n0 1:1\n", {"group": "qid"}, "t:2:1: found '0', expected label qid:number"),
    ],
)
def test_rows_without_a_key(tmp_path, monkeypatch, text, of, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text(text)
    with pytest.raises(BadInputError) as error:
        parts_of(ByTime((Fraction(1), Fraction(1))), Source("t", **of), 2)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"time": "at"}, "have times by qid, or by"),
        ({"group": "user"}, "have groups by qid, or by"),
        ({"group": "0", "time": "1"}, "leave out the time '1'"),
    ],
)
def test_text_has_neither_columns_nor_times(tmp_path, of, message):
    (tmp_path / "t").write_text("1 1:1\n0 2:1\n")
    with pytest.raises(UsageError, match=message):
        parts_of(ByTime((Fraction(1), Fraction(1))), Source(str(tmp_path / "t"), **of), 2)


def test_a_file_that_grows_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "t"
    path.write_text("1 1:1\n0 2:1\n")
    learn = ByTime.learn

    def growing(self, keys):
        learn(self, keys)
        path.write_text("1 1:1\n0 2:1\n1 3:1\n")

    monkeypatch.setattr(ByTime, "learn", growing)
    with pytest.raises(TransferError, match="changed while it was read, from 2 to 3 rows"):
        parts_of(ByTime((Fraction(1), Fraction(1))), Source(str(path)), 2)


def test_groups_that_differ_have_different_random_numbers():
    groups = np.concatenate([np.arange(-500, 500), np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000)])
    assert len(np.unique(in_random_order(groups, 3))) == len(np.unique(groups))
    assert not np.array_equal(np.argsort(in_random_order(groups, 3)), np.argsort(in_random_order(groups, 4)))


def test_only_groups_with_earlier_rows_can_be_split(tmp_path):
    (tmp_path / "t.csv").write_text("user,at\nann,1\nbob,2\n")
    with pytest.raises(BadInputError, match="no group has rows of a time before its last 1"):
        parts_of(LastOf(1), Source(str(tmp_path / "t.csv"), "user"), 2)
