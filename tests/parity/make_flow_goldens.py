"""Write tests/models/data/diffusion/flow_pipelines.json: pictures of tiny pipelines.

    python tests/parity/make_flow_goldens.py

Run with a Python that has torch, transformers and diffusers. Pictures are those of diffusers, of
the pipelines with transformers in tests/models/diffusion/flow_pipelines.py.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import tempfile
import zlib
from pathlib import Path
from typing import Any

import diffusers
import diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus as edit_plus
import numpy as np
import torch
import transformers
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location(
    "flow_pipelines", HERE.parent / "models" / "diffusion" / "flow_pipelines.py"
)
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
edit_plus.CONDITION_IMAGE_SIZE = edit_plus.VAE_IMAGE_SIZE = table.AREA
_TOO_MUCH = {"sana": {"use_resolution_binning": False}, "pixart-sigma": {
    "use_resolution_binning": False, "clean_caption": False}}  # fmt: skip


def filled(module: Any) -> tuple[Any, dict[str, list[int]]]:
    """A module with the formula's weights, and the shapes of its tensors, tied ones left out."""
    shapes = {n: list(t.shape) for n, t in module.state_dict().items() if t.is_floating_point()}
    tied = {"lm_head.weight", "encoder.embed_tokens.weight"} & set(shapes)
    for name in tied:
        shapes.pop(name)
    state = {n: torch.from_numpy(table.tiny.weight(n, tuple(s))) for n, s in shapes.items()}
    module.load_state_dict(state, strict=False)
    if hasattr(module, "tie_weights"):
        module.tie_weights()
    return module.eval(), shapes


def golden(name: str, folder: Path) -> dict[str, Any]:
    """The picture of a row, and the shapes of its text encoders' tensors."""
    row, parts, shapes = table.ROWS[name], {}, {}
    table.write_tokenizers(folder, name)
    for part, config in row.items():
        if part.startswith("text_encoder"):
            kind = getattr(transformers, config["architectures"][0])
            told = {k: v for k, v in config.items() if k != "architectures"}
            model = kind(kind.config_class(**told))
            parts[part], shapes[part] = filled(model)
            place = part.replace("text_encoder", "tokenizer")
            clip = config["model_type"] == "clip_text_model"
            words = transformers.CLIPTokenizer if clip else transformers.PreTrainedTokenizerFast
            parts[place] = words.from_pretrained(folder / place)
        elif part in ("transformer", "vae"):
            plain = {k: v for k, v in config.items() if not k.startswith("_")}
            parts[part], _ = filled(getattr(diffusers, config["_class_name"])(**plain))
    if "processor" in row:
        pixels = Qwen2VLImageProcessorPil(
            **{k: v for k, v in row["processor"].items() if k != "image_processor_type"}
        )
        parts["processor"] = Reader(pixels, parts["tokenizer"])
        place_by_picture(parts["text_encoder"])
    scheduler = {k: v for k, v in row["scheduler"].items() if k != "_class_name"}
    parts["scheduler"] = getattr(diffusers, row["scheduler"]["_class_name"])(**scheduler)
    pipe = getattr(diffusers, row["class"])(**parts)
    pipe.set_progress_bar_config(disable=True)
    options = dict(row["options"], **_TOO_MUCH.get(name, {}))
    latents = torch.from_numpy(table.latents(name))
    if row["class"] in ("FluxPipeline", "QwenImagePipeline", "QwenImageEditPlusPipeline"):
        latents = pipe._pack_latents(latents, 1, 4, *latents.shape[2:])
    if name.startswith("qwen-"):
        options["true_cfg_scale"] = options.pop("guidance_scale")
    if name == "flux2-klein":
        options["text_encoder_out_layers"] = table.LAYERS
    options |= {"height": table.SIDE, "width": table.SIDE, "output_type": "np"}
    drawn = {}
    if name != "qwen-edit":  # which draws nothing without pictures
        drawn["picture"] = pipe(prompt=table.PROMPT, latents=latents, **options).images[0]
    if name in table.EDITING:
        images = [Image.fromarray(pixels) for pixels in table.references()]
        made = pipe(prompt=table.PROMPT, image=images, latents=latents, **options)
        drawn["edited"] = made.images[0]
    rows = {key: (picture * 255).round().astype(np.uint8) for key, picture in drawn.items()}
    for key, pixels in rows.items():
        print(name, key, pixels.shape, pixels.mean(), pixels.std())
    told = {key: packed(pixels[::2].tobytes()) for key, pixels in rows.items()}
    return {**told, "shapes": packed(json.dumps(shapes).encode())}


def place_by_picture(encoder: Any) -> None:
    """Have an encoder count positions by pictures, as the released models were trained.

    transformers 5 does where it is told which tokens are pictures'; diffusers does not tell it.
    """
    usual, token = encoder.forward, encoder.config.image_token_id

    def forward(input_ids: Any, **more: Any) -> Any:
        return usual(input_ids=input_ids, mm_token_type_ids=(input_ids == token).int(), **more)

    encoder.forward = forward


class Reader:
    """What Qwen2VLProcessor does with texts and pictures; the class itself asks for torchvision."""

    def __init__(self, pixels: Any, tokenizer: Any) -> None:
        self.pixels, self.tokenizer = pixels, tokenizer

    def __call__(self, text: list[str], images: Any, **more: Any) -> Any:
        seen = self.pixels(images=images, return_tensors="pt")
        counts = [int(grid.prod()) // 4 for grid in seen["image_grid_thw"]]
        place = "<|image_pad|>"
        for count in counts:
            text = [t.replace(place, "<|seen|>" * count, 1) for t in text]
        words = self.tokenizer([t.replace("<|seen|>", place) for t in text], **more)
        return transformers.BatchFeature({**words, **seen})


def packed(data: bytes) -> str:
    """Bytes as short text."""
    return base64.b85encode(zlib.compress(data, 9)).decode()


def main() -> None:
    rows = {}
    for name in table.ROWS:
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = golden(name, Path(folder))
    table.GOLDENS.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
    print(table.GOLDENS.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
