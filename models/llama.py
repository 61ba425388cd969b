"""LLaMA (Touvron et al., 2023) and its kin: pre-norm, rotary positions, grouped keys, SwiGLU.

Attribute names are the names in the Hugging Face checkpoint, so weights load with no renaming.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.errors import FormatError, LoadError
from rushlight.core.nn.rope import Rope
from rushlight.core.tensor import Tensor
from rushlight.models.cache import Cache
from rushlight.models.config import read_config
from rushlight.models.generate import Generator

BASE_PREFIX = "model."


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    hidden_act: str = "silu"
    bos_token_id: Any = None
    eos_token_id: Any = None
    model_type: str = "llama"

    def __post_init__(self) -> None:
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        heads, groups = self.num_attention_heads, self.num_key_value_heads
        if heads < 1 or heads % groups:
            raise FormatError(
                f"config.json: num_attention_heads {heads} is not a multiple of "
                f"num_key_value_heads {groups}"
            )
        self.head_dim = self.head_dim or self.hidden_size // heads
        if self.head_dim < 2 or self.head_dim % 2:
            raise FormatError(f"config.json: head_dim {self.head_dim} is not even")
        if self.hidden_act != "silu":
            raise FormatError(f"config.json: hidden_act {self.hidden_act!r} is not there; silu is")
        for name in ("rope_scaling", "rope_parameters"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, dict):
                raise FormatError(f"config.json: {name} is {value!r}; it must be an object")
        # Newer files keep theta and the scaling together.
        if self.rope_parameters:
            self.rope_theta = float(self.rope_parameters.get("rope_theta", self.rope_theta))
            self.rope_scaling = self.rope_parameters


class Attention(nn.Module):
    """Causal self-attention; each key head serves a group of query heads."""

    def __init__(self, config: Config, layer: int) -> None:
        assert config.head_dim is not None and config.num_key_value_heads is not None
        self.layer = layer
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        dim, head, bias = config.hidden_size, config.head_dim, config.attention_bias
        self.q_proj = nn.Linear(dim, self.heads * head, bias=bias)
        self.k_proj = nn.Linear(dim, self.kv_heads * head, bias=bias)
        self.v_proj = nn.Linear(dim, self.kv_heads * head, bias=bias)
        self.o_proj = nn.Linear(self.heads * head, dim, bias=bias)

    def forward(self, x: Tensor, where: Where) -> Tensor:
        batch, length, _ = x.shape

        def split(y: Tensor, heads: int) -> Tensor:
            # (batch, length, heads * head) -> (batch, heads, length, head)
            return y.reshape(batch, length, heads, -1).transpose(1, 2)

        q = ops.rope(split(self.q_proj(x), self.heads), where.cos, where.sin)
        k = ops.rope(split(self.k_proj(x), self.kv_heads), where.cos, where.sin)
        v = split(self.v_proj(x), self.kv_heads)
        if where.cache is None:
            y = ops.attention(q, k, v, causal=True, mask=where.mask)
        else:
            k, v = where.cache.write(self.layer, k, v)
            y = ops.attention(q, k, v, causal=True, q_offset=where.cache.lengths)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))
        return out


@dataclass(frozen=True)
class Where:
    """What every layer is told of the tokens' places."""

    cos: Tensor
    sin: Tensor
    mask: Tensor | None
    cache: Cache | None


class MLP(nn.Module):
    """SwiGLU (Shazeer, 2020): a gated feed-forward part."""

    def __init__(self, config: Config) -> None:
        dim, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = nn.Linear(dim, inner, bias=bias)
        self.up_proj = nn.Linear(dim, inner, bias=bias)
        self.down_proj = nn.Linear(inner, dim, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(ops.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One block: attention and feed-forward, each normalised before and added."""

    def __init__(self, config: Config, layer: int) -> None:
        self.self_attn = Attention(config, layer)
        self.mlp = MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, x: Tensor, where: Where) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), where)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Base(nn.Module):
    """Embedding, blocks and the last norm."""

    def __init__(self, config: Config) -> None:
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, ids: Tensor, where: Where) -> Tensor:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, where)
        out: Tensor = self.norm(x)
        return out


class LlamaForCausalLM(Generator):
    """The language model: hidden states and a head over the vocabulary."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.model = Base(config)
        tied = config.tie_word_embeddings
        self.lm_head = (
            None if tied else nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        )
        assert config.head_dim is not None
        self.rope = Rope(config.head_dim, config.rope_theta, config.rope_scaling)

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache for `batch` rows."""
        c = self.config
        return Cache(
            c.num_hidden_layers, batch, c.num_key_value_heads, c.head_dim,
            limit=c.max_position_embeddings, device=self.device,
        )  # fmt: skip

    def forward(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        *,
        attention_mask: Tensor | None = None,
        last: bool = False,
        real: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of token ids (batch, length); of the last only, if `last`.

        real: (batch,), how many ids of each row are not padding on the right; the last is theirs.
        cache: the tokens before, which these join. attention_mask (batch, length), without a
        cache: false or zero where there is padding, on either side. Raises ValueError past the
        context.
        """
        c = self.config
        if ids.ndim != 2 or ids.shape[1] > c.max_position_embeddings:
            raise ValueError(
                f"llama: ids are {ids.shape}; they must be (batch, up to "
                f"{c.max_position_embeddings})"
            )
        mask = None
        if cache is not None:
            if attention_mask is not None:
                raise ValueError("llama: give attention_mask or a cache, not both")
            cache.reserve(ids.shape[1])
            positions = cache.positions(ids.shape[1])
        elif attention_mask is None:
            positions = ops.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        else:
            real = attention_mask != 0
            positions = (ops.cumsum(real.long(), 1) - 1).clamp(min=0)
            mask = real[:, None, None, :]
        cos, sin = self.rope.angles(positions)
        # (batch, length, head/2) -> (batch, 1, length, head/2)
        x = self.model(ids, Where(cos.unsqueeze(1), sin.unsqueeze(1), mask, cache))
        if cache is not None:
            cache.advance(ids.shape[1], real)
        if last and real is not None:
            # (batch, length, hidden) -> (batch, 1, hidden)
            at = (real - 1).clamp(min=0).reshape(-1, 1, 1).expand(ids.shape[0], 1, x.shape[2])
            x = x.gather(1, at)
        elif last:
            x = x[:, -1:]
        return self.logits(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., hidden) -> (..., vocab) by the head, or the embedding where they are one."""
        if self.lm_head is None:
            return ops.linear(hidden, self.model.embed_tokens.weight)
        out: Tensor = self.lm_head(hidden)
        return out


def build(config: dict[str, Any], names: Collection[str]) -> LlamaForCausalLM:
    """The model that a checkpoint with these tensor names is of, on the meta device."""
    architectures = config.get("architectures") or ["LlamaForCausalLM"]
    if architectures != ["LlamaForCausalLM"]:
        raise LoadError(
            f"config.json: architecture {architectures!r} is not there",
            hint="LlamaForCausalLM is",
        )
    known = read_config(Config, config)
    # Some checkpoints say nothing of tying, and have no head.
    if "lm_head.weight" not in names and "tie_word_embeddings" not in config:
        known.tie_word_embeddings = True
    return LlamaForCausalLM(known)
