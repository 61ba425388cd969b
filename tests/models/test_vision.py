"""Every image family of the table: its goldens, its names, its ops, and pixels that do not fit."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.families import families
from rushlight.models.find_config import completed, find_config

HERE = Path(__file__).parent
DATA = HERE / "data" / "vision"
_spec = importlib.util.spec_from_file_location("vision", HERE / "vision.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
CLOSE: Any = {"rtol": 1e-4, "atol": 5e-5}


def close(found: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32]) -> None:
    """Sums of many branches grow, so errors are measured by the largest value."""
    largest = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found / largest, wanted / largest, **CLOSE)


def told(row: str) -> tuple[dict[str, bytes], dict[str, list[int]]]:
    """The files of a row's checkpoint, and its names with their shapes."""
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    config, names = json.loads(found["config"]), table.names_of(found["names"])
    own = "open_clip_config.json" if "model_cfg" in config else "config.json"
    return {own: json.dumps(config).encode()} if config else {}, names


def model(row: str, device: str = "cpu") -> Any:
    files, names = told(row)
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    stored = load_safetensors(DATA / f"{row}.safetensors")
    tensors |= {n.removeprefix("given:"): t for n, t in stored.items() if n.startswith("given:")}
    return rl.models.assemble(files, tensors, device=device)


def kind(row: str) -> str:
    """The model_type of a row, of which no model is built."""
    files, names = told(row)
    tensors = {n: rl.empty(*shape, device="meta") for n, shape in names.items()}
    return str(find_config(completed(files, tensors), tensors)["model_type"])


