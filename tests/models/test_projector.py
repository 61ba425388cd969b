"""A GGUF file and llama.cpp's mmproj file give what the folder of both gives."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io import load_weights, save_gguf
from rushlight.models.checkpoints.text_part import language_model_of
from rushlight.models.families import families
from rushlight.models.gguf.opened import model_weights

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("picture_rows", HERE / "test_pictures.py")
assert _spec is not None and _spec.loader is not None
pictures = importlib.util.module_from_spec(_spec)
sys.modules["picture_rows"] = pictures
_spec.loader.exec_module(pictures)
# The row, llama.cpp's architecture of its language model, the projector.
ROWS = {
    "qwen2_vl": ("qwen2vl", "qwen2vl_merger"),
    "qwen2_5_vl": ("qwen2vl", "qwen2.5vl_merger"),
    "qwen3_vl": ("qwen3vl", "qwen3vl_merger"),
    "smolvlm": ("llama", "idefics3"),
}
pytestmark = pytest.mark.native


def whole_of(name: str) -> tuple[Any, dict[str, bytes]]:
    """The model of a row, and its small files; SmolVLM as such files have it."""
    whole, files = pictures.model(name), pictures.files_of(name)
    if name != "smolvlm":
        return whole, files
    config, seen = (json.loads(files[f"{n}.json"]) for n in ("config", "preprocessor_config"))
    config["vision_config"]["hidden_act"] = "gelu_pytorch_tanh"
    seen["do_image_splitting"] = True
    changed = {"config.json": config, "preprocessor_config.json": seen}
    files |= {n: json.dumps(value).encode() for n, value in changed.items()}
    return rl.models.assemble(files, dict(whole.state_dict())), files


def texts_file(name: str, architecture: str, file: Path) -> None:
    """The language model of a row as a GGUF file of llama.cpp's architecture."""
    whole, files = whole_of(name)
    config = json.loads(files["config.json"])
    sections = (config["text_config"].get("rope_parameters") or {}).get("mrope_section")
    text = language_model_of(config, families())
    assert text is not None
    base = whole.spec.names.base
    tensors = {
        n.replace(f"{base}.", "model."): t
        for n, t in whole.state_dict().items()
        if n.startswith(f"{base}.") or n.startswith("lm_head")
    }
    told = {n: files[n] for n in ("tokenizer.json", "tokenizer_config.json")}
    alone = rl.models.assemble({**told, "config.json": json.dumps(text).encode()}, tensors)
    with model_weights(alone) as (metadata, weights):
        own = metadata["general.architecture"]
        renamed = {
            key.replace(f"{own}.", f"{architecture}.", 1) if key.startswith(f"{own}.") else key: v
            for key, v in metadata.items()
        }
        renamed["general.architecture"] = architecture
        if sections:
            key = f"{architecture}.rope.dimension_sections"
            renamed[key] = np.array([*sections, 0], np.int32)
        save_gguf({w.name: w.read() for w in weights}, file, renamed)


def projector_file(name: str, projector: str, file: Path) -> None:
    """The tower of a row as llama.cpp's converter writes it."""
    whole, files = whole_of(name)
    state = whole.state_dict()
    vision = json.loads(files["config.json"])["vision_config"]
    seen = json.loads(files["preprocessor_config.json"])
    if name == "smolvlm":
        metadata, tensors = _siglip(state, vision, seen)
    else:
        metadata, tensors = _qwen(name, state, vision, seen)
    metadata |= {"general.architecture": "clip", "clip.projector_type": projector}
    save_gguf(tensors, file, metadata)


def _numbers(**values: Any) -> dict[str, Any]:
    return {f"clip.vision.{k.replace('__', '.')}": v for k, v in values.items()}


