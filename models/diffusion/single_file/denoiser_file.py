"""A file of a denoiser in its authors' layout, safetensors or GGUF, with the other parts beside it.

FLUX, FLUX.2, Stable Diffusion 3, Z-Image, Sana, PixArt and Qwen-Image are published so, and
city96's GGUF files of them. The other parts are folders beside the file, as in a folder of
diffusers; text encoders and an autoencoder that are in the file itself, as ComfyUI's checkpoints
have them, are read from it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rushlight.core.basis.dtype import DType, bfloat16, float32
from rushlight.core.basis.errors import LoadError
from rushlight.core.io import load_weights
from rushlight.core.io.hub.folder import SmallFiles
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.files import AtHand
from rushlight.models.diffusion.transformers.originals import Layout, layout_of
from rushlight.models.small_files import small_json

Tensors = dict[str, Tensor]
INDEX = "model_index.json"
# What GGUF's metadata says of tensors that were stored in another shape.
_SHAPE = "comfy.gguf.orig_shape."
_ARCHITECTURE = b"general.architecture"
_DRAWS = (b"flux", b"flux2", b"sd3", b"lumina2", b"z_image", b"qwen_image", b"sd1", b"sdxl")
_VAES = ("first_stage_model.", "vae.")
_CLASS = "_class_name"
_FLOW = "FlowMatchEulerDiscreteScheduler"
_DIFFUSERS, _TRANSFORMERS = "diffusers", "transformers"
# The class of a pipeline of each denoiser, and the classes of its parts but for the denoiser.
PIPELINES: dict[str, tuple[str, dict[str, str]]] = {
    "FluxTransformer2DModel": (
        "FluxPipeline",
        {
            "text_encoder": "CLIPTextModel",
            "text_encoder_2": "T5EncoderModel",
            "vae": "AutoencoderKL",
        },
    ),
    "Flux2Transformer2DModel": (
        "Flux2KleinPipeline",
        {"text_encoder": "Qwen3ForCausalLM", "vae": "AutoencoderKLFlux2"},
    ),
    "SD3Transformer2DModel": (
        "StableDiffusion3Pipeline",
        {
            "text_encoder": "CLIPTextModelWithProjection",
            "text_encoder_2": "CLIPTextModelWithProjection",
            "text_encoder_3": "T5EncoderModel",
            "vae": "AutoencoderKL",
        },
    ),
    "PixArtTransformer2DModel": (
        "PixArtSigmaPipeline",
        {"text_encoder": "T5EncoderModel", "vae": "AutoencoderKL"},
    ),
    "QwenImageTransformer2DModel": (
        "QwenImagePipeline",
        {"text_encoder": "Qwen2_5_VLForConditionalGeneration", "vae": "AutoencoderKLQwenImage"},
    ),
    "SanaTransformer2DModel": (
        "SanaPipeline",
        {"text_encoder": "Gemma2Model", "vae": "AutoencoderDC"},
    ),
    "ZImageTransformer2DModel": (
        "ZImagePipeline",
        {"text_encoder": "Qwen3ForCausalLM", "vae": "AutoencoderKL"},
    ),
}
# Text encoders within a file: what their names begin with.
_INSIDE = {
    "FluxTransformer2DModel": {
        "text_encoder": "text_encoders.clip_l.transformer.",
        "text_encoder_2": "text_encoders.t5xxl.transformer.",
    },
    "SD3Transformer2DModel": {
        "text_encoder": "text_encoders.clip_l.transformer.",
        "text_encoder_2": "text_encoders.clip_g.transformer.",
        "text_encoder_3": "text_encoders.t5xxl.transformer.",
    },
}
# The scale and the shift of the autoencoders' latents.
_SCALES = {"SD3Transformer2DModel": (1.5305, 0.0609)}
_SCALE = (0.3611, 0.1159)


class DenoiserFile(AtHand):
    """The parts of a pipeline whose denoiser is a file, with the other parts' folders beside it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        tensors, metadata = load_weights(file)
        self._all = in_stored_shapes(tensors, metadata or {})
        layout = layout_of(self._all)
        if layout is None:
            raise LoadError(
                f"{file}: the tensors have no layout that is supported",
                hint="FLUX, FLUX.2, Stable Diffusion 3, Z-Image, Sana, PixArt and Qwen-Image have "
                "one, as their authors name them",
            )
        self._layout: Layout = layout
        self._config = layout.config_of(self._all)
        beside = file.parent / INDEX
        index = small_json(SmallFiles(file.parent), INDEX) if beside.is_file() else {}
        self._configs: dict[str, Mapping[str, bytes]] = {}
        self._tensors_of: dict[str, Tensors] = {}
        self._read_inside()
        self.index: dict[str, Any] = index or self._index()
        self.index["transformer"] = [_DIFFUSERS, layout.kind]

    def _index(self) -> dict[str, Any]:
        """model_index.json of the pipeline that the denoiser is of."""
        name, parts = PIPELINES[self._layout.kind]
        index: dict[str, Any] = {_CLASS: name}
        if name == "Flux2KleinPipeline":  # base models have their model_index.json beside them
            index["is_distilled"] = True
        for part, kind in parts.items():
            optional = part == "text_encoder_3" and not self._present(part)
            index[part] = [None, None] if optional else [_library(kind), kind]
            if part.startswith("text_encoder") and not optional:
                index[part.replace("text_encoder", "tokenizer")] = [_TRANSFORMERS, "Tokenizer"]
        index["scheduler"] = [_DIFFUSERS, _scheduler(self._layout.kind, self._config)[_CLASS]]
        return index

    def _present(self, part: str) -> bool:
        return part in self._tensors_of or (self.file.parent / part).is_dir()

    def _read_inside(self) -> None:
        """Note the text encoders and the autoencoder that the file holds itself."""
        kind = self._layout.kind
        self._configs["transformer"] = _config(self._config)
        for part, base in _INSIDE.get(kind, {}).items():
            tensors = {n[len(base) :]: t for n, t in self._all.items() if n.startswith(base)}
            if not tensors:
                continue
            config, self._tensors_of[part] = _encoder(tensors, PIPELINES[kind][1][part])
            self._configs[part] = _config(config)
        for base in _VAES:
            tensors = {n[len(base) :]: t for n, t in self._all.items() if n.startswith(base)}
            if "decoder.conv_in.weight" in tensors and PIPELINES[kind][1]["vae"] == "AutoencoderKL":
                config = vae_config(tensors, *_SCALES.get(kind, _SCALE))
                self._tensors_of["vae"] = _vae(tensors, config)
                self._configs["vae"] = _config(config)
                break

    def files(self, part: str) -> Mapping[str, bytes]:
        """The small files of a part; LoadError for one that is neither in the file nor beside it.

        `part` is its name in model_index.json.
        """
        if part in self._configs:
            return self._configs[part]
        place = self.file.parent / part
        if place.is_dir():
            return SmallFiles(place)
        if part == "scheduler":
            config = _scheduler(self._layout.kind, self._config)
            return {"scheduler_config.json": json.dumps(config).encode()}
        raise LoadError(
            f"{self.file}: the part {part} is missing",
            hint=f"the file has none; put the folder {part} of a folder of diffusers beside it",
        )

    def tensors(self, part: str) -> Tensors:
        """The weights of a part under diffusers' names; LoadError where there are none.

        `part` is its name in model_index.json.
        """
        if part == "transformer":
            return of_one_dtype(self._layout.renamed(self._all))
        if part in self._tensors_of:
            return self._tensors_of[part]
        self.files(part)
        try:
            return load_weights(self.file.parent / part)[0]
        except FileNotFoundError as error:
            raise LoadError(f"{self.file}: the part {part} has no weights: {error}") from None


