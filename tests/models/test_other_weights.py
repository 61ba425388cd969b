"""Models whose weights are files of PyTorch or NumPy, in a folder of the hub's layout."""

from __future__ import annotations

import ctypes
import io
import json
import struct
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.pickles.pytorch import SavedFile
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.core.io.weights.source import BytesSource
from rushlight.models.loading import from_parts
from rushlight.web.loading.download import Builder

DATA = Path(__file__).parent / "data" / "families"
IDS = [[3, 1, 4, 1, 5]]


def checkpoint() -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """config.json of the tiny BERT, and tensors."""
    metadata = open_tables(DATA / "bert.safetensors")[0][1].metadata
    rng, names = np.random.default_rng(1), json.loads(metadata["names"])
    tensors = {n: rng.normal(size=shape).astype(np.float32) for n, shape in names.items()}
    return json.loads(metadata["config"]), tensors


def pickled(tensors: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """What torch.save writes of a state dict, in the fewest opcodes."""

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    buffer = io.BytesIO()
    content = b"\x80\x02}("
    with zipfile.ZipFile(buffer, "w") as archive:
        for key, (name, values) in enumerate(tensors.items()):
            strides = tuple(s // values.itemsize for s in values.strides)
            storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(key))
            storage += text("cpu") + number(values.size) + b"tQ"
            content += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(0)
            content += numbers(values.shape) + numbers(strides) + b"\x89}tR"
            archive.writestr(f"model/data/{key}", values.tobytes("A"))
        archive.writestr("model/data.pkl", content + b"u.")
    return buffer.getvalue()


@pytest.mark.native
def test_a_file_of_rwkv_needs_no_config(tmp_path: Path, table: ModuleType) -> None:
    metadata = open_tables(DATA / "rwkv7.safetensors")[0][1].metadata
    names = {n: tuple(shape) for n, shape in json.loads(metadata["names"]).items()}
    tensors = {n: table.values_of(n, shape) for n, shape in names.items()}
    # Files have these, and the first layer does not read them.
    tensors |= {f"blocks.0.att.v{i}": np.ones(3, np.float32) for i in range(3)}
    (tmp_path / "RWKV-x070.pth").write_bytes(pickled(tensors))
    for place in (tmp_path, tmp_path / "RWKV-x070.pth"):
        m = rl.models.load(place)
        assert m.config.model_type == "rwkv7" and m.tokenizer is None
        with rl.no_grad():
            found = m(rl.tensor(table.ids_of(131))).numpy()
        golden = rl.load(DATA / "rwkv7.safetensors")["out"].numpy()
        np.testing.assert_allclose(found, golden, rtol=1e-4, atol=5e-5)


class Bytes(bytes):
    """As JavaScript gives them."""

    def to_bytes(self) -> bytes:
        """The bytes."""
        return bytes(self)


def write(folder: Path, how: str) -> None:
    config, tensors = checkpoint()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "training_args.bin").write_bytes(b"\x80\x02cevil\ncode\n)R.")
    halves = dict(list(tensors.items())[::2]), dict(list(tensors.items())[1::2])
    if how == "npz":
        np.savez(folder / "weights.npz", **tensors)  # type: ignore[arg-type]
    elif how == "shards":
        shards = [f"pytorch_model-{n:05}-of-00002.bin" for n in (1, 2)]
        places = {n: s for s, half in zip(shards, halves, strict=True) for n in half}
        for shard, half in zip(shards, halves, strict=True):
            (folder / shard).write_bytes(pickled(half))
        index = json.dumps({"weight_map": places})
        (folder / "pytorch_model.bin.index.json").write_text(index)
    else:
        (folder / how).write_bytes(pickled(tensors))


@pytest.mark.parametrize("how", ["pytorch_model.bin", "model.pt", "a.pth", "npz", "shards"])
def test_a_model_takes_them_where_safetensors_are_missing(how: str, tmp_path: Path) -> None:
    write(tmp_path, how)
    found: Any = rl.models.load(tmp_path)
    _, tensors = checkpoint()
    state = found.state_dict()
    assert len(state) == len(tensors)
    rl.save({n: rl.tensor(v) for n, v in tensors.items()}, tmp_path / "model.safetensors")
    same: Any = rl.models.load(tmp_path)
    for name, tensor in same.state_dict().items():
        assert tensor.raw_bytes() == state[name].raw_bytes(), name
    assert np.array_equal(
        found(rl.tensor(IDS)).detach().numpy(), same(rl.tensor(IDS)).detach().numpy()
    )


