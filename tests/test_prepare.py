"""Random splits, tables as rows of features, and negatives: against counts, sets and rows written by hand."""

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.schema import IGNORED
from fmcli.data.text.reader import read
from fmcli.errors import BadInputError
from fmcli.prepare import split
from fmcli.prepare.encode import Encoding
from fmcli.prepare.keyed import Source
from fmcli.prepare.negatives import cells_of, drawn, with_negatives
from fmcli.prepare.written import Written

TABLE = """user,film,stars,genres,price
7,a b,4,Comedy|Drama,1.5
10,c:d,2,,0
7,"x, y",5,Drama,
"""


@pytest.fixture
def file(tmp_path):
    """Write a file, and return its path."""

    def written(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return written


def parts_of(path, shares, seed=0, header=False):
    found = [bytearray() for _ in shares]
    outputs = [Written(part.extend) for part in found]
    found_in = split.split(Source(path, header=header), outputs, [Fraction(share) for share in shares], seed)
    for output, part in zip(outputs, found, strict=True):
        output.flush()
        assert output.rows + header == bytes(part).count(b"\n")
        assert output.digest == hashlib.sha256(part).hexdigest()
    return [part.decode().splitlines() for part in found], found_in


@pytest.mark.parametrize("chunk", [7, 1 << 18])
def test_a_split_has_every_row_once_and_exact_shares(file, monkeypatch, chunk):
    monkeypatch.setattr(split, "CHUNK_ROWS", chunk)
    lines = [f"{number} 1:{number}" for number in range(70)]
    parts, (skipped, _) = parts_of(file("all", "# comment\n\n" + "\n".join(lines)), (4, 2, 1))
    assert (skipped, [len(part) for part in parts]) == (2, [40, 20, 10])
    assert sorted((line for part in parts for line in part), key=lines.index) == lines
    assert all(part == sorted(part, key=lines.index) for part in parts)
    again, _ = parts_of(file("crlf", "\r\n".join(lines)), (4, 2, 1))
    other, _ = parts_of(file("all", "\n".join(lines)), (4, 2, 1), seed=1)
    assert again == parts != other


def test_every_part_of_a_table_begins_with_its_header(file):
    parts, _ = parts_of(file("t.csv", TABLE), (2, 1), header=True)
    assert [part[0] for part in parts] == ["user,film,stars,genres,price"] * 2
    assert [len(part) for part in parts] == [3, 2]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        (TABLE, "user,film,stars,genres,price"),
        ("user\tfilm\n1\t2\n", "user\tfilm"),
        ('"user";"film"\n"7";"x"\n', '"user";"film"'),
        ("user::film\nann::12\n", "user::film"),
        ("# note\nid|age\n1|24\n", "id|age"),
        ("1,2\n3,4\n", ""),
        ("ann,film7\nbob,film8\n", ""),
        ("a,b\n1,2,3\n", ""),
        ("a,b\n", ""),
        ("spam 1:1\n0 2:1\n", ""),
        ("spam tags=a,b:1\nham tags=c,4:1\n", ""),
        ("", ""),
    ],
)
def test_a_header_that_is_split_like_a_row_is_found(file, text, header):
    assert parts_of(file("t", text), (1, 1))[1].header == header
    assert parts_of(file("t", text), (1, 1), header=bool(header))[1].header == ""


COLUMNS = {"categorical": ("user", "film"), "several": ("genres",), "numeric": ("price",), "label": "stars"}


def encoding(fields=False, joined=None, **named):
    return Encoding(ColumnRoles(**named, rest=IGNORED, labeled=False), fields, joined or {})


def text_of(encoding, path, by_number=False):
    chunks = encoding.numbered(path)[1] if by_number else encoding.lines(path)
    return b"".join(bytes(chunk.text) for chunk in chunks).decode()


def test_columns_become_features(file):
    path = file("t.csv", TABLE)
    assert text_of(encoding(**COLUMNS), path) == (
        "4 user=7:1 film=a%20b:1 genres=Comedy:1 genres=Drama:1 price:1.5\n"
        "2 user=10:1 film=c%3Ad:1\n"
        "5 user=7:1 film=x,%20y:1 genres=Drama:1 price:0.75 price=:1\n"
    )
    fields = text_of(encoding(**COLUMNS, fields=True), path, by_number=True)
    assert fields.splitlines() == [
        "4 0:1:1 1:3:1 2:6:1 2:7:1 3:8:1.5",
        "2 0:2:1 1:4:1",
        "5 0:1:1 1:5:1 2:7:1 3:8:0.75 3:9:1",
    ]


