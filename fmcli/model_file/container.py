"""The model file: safetensors with checksums, fully validated when read.

    8 bytes     length of the header, little-endian
    header      JSON, padded with spaces so that the tensors start at a multiple of 64 bytes
    tensors     sorted by name, each at a multiple of 64 bytes

The safetensors format forbids gaps between tensors, so small tensors of zeros, named _pad, fill them. Its metadata are
strings: one for each entry of ModelFile.meta, as JSON. The container adds four:

    fmcli.header_crc32   checksum of the length and the header, with these eight digits as zeros. It comes first, at a
                         fixed position, in every version of the format: it is checked before the header is parsed, it
                         covers every byte of the header, and its key distinguishes a model from other files.
    fmcli.format         version of the format
    fmcli.tensor_crc32   the checksum of each tensor, as JSON
    fmcli.kind           the kind of the file, unless it is a model

Checksums are CRC-32 as in zlib, the fastest in the standard library (2.1 GB/s; SHA-256: 1.3 GB/s). It detects every
error within 32 adjacent bits. It protects against accidents, not forgery, so the reader validates everything that the
header says. The bytes of a file do not depend on time, path, host or dictionary order.
"""

import json
import math
import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from fmcli.base.copies import copy_of
from fmcli.base.json_files import parse
from fmcli.errors import BadInputError
from fmcli.model_file.contents import MOST_COPIED, aligned, contents
from fmcli.records import dataclass
from fmcli.system.files import atomic_output

