"""Pipelines that draw: parts and pictures are diffusers', in every task; errors before the work."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.diffusion import loop
from rushlight.models.diffusion.unet.controlnet import ControlNetModel
from rushlight.models.diffusion.unet.unet_2d_condition import UNet2DConditionModel
from rushlight.models.diffusion.vae.autoencoder_kl import AutoencoderKL
from rushlight.models.diffusion.vae.autoencoder_tiny import AutoencoderTiny
from rushlight.models.image.png import texts_of

from . import tiny_pipelines as tiny

GOLDENS = json.loads((Path(__file__).parent / "data" / "diffusion.json").read_text())


def folder_of(folder: Path, name: str) -> Path:
    """The folder of a tiny pipeline."""
    row = tiny.PIPELINES[name]
    modules = {"unet": UNet2DConditionModel(row["unet"]), "vae": AutoencoderKL(tiny.VAE)}
    shapes = {
        part: {n: tuple(t.shape) for n, t in module.state_dict().items()}
        for part, module in modules.items()
    }
    return tiny.write_pipeline(folder, name, shapes)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("pipelines")
    return {name: folder_of(top / name, name) for name in tiny.PIPELINES}


def _picture(name: str, key: str = "picture") -> Any:
    raw = np.frombuffer(base64.b64decode(GOLDENS[name][key]), np.uint8)
    return raw.reshape(tiny.SIDE // 2, tiny.SIDE, 3).astype(int)


def _far(image: Any, name: str, key: str = "picture") -> int:
    return int(np.abs(image[::2].astype(int) - _picture(name, key)).max())


def _near(found: rl.Tensor, golden: list[float], device: str, step: int = 1) -> None:
    near = 1e-4 if device == "cpu" else 1e-3
    np.testing.assert_allclose(
        found.cpu().numpy().reshape(-1)[::step], golden, atol=near, rtol=near
    )


@pytest.mark.parametrize("name", [*tiny.PIPELINES])
def test_parts_and_picture_are_diffusers(
    name: str, folders: dict[str, Path], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden, row = GOLDENS[name], tiny.PIPELINES[name]
    model = rl.models.load(folders[name], device)
    latents = tiny.values("latents", (1, 4, 4, 4))
    place, wide = rl.tensor(latents, device=device), row["unet"]["cross_attention_dim"]
    states = rl.tensor(tiny.values("states", (1, 5, wide)), device=device)
    told: dict[str, Any] = {}
    if "addition_embed_type" in row["unet"]:
        told["text_embeds"] = rl.tensor(tiny.values("vector", (1, 12)), device=device)
        told["time_ids"] = rl.tensor([[32.0, 32, 0, 0, 32, 32]], device=device)
    if "time_cond_proj_dim" in row["unet"]:
        told["timestep_cond"] = rl.tensor(tiny.values("told", (1, 10)), device=device)
    out = model.parts.get("unet")(place, rl.tensor([500], device=device), states, **told)
    _near(out, golden["unet"], device)
    monkeypatch.setattr(loop, "drawn", lambda *_: rl.tensor(latents))
    pipe = rl.pipeline("text-to-image", model, size=str(tiny.SIDE))
    seen: list[tuple[int, int]] = []
    made = pipe(tiny.PROMPT, progress=lambda *done: seen.append(done), seed=3, **row["options"])
    assert _far(made["image"], name) <= 2
    steps = row["options"]["num_inference_steps"]
    assert seen[-1][0] == seen[-1][1] >= steps
    if name != "sd15":
        return
    vae = model.parts.get("vae")
    pixels = tiny.picture().transpose(2, 0, 1)[None] / np.float32(127.5) - np.float32(1)
    _near(vae.encode_mean(rl.tensor(pixels, device=device))[0], golden["encoded"], device)
    _near(vae.decode(place), golden["decoded"], device, 37)
    vae.tiles = True
    large = rl.tensor(tiny.values("wide", (1, 4, 6, 9)), device=device)
    _near(vae.decode(large), golden["tiled"], device, 101)
    large = rl.tensor(tiny.values("large", (1, 3, 48, 72)), device=device)
    _near(vae.encode_mean(large)[0], golden["tiled_encoded"], device, 3)
    small = AutoencoderTiny(tiny.TINY_VAE)
    shapes = {n: tuple(t.shape) for n, t in small.state_dict().items()}
    weights = {n: rl.tensor(tiny.weight(n, size), device=device) for n, size in shapes.items()}
    small.load_state_dict(weights, assign=True)
    small.requires_grad_(False)
    _near(small.decode(place), golden["tiny_decoded"], device, 37)
    _near(small.encode_mean(rl.tensor(pixels, device=device))[0], golden["tiny_encoded"], device)


def _numbered() -> Any:
    calls: Iterator[int] = iter(range(1, 9))

    def drawn(generators: Any, shape: tuple[int, ...]) -> rl.Tensor:
        return rl.tensor(tiny.values(f"noise {next(calls)}", (len(generators), *shape)))

    return drawn


def test_pictures_out_of_a_picture_are_diffusers(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, image = rl.models.load(folders["sd15"]), tiny.picture()
    monkeypatch.setattr(loop, "drawn", _numbered())
    change = rl.pipeline("image-to-image", model, steps=5)
    made = change(image, prompt=tiny.PROMPT, strength=0.6)
    assert _far(made["image"], "sd15", "image_to_image") <= 2
    monkeypatch.setattr(loop, "drawn", _numbered())
    paint = rl.pipeline("inpainting", model, steps=5)
    mask = (tiny.mask() * 255).astype(np.uint8)
    made = paint(image, prompt=tiny.PROMPT, mask_image=mask, strength=0.8)
    assert _far(made["image"], "sd15", "inpainting") <= 2


def test_a_controlnet_is_diffusers(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = {n: tuple(t.shape) for n, t in ControlNetModel(tiny.CONTROLNET).state_dict().items()}
    tiny.write_part(tmp_path / "controlnet", tiny.CONTROLNET, shapes)
    latents, options = tiny.values("latents", (1, 4, 4, 4)), tiny.PIPELINES["sdxl"]["options"]
    monkeypatch.setattr(loop, "drawn", lambda *_: rl.tensor(latents))
    hub = {"who/draws": folders["sdxl"], "who/leads": tmp_path / "controlnet"}
    fetched = "rushlight.models.hub.names.resolve"
    monkeypatch.setattr(fetched, lambda name, **_: hub.get(str(name), Path(name)))
    model = rl.models.load("who/draws")
    pipe = rl.pipeline("text-to-image", model, size=str(tiny.SIDE), seed=3, **options)
    with pytest.raises(ValueError, match="there is no ControlNet; load one by load_controlnet"):
        pipe(tiny.PROMPT, control_image=tiny.picture())
    model.load_controlnet("who/leads")
    scale: dict[str, Any] = {"controlnet_conditioning_scale": tiny.CONTROL_SCALE}
    made = pipe(tiny.PROMPT, control_image=tiny.picture(), keep="one", **scale)
    assert _far(made["image"], "sdxl", "controlled") <= 2
    assert _far(made["image"], "sdxl") > 20, "it does something"
    assert _far(pipe(tiny.PROMPT)["image"], "sdxl") <= 2, "without a picture it does nothing"


def test_seeds_batches_previews_and_settings(folders: dict[str, Path], tmp_path: Path) -> None:
    model = rl.models.load(folders["sd15"])
    pipe = rl.pipeline("text-to-image", model, steps=2, size="32")
    previews: list[Any] = []
    both = pipe("a (bad:1.3) candle", seed=7, num_images_per_prompt=2, preview=previews.append)
    second = pipe("a (bad:1.3) candle", seed=8)
    assert np.array_equal(both[1]["image"], second["image"])
    assert not np.array_equal(both[0]["image"], second["image"])
    assert [p.step for p in previews] == [1, 2, 3] and previews[0].pictures[0].shape == (4, 4, 3)
    assert len(model.parts._modules) == 3
    place = both[0].save(tmp_path / "a.png")
    settings = json.loads(texts_of(place.read_bytes())["parameters"])
    assert settings["seed"] == 7 and settings["prompt"] == "a (bad:1.3) candle"
    from PIL import Image

    with Image.open(place) as opened:
        assert np.array_equal(np.asarray(opened), both[0]["image"])
    previews.clear()
    shapes = {n: tuple(t.shape) for n, t in AutoencoderTiny(tiny.TINY_VAE).state_dict().items()}
    tiny.write_part(tmp_path / "taesd", tiny.TINY_VAE, shapes)
    model.load_preview(tmp_path / "taesd")
    seen = pipe("a (bad:1.3) candle", seed=8, keep="one", preview=previews.append)
    assert np.array_equal(seen["image"], second["image"]) and len(previews) == 3
    assert previews[0].pictures[0].shape == (32, 32, 3) and previews[0].pictures[0].std() > 1
    plain = pipe("a bad candle", seed=8)
    assert not np.array_equal(plain["image"], second["image"])
    long = pipe("a bad candle, " * 40, seed=8)  # of several windows
    cut = pipe("a bad candle, " * 39, seed=8)
    assert not np.array_equal(long["image"], cut["image"])
    for name in ("euler-a", "dpm++2m", "dpm++sde", "heun", "unipc", "lcm"):
        assert pipe("a cat", seed=1, scheduler=name)["image"].std() > 1
    one = pipe("a bad candle", seed=8, keep="one")
    assert np.array_equal(one["image"], plain["image"])
    model.parts.release()
    pipe("a cat", keep="one", steps=1)
    assert list(model.parts._modules) == ["vae"]  # the others were released


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 500}, "width is 500; it must be a multiple of 8 up to 8192, such as 496"),
        ({"steps": 100_000}, "num_inference_steps is 100000; it must be 1 to 1000"),
        ({"steps": 2, "num_inference_steps": 3}, "say the same"),
        ({"scheduler": "eular"}, "did you mean 'euler'"),
        ({"size": "wide"}, "it must be like 512 or 768x512"),
        ({"guidance": -1.0}, "guidance_scale is -1.0"),
    ],
)
def test_bad_requests_are_refused_before_the_work(
    folders: dict[str, Path], options: dict[str, Any], message: str
) -> None:
    model = rl.models.load(folders["sd15"])
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        rl.pipeline("text-to-image", model)("a cat", **options)
    assert not model.parts._modules  # nothing was loaded


def test_missing_parts_and_numbers_that_are_not_finite_are_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a", "sd15")
    bias = folder / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = {n: t.numpy() for n, t in rl.load(bias).items()}
    tensors["conv_out.bias"] = np.full(4, np.nan, np.float32)
    tiny.write_safetensors(bias, tensors)
    with pytest.raises(FloatingPointError, match="the latents that the part unet made are not fin"):
        rl.pipeline("text-to-image", folder)("a cat", steps=1, size="32")
    for place in (folder / "vae").iterdir():
        place.unlink()
    (folder / "vae").rmdir()
    with pytest.raises(rl.LoadError, match="the part vae is missing"):
        rl.models.load(folder)
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps({**index, "_class_name": "Kandinsky"}))
    with pytest.raises(rl.LoadError, match="_class_name Kandinsky is not supported; supported: St"):
        rl.models.load(folder)
