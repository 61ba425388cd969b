"""Write tests/models/data/diffusion.json: what diffusers makes of tiny pipelines.

Run with a Python that has torch, transformers and diffusers.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "models"))
import diffusers  # noqa: E402
import diffusers.models.autoencoders.vae as kl  # noqa: E402
import diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_img2img as sd_image  # noqa: E402
import diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_inpaint as sd_paint  # noqa: E402
import tiny_pipelines as tiny  # noqa: E402
from PIL import Image  # noqa: E402

PLACE = ROOT / "models" / "data" / "diffusion.json"


def numbers(tensor: torch.Tensor, step: int = 1) -> list[float]:
    """Every so many values of a tensor."""
    return [float(f"{x:.6g}") for x in tensor.detach().float().flatten()[::step]]


def text_of(image: np.ndarray) -> str:
    """The bytes of every second row of a picture as text."""
    return base64.b64encode(np.ascontiguousarray(image[::2]).tobytes()).decode()


def build(folder: Path, name: str) -> Path:
    """The folder of a pipeline, of the shapes that diffusers' modules have."""
    row, shapes = tiny.PIPELINES[name], {}
    plain = {k: v for k, v in row["unet"].items() if not k.startswith("_")}
    vae = {k: v for k, v in tiny.VAE.items() if not k.startswith("_")}
    for part, module in (
        ("unet", diffusers.UNet2DConditionModel(**plain)),
        ("vae", diffusers.AutoencoderKL(**vae)),
    ):
        shapes[part] = {n: tuple(t.shape) for n, t in module.state_dict().items()}
    written: Path = tiny.write_pipeline(folder, name, shapes)
    return written


class Noise:
    """randn_tensor that gives the formula's numbers, call by call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, shape: Any, **more: object) -> torch.Tensor:
        self.calls += 1
        return torch.from_numpy(tiny.values(f"noise {self.calls}", tuple(shape)))


def golden(name: str, folder: Path) -> dict[str, Any]:
    """What the parts and the pipeline give."""
    pipe = getattr(diffusers, tiny.PIPELINES[name]["class"]).from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    row: dict[str, Any] = {}
    with torch.no_grad():
        latents = torch.from_numpy(tiny.values("latents", (1, 4, 4, 4)))
        unet = tiny.PIPELINES[name]["unet"]
        states = torch.from_numpy(tiny.values("states", (1, 5, unet["cross_attention_dim"])))
        more = {}
        if unet.get("addition_embed_type"):
            told = torch.from_numpy(tiny.values("vector", (1, 12)))
            more["added_cond_kwargs"] = {
                "text_embeds": told,
                "time_ids": torch.tensor([[32.0, 32, 0, 0, 32, 32]]),
            }
        if unet.get("time_cond_proj_dim"):
            more["timestep_cond"] = torch.from_numpy(tiny.values("told", (1, 10)))
        row["unet"] = numbers(pipe.unet(latents, torch.tensor([500]), states, **more).sample)
        image = torch.from_numpy(tiny.picture()).permute(2, 0, 1)[None].float() / 127.5 - 1
        if name == "sd15":
            row["encoded"] = numbers(pipe.vae.encode(image).latent_dist.mean)
            row["decoded"] = numbers(pipe.vae.decode(latents).sample, 37)
            pipe.vae.enable_tiling()
            wide = torch.from_numpy(tiny.values("wide", (1, 4, 6, 9)))
            row["tiled"] = numbers(pipe.vae.decode(wide).sample, 101)
            large = torch.from_numpy(tiny.values("large", (1, 3, 48, 72)))
            row["tiled_encoded"] = numbers(pipe.vae.encode(large).latent_dist.mean, 3)
            pipe.vae.disable_tiling()
            plain = {k: v for k, v in tiny.TINY_VAE.items() if not k.startswith("_")}
            small = diffusers.AutoencoderTiny(**plain)
            state = {n: tuple(t.shape) for n, t in small.state_dict().items()}
            weights = {n: torch.from_numpy(tiny.weight(n, size)) for n, size in state.items()}
            small.load_state_dict(weights)
            row["tiny_decoded"] = numbers(small.decode(latents).sample, 37)
            row["tiny_encoded"] = numbers(small.encode(image).latents)
        embeds = pipe.encode_prompt(
            tiny.PROMPT, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=False
        )
        row["states"] = numbers(embeds[0], 11)
        options = tiny.PIPELINES[name]["options"]
        made = pipe(
            tiny.PROMPT,
            latents=latents,
            height=tiny.SIDE,
            width=tiny.SIDE,
            output_type="np",
            **options,
        ).images[0]
        row["picture"] = text_of((made * 255).round().astype(np.uint8))
        if name == "sd15":
            row |= changed(pipe)
        if name == "sdxl":
            row |= controlled(pipe, folder.parent / "controlnet", latents, options)
    return row


def controlled(pipe: Any, folder: Path, latents: Any, options: dict[str, Any]) -> dict[str, Any]:
    """A picture that follows another one by a ControlNet."""
    net = diffusers.ControlNetModel(
        **{k: v for k, v in tiny.CONTROLNET.items() if not k.startswith("_")}
    )
    tiny.write_part(folder, tiny.CONTROLNET, {n: t.shape for n, t in net.state_dict().items()})
    net = diffusers.ControlNetModel.from_pretrained(folder)
    follows = diffusers.StableDiffusionXLControlNetPipeline(**pipe.components, controlnet=net)
    follows.set_progress_bar_config(disable=True)
    made = follows(
        tiny.PROMPT,
        image=Image.fromarray(tiny.picture()),
        controlnet_conditioning_scale=tiny.CONTROL_SCALE,
        latents=latents,
        height=tiny.SIDE,
        width=tiny.SIDE,
        output_type="np",
        **options,
    ).images[0]
    return {"controlled": text_of((made * 255).round().astype(np.uint8))}


def changed(pipe: Any) -> dict[str, Any]:
    """Pictures out of a picture, and out of one with a mask."""
    noise, row = Noise(), {}
    for module in (kl, sd_image, sd_paint):
        module.randn_tensor = noise
    image = Image.fromarray(tiny.picture())
    begin = diffusers.StableDiffusionImg2ImgPipeline(**pipe.components)
    begin.set_progress_bar_config(disable=True)
    made = begin(tiny.PROMPT, image=image, strength=0.6, num_inference_steps=5, output_type="np")
    row["image_to_image"] = text_of((made.images[0] * 255).round().astype(np.uint8))
    noise.calls = 0
    painted = diffusers.StableDiffusionInpaintPipeline(**pipe.components)
    painted.set_progress_bar_config(disable=True)
    mask = Image.fromarray((tiny.mask() * 255).astype(np.uint8))
    made = painted(
        tiny.PROMPT,
        image=image,
        mask_image=mask,
        strength=0.8,
        height=tiny.SIDE,
        width=tiny.SIDE,
        num_inference_steps=5,
        output_type="np",
    )
    row["inpainting"] = text_of((made.images[0] * 255).round().astype(np.uint8))
    return row


def main() -> None:
    """Write the file."""
    rows = {}
    for name in tiny.PIPELINES:
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = golden(name, build(Path(folder) / name, name))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    PLACE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{PLACE}: {PLACE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
