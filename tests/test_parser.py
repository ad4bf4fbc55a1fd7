"""The text parser: compared with a slow parser and with the C library's numbers, for every split into buffers, and for
the position of every error."""

import bz2
import gzip
import io
import lzma
import math
import os
import random
import re
import sys
import threading
import types
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from texts import write

from fmcli.cli.flags import with_flags
from fmcli.data.dictionary import Dictionary
from fmcli.data.file_formats import format_in
from fmcli.data.labels import NUMBERS
from fmcli.data.text import formats, reader
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.faults import BadLines
from fmcli.data.text.parser import PADDING, Rows
from fmcli.data.text.workers import BUFFERS_AHEAD
from fmcli.errors import BadInputError, MissingInputError, NotEnoughMemoryError, TransferError
from fmcli.system import memory, mistaken
from reference import slow_parser

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT = 1000


@pytest.fixture(autouse=True)
def demands(monkeypatch):
    """Replace the memory check by a list of the requested amounts and purposes."""
    asked = []
    for name in "require", "require_if_large":
        monkeypatch.setattr(memory, name, lambda needed, purpose, *, held=0: asked.append((needed, purpose)))
    return asked


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One file, overwritten by all examples of a test."""
    return str(tmp_path_factory.mktemp("text") / "train.svm")


def read_all(path, text, *, training, limit=LIMIT, buffer=1 << 20, **how):
    """Parse a text and return the result in the form of the slow parser."""
    write(path, text)
    rows = slow_parser.Rows()

    def add(dataset):
        labels = dataset.label if dataset.label is not None else np.full(dataset.rows, np.nan)
        rows.labels.extend(labels.tolist())
        value = np.ones(dataset.nnz, np.float32) if dataset.value is None else dataset.value
        field = np.zeros(dataset.nnz, np.int32) if dataset.field is None else dataset.field
        entries = list(zip(dataset.index.tolist(), field.tolist(), value.tolist(), strict=True))
        rows.entries.extend(entries[a:b] for a, b in zip(dataset.indptr, dataset.indptr[1:], strict=False))
        assert dataset.value is None or dataset.nnz == 0 or (dataset.value != 1).any()

    saved, formats.BUFFER_BYTES = formats.BUFFER_BYTES, buffer
    try:
        if training:
            table = reader.read([path], **{"labels": NUMBERS, **how})
            add(table.dataset)
            assert table.bytes == len(text.removeprefix(b"\xef\xbb\xbf"))
            rows.ids = written(table.dataset.numbering)
            rows.features, rows.fields, rows.repeated = table.dataset.features, table.fields, table.repeated_rows
        else:
            pieces = score_chunks([path], lambda piece: piece.data, Columns(limit), **how)
            for piece in pieces:
                add(piece.result)
                assert (piece.rows, piece.nnz) == (piece.result.rows, piece.result.nnz)
                assert (piece.labeled == 0) == (piece.result.label is None)
                rows.comments += piece.comments
                rows.unseen += piece.unseen
                rows.repeated += piece.repeated_rows
    finally:
        formats.BUFFER_BYTES = saved
    return rows


def bits(values):
    return np.asarray(values, np.float64).tobytes()


def written(numbering):
    """The ids of columns, if there is a dictionary."""
    if not isinstance(numbering, Dictionary):
        return None
    starts = [0, *numbering.ends.tolist()]
    text = numbering.text.tobytes()
    return [*numbering.numbers.tolist(), *(text[start:end] for start, end in pairwise(starts))]


def agree(path, text, *, ffm, keep_fields, training, limit=LIMIT, skip=False, **how):
    """Check that both parsers return bit-identical rows or an error at the same line and column. With `skip`, the first
    such errors are told, and lines with errors are like blank lines."""
    form = "ffm" if ffm else "libsvm"
    keep_fields = keep_fields and ffm
    options = {"ffm": ffm, "keep_fields": keep_fields, "training": training, "limit": limit}
    told = []
    bad = BadLines(skip, None, told.append)
    valid, wrong_lines = slow_parser.without_wrong_lines(text, **options) if skip else (text, [])
    how["bad"] = bad
    try:
        want = slow_parser.parse(valid, **options)
    except slow_parser.WrongError as wrong:
        line, column = wrong.at
        with pytest.raises(BadInputError, match="^" + re.escape(f"{path}:{line}:{column}: found ")):
            read_all(path, text, training=training, format=form, keep_fields=keep_fields, limit=limit, **how)
        return
    if not want.labels and training:
        with pytest.raises(BadInputError, match="has no rows"):
            read_all(path, text, training=training, format=form, keep_fields=keep_fields, limit=limit, **how)
        return
    got = read_all(path, text, training=training, format=form, keep_fields=keep_fields, limit=limit, **how)
    assert bits(got.labels) == bits(want.labels)
    assert got.entries == want.entries
    assert got.repeated == want.repeated
    assert bad.count == len(wrong_lines)
    expected = [f"{path}:{line}:{column}: found " for line, column in wrong_lines[:10]]
    assert [message[: len(start)] for message, start in zip(told, expected, strict=True)] == expected
    if training:
        assert (got.ids, got.features, got.fields) == (want.ids, want.features, want.fields)
    else:
        assert (got.comments, got.unseen) == (want.comments, want.unseen)


# Numbers


def float_texts():
    """Spellings of numbers in the range of a float: common ones, numbers exactly halfway between two floats and next to
    halfway, and very small ones."""

    def between(pair):
        x, nudge = pair
        a, b = np.float32(x), np.nextafter(np.float32(x), np.float32(np.inf))
        half = (Decimal(float(a)) + Decimal(float(b))) / 2
        return f"{half:f}" + ("" if "." in f"{half:f}" else ".0") + nudge

    normal = st.floats(width=32, allow_nan=False, allow_infinity=False)
    positive = st.floats(2.0**-20, 2.0**20, width=32)
    multiples = st.tuples(st.integers(1, 9), st.integers(60, 70)).map(lambda x: f"{x[0] << x[1]}")
    return st.one_of(
        multiples,
        st.sampled_from(["1", "1.0", "+1", "1e0", "0", "-0", "0.0", "1.", ".5", "-.5e+1", "00012", "1E2", "0e99999"]),
        st.integers(-(10**25), 10**25).map(str),
        st.floats(-1e30, 1e30).map(repr),
        normal.map(repr),
        normal.map(lambda x: f"{x:.6g}"),
        normal.map(lambda x: f"{x:+.17e}"),
        st.tuples(positive, st.sampled_from(["", "0000000001", "1", "000"])).map(between),
        st.floats(0, 1e-44).map(lambda x: f"{x:.25e}"),
        st.integers(0, 400).map(lambda n: "0." + "0" * n + "7"),
        st.integers(0, 30).map(lambda n: "0" * n + "3.25"),
        st.integers(1, 60).map(lambda n: "1" * n + "e-" + str(n)),
    )


def test_values_have_the_bits_of_strtof(path):
    rng = random.Random(3)
    texts = []
    for _ in range(20000):
        value = rng.choice([rng.random(), rng.gauss(0, 1), rng.uniform(-1e5, 1e5), 10 ** rng.uniform(-50, 38)])
        texts += [f"{value:.{rng.randint(1, 20)}g}", repr(value), repr(float(np.float32(value)))]
        digits = str(rng.randrange(10 ** rng.randint(1, 21)))
        texts.append(f"{digits}e{rng.randint(-30, 15)}")
    for _ in range(4000):
        # A float, and decimals with 17 to 19 digits around the halfway point to the next float.
        low = np.float32(rng.choice([rng.random(), 10 ** rng.uniform(-44, 37)]))
        half = (Decimal(float(low)) + Decimal(float(np.nextafter(low, np.float32(np.inf))))) / 2
        texts += [f"{half:.{digits}e}" for digits in (6, 8, 15, 16, 17, 18, 60)] + [f"{half:f}", f"{half:f}1"]
    texts = [text + ("" if set(text) & set(".e") else ".0") for text in texts]
    table = reader.read([write(path, "\n".join(f"0 1:0.5 3:{text}" for text in texts).encode())])
    got = np.zeros(len(texts), np.float32)  # an entry that rounds to 0 is not stored
    stored = table.dataset.index == 3
    got[np.flatnonzero(np.diff(table.dataset.indptr) == 2)] = table.dataset.value[stored]
    want = [slow_parser.LIBC.strtof(text.encode(), None) for text in texts]
    differ = [(text, got[i], want[i]) for i, text in enumerate(texts) if got[i] != want[i]]
    assert not differ
    assert sum(0 < abs(x) < 1.17e-38 for x in want) > 100  # the texts include subnormal numbers
    assert want.count(0.0) > 10  # and numbers that underflow


def test_labels_have_the_bits_of_strtod(path):
    rng = random.Random(4)
    texts = [repr(rng.choice([rng.random(), rng.gauss(0, 1e5), 10 ** rng.uniform(-320, 308)])) for _ in range(20000)]
    texts += [f"{rng.random():.{rng.randint(1, 25)}f}" for _ in range(20000)]
    texts += ["9007199254740993", "9007199254740993e-3", "4.9e-324", "2.4e-324", "-1e-400", "1.7976931348623157e308"]
    table = reader.read([write(path, "\n".join(f"{text} 0:1" for text in texts).encode())])
    assert bits(table.dataset.label) == bits([slow_parser.LIBC.strtod(text.encode(), None) for text in texts])


# Rows


@st.composite
def rows_of_text(draw, ffm):
    """Valid rows in unusual spellings."""
    blank = st.sampled_from([" ", " ", " ", "  ", "\t", " \t ", "\r "])
    largest = draw(st.sampled_from([10, 2**31 - 2, 2**31 - 2, 2**63 - 1]))
    numbers = st.one_of(st.integers(0, 6), st.integers(0, largest))
    named = draw(st.sampled_from([0, 0, 1, 10]))  # of ten ids
    names = st.sampled_from(
        [
            *("a", "b", "ab", "user=alice", "c#", "-", "é", "1a", "nan", "0x1", "9" * 19, "x:y", "longer-name"),
            *("\x01", "a\x1fb:\0c", "site=example.com/\x7f", "1234567\x02:é:longer-name"),
        ]
    )
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["row", "row", "row", "row", "blank", "comment", "label only"]))
        if kind == "blank":
            lines.append(draw(st.sampled_from(["", " ", "\t\t", "\r"])))
            continue
        if kind == "comment":
            lines.append(draw(st.sampled_from(["#", " # 1 2:3", "#1:1", "\t#\0junk:x"])))
            continue
        words = [draw(st.sampled_from(["", ""]) if draw(st.booleans()) else float_texts())]
        if not words[0]:
            words = [draw(st.sampled_from(["0", "1", "-1", "+1", "3.5"]))]
        if draw(st.integers(0, 5)) == 0:
            words.append(f"qid:{draw(st.integers(0, 2**63 - 1))}")
        for _ in range(0 if kind == "label only" else draw(st.integers(1, 7))):
            index = draw(numbers)
            index = draw(st.sampled_from([f"{index}", f"{index}", f"0{index}", f"+{index}"]))
            index = draw(names) if draw(st.integers(0, 9)) < named else index
            value = draw(st.one_of(st.just("1"), float_texts()))
            words.append((f"{draw(st.integers(0, 3))}:" if ffm else "") + f"{index}:{value}")
        if draw(st.integers(0, 5)) == 0:
            words.append(draw(st.sampled_from(["#", "# 1:x", "#\0 a"])))
        line = draw(st.sampled_from(["", "", " ", "\t"]))
        for word in words:
            line += word + draw(blank)
        lines.append(line.rstrip(" \t\r") + draw(st.sampled_from(["", "", " ", "\r", " \t\r"])))
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\r\n"]))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


HOW = {
    "keep_fields": st.booleans(),
    "training": st.booleans(),
    "skip": st.booleans(),
    "threads": st.sampled_from([1, 3]),
    "buffer": st.sampled_from([1, 2, 7, 30, 1 << 20]),
}


@given(text=rows_of_text(ffm=False), **HOW)
@example(text=b"1 5:3e38 5:3e38 6:1", keep_fields=False, training=True, skip=False, threads=1, buffer=9)
@example(text=b"1 0:18446744073709551616", keep_fields=False, training=True, skip=False, threads=1, buffer=9)
@example(text=b"1 5:2 3:0.5 5:-2 3:0.5", keep_fields=False, training=True, skip=False, threads=1, buffer=9)
def test_libsvm_rows(path, text, **how):
    agree(path, text, ffm=False, **how)


@given(text=rows_of_text(ffm=True), **HOW)
@example(text=b"1 1:5:2 0:5:3 1:5:4 0:2:1", keep_fields=True, training=True, skip=False, threads=1, buffer=9)
def test_ffm_rows(path, text, **how):
    agree(path, text, ffm=True, **how)


@given(
    text=st.one_of(
        st.binary(max_size=80),
        st.text("0123 \t\r\n:#.eE+-qidnafx\0", max_size=60).map(str.encode),
        st.lists(st.sampled_from(["0", "1", " 1:", ":", ".", "e-", "a", ",", ";", "\u00a0", " "]), max_size=20).map(
            lambda parts: ("1 1:1 " + "".join(parts)).encode()
        ),
        st.lists(st.sampled_from([b"1", b" ", b"1:1", b"\n", b"qid:3", b"2:3:4", b"#", b"-1", b"e5"]), max_size=12).map(
            b"".join
        ),
    ),
    ffm=st.booleans(),
    **HOW,
)
@example(text=b"\xef\xbb\xbf", ffm=False, keep_fields=False, training=False, skip=False, threads=1, buffer=1)
def test_junk_is_refused_where_the_slow_parser_refuses_it(path, text, **how):
    assume(not ((form := format_in(text)) and form.opener))  # which another reader takes
    if looks_binary(text):
        with pytest.raises(BadInputError):
            reader.read([write(path, text)])
    else:
        agree(path, text, **how)


@given(
    changed=st.booleans().flatmap(lambda ffm: st.tuples(st.just(ffm), rows_of_text(ffm))),
    places=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=2)), min_size=1, max_size=3),
    **HOW,
)
def test_changed_bytes_are_refused_where_the_slow_parser_refuses_them(path, changed, places, **how):
    ffm, text = changed
    for place, replacement in places:
        at = place % (len(text) + 1)
        text = text[:at] + replacement + text[at + 1 :]
    if not looks_binary(text):
        agree(path, text, ffm=ffm, **how)


def looks_binary(text):
    return format_in(text) is not None or mistaken.binary(text[: mistaken.LONGEST_HEAD]) is not None


@pytest.mark.parametrize("entries", [48, 49, 97, 300, 1500])
@pytest.mark.parametrize("indexes", [3, 500])
def test_long_rows_with_unsorted_indices(path, entries, indexes):
    """The values are such that the sum for a repeated index depends on the order of addition."""
    rng = random.Random(1)
    values = ["1e30", "-1e30", "1e-3", "0.7", "3"]
    text = "".join(
        "1 " + " ".join(f"{rng.randrange(indexes)}:{rng.choice(values)}" for _ in range(entries)) + "\n"
        for _ in range(4)
    )
    for buffer in (1, 1000, 1 << 20):
        agree(path, text.encode(), ffm=False, keep_fields=False, training=True, buffer=buffer)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_line_longer_than_a_buffer(path, threads):
    text = b"1 " + b" ".join(b"%d:1" % i for i in range(20000)) + b"\n0 3:1\n"
    rows = read_all(path, text, training=True, threads=threads, buffer=100)
    assert [len(entries) for entries in rows.entries] == [20000, 1]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("format", ["auto", "libsvm"])
def test_rows_that_must_have_fields(path, format, training):
    with pytest.raises(BadInputError, match="found libsvm text, whose features have no fields"):
        read_all(path, b"1 3:0.5\n", training=training, format=format, keep_fields=True)


def test_values_that_are_all_one_are_not_stored(path):
    assert reader.read([write(path, b"1 3:0.5 3:0.5 4:1 5:0\n")]).dataset.value is None
    assert reader.read([write(path, b"1 3:0.5 4:1\n")]).dataset.value.tolist() == [0.5, 1]


def test_table(path):
    text = b"1 2:7:1 0:3:2 2:7:1\n-1 1:9:0\n\n# no row\n3"
    table = reader.read([write(path, text)], keep_fields=True)
    dataset = table.dataset
    assert (table.format, table.fields, table.repeated_rows, table.bytes) == ("ffm", 3, 1, len(text))
    assert dataset.features == 10  # the entry 9:0 is not stored but counts for the number of features
    assert dataset.indptr.tolist() == [0, 2, 2, 2]
    assert dataset.index.tolist() == [3, 7]
    assert dataset.field.tolist() == [0, 2]
    assert dataset.value.tolist() == [2, 2]
    assert dataset.label.tolist() == [1, -1, 3]
    assert [dataset.indptr.dtype, dataset.index.dtype, dataset.field.dtype] == [np.int64, np.int32, np.int32]
    assert [dataset.value.dtype, dataset.label.dtype] == [np.float32, np.float64]
    merged = reader.read([path]).dataset
    assert merged.field is None
    assert merged.index.tolist() == [3, 7]


# Predicting


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("buffer", [1, 20, 1 << 20])
def test_chunks(path, threads, buffer, monkeypatch):
    monkeypatch.setattr(formats, "BUFFER_BYTES", buffer)
    text = b"1 3:1 5:1 4000000000000000000:1\n\n# note\n4:2 9:0 7:0.5 qid\n"
    write(path, text.replace(b" qid", b""))
    caller = threading.get_ident()
    pieces = list(score_chunks([path], lambda piece: (piece.data, threading.get_ident()), Columns(5), threads=threads))
    assert sum(piece.rows for piece in pieces) == 3
    assert sum(piece.nnz for piece in pieces) == 2
    assert sum(piece.unseen for piece in pieces) == 3
    assert sum(piece.comments for piece in pieces) == 1
    assert sum(piece.labeled for piece in pieces) == 1
    assert all(piece.result[0].features == 5 for piece in pieces)
    # The first chunk is processed in the calling thread, because a small input has only one chunk.
    assert all((piece.result[1] == caller) == (threads == 1 or piece is pieces[0]) for piece in pieces)
    if buffer == 1 << 20:
        labels = pieces[0].result[0].label
        assert labels[0] == 1
        assert np.isnan(labels[1:]).all()


def test_rows_without_labels(path):
    for text in (b"qid:4 1:1\n2:1", b"1:1\n2:1\n", b" 1:1 # 5\n\t+2:1"):
        (piece,) = score_chunks([write(path, text)], lambda piece: piece.data, Columns(9))
        assert piece.result.label is None
        assert piece.result.index.tolist() == [1, 2]


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_before_an_error_are_delivered(path, threads, monkeypatch):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 16)
    write(path, b"1 1:1\n" * 100 + b"1 -3:1\n" + b"1 1:1\n" * 100 + b"1 -4:1\n")
    rows = []
    with pytest.raises(BadInputError, match=r"svm:101:3: found '-3:1'"):
        rows.extend(piece.rows for piece in score_chunks([path], str, Columns(9), threads=threads))
    assert 98 <= sum(rows) <= 100


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_the_processing_function_is_raised(path, threads):
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError) as caught:
        list(score_chunks([write(path, b"1 1:1\n")], lambda d: 1 / 0, Columns(9), threads=threads))
    assert threading.active_count() == before, caught  # even while the traceback still holds references


def test_few_buffers_are_in_flight(path, monkeypatch):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 64)
    write(path, b"1 1:1\n" * 20000)
    started = 0

    def work(dataset):
        nonlocal started
        started += 1

    pieces = score_chunks([path], work, Columns(9), threads=3)
    next(pieces)
    pieces.close()
    assert started <= 3 + BUFFERS_AHEAD


# Errors

# Text before what is wrong, this, what is expected in its place, and why it is wrong.
ENTRY, FIELDED, NO_BLANK = "index:value", "field:index:value", "only blanks separate entries"
TOO_LARGE = "is repeated, and its values add up to more than float32 holds"
WRONG = [
    (b"1 1:1\n1 2:1 abc:1 ", b"5:x\n", ENTRY, "value 'x' is not a number"),
    (b"\n# a\n\t1  1:1\t", b"2:abc", ENTRY, "value 'abc' is not a number"),
    (b"1 1:1 ", b"12", ENTRY, "the colon is missing"),
    (b"1 1:1 ", b"-3:1", ENTRY, "feature index '-3' is negative"),
    (b"1 1:1 ", b"1.5:1", ENTRY, "feature index '1.5' is not a whole number"),
    (b"1 1:1 ", b":1", ENTRY, "the feature index is missing"),
    (b"1 1:1 ", b"3:", ENTRY, "the value is missing"),
    (b"1 1:1 ", b"3:\r\n", ENTRY, "the value is missing"),
    (b"1 1:1 ", b"3:nan", ENTRY, "value 'nan' is not a finite number"),
    (b"1 1:1 ", b"3:-Inf", ENTRY, "value '-Inf' is not a finite number"),
    (b"1 1:1 ", b"3:+infinity", ENTRY, "value '+infinity' is not a finite number"),
    (b"1 1:1 ", b"3:0x1p3", ENTRY, "value '0x1p3' is hexadecimal: only decimal numbers are read"),
    (b"1 1:1 ", b"3:1e39", ENTRY, "value '1e39' is too large for float32"),
    (b"1 ", b"3:3.4028236e38", ENTRY, "value '3.4028236e38' is too large for float32"),
    (b"1 1:1 ", b"3:1e", ENTRY, "value '1e' is not a number"),
    (b"1 1:1 ", b"3:1e+", ENTRY, "value '1e+' is not a number"),
    (b"1 1:1 ", b"3:+-1", ENTRY, "value '+-1' is not a number"),
    (b"1 1:1 ", b"3:.", ENTRY, "value '.' is not a number"),
    (b"1 1:1 ", b"3:1#c", ENTRY, "value '1#c' is not a number"),
    (b"1 ", b"+%d:1" % 2**63, ENTRY, f"feature index '+{2**63}' is larger than {2**63 - 1}"),
    (b"1 a=1:2 ", b"1e3:1", ENTRY, "feature index '1e3' is not a whole number"),
    (b"1 a=1:2 ", b"a:", ENTRY, "the value is missing"),
    (b"1 a=1:2 ", b"1::1", ENTRY, "two colons are the ffm format, and this is read as libsvm"),
    (b"1 a=1:2 ", b"a:b:c", ENTRY, "value 'c' is not a number"),
    (b"1 a=1:2 ", b"a", ENTRY, "the colon is missing"),
    (b"1 a:3e38 b:1 ", b"a:3e38", ENTRY, f"feature index 'a' {TOO_LARGE}"),
    (b"1 1:1\n1 ", b"1:2:3", ENTRY, "two colons are the ffm format, and this is read as libsvm"),
    (b"1 ", b"1:2:3:4", ENTRY, "there are too many colons"),
    *(
        (before, token.encode(), ENTRY, NO_BLANK)
        for token in (
            *("1:0.5,2:0.3", "1:0.5;2:0.3", "1:.52:0.3", "3:6.646e-0114:8.74e-01", "3:-1.5\u00a014:1", "7:1,2:1,3:1"),
            *("1:0.5|2:0.3", "1:0.5/2:0.3", "1:0.5,a:1"),
        )
        for before in (b"1 ", b"1 7:1 ", b"1 a=b:1 ")
    ),
    *((b"1 7:1 ", token, ENTRY, NO_BLANK) for token in (b"\xc2\xa02:0.3", b"5:1x:1", b"2\xc2\xa0:0.3")),
    (b"1 1:1\n", b"2:1", "a label", "the row has no label, and only predict takes it so"),
    (b"1 1:1\n", b"abc 1:1", "a label", "label 'abc' is not a number"),
    (b"", b"1:1", "a label", "the row has no label, and only predict takes it so"),
    (b"", b"qid:1 1:1", "a label", "the row has no label, and only predict takes it so"),
    (b"", b"nan 1:1", "a label", "label 'nan' is not a finite number"),
    (b"", b"1e400 1:1", "a label", "label '1e400' is too large for float64"),
    (b"1 ", b"qid:x 1:1", "qid:number", "query number 'x' is not a number"),
    (b"1 ", b"qid: 1:1", "qid:number", "the query number is missing"),
    (b"1 1:1 ", b"qid:3", ENTRY, "feature index 'qid' begins a query, which follows the label"),
    (b"1 1:1 ", b"2:\x00", ENTRY, "the file looks like binary data, not like libsvm or ffm text"),
    (b"", b"\x89PNG\r\n\x1a", "a label", "the file looks like binary data, not like libsvm or ffm text"),
    (b"1 1:1 ", b"2:it's", ENTRY, 'value "it\'s" is not a number'),
    (b"1 7:3e38 2:1 ", b"7:2e38", ENTRY, f"feature index '7' {TOO_LARGE}"),
    (b"1 0:1:1 ", b"5:1", FIELDED, "one colon is the libsvm format, and this is read as ffm"),
    (b"1 0:1:1 ", b"x:5:1", FIELDED, "field 'x' is not a number"),
    (b"1 0:1:1 ", b":5:1", FIELDED, "the field is missing"),
    (b"1 0:1:1 ", b"-1:5:1", FIELDED, "field '-1' is negative"),
    (b"1 0:1:1 ", b"2147483647:5:1", FIELDED, "field '2147483647' is larger than 2147483646"),
    (b"1 0:1:1 ", b"0::1", FIELDED, "the feature index is missing"),
    (b"1 0:a:1 ", b"0:-3:1", FIELDED, "feature index '-3' is negative"),
    (b"1 0:a:1 ", b"0:3:4:1", FIELDED, "there are too many colons"),
    *(
        (before, token, FIELDED, NO_BLANK)
        for token in (b"0:1:1,1:2:1", b"0:1:.5;1:a:1", b"0:1:0.51:2:1", b"0:1:1\xc2\xa01:2:1")
        for before in (b"1 ", b"1 0:1:1 ", b"1 0:a:1 ")
    ),
    (b"1 0:1:1 ", b"0:1:", FIELDED, "the value is missing"),
]
OTHER_ERRORS = [
    (b"\xef\xbb\xbf1 -1:1", "1:3: found '-1:1', expected index:value; feature index '-1' is negative"),
    (
        b"1 1:1 2:" + b"9" * 50,
        f"1:7: found '2:{'9' * 35}...', expected index:value; value '{'9' * 37}...' is too large for float32",
    ),
    *((text, "the file has no rows") for text in (b"", b"\n\n# only\n", b"\xef\xbb\xbf")),
    (
        b"1\n-1\n",
        "the format cannot be detected, because no row at the start of the file has a feature; "
        "use -f libsvm, or -f ffm",
    ),
]


def told(before, wrong, expected, why):
    *lines, last = before.split(b"\n")
    place = f"{len(lines) + 1}:{len(last) + 1}"
    return f"{place}: found {ascii(wrong.split()[0])[1:]}, expected {expected}; {why}"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("text", "message"), [(row[0] + row[1], told(*row)) for row in WRONG] + OTHER_ERRORS)
def test_messages(path, text, message, threads):
    with pytest.raises(BadInputError) as caught:
        reader.read([write(path, text)], threads=threads)
    assert with_flags(caught.value) == f"{path}:" + message if message[0].isdigit() else f"{path}: {message}"


@pytest.mark.parametrize(
    "name", ["user:5", "7:site=x.com", "12-34", "1a,2", "a,2", "1;a", "2020-01-31", "10.0.0.1", "1.5mm", "\u00a0x"]
)
def test_names_with_numbers_and_separators_are_names(path, name):
    table = reader.read([write(path, f"1 {name}:1 7:1\n".encode())], format="libsvm", labels=NUMBERS)
    assert table.dataset.numbering.written(range(2)) == [7, name]


def test_the_format_that_was_asked_for(path):
    write(path, b"1 1:2:3")
    assert reader.read([path], format="ffm").format == "ffm"
    with pytest.raises(BadInputError, match="two colons"):
        reader.read([path], format="libsvm")
    assert reader.read([write(path, b"1\n0\n")], format="libsvm").dataset.nnz == 0


def test_an_ambiguous_format_is_accepted_if_it_does_not_matter(path, monkeypatch):
    write(path, b"1\n\n0\n")
    (piece,) = score_chunks([path], lambda piece: piece.data.rows, Columns(3))
    assert piece.result == 3
    monkeypatch.setattr(formats, "BUFFER_BYTES", 2)
    with pytest.raises(BadInputError, match="the format cannot be detected"):
        list(score_chunks([path], lambda piece: piece.data.rows, Columns(3)))


def test_an_invalid_label_is_reported_before_an_ambiguous_format(path):
    with pytest.raises(BadInputError, match="label 'abc' is not a number"):
        reader.read([write(path, b"1\nabc\n")])


def test_several_files(tmp_path):
    a, b, c = (str(tmp_path / name) for name in "abc")
    write(a, b"1 1:1\n0 2:1")
    write(b, gzip.compress(b"# b\n1 3:1\n"))
    write(c, b"1 1:1\n1 -4:1\n")
    table = reader.read([a, b])
    assert table.dataset.index.tolist() == [1, 2, 3]
    assert table.bytes == 21
    for threads in (1, 3):
        with pytest.raises(BadInputError) as caught:
            reader.read([a, b, c, a], threads=threads)
        assert str(caught.value).startswith(f"{c}:2:3: found '-4:1'")
    write(b, b"#\n")
    with pytest.raises(BadInputError, match=r"b: the file has no rows"):
        reader.read([a, b])


# Compression

TEXT = b"".join(b"%d %d:0.5 %d:1\n" % (i % 2, i, i + 7) for i in range(300))
START = TEXT[: TEXT.index(b"\n", 600) + 1]
COMPRESS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd.compress,
    "zstd, checksum": lambda text: zstd.compress(text, options={zstd.CompressionParameter.checksum_flag: 1}),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_compressed(path, compress, threads, monkeypatch):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 1000)
    want = reader.read([write(path, TEXT)]).dataset
    once = compress(TEXT)
    twice = compress(TEXT[:2000]) + compress(b"") + compress(TEXT[2000:])
    padded = compress(TEXT[:2000]) + b"\0" * 8 + compress(TEXT[2000:]) + b"\0" * 4
    for packed in (once, twice, padded):
        got = reader.read([write(path, packed)], threads=threads)
        assert got.bytes == len(TEXT)
        assert got.dataset.indptr.tobytes() == want.indptr.tobytes()
        assert got.dataset.index.tobytes() == want.index.tobytes()


def test_a_zstd_file_that_begins_with_a_frame_to_skip(path):
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"
    assert reader.read([write(path, skipped + zstd.compress(TEXT) + skipped)]).dataset.rows == 300


@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_every_truncation_of_a_compressed_file_is_detected(path, compress):
    packed = compress(START) * 2
    for size in set(range(1, len(packed))) - {len(packed) // 2}:
        with pytest.raises(BadInputError):
            reader.read([write(path, packed[:size])])


@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_a_corrupt_file_is_refused(path, compress):
    packed = compress(START)
    want = reader.read([write(path, START)]).dataset
    refused = 0
    for at in range(len(packed)):
        changed = bytearray(packed)
        changed[at] ^= 0x55
        try:
            got = reader.read([write(path, bytes(changed))]).dataset
        except BadInputError:
            refused += 1
        else:  # the byte belongs to a time stamp, or the format has no checksum
            assert compress is zstd.compress or got.index.tobytes() == want.index.tobytes()
    assert refused > len(packed) // 2
    for junk in (b"junk", packed[:1], b"\0\1"):
        with pytest.raises(BadInputError, match=r"corrupt|truncated"):
            reader.read([write(path, packed + junk)])
    second = bytearray(packed)
    second[0] ^= 1
    with pytest.raises(BadInputError, match=r"corrupt|truncated"):
        reader.read([write(path, packed + bytes(second))])


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_the_text_comes_before_the_truncation_behind_it(path, threads, monkeypatch):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 100)
    rng = random.Random(0)
    tail = b"".join(b"1 %d:1\n" % rng.randrange(10**8) for _ in range(3000))
    write(path, gzip.compress(b"1 1:1\n1 -5:1\n" + tail)[:-10])
    with pytest.raises(BadInputError, match="found '-5:1'"):
        reader.read([path], threads=threads)
    write(path, gzip.compress(b"1 1:1\n" + tail)[:-10])
    with pytest.raises(BadInputError, match="the gzip data is truncated"):
        reader.read([path], threads=threads)


# Inputs


class Trickle(io.RawIOBase):
    """Standard input that returns one byte at a time and sometimes reports that no data is available yet."""

    def __init__(self, text):
        self.text, self.reads = text, 0
        self.pipe = os.pipe()
        os.write(self.pipe[1], b"x")

    def fileno(self):
        return self.pipe[0]

    def readinto(self, room):
        self.reads += 1
        if self.reads % 5 == 0:
            return None
        count = min(1, len(self.text), len(room))
        room[:count], self.text = self.text[:count], self.text[count:]
        return count


@pytest.mark.parametrize("packed", [TEXT, gzip.compress(TEXT)])
@pytest.mark.parametrize("trickle", [False, True])
def test_standard_input(monkeypatch, packed, trickle):
    source = Trickle(packed) if trickle else io.BytesIO(packed)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=source, closed=False))
    assert reader.read(["-"]).dataset.rows == 300
    assert not source.closed


def test_errors_in_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"1 -3:1"), closed=False))
    with pytest.raises(BadInputError, match=r"^<stdin>:1:3: found '-3:1'"):
        reader.read(["-"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(MissingInputError, match="standard input: it is closed"):
        reader.read(["-"])


def test_missing_inputs(tmp_path):
    with pytest.raises(MissingInputError, match=re.escape(f"cannot read {tmp_path}/none: No such file")):
        reader.read([f"{tmp_path}/none"])
    with pytest.raises(MissingInputError, match="Is a directory"):
        list(score_chunks([str(tmp_path)], str, Columns(3)))
    with pytest.raises(MissingInputError, match="Input/output error"):
        reader.read(["/proc/self/mem"])


def test_memory_is_checked_from_the_first_buffer(path, demands, monkeypatch):
    reader.read([write(path, TEXT)])
    assert not demands  # the first buffer held all rows
    monkeypatch.setattr(formats, "BUFFER_BYTES", 400)
    for threads in (1, 3):
        dataset = reader.read([path], threads=threads).dataset
        need = dataset.rows * 16 + dataset.nnz * 8
        ((asked, purpose),) = demands
        assert need * 0.8 < asked < need * 1.2
        assert purpose == f"reading {path}"
        demands.clear()

    def refuse(needed, purpose, *, held=0):
        raise NotEnoughMemoryError(purpose)

    monkeypatch.setattr(memory, "require", refuse)
    with pytest.raises(NotEnoughMemoryError):
        reader.read([path])


def test_memory_is_checked_before_names_get_their_columns(path, demands, monkeypatch):
    reader.read([write(path, b"1 one:1 two:1\n0 three:1\n")])
    assert demands == [(3 * reader.BYTES_TO_NUMBER, "numbering the features")]


def test_memory_is_checked_while_a_compressed_file_is_read(path, demands, monkeypatch):
    """The size of a compressed file is a poor estimate, so the estimate uses the rows read so far."""
    monkeypatch.setattr(formats, "BUFFER_BYTES", 400)
    monkeypatch.setattr(reader, "GROWTH", 2000)
    write(path, gzip.compress(TEXT * 20))
    for threads in (1, 3):
        rows = reader.read([path], threads=threads).dataset
        asked = [needed for needed, _ in demands]
        assert len(asked) > 5
        assert asked == sorted(asked)
        assert all(purpose == f"reading {path}" for _, purpose in demands)
        assert 0.8 * rows.nbytes < asked[-1] < rows.nbytes + 2 * 2000 + 5000
        demands.clear()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_while_a_pipe_stays_open(threads, monkeypatch):
    """The fault is in the second buffer; the thread that waits for the rest of the text does not delay the message."""
    monkeypatch.setattr(formats, "BUFFER_BYTES", 100)
    inner, outer = os.pipe()
    with open(inner) as stdin, open(outer, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", stdin)
        pipe.write(b"1 1:1\n" * 20 + b"1 nonsense\n" + b"1 1:1\n" * 40)
        with pytest.raises(BadInputError, match=r"<stdin>:21:3: found 'nonsense'"):
            reader.read(["-"], threads=threads)
        pipe.close()


def test_the_memory_check_names_standard_input(demands, monkeypatch, tmp_path):
    (tmp_path / "in").write_bytes(TEXT)
    monkeypatch.setattr(formats, "BUFFER_BYTES", 400)
    with (tmp_path / "in").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        reader.read(["-"])
    assert demands[0][1] == "reading <stdin>"


# The compiled part


def test_rows_refuses_text_without_padding():
    rows = Rows(ffm=False, keep_fields=False, training=True, limit=9)
    text = bytearray(b"1 1:1\n" + bytes(PADDING))
    assert rows.parse(text, 0, 6) == (1, 0, [])
    for start, stop in ((0, 7), (-1, 6), (4, 2), (0, 5)):
        with pytest.raises(ValueError, match="the text must"):
            rows.parse(text, start, stop)
    assert math.isclose(rows.nbytes, 8 * (2 + 1) + 4)


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(path, monkeypatch):
    write(path, b"1 0:1\n" * 1000)
    monkeypatch.setattr(formats, "BUFFER_BYTES", 600)
    buffers = score_chunks([path], lambda piece: os.truncate(path, 1200), Columns(LIMIT))
    with pytest.raises(TransferError, match="was truncated while it was read, from 6,000 to at most 1,200 bytes"):
        list(buffers)


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(path, monkeypatch):
    write(path, b"1 0:1\n" * 1000)
    monkeypatch.setattr(formats, "BUFFER_BYTES", 600)
    more = iter([b"0 1:1\n" * 50])

    def grow(piece):
        with open(path, "ab") as file:
            file.write(next(more, b""))

    assert sum(chunk.rows for chunk in score_chunks([path], grow, Columns(LIMIT))) == 1050
