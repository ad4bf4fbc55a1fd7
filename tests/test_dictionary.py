"""Dictionaries of ids, and hashes of ids: against dicts, and with the columns of models and rows."""

import random

import numpy as np
import pytest

from fmcli.data.dictionary import Dictionary, FeatureIds
from fmcli.data.numbering import Numbering
from fmcli.data.text import formats, reader
from fmcli.data.text.parser import Rows


def everything(ids):
    return np.ones(len(ids), dtype=np.bool_)


def made_of(ids):
    """The Dictionary of some ids."""
    found = FeatureIds()
    for id in ids:
        found.column_of(id)
    return found.sorted(everything(found))[0]


def random_ids(seed, count=3000):
    rng = random.Random(seed)
    numbers = [rng.randrange(2 ** rng.choice([3, 20, 40, 63])) for _ in range(count)]
    lengths = [1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 40]
    prefixes = [b"", b"", b"u=", b"site=example", b"site=example.com/a/"]
    names = [rng.choice(prefixes) + bytes(rng.choices(b"ab\xff:=#0\0", k=rng.choice(lengths))) for _ in range(count)]
    return rng.sample([*numbers, *names], 2 * count)


def order(id):
    return isinstance(id, bytes), id


def text_of(id):
    return id.decode(errors="backslashreplace") if isinstance(id, bytes) else id


def test_ids_are_found_as_in_a_dict():
    found, slow = FeatureIds(), {}
    for id in random_ids(1):
        assert found.find(id) == slow.get(id, -1)
        assert found.column_of(id) == slow.setdefault(id, len(slow))
    assert len(found) == len(slow)
    occurs = np.array([column % 3 > 0 for column in range(len(slow))])
    dictionary, columns = found.sorted(occurs)
    kept = sorted((id for id, column in slow.items() if occurs[column]), key=order)
    assert dictionary.written(range(len(dictionary))) == list(map(text_of, kept))
    places = {id: place for place, id in enumerate(kept)}
    assert columns.tolist() == [places.get(id, -1) for id in slow]
    assert [dictionary.ids.find(id) for id in slow] == columns.tolist()


@pytest.mark.parametrize("prefix", [b"", b"a name that is longer than a slot of the table"])
def test_many_names_are_found_again(prefix):
    found, count = FeatureIds(), 100_000
    for _ in range(2):
        assert [found.column_of(prefix + b"%d" % name) for name in range(count)] == list(range(count))


def test_names_that_begin_alike_are_different_names():
    found, names = FeatureIds(), [b"a" * length + b"\0" * zeros for length in range(1, 40) for zeros in range(3)]
    assert [found.column_of(name) for name in names] == list(range(len(names)))
    assert [found.find(name) for name in names] == list(range(len(names)))


def test_the_columns_do_not_depend_on_the_order():
    ids = random_ids(2)
    one, other = made_of(ids), made_of(sorted(ids, key=lambda id: hash(str(id))))
    for array, again in zip(one.arrays, other.arrays, strict=True):
        assert array.tobytes() == again.tobytes()


def test_united_dictionaries():
    one, other = made_of([3, 2**50, b"a"]), made_of([1, 3, b"a", b"b"])
    both = one.united(other)
    assert both.written(range(len(both))) == [1, 3, 2**50, "a", "b"]
    assert both.columns_from(one).tolist() == [1, 2, 3]
    assert one.columns_from(other).tolist() == [-1, 0, 2, -1]
    assert both.united(one) is both
    few = Numbering(np.array([2, 3], np.int32), 9)
    assert few.united(one).written(range(4)) == one.united(few).written(range(4)) == [2, 3, 2**50, "a"]
    assert few.columns_from(made_of([2, 10, b"a"])).tolist() == [0, -1, -1]


def test_threads_number_many_names_as_one_does(tmp_path):
    """Some buffers repeat earlier names, which a thread keeps; others have more names than it keeps."""
    few = [b"few=%d" % (i * i % 3001) for i in range(200_000)]
    many = [b"many=%d" % i for i in range(200_000)]
    names = [*few, *many, *few, *reversed(many)]
    rows = zip(names[::2], names[1::2], strict=True)
    (tmp_path / "t").write_bytes(b"".join(b"1 %b:1 %b:2\n" % row for row in rows))
    one, two = (reader.read([str(tmp_path / "t")], threads=threads).dataset for threads in (1, 2))
    assert one.index.tobytes() == two.index.tobytes()
    for array, other in zip(one.numbering.arrays, two.numbering.arrays, strict=True):
        assert array.tobytes() == other.tobytes()


