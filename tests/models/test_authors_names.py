"""Checkpoints under their authors' names give what the same tensors give under transformers'."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables

HERE = Path(__file__).parent
DATA = HERE / "data" / "vision"
_spec = importlib.util.spec_from_file_location("authors", HERE / "authors.py")
assert _spec is not None and _spec.loader is not None
authors = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(authors)


def _read(vision: ModuleType, row: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    names = vision.names_of(found["names"])
    tensors = {n: rl.tensor(vision.values_of(n, tuple(s))) for n, s in names.items()}
    return json.loads(found["config"]), tensors


def _made(config: dict[str, Any] | None, tensors: dict[str, Any]) -> Any:
    files = {} if config is None else {"config.json": json.dumps(config).encode()}
    return rl.models.assemble(files, tensors)


def _masks(model: Any, vision: ModuleType, side: int) -> npt.NDArray[np.float32]:
    given = {n: rl.tensor(v) for n, v in vision.prompts_of().items()}
    with rl.no_grad():
        seen = model.maps(rl.tensor(vision.pixels_of((side, side)))[:1])
        found: npt.NDArray[np.float32] = model.masks(
            seen, given["points"], given["labels"], given["boxes"]
        )[0].numpy()
    return found


@pytest.mark.parametrize("name", ["sam", "sam-odd"])
def test_segment_anything(name: str, vision: ModuleType) -> None:
    config, tensors = _read(vision, name)
    theirs = authors.renamed(tensors, authors.SAM)
    assert "image_encoder.blocks.0.attn.qkv.weight" in theirs
    assert "mask_decoder.iou_prediction_head.layers.2.bias" in theirs
    wanted = _masks(_made(config, tensors), vision, 32)
    np.testing.assert_array_equal(_masks(_made(config, theirs), vision, 32), wanted)


def test_segment_anything_without_a_configuration(vision: ModuleType) -> None:
    config, tensors = _read(vision, "sam")
    config["mask_decoder_config"]["num_attention_heads"] = 8  # of every published file
    wanted = _masks(_made(config, tensors), vision, 32)
    model = _made(None, authors.renamed(tensors, authors.SAM))
    np.testing.assert_array_equal(_masks(model, vision, 32), wanted)


@pytest.mark.parametrize("name", ["sam2", "sam2-odd"])
def test_sam2(name: str, vision: ModuleType) -> None:
    config, tensors = _read(vision, name)
    again = "prompt_encoder.shared_embedding.positional_embedding"
    tensors[again] = tensors["shared_image_embedding.positional_embedding"]
    theirs = authors.renamed(tensors, authors.SAM2)
    del theirs["sam_prompt_encoder.shared_embedding.positional_embedding"]
    kinds = theirs.pop("sam_prompt_encoder.point_embeddings.weight")
    for i, one in enumerate(kinds.split(1)):
        theirs[f"sam_prompt_encoder.point_embeddings.{i}.weight"] = one
    assert "image_encoder.trunk.blocks.0.mlp.layers.1.weight" in theirs
    assert "sam_mask_decoder.transformer.layers.1.cross_attn_token_to_image.out_proj.bias" in theirs
    memory = {
        "memory_encoder.out_proj.weight": kinds,
        "maskmem_tpos_enc": kinds,
        "no_obj_ptr": kinds,
    }
    wanted = _masks(_made(config, tensors), vision, 64)
    np.testing.assert_array_equal(_masks(_made(config, theirs | memory), vision, 64), wanted)
    # transformers' files of the published models are of its class for videos.
    video = config | {
        "model_type": "sam2_video",
        "architectures": ["Sam2VideoModel"],
        "num_maskmem": 7,
        "memory_attention_hidden_size": 16,
    }
    memory = {"memory_attention.layer_norm.weight": kinds, "no_object_pointer": kinds}
    np.testing.assert_array_equal(_masks(_made(video, tensors | memory), vision, 64), wanted)
    with pytest.raises(rl.FormatError, match="no published SAM 2: it has"):
        _made(None, theirs)


def test_published_sizes_of_sam2() -> None:
    from rushlight.models.families.vision import sam2

    base = "image_encoder.trunk"
    for width, depths, heads in ((96, (1, 2, 11, 2), [1, 8]), (144, (2, 6, 36, 4), [2, 16])):
        names = {
            f"{base}.patch_embed.proj.weight": (width, 3, 7, 7),
            "no_mem_embed": (1, 1, 256),
            f"{base}.pos_embed": (1, width, 7, 7),
        }
        places = [(i, j) for i, depth in enumerate(depths) for j in range(depth)]
        for number, (i, j) in enumerate(places):
            before = width << (i if j or not i else i - 1)
            names[f"{base}.blocks.{number}.norm1.weight"] = (before,)
            names[f"{base}.blocks.{number}.norm2.weight"] = (width << i,)
        config = sam2.config_of({n: rl.empty(*s, device="meta") for n, s in names.items()})
        model = sam2.build(config, names)
        assert model.grid == 64 and model.image_size == (1024, 1024)
        blocks: Any = list(model.get_submodule("vision_encoder.backbone.blocks").children())
        assert [b.place.heads for b in (blocks[0], blocks[-1])] == heads


def test_hiera(vision: ModuleType) -> None:
    config, tensors = _read(vision, "hiera")
    pixels = rl.tensor(vision.pixels_of((64, 32)))
    theirs, number, last = {}, -1, ""
    for name, t in sorted(authors.renamed(tensors, authors.HIERA).items()):
        if match := re.match(r"hiera\.encoder\.(stages\.\d\.layers\.\d)\.", name):
            number, last = number + (match[1] != last), match[1]
            name = name.replace(match[0], f"blocks.{number}.")
        theirs[name] = t
    assert {"blocks.3.attn.qkv.weight", "head.projection.bias", "norm.weight"} <= theirs.keys()
    with rl.no_grad():
        wanted = _made(config, tensors)(pixels).numpy()
        np.testing.assert_array_equal(_made(config, theirs)(pixels).numpy(), wanted)
