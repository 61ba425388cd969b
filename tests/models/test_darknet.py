"""Darknet's files: YOLOv3 against float64, its objects, and files that lie or are cut."""

from __future__ import annotations

import importlib.util
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.fetch import FetchError
from rushlight.core.io.weights.safetensors import load_safetensors, save_safetensors
from rushlight.site.builder.serve import Handler, Server

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("darknet", HERE / "darknet.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
GOLDENS = HERE / "data" / "darknet.safetensors"


def folder(place: Path, name: str, **files: bytes) -> Path:
    """The path of a .cfg with its .weights beside it."""
    (place / f"{name}.cfg").write_text(table.CFGS[name])
    (place / f"{name}.weights").write_bytes(table.weights_of(name))
    for ending, data in files.items():
        (place / f"{name}.{ending}").write_bytes(data)
    return place / f"{name}.cfg"


@pytest.mark.parametrize("name", table.CFGS)
def test_scores_and_boxes_agree(name: str, tmp_path: Path, device: str) -> None:
    model = rl.models.load(folder(tmp_path, name), device)
    golden = load_safetensors(GOLDENS)
    pixels = model.processor([table.picture()], device)
    seen = pixels.cpu().numpy()[0, :, ::4, ::3]
    np.testing.assert_allclose(seen, golden[f"{name}:pixels"].numpy(), atol=1e-6)
    with rl.no_grad():
        logits, boxes = model.detect(pixels)
    close: Any = (
        {"rtol": 1e-3, "atol": 1e-3} if device == "webgpu" else {"rtol": 1e-4, "atol": 1e-5}
    )
    scores = logits.sigmoid()[0].cpu().numpy()
    np.testing.assert_allclose(scores, golden[f"{name}:scores"].numpy(), **close)
    np.testing.assert_allclose(boxes[0].cpu().numpy(), golden[f"{name}:boxes"].numpy(), **close)


@pytest.mark.parametrize("name", table.CFGS)
def test_objects_agree(name: str, tmp_path: Path) -> None:
    """A box may be of several classes, each of which leaves out what overlaps."""
    folder(tmp_path, name)
    found = rl.pipeline("object-detection", rl.models.load(tmp_path))(
        table.picture(), threshold=0.35
    )
    wanted = load_safetensors(GOLDENS)[f"{name}:objects"].numpy()
    assert [row["label"] for row in found] == [f"LABEL_{int(row[1])}" for row in wanted]
    np.testing.assert_allclose([row["score"] for row in found], wanted[:, 0], rtol=1e-4)
    corners = wanted[:, 2:].clip(0, [71, 53, 71, 53])
    np.testing.assert_allclose([list(row["box"].values()) for row in found], corners, atol=0.051)
    if name == "residual":
        assert len({tuple(row["box"].values()) for row in found}) < len(found)


def test_names_safetensors_and_saving(tmp_path: Path) -> None:
    names = b"cat\ndog\n\n"
    cfg = folder(tmp_path, "tiny", names=names)
    model = rl.models.load(cfg.with_suffix(".weights"))
    assert model.labels == ("cat", "dog") and model.tasks == ("object-detection",)
    assert model.processor.size == (44, 60)
    pixels = model.processor([table.picture()])
    with rl.no_grad():
        wanted = model.detect(pixels)[0].numpy()
    # candle's safetensors have the same names, and the .cfg beside them.
    other = tmp_path / "candle"
    other.mkdir()
    tensors = {n: t for n, t in model.state_dict().items() if "num_batches" not in n}
    save_safetensors(tensors, other / "model.safetensors")
    with pytest.raises(FormatError, match=r"need their \.cfg beside them; there are none"):
        rl.models.load(other)
    (other / "tiny.cfg").write_text(table.TINY)
    model.save_pretrained(tmp_path / "saved")
    for place in (other, tmp_path / "saved"):
        again = rl.models.load(place)
        assert again.processor == model.processor
        with rl.no_grad():
            np.testing.assert_array_equal(again.detect(pixels)[0].numpy(), wanted)
    assert rl.models.load(tmp_path / "saved").labels == ("cat", "dog")


@pytest.mark.native
def test_an_address_stands_for_both_files(tmp_path: Path) -> None:
    cfg = folder(tmp_path, "tiny")
    server = Server(("127.0.0.1", 0), type("Here", (Handler,), {"root": tmp_path}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        found = [rl.models.load(f"{base}/tiny.{kind}") for kind in ("cfg", "weights?1")]
        with pytest.raises(FetchError, match="other.cfg"):
            rl.models.load(f"{base}/other.cfg")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    wanted = rl.models.load(cfg).state_dict()
    for model in found:
        for name, t in model.state_dict().items():
            np.testing.assert_array_equal(t.numpy(), wanted[name].numpy())


def test_old_versions_count_images_in_32_bits(tmp_path: Path) -> None:
    cfg = folder(tmp_path, "tiny")
    first = {n: t.numpy().copy() for n, t in rl.models.load(cfg).state_dict().items()}
    cfg.with_suffix(".weights").write_bytes(table.weights_of("tiny", (0, 1)))
    for name, t in rl.models.load(cfg).state_dict().items():
        np.testing.assert_array_equal(t.numpy(), first[name])


_HEAD = "[net]\nwidth=64\nheight=64\n"
_CONV = "[convolutional]\nfilters=7\nactivation=linear\n"
_YOLO = "[yolo]\nmask=0\nanchors=3,4\nclasses=2\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not begin with .net."),
        (_HEAD, "has 0 layers"),
        (_HEAD.replace("64", "0") + _CONV, "width is '0'"),
        (_HEAD + _CONV, r"the \.cfg has no \[yolo\] layer"),
        (_HEAD + "[lstm]\n", "layer 0, .lstm., is not supported; supported: convolutional"),
        (_HEAD + "what", "line 4, 'what', is no .section. or key=value"),
        (_HEAD + _CONV + "binary=1\n", "binary=1 is not supported"),
        (_HEAD + _CONV + "activation=mish\n", "activation=mish is not supported"),
        (_HEAD + _CONV + "filters=99999999999\n", "filters is '99999999999'"),
        (_HEAD + _CONV + "filters=-1\n", "filters is '-1'; it must be 1 to"),
        (_HEAD + _CONV + "groups=2\n", "has 2 groups of 3 channels"),
        (_HEAD + _CONV + "size=99\n", "layer 0, .convolutional., makes .*, which is nothing"),
        (_HEAD + "[route]\nlayers=-1\n", "reads layers .-1.; before it are 0"),
        (_HEAD + _CONV + "[route]\nlayers=4\n", "reads layers .4.; before it are 1"),
        (_HEAD + _CONV + "[shortcut]\n", "has no from"),
        (_HEAD + _CONV * 2 + "stride=2\n[shortcut]\nfrom=0\n", "adds .7, 64, 64. to .7, 32, 32."),
        (_HEAD + _CONV + "[upsample]\nstride=60000\n", "layer 1, .upsample., makes .* at most"),
        (_HEAD + _CONV + "[upsample]\nstride=2\n" * 20, "layer 7, .upsample., makes .* at most"),
        (
            _HEAD.replace("64", "16384") + _CONV,
            "layer 0, .convolutional., makes .7, 16384, 16384. of .3, 16384, 16384., padded; at "
            "most 134217728 numbers in a layer",
        ),
        (_HEAD + _CONV + "stride=60000\npadding=30000\n", "of .3, 60064, 60064., padded; at most"),
        (_HEAD + _CONV + "[maxpool]\nsize=60000\n", "layer 1, .maxpool., makes .7, 64, 64. of"),
        (_HEAD.replace("64", "4096") + _CONV * 10, "layer 9, .* and 1073741824 in all layers"),
        (_HEAD + _CONV + "[maxpool]\nsize=2\npadding=2\n", "has padding 2 of size 2"),
        (_HEAD + _CONV + _YOLO.replace("mask=0", "mask=1"), "has mask .1. of the anchors"),
        (
            _HEAD + _CONV + _YOLO.replace("=2", "=3"),
            "reads 7 channels; 1 anchors and 3 classes need 8",
        ),
        (_HEAD + _CONV + _YOLO.replace("mask=0\n", ""), "has no mask"),
        (_HEAD + _CONV * 1025, "has 1025 layers"),
        ("#" * (1 << 21), "has more than 1048576 bytes"),
    ],
)
def test_wrong_layers_are_named(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.cfg").write_text(text)
    count = 7 * 3 + 7
    (tmp_path / "x.weights").write_bytes(struct.pack("<3iq", 0, 2, 0, 0) + bytes(4 * count))
    with pytest.raises(FormatError, match=words):
        rl.models.load(tmp_path / "x.cfg")


def test_wrong_weights_are_named(tmp_path: Path) -> None:
    cfg = folder(tmp_path, "tiny")
    weights, data = cfg.with_suffix(".weights"), table.weights_of("tiny")
    for wrong, words in (
        (data[:-4], rf"has {len(data) - 4} bytes; the layers of the .cfg need {len(data)}"),
        (data + b"....", "the layers of the .cfg need"),
        (data[:12], "12 bytes are too few"),
        (struct.pack("<i", 5000) + data[4:], "version 5000.2 is no version"),
    ):
        weights.write_bytes(wrong)
        with pytest.raises(FormatError, match=words):
            rl.models.load(cfg)
    weights.unlink()
    with pytest.raises(FileNotFoundError, match=r"needs its \.weights beside it: tiny\.weights"):
        rl.models.load(cfg)
    cfg = folder(tmp_path, "tiny", names=b"one\n")
    with pytest.raises(FormatError, match=r"tiny\.names names 1 classes; the \.cfg has 2"):
        rl.models.load(cfg)
    lying = {"model_type": "yolov3", "width": 64, "height": 64, "num_labels": 2}
    for layers in (
        None,
        [],
        [3],
        [{"type": "yolo"}],
        [{"type": "upsample", "stride": [1, "x"]}],
        [{"type": "route", "layers": [{}]}],
    ):
        with pytest.raises(FormatError):
            rl.models.assemble({"config.json": _json({**lying, "layers": layers})}, {})


def _json(value: Any) -> bytes:
    import json

    return json.dumps(value).encode()