def murmur64a(key):
    """MurmurHash64A with the seed 0, from its description."""
    mask, m = 2**64 - 1, 0xC6A4A7935BD1E995
    h = len(key) * m & mask
    whole = len(key) // 8 * 8
    for at in range(0, whole, 8):
        k = int.from_bytes(key[at : at + 8], "little") * m & mask
        h = (h ^ (k ^ k >> 47) * m & mask) * m & mask
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 47) * m & mask
    return h ^ h >> 47


@pytest.mark.parametrize("bits", [1, 5, 30])
@pytest.mark.parametrize("ffm", [False, True])
def test_hashed_ids(tmp_path, bits, ffm):
    ids = [id for id in random_ids(3, 300) if id not in (b"0", b"#", b"=", b":") and str(id)[0] != "#"]
    rng = random.Random(4)
    lines, rows = [], []
    for _ in range(200):
        some = [(rng.choice(ids), rng.choice([1.0, 0.5, 2.0])) for _ in range(rng.randrange(9))]
        some = [(id, x) for id, x in some if not isinstance(id, bytes) or (id[:1] != b"#" and set(id) - set(b"0:"))]
        words = [id if isinstance(id, bytes) else str(id).encode() for id, _ in some]
        field = b"3:" if ffm else b""
        lines.append(b" ".join([b"1", *(b"%b%b:%g" % (field, id, x) for id, (_, x) in zip(words, some, strict=True))]))
        row = {}
        for id, x in some:
            key = id if isinstance(id, bytes) else id.to_bytes(8, "little")
            column = murmur64a(key) % 2**bits
            row[column] = row.get(column, 0) + x
        rows.append(sorted(row.items()))
    (tmp_path / "t").write_bytes(b"\n".join(lines))
    table = reader.read([str(tmp_path / "t")], format="ffm" if ffm else "libsvm", hash_bits=bits, threads=2)
    data = table.dataset
    got = [
        [(int(data.index[at]), float(data.value[at])) for at in range(start, end)]
        for start, end in zip(data.indptr[:-1], data.indptr[1:], strict=True)
    ]
    assert got == rows
    assert data.features == 2**bits


def test_ids_are_given_in_one_way():
    ways = {"growing": True, "ids": FeatureIds(), "hash_bits": 3}
    for one, other in (("growing", "ids"), ("ids", "hash_bits"), ("growing", "hash_bits")):
        with pytest.raises(ValueError, match="one way"):
            Rows(ffm=False, keep_fields=False, training=True, limit=9, **{one: ways[one], other: ways[other]})


@pytest.mark.parametrize("highest", [2**20 + 12, 2**20 + 13, 2**31 - 2, 2**31 - 1])
@pytest.mark.parametrize("compact", [False, True])
def test_numbers_have_a_dictionary_if_they_are_few_for_their_size(tmp_path, highest, compact):
    (tmp_path / "t").write_text(f"1 {highest}:1 5:2\n0 6:0 3:1\n")  # three features occur
    data = reader.read([str(tmp_path / "t")], compact=compact).dataset
    if highest > 2**20 + 12:
        assert isinstance(data.numbering, Dictionary)
        assert data.numbering.numbers.tolist() == [3, 5, highest]
        assert data.index.tolist() == [1, 2, 0]
    else:
        assert data.dimension == highest + 1
        assert isinstance(data.numbering, Numbering) == compact


@pytest.mark.parametrize("threads", [1, 3])
def test_columns_do_not_depend_on_the_order_of_rows(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 64)
    rng = random.Random(5)
    ids = [3, 70, 2**40, 2**62, "x", "y=1", "y=2"]
    lines = [
        f"{rng.randrange(2)} " + " ".join(f"{id}:{rng.random():.3f}" for id in rng.sample(ids, 3)) for _ in range(90)
    ]
    lines[40] += " zero:0 minus:1 minus:-1"  # which do not occur
    seen = []
    for _ in range(2):
        (tmp_path / "t").write_text("\n".join(lines))
        data = reader.read([str(tmp_path / "t")], threads=threads).dataset
        assert data.numbering.written(range(data.features)) == ids
        rows = [tuple(data.index[a:b]) for a, b in zip(data.indptr[:-1], data.indptr[1:], strict=True)]
        assert all(row == tuple(sorted(row)) for row in rows)
        seen.append(sorted(rows))
        rng.shuffle(lines)
    assert seen[0] == seen[1]
