"""Tiny pipelines in diffusers' layout, whose weights are a formula of their names and shapes.

`tests/parity/make_diffusion_goldens.py` runs diffusers on the same; NumPy is all that it needs.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

SIDE = 32  # of pictures, 4 of latents
CONTEXT = 77

_SD_UNET = {
    "_class_name": "UNet2DConditionModel",
    "sample_size": 4,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    "block_out_channels": [16, 24],
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "cross_attention_dim": 16,
    "attention_head_dim": 2,
}
VAE = {
    "_class_name": "AutoencoderKL",
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [4, 4, 8, 8],
    "layers_per_block": 1,
    "norm_num_groups": 2,
    "sample_size": 32,
    "scaling_factor": 0.18215,
}
TINY_VAE = {
    "_class_name": "AutoencoderTiny",
    "encoder_block_out_channels": [4] * 4,
    "decoder_block_out_channels": [4] * 4,
    "num_encoder_blocks": [1, 1, 2, 1],
    "num_decoder_blocks": [2, 1, 1, 1],
}
_TEXT = {
    "architectures": ["CLIPTextModel"],
    "model_type": "clip_text_model",
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": CONTEXT,
    "hidden_act": "quick_gelu",
    "eos_token_id": 2,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "projection_dim": 12,
}
_SCALED = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
_TEXT_2 = {
    **_TEXT,
    "architectures": ["CLIPTextModelWithProjection"],
    "hidden_act": "gelu",
    "hidden_size": 8,
}
# By name: the class of the pipeline, its parts' configs, and the options of its picture.
PIPELINES: dict[str, dict[str, Any]] = {
    "sd15": {
        "class": "StableDiffusionPipeline",
        "unet": _SD_UNET,
        "text_encoder": _TEXT,
        "scheduler": {
            "_class_name": "PNDMScheduler",
            **_SCALED,
            "skip_prk_steps": True,
            "steps_offset": 1,
        },
        "options": {
            "num_inference_steps": 4,
            "guidance_scale": 4.0,
            "negative_prompt": "a dim cat",
        },
    },
    "sd21": {
        "class": "StableDiffusionPipeline",
        "unet": {
            **_SD_UNET,
            "attention_head_dim": [2, 4],
            "use_linear_projection": True,
            "layers_per_block": 2,
            "upcast_attention": True,
        },
        "text_encoder": {**_TEXT, "hidden_act": "gelu"},
        "scheduler": {
            "_class_name": "DDIMScheduler",
            **_SCALED,
            "prediction_type": "v_prediction",
            "clip_sample": False,
            "rescale_betas_zero_snr": True,
            "timestep_spacing": "trailing",
        },
        "options": {"num_inference_steps": 3, "guidance_rescale": 0.7},
    },
    "lcm": {
        "class": "StableDiffusionPipeline",
        "unet": {**_SD_UNET, "time_cond_proj_dim": 10, "resnet_time_scale_shift": "scale_shift"},
        "text_encoder": _TEXT,
        "scheduler": {"_class_name": "EulerDiscreteScheduler", **_SCALED},
        "options": {"num_inference_steps": 2, "guidance_scale": 3.0},
    },
    "sdxl": {
        "class": "StableDiffusionXLPipeline",
        "unet": {
            **_SD_UNET,
            "cross_attention_dim": 24,
            "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
            "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
            "transformer_layers_per_block": [1, 2],
            "attention_head_dim": [2, 4],
            "use_linear_projection": True,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 6,
            "projection_class_embeddings_input_dim": 48,
        },
        "text_encoder": _TEXT,
        "text_encoder_2": _TEXT_2,
        "scheduler": {"_class_name": "EulerDiscreteScheduler", **_SCALED, "steps_offset": 1},
        "options": {"num_inference_steps": 3, "guidance_scale": 5.0},
    },
}
# A ControlNet of the pipeline "sdxl", whose UNet it is like.
CONTROLNET = {
    "_class_name": "ControlNetModel",
    "conditioning_embedding_out_channels": [4, 4, 6, 8],
    "controlnet_conditioning_channel_order": "bgr",
    **{
        key: value
        for key, value in PIPELINES["sdxl"]["unet"].items()
        if key not in ("_class_name", "sample_size", "up_block_types")
    },
}
CONTROL_SCALE = 0.7
PROMPT = "a bad candle"


def values(name: str, shape: tuple[int, ...], scale: float = 1.0) -> Array:
    """Numbers of a formula, of mean 0 and variance about 1, times a scale."""
    count = math.prod(shape)
    start = zlib.crc32(name.encode()) % 10007
    places = np.arange(count, dtype=np.float64) + start
    wave = np.sin(places * 12.9898) * 43758.5453
    uniform = wave - np.floor(wave)
    return ((uniform - 0.5) * math.sqrt(12) * scale).astype(np.float32).reshape(shape)


def weight(name: str, shape: tuple[int, ...]) -> Array:
    """The weight of a name."""
    if name.endswith("bias"):
        return values(name, shape, 0.1)
    if len(shape) == 1:  # of a norm
        return 1 + values(name, shape, 0.1)
    if "embedding" in name and "time" not in name and "add" not in name:
        return values(name, shape, 0.7)
    return values(name, shape, 1 / math.sqrt(math.prod(shape[1:])))


def text_shapes(
    config: Mapping[str, Any], prefix: str = "text_model."
) -> dict[str, tuple[int, ...]]:
    """The tensors of a text encoder with their shapes."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}embeddings.token_embedding.weight": (config["vocab_size"], width),
        f"{prefix}embeddings.position_embedding.weight": (CONTEXT, width),
    }
    for i in range(config["num_hidden_layers"]):
        base = f"{prefix}encoder.layers.{i}."
        sizes = {f"self_attn.{n}_proj": (width, width) for n in ("q", "k", "v", "out")}
        sizes |= {"mlp.fc1": (inner, width), "mlp.fc2": (width, inner)}
        for name, size in sizes.items():
            shapes |= {f"{base}{name}.weight": size, f"{base}{name}.bias": size[:1]}
        for name in ("layer_norm1", "layer_norm2"):
            shapes |= {f"{base}{name}.{kind}": (width,) for kind in ("weight", "bias")}
    shapes |= {f"{prefix}final_layer_norm.{kind}": (width,) for kind in ("weight", "bias")}
    if config["architectures"][0].endswith("WithProjection"):
        shapes["text_projection.weight"] = (config["projection_dim"], width)
    return shapes


