"""Extents of files: each line is read once, in the extent in which it begins, and messages have its number in the
file."""

import pickle
import random
from contextlib import suppress

import pytest

from fmcli.data.tables.reading import TableSource
from fmcli.data.tables.schema import Schema
from fmcli.data.text import sources
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.faults import BadLines
from fmcli.data.text.line_counter import LineCounter, Record, StoppedError
from fmcli.data.text.sources import FileRange, buffers, extents
from fmcli.errors import BadInputError, MissingInputError, TransferError

TEXTS = {
    "lines of several lengths": b"".join(b"%d %d:1\n" % (i % 2, 10**j) for i in range(9) for j in range(4)),
    "no line break at the end": b"1 1:1\n0 2:1\n1 3:1",
    "blank lines": b"\n\n1 1:1\n\n\n\n0 2:1\n\n",
    "a line that is longer than all extents": b"1 1:1\n1" + b" 2:1" * 40 + b"\n0 3:1\n",
    "a byte order mark": b"\xef\xbb\xbf1 1:1\n0 1:1\n",
}


def lines_of(inputs, size=1 << 20):
    found = []
    for buffer in buffers(inputs, [], size):
        found += bytes(buffer.data[buffer.start : buffer.stop]).split(b"\n")[:-1]
    return found


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_parts_have_the_lines_of_the_file(path, name, size):
    with open(path, "wb") as file:
        file.write(TEXTS[name])
    found = extents(path, size)
    assert len(found) == -(-len(TEXTS[name]) // size)
    pieces = [lines_of([extent]) for extent in found]
    assert [line for lines in pieces for line in lines] == lines_of([path])
    assert [lines_of([extent], 8) for extent in found] == pieces  # with buffers that are smaller than lines


def test_the_first_and_the_last_buffer_of_a_file(path):
    with open(path, "wb") as file:
        file.write(b"1 1:1\n" * 10)
    ends = [(buffer.first, buffer.last) for buffer in buffers(extents(path, 20), [], 1 << 20)]
    assert ends == [(True, False), (False, False), (False, True)]


def test_what_is_one_extent(tmp_path, path):
    import gzip

    with gzip.open(path, "wb") as file:
        file.write(bytes(range(256)))
    assert extents(path, 10) == [FileRange(path)]
    (tmp_path / "empty").touch()
    assert extents(str(tmp_path / "empty"), 10) == [FileRange(str(tmp_path / "empty"))]
    with pytest.raises(MissingInputError):
        extents(str(tmp_path / "none"), 10)


def test_a_file_that_changed(path):
    with open(path, "wb") as file:
        file.write(b"1 1:1\n" * 10)
    second = extents(path, 20)[1]
    with open(path, "ab") as file:
        file.write(b"1 1:1\n")
    with pytest.raises(TransferError, match="has 66 bytes here, but 60 when"):
        lines_of([second])


def told(inputs, bad, labeled=False):
    """The messages about lines, and the number of bad lines unless there is an error: of whole files, or of extents
    whose
    records a counter takes."""
    messages = []
    bad = BadLines(bad.skip, bad.most, messages.append)
    counter = LineCounter(bad, blank_is_row=not labeled)
    how = {"columns": Columns(100), "format": "libsvm", "labeled": labeled}
    try:
        for extent in inputs:
            if isinstance(extent, str):
                list(score_chunks([extent], str, **how, counter=counter))
                continue
            record, failed = Record(bad.skip, not labeled), None
            try:
                with suppress(StoppedError):
                    list(score_chunks([extent], str, **how, counter=record))
            except BadInputError as error:
                failed = pickle.loads(pickle.dumps(error))
            if error := counter.error_in(extent.path, record.reports, failed):
                raise error
    except BadInputError as error:
        return [*messages, str(error)], None
    return messages, bad.count


@pytest.mark.parametrize("size", [1, 40, 333])
@pytest.mark.parametrize("bad", [BadLines(), BadLines(True), BadLines(True, 3)], ids=["stop", "skip", "most"])
def test_messages_have_the_number_of_the_line_in_its_file(tmp_path, size, bad):
    names = []
    for number in range(2):
        rows = [b"1 1:1 2:%d" % i for i in range(60)]
        for line in (11, 12, 30, 44, 59):
            rows[line] = b"1 1:1 %d:x" % line
        names.append(str(tmp_path / f"f{number}"))
        (tmp_path / names[-1]).write_bytes(b"\n".join(rows))
    whole = told(names, bad)
    assert "f0:12:" in whole[0][0]
    assert told([extent for name in names for extent in extents(name, size)], bad) == whole


@pytest.mark.parametrize("text", [b"# nothing\n" * 9, b"1 1:x\n" * 9])
def test_a_file_without_rows(path, text):
    with open(path, "wb") as file:
        file.write(text)
    expected = told([path], BadLines(True), labeled=True)
    assert "the file has no rows" in expected[0][-1]
    assert told(extents(path, 20), BadLines(True), labeled=True) == expected


def test_a_line_that_is_too_long(path, monkeypatch):
    monkeypatch.setattr(sources, "LONGEST_LINE", 3000)
    monkeypatch.setattr("fmcli.data.text.formats.BUFFER_BYTES", 500)
    with open(path, "wb") as file:
        file.write(b"1 1:1\n" * 700 + b"1" + b" 1:1" * 2000 + b"\n" + b"1 1:1\n" * 9)
    (message,) = told([path], BadLines())[0]
    assert f"{path}:701: the line is longer" in message
    assert told(extents(path, 900), BadLines())[0] == [message]


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_extents_of_a_table_begin_with_rows(tmp_path, delimiter):
    rng, path = random.Random(5), tmp_path / "t.csv"
    cells = ["a", "12", '"x,y"', '"\n\n"', '"1 ""\n"" 2"', '"""\n"'] if delimiter == "," else ["a", '"', '12""', ""]
    rows = [delimiter.join(rng.choices(cells, k=3)) + "\n" for _ in range(60)]
    text = "".join(["\n\n", delimiter.join(["one", "two", "three"]) + "\n", *rows])
    path.write_text(text)
    starts = {len(text) - sum(map(len, rows[at:])) for at in range(60)}
    table = TableSource.of(str(path), Schema({"one": "category"}), fields=False)
    for size in (1, 7, 40, 300):
        found = extents(table, size)
        assert {one.start for one in found[1:]} <= starts
        assert [one.start for one in found[1:]] == [one.stop for one in found[:-1]]
        assert len(found) > 0.8 * min(len(text) / max(size, 12), 60)
        pieces = [bytes(buffer.data[buffer.start : buffer.stop]) for buffer in buffers(found, [], 1 << 20)]
        assert b"".join(pieces).decode() == text
    assert {one.start for one in extents(table, 1)[1:]} >= starts - {min(starts)}