FORMAT = 1
ALIGNMENT = 64
LONGEST_HEADER = 100_000_000  # bytes; safetensors refuses more
MOST_DIMENSIONS = 8
HEAD_BYTES = 4096  # of a foreign file, to guess its format
ALWAYS_VERIFIED = MOST_COPIED  # up to this many bytes of tensors, every load verifies all checksums
COPIED_BYTES = 1 << 20  # bytes to copy at a time from a non-contiguous array
DTYPES: dict[str, np.dtype[Any]] = {
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "U8": np.dtype("u1"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}
METADATA = "__metadata__"
PAD = "_pad"
OWN = "fmcli."
HEADER_CHECKSUM, VERSION, TENSOR_CHECKSUMS = OWN + "header_crc32", OWN + "format", OWN + "tensor_crc32"
LENGTH_BYTES = 8
KIND = OWN + "kind"
MODEL, CHECKPOINT = "model", "checkpoint"
KINDS = {MODEL: "a model", CHECKPOINT: "the checkpoint of an unfinished training run"}
SIGNATURE = f'{{"{METADATA}":{{"{HEADER_CHECKSUM}":"'.encode()
DIGITS = slice(LENGTH_BYTES + len(SIGNATURE), LENGTH_BYTES + len(SIGNATURE) + 8)
OTHER_KINDS = {
    b"PK": "a zip archive",
    b"\x1f\x8b": "a gzip file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"\xfd7zXZ": "an xz file",
    b"BZh": "a bzip2 file",
}
# The beginning of text models of libFM, xLearn and libffm.
OTHER_MODELS = re.compile(rb"#(global bias W0|unary interactions Wj|pairwise interactions Vj,f)|bias: |n \d+\s+m \d")
TEXT = bytes(range(0x20, 0x7F)) + b"\t\r\n"


@dataclass
class ModelFile:
    """The contents of a model file.

    meta : JSON values by name; no name starts with "fmcli.".
    tensors : arrays of float16, float32, float64, uint8, int32 or int64 by name; no name starts with "_".
        The arrays of a loaded model are read-only.
    verified : whether loading verified the checksums of the tensors.
    kind : MODEL or CHECKPOINT.
    own : whether a run of this process made the model; then its contents need no check.
    """

    meta: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    verified: bool = False
    kind: str = MODEL
    own: bool = False


class _Tensor(NamedTuple):
    """The position of a tensor, in bytes from the start of the first tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def is_pad(self) -> bool:
        return self.name.startswith(PAD)


def save(path: str, model: ModelFile) -> None:
    """Write a model file. Only a complete new file replaces an existing one.

    Raises OutputError if the file cannot be written, and ValueError or TypeError for content that would not read back
    unchanged: a reserved name, an array of another type or memory order, a tuple, a NaN, a key that is not a string.
    """
    header, layout = _header_and_layout(model)
    with atomic_output(path) as file:
        file.write(header)
        for piece in _contents_of(model, layout):
            file.write(piece)


def to_bytes(model: ModelFile) -> bytes:
    """Return the bytes of the file that `save` writes. Raises ValueError and TypeError like `save`."""
    header, layout = _header_and_layout(model)
    return b"".join([header, *_contents_of(model, layout)])


def from_bytes(data: bytes, name: str) -> ModelFile:
    """Return the model in bytes from `to_bytes`. Raises BadInputError, which begins with the name."""
    return _parsed(aligned([data], len(data)), name)


def copied(model: ModelFile) -> ModelFile:
    """Return a model of this process with copies of its tensors, laid out in memory as by `load`. Raises ValueError
    like `save` for an array that cannot be saved."""
    layout = list(_lay_out(model.tensors))
    memory = aligned(_contents_of(model, layout), layout[-1].end if layout else 0)
    return ModelFile(model.meta, dict(_views(memory, 0, layout)), verified=True, own=True)


def load(path: str, *, verify: bool = False, kind: str = MODEL) -> ModelFile:
    """Read a file of this kind into memory, or map it if it is larger than 256 MiB.

    The header and the layout are always checked; the checksums of the tensors are checked for up to 256 MiB of tensors,
    or with `verify`. A larger file must not be modified in place while the model is in use; replacing it, as `save`
    does, is safe.

    Raises MissingInputError if it cannot be opened, and BadInputError, with the reason, if it is truncated, corrupted,
    not a model, or from a newer version.
    """
    return _parsed(contents(path, _wanted), path, verify=verify, kind=kind)


def _header_and_layout(model: ModelFile) -> tuple[bytes, list[_Tensor]]:
    """Return the header of a file, and the positions of its tensors after the header."""
    layout = list(_lay_out(model.tensors))
    return _header(model, layout), layout


def _contents_of(model: ModelFile, layout: list[_Tensor]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the tensors of a file."""
    for tensor in layout:
        if tensor.is_pad:
            yield bytes(tensor.end - tensor.begin)
        else:
            yield from map(_bytes_of, _parts(model.tensors[tensor.name]))


def _parsed(file: memoryview, path: str, *, verify: bool = False, kind: str = MODEL) -> ModelFile:
    """Return the model in the bytes of a file; see `load`."""
    try:
        start, header = _read_header(file)
        metadata = header.pop(METADATA)
        _check_version(metadata)
        found = metadata.get(KIND, MODEL)
        if found != kind:
            raise BadInputError(f"is {KINDS.get(found, f'a {found}')}, not {KINDS[kind]}")
        layout = _read_layout(header)
        _check_size(layout, len(file) - start)
        tensors = dict(_views(file, start, layout))
        checksums = _parse(metadata.pop(TENSOR_CHECKSUMS, "null"))
        if not isinstance(checksums, dict) or checksums.keys() != tensors.keys():
            _corrupted("its checksums do not fit its tensors")
        verify = verify or len(file) - start <= ALWAYS_VERIFIED
        if verify:
            for name, _, _, begin, end in (tensor for tensor in layout if not tensor.is_pad):
                if _digits(zlib.crc32(file[start + begin : start + end])) != checksums[name]:
                    _corrupted(f"tensor {name!r} does not match its checksum")
        meta = {key: _parse(text) for key, text in metadata.items() if not key.startswith(OWN)}
        return ModelFile(meta, tensors, verify, kind)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error


def _lay_out(tensors: dict[str, NDArray[Any]]) -> Iterator[_Tensor]:
    names = {dtype: name for name, dtype in DTYPES.items()}
    begin = pads = 0
    for name in sorted(tensors):
        array = tensors[name]
        if name.startswith("_"):
            raise ValueError(f"tensor {name!r}: names that start with _ are reserved")
        if array.dtype not in names or array.ndim > MOST_DIMENSIONS:
            raise ValueError(f"tensor {name!r}: its type or dimensions cannot be saved")
        gap = -begin % ALIGNMENT
        if gap:
            yield _Tensor(f"{PAD}{pads}", "U8", (gap,), begin, begin + gap)
            begin += gap
            pads += 1
        yield _Tensor(name, names[array.dtype], array.shape, begin, begin + array.nbytes)
        begin += array.nbytes


def _header(model: ModelFile, layout: list[_Tensor]) -> bytes:
    """Return the first bytes of the file, up to its tensors."""
    checksums = {t.name: _digits(_checksum(model.tensors[t.name])) for t in layout if not t.is_pad}
    metadata = {HEADER_CHECKSUM: _digits(0), VERSION: str(FORMAT), TENSOR_CHECKSUMS: _to_json(checksums)}
    if model.kind != MODEL:
        metadata[KIND] = model.kind
    for key in sorted(model.meta):
        if key.startswith(OWN):
            raise ValueError(f"{key!r}: names that start with {OWN} are reserved")
        metadata[key] = _to_json(model.meta[key])
        if _parse(metadata[key]) != model.meta[key]:
            raise ValueError(f"{key!r} would not be read back unchanged: {model.meta[key]!r}")
    entries: dict[str, Any] = {METADATA: metadata}
    for t in layout:
        entries[t.name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": (t.begin, t.end)}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNMENT)
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"a header of {len(text)} bytes is too long: store large dictionaries as tensors")
    header = len(text).to_bytes(LENGTH_BYTES, "little") + text
    return header[: DIGITS.start] + _digits(_header_checksum(header)).encode() + header[DIGITS.stop :]


def _read_header(file: memoryview) -> tuple[int, dict[str, Any]]:
    """Return the start of the tensors, and the entries of the header, whose checksum is verified."""
    size = len(file)
    signature = bytes(file[LENGTH_BYTES : DIGITS.start])
    if not SIGNATURE.startswith(signature):
        raise BadInputError(_foreign(file))
    if size < DIGITS.stop:
        raise BadInputError(f"is truncated, or not an fmcli model: {size} bytes are too few for a header")
    length = int.from_bytes(file[:LENGTH_BYTES], "little")
    if length > LONGEST_HEADER:
        _corrupted(f"a header cannot have {length} bytes")
    start = LENGTH_BYTES + length
    if start > size:
        raise BadInputError(f"is truncated: the header needs {start} bytes, but the file has {size}")
    header = bytes(file[:start])
    if _digits(_header_checksum(header)).encode() != header[DIGITS]:
        _corrupted("the header does not match its checksum")
    try:
        entries = _parse(header[LENGTH_BYTES:].decode())
    except UnicodeDecodeError:
        _corrupted("the header is not UTF-8")
    metadata = entries.get(METADATA) if isinstance(entries, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        _corrupted("the header has no metadata")
    return start, entries


def _check_version(metadata: dict[str, str]) -> None:
    version = metadata.get(VERSION, "")
    if not version.isdecimal():
        _corrupted("the version of its format is missing")
    # The length is compared first: converting a number of 5,000 digits would fail.
    if len(version) > len(str(FORMAT)) or int(version) > FORMAT:
        raise BadInputError(
            f"was written by a newer fmcli in format {version[:20]}; this version reads up to {FORMAT}: upgrade fmcli"
        )


def _read_layout(entries: dict[str, Any]) -> list[_Tensor]:
    """Return the tensors in the header, checked to be contiguous."""
    layout: list[_Tensor] = []
    end = 0
    for name, entry in entries.items():
        try:
            dtype, shape, (begin, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            dtype = shape = begin = stop = None
        places = type(begin) is int and type(stop) is int
        if not (places and type(dtype) is str and dtype in DTYPES and _is_shape(shape)):
            _corrupted(f"the header's entry of tensor {name!r} is not valid")
        tensor = _Tensor(name, dtype, tuple(shape), begin, stop)
        if begin != end or stop - begin != math.prod(shape) * DTYPES[dtype].itemsize:
            _corrupted(f"tensor {name!r} has a wrong offset, or a length that does not fit its shape")
        if stop - begin >= ALIGNMENT if tensor.is_pad else begin % ALIGNMENT:
            _corrupted(f"tensor {name!r} is not at a multiple of {ALIGNMENT} bytes")
        layout.append(tensor)
        end = stop
    return layout


def _check_size(layout: list[_Tensor], size: int) -> None:
    """Raise BadInputError unless the tensors fill the `size` bytes after the header."""
    end = layout[-1].end if layout else 0
    if end > size:
        raise BadInputError(f"is truncated: its tensors need {end} bytes, but the file has {size}")
    if end < size:
        _corrupted("more bytes follow its last tensor")


def _wanted(head: memoryview) -> int:
    """Return the number of bytes to read, judged by the first bytes of a file: one more than the file should have, so
    `load` notices extra bytes; but only what `head` has if `head` is invalid, for which `load` finds the reason."""
    if len(head) < DIGITS.stop:
        return DIGITS.stop
    start = LENGTH_BYTES + int.from_bytes(head[:LENGTH_BYTES], "little")
    if head[LENGTH_BYTES : DIGITS.start] != SIGNATURE or start > LENGTH_BYTES + LONGEST_HEADER:
        return len(head)
    if len(head) < start:
        return start
    try:
        _, header = _read_header(head)
        del header[METADATA]
        layout = _read_layout(header)
    except BadInputError:
        return len(head)
    return start + (layout[-1].end if layout else 0) + 1


def _is_shape(value: Any) -> bool:
    """Return whether a value lists the dimensions of an array."""
    sizes = type(value) is list and len(value) <= MOST_DIMENSIONS and all(type(size) is int for size in value)
    return sizes and min(value, default=0) >= 0


def _views(file: memoryview, start: int, layout: list[_Tensor]) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, dtype, shape, begin, end in layout:
        if name.startswith(PAD):
            if any(file[start + begin : start + end]):
                _corrupted("padding between tensors is not zero")
            continue
        try:
            yield name, np.ndarray(shape, DTYPES[dtype], buffer=file, offset=start + begin)
        except (ValueError, OverflowError):  # an empty tensor whose other dimensions are too large
            _corrupted(f"tensor {name!r} cannot have the shape {shape}")


def _foreign(file: memoryview) -> str:
    """Describe a file that does not start like a model."""
    head = bytes(file[:HEAD_BYTES])
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    if head[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{" and length <= LONGEST_HEADER:
        return "is a safetensors file but not an fmcli model, or a model that another program has rewritten"
    if OTHER_MODELS.match(head):
        return "is not an fmcli model, but perhaps one of another program; fmcli import makes it one of fmcli"
    if not head.translate(None, TEXT):
        return "is a text file, not an fmcli model; have you swapped model and data?"
    for begin, kind in OTHER_KINDS.items():
        if head.startswith(begin):
            return f"is {kind}, not an fmcli model"
    return "is not an fmcli model"


def _corrupted(what: str) -> NoReturn:
    raise BadInputError(f"is corrupted: {what}")


def _parts(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield contiguous parts of the array in C order. If parts must be copied, each copy is small."""
    if array.flags.c_contiguous or array.nbytes <= COPIED_BYTES:
        yield array if array.flags.c_contiguous else copy_of(array)
        return
    rows = max(1, COPIED_BYTES * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield from _parts(array[start : start + rows] if len(array) > 1 else array[0])


def _checksum(array: NDArray[Any]) -> int:
    checksum = 0
    for part in _parts(array):
        checksum = zlib.crc32(_bytes_of(part), checksum)
    return checksum


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _digits(checksum: int) -> str:
    return f"{checksum:08x}"


def _header_checksum(header: bytes) -> int:
    return zlib.crc32(header[DIGITS.stop :], zlib.crc32(header[: DIGITS.start]))


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _parse(text: str) -> Any:
    """Parse JSON. Raises BadInputError."""
    try:
        return parse(text)
    except ValueError as error:
        _corrupted(f"the header is not valid JSON ({error})")
