"""Image processors agree with those of transformers and timm; resizing; files of all kinds."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.models.image import Processor, load
from rushlight.models.image.preprocessor_config import (
    DINOV2,
    KINDS,
    TORCHVISION,
    as_file,
    processor_of,
)
from rushlight.models.image.resize import FILTERS, resize

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("processors", HERE / "processors.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)


@pytest.fixture(scope="module")
def goldens() -> dict[str, rl.Tensor]:
    return load_safetensors(HERE / "data" / "processors.safetensors")


def described(settings: dict[str, Any]) -> Any:
    name = "config.json" if "architecture" in settings else "preprocessor_config.json"
    return processor_of({name: json.dumps(settings).encode()})


@pytest.mark.parametrize("name", table.CASES)
def test_pixels_are_those_of_the_reference(name: str, goldens: dict[str, rl.Tensor]) -> None:
    p = described(table.CASES[name])
    found, expected = p([table.image_of(name)]).numpy(), goldens[name].numpy()
    assert found.shape == expected.shape
    # Resized bytes may be one off: a step is the scale over the deviation, here the least one.
    step = p.scale / min(p.std or (1.0,)) / (min(p.std) if p.twice else 1)
    off = np.abs(found - expected)
    assert off.max() <= 1.01 * step
    assert (off > 1e-5).mean() <= (1 if p.floats else 0.08)  # almost all are equal


@pytest.mark.parametrize(
    "name",
    ["timm", "timm-squash", "dpt", "detr", "detr-short", "maskformer", "vit", "bit", "convnext"],
)
def test_a_processor_is_written_and_read(name: str) -> None:
    for p in (described(table.CASES[name]), TORCHVISION, DINOV2, Processor(), *KINDS.values()):
        assert described(json.loads(json.dumps(as_file(p)))) == p
    with pytest.raises(ValueError, match="has steps that no file of transformers' processors"):
        as_file(Processor(floats=True, flip=True))


@pytest.mark.native
@pytest.mark.parametrize("filter", FILTERS[1:])  # the nearest of two equally near may be either
@pytest.mark.parametrize("size", [(7, 90), (33, 20), (1, 1), (64, 41)])
def test_resizing_is_pillows(filter: str, size: tuple[int, int]) -> None:
    from PIL import Image

    image = table.image_of("resize")
    number = FILTERS.index(filter)
    expected = np.asarray(
        Image.fromarray(image).resize(size[::-1], Image.Resampling(number)), np.int64
    )
    off = np.abs(resize(image, size, filter).astype(np.int64) - expected)
    # Where Pillow takes the height first it rounds other values on the way.
    assert off.max() <= 1 and (off > 0).mean() < (0.3 if size[0] < 10 else 0.01)


@pytest.mark.parametrize("size", table.OPENCV)
def test_letterboxes_are_resized_as_by_opencv(
    size: tuple[int, int], goldens: dict[str, rl.Tensor]
) -> None:
    image = table.image_of("resize")
    expected = goldens[f"opencv:{size[0]}x{size[1]}"].numpy().astype(np.int64)
    off = np.abs(resize(image, size, "opencv") - expected)
    assert off.max() <= 1 and (off > 0).mean() < 0.01
    # Floats are not rounded on the way, and the weights are of two pixels alone.
    floats = resize(image.astype(np.float32), size, "opencv")
    assert np.abs(floats - expected).max() <= 1.01


def _bytes(image: Any, form: str, **options: Any) -> bytes:
    into = io.BytesIO()
    image.save(into, form, **options)
    return into.getvalue()


@pytest.mark.native
def test_files_of_all_kinds() -> None:
    from PIL import Image

    color = Image.new("RGB", (4, 3), (200, 100, 50))
    for form in ("PNG", "BMP", "WEBP", "TIFF", "GIF"):
        found = load(_bytes(color, form))
        assert found.shape == (3, 4, 3) and np.abs(found[0, 0] - [200, 100, 50.0]).max() <= 4
    turned = Image.new("RGB", (4, 3))
    turned.putpixel((0, 0), (255, 255, 255))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    assert load(_bytes(turned, "PNG", exif=exif)).shape == (4, 3, 3)
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert load(_bytes(clear, "PNG")).min() == 255  # what is transparent is white
    assert load(_bytes(Image.new("L", (5, 2), 77), "PNG"))[0, 0].tolist() == [77] * 3
    deep = Image.fromarray(np.full((2, 3), 40000, np.uint16))
    assert load(_bytes(deep, "PNG"))[0, 0].tolist() == [156] * 3
    assert load(_bytes(Image.new("CMYK", (2, 2), (0, 255, 255, 0)), "JPEG"))[0, 0, 0] > 200
    frames = [Image.new("RGB", (3, 3), c) for c in ("red", "blue")]
    moving = _bytes(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert load(moving)[0, 0].tolist() == [255, 0, 0]
    assert load(_bytes(Image.new("RGB", (20_000, 2)), "PNG")).shape == (2, 20_000, 3)
    assert load(_bytes(Image.new("1", (1, 1), 1), "PNG")).tolist() == [[[255] * 3]]
    assert load(color).shape == (3, 4, 3)


@pytest.mark.native
def test_what_is_no_image_is_named(tmp_path: Path) -> None:
    from PIL import Image

    with pytest.raises(rl.FormatError, match="is no image that Pillow reads"):
        load(b"no image")
    broken = _bytes(Image.new("RGB", (64, 64), (1, 2, 3)), "PNG")
    with pytest.raises(rl.FormatError, match="is no image that Pillow reads"):
        load(broken[:-30])
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(tmp_path / "none.png")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, 2, 5), np.uint8), r"the array is \(2, 2, 5\)"),
        (np.zeros((0, 2), np.uint8), r"the array is \(0, 2\)"),
        (np.full((2, 2), 3.0), "floats are 3 to 3; they must be 0 to 1"),
        (np.full((2, 2), 300), "int64; it must be uint8"),
        ({"data": bytes(7), "width": 1, "height": 2}, "7 bytes are no 1 x 2 pixels"),
    ],
)
def test_arrays_that_are_no_images_are_named(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(given)


def test_arrays_and_tensors() -> None:
    assert load(np.full((2, 3), 0.5))[0, 0].tolist() == [128] * 3
    assert load(rl.ones(2, 3, 4)).shape == (2, 3, 3)
    half = {"data": bytes([255, 0, 0, 0]) * 2, "width": 1, "height": 2}
    assert load(half).min() == 255


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": {"height": 0, "width": 3}}, "size is 0"),
        ({"image_processor_type": "FlavaImageProcessor"}, "'Flava' is not supported; supported: B"),
        ({"size": "big"}, "size is 'big'"),
        ({"image_std": [1, 1, 0]}, "image_std is"),
        ({"resample": 9}, "resample is 9"),
        ({"rescale_factor": "a"}, "rescale_factor is 'a'"),
        ({"crop_size": [3], "do_center_crop": True}, "crop_size is"),
        ({"do_center_crop": True}, "do_center_crop is true, but crop_size is not given"),
        ({"do_resize": "no"}, "do_resize is 'no', which is not supported; supported: true, false"),
        ({"size": None}, "size is None"),
        ({"size": {"height": 4}}, "size is {'height': 4}"),
        ({"size": {"max_height": 4, "max_width": 4}}, "size is {'max_height'"),
        ({"resample": None}, "resample is None"),
        ({"resample": True}, "resample is True"),
        ({"rescale_factor": None}, "rescale_factor is None"),
        ({"image_mean": None}, "image_mean is None"),
        ({"image_processor_type": "DPTImageProcessor", "do_pad": True}, "do_pad is True.* by DPT"),
        ({"image_processor_type": "Owlv2ImageProcessor", "do_pad": False}, "do_pad is False"),
        ({"image_processor_type": "DetrImageProcessor", "size": 9, "max_size": "a"}, "size is 'a'"),
        (
            {"image_processor_type": "EfficientNetImageProcessor", "do_normalize": False},
            "do_normalize is False.* with include_top",
        ),
    ],
)
def test_values_out_of_range_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.FormatError, match=message):
        described({"image_processor_type": "ViTImageProcessor", **settings})
