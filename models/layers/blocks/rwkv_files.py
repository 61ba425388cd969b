"""Checkpoints of RWKV: its authors' files, whose configuration is in names and shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.blocks.rwkv import RWKVSpec
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.norms import NormSpec

NAMES = DecoderNames(
    base="",
    embedding="emb",
    layers="blocks",
    norm="ln_out",
    head="head",
    before_attention=None,
    before_mlp=None,
)
CONTEXT = 1 << 20  # there are no positions, so no length is too long

# Vectors, which are (1, 1, channels); checkpoints differ in the ones.
_VECTOR = re.compile(r"\.(x_[a-z]|[wav]0|k_[ka]|time_mix_[a-z]+|time_maa_[xwkvrg])")
# What Hugging Face's checkpoints call the parts.
_RENAMED = (
    (r"^rwkv\.", ""), (r"^embeddings\.", "emb."), (r"\.attention\.", ".att."),
    (r"\.feed_forward\.", ".ffn."), (r"\.pre_ln\.", ".ln0."),
    (r"\.time_mix_(k|v|r|g)(?:ey|alue|eceptance|ate)$", r".time_mix_\1"),
    # Version 7, by flash-linear-attention.
    (r"^model\.layers\.", "blocks."), (r"^model\.embeddings\.", "emb."),
    (r"^model\.norm\.", "ln_out."), (r"^lm_head\.", "head."), (r"\.attn\.", ".att."),
    (r"\.pre_norm\.", ".ln0."), (r"\.attn_norm\.", ".ln1."), (r"\.ffn_norm\.", ".ln2."),
    (r"\.g_norm\.", ".ln_x."), (r"\.r_proj\.", ".receptance."), (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."), (r"\.o_proj\.", ".output."), (r"_lora\.lora\.2\.bias$", "0"),
    (r"_lora\.lora\.0\.weight$", "1"), (r"_lora\.lora\.2\.weight$", "2"),
)  # fmt: skip


def decoder(c: Any, layer: RWKVSpec) -> DecoderSpec:
    """The decoder of a configuration, all of whose layers are alike."""
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        CONTEXT,
        (LayerSpec(layer, None, name=""),) * c.num_hidden_layers,
        NormSpec("layer", layer.eps),
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the authors' names and in their layout, vectors as (1, 1, channels)."""
    by_name: dict[str, Tensor] = {}
    for stored, stored_tensor in tensors.items():
        name, tensor = stored, stored_tensor
        for old, new in _RENAMED:
            name = re.sub(old, new, name)
        if "_lora.lora." in stored and tensor.ndim == 2:  # as nn.Linear has it
            tensor = tensor.t().contiguous()
        if name in by_name:
            raise FormatError(f"the checkpoint holds {name!r} twice, once as {stored!r}")
        vector = _VECTOR.fullmatch(name, max(name.rfind("."), 0))
        by_name[name] = tensor.reshape(1, 1, -1) if vector and tensor.ndim else tensor
    return by_name


class Shapes:
    """The shapes of a checkpoint's tensors, which say what config.json would."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.vocab, self.width = self("emb.weight")
        layers = {m[1] for n in tensors if (m := re.match(r"blocks\.(\d{1,4})\.ln1\.", n))}
        self.layers = len(layers)
        self.inner, _ = self("blocks.0.ffn.key.weight")

    def __call__(self, name: str, dims: int = 2) -> tuple[int, ...]:
        """The sizes above 1, of which there are `dims`; FormatError for another number."""
        if name not in self.tensors:
            raise FormatError(f"the checkpoint of RWKV has no {name!r}")
        shape = tuple(n for n in self.tensors[name].shape if n != 1)
        if len(shape) != dims:
            raise FormatError(f"{name} is {self.tensors[name].shape}; it must have {dims} sizes")
        return shape

    def config(self, kind: str, **more: float) -> dict[str, object]:
        """config.json for the model_type `kind`."""
        return {
            "model_type": kind,
            "vocab_size": self.vocab,
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.inner,
            "eos_token_id": 0,
            **more,
        }
