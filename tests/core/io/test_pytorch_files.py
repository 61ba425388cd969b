"""PyTorch's files: what torch saved is read alike, shared memory stays shared, code is refused."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io import load_weights
from rushlight.core.io.weights.pickles.pytorch import state_dict
from rushlight.core.io.weights.source import BytesSource, FileSource

pytestmark = pytest.mark.native  # needs ml_dtypes

DATA = Path(__file__).parents[1] / "data"
W = np.arange(24, dtype=np.float32).reshape(4, 6)
EXPECTED: dict[str, Any] = {
    "w": W, "turned": W.T, "part": W[1:3, 2:5], "every": W[:, ::2], "parameter": W * 2,
    "scalar": np.float32(3.5), "empty": W[:0, :3], "spread": np.ones((3, 2), np.float32),
    "f64": W.astype("f8"), "f16": W.astype("f2"), "bf16": W.astype(ml_dtypes.bfloat16),
    "i64": W.astype("i8") - 5, "i32": W.astype("i4") - 5, "i16": W.astype("i2") - 5,
    "i8": W.astype("i1") - 5, "u8": W.astype("u1"), "yes": W > 3, "u32": W.astype("u4"),
    "e4m3": W.astype(ml_dtypes.float8_e4m3fn), "e5m2": W.astype(ml_dtypes.float8_e5m2),
}  # fmt: skip
DTYPES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def _source(name: str, how: str) -> Any:
    path = DATA / name
    if how == "bytes":
        return BytesSource(path.read_bytes(), name)
    return path if how == "mapped" else FileSource(path)


@pytest.mark.parametrize("how", ["mapped", "file", "bytes"])
@pytest.mark.parametrize("name", ["torch_zip.pt", "torch_zip_4.pt", "torch_row.pt"])
def test_what_torch_saved_is_read_alike(name: str, how: str) -> None:
    source = _source(name, how)
    found = rl.load(source)
    state = found.pop("state_dict")
    assert type(found) is type(state) is dict and list(state) == list(EXPECTED)
    for key, values in EXPECTED.items():
        tensor, values = state[key], np.asarray(values)
        assert tensor.dtype.name == DTYPES.get(key, values.dtype.name), key
        assert tensor.shape == values.shape and tensor.raw_bytes() == values.tobytes(), key
    (w, inner), groups = found.pop("list"), found.pop("param_groups")
    assert inner == (1, 2.5, True) and groups == [{"betas": (0.9, 0.999), "params": [0, 1]}]
    assert found == {
        "epoch": 3, "lr": 1e-3, "name": "é", "big": 2**70, "none": None, "size": (4, 6),
        "device": "cuda:1", "dtype": rl.float16, "f8": 2.5, "i4": -3, "set": {1, 2},
        "bytes": b"abc",
    }  # fmt: skip
    assert type(found["f8"]) is float and type(found["i4"]) is int
    # Views share their storage, with torch's strides.
    assert w.storage is state["w"].storage is state["turned"].storage is state["part"].storage
    assert state["turned"].layout.strides == (1, 6) and state["every"].layout.strides == (6, 2)
    assert state["spread"].layout.strides == (0, 0) and state["part"].layout.offset == 8
    w[0, 0] = 7
    assert state["turned"][0, 0].item() == 7
    if how == "file":
        source.close()


def test_tensors_are_views_of_the_mapped_file() -> None:
    content = (DATA / "torch_zip.pt").read_bytes()
    state = rl.load(DATA / "torch_zip.pt")["state_dict"]
    addresses = [state[key].storage.address for key in ("w", "f64", "i8")]
    offsets = [content.index(EXPECTED[key].tobytes()) for key in ("w", "f64", "i8")]
    assert np.ptp(np.subtract(addresses, offsets)) == 0


def test_on_every_device(device: str) -> None:
    shape = b"K\0K\3K\2\x86K\1K\3\x86"  # transposed
    content = P + TENSOR % (STORAGE % 6, shape)
    values = np.arange(6, dtype=np.float32)
    found = rl.load(_zip(content, data_k=values.tobytes()), device=device)
    assert found.device.type == rl.device(device).type
    assert np.array_equal(found.numpy(), values.reshape(2, 3).T)


def test_the_state_dict_within_what_a_trainer_saved() -> None:
    found = rl.load(DATA / "torch_zip.pt")
    assert list(state_dict(found)) == list(EXPECTED)
    for key in ("model", "model_state"):
        assert list(state_dict({key: {"layers": [found["state_dict"]["w"]]}})) == ["layers.0"]
    with pytest.raises(rl.FormatError, match="no tensor"):
        state_dict({"epoch": 3})
    with pytest.raises(rl.FormatError, match="name has 100000 characters: 'xxx"):
        state_dict({"x" * 100_000: [found["state_dict"]["w"]] * 60_000})


def test_inspect_lists_the_tensors() -> None:
    from rushlight.core.io import read_tables

    for name in ("torch_zip.pt", "torch_row.pt"):
        ((_, table, _),) = read_tables(DATA / name)
        content = (DATA / name).read_bytes()
        for key in ("w", "f64", "i8", "bf16", "e4m3", "turned"):
            entry = table.entries[f"state_dict.{key}"]
            values = W if key == "turned" else EXPECTED[key]
            assert content[entry.offset :][: entry.nbytes] == values.tobytes()
        assert table.entries["list.0"].shape == (4, 6)


def test_shards(tmp_path: Path) -> None:
    for n, name in enumerate(("torch_zip.pt", "torch_row.pt"), 1):
        (tmp_path / f"pytorch_model-{n}.bin").write_bytes((DATA / name).read_bytes())
    index = tmp_path / "pytorch_model.bin.index.json"
    places = {"w": "pytorch_model-1.bin", "turned": "pytorch_model-2.bin"}
    index.write_text(json.dumps({"weight_map": places}))
    for place in (tmp_path, index):
        found = rl.load(place)
        # All of a shard that the index names; "turned" of the shard that it names for it.
        assert {"w", "turned"} < {*found} and found["turned"].shape == (6, 4)
    index.write_text(json.dumps({"weight_map": {"v": "pytorch_model-1.bin"}}))
    with pytest.raises(rl.FormatError, match='"v" should be in pytorch_model-1.bin'):
        rl.load(tmp_path)
    index.write_text(json.dumps({"weight_map": {"v": "pytorch_model-3.bin"}}))
    with pytest.raises(rl.FormatError, match=r"the shard pytorch_model-3.bin is missing"):
        rl.load(tmp_path)


def test_the_other_byte_order(tmp_path: Path) -> None:
    """As PyTorch writes on a big-endian machine: data swapped, and a member that says so."""
    path = tmp_path / "big.pt"
    with zipfile.ZipFile(DATA / "torch_zip.pt") as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename.endswith("/byteorder"):
                content = b"big"
            elif len(content) == 96 and content == W.tobytes():
                content = W.byteswap().tobytes()
            elif "/data/" in member.filename and content == EXPECTED["f64"].tobytes():
                content = EXPECTED["f64"].byteswap().tobytes()
            new.writestr(member.filename, content)
    state = rl.load(path)["state_dict"]
    for key in ("w", "turned", "part", "f64"):
        assert np.array_equal(state[key].numpy(), EXPECTED[key])
    assert state["turned"].storage is state["w"].storage


# --- what is refused -----------------------------------------------------------------------------


def test_a_file_of_nothing_but_code_is_refused_by_name() -> None:
    content = pickle.dumps({"model": _Evil(getattr, (Path, "cwd"))}, 2)
    with pytest.raises(rl.FormatError, match="Path.cwd', which is code") as told:
        rl.load(_zip(content))
    assert "model.state_dict()" in str(told.value)


def test_a_whole_module_is_read_as_its_tensors() -> None:
    """A torch.nn.Linear of 2 and 3 features, saved as an object: nothing of it is made."""
    found = rl.load(DATA / "torch_model.pt")
    assert {n: tuple(t.shape) for n, t in found.items()} == {"weight": (3, 2), "bias": (3,)}
    assert isinstance(found["weight"], rl.Tensor)


class _Evil:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


def _zip(pickled: bytes, **more: bytes) -> BytesSource:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        for name, content in more.items():
            archive.writestr("a/" + name.replace("_", "/"), content)
    return BytesSource(buffer.getvalue(), "m.pt")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_is_run(protocol: int, tmp_path: Path) -> None:
    import os
    import subprocess

    target = tmp_path / "made"
    for call in (
        (os.system, (f"touch {target}",)),
        (subprocess.check_output, (["touch", str(target)],)),
        (eval, (f"open({str(target)!r}, 'w')",)),
        (getattr, (Path, "cwd")),
        (__import__, ("os",)),
        (bytearray, (1 << 40,)),
        (list, (range(1 << 40),)),
        (subprocess.Popen, (["touch"],)),
    ):
        content = pickle.dumps({"w": _Evil(*call)}, protocol)
        for source in (_zip(content), BytesSource(content, "m.pt")):
            with pytest.raises(rl.FormatError, match="which is code"):
                rl.load(source)
    assert not target.exists()


def _module(names: Any) -> BytesSource:
    """A module of Ultralytics, saved as an object, with names of classes and a tensor of two."""
    told = pickle.dumps(names, 2)[2:-1]
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(%bK\0(K\2t(K\1t\x89}tR" % (STORAGE % 2)
    others = b"X\x08\0\0\0_buffers}X\x08\0\0\0_modules}"
    state = b"}(X\5\0\0\0names%b%bX\x0b\0\0\0_parameters}(X\1\0\0\0w%buu" % (told, others, tensor)
    made = b"cultralytics.nn.tasks\nDetectionModel\n)\x81%bb" % state
    return _zip(P + b"}(X\5\0\0\0model%bu." % made, data_k=bytes(8))


def test_classes_that_a_module_names() -> None:
    for names in ({0: "cat", 1: "d\u00f6g"}, ["cat", "d\u00f6g"]):
        found, _ = load_weights(_module(names))
        assert list(found) == ["w", "module:names"]
        assert json.loads(found["module:names"].numpy().tobytes()) == ["cat", "d\u00f6g"]
    wrong: list[Any] = [{1: "cat"}, {0: 3}, "cat", [], None, {0: "a", "b": "c"}, [b"cat"]]
    for one in wrong:
        assert list(load_weights(_module(one))[0]) == ["w"]
    assert list(rl.load(_module(_Evil(getattr, (Path, "cwd"))))["model"]) == ["w"]


P = b"\x80\x02"
LONG = struct.pack("<I", 2**31 - 1)
STORAGE = (
    b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0kX\x03\0\0\0cpuK%ctQ"  # of %c elements
)
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(%b%b\x89}tR."
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "needs 1 more bytes"),
    "no stop": (P + b"N", "needs 1 more bytes"),
    "nothing": (P + b".", "takes a value where there is none"),
    "long text": (P + b"X" + LONG + b"abc", "needs 2147483647 more bytes, of which 3"),
    "long bytes": (P + b"\x8e" + b"\xff" * 8, "needs 18446744073709551615 more bytes"),
    "long bytearray": (P + b"\x96" + b"\xff" * 8, "needs 18446744073709551615 more bytes"),
    "long integer": (P + b"\x8b" + LONG, "has an integer of 2147483647 bytes"),
    "far in the memo": (P + b"j" + LONG + b".", r"does not follow the format \(KeyError\)"),
    "mark": (P + b"t.", "has no mark"),
    "tuple of nothing": (P + b"\x87.", "takes a value where there is none"),
    "adds to nothing": (P + b"Na.", "adds to nothing, not to a list"),
    "adds to a tuple": (P + b")Na.", "adds to tuple, not to a list"),
    "dict as a list": (P + b"}(NNe.", "adds to dict, not to a list"),
    "odd items": (P + b"}(Nu.", "does not follow the format"),
    "list in a key": (P + b"}]\x85Ns.", r"has a key \(\[\],\); keys are text, numbers"),
    "list as a key": (P + b"}]Ns.", r"has a key \[\]"),
    "huge key": (P + b"}\x8a\x20" + b"\1" * 32 + b"Ns.", "has a key 45"),
    "calls a dict": (P + b"})R.", "calls a dict"),
    "wrong arguments": (P + b"ctorch\nSize\nK\1\x85R.", "calls torch.Size"),
    "opcode": (P + b"S'a'\n.", r"opcode that is not supported, b'S'"),
    "protocol": (b"\x80\x06.", "protocol 6; supported: 1 to 5"),
    "name without end": (P + b"c" + b"x" * 2000, "has a name without an end"),
    "not a storage": (P + b"NQ.", "None is not a storage"),
    "too deep": (P + b"]" * 120 + b"a" * 119 + b".", "nest deeper than 100"),
    "a function": (P + b"ctorch\nSize\n.", "holds 'torch.Size', which is code"),
    "larger than the file": (
        P + TENSOR % (STORAGE.replace(b"K%c", b"J" + LONG), b"K\0)) "[:-1]),
        "larger than the file",
    ),
    "past the storage": (
        P + TENSOR % (STORAGE % 1, b"K\0K\2\x85K\1\x85"),
        "beyond the 1 elements of storage 'k'",
    ),
    "strides past it": (
        P + TENSOR % (STORAGE % 1, b"K\0K\1K\2\x86K\1J" + LONG + b"\x86"),
        "beyond the 1 elements",
    ),
    "spread beyond memory": (
        P + TENSOR % (STORAGE % 1, b"K\0J" + LONG + b"\x85K\0\x85"),
        "2147483647 elements out of 1",
    ),
    "dims": (P + TENSOR % (STORAGE % 1, b"K\0K\1\x85K\1K\1\x86"), "1 dims and 2 strides"),
    "negative": (P + TENSOR % (STORAGE % 1, b"K\0J\xff\xff\xff\xff\x85K\1\x85"), "whole numbers"),
    "no bytes": (P + TENSOR % (STORAGE % 9, b"K\0K\1\x85K\1\x85"), "storage 'k' of 9 .* 4 bytes"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_malformed_pickle_is_named(which: str) -> None:
    content, message = WRONG[which]
    tracemalloc.start()
    try:
        with pytest.raises(rl.FormatError, match=message) as told:
            rl.load(_zip(content, data_k=b"\0\0\x80\x3f"))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert "m.pt" in str(told.value)


def test_the_sample_tensor_is_right_but_for_its_faults() -> None:
    found = rl.load(_zip(P + TENSOR % (STORAGE % 1, b"K\0K\1\x85K\1\x85"), data_k=b"\0\0\x80\x3f"))
    assert found.tolist() == [1.0]


@pytest.mark.parametrize(
    "piece",
    [b"}", b"\x8f", b"N\x94", b"((t"],
    ids=["dicts", "sets", "memo", "nested"],
)
def test_what_a_pickle_makes_is_bounded_by_its_bytes(piece: bytes) -> None:
    content = P + b"(" + piece * (1 << 16)
    tracemalloc.start()
    try:
        with pytest.raises(rl.FormatError):
            rl.load(_zip(content))
        assert tracemalloc.get_traced_memory()[1] < 70 * len(content) + (9 << 20)
    finally:
        tracemalloc.stop()


def test_shared_containers_are_read_once() -> None:
    """Lists of the one before, twice each: 2**50 paths, 50 lists."""
    content = P + b"]q\0" + b"".join(b"](h%ch%ceq%c" % (n, n, n + 1) for n in range(50)) + b"."
    found = rl.load(_zip(content))
    assert found[0] is found[1] and len(found) == 2
    with pytest.raises(rl.FormatError, match="more than 65536 tensors or 1048576 values"):
        state_dict(found)


def test_other_zips_and_pickles() -> None:
    with pytest.raises(rl.FormatError, match="TorchScript model"):
        rl.load(_script())
    with pytest.raises(rl.FormatError, match="not of torch.save: it has no data.pkl"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("readme", b"a")
        rl.load(BytesSource(buffer.getvalue(), "m.zip"))
    with pytest.raises(rl.FormatError, match="a pickle, but not of torch.save"):
        rl.load(BytesSource(pickle.dumps({"a": 1}, 2), "m.pkl"))


def _script() -> BytesSource:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("m/data.pkl", P + b"}.")
        archive.writestr("m/code/__torch__.py", b"import os")
    return BytesSource(buffer.getvalue(), "m.pt")


@pytest.mark.parametrize("name", ["torch_zip.pt", "torch_row.pt"])
def test_a_file_that_is_cut_off(name: str) -> None:
    content = (DATA / name).read_bytes()
    for end in range(1, len(content), 97):
        with pytest.raises(rl.FormatError):
            rl.load(BytesSource(content[:end], "m.pt"))


def test_nested_checkpoints_are_saved_and_loaded(tmp_path: Path) -> None:
    net = rl.nn.Linear(3, 2)
    optimizer = rl.optim.AdamW(net.parameters())
    net(rl.ones(1, 3)).sum().backward()
    optimizer.step()
    rest = {"epoch": 3, "best": [1.5, None, (True, "x")]}
    kinds = {n: rl.ones(2, 3, dtype=n).transpose(0, 1) for n in ("bfloat16", "uint8", "bool")}
    state = {"model": net.state_dict(), "optim": optimizer.state_dict(), "kinds": kinds, **rest}
    rl.save(state, tmp_path / "all.pt")
    found = rl.load(tmp_path / "all.pt", map_location="cpu")
    assert {n: found[n] for n in rest} == rest
    assert found["model"]["weight"].tolist() == net.weight.tolist()
    for name, tensor in kinds.items():
        assert found["kinds"][name].dtype is tensor.dtype and rl.equal(found["kinds"][name], tensor)
    rl.optim.AdamW(net.parameters()).load_state_dict(found["optim"])
    with pytest.raises(TypeError, match="save: 'fn' is a builtin_function_or_method, not a Tensor"):
        rl.save({"fn": print}, tmp_path / "no.pt")
    assert not (tmp_path / "no.pt").exists()
