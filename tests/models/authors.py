"""transformers' names of tensors under those of models' authors, and timm's under MobileSAM's.

The renamings are those of transformers' conversion scripts and timm's filters, read backwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

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
    **_PARTS,
    r"vision_encoder\.neck\.conv1": "image_encoder.neck.0",
    r"vision_encoder\.neck\.layer_norm1": "image_encoder.neck.1",
    r"vision_encoder\.neck\.conv2": "image_encoder.neck.2",
    r"vision_encoder\.neck\.layer_norm2": "image_encoder.neck.3",
    r"vision_encoder\.patch_embed\.projection": "image_encoder.patch_embed.proj",
    r"vision_encoder\.layers": "image_encoder.blocks",
    "vision_encoder": "image_encoder",
    r"\.layer_norm": ".norm",
}
SAM2 = {
    **_PARTS,
    r"vision_encoder\.neck\.convs\.(\d)": r"image_encoder.neck.convs.\1.conv",
    r"vision_encoder\.backbone": "image_encoder.trunk",
    r"patch_embed\.projection": "patch_embed.proj",
    r"\.o_proj": ".out_proj",
    r"\.layer_norm": ".norm",
    "^no_memory_embedding": "no_mem_embed",
    "^prompt_encoder": "sam_prompt_encoder",
    "^mask_decoder": "sam_mask_decoder",
}
HIERA = {
    r"hiera\.embeddings\.patch_embeddings\.projection": "patch_embed.proj",
    r"hiera\.embeddings\.position_embeddings": "pos_embed",
    r"hiera\.pooler\.layernorm": "norm",
    "classifier": "head.projection",
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
}
# timm's TinyViT in MobileSAM's image_encoder, whose downsampling ends a stage.
TINY = {
    r"^patch_embed\.conv1": "patch_embed.seq.0",
    r"^patch_embed\.conv2": "patch_embed.seq.2",
    r"\.conv\.(\w+)$": r".c.\1",
    r"^stages\.(\d)\.downsample": lambda m: f"layers.{int(m[1]) - 1}.downsample",
    r"^stages": "layers",
    "^": "image_encoder.",
}
_FEED = re.compile(r"(.+(?:mlps\.\d|_head|\.mlp))\.(?:(proj_in|proj_out)|layers\.(\d))\.(\w+)")


def renamed(
    tensors: dict[str, Any], rules: dict[str, Any], names: Collection[str] = ()
) -> dict[str, Any]:
    """The tensors under the names that the rules make, one after another; names: of all tensors."""
    found = {}
    for name, t in tensors.items():
        if match := _FEED.fullmatch(name):
            inner = [
                n for n in names or tensors if n.startswith(f"{match[1]}.layers.") and "weight" in n
            ]
            ends = {"proj_in": 0, "proj_out": len(inner) + 1}
            number = ends[match[2]] if match[2] else int(match[3]) + 1
            name = f"{match[1]}.layers.{number}.{match[4]}"
        for old, new in rules.items():
            name = re.sub(old, new, name)
        found[name] = t
    return found