def run(m: Any, method: str, pixels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    with rl.no_grad():
        found: npt.NDArray[np.float32] = getattr(m, method)(
            rl.tensor(pixels, device=m.device)
        ).numpy()
    return found


def channels(m: Any) -> int:
    spec = getattr(m, "image", None) or getattr(m, "seen", None)
    own: Any = getattr(m, "channels", None) or getattr(m.config, "num_channels", 3)
    return int(own if spec is None else getattr(spec, "channels", 3))


@pytest.mark.parametrize("name", table.ROWS)
def test_logits_and_features_agree(name: str) -> None:
    m, golden = model(name), load_safetensors(DATA / f"{name}.safetensors")
    size = table.ROWS[name][3]
    pixels = table.pixels_of(size, channels(m))
    if frames := getattr(m, "frames", 0):
        pixels = table.frames_of(size, frames, channels(m))
    if name == "clip-text":
        with rl.no_grad():
            found = m(rl.tensor(table.ids_of())).numpy()
        np.testing.assert_allclose(found, golden["out"].numpy(), **CLOSE)
        return
    if getattr(m.config, "task", "classify") != "classify":
        _places_agree(m, golden, pixels)
        return
    if name.startswith(("sam", "mobile_sam")):
        _masks_agree(m, golden, pixels)
        return
    if name.startswith("grounding"):
        with rl.no_grad():
            logits, boxes = m.detect(rl.tensor(pixels), rl.tensor(table.phrases_of()))
        close(logits.numpy(), golden["out"].numpy())
        close(boxes.numpy(), golden["boxes"].numpy())
        return
    if name.startswith("clipseg"):
        with rl.no_grad():
            close(m(rl.tensor(table.ids_of()), rl.tensor(pixels)).numpy(), golden["out"].numpy())
        return
    if name.startswith("owl"):
        with rl.no_grad():
            logits, boxes = m.ground(rl.tensor(pixels), m.encode_text(rl.tensor(table.ids_of())))
        close(logits.numpy(), golden["out"].numpy())
        close(boxes.numpy(), golden["boxes"].numpy())
        if "objectness" in golden:
            close(run(m, "objectness", pixels), golden["objectness"].numpy())
        return
    if "masks" in golden:
        with rl.no_grad():
            logits, masks = m.seen(rl.tensor(pixels))
        close(logits.numpy(), golden["out"].numpy())
        close(masks.numpy(), golden["masks"].numpy())
        if "boxes" in golden:
            with rl.no_grad():
                close(m.detect(rl.tensor(pixels))[1].numpy(), golden["boxes"].numpy())
        return
    if "texts" in golden:
        ids = rl.tensor(table.ids_of())
        with rl.no_grad():
            logits, texts = m(ids, rl.tensor(pixels)), m.encode_text(ids)
        np.testing.assert_allclose(logits.numpy(), golden["out"].numpy(), **CLOSE)
        np.testing.assert_allclose(texts.numpy(), golden["texts"].numpy(), **CLOSE)
        found = run(m, "encode_image", pixels)
        np.testing.assert_allclose(found, golden["features"].numpy(), **CLOSE)
        return
    if "points:0" in golden:
        with rl.no_grad():
            scores, cells = m.seen(rl.tensor(pixels))
        for i in range(len(pixels)):
            points, values = m.found(scores[i].numpy())
            near = np.lexsort(points.T), np.lexsort(golden[f"points:{i}"].numpy().T)
            close(points[near[0]], golden[f"points:{i}"].numpy()[near[1]])
            close(values[near[0]], golden[f"scores:{i}"].numpy()[near[1]])
            with rl.no_grad():
                around = m.vectors(cells[i : i + 1], rl.tensor(points)).numpy()
            close(around[near[0]], golden[f"vectors:{i}"].numpy()[near[1]])
    if "out" not in golden:  # of a backbone
        close(run(m, "encode_image", pixels), golden["features"].numpy())
        if "map:0" in golden:
            with rl.no_grad():
                found = [t.numpy() for t in m.feature_maps(rl.tensor(pixels))]
            for i, own in enumerate(found):
                close(own, golden[f"map:{i}"].numpy())
            assert f"map:{len(found)}" not in golden
        return
    close(run(m, "forward", pixels), golden["out"].numpy())
    if "prompted" in golden:
        with rl.no_grad():
            depths = m(rl.tensor(pixels), rl.tensor(table.depths_of(pixels))).numpy()
        close(depths, golden["prompted"].numpy())
    if "boxes" in golden:
        with rl.no_grad():
            boxes = m.detect(rl.tensor(pixels))[1].numpy()
        np.testing.assert_allclose(boxes, golden["boxes"].numpy(), **CLOSE)
    if "features" in golden:
        close(run(m, "encode_image", pixels), golden["features"].numpy())
    one = run(m, "forward", pixels[1:])  # a batch is its pictures
    close(one, golden["out"].numpy()[1:])


def _places_agree(m: Any, golden: Any, pixels: npt.NDArray[np.float32]) -> None:
    with rl.no_grad():
        logits, boxes, more, protos = m.seen(rl.tensor(pixels))
    tall, wide = pixels.shape[2:]
    size = np.array([wide, tall, wide, tall])
    close(logits.sigmoid().numpy(), golden["out"].numpy())
    close(boxes.numpy() * size, golden["boxes"].numpy())
    if protos is not None:
        close(protos.numpy(), golden["protos"].numpy())
    if more is not None:
        values = more.numpy()
        if m.config.task == "pose":
            values = values.copy()
            values[..., :2] *= size[:2]
            values = values.reshape(*values.shape[:2], -1)
        close(values, golden["more"].numpy())


def _masks_agree(m: Any, golden: Any, pixels: npt.NDArray[np.float32]) -> None:
    close(run(m, "encode_image", pixels), golden["out"].numpy())
    given = {n: rl.tensor(v) for n, v in table.prompts_of().items()}
    points = {n: given[n] for n in ("points", "labels")}
    boxes = {"boxes": given["boxes"]}
    with rl.no_grad():
        seen = m.maps(rl.tensor(pixels[:1]))
        for name, prompt in (("points", points), ("boxes", boxes), ("both", points | boxes)):
            masks, scores = m.masks(seen, **prompt)
            close(masks.numpy(), golden[f"masks:{name}"].numpy())
            close(scores.numpy(), golden[f"scores:{name}"].numpy())
        one = {n: t[:1] for n, t in points.items()} | {"masks": given["masks"][:1]}
        close(m.masks(seen, **one)[0].numpy()[:, :1], golden["masks:before"].numpy())
    with pytest.raises(ValueError, match="a prompt is missing"):
        m.masks(seen)


def test_every_family_has_a_row() -> None:
    room = "rushlight.models.families.vision."
    modules = {kind: m for kind, m in families().items() if m.startswith(room)}
    rows = {kind(name) for name in table.ROWS}
    # U2-Net is compared with its graph on real weights, in test_image_tasks.py, and YOLOv3 with
    # darknet's files in float64, in test_darknet.py; CRAFT has real weights, in test_ocr.py.
    others = {f"{room}{name}" for name in ("craft_crnn", "u2net", "yolov3", "mtcnn")}
    found = {m for kind, m in modules.items() if kind in rows}
    assert found | others == set(modules.values())


def test_a_saved_folder_gives_the_same(tmp_path: Path) -> None:
    for name in ("resnet-timm", "efficientnet-lite", "vit-torchvision", "dinov2-registers-timm"):
        m = model(name)
        m.save_pretrained(tmp_path / name)
        again = rl.models.load(tmp_path / name)
        assert again.processor == m.processor and again.labels == m.labels
        pixels = table.pixels_of(table.ROWS[name][3])
        np.testing.assert_array_equal(run(again, "forward", pixels), run(m, "forward", pixels))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (
            "vit-timm",
            {"architecture": "vit_pe_spatial_tiny_patch16_512"},
            "a kind of ViT that is not",
        ),
        ("vit-timm", {"global_pool": "map"}, "global_pool 'map' is not supp.*: token, avg"),
        (
            "vit-mean-timm",
            {"global_pool": "token"},
            "global_pool 'token' is not supported; supp.* avg",
        ),
        ("vit-timm", {"model_args": {"act_layer": "silu"}}, "act_layer 'silu' is not supported"),
        ("vit-timm", {"pretrained_cfg": 3}, "timm's 'vit_tiny_patch16_224' has no such values"),
        (
            "hiera-timm",
            {"global_pool": "max"},
            "global_pool 'max' is not supported; supported: avg",
        ),
        ("hiera", {"depths": [2, 1]}, "depths .* do not agree"),
        ("hiera", {"image_size": [60, 32]}, "image_size .* do not fit each other"),
        (
            "hiera",
            {"masked_unit_size": [4, 7]},
            "layer 0 of stage 0 does not fit: 128 places in units",
        ),
        (
            "vit-rope-timm",
            {"global_pool": "avg"},
            "global_pool 'avg' is not supported; supp.* token",
        ),
        ("vit-rope-timm", {"model_args": {"rope_temperature": 9.0}}, "'rope_temp.* of an EVA"),
        ("resnetv2-deep-timm", {"model_args": {"output_stride": 8}}, "'output_str.* of a ResNet"),
        ("hiera-backbone", {"out_features": ["stage4"]}, "name no states of 3 layers"),
        ("swin-backbone", {"out_features": None, "out_indices": [3]}, "name no states of 2 layers"),
    ],
)
def test_what_a_family_does_not_read_is_named(
    name: str, changes: dict[str, Any], words: str
) -> None:
    found = open_tables(DATA / f"{name}.safetensors")[0][1].metadata
    config, names = json.loads(found["config"]) | changes, table.names_of(found["names"])
    tensors = {n: rl.empty(*shape, device="meta") for n, shape in names.items()}
    with pytest.raises((rl.FormatError, rl.LoadError), match=words):
        rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors, device="meta")