def test_the_tabs_builder_takes_them(tmp_path: Path) -> None:
    """It gets bytes from JavaScript, whose names are those of the listing."""
    write(tmp_path, "shards")
    builder = Builder()
    for path in sorted(tmp_path.glob("[cp]*")):
        builder.add_file(path.name, Bytes(path.read_bytes()))
    found: Any = from_parts(*builder.parts())
    same: Any = rl.models.load(tmp_path)
    assert np.array_equal(
        found(rl.tensor(IDS)).detach().numpy(), same(rl.tensor(IDS)).detach().numpy()
    )
    with pytest.raises(rl.FormatError, match="is in another file already"):
        path = tmp_path / "pytorch_model-00001-of-00002.bin"
        builder.add_file("again.bin", Bytes(path.read_bytes()))


def streamed(builder: Any, name: str, content: bytes) -> list[int]:
    """Give a file to the tab's Builder as JavaScript does; the lengths of the ranges looked at."""
    asked: list[int] = []
    wanted: list[int] | None = [0, min(1 << 16, len(content))]
    while wanted:
        asked.append(wanted[1])
        data = Bytes(content[wanted[0] : sum(wanted)])
        wanted = builder.look(name, len(content), wanted[0], data)
    assert wanted is not None
    count, *numbers = builder.begin_stored()
    records, rows = numbers[:count], numbers[count:]
    for start, nbytes, kind, place in zip(*[iter(rows)] * 4, strict=True):
        assert kind == 0  # the heap
        behind = max((r for r in records if r < start), default=None)
        if behind is not None:
            start += sum(struct.unpack_from("<2H", content, behind + 26))
        ctypes.memmove(place, content[start : start + nbytes], nbytes)
    return asked


SAVED = Path(__file__).parents[1] / "core" / "data"


@pytest.mark.parametrize("name", ["torch_zip.pt", "torch_zip_4.pt", "torch_row.pt"])
def test_what_torch_saved_streams_to_its_storages(name: str) -> None:
    """Views with strides, shared storages, every dtype; equal to what `load` gives."""
    builder = Builder()
    streamed(builder, name, (SAVED / name).read_bytes())
    _, tensors, _ = builder.parts()
    expected = rl.load(SAVED / name)["state_dict"]
    assert tensors.keys() == expected.keys()
    for key, tensor in expected.items():
        same = tensors[key]
        assert same.dtype == tensor.dtype and same.layout.strides == tensor.layout.strides, key
        assert same.raw_bytes() == tensor.raw_bytes(), key
    assert tensors["w"].storage is tensors["turned"].storage


def test_a_count_of_a_storage_that_is_damaged_is_refused(tmp_path: Path) -> None:
    """Files before PyTorch 1.6: in a process as in the tab, where it comes with the stream."""
    content = bytearray((SAVED / "torch_row.pt").read_bytes())
    offset, count = SavedFile(BytesSource(content, "torch_row.pt")).read().counts[-1]
    assert content[offset : offset + 8] == count
    content[offset + 5] ^= 1
    (tmp_path / "torch_row.pt").write_bytes(content)
    with pytest.raises(rl.FormatError, match=f"at byte {offset} says it has"):
        rl.load(tmp_path / "torch_row.pt")
    builder = Builder()
    streamed(builder, "torch_row.pt", bytes(content))
    with pytest.raises(rl.FormatError, match=f"torch_row.pt: the storage at byte {offset} says"):
        builder.parts()


@pytest.mark.parametrize("kind", ["pt", "npz"])
def test_of_a_large_file_few_ranges_are_looked_at(kind: str) -> None:
    """The directory and the pickle of a zip; of NumPy also the header of each array."""
    counts = []
    for size in (1 << 16, 1 << 18):
        values = {f"w{i}": np.full((2, size), i, np.float32) for i in range(6)}
        values["turned"] = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
        content = pickled(values)
        if kind == "npz":
            buffer = io.BytesIO()
            np.savez(buffer, **values)  # type: ignore[arg-type]
            content = buffer.getvalue()
        builder = Builder()
        asked = streamed(builder, f"m.{kind}", content)
        _, tensors, _ = builder.parts()
        for name, value in values.items():
            assert np.array_equal(tensors[name].numpy(), value)
        counts.append((len(asked), sum(asked)))
    assert counts[0] == counts[1] and counts[0][0] <= 2 + 2 * 7 and counts[0][1] < 1 << 18


def test_compressed_arrays_are_read_whole() -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, w=np.ones(5))
    content = buffer.getvalue()
    assert Builder().look("m.npz", len(content), 0, Bytes(content)) is None
    assert Builder().look("m.bin", 40, 0, Bytes(b"GGUF" + bytes(36))) is None
    with pytest.raises(rl.FormatError, match="code"):
        evil = Bytes(b"\x80\x02cevil\ncode\n)R.")
        Builder().look("m.bin", len(evil), 0, evil)


def test_several_files_without_an_index_are_told(tmp_path: Path) -> None:
    write(tmp_path, "a.pth")
    write(tmp_path, "b.pth")
    with pytest.raises(FileNotFoundError, match=r"no model.safetensors; it has a.pth, b.pth"):
        rl.models.load(tmp_path)
