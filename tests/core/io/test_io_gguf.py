"""GGUF: versions, value types and blocks as the reference has them, bounds, malformed files."""

from __future__ import annotations

import ctypes
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io import read_tables
from rushlight.core.io.hub.fetch import FetchError
from rushlight.core.io.weights.byteorder import swap_bytes
from rushlight.core.io.weights.gguf import TruncatedError, gguf_in, load_gguf, read_gguf
from rushlight.core.io.weights.load_schedule import load_schedule, run_schedule
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.core.io.weights.source import BytesSource, FileSource
from rushlight.web.loading.download import Builder

BLOCKS = load_safetensors(Path(__file__).parents[1] / "data" / "blocks.safetensors")
# (name, shape rows first, type number, bytes)
Row = tuple[str, tuple[int, ...], int, bytes]
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(inner: int, count: int, values: bytes) -> bytes:
    return struct.pack("<IQ", inner, count) + values


def gguf(
    pairs: list[bytes] | None = None,
    rows: list[Row] | None = None,
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
    offsets: dict[str, int] | None = None,
) -> bytes:
    """A file of these pairs and tensors, with what is wrong about it as asked."""
    pairs, rows = pairs or [], rows or []
    tensors, keys = counts or (len(rows), len(pairs))
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + b"".join(pairs)
    data = b""
    for name, shape, kind, content in rows:
        offset = (offsets or {}).get(name, len(data))
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head += struct.pack("<IQ", kind, offset)
        data += content + bytes(-len(content) % alignment)
    return head + bytes(-len(head) % alignment) + data


def read(content: bytes) -> Any:
    return read_gguf(BytesSource(content, "m.gguf"))


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# --- what is in a file ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_every_value_type(version: int) -> None:
    values = {0: 255, 1: -128, 2: 65535, 3: -5, 4: 2**32 - 1, 5: -7, 6: 0.5, 7: True,
              10: 2**64 - 1, 11: -(2**63), 12: 0.1}  # fmt: skip
    pairs = [pair(f"n{k}", k, struct.pack(f"<{f}", values[k])) for k, f in NUMBERS.items()]
    pairs += [
        pair(f"a{k}", 9, array(k, 3, struct.pack(f"<3{f}", *[values[k]] * 3)))
        for k, f in NUMBERS.items()
    ]
    nested = array(9, 2, array(8, 1, text("a")) + array(4, 2, struct.pack("<2I", 7, 8)))
    pairs += [
        pair("s", 8, text("a \u2028 é")),
        pair("empty", 8, text("")),
        pair("bytes", 8, text(b"\xf0\x9f")),
        pair("strings", 9, array(8, 3, text("") + text(b"\xc3") + text("é"))),
        pair("nested", 9, nested),
        pair("none", 9, array(8, 0, b"")),
    ]
    found = read(gguf(pairs, version=version)).metadata
    for kind, value in values.items():
        assert found[f"n{kind}"] == value and type(found[f"n{kind}"]) is type(value)
        assert found[f"a{kind}"].tolist() == [value] * 3
        assert found[f"a{kind}"].dtype == np.dtype(f"<{NUMBERS[kind]}")
    assert found["s"] == "a \u2028 é" and found["empty"] == "" and found["none"] == []
    assert found["bytes"].encode("utf-8", "surrogateescape") == b"\xf0\x9f"
    assert found["strings"][0] == "" and found["strings"][2] == "é"
    assert found["strings"][1].encode("utf-8", "surrogateescape") == b"\xc3"
    assert found["nested"][0] == ["a"] and found["nested"][1].tolist() == [7, 8]


PLAIN = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}
QUANTIZED = {
    2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1", 10: "q2_k", 11: "q3_k",
    12: "q4_k", 13: "q5_k", 14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs",
    19: "iq1_s", 20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 34: "tq1_0",
    35: "tq2_0", 39: "mxfp4", 40: "nvfp4", 41: "q1_0", 42: "q2_0",
}  # fmt: skip


