"""The table of tiny pipelines with transformers: parts' configurations, options, folders of them.

`tests/parity/make_flow_goldens.py` runs diffusers on the same; weights are those of
`tiny_pipelines`, by a formula of their names. NumPy is all that it needs.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_spec = importlib.util.spec_from_file_location(
    "tiny_pipelines", Path(__file__).parents[1] / "tiny_pipelines.py"
)
assert _spec is not None and _spec.loader is not None
tiny = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tiny)
GOLDENS = Path(__file__).parents[1] / "data" / "diffusion" / "flow_pipelines.json"
PROMPT = "a bad candle on the table"
SIDE = tiny.SIDE
_CLIP = tiny._TEXT
_CLIP_2 = {**tiny._TEXT_2, "hidden_size": 8, "projection_dim": 12}
_VAE = {**tiny.VAE, "scaling_factor": 0.36, "shift_factor": 0.11, "use_quant_conv": False,
        "use_post_quant_conv": False}  # fmt: skip
_T5 = {
    "architectures": ["T5EncoderModel"],
    "model_type": "t5",
    "vocab_size": 64,
    "d_model": 20,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 3,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": False,
    "tie_word_embeddings": False,
}
_QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 64,
    "hidden_size": 12,
    "intermediate_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 6,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
}
_GEMMA2 = {
    "architectures": ["Gemma2Model"],
    "model_type": "gemma2",
    "vocab_size": 64,
    "hidden_size": 12,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 6,
    "max_position_embeddings": 1024,
    "sliding_window": 512,
}
_QWEN25 = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "tie_word_embeddings": True,
    "image_token_id": 60,
    "video_token_id": 61,
    "vision_start_token_id": 62,
    "vision_end_token_id": 63,
    "text_config": {
        "model_type": "qwen2_5_vl_text",
        "vocab_size": 64,
        "hidden_size": 12,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [1, 1, 1],
        },
    },
    "vision_config": {
        "model_type": "qwen2_5_vl",
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "out_hidden_size": 12,
        "fullatt_block_indexes": [0],
    },
}
_FLOW = {"_class_name": "FlowMatchEulerDiscreteScheduler"}
_SHIFTED = {**_FLOW, "use_dynamic_shifting": True, "base_shift": 0.4, "max_shift": 1.1}
_FLUX = {
    "_class_name": "FluxTransformer2DModel",
    "in_channels": 16,
    "num_layers": 1,
    "num_single_layers": 1,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "joint_attention_dim": 20,
    "pooled_projection_dim": 16,
    "axes_dims_rope": [4, 6, 6],
}
# By name: the class of the pipeline, its parts' configs, and the options of its picture.
ROWS: dict[str, dict[str, Any]] = {
    "flux-schnell": {
        "class": "FluxPipeline",
        "transformer": _FLUX,
        "vae": _VAE,
        "text_encoder": _CLIP,
        "text_encoder_2": _T5,
        "scheduler": _FLOW,
        "options": {"num_inference_steps": 2, "max_sequence_length": 12},
    },
    "flux-dev": {
        "class": "FluxPipeline",
        "transformer": {**_FLUX, "guidance_embeds": True},
        "vae": _VAE,
        "text_encoder": _CLIP,
        "text_encoder_2": _T5,
        "scheduler": _SHIFTED,
        "options": {"num_inference_steps": 3, "guidance_scale": 2.5, "max_sequence_length": 12},
    },
    "sd3": {
        "class": "StableDiffusion3Pipeline",
        "transformer": {
            "_class_name": "SD3Transformer2DModel",
            "sample_size": 4,
            "in_channels": 4,
            "out_channels": 4,
            "num_layers": 2,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "joint_attention_dim": 32,
            "caption_projection_dim": 16,
            "pooled_projection_dim": 24,
            "pos_embed_max_size": 4,
        },
        "vae": _VAE,
        "text_encoder": {**_CLIP, "architectures": ["CLIPTextModelWithProjection"]},
        "text_encoder_2": _CLIP_2,
        "text_encoder_3": {**_T5, "d_model": 32},
        "scheduler": {**_FLOW, "shift": 3.0},
        "options": {
            "num_inference_steps": 2,
            "guidance_scale": 4.0,
            "negative_prompt": "a dim cat",
            "max_sequence_length": 12,
        },
    },
    "pixart-sigma": {
        "class": "PixArtSigmaPipeline",
        "transformer": {
            "_class_name": "PixArtTransformer2DModel",
            "sample_size": 4,
            "num_attention_heads": 2,
            "attention_head_dim": 12,
            "num_layers": 1,
            "cross_attention_dim": 24,
            "caption_channels": 20,
        },
        "vae": tiny.VAE,
        "text_encoder": _T5,
        "scheduler": {"_class_name": "DPMSolverMultistepScheduler"},
        "options": {"num_inference_steps": 2, "guidance_scale": 3.0, "max_sequence_length": 12},
    },
    "sana": {
        "class": "SanaPipeline",
        "transformer": {
            "_class_name": "SanaTransformer2DModel",
            "in_channels": 4,
            "out_channels": 4,
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "num_layers": 1,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 8,
            "cross_attention_dim": 16,
            "caption_channels": 12,
            "sample_size": 8,
        },
        "vae": {
            "_class_name": "AutoencoderDC",
            "latent_channels": 4,
            "attention_head_dim": 4,
            "encoder_block_types": "ResBlock",
            "decoder_block_types": "ResBlock",
            "encoder_block_out_channels": [4, 4, 8],
            "decoder_block_out_channels": [4, 4, 8],
            "encoder_layers_per_block": [1, 1, 1],
            "decoder_layers_per_block": [1, 1, 1],
            "encoder_qkv_multiscales": [[], [], []],
            "decoder_qkv_multiscales": [[], [], []],
            "scaling_factor": 0.41,
        },
        "text_encoder": _GEMMA2,
        "scheduler": {**_FLOW, "shift": 3.0},
        "options": {"num_inference_steps": 2, "guidance_scale": 3.0, "max_sequence_length": 12},
    },
    "z-image": {
        "class": "ZImagePipeline",
        "transformer": {
            "_class_name": "ZImageTransformer2DModel",
            "in_channels": 4,
            "dim": 24,
            "n_layers": 1,
            "n_refiner_layers": 1,
            "n_heads": 2,
            "n_kv_heads": 2,
            "cap_feat_dim": 12,
            "axes_dims": [4, 4, 4],
            "axes_lens": [128, 8, 8],
        },
        "vae": _VAE,
        "text_encoder": _QWEN3,
        "scheduler": {**_FLOW, "shift": 3.0},
        "options": {
            "num_inference_steps": 2,
            "guidance_scale": 1.5,
            "negative_prompt": "a dim cat",
            "max_sequence_length": 40,
        },
    },
    "qwen-image": {
        "class": "QwenImagePipeline",
        "transformer": {
            "_class_name": "QwenImageTransformer2DModel",
            "in_channels": 16,
            "out_channels": 4,
            "num_layers": 1,
            "attention_head_dim": 12,
            "num_attention_heads": 2,
            "joint_attention_dim": 12,
            "axes_dims_rope": [4, 4, 4],
        },
        "vae": {
            "_class_name": "AutoencoderKLQwenImage",
            "base_dim": 4,
            "z_dim": 4,
            "dim_mult": [1, 1, 2, 2],
            "num_res_blocks": 1,
            "temperal_downsample": [False, True, True],
            "latents_mean": [0.1, 0.2, 0.3, -0.1],
            "latents_std": [1.5, 2.5, 0.5, 1.0],
        },
        "text_encoder": _QWEN25,
        "scheduler": {**_SHIFTED, "shift_terminal": 0.02},
        "options": {
            "num_inference_steps": 2,
            "guidance_scale": 3.0,
            "negative_prompt": "a dim cat",
        },
    },
    "qwen-edit": {
        "class": "QwenImageEditPlusPipeline",
        "processor": {
            "image_processor_type": "Qwen2VLImageProcessor",
            "min_pixels": 784,
            "max_pixels": 3136,
        },
    },
    "flux2-klein": {
        "class": "Flux2KleinPipeline",
        "transformer": {
            "_class_name": "Flux2Transformer2DModel",
            "in_channels": 16,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "joint_attention_dim": 36,
            "timestep_guidance_channels": 32,
            "axes_dims_rope": [4, 4, 4, 4],
            "guidance_embeds": False,
        },
        "vae": {
            **{k: v for k, v in tiny.VAE.items() if k != "scaling_factor"},
            "_class_name": "AutoencoderKLFlux2",
            "latent_channels": 4,
            "decoder_block_out_channels": [4, 8, 8, 8],
        },
        "text_encoder": _QWEN3,
        "scheduler": _SHIFTED,
        "options": {"num_inference_steps": 3, "guidance_scale": 2.0, "max_sequence_length": 24},
    },
}
_EDIT = {k: v for k, v in ROWS["qwen-image"].items() if k != "class"}
ROWS["qwen-edit"] |= {**_EDIT, "transformer": {**_EDIT["transformer"], "zero_cond_t": True}}
AREA = 64 * 64  # pixels of pictures to draw after, in the row "qwen-edit"
LAYERS = (1, 2, 3)  # of FLUX.2 klein's text encoder
EDITING = ("flux2-klein", "qwen-edit")  # rows that are drawn after pictures, too, or alone


def references() -> list[Any]:
    """Pictures to draw after: one that is cropped a little, and one that is not."""
    tiles = np.tile(tiny.picture(), (3, 3, 1))
    return [np.ascontiguousarray(tiles[:70, :85]), np.ascontiguousarray(tiles[:64, 16:80, ::-1])]


_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"
    "<|im_start|>assistant{% if not enable_thinking %} think{% endif %}"
)


def latents(name: str) -> Any:
    """The noise of a row's picture, as diffusers draws it before it is packed."""
    row = ROWS[name]
    if name == "flux2-klein":
        return tiny.values("latents", (1, 16, 2, 2))
    channels = {"sana": 8}.get(name, 4)
    return tiny.values("latents", (1, 4, channels, channels)) if row else None