def write_safetensors(path: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write tensors of float32 or float16 as a file of safetensors."""
    header, offset = {}, 0
    kinds = {"float32": "F32", "float16": "F16"}
    for name, value in tensors.items():
        end = offset + value.nbytes
        kind = kinds[value.dtype.name]
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(np.ascontiguousarray(value).tobytes() for value in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_tokenizer(folder: Path) -> None:
    """A vocabulary of CLIP: letters, and one word of two merges."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [*letters, *(f"{c}</w>" for c in letters)]
    merges = ["a d</w>", "b ad</w>"]
    made = [merge.replace(" ", "") for merge in merges]
    ends = ["<|startoftext|>", "<|padding|>", "<|endoftext|>"]
    vocabulary = {word: place for place, word in enumerate([*ends, *made, *words, ","])}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    config = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": CONTEXT,
        "bos_token": ends[0],
        "eos_token": ends[2],
        "unk_token": ends[2],
        "pad_token": ends[2],
        "add_prefix_space": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_part(folder: Path, config: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
    """A part's folder: config.json, and weights by the formula."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    text = "architectures" in config
    name = "model.safetensors" if text else "diffusion_pytorch_model.safetensors"
    tensors = {n: weight(n, tuple(size)) for n, size in shapes.items()}
    write_safetensors(folder / name, tensors)


def write_pipeline(folder: Path, name: str, shapes: Mapping[str, Mapping[str, Any]]) -> Path:
    """The folder of a pipeline. shapes: of the tensors of its unet and its vae."""
    row = PIPELINES[name]
    index: dict[str, Any] = {"_class_name": row["class"], "_diffusers_version": "0.42.0"}
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("text_encoder", "text_encoder_2"):
        if part in row:
            index[part] = ["transformers", row[part]["architectures"][0]]
            write_part(folder / part, row[part], text_shapes(row[part]))
            tokenizer = part.replace("text_encoder", "tokenizer")
            index[tokenizer] = ["transformers", "CLIPTokenizer"]
            write_tokenizer(folder / tokenizer)
    write_part(folder / "unet", row["unet"], shapes["unet"])
    write_part(folder / "vae", VAE, shapes["vae"])
    (folder / "scheduler").mkdir(exist_ok=True)
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(row["scheduler"]))
    index |= {
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
        "scheduler": ["diffusers", row["scheduler"]["_class_name"]],
    }
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def add_bytes(folder: Path, name: str) -> Path:
    """Give the vocabulary of a pipeline's folder every byte, as CLIP's has and a tab asks for."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = [*map(chr, plain), *(chr(256 + place) for place in range(len(others)))]
    file = folder / "tokenizer" / "vocab.json"
    vocabulary = json.loads(file.read_text())
    for word in (*letters, *(f"{letter}</w>" for letter in letters)):
        vocabulary.setdefault(word, len(vocabulary))
    file.write_text(json.dumps(vocabulary))
    config = {**PIPELINES[name]["text_encoder"], "vocab_size": len(vocabulary)}
    write_part(folder / "text_encoder", config, text_shapes(config))
    return folder


def picture() -> npt.NDArray[np.uint8]:
    """A picture to begin with."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    bands = [(rows * 7 + columns * 3) % 256, (rows * columns) % 256, (255 - columns * 8) % 256]
    return np.stack(bands, -1).astype(np.uint8)


def mask() -> npt.NDArray[np.float32]:
    """What of it is painted anew: its lower right."""
    painted = np.zeros((SIDE, SIDE), np.float32)
    painted[SIDE // 2 :, SIDE // 4 :] = 1
    return painted