def some(alignment: int = 32) -> tuple[bytes, dict[str, tuple[str, tuple[int, ...], bytes]]]:
    """A file with every tensor type, and (dtype, shape, bytes) of each tensor."""
    rng = np.random.default_rng(3)
    expected: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    rows: list[Row] = []
    for kind, name in (PLAIN | QUANTIZED).items():
        dtype = rl.core.basis.dtype.DTYPES[name]
        whole = max(dtype.block, 32)
        for shape in ((3, 2 * whole), (2, 1, 3, whole), (3 * whole,), (0, whole)):
            content = rng.integers(0, 256, dtype.nbytes(int(np.prod(shape)))).astype(np.uint8)
            rows.append((f"{name}.{len(rows)}", shape, kind, content.tobytes()))
            expected[rows[-1][0]] = (name, shape, rows[-1][3])
    rows.append(("scalar", (), 0, struct.pack("<f", 1.5)))
    expected["scalar"] = ("float32", (), rows[-1][3])
    pairs = [pair("general.alignment", 4, struct.pack("<I", alignment))]
    return gguf(pairs, rows, alignment=alignment), expected


@pytest.mark.parametrize("alignment", [1, 8, 32, 4096])
@pytest.mark.parametrize("how", ["mapped", "file", "bytes", "writable bytes"])
def test_every_tensor_type(tmp_path: Path, alignment: int, how: str) -> None:
    content, expected = some(alignment)
    source: Any = write(tmp_path / "m.gguf", content)
    if how == "file":
        source = FileSource(source)
    elif how != "mapped":
        source = BytesSource(content if how == "bytes" else bytearray(content))
    tensors, metadata = load_gguf(source)
    assert metadata == {"general.alignment": alignment}
    found = {n: (t.dtype.name, t.shape, t.raw_bytes()) for n, t in tensors.items()}
    assert found == expected
    assert list(tensors) == list(expected)
    if how == "file":
        source.close()


def test_blocks_stay_views_of_the_mapped_file(tmp_path: Path) -> None:
    """Also where a block's size does not divide the address."""
    shape, stored = (15, 96), BLOCKS["q4_0.bytes"].raw_bytes()
    path = write(tmp_path / "m", gguf(rows=[("pad", (8,), 0, bytes(32)), ("w", shape, 2, stored)]))
    tensors, _ = load_gguf(path)
    assert np.array_equal(tensors["w"].dequantize().numpy(), BLOCKS["q4_0.values"].numpy())
    address = tensors["w"].buffer.__array_interface__["data"][0]
    assert address - tensors["pad"].buffer.__array_interface__["data"][0] == 32


def test_load_goes_by_content(tmp_path: Path, device: str) -> None:
    row = ("w", (15, 96), 8, BLOCKS["q8_0.bytes"].raw_bytes())
    path = write(tmp_path / "weights.bin", gguf([pair("a", 8, text("b"))], [row]))
    tensors = rl.load(path, device=device)
    assert [*tensors] == ["w"] and tensors["w"].dtype is rl.q8_0
    assert np.array_equal(tensors["w"].dequantize().numpy(), BLOCKS["q8_0.values"].numpy())
    assert rl.load(path, device="meta")["w"].shape == (15, 96)
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "a.gguf", path.read_bytes())
    assert [*rl.load(folder)] == ["w"]
    write(folder / "b.gguf", path.read_bytes())
    with pytest.raises(rl.FormatError, match=r"several GGUF files: a\.gguf, b\.gguf"):
        rl.load(folder)