def in_stored_shapes(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> Tensors:
    """Tensors of GGUF in the shapes that its metadata names, where they were stored in others."""
    shaped = dict(tensors)
    for key, size in metadata.items():
        name = key.removeprefix(_SHAPE)
        if key.startswith(_SHAPE) and name in shaped:
            values = shaped[name]
            if tuple(values.shape) != (sizes := tuple(int(n) for n in size)):
                plain = values.dequantize() if values.dtype.kind == "q" else values
                shaped[name] = plain.reshape(sizes)
    return shaped


def of_one_dtype(tensors: Tensors) -> Tensors:
    """Tensors whose floats have one dtype; quantized ones stay as they are.

    Beside blocks it is float32, for float8 bfloat16, which has all its numbers, and else the one
    that most numbers have.
    """
    numbers: Counter[DType] = Counter()
    for values in tensors.values():
        if values.dtype.kind == "f":
            numbers[values.dtype] += values.numel()
    if any(values.dtype.kind == "q" for values in tensors.values()):
        wanted = float32
    elif any(kind.name.startswith("float8") for kind in numbers):
        wanted = bfloat16
    elif numbers:
        wanted = numbers.most_common(1)[0][0]
    else:
        return tensors
    return {n: t.to(dtype=wanted) if t.dtype.kind == "f" else t for n, t in tensors.items()}


def _library(kind: str) -> str:
    return _DIFFUSERS if kind.startswith("Autoencoder") else _TRANSFORMERS


def _config(values: Mapping[str, Any]) -> Mapping[str, bytes]:
    return {"config.json": json.dumps(values).encode()}


def _scheduler(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """scheduler_config.json of the models as they were published."""
    if kind == "FluxTransformer2DModel" and not config["guidance_embeds"]:  # schnell
        return {_CLASS: _FLOW, "shift": 1.0}
    if kind == "PixArtTransformer2DModel":
        return {_CLASS: "DPMSolverMultistepScheduler"}
    if kind == "QwenImageTransformer2DModel":
        return {
            _CLASS: _FLOW,
            "use_dynamic_shifting": True,
            "max_shift": 0.9,
            "max_image_seq_len": 8192,
            "shift_terminal": 0.02,
        }
    dynamic = kind.startswith("Flux")
    return {_CLASS: _FLOW, "shift": 3.0, "use_dynamic_shifting": dynamic}


def _count(tensors: Mapping[str, Tensor], base: str) -> int:
    begins = re.compile(re.escape(base) + r"(\d+)\.")
    return len({m[1] for name in tensors if (m := begins.match(name))})


def _encoder(tensors: Tensors, kind: str) -> tuple[dict[str, Any], Tensors]:
    """config.json and the tensors of a text encoder by its tensors."""
    if kind == "T5EncoderModel":
        return _t5_config(tensors), tensors
    stored = {n: t for n, t in tensors.items() if not n.endswith(("position_ids", "logit_scale"))}
    base = "text_model."
    vocabulary, width = stored[f"{base}embeddings.token_embedding.weight"].shape
    projected = kind.endswith("WithProjection")
    if not projected:
        stored.pop("text_projection.weight", None)
    config = {
        "architectures": [kind],
        "model_type": "clip_text_model",
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": stored[f"{base}encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": _count(stored, f"{base}encoder.layers."),
        "num_attention_heads": max(width // 64, 1),
        "max_position_embeddings": stored[f"{base}embeddings.position_embedding.weight"].shape[0],
        "hidden_act": "quick_gelu" if width <= 768 else "gelu",
        "eos_token_id": 2,  # the end is the largest id
    }
    if projected and "text_projection.weight" in stored:
        config["projection_dim"] = stored["text_projection.weight"].shape[0]
    return config, stored


def _t5_config(tensors: Tensors) -> dict[str, Any]:
    vocabulary, width = tensors["shared.weight"].shape
    attention = "encoder.block.0.layer.0.SelfAttention."
    buckets, count = tensors[f"{attention}relative_attention_bias.weight"].shape
    return {
        "architectures": ["T5EncoderModel"],
        "model_type": "t5",
        "vocab_size": vocabulary,
        "d_model": width,
        "d_kv": tensors[f"{attention}q.weight"].shape[0] // count,
        "d_ff": tensors["encoder.block.0.layer.1.DenseReluDense.wo.weight"].shape[1],
        "num_layers": _count(tensors, "encoder.block."),
        "num_heads": count,
        "relative_attention_num_buckets": buckets,
        "feed_forward_proj": "gated-gelu",
        "is_encoder_decoder": False,
        "tie_word_embeddings": False,
    }


def vae_config(tensors: Mapping[str, Tensor], scale: float, shift: float) -> dict[str, Any]:
    """config.json of an autoencoder in its authors' layout; scale and shift are of its latents."""
    count = _count(tensors, "encoder.down.")
    widths = [tensors[f"encoder.down.{i}.block.0.conv1.weight"].shape[0] for i in range(count)]
    quantized = "quant_conv.weight" in tensors
    return {
        "block_out_channels": widths,
        "down_block_types": ["DownEncoderBlock2D"] * count,
        "up_block_types": ["UpDecoderBlock2D"] * count,
        "layers_per_block": _count(tensors, "encoder.down.0.block."),
        "latent_channels": tensors["decoder.conv_in.weight"].shape[1],
        "sample_size": 1024,
        "scaling_factor": scale,
        "shift_factor": shift,
        "use_quant_conv": quantized,
        "use_post_quant_conv": quantized,
    }


def _vae(tensors: Tensors, config: Mapping[str, Any]) -> Tensors:
    """An autoencoder's tensors under diffusers' names."""
    from rushlight.models.diffusion.registry import part_class
    from rushlight.models.diffusion.single_file.names import vae_names

    make: Callable[[Mapping[str, Any]], Any] = part_class("AutoencoderKL", "vae")
    renamed = {}
    for name, theirs in vae_names(make(config).state_dict(), config).items():
        if theirs not in tensors:
            raise LoadError(f'there is no tensor "{theirs}" of the autoencoder')
        value = tensors[theirs]
        flat = ".attentions." in name and value.ndim == 4
        renamed[name] = value.reshape(value.shape[:2]) if flat else value
    return renamed


def may_draw(file: Path) -> bool:
    """Whether a GGUF file may be of a denoiser, by the architecture that it begins with.

    Files of language models have long vocabularies, which are not read to find this out.
    """
    with file.open("rb") as opened:
        start = opened.read(1 << 12)
    place = start.find(_ARCHITECTURE)
    if place < 0:
        return True
    place += len(_ARCHITECTURE) + 4
    end = place + 8 + int.from_bytes(start[place : place + 8], "little")
    return start[place + 8 : end] in _DRAWS
