"""Model files: saved models are loaded unchanged, and every other file is refused."""

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fmcli.errors import BadInputError, MissingInputError, NotEnoughMemoryError, OutputError
from fmcli.model_file import container, contents
from fmcli.model_file.container import ALIGNMENT, DIGITS, DTYPES, FORMAT, ModelFile, load, save

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
names = st.text(min_size=1).filter(lambda name: not name.startswith("_"))
arrays = st.sampled_from(list(DTYPES.values())).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9))
)
models = st.builds(
    ModelFile,
    st.dictionaries(st.text().filter(lambda key: not key.startswith("fmcli.")), json_values, max_size=4),
    st.dictionaries(names, arrays, max_size=4),
)


MAP_BYTES = np.array([7, -8], dtype=np.int32).tobytes()
WITH_ALL_BITS = 64  # bytes at the beginning of a file; each of their bits is changed


def same(a, b):
    return (
        a.meta == b.meta
        and a.tensors.keys() == b.tensors.keys()
        and all(
            x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
            for x, y in ((a.tensors[name], b.tensors[name]) for name in a.tensors)
        )
    )


def small():
    return ModelFile(
        {"model": "fm", "rank": 3, "labels": [-1, 1], "loss": "logistic", "l2": 1e-5, "norm": False, "name": "größe"},
        {
            "bias": np.array([0.5], dtype=np.float32),
            "factors": np.arange(12, dtype=np.float32).reshape(4, 3) / 7,
            "dictionary": np.frombuffer(b"spring\0summer", dtype=np.uint8),
            "counts": np.array([1, 2, 3, -4], dtype=np.int64),
            "map": np.frombuffer(MAP_BYTES, dtype=np.int32),
            "exact": np.array(1 / 3),
            "nothing": np.zeros((0, 3), dtype=np.float32),
        },
    )


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model.fm")


@pytest.fixture
def data(path):
    """The bytes of a small model file."""
    save(path, small())
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    # The file is overwritten in place, because a new inode each time would make the fuzz tests slow. It is no longer
    # mapped at this point.
    with open(path, "wb") as file:
        file.write(data)