def write_words(folder: Path, kind: str) -> None:
    """A vocabulary of whole words; T5's texts have an end, Gemma's a beginning."""
    ends = {"t5": "</s>", "gemma2": "<bos>"}
    words = ["<pad>", "</s>", "<bos>", "<unk>"]
    words += "a bad candle on the table dim cat user assistant think system image : ,".split()
    named = [*words, *(f"w{i}" for i in range(len(words), 60))]
    marks = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    special_words = dict(enumerate(words[:4]))
    if kind == "qwen2_5_vl":
        special_words |= dict(enumerate(marks, 60))
    added = [
        {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, text in special_words.items()
    ]  # fmt: skip
    special = ends.get(kind)
    processor = None
    if special:
        token = {"SpecialToken": {"id": special, "type_id": 0}}
        text: Any = {"Sequence": {"id": "A", "type_id": 0}}
        processor = {
            "type": "TemplateProcessing",
            "single": [text, token] if kind == "t5" else [token, text],
            "pair": [text, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {
                special: {"id": special, "ids": [words.index(special)], "tokens": [special]}
            },
        }
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": processor,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: i for i, word in enumerate(named)},
            "unk_token": "<unk>",
        },
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "model_max_length": 2048,
        "chat_template": _CHAT,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_tokenizers(folder: Path, name: str) -> None:
    """The folders of a row's tokenizers."""
    for part, config in ROWS[name].items():
        if part.startswith("text_encoder"):
            place = folder / part.replace("text_encoder", "tokenizer")
            if config["model_type"] == "clip_text_model":
                tiny.write_tokenizer(place)
            else:
                write_words(place, config["model_type"])


def write_pipeline(folder: Path, name: str, shapes: Mapping[str, Mapping[str, Any]]) -> Path:
    """The folder of a pipeline. shapes: of the tensors of each part with weights."""
    row = ROWS[name]
    index: dict[str, Any] = {"_class_name": row["class"], "_diffusers_version": "0.42.0"}
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizers(folder, name)
    for part, config in row.items():
        if part.startswith("text_encoder"):
            index[part] = ["transformers", config["architectures"][0]]
            index[part.replace("text_encoder", "tokenizer")] = ["transformers", "Tokenizer"]
            tiny.write_part(folder / part, config, shapes[part])
        elif part in ("transformer", "vae"):
            index[part] = ["diffusers", config["_class_name"]]
            tiny.write_part(folder / part, config, shapes[part])
    if "processor" in row:
        index["processor"] = ["transformers", "Qwen2VLProcessor"]
        (folder / "processor").mkdir(exist_ok=True)
        file = folder / "processor" / "preprocessor_config.json"
        file.write_text(json.dumps(row["processor"]))
    index["scheduler"] = ["diffusers", row["scheduler"]["_class_name"]]
    (folder / "scheduler").mkdir(exist_ok=True)
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(row["scheduler"]))
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder
