"""Lines that cannot be read: formats that are given by mistake, and lines that are skipped."""

import re

import numpy as np
import pytest
from texts import write

from fmcli.data.text import formats, reader, sources
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.faults import BadLines
from fmcli.errors import BadInputError

OTHER_FORMATS = {
    b"label,age,height\n1,0.5,3\n": "1:1: found 'label,age,height', expected a label; the line looks like CSV;",
    b"1;0.5;3\n": "the line looks like CSV;",
    b"1 1:2 4:1\n1,5:x\n": "2:1: found '1,5:x', expected ",
    b"1,5 1:2 3:4\n": "found '1,5', expected a label; the line looks like libsvm text with several labels per row",
    b"1\t0.5\t3\n": "1:3: found '0.5', expected index:value; the line looks like a table separated by tabs;",
    b"1 0.5 -3e1 4\n": "the line looks like a table of numbers without indices,",
    b"1 |f a:1 b\n": "the line looks like text of Vowpal Wabbit,",
    b"1 2.0 'tag|f a:1 b\n": "the line looks like text of Vowpal Wabbit,",
    b"| a b\n": "the line looks like text of Vowpal Wabbit,",
    b'{"label": 1, "x": [1, 2]}\n': "the line looks like JSON,",
    b"[1, 2]\n": "the line looks like JSON,",
    b"<!DOCTYPE html>\n": "the line looks like HTML or XML,",
    b"@RELATION iris\n": "the line looks like ARFF,",
    b"rows.svm".ljust(257, b"\0") + b"ustar  \0root\n": "the file looks like a tar archive,",
    b"PK\x03\x04\x14\0\0\0\x08\0": "it is a zip archive, not libsvm or ffm text; unpack it first",
    b"\xff\xfe1\0 \x001\0:\x001\0\n\0": "it is UTF-16 text, not libsvm or ffm text; convert it to UTF-8",
    b'\x38\x0a\0\0\0\0\0\0{"__metadata__":': "it is a model file, not rows in libsvm or ffm text",
}


# Tables, by what the message says about them.
TABLES = {
    b"user,film,rating\n1,2,5\n": "CSV",
    b"196\t242\t3\n": "a table separated by tabs",
    b"1|24|M|technician|85711\n": "a table separated by |",
    b"1|Toy Story (1995)|01-Jan-1995||http://imdb.com|0\n": "a table separated by |",
    b"user id|age group\n": "a table separated by |",
    b"1::1193::5::978300760\n": "a table separated by ::",
    b'{"user": 1, "film": 2}\n': "JSON",
}


@pytest.mark.parametrize(("text", "name"), TABLES.items())
def test_the_way_from_a_table_to_rows_is_named(path, text, name):
    with pytest.raises(BadInputError, match=re.escape(name) + ".*fmcli train --label COLUMN"):
        reader.read([write(path, text)])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("text", "message"), OTHER_FORMATS.items())
def test_other_formats_are_named(path, text, message, training):
    write(path, text)
    read = reader.read if training else lambda paths: list(score_chunks(paths, str, Columns(9)))
    with pytest.raises(BadInputError) as caught:
        read([path])
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [b"1 1:0,5 2:1\n", b"1 3:1|2\n", b"1 1:2 [3:4]\n", b"1 2\n", b"1 1:2\t3\n"])
def test_text_with_a_wrong_token_is_not_another_format(path, text):
    with pytest.raises(BadInputError, match=r"1:[1-7]: found '[^']*', expected [^;]*; (?!the line looks)"):
        reader.read([write(path, text)])


@pytest.mark.parametrize("threads", [1, 3])
def test_the_length_of_a_line_is_limited(path, monkeypatch, threads):
    monkeypatch.setattr(sources, "LONGEST_LINE", 1 << 12)
    monkeypatch.setattr(formats, "BUFFER_BYTES", 1 << 10)
    longest = b"1" + b" 1:1" * 1000
    assert reader.read([write(path, b"0 2:1\n" * 300 + longest + b"\n")], threads=threads).dataset.rows == 301
    for before in (0, 1, 300):
        write(path, b"0 2:1\n" * before + 5 * longest)
        with pytest.raises(BadInputError, match=f"^{re.escape(str(path))}:{before + 1}: the line is longer"):
            reader.read([path], threads=threads)


TEXT = b"".join(b"1 1:x\n" if i % 7 == 3 else b"0 2:1 1:1\n" for i in range(1000))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_ten_bad_lines_are_told(path, monkeypatch, threads):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 100)
    told = []
    bad = BadLines(True, None, told.append)
    table = reader.read([write(path, TEXT), path], threads=threads, bad=bad)
    wrong = [line for line in range(1, 1001) if (line - 1) % 7 == 3]
    assert bad.count == 2 * len(wrong)
    assert table.dataset.rows == 2 * (1000 - len(wrong))
    assert [message.split(": ")[0] for message in told] == [f"{path}:{line}:3" for line in wrong[:10]]
    assert told[0].endswith("value 'x' is not a number; the line is skipped")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("most", "where"), [(0, ":4:3: "), (2, ":18:3: "), (60, ": "), (142, ":998:3: "), (143, None)])
def test_only_so_many_lines_may_be_bad(path, monkeypatch, threads, most, where):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 1000)
    told = []
    bad = BadLines(True, most, told.append)
    write(path, TEXT)
    if where is None:
        assert reader.read([path], threads=threads, bad=bad).dataset.rows == 857
        return
    with pytest.raises(
        BadInputError, match=f"^{re.escape(path)}{where}.*number of lines with errors exceeds {most}"
    ) as caught:
        reader.read([path], threads=threads, bad=bad)
    assert caught.value.options == {"max_bad_lines": None}
    assert len(told) == min(most, 10)


def test_a_file_of_bad_lines_has_no_rows(path):
    with pytest.raises(BadInputError, match="the file has no rows but 3 lines with errors"):
        reader.read([write(path, b"1,2:3\n" * 3)], bad=BadLines(True))


def test_the_last_valued_row_may_be_bad(path, monkeypatch):
    """Threads append rows of a buffer whose only values are in a line that is skipped."""
    monkeypatch.setattr(formats, "BUFFER_BYTES", 24)
    text = b"1 1:2 3:1\n0 2:1 3:1\n" + b"1 1:1 2:1\n0 1:5 2:x\n" * 50
    table = reader.read([write(path, text)], threads=3, bad=BadLines(True))
    assert table.dataset.value.tolist() == [2, 1, 1, 1] + [1, 1] * 50


def test_rows_stand_for_skipped_lines(path, monkeypatch):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 1000)
    found, rows = [], 0
    for chunk in score_chunks([write(path, TEXT)], lambda piece: piece.skipped, Columns(5), bad=BadLines(True)):
        found.extend((chunk.result + rows).tolist())
        rows += chunk.rows
    assert (rows, found) == (1000, np.arange(3, 1000, 7).tolist())
