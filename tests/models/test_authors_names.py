"""Checkpoints under their authors' names give what the same tensors give under transformers'.

The renamings are those of transformers' conversion scripts and timm's filter, read backwards.
"""

from __future__ import annotations

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

DATA = Path(__file__).parent / "data" / "vision"
_PARTS = {
    r"mask_embed\.conv1": "mask_downscaling.0", r"mask_embed\.layer_norm1": "mask_downscaling.1",
    r"mask_embed\.conv2": "mask_downscaling.3", r"mask_embed\.layer_norm2": "mask_downscaling.4",
    r"mask_embed\.conv3": "mask_downscaling.6", r"\.point_embed\.": ".point_embeddings.",
    r"^shared_image_embedding\.positional_embedding":
        "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
    r"upscale_conv1": "output_upscaling.0", r"upscale_layer_norm": "output_upscaling.1",
    r"upscale_conv2": "output_upscaling.3",
}  # fmt: skip
SAM = {
    **_PARTS, r"vision_encoder\.neck\.conv1": "image_encoder.neck.0",
    r"vision_encoder\.neck\.layer_norm1": "image_encoder.neck.1",
    r"vision_encoder\.neck\.conv2": "image_encoder.neck.2",
    r"vision_encoder\.neck\.layer_norm2": "image_encoder.neck.3",
    r"vision_encoder\.patch_embed\.projection": "image_encoder.patch_embed.proj",
    r"vision_encoder\.layers": "image_encoder.blocks", "vision_encoder": "image_encoder",
    r"\.layer_norm": ".norm",
}  # fmt: skip
SAM2 = {
    **_PARTS, r"vision_encoder\.neck\.convs\.(\d)": r"image_encoder.neck.convs.\1.conv",
    r"vision_encoder\.backbone": "image_encoder.trunk", r"patch_embed\.projection":
        "patch_embed.proj", r"\.o_proj": ".out_proj", r"\.layer_norm": ".norm",
    "^no_memory_embedding": "no_mem_embed", "^prompt_encoder": "sam_prompt_encoder",
    "^mask_decoder": "sam_mask_decoder",
}  # fmt: skip
HIERA = {
    r"hiera\.embeddings\.patch_embeddings\.projection": "patch_embed.proj",
    r"hiera\.embeddings\.position_embeddings": "pos_embed", r"hiera\.pooler\.layernorm": "norm",
    "classifier": "head.projection", "layernorm_before": "norm1", "layernorm_after": "norm2",
}  # fmt: skip
_FEED = re.compile(r"(.+(?:mlps\.\d|_head|\.mlp))\.(?:(proj_in|proj_out)|layers\.(\d))\.(\w+)")