def test_goldens_are_small_and_all_there() -> None:
    files = {path.stem: path.stat().st_size for path in DATA.glob("*.safetensors")}
    assert set(files) == set(table.ROWS) and max(files.values()) <= 50 << 10


@pytest.mark.parametrize("name", ["resnet"])
def test_rows_on_devices(name: str, device: str) -> None:
    m, golden = model(name, device), load_safetensors(DATA / f"{name}.safetensors")
    found = run(m, "forward", table.pixels_of(table.ROWS[name][3]))
    np.testing.assert_allclose(found, golden["out"].numpy(), rtol=1e-3, atol=2e-4)


def test_pixels_of_another_shape_are_named() -> None:
    with pytest.raises(ValueError, match=r"resnet: pixels are \(2, 1, 8, 8\)"):
        model("resnet")(rl.zeros(2, 1, 8, 8))


@pytest.mark.parametrize(
    ("of", "name", "words"),
    [
        ("resnetv2-evo-timm", "resnetv2_50d_frn", " is a kind of ResNet V2 that is not supported"),
        ("regnet-timm", "regnety_040_sgn", " is not supported: it normalizes groups"),
    ],
)
def test_networks_of_another_norm_are_refused_by_name(of: str, name: str, words: str) -> None:
    """Filter response norms have weights and biases as those of groups, and thresholds besides."""
    names = open_tables(DATA / f"{of}.safetensors")[0][1].metadata["names"]
    shapes = {n.replace("norm.v", "norm.tau"): s for n, s in table.names_of(names).items()}
    config = json.dumps({"architecture": name, "num_classes": 3}).encode()
    tensors = {
        n: rl.empty(*shape, device="meta") for n, shape in shapes.items() if ".running_" not in n
    }
    with pytest.raises(rl.FormatError, match=name + words):
        rl.models.assemble({"config.json": config}, tensors, device="meta")


