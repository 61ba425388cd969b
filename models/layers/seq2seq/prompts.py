"""Prompts of each layer (Li and Liang, 2021): trained keys and values before those of tokens."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.seq2seq.spec import PromptSpec

Pair = tuple[Tensor, Tensor]


class Prompts(nn.Module):
    """Keys and values of `layers` layers, made of trained vectors by a network of two layers."""

    def __init__(self, width: int, spec: PromptSpec, layers: int, attention: AttentionSpec) -> None:
        self.spec, self.layers, self.heads = spec, layers, attention.heads
        self.prompt_embedding = nn.Embedding(spec.length, width)
        self.prompt_trans = nn.Sequential(
            nn.Linear(width, spec.inner), nn.GELU(), nn.Linear(spec.inner, 2 * layers * width)
        )

    def forward(self) -> list[Pair]:
        """Of each layer the keys and the values, (1, heads, length, head_dim) each."""
        made: Any = self.prompt_trans(self.prompt_embedding.weight)
        # (length, 2 * layers * width) -> (2 * layers, heads, length, head_dim)
        made = made.reshape(self.spec.length, 2 * self.layers, self.heads, -1).permute(1, 2, 0, 3)
        return [(made[2 * i : 2 * i + 1], made[2 * i + 1 : 2 * i + 2]) for i in range(self.layers)]


def before(prompt: Pair, keys: Tensor, values: Tensor) -> Pair:
    """Keys and values (batch, heads, length, head_dim) after those of the prompt."""
    batch = keys.shape[0]
    k, v = (t.expand(batch, *t.shape[1:]) for t in prompt)
    return ops.cat([k.to(keys.dtype), keys], 2), ops.cat([v.to(values.dtype), values], 2)


def seeing(length: int, options: dict[str, Any]) -> dict[str, Any]:
    """The options of attention whose keys have `length` places more before them."""
    changed = dict(options)
    if changed.get("causal"):
        changed["q_offset"] = changed.get("q_offset", 0) + length
    if changed.get("mask") is not None:
        changed["mask"] = _with_prompt(changed["mask"], length)
    return changed


def remembered(prompts: list[Pair], memory: Memory) -> Memory:
    """The memory with the prompts before it."""
    length = prompts[0][0].shape[2]
    layers = tuple(before(p, *pair) for p, pair in zip(prompts, memory.layers, strict=True))
    mask = None if memory.mask is None else _with_prompt(memory.mask, length)
    return Memory(layers, mask, memory.head)


def _with_prompt(mask: Tensor, length: int) -> Tensor:
    seen = ops.ones(*mask.shape[:-1], length, device=mask.device)
    return ops.cat([seen, mask.float()], -1) > 0