def _siglip(state: Any, v: Any, seen: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    names = {
        "layer_norm1": "ln1", "layer_norm2": "ln2", "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.out_proj": "attn_out", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
    }  # fmt: skip
    ends = {
        "model.vision_model.embeddings.patch_embedding": "v.patch_embd",
        "model.vision_model.embeddings.position_embedding": "v.position_embd",
        "model.vision_model.post_layernorm": "v.post_ln",
        "model.connector.modality_projection.proj": "mm.model.fc",
    }
    tensors = {}
    for name, t in state.items():
        stem, _, end = name.rpartition(".")
        if name.startswith("model.vision_model.encoder.layers."):
            number, _, part = stem.removeprefix("model.vision_model.encoder.layers.").partition(".")
            tensors[f"v.blk.{number}.{names[part]}.{end}"] = t
        elif stem in ends:
            tensors[f"{ends[stem]}.{end}"] = t
    metadata = _numbers(
        embedding_length=v["hidden_size"], block_count=v["num_hidden_layers"],
        attention__head_count=v["num_attention_heads"], feed_forward_length=v["intermediate_size"],
        patch_size=v["patch_size"], image_size=v["image_size"], projector__scale_factor=3,
        preproc_image_size=seen["size"]["longest_edge"], image_mean=[0.5] * 3, image_std=[0.5] * 3,
    )  # fmt: skip
    return {**metadata, "clip.use_gelu": True}, tensors


def _qwen(name: str, state: Any, v: Any, seen: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    third, second = name == "qwen3_vl", name == "qwen2_5_vl"
    tensors: dict[str, Any] = {}
    deep = v.get("deepstack_visual_indexes") or []
    for full, t in state.items():
        if not full.startswith("model.visual."):
            continue
        n = full.removeprefix("model.visual.")
        for old, new in (
            ("blocks.", "v.blk."), ("norm1", "ln1"), ("norm2", "ln2"), ("attn.proj", "attn_out"),
            ("mlp.linear_fc1", "ffn_up"), ("mlp.linear_fc2", "ffn_down"), ("mlp.fc1", "ffn_up"),
            ("mlp.fc2", "ffn_down"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"), ("merger.ln_q", "v.post_ln"), ("merger.mlp.", "mm."),
            ("attn.qkv", "attn_qkv"), ("pos_embed", "v.position_embd"),
        ):  # fmt: skip
            n = n.replace(old, new) if not n.startswith("deepstack") else n
        if n.startswith("patch_embed"):
            if n.endswith("bias"):
                tensors["v.patch_embd.bias"] = t
            else:
                tensors |= {"v.patch_embd.weight": t[:, :, 0], "v.patch_embd.weight.1": t[:, :, 1]}
        elif n.startswith("deepstack"):
            _, number, part, end = n.split(".")
            part = part.removeprefix("linear_")
            tensors[f"v.deepstack.{deep[int(number)]}.{part}.{end}"] = t
        elif n.startswith("merger."):
            part = {"norm": "v.post_ln", "linear_fc1": "mm.0", "linear_fc2": "mm.2"}
            _, middle, end = n.split(".")
            tensors[f"{part[middle]}.{end}"] = t
        elif ".attn_qkv." in n and not third:
            for one, share in zip("qkv", t.chunk(3), strict=True):
                tensors[n.replace("attn_qkv", f"attn_{one}")] = share
        else:
            tensors[n] = t
    width = v.get("embed_dim") or v["hidden_size"]
    metadata = _numbers(
        embedding_length=width, block_count=v["depth"], attention__head_count=v["num_heads"],
        feed_forward_length=v.get("intermediate_size") or int(width * v["mlp_ratio"]),
        patch_size=v["patch_size"], spatial_merge_size=v["spatial_merge_size"],
        projection_dim=v["hidden_size"] if name == "qwen2_vl" else v["out_hidden_size"],
        image_min_pixels=seen["size"]["shortest_edge"],
        image_max_pixels=seen["size"]["longest_edge"],
        image_mean=[0.48145466, 0.4578275, 0.40821073],
        image_std=[0.26862954, 0.26130258, 0.27577711],
    )  # fmt: skip
    if second:
        metadata |= _numbers(n_wa_pattern=2, window_size=v["window_size"])
        metadata["clip.use_silu"] = True
    if third:
        flags = np.array([i in deep for i in range(v["depth"])])
        metadata |= _numbers(is_deepstack_layers=flags)
        metadata["clip.use_gelu"] = True
    return metadata, tensors


@pytest.mark.parametrize("name", ROWS)
def test_two_files_are_one_model(name: str, tmp_path: Path) -> None:
    architecture, projector = ROWS[name]
    texts_file(name, architecture, tmp_path / "m.gguf")
    projector_file(name, projector, tmp_path / "mmproj.gguf")
    whole, _ = whole_of(name)
    m = rl.models.load(tmp_path / "m.gguf", mmproj=tmp_path / "mmproj.gguf")
    made, wanted = pictures.prompt(m, name), pictures.prompt(whole, name)
    assert made.ids == wanted.ids
    with rl.no_grad():
        ours = m(rl.tensor([made.ids]), **made.inputs()).numpy()
        theirs = whole(rl.tensor([wanted.ids]), **wanted.inputs()).numpy()
    pictures.close(ours, theirs)


def test_other_files_are_refused(tmp_path: Path) -> None:
    texts_file("smolvlm", "llama", tmp_path / "m.gguf")
    with pytest.raises(rl.LoadError, match="mmproj must be llama.cpp's mmproj file"):
        rl.models.load(tmp_path / "m.gguf", mmproj=tmp_path / "m.gguf")
    projector_file("smolvlm", "ultravox", tmp_path / "other.gguf")
    with pytest.raises(rl.LoadError, match="projector_type 'ultravox' is not supported"):
        rl.models.load(tmp_path / "m.gguf", mmproj=tmp_path / "other.gguf")
    projector_file("smolvlm", "idefics3", tmp_path / "seen.gguf")
    tensors, told = load_weights(tmp_path / "seen.gguf")
    assert told is not None
    for key, value, words in (
        ("clip.vision.block_count", 4000, "but the file has"),
        ("clip.vision.embedding_length", "x", "must be a whole number"),
        ("clip.vision.projector.scale_factor", 0, "must be a whole number"),
    ):
        save_gguf(tensors, tmp_path / "bad.gguf", {**told, key: value}, overwrite=True)
        with pytest.raises(rl.FormatError, match=words):
            rl.models.load(tmp_path / "m.gguf", mmproj=tmp_path / "bad.gguf")
    more = {**tensors, "v.blk.0.rotor.weight": rl.ones(2)}
    save_gguf(more, tmp_path / "bad.gguf", told, overwrite=True)
    with pytest.raises(rl.LoadError, match="which smolvlm does not have"):
        rl.models.load(tmp_path / "m.gguf", mmproj=tmp_path / "bad.gguf")
