"""A file of a whole pipeline in the authors' layout: Stable Diffusion 1.x, 2.x, XL, its refiner."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import LoadError
from rushlight.core.io import load_weights
from rushlight.core.io.hub.folder import SmallFiles
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.files import FIRST, AtHand
from rushlight.models.diffusion.single_file.names import unet_names, vae_names

UNET, VAE = "model.diffusion_model.", "first_stage_model."
_CLIP = ("cond_stage_model.transformer.", "conditioner.embedders.0.transformer.")
_OPEN = (
    "cond_stage_model.model.",
    "conditioner.embedders.1.model.",
    "conditioner.embedders.0.model.",
)
_SCALED = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
_LAYER = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}


class SingleFile(AtHand):
    """The parts of a single file, with configs that the shapes of its tensors tell.

    Vocabularies are no part of such a file: they are in the folders tokenizer and tokenizer_2
    beside it, as in a folder of diffusers. tensors, beside: what a page has read of them.
    """

    def __init__(
        self,
        file: Path,
        tensors: Mapping[str, Tensor] | None = None,
        beside: Mapping[str, bytes] | None = None,
    ) -> None:
        self.file, self._beside = file, beside
        self._all = load_weights(file)[0] if tensors is None else dict(tensors)
        if FIRST not in self._all:
            raise LoadError(
                f"{file}: there is no tensor {FIRST}; it is no single file of Stable Diffusion",
                hint="a folder of diffusers has model_index.json",
            )
        self._unet = _unet_config(self._all)
        self._files: dict[str, Mapping[str, bytes]] = {}
        self._texts = self._encoders()
        xl = "text_encoder_2" in self._texts
        second = "text_encoder" not in self._texts
        kind = "StableDiffusionXL" if xl else "StableDiffusion"
        self.index: dict[str, Any] = {"_class_name": f"{kind}{'Img2Img' * second}Pipeline"}
        if second:
            self.index["requires_aesthetics_score"] = True
            self.index["_class_name"] = "StableDiffusionXLImg2ImgPipeline"
        if xl:  # after the vector of the text are the waves of six numbers, or the refiner's five
            added_width = self._unet["projection_class_embeddings_input_dim"]
            pooled = self._texts["text_encoder_2"][0]["projection_dim"]
            self._unet["addition_time_embed_dim"] = (added_width - pooled) // (5 if second else 6)
        self.index |= {"unet": ["diffusers", "UNet2DConditionModel"]}
        self.index |= {"vae": ["diffusers", "AutoencoderKL"]}
        scheduler = self._scheduler(xl)
        self.index["scheduler"] = ["diffusers", scheduler["_class_name"]]
        configs: dict[str, Any] = {"unet": self._unet, "vae": _vae_config(self._all, xl)}
        for part, (config, _) in self._texts.items():
            self.index[part] = ["transformers", config["architectures"][0]]
            self.index[part.replace("text_encoder", "tokenizer")] = [
                "transformers",
                "CLIPTokenizer",
            ]
            configs[part] = config
        self._configs = configs
        self._files = {p: {"config.json": json.dumps(c).encode()} for p, c in configs.items()}
        self._files["scheduler"] = {"scheduler_config.json": json.dumps(scheduler).encode()}

    def files(self, part: str) -> Mapping[str, bytes]:
        """The small files of a part; LoadError for a vocabulary that is not beside the file."""
        if part in self._files:
            return self._files[part]
        if self._beside is not None:
            return self._chosen(part)
        place = self.file.parent / part
        if not place.is_dir() and part == "tokenizer_2":  # both are CLIP's
            place = self.file.parent / "tokenizer"
        if not place.is_dir():
            raise LoadError(
                f"{self.file}: the vocabulary of its text encoder is missing",
                hint=f"a single file has none; put the folder {part} (vocab.json, merges.txt) of a "
                "pipeline of the same kind beside it",
            )
        return SmallFiles(place)

    def _chosen(self, part: str) -> Mapping[str, bytes]:
        """The vocabulary of a part among the files that a page was given."""
        files = self._beside or {}
        for start in (f"{part}/", "tokenizer/", ""):
            files_of_part = {
                n.removeprefix(start): c for n, c in files.items() if n.startswith(start)
            }
            if "vocab.json" in files_of_part or "tokenizer.json" in files_of_part:
                return files_of_part
        raise LoadError(
            f"{self.file}: the vocabulary of its text encoder is missing",
            hint="choose tokenizer/vocab.json and merges.txt of such a pipeline with it",
        )

    def numel(self) -> int:
        """The numbers of all weights."""
        return sum(int(tensor.numel()) for tensor in self._all.values())

    def tensors(self, part: str) -> dict[str, Tensor]:
        """The weights of a part under diffusers' names."""
        if part in self._texts:
            return self._texts[part][1]
        base = UNET if part == "unet" else VAE
        names, config = self._names(part), self._configs[part]
        rename = unet_names if part == "unet" else vae_names
        renamed = {}
        for name, theirs in rename(names, config).items():
            if base + theirs not in self._all:
                raise LoadError(f'{self.file}: there is no tensor "{base + theirs}" of the {part}')
            renamed[name] = self._all[base + theirs]
        return renamed

    def _names(self, part: str) -> list[str]:
        from rushlight.models.diffusion.registry import part_class

        return list(part_class(self.index[part][1], part)(self._configs[part]).state_dict())

    def _scheduler(self, xl: bool) -> dict[str, Any]:
        if xl:
            prediction: dict[str, Any] = {}
            prediction |= {"prediction_type": "v_prediction"} if "v_pred" in self._all else {}
            prediction |= {"rescale_betas_zero_snr": True} if "ztsnr" in self._all else {}
            kind = "EulerDiscreteScheduler"
            return {
                "_class_name": kind,
                **_SCALED,
                "steps_offset": 1,
                "timestep_spacing": "leading",
                **prediction,
            }
        plain = {**_SCALED, "steps_offset": 1, "set_alpha_to_one": False}
        if self._unet["cross_attention_dim"] == 1024:  # 2.x, which was trained on velocities
            kind = "DDIMScheduler"
            more: dict[str, Any] = {"clip_sample": False, "prediction_type": "v_prediction"}
        else:
            kind, more = "PNDMScheduler", {"skip_prk_steps": True}
        return {"_class_name": kind, **plain, **more}

    def _encoders(self) -> dict[str, tuple[dict[str, Any], dict[str, Tensor]]]:
        """The text encoders by the names of their parts: config.json and tensors."""
        encoders = {}
        for base in _CLIP:
            tensors = {n[len(base) :]: t for n, t in self._all.items() if n.startswith(base)}
            tensors = {n: t for n, t in tensors.items() if not n.endswith("position_ids")}
            if tensors:
                encoders["text_encoder"] = (_clip_config(tensors, "quick_gelu", False), tensors)
        for base in _OPEN:
            tensors = {n[len(base) :]: t for n, t in self._all.items() if n.startswith(base)}
            if "ln_final.weight" in tensors:
                xl = base.startswith("conditioner")
                part = "text_encoder_2" if xl else "text_encoder"
                encoders[part] = _open_clip(tensors, xl)
        if not encoders:
            raise LoadError(f"{self.file} has no text encoder under {', '.join(_CLIP + _OPEN)}")
        return encoders