@pytest.mark.parametrize("name", ["efficientnet_blur_b0", "mobilenetv4_conv_aa_medium"])
def test_networks_that_smooth_have_the_same_tensors_and_are_refused_by_name(name: str) -> None:
    """The smoothing has no weights: such a checkpoint would load, and its logits would be wrong."""
    config = json.dumps({"architecture": name, "num_classes": 3}).encode()
    with pytest.raises(rl.FormatError, match=f"{name} is not supported: it smooths"):
        rl.models.assemble({"config.json": config}, {"conv1.weight": rl.zeros(1)})


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("dpt", {"backbone_out_indices": [0, 9]}, "backbone_out_indices is .0, 9."),
        ("dpt", {"neck_hidden_sizes": [5, 6]}, "and the states .1, 3, 4. do not agree"),
        ("dpt", {"reassemble_factors": [2, 1, "x"]}, "factors are whole, or below 1"),
        ("dpt", {"readout_type": "twice"}, "readout_type 'twice' is not supported"),
        ("dpt-beit", {"backbone_config": {"model_type": "vgg"}}, "supported: dinov2, beit, swinv2"),
        ("dpt-beit", {"out_features": ["stage9"]}, "name no states of 2 layers"),
        (
            "dpt-beit",
            {"reshape_hidden_states": True},
            "reshape_hidden_states True is not supported",
        ),
        ("dpt-swinv2", {"out_features": ["stem", "stage2"]}, '"stem", which is no stage'),
        (
            "dpt-hybrid",
            {"layer_type": "preactivation"},
            "layer_type 'preactivation' is not supported",
        ),
        (
            "dpt-hybrid",
            {"backbone_featmap_shape": [1, 5, 4, 4]},
            "backbone_featmap_shape .* do not",
        ),
        ("maskformer", {"backbone_config": {"model_type": "swinv2"}}, "'swinv2' is not supported"),
        ("maskformer", {"fpn_feature_size": 30}, "fpn_feature_size 30 is out of range"),
        ("maskformer", {"decoder_config": 3}, "decoder_config must be an object"),
        ("maskformer-resnet", {"out_features": ["stage3"]}, "there must be two at least"),
        ("mask2former", {"out_features": ["stage1", "stage2"]}, "there are at least 3 stages"),
        ("mask2former", {"pre_norm": True}, "pre_norm True is not supported"),
    ],
)
def test_wrong_parts_are_named(name: str, change: dict[str, Any], words: str) -> None:
    """Keys of the file, or of its backbone_config."""
    found = open_tables(DATA / f"{name}.safetensors")[0][1].metadata
    config = json.loads(found["config"])
    inner = config.get("backbone_config") or {}
    key = next(iter(change))
    config |= {"backbone_config": inner | change} if key in inner and key not in config else change
    names = {
        n: rl.empty(*shape, device="meta") for n, shape in table.names_of(found["names"]).items()
    }
    with pytest.raises((rl.FormatError, rl.LoadError), match=words):
        rl.models.assemble({"config.json": json.dumps(config).encode()}, names, device="meta")