def test_cells_are_written_again_as_at_the_first_time(file):
    rows = [
        f"{name},{film},a|b,{price},{stars}"
        for name, film, price, stars in (
            ("u", "x" * 14, 1, "a b"),
            ("u u", "x" * 16, 8, 5),
            ("é", "", 0, 5),
            ("", "x" * 300, 2, 4),
            ('"a""b"', 7, 3, 4),
        )
    ]
    text = "user,film,genres,price,stars\n" + "".join(f"{row}\n" for row in 2 * rows)
    lines = text_of(encoding(**COLUMNS), file("t.csv", text)).splitlines()
    assert lines[: len(rows)] == lines[len(rows) :]
    alone = [text_of(encoding(**COLUMNS), file("t.csv", f"user,film,genres,price,stars\n{row}\n")) for row in rows]
    assert "".join(alone).splitlines() == lines[: len(rows)]


def test_names_and_numbers_are_the_same_rows(file):
    path = file("t.csv", TABLE)
    products = []
    for by_number in (False, True):
        data = read([file("rows", text_of(encoding(**COLUMNS), path, by_number))]).dataset
        x = np.zeros((data.rows, data.features))
        x[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index] = data.value
        assert data.label.tolist() == [4, 2, 5]
        products.append(x @ x.T)
    np.testing.assert_array_equal(*products)
    assert products[0].tolist() == [[6.25, 0, 3.125], [0, 2, 0], [3.125, 0, 4.5625]]


def test_columns_of_a_second_table(file):
    path = file("links.csv", "user,qid\n1,5\n2,6\n")
    joined = {"user": file("users.csv", "user;job;x\n2;b c;1\n1;a;0\n")}
    both = encoding(categorical=("job",), group="qid", joined=joined)
    assert text_of(both, path) == "qid:5 job=a:1\nqid:6 job=b%20c:1\n"
    of_both = encoding(categorical=("user", "job"), numeric=("x",), joined=joined, fields=True)
    assert text_of(of_both, path) == "0:user=1:1 1:job=a:1\n0:user=2:1 1:job=b%20c:1 2:x:1\n"
    assert text_of(of_both, file("more.csv", "user,qid\n3,1\n1,1\n,1\n")).splitlines() == [
        *("0:user=3:1 2:x:0.5 2:x=:1", "0:user=1:1 1:job=a:1", "2:x:0.5 2:x=:1")
    ]
    with pytest.raises(BadInputError, match=r"other\.csv: no row has a cell in the column 'user' that is one of "):
        text_of(both, file("other.csv", "user,qid\nu1,1\n,2\n"))
    twice = encoding(categorical=("job",), joined={"user": file("twice.csv", "user,job\n1,a\n2,b\n1,c\n")})
    with pytest.raises(BadInputError, match=r"twice\.csv:4: found a user for the second time"):
        text_of(twice, path)
    with pytest.raises(BadInputError, match="two tables have a column 'qid'"):
        text_of(encoding(categorical=("user",), joined={"user": file("same.csv", "user,qid\n1,a\n")}), path)


def test_a_feature_cannot_have_the_name_of_queries(file):
    with pytest.raises(BadInputError, match="a feature cannot have the name 'qid'"):
        text_of(encoding(numeric=("qid",)), file("t", "a,qid\n1,1\n"))


def test_negatives_are_other_pairs_each_at_most_once():
    known = np.array([3, 3, 5, 40])
    found = drawn(96, known, 100, np.random.default_rng(0))
    assert len(set(found.tolist())) == 96
    assert not set(found.tolist()) & set(known.tolist())
    counts = np.bincount(
        np.concatenate([drawn(10, known, 20, np.random.default_rng(seed)) for seed in range(400)]), minlength=20
    )
    assert counts[[3, 5]].max() == 0
    np.testing.assert_allclose(np.delete(counts, [3, 5]), 4000 / 18, rtol=0.25)
    with pytest.raises(BadInputError, match="draw fewer"):
        drawn(98, known, 100, np.random.default_rng(0))


def test_pairs_and_their_negatives_as_a_table(file):
    names = ("user", "film")
    pairs, excluded = list(cells_of(file("t.csv", TABLE), names)), [("10", "z"), ("else", "z")]
    lines = [one.decode() for one in with_negatives(names, pairs, 1, {"film": ["a b", "c:d", "z"]}, excluded, 0)]
    assert lines[:4] == ["user,film,label\n", "7,a b,1\n", "10,c:d,1\n", '7,"x, y",1\n']
    assert sorted(lines[4:]) == ["10,a b,0\n", "7,c:d,0\n", "7,z,0\n"]