@pytest.mark.native
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "F32", "BF16"])
def test_the_reader_reads_what_the_reference_writes(tmp_path: Path, kind: str) -> None:
    import gguf as reference

    quantization = reference.GGMLQuantizationType[kind]
    values = np.random.default_rng(5).normal(size=(7, 64)).astype(np.float32)
    stored = reference.quants.quantize(values, quantization)
    writer = reference.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_uint32("a.number", 7)
    writer.add_float64("a.float", 0.1)
    writer.add_bool("a.bool", False)
    writer.add_string("a.string", "é")
    writer.add_array("a.strings", ["x", "", "é"])
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_tensor("w", stored, raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors, metadata = load_gguf(tmp_path / "m.gguf")
    assert metadata["a.numbers"].tolist() == [1, 2, 3]
    assert {k: v for k, v in metadata.items() if k != "a.numbers"} == {
        "general.architecture": "llama",
        "a.number": 7,
        "a.float": 0.1,
        "a.bool": False,
        "a.string": "é",
        "a.strings": ["x", "", "é"],
    }
    expected = reference.quants.dequantize(stored, quantization)
    assert tensors["w"].shape == (7, 64)
    assert np.array_equal(tensors["w"].float().numpy(), expected)


# --- the other versions, byte orders and split files ---------------------------------------------


def other(order: str, version: int) -> bytes:
    """A file with every kind of value and two tensors, in a version and an order of bytes."""
    length = "I" if version == 1 else "Q"

    def put(form: str, *values: Any) -> bytes:
        return struct.pack(order + form, *values)

    def word(value: str) -> bytes:
        return put(length, len(value.encode())) + value.encode()

    values = [word(f"n{kind}") + put("I", kind) + put(f, 1) for kind, f in NUMBERS.items()]
    values += [
        word(f"a{kind}") + put("II" + length, 9, kind, 3) + put(f"3{f}", 1, 0, 1)
        for kind, f in NUMBERS.items()
    ]
    inner = put("I" + length, 8, 3) + word("") + word("é") + word("long" * 9)
    values.append(word("s") + put("I", 8) + word("a \u2028"))
    values.append(word("texts") + put("I", 9) + inner)
    values.append(word("nested") + put("II" + length, 9, 9, 2) + inner * 2)
    rows = word("f") + put("I2" + length, 2, 3, 2) + put("IQ", 0, 0)
    rows += word("h") + put("I1" + length, 1, 5) + put("IQ", 1, 32)
    head = b"GGUF" + put("I2" + length, version, 2, len(values)) + b"".join(values) + rows
    data = put("6f", *range(6)) + bytes(8) + put("5e", *range(5)) + bytes(22)
    return head + bytes(-len(head) % 32) + data


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_version_in_both_byte_orders(order: str, version: int, device: str) -> None:
    tensors, metadata = load_gguf(BytesSource(other(order, version), "m.gguf"), device)
    for kind, form in NUMBERS.items():
        assert metadata[f"n{kind}"] == 1 and metadata[f"a{kind}"].tolist() == [1, 0, 1]
        assert metadata[f"a{kind}"].dtype == np.dtype(form.lower() if form == "?" else form)
        assert metadata[f"a{kind}"].dtype.isnative
    texts = ["", "é", "long" * 9]
    assert (metadata["s"], metadata["texts"], metadata["nested"]) == (
        "a \u2028",
        texts,
        [texts] * 2,
    )
    assert np.array_equal(tensors["f"].numpy(), np.arange(6, dtype="f4").reshape(2, 3))
    assert np.array_equal(tensors["h"].numpy(), np.arange(5, dtype="f2"))


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_another_version_cut_off_anywhere(order: str, version: int) -> None:
    content = other(order, version)
    for end in range(24, read(content).header - 32):
        with pytest.raises(TruncatedError):
            read(content[:end])


@pytest.mark.native
def test_blocks_in_the_other_byte_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As llama.cpp's converter swaps them."""
    import argparse

    import gguf as reference
    from gguf.scripts import gguf_convert_endian

    kinds = ("Q4_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4", "NVFP4", "F32", "F16", "BF16")
    path, rng = tmp_path / "m.gguf", np.random.default_rng(2)
    writer = reference.GGUFWriter(path, "llama")
    writer.add_array("a.strings", ["x", "é"])
    for kind in kinds:
        number = reference.GGMLQuantizationType[kind]
        block, size = reference.GGML_QUANT_SIZES[number]
        stored = rng.integers(0, 256, (3, 512 // block * size)).astype(np.uint8)
        writer.add_tensor(kind, stored, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    usual, metadata = load_gguf(BytesSource(path.read_bytes()))
    monkeypatch.setattr("builtins.input", lambda _: "YES")
    reader = reference.GGUFReader(path, "r+")
    gguf_convert_endian.convert_byteorder(reader, argparse.Namespace(order="big", dry_run=False))
    del reader
    swapped, same = load_gguf(path)
    assert path.read_bytes()[4:8] == b"\0\0\0\3" and same == metadata
    for kind in kinds:
        assert swapped[kind].dtype is usual[kind].dtype
        assert swapped[kind].raw_bytes() == usual[kind].raw_bytes(), kind


def test_blocks_with_wider_integers_in_the_other_byte_order() -> None:
    """Members of ggml's structs: q5_0 a half and a uint32, iq4_xs a half and a uint16, ..."""
    forms = {
        6: "<HI16s",
        7: "<2HI16s",
        15: "<I256s16H",
        17: "<H32H8s",
        19: "<H32s8H",
        23: "<HH132s",
        12: "<2H140s",
        11: "<108sH",
        35: "<64sH",
    }
    rng = np.random.default_rng(4)
    for kind, form in forms.items():
        whole = rng.integers(0, 256, struct.calcsize(form)).astype(np.uint8).tobytes()
        there = struct.pack(form.replace("<", ">"), *struct.unpack(form, whole))
        dtype = rl.core.basis.dtype.DTYPES[QUANTIZED[kind]]
        data = np.frombuffer(there * 3, np.uint8).copy()
        swap_bytes(data, dtype)
        assert data.tobytes() == whole * 3, dtype


def test_a_type_without_a_layout_in_the_other_order_is_refused() -> None:
    head = b"GGUF" + struct.pack(">I2Q", 3, 1, 0) + struct.pack(">Q", 1) + b"w"
    head += struct.pack(">I1QIQ", 1, 256, 29, 0)
    with pytest.raises(rl.FormatError, match="tensor 'w': iq1_m in the other byte order"):
        read(head + bytes(-len(head) % 32) + bytes(64))


def parts(count: int, **changes: Any) -> list[bytes]:
    """A split file: a tensor in each part, the metadata in the first."""
    made = []
    for n in range(count):
        numbers = {"no": n, "count": count, "tensors.count": count} | changes
        pairs = [pair("general.name", 8, text("whole"))] if n == 0 else []
        pairs += [pair(f"split.{k}", 5, struct.pack("<i", v)) for k, v in numbers.items()]
        made.append(gguf(pairs, [(f"w{n}", (2, 3), 0, struct.pack("<6f", *[n] * 6))]))
    return made


def write_parts(folder: Path, contents: list[bytes]) -> list[Path]:
    names = [f"m-{n:05}-of-{len(contents):05}.gguf" for n in range(1, len(contents) + 1)]
    return [write(folder / name, content) for name, content in zip(names, contents, strict=True)]


@pytest.mark.native
def test_a_split_file_is_one(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, parts(3))
    for place in (tmp_path, *paths):
        tensors = rl.load(place)
        assert {n: t[0, 0].item() for n, t in tensors.items()} == {"w0": 0, "w1": 1, "w2": 2}
        assert load_gguf(paths[1])[1]["general.name"] == "whole"
    assert [len(table.entries) for _, table, _ in read_tables(tmp_path)] == [1, 1, 1]
    write(tmp_path / "other.gguf", gguf())
    with pytest.raises(rl.FormatError, match="several GGUF files: m-00001-of-00003.gguf, other"):
        rl.load(tmp_path)


@pytest.mark.native
def test_a_file_that_the_reference_splits(tmp_path: Path) -> None:
    import gguf as reference

    writer = reference.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=2)
    writer.add_array("a.strings", ["x", "é"])
    for n in range(5):
        writer.add_tensor(f"w{n}", np.full((3, 4), n, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert len(list(tmp_path.glob("*-of-00003.gguf"))) == 3
    tensors, metadata = load_gguf(gguf_in(tmp_path) or "")
    assert metadata["a.strings"] == ["x", "é"] and len(tensors) == 5
    assert all((tensors[f"w{n}"].numpy() == n).all() for n in range(5))


@pytest.mark.native
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_split_file_names_the_missing_part(tmp_path: Path, missing: int) -> None:
    paths = write_parts(tmp_path, parts(3))
    paths.pop(missing).unlink()
    for place in (tmp_path, *paths):
        with pytest.raises(rl.FormatError, match=f"m-0000{missing + 1}-of-00003.gguf is missing"):
            rl.load(place)


@pytest.mark.native
def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    first, second, third = parts(3)
    paths = write_parts(tmp_path, [first, third, second])
    with pytest.raises(rl.FormatError, match="says it is part 3 of 3, here it is 2 of 3"):
        rl.load(paths[0])
    with pytest.raises(rl.FormatError, match="m.gguf says it is part 2 of 3, here it is 1 of 1"):
        load_gguf(BytesSource(second, "m.gguf"))
    write_parts(tmp_path, [first, second, third[:-32]])
    with pytest.raises(rl.FormatError, match="m-00003-of-00003.gguf: tensor 'w2': 24 bytes"):
        rl.load(paths[0])
    write_parts(tmp_path, parts(3, **{"tensors.count": 5}))
    with pytest.raises(rl.FormatError, match="the parts have 3 tensors; the file has 5"):
        rl.load(paths[0])
    write_parts(tmp_path, [first, second, parts(3)[0].replace(b"split.no", b"split.on")])
    with pytest.raises(rl.FormatError, match="says it is part 1 of 3, here it is 3 of 3"):
        rl.load(paths[0])


@pytest.mark.native
def test_a_split_file_on_a_server(tmp_path: Path) -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    files = {f"/{path.name}": path.read_bytes() for path in write_parts(tmp_path, parts(2))}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path, b"")
            begin, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            piece = content[begin : end + 1]
            self.send_response(206 if content else 404)
            self.send_header("Content-Length", str(len(piece)))
            last = begin + len(piece) - 1
            self.send_header("Content-Range", f"bytes {begin}-{last}/{len(content)}")
            self.end_headers()
            self.wfile.write(piece)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        where = f"http://127.0.0.1:{server.server_port}/m-00002-of-00002.gguf"
        assert {n: t[1, 2].item() for n, t in rl.load(where).items()} == {"w0": 0, "w1": 1}
        files.pop("/m-00001-of-00002.gguf")
        with pytest.raises(FetchError, match="m-00001-of-00002.gguf"):
            rl.load(where)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Bytes(bytes):
    """As JavaScript gives them."""

    def to_bytes(self) -> bytes:
        return bytes(self)


def built(files: dict[str, bytes]) -> Any:
    """What the tab's Builder makes of files that JavaScript streams to its places."""
    builder = Builder()
    for name, content in files.items():
        rows = builder.begin(name, _Bytes(content), len(content))
        assert rows is not None
        for offset, nbytes, kind, place in zip(*[iter(rows)] * 4, strict=True):
            assert kind == 0  # the heap
            ctypes.memmove(place, content[offset : offset + nbytes], nbytes)
    return builder.parts()


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_tabs_builder_in_both_byte_orders(order: str) -> None:
    files, tensors, metadata = built({"m.gguf": other(order, 3)})
    assert files == {} and metadata["s"] == "a \u2028"
    assert np.array_equal(tensors["f"].numpy(), np.arange(6, dtype="f4").reshape(2, 3))
    assert np.array_equal(tensors["h"].numpy(), np.arange(5, dtype="f2"))


def test_the_tabs_builder_joins_parts() -> None:
    contents = {f"m-{n}.gguf": content for n, content in enumerate(parts(3))}
    _, tensors, metadata = built(contents)
    assert metadata["general.name"] == "whole"
    assert {n: t[0, 0].item() for n, t in tensors.items()} == {"w0": 0, "w1": 1, "w2": 2}
    contents.popitem()
    with pytest.raises(rl.FormatError, match="m-0.gguf says it is part 1 of 3, .* 1 of 2"):
        built(contents)


@pytest.mark.native
def test_offsets_beyond_32_bits(tmp_path: Path) -> None:
    """A source of 2**43 bytes, of which the header and one tensor are read."""
    rows: list[Row] = [("far", (4,), 0, b""), ("near", (4,), 0, b"")]
    offset = (1 << 42) + 32
    head = gguf(rows=rows, offsets={"far": offset, "near": 0})
    reads: list[tuple[int, int]] = []

    class Sparse(BytesSource):
        def read(self, offset: int, n: int) -> memoryview:
            reads.append((offset, n))
            return memoryview(self.view[offset : offset + n].tobytes().ljust(min(n, 64), b"\1"))

    source = Sparse(head, "m.gguf")
    source.size = 1 << 43
    table = read_gguf(source).table
    assert table.entries["far"].offset == len(head) + offset
    assert sum(min(n, len(head)) for _, n in reads) == len(head)
    reads.clear()
    steps = load_schedule([table], ["heap"])
    assert [step.offset for step in steps] == [len(head), len(head) + offset]
    assert [t.shape for _, t in run_schedule(steps, [source])] == [(4,), (4,)]
    assert reads == [(len(head), 16), (len(head) + offset, 16)]


# --- size ----------------------------------------------------------------------------------------


@pytest.mark.native
def test_a_sparse_file_of_five_gigabytes_opens_at_once(tmp_path: Path) -> None:
    rows: list[Row] = [(f"w{i}", (1 << 15, 1 << 15), 2, b"") for i in range(8)]
    each = (1 << 30) // 32 * 18
    head = gguf(rows=rows, offsets={f"w{i}": i * each for i in range(8)})
    path = write(tmp_path / "big.gguf", head)
    with path.open("r+b") as file:
        file.truncate(len(head) + 8 * each + (400 << 20))
    assert path.stat().st_size > 5 * 10**9
    import resource  # a tab has none

    tensors, _ = load_gguf(path)
    # The pages of the mapped file that were looked at: in all there are 1.2 million.
    before = resource.getrusage(resource.RUSAGE_SELF)
    tensors, _ = load_gguf(path)
    after = resource.getrusage(resource.RUSAGE_SELF)
    faults = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt
    assert faults < 10_000
    assert tensors["w7"].shape == (1 << 15, 1 << 15)
    assert tensors["w7"][-1, :].dequantize().sum().item() == 0


def test_many_strings_are_read_in_proportion(count_steps: Callable[..., int]) -> None:
    def steps(count: int) -> int:
        words = [f"token{i}é" for i in range(count)]
        values = b"".join(map(text, words))
        content = gguf([pair("tokenizer.ggml.tokens", 9, array(8, len(words), values))])
        assert read(content).metadata["tokenizer.ggml.tokens"] == words
        return count_steps(lambda: read(content))

    assert steps(40_000) < 4.5 * steps(10_000) < 4.5 * 20 * 10_000


def test_many_small_arrays_are_read_in_proportion(count_steps: Callable[..., int]) -> None:
    def steps(count: int) -> int:
        inner = b"".join(array(8, 1, text("ab")) for _ in range(count))
        content = gguf([pair("a", 9, array(9, count, inner))])
        assert read(content).metadata["a"] == [["ab"]] * count
        return count_steps(lambda: read(content))

    assert steps(8_000) < 4.5 * steps(2_000) < 4.5 * 100 * 2_000


@pytest.mark.native
def test_strings_over_the_borders_of_what_is_read_at_a_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    words = ["x" * int(n) for n in rng.integers(0, 300_000, 60)] + ["y" * 3_000_000, "z"]
    content = gguf([pair("a", 9, array(8, len(words), b"".join(map(text, words))))])
    source = FileSource(write(tmp_path / "m.gguf", content))
    assert read_gguf(source).metadata["a"] == words
    source.close()


# --- files that are wrong ------------------------------------------------------------------------

F32: Row = ("w", (2, 3), 0, bytes(24))
HUGE = [2**20, 2**31, 2**32, 2**61, 2**63 - 1, 2**63, 2**64 - 1]
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "does not begin with GGUF"),
    "magic": (b"GGML" + gguf()[4:], "does not begin with GGUF"),
    "short": (gguf()[:20], "does not begin with GGUF"),
    "version 0": (gguf(version=0), "GGUF version 0 is not supported; supported: 1, 2, 3"),
    "version 4": (gguf(version=4), "GGUF version 4 is not supported"),
    "version 4, big-endian": (gguf(version=4 << 24), "version 67108864 is not supported"),
    "counts": (gguf(counts=(5, 2)), "5 tensors and 2 keys cannot be in 32 bytes"),
    "key twice": (gguf([pair("a", 7, b"\1"), pair("a", 7, b"\0")]), "key 'a' occurs twice"),
    "key not UTF-8": (gguf([pair(b"\xff", 7, b"\1")]), r"name of a key, b'\\xff', is not UTF-8"),
    "value type": (gguf([pair("a", 13, bytes(8))]), "key 'a' has a value of type 13"),
    "array type": (gguf([pair("a", 9, array(13, 1, bytes(99)))]), "'a' has a value of type 13"),
    "too deep": (
        gguf(
            [
                pair(
                    "a",
                    9,
                    array(
                        9,
                        1,
                        array(9, 1, array(9, 1, array(9, 1, array(9, 1, array(4, 1, bytes(4)))))),
                    ),
                ),
                pair("b", 8, text("x" * 99)),
            ]
        ),
        "key 'a' nests too deep",
    ),
    "alignment 0": (gguf([pair("general.alignment", 4, bytes(4))]), "is 0, not a power"),
    "alignment 24": (gguf([pair("general.alignment", 4, b"\x18\0\0\0")]), "is 24, not a power"),
    "alignment is text": (gguf([pair("general.alignment", 8, text("32"))]), "type 8, not uint32"),
    "dims": (gguf(rows=[("w", (1,) * 5, 0, bytes(4))]), "tensor 'w' has 5 dims"),
    "tensor twice": (gguf(rows=[F32, F32]), "tensor 'w' occurs twice"),
    "name not UTF-8": (
        gguf(rows=[F32]).replace(text("w"), text(b"\xfe")),
        r"name of a tensor, b'\\xfe'",
    ),
    "a type that ggml removed": (
        gguf(rows=[("w", (32,), 31, bytes(18))]),
        "tensor 'w': q4_0_4_4 is not supported; nearest: q4_0, .*; supported: float32, .*q6_k",
    ),
    "half a block of 256": (
        gguf(rows=[("w", (2, 128), 12, bytes(144))]),
        r"\(2, 128\): 128 columns are not a whole number of q4_k blocks of 256",
    ),
    "unknown type": (
        gguf(rows=[("w", (2,), 99, bytes(8))]),
        "tensor 'w': type 99 is not supported; supported: ",
    ),
    "no whole blocks": (
        gguf(rows=[("w", (2, 16), 2, bytes(18))]),
        r"\(2, 16\): 16 columns are not a whole number",
    ),
    "blocks without a dim": (gguf(rows=[("w", (), 2, bytes(18))]), "1 columns are not a whole"),
    "too large": (gguf(rows=[("w", (2**40, 2**40), 0, b"")]), "is larger than any memory"),
    "too large but empty": (gguf(rows=[("w", (2**63, 0, 2**63), 0, b"")]), "larger than any"),
    "not aligned": (gguf(rows=[F32], offsets={"w": 8}), "24 bytes at .* do not fit"),
    "past the end": (gguf(rows=[F32], offsets={"w": 32}), "24 bytes at .* do not fit"),
    "far past the end": (gguf(rows=[F32], offsets={"w": 2**64 - 32}), "do not fit a file"),
    "overlap": (
        gguf(rows=[F32, ("v", (2, 3), 0, bytes(24))], offsets={"v": 0}),
        "tensor 'v' begins at byte 128, within the 24 bytes of 'w' at 128",
    ),
    "many tensors": (gguf(counts=(70_000, 0)) + bytes(1 << 21), "has 70000 tensors; at most 65536"),
    "many keys": (gguf(counts=(0, 70_000)) + bytes(1 << 20), "has 70000 keys; at most 65536"),
    "many strings": (
        gguf([pair("a", 9, array(8, 9_000_000, b""))]) + bytes(72_000_000),
        "has 9000000 strings in its metadata; at most 8388608",
    ),
    "data cut off": (gguf(rows=[F32])[:-32], "24 bytes at .* do not fit"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_malformed_file_is_named(which: str) -> None:
    content, message = WRONG[which]
    with pytest.raises(rl.FormatError, match=message) as told:
        read(content)
    assert "m.gguf" in str(told.value)


LENGTHS = {
    "key": lambda n: gguf(counts=(0, 1))[:24] + struct.pack("<Q", n) + bytes(100),
    "string": lambda n: gguf([pair("a", 8, struct.pack("<Q", n) + bytes(100))]),
    "numbers": lambda n: gguf([pair("a", 9, array(10, n, bytes(100)))]),
    "strings": lambda n: gguf([pair("a", 9, array(8, n, bytes(100)))]),
    "string of strings": lambda n: gguf([pair("a", 9, array(8, 1, struct.pack("<Q", n)))]),
    "arrays": lambda n: gguf([pair("a", 9, array(9, n, bytes(100)))]),
    "tensors": lambda n: gguf(counts=(n, 0)),
    "keys": lambda n: gguf(counts=(0, n)),
    "tensor name": lambda n: gguf(counts=(1, 0))[:24] + struct.pack("<Q", n) + bytes(100),
    "dim": lambda n: gguf(rows=[("w", (n, 3), 0, bytes(32))]),
}


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("which", LENGTHS)
def test_a_length_is_checked_before_it_is_allocated(which: str, size: int) -> None:
    content = LENGTHS[which](size)
    tracemalloc.start()
    try:
        with pytest.raises(rl.FormatError):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("inner", [9, 8, 4])
def test_many_small_values_take_eight_times_the_file_at_most(inner: int) -> None:
    """Arrays of arrays, words of one broken byte, and numbers."""
    words = b"".join(text(bytes([128 + i % 128])) for i in range(400_000))
    content = gguf(
        [
            pair(
                "a",
                9,
                {
                    9: array(9, 500_000, array(4, 0, b"") * 500_000),
                    8: array(8, 400_000, words),
                    4: array(4, 1_000_000, bytes(4_000_000)),
                }[inner],
            )
        ]
    )
    tracemalloc.start()
    try:
        if inner == 9:
            with pytest.raises(rl.FormatError, match="65537 arrays in its metadata; at most 65536"):
                read(content)
        else:
            assert len(read(content).metadata["a"]) == {8: 400_000, 4: 1_000_000}[inner]
        assert tracemalloc.get_traced_memory()[1] < 8 * len(content) + (16 << 20)
    finally:
        tracemalloc.stop()


def test_a_header_cut_off_anywhere_is_told_apart() -> None:
    """A reader of a download knows that more of the file may help."""
    content, _ = some()
    header = read(content).header
    for end in range(24, header - 32):
        with pytest.raises(TruncatedError) as told:
            read(content[:end])
        assert "m.gguf" in str(told.value)


@pytest.mark.native
def test_a_file_that_shrinks_is_told(tmp_path: Path) -> None:
    source = FileSource(write(tmp_path / "m.gguf", gguf([pair("a", 8, text("x" * 3_000_000))])))
    (tmp_path / "m.gguf").write_bytes(gguf([pair("a", 8, text("x" * 3_000_000))])[:2_000_000])
    with pytest.raises(TruncatedError, match="ends at byte 2000000, in its header"):
        read_gguf(source)
    source.close()