def _read(vision: ModuleType, row: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    names = vision.names_of(found["names"])
    tensors = {n: rl.tensor(vision.values_of(n, tuple(s))) for n, s in names.items()}
    return json.loads(found["config"]), tensors


def _renamed(tensors: dict[str, Any], rules: dict[str, str]) -> dict[str, Any]:
    found = {}
    for name, t in tensors.items():
        if match := _FEED.fullmatch(name):
            inner = [n for n in tensors if n.startswith(f"{match[1]}.layers.") and "weight" in n]
            ends = {"proj_in": 0, "proj_out": len(inner) + 1}
            number = ends[match[2]] if match[2] else int(match[3]) + 1
            name = f"{match[1]}.layers.{number}.{match[4]}"
        for old, new in rules.items():
            name = re.sub(old, new, name)
        found[name] = t
    return found


def _made(config: dict[str, Any] | None, tensors: dict[str, Any]) -> Any:
    files = {} if config is None else {"config.json": json.dumps(config).encode()}
    return rl.models.assemble(files, tensors)


def _masks(model: Any, vision: ModuleType, side: int) -> npt.NDArray[np.float32]:
    given = {n: rl.tensor(v) for n, v in vision.prompts_of().items()}
    with rl.no_grad():
        seen = model.maps(rl.tensor(vision.pixels_of((side, side)))[:1])
        found: npt.NDArray[np.float32] = model.masks(seen, given["points"], given["labels"],
                                                     given["boxes"])[0].numpy()  # fmt: skip
    return found


@pytest.mark.parametrize("name", ["sam", "sam-odd"])
def test_segment_anything(name: str, vision: ModuleType) -> None:
    config, tensors = _read(vision, name)
    theirs = _renamed(tensors, SAM)
    assert "image_encoder.blocks.0.attn.qkv.weight" in theirs
    assert "mask_decoder.iou_prediction_head.layers.2.bias" in theirs
    wanted = _masks(_made(config, tensors), vision, 32)
    np.testing.assert_array_equal(_masks(_made(config, theirs), vision, 32), wanted)


def test_segment_anything_without_a_configuration(vision: ModuleType) -> None:
    config, tensors = _read(vision, "sam")
    config["mask_decoder_config"]["num_attention_heads"] = 8  # of every published file
    wanted = _masks(_made(config, tensors), vision, 32)
    model = _made(None, _renamed(tensors, SAM))
    np.testing.assert_array_equal(_masks(model, vision, 32), wanted)


@pytest.mark.parametrize("name", ["sam2", "sam2-odd"])
def test_sam2(name: str, vision: ModuleType) -> None:
    config, tensors = _read(vision, name)
    again = "prompt_encoder.shared_embedding.positional_embedding"
    tensors[again] = tensors["shared_image_embedding.positional_embedding"]
    theirs = _renamed(tensors, SAM2)
    del theirs["sam_prompt_encoder.shared_embedding.positional_embedding"]
    kinds = theirs.pop("sam_prompt_encoder.point_embeddings.weight")
    for i, one in enumerate(kinds.split(1)):
        theirs[f"sam_prompt_encoder.point_embeddings.{i}.weight"] = one
    assert "image_encoder.trunk.blocks.0.mlp.layers.1.weight" in theirs
    assert "sam_mask_decoder.transformer.layers.1.cross_attn_token_to_image.out_proj.bias" in theirs
    memory = {"memory_encoder.out_proj.weight": kinds, "maskmem_tpos_enc": kinds,
              "no_obj_ptr": kinds}  # fmt: skip
    wanted = _masks(_made(config, tensors), vision, 64)
    np.testing.assert_array_equal(_masks(_made(config, theirs | memory), vision, 64), wanted)
    # transformers' files of the published models are of its class for videos.
    video = config | {"model_type": "sam2_video", "architectures": ["Sam2VideoModel"],
                      "num_maskmem": 7, "memory_attention_hidden_size": 16}  # fmt: skip
    memory = {"memory_attention.layer_norm.weight": kinds, "no_object_pointer": kinds}
    np.testing.assert_array_equal(_masks(_made(video, tensors | memory), vision, 64), wanted)
    with pytest.raises(rl.FormatError, match="no published SAM 2: it has"):
        _made(None, theirs)


def test_published_sizes_of_sam2() -> None:
    from rushlight.models.families.vision import sam2

    base = "image_encoder.trunk"
    for width, depths, heads in ((96, (1, 2, 11, 2), [1, 8]), (144, (2, 6, 36, 4), [2, 16])):
        names = {f"{base}.patch_embed.proj.weight": (width, 3, 7, 7), "no_mem_embed": (1, 1, 256),
                 f"{base}.pos_embed": (1, width, 7, 7)}  # fmt: skip
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
    for name, t in sorted(_renamed(tensors, HIERA).items()):
        if match := re.match(r"hiera\.encoder\.(stages\.\d\.layers\.\d)\.", name):
            number, last = number + (match[1] != last), match[1]
            name = name.replace(match[0], f"blocks.{number}.")
        theirs[name] = t
    assert {"blocks.3.attn.qkv.weight", "head.projection.bias", "norm.weight"} <= theirs.keys()
    with rl.no_grad():
        wanted = _made(config, tensors)(pixels).numpy()
        np.testing.assert_array_equal(_made(config, theirs)(pixels).numpy(), wanted)