def _depth(tensors: Mapping[str, Tensor], base: str) -> int:
    """How many numbered modules there are below a name."""
    place = re.compile(re.escape(base) + r"(\d+)\.")
    numbers = {int(m[1]) for n in tensors if (m := place.match(n))}
    return len(numbers)


def _unet_config(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    inside = {n[len(UNET) :]: t for n, t in tensors.items() if n.startswith(UNET)}
    widths: list[int] = []
    depths: list[int] = []
    layers = [0]
    context, linear = 768, False
    for number in range(1, _depth(inside, "input_blocks.")):
        base = f"input_blocks.{number}."
        if f"{base}0.op.weight" in inside:
            layers.append(0)
            continue
        width = int(inside[f"{base}0.in_layers.2.weight"].shape[0])
        depth = _depth(inside, f"{base}1.transformer_blocks.")
        if layers[-1] == 0:
            widths.append(width)
            depths.append(depth)
        layers[-1] += 1
        if depth:
            key = inside[f"{base}1.transformer_blocks.0.attn2.to_k.weight"]
            context, linear = int(key.shape[1]), inside[f"{base}1.proj_in.weight"].ndim == 2
    middle = _depth(inside, "middle_block.1.transformer_blocks.")
    per_block = [depth or 1 for depth in depths]
    if not depths[-1]:  # the middle has the depth of the last stage, even if that sees nothing
        per_block[-1] = middle
    down = ["CrossAttnDownBlock2D" if d else "DownBlock2D" for d in depths]
    up = ["CrossAttnUpBlock2D" if d else "UpBlock2D" for d in reversed(depths)]
    config: dict[str, Any] = {
        "in_channels": int(inside["input_blocks.0.0.weight"].shape[1]),
        "out_channels": int(inside["out.2.weight"].shape[0]),
        "block_out_channels": widths,
        "down_block_types": down,
        "up_block_types": up,
        "layers_per_block": layers[0],
        "transformer_layers_per_block": per_block,
        "cross_attention_dim": context,
        "use_linear_projection": linear,
        "attention_head_dim": 8 if not linear else [max(w // 64, 1) for w in widths],
        "sample_size": 128 if "label_emb.0.0.weight" in inside else 96 if context == 1024 else 64,
    }
    if "label_emb.0.0.weight" in inside:
        added_width = int(inside["label_emb.0.0.weight"].shape[1])
        config |= {
            "addition_embed_type": "text_time",
            "projection_class_embeddings_input_dim": added_width,
        }
    return config


def _vae_config(tensors: Mapping[str, Tensor], xl: bool) -> dict[str, Any]:
    inside = {n[len(VAE) :]: t for n, t in tensors.items() if n.startswith(VAE)}
    if "encoder.conv_in.weight" not in inside:
        raise LoadError(f"there is no tensor {VAE}encoder.conv_in.weight of the autoencoder")
    count = _depth(inside, "encoder.down.")
    widths = [int(inside[f"encoder.down.{i}.block.0.conv1.weight"].shape[0]) for i in range(count)]
    return {
        "block_out_channels": widths,
        "down_block_types": ["DownEncoderBlock2D"] * count,
        "up_block_types": ["UpDecoderBlock2D"] * count,
        "layers_per_block": _depth(inside, "encoder.down.0.block."),
        "latent_channels": int(inside["decoder.conv_in.weight"].shape[1]),
        "sample_size": 1024 if xl else 512,
        "scaling_factor": 0.13025 if xl else 0.18215,
    }


def _clip_config(tensors: Mapping[str, Tensor], act: str, projected: bool) -> dict[str, Any]:
    base = "text_model."
    vocabulary, width = tensors[f"{base}embeddings.token_embedding.weight"].shape
    config = {
        "architectures": ["CLIPTextModelWithProjection" if projected else "CLIPTextModel"],
        "model_type": "clip_text_model",
        "vocab_size": int(vocabulary),
        "hidden_size": int(width),
        "intermediate_size": int(tensors[f"{base}encoder.layers.0.mlp.fc1.weight"].shape[0]),
        "num_hidden_layers": _depth(tensors, f"{base}encoder.layers."),
        "num_attention_heads": max(int(width) // 64, 1),
        "max_position_embeddings": int(
            tensors[f"{base}embeddings.position_embedding.weight"].shape[0]
        ),
        "hidden_act": act,
        "eos_token_id": 2,  # the end is the largest id
    }
    if projected:
        config["projection_dim"] = int(tensors["text_projection.weight"].shape[0])
    return config


def _open_clip(tensors: Mapping[str, Tensor], xl: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and the tensors of OpenCLIP's text tower under transformers' names.

    Stable Diffusion 2 has the states before the last layer, which is left out.
    """
    base, renamed = "text_model.", {}
    count = _depth(tensors, "transformer.resblocks.") - (not xl)
    for name, value in tensors.items():
        if match := re.fullmatch(r"transformer\.resblocks\.(\d+)\.(.+?)[._](weight|bias)", name):
            if int(match[1]) >= count:
                continue
            layer = f"{base}encoder.layers.{match[1]}."
            if match[2] == "attn.in_proj":
                for letter, third in zip("qkv", value.chunk(3, 0), strict=True):
                    renamed[f"{layer}self_attn.{letter}_proj.{match[3]}"] = third
            else:
                renamed[f"{layer}{_LAYER[match[2]]}.{match[3]}"] = value
        elif name.startswith("ln_final."):
            renamed[base + name.replace("ln_final", "final_layer_norm")] = value
        elif name == "token_embedding.weight":
            renamed[f"{base}embeddings.token_embedding.weight"] = value
        elif name == "positional_embedding":
            renamed[f"{base}embeddings.position_embedding.weight"] = value
        elif name == "text_projection" and xl:  # a product from the other side
            renamed["text_projection.weight"] = value.T.contiguous()
    return _clip_config(renamed, "gelu", xl), renamed