def refusal(path, data):
    put(path, data)
    with pytest.raises(BadInputError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message[len(path) + 2 :]


def header_of(data):
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def forge(header, tensors=b""):
    """Build a file with a given header and its correct checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    file = len(text).to_bytes(8, "little") + text
    digits = f"{zlib.crc32(file[DIGITS.stop :], zlib.crc32(file[: DIGITS.start])):08x}".encode()
    return file[: DIGITS.start] + digits + file[DIGITS.stop :] + tensors


class TestRoundTrip:
    @given(models)
    def test_any_model(self, tmp_path_factory, model):
        path = str(tmp_path_factory.mktemp("any") / "model.fm")
        save(path, model)
        assert same(load(path), model)
        assert same(load(path, verify=True), model)

    @settings(max_examples=30)
    @given(models)
    def test_the_safetensors_library_reads_the_same(self, tmp_path_factory, model):
        path = str(tmp_path_factory.mktemp("any") / "model.fm")
        save(path, model)
        theirs = safetensors.numpy.load_file(path)
        for name, array in model.tensors.items():
            assert theirs[name].dtype == array.dtype
            assert theirs[name].shape == array.shape
            assert theirs[name].tobytes() == array.tobytes()
        assert all(name.startswith("_pad") for name in theirs.keys() - model.tensors.keys())
        with safetensors.safe_open(path, "np") as file:
            metadata = file.metadata()
        assert {key: json.loads(metadata[key]) for key in model.meta} == model.meta

    def test_every_tensor_is_aligned_in_the_file_and_in_memory(self, path, data):
        header = header_of(data)
        header.pop("__metadata__")
        start = 8 + int.from_bytes(data[:8], "little")
        assert start % ALIGNMENT == 0
        for name, entry in header.items():
            if not name.startswith("_pad"):
                assert (start + entry["data_offsets"][0]) % ALIGNMENT == 0
        for array in load(path).tensors.values():
            assert array.ctypes.data % ALIGNMENT == 0

    def test_a_loaded_model_can_be_saved_over_itself_and_lives_on(self, path, data):
        assert data
        model = load(path)
        save(path, model)
        assert same(load(path), small())
        os.unlink(path)
        assert same(model, small())

    def test_the_same_content_gives_the_same_bytes(self, path, data):
        def backwards(values):
            return dict(reversed(values.items()))

        model = small()
        model.meta["nested"] = {"a": 1, "b": {"c": 2, "d": 3}}
        save(path, model)
        with open(path, "rb") as file:
            expected = file.read()
        model.meta["nested"] = {"b": {"d": 3, "c": 2}, "a": 1}
        save(path + "2", ModelFile(backwards(model.meta), backwards(model.tensors)))
        with open(path + "2", "rb") as file:
            assert file.read() == expected

    def test_the_bytes_are_those_of_the_first_version(self, path):
        """Older files must stay readable, so these bytes may change only together with FORMAT."""
        save(path, ModelFile({"rank": 8}, {"w": np.array([1.5], dtype=np.float32), "v": np.array([2], dtype=np.uint8)}))
        header = (
            b'{"__metadata__":{"fmcli.header_crc32":"7d0ace64","fmcli.format":"1",'
            b'"fmcli.tensor_crc32":"{\\"v\\":\\"3c0c8ea1\\",\\"w\\":\\"5cd8256f\\"}","rank":"8"},'
            b'"v":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"_pad0":{"dtype":"U8","shape":[63],"data_offsets":[1,64]},'
            b'"w":{"dtype":"F32","shape":[1],"data_offsets":[64,68]}}'
        )
        with open(path, "rb") as file:
            data = file.read()
        start = 8 + int.from_bytes(data[:8], "little")
        assert data[8:start].rstrip() == header
        assert data[start:] == b"\2" + bytes(63) + b"\0\0\xc0\x3f"
        assert FORMAT == 1


class TestSaving:
    @pytest.mark.parametrize("key", ["fmcli.format", "fmcli.anything"])
    def test_reserved_entries(self, path, key):
        with pytest.raises(ValueError, match="are reserved"):
            save(path, ModelFile({key: 1}, {}))

    @pytest.mark.parametrize("name", ["_pad0", "__metadata__", "_x"])
    def test_reserved_tensors(self, path, name):
        with pytest.raises(ValueError, match="are reserved"):
            save(path, ModelFile({}, {name: np.zeros(1)}))

    @pytest.mark.parametrize("value", [(1, 2), {1: 2}, np.nan, np.inf, [{"a": (1,)}], "\ud800"])
    def test_values_that_would_not_be_read_back_unchanged(self, path, value):
        with pytest.raises(ValueError, match=r"read back|JSON compliant|surrogates"):
            save(path, ModelFile({"a": value}, {}))
        assert not os.path.exists(path)

    @pytest.mark.parametrize("value", [object(), np.float32(1), b"bytes", {1, 2}])
    def test_values_that_are_not_json(self, path, value):
        with pytest.raises(TypeError):
            save(path, ModelFile({"a": value}, {}))

    @pytest.mark.parametrize(
        "array",
        [np.zeros(2, dtype=np.complex64), np.zeros(2, dtype=">f4"), np.zeros(2, dtype=np.uint32), np.zeros((1,) * 9)],
    )
    def test_arrays_that_cannot_be_saved(self, path, array):
        with pytest.raises(ValueError, match="tensor 'x'"):
            save(path, ModelFile({}, {"x": array}))
        assert not os.path.exists(path)

    @pytest.mark.parametrize("copied", [1, 48, 1 << 24])
    def test_arrays_are_saved_in_their_own_order(self, path, monkeypatch, copied):
        """For every memory layout, and for every number of bytes copied at a time."""
        monkeypatch.setattr("fmcli.model_file.container.COPIED_BYTES", copied)
        numbers = np.arange(120, dtype=np.float32)
        arrays = {"a": numbers.reshape(2, 3, 20)[:, :, ::2], "b": numbers.reshape(4, 30).T, "c": numbers[::-3]}
        save(path, ModelFile({}, arrays))
        loaded = load(path, verify=True).tensors
        for name, array in arrays.items():
            assert (loaded[name] == array).all()

    def test_a_failed_save_keeps_the_older_model(self, path, data):
        with pytest.raises(ValueError, match="tensor 'x'"):
            save(path, ModelFile({}, {"a": np.zeros(1), "x": np.zeros(1, dtype=complex)}))
        assert same(load(path), small())
        with pytest.raises(OutputError):
            save("/dev/full", small())


class TestDamage:
    def test_every_byte_matters(self, path, data):
        for i in range(len(data)):
            # All bits of the size and of the beginning of the header; of each byte behind them, all bits or one.
            for flip in (1 << bit for bit in range(8)) if i < WITH_ALL_BITS else (0xFF if i % 2 else 1 << i // 2 % 8,):
                bad = bytearray(data)
                bad[i] ^= flip
                put(path, bad)
                with pytest.raises(BadInputError):
                    load(path)

    def test_truncations_are_told(self, path, data):
        """Every seventh, and all near the size of the header and the ends of the header and of tensors."""
        start = 8 + int.from_bytes(data[:8], "little")
        ends = [start + entry["data_offsets"][1] for entry in header_of(data).values() if "data_offsets" in entry]
        near = {size + step for size in (8, start, *ends) for step in range(-8, 9)}
        for size in sorted({*range(1, len(data), 7), *near} & {*range(1, len(data))}):
            assert "is truncated" in refusal(path, data[:size]), size

    @given(st.binary(max_size=300))
    def test_any_other_bytes(self, tmp_path_factory, other):
        refusal(str(tmp_path_factory.getbasetemp() / "other"), other)

    @given(st.data())
    def test_any_change_of_the_header_behind_a_right_checksum(self, tmp_path_factory, draw):
        """A changed header with a correct checksum is refused or is a valid model; nothing else may happen."""
        base = tmp_path_factory.getbasetemp()
        save(str(base / "good"), small())
        data = (base / "good").read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        text = bytearray(data[8:start])
        for _ in range(draw.draw(st.integers(1, 3))):
            i = draw.draw(st.integers(DIGITS.stop - 8, len(text) - 1))
            text[i : i + draw.draw(st.integers(0, 3))] = draw.draw(
                st.binary(max_size=3) | st.sampled_from([b"9", b"[", b'"'])
            )
        put(base / "forged", forge(bytes(text), data[start:]))
        with contextlib.suppress(BadInputError):
            load(str(base / "forged"))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: b"1 1:2\n", "is truncated, or not an fmcli model: 6 bytes are too few for a header"),
            (lambda d: b"", "is empty: not an fmcli model"),
            (lambda d: d + b"\0", "is corrupted: more bytes follow its last tensor"),
            (
                lambda d: d.replace(MAP_BYTES, b"\1" + MAP_BYTES[1:]),
                "is corrupted: tensor 'map' does not match its checksum",
            ),
            (lambda d: d[:100] + b"!" + d[101:], "is corrupted: the header does not match its checksum"),
            (lambda d: b"\xff" * 8 + d[8:], "is corrupted: a header cannot have 18446744073709551615 bytes"),
            (lambda d: (50_000).to_bytes(8, "little") + d[8:], "is truncated: the header needs 50008 bytes"),
            (lambda d: (60).to_bytes(8, "little") + d[8:], "is corrupted: the header does not match its checksum"),
            (lambda d: bytes(8) + d[8:], "is corrupted: the header does not match its checksum"),
            (
                lambda d: b"1 1:0.5 7:1\n-1 2:1\n" * 9,
                "is a text file, not an fmcli model; have you swapped model and data?",
            ),
            (lambda d: b"PK\x03\x04" + bytes(100), "is a zip archive, not an fmcli model"),
            (lambda d: b"\x1f\x8b" + bytes(100), "is a gzip file, not an fmcli model"),
            (lambda d: bytes(range(256)), "is not an fmcli model"),
            (
                lambda d: safetensors.numpy.save({"weight": np.zeros(3)}, {"format": "pt"}),
                "is a safetensors file but not an fmcli model",
            ),
        ],
    )
    def test_messages(self, path, data, change, message):
        assert refusal(path, change(data)).startswith(message)

    def test_padding(self, path, data):
        start = 8 + int.from_bytes(data[:8], "little")
        begin, _ = header_of(data)["_pad0"]["data_offsets"]
        at = start + begin
        assert refusal(path, data[:at] + b"\1" + data[at + 1 :]) == "is corrupted: padding between tensors is not zero"

    def test_large_tensors_are_read_only_on_demand(self, path, data, monkeypatch):
        put(path, data.replace(MAP_BYTES, b"\1" + MAP_BYTES[1:]))
        monkeypatch.setattr(container, "ALWAYS_VERIFIED", 100)
        assert load(path).tensors["map"][0] == 1
        with pytest.raises(BadInputError, match="tensor 'map' does not match its checksum"):
            load(path, verify=True)

    @pytest.mark.parametrize(("name", "reason"), [("missing", "No such file"), (".", "Is a directory")])
    def test_files_that_cannot_be_opened(self, tmp_path, name, reason):
        with pytest.raises(MissingInputError, match=reason) as caught:
            load(str(tmp_path / name))
        assert caught.value.exit_status == 66

    def test_no_room_to_map(self, path, data):
        os.truncate(path, 2**30)
        code = (
            "import resource, sys\n"
            "from fmcli.errors import NotEnoughMemoryError\n"
            "from fmcli.model_file.container import load\n"
            "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
            "try:\n"
            "    load(sys.argv[1])\n"
            "except NotEnoughMemoryError as error:\n"
            "    print(error)\n"
        )
        out = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout
        assert out.startswith(f"{path}: this model needs 1.0 GiB of address space")

    @pytest.mark.parametrize(("device", "reason"), [("/dev/null", "is empty"), ("/dev/zero", "is not an fmcli model")])
    def test_a_device_is_not_a_model(self, device, reason):
        with pytest.raises(BadInputError, match=reason):
            load(device)


class TestContents:
    @pytest.mark.parametrize("most", [0, 2**28])
    def test_arrays_cannot_be_written(self, path, data, monkeypatch, most):
        monkeypatch.setattr(contents, "MOST_COPIED", most)
        for array in load(path).tensors.values():
            assert not array.flags.writeable
            assert array.flags.c_contiguous
            assert array.ctypes.data % 64 == 0

    @pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the system does not describe mappings")
    def test_the_copy_is_private_memory(self, path, data):
        """Many systems have huge pages, on which the speed of `predict` depends, for private memory only."""
        model = load(path)
        address = max(model.tensors.values(), key=lambda array: array.nbytes).ctypes.data
        with open("/proc/self/maps") as maps:
            lines = [line.split() for line in maps]
        bounds = [([int(end, 16) for end in words[0].split("-")], words[1]) for words in lines]
        assert [flags for (start, stop), flags in bounds if start <= address < stop] == ["rw-p"]

    def test_a_file_that_becomes_shorter_while_it_is_read(self, path, data):
        with open(path, "rb") as file:
            assert bytes(contents._copied(file, len(data) + 10_000)) == data

    def test_a_pipe(self, path, data):
        os.unlink(path)
        os.mkfifo(path)
        writer = threading.Thread(target=lambda: put(path, data))
        writer.start()
        try:
            assert load(path).verified
        finally:
            writer.join()

    @pytest.mark.parametrize("more", [b"", b"x" * 10**6])
    def test_a_pipe_is_read_as_far_as_its_header_says(self, data, more):
        file = io.BytesIO(data + more)
        read = contents._piped(file, "m", container._wanted)
        assert bytes(read) == (data + more)[: len(data) + 1]
        assert file.tell() == len(read)

    @pytest.mark.parametrize(
        "begin", [b"", b"x", b"1 5:1\n" * 100, b"\xff" * 8 + container.SIGNATURE + b"0" * 100], ids=len
    )
    def test_a_pipe_that_is_no_model_is_not_read(self, begin):
        file = io.BytesIO(begin + b"\n" * 10**6 if begin else b"")
        read = contents._piped(file, "m", container._wanted)
        assert len(read or b"") == file.tell() < 100

    def test_a_pipe_that_claims_more_than_there_is_memory(self, data):
        header = header_of(data)
        last = list(header.values())[-1]
        start, size = last["data_offsets"][0], 1 << 60
        last |= {"dtype": "U8", "shape": [size], "data_offsets": [start, start + size]}
        with pytest.raises(NotEnoughMemoryError, match=r"^reading m needs 1024.0 PiB of memory"):
            contents._piped(io.BytesIO(forge(header)), "m", container._wanted)


class TestForgery:
    """Headers with a correct checksum and wrong content."""

    @pytest.fixture
    def header(self, data):
        return header_of(data)

    @pytest.fixture
    def tensors(self, data):
        return data[8 + int.from_bytes(data[:8], "little") :]

    def test_forge_without_changes(self, path, data, header, tensors):
        put(path, forge(header, tensors))
        assert same(load(path), small())

    @pytest.mark.parametrize("version", ["2", "10", "9" * 5000])
    def test_newer(self, path, header, version):
        header["__metadata__"]["fmcli.format"] = version
        header["future"] = "anything"
        message = refusal(path, forge(header))
        assert message.startswith("was written by a newer fmcli in format " + version[:20])

    @pytest.mark.parametrize("version", [None, "", "x", "-1", "²"])
    def test_no_version(self, path, header, version):
        del header["__metadata__"]["fmcli.format"]
        if version is not None:
            header["__metadata__"]["fmcli.format"] = version
        assert "version" in refusal(path, forge(header))

    @pytest.mark.parametrize(
        "entry",
        [
            *({"data_offsets": at} for at in ([0, 4], [64, 68], [-4, 0], [0, 10**30], [0], [0.0, 4.0], None)),
            *({"dtype": dtype} for dtype in ("F16", "BF16", "F64", ["F32"])),
            *(
                {"shape": shape}
                for shape in ([3], [-1], [-2, -1], [-60, -1], ["1"], [1.0], "1", [2] + [1] * 8, [10**1000])
            ),
        ],
    )
    @pytest.mark.parametrize("name", ["map", "_pad0"])
    def test_a_lying_entry(self, path, header, tensors, name, entry):
        header[name] |= entry
        assert "is corrupted" in refusal(path, forge(header, tensors))

    @pytest.mark.parametrize("shape", [[0, 2**70], [0, 2**62, 2**62], [2**63, 0]])
    def test_an_empty_tensor_with_huge_axes(self, path, header, tensors, shape):
        header["nothing"]["shape"] = shape
        assert "cannot have the shape" in refusal(path, forge(header, tensors))

    def test_tensors_that_overlap_or_leave_a_gap(self, path, header, tensors):
        for shift in (-64, 64):
            forged = json.loads(json.dumps(header))
            forged["map"]["data_offsets"] = [n + shift for n in header["map"]["data_offsets"]]
            assert "tensor 'map' has a wrong offset" in refusal(path, forge(forged, tensors))

    def test_a_tensor_that_is_not_aligned(self, path, header, tensors):
        forged = {key: value for key, value in header.items() if key in ("__metadata__", "bias")}
        forged["late"] = {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}
        assert "not at a multiple of 64" in refusal(path, forge(forged, tensors[:8]))

    def test_padding_longer_than_needed(self, path, header, tensors):
        forged = {
            "__metadata__": header["__metadata__"],
            "_pad0": {"dtype": "U8", "shape": [64], "data_offsets": [0, 64]},
        }
        assert "is corrupted" in refusal(path, forge(forged, bytes(64)))

    def test_a_name_that_occurs_twice(self, path, data, tensors):
        text = data[8 : 8 + int.from_bytes(data[:8], "little")].rstrip()
        for more in (b',"map":null}', b',"__metadata__":{}}'):
            assert "a name occurs twice" in refusal(path, forge(text[:-1] + more, tensors))

    @pytest.mark.parametrize(
        "more", [b',"x":null}', b',"x":[]}', b',"x":{}}', b',"x":NaN}', b",}", b"", b"}}", b"\xff}"]
    )
    def test_an_entry_of_another_kind(self, path, data, tensors, more):
        text = data[8 : 8 + int.from_bytes(data[:8], "little")].rstrip()
        assert "is corrupted" in refusal(path, forge(text[:-1] + more, tensors))

    @pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b"[", b"")])
    def test_nesting_without_end(self, path, data, tensors, opening, closing):
        text = data[8 : 8 + int.from_bytes(data[:8], "little")].rstrip()
        bomb = b',"x":' + opening * 300_000 + b"1" + closing * 300_000 + b"}"
        message = "is corrupted: the header is not valid JSON (it is nested too deeply)"
        assert refusal(path, forge(text[:-1] + bomb, tensors)) == message

    @pytest.mark.parametrize("text", ["[" * 300_000, "NaN", "{", "", '{"a":1,"a":2}', "1" * 5000])
    def test_metadata_that_is_not_json(self, path, header, tensors, text):
        header["__metadata__"]["rank"] = text
        assert "is corrupted" in refusal(path, forge(header, tensors))

    @pytest.mark.parametrize("value", [1, None, {}, ["a"]])
    def test_metadata_that_is_not_text(self, path, header, tensors, value):
        header["__metadata__"]["rank"] = value
        assert "metadata" in refusal(path, forge(header, tensors))

    @pytest.mark.parametrize("text", [None, "null", "{}", "[]", '{"bias": "00000000"}'])
    def test_checksums_of_other_tensors(self, path, header, tensors, text):
        del header["__metadata__"]["fmcli.tensor_crc32"]
        if text is not None:
            header["__metadata__"]["fmcli.tensor_crc32"] = text
        assert "its checksums do not fit its tensors" in refusal(path, forge(header, tensors))


def test_a_large_model_opens_at_once(path):
    """The file is a sparse gigabyte, which needs no disk space. Reading all of it would take seconds."""
    size = 2**30
    layout = {"v": {"dtype": "F32", "shape": [size // 8, 2], "data_offsets": [0, size]}}
    metadata = {"fmcli.header_crc32": "0" * 8, "fmcli.format": "1", "fmcli.tensor_crc32": '{"v":"00000000"}'}
    put(path, forge({"__metadata__": metadata, **layout}))
    os.truncate(path, os.path.getsize(path) + size)
    begin = time.perf_counter()
    model = load(path)
    assert time.perf_counter() - begin < 0.1
    assert model.tensors["v"].shape == (size // 8, 2)


def test_saving_copies_no_large_part_of_an_array(tmp_path):
    """The rows of the array are padded, as in training."""
    array = np.ones((1, 300_000, 24), dtype=np.float32)[:, :, :20]
    tracemalloc.start()
    try:
        save(tmp_path / "m", ModelFile({}, {"V": array}))
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(load(str(tmp_path / "m")).tensors["V"], array)
