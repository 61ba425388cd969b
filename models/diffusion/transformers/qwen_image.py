"""Qwen-Image (Wu et al., 2025): two joint streams; edited pictures are further tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rushlight.core import nn
from rushlight.core.functional.network.activations import silu
from rushlight.core.ops import where
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import (
    WAVES,
    Angles,
    Attention,
    FeedForward,
    LastNorm,
    TwoLayers,
    angles_on,
    axis_angles,
    check_axes,
    grid_places,
    modulated,
    plain_norm,
    time_waves,
    within_half,
)
from rushlight.models.diffusion.transformers.originals import as_diffusers
from rushlight.models.layers.naming import put

THETA = 10000.0
Size = tuple[int, int, int]  # frames, rows and columns of a picture's tokens


@dataclass
class QwenImageConfig:
    """The keys of the denoiser's config.json."""

    patch_size: int = 2
    in_channels: int = 64
    out_channels: int | None = 16
    num_layers: int = 60
    attention_head_dim: int = 128
    num_attention_heads: int = 24
    joint_attention_dim: int = 3584
    axes_dims_rope: Any = (16, 56, 56)
    zero_cond_t: bool = False
    use_additional_t_cond: bool = False
    use_layer3d_rope: bool = False

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {
        "guidance_embeds": (False,),
        "pooled_projection_dim": (),
    }


class QwenImageLayer(nn.Module):
    """Pictures and prompts, each with weights of its own, attend to both."""

    def __init__(self, width: int, heads: int, head_dim: int) -> None:
        for name in ("img", "txt"):
            put(self, f"{name}_mod.1", nn.Linear(width, 6 * width))
        self.img_mlp, self.txt_mlp = FeedForward(width), FeedForward(width)
        self.attn = Attention(width, heads, head_dim, joint=True)

    def forward(
        self,
        x: Tensor,
        texts: Tensor,
        conditions: tuple[Tensor, Tensor | None],
        angles: Angles,
        masks: tuple[Tensor | None, Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        """(batch, pixels, width), (batch, words, width) -> the same.

        conditions: of the time, and of time 0 where edited pictures have that. masks: bool (batch,
        words + pixels) of what is seen, and (pixels, 1), true for edited pictures.
        """
        condition, clean = conditions
        seen_mask, later = masks
        modulation = self._vectors("img", condition)
        if clean is not None and later is not None:
            still = self._vectors("img", clean)
            modulation = [where(later, b, a) for a, b in zip(modulation, still, strict=True)]
        other = self._vectors("txt", condition)
        seen, seen_texts = self.attn(
            modulated(plain_norm(x), modulation[1], modulation[0]),
            modulated(plain_norm(texts), other[1], other[0]),
            angles,
            seen_mask,
        )
        x = x + modulation[2] * seen
        texts = texts + other[2] * seen_texts
        x = x + modulation[5] * self.img_mlp(modulated(plain_norm(x), modulation[4], modulation[3]))
        y = self.txt_mlp(modulated(plain_norm(texts), other[4], other[3]))
        return within_half(x), within_half(texts + other[5] * y)

    def _vectors(self, name: str, condition: Tensor) -> list[Tensor]:
        out: Tensor = self.get_submodule(f"{name}_mod.1")(silu(condition))
        return list(out.unsqueeze(1).chunk(6, -1))


class _Times(nn.Module):
    """A vector of a time; if `kinds`, with one of two that are added."""

    def __init__(self, width: int, kinds: bool) -> None:
        self.timestep_embedder, self.kinds = TwoLayers(WAVES, width), kinds
        if kinds:
            self.addition_t_embedding = nn.Embedding(2, width)

    def forward(self, waves: Tensor, added: Tensor | None) -> Tensor:
        """(batch, waves) -> (batch, width)."""
        out: Tensor = self.timestep_embedder(waves)
        if not self.kinds:
            return out
        if added is None:
            raise ValueError(
                "QwenImageTransformer2DModel: the model asks for additional_t_cond: give 0 or 1 "
                "for each picture"
            )
        kind: Tensor = self.addition_t_embedding(added)
        return out + kind


class QwenImageTransformer2DModel(nn.Module):
    """The denoiser of Qwen-Image and Qwen-Image-Edit."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(QwenImageConfig, config)
        width, sizes = (
            c.num_attention_heads * c.attention_head_dim,
            (c.num_attention_heads, c.attention_head_dim),
        )
        check_axes("axes_dims_rope", c.axes_dims_rope, c.attention_head_dim)
        self.time_text_embed = _Times(width, c.use_additional_t_cond)
        self.txt_norm = nn.RMSNorm(c.joint_attention_dim, eps=1e-6)
        self.img_in = nn.Linear(c.in_channels, width)
        self.txt_in = nn.Linear(c.joint_attention_dim, width)
        self.transformer_blocks = nn.ModuleList(
            [QwenImageLayer(width, *sizes) for _ in range(c.num_layers)]
        )
        self.norm_out = LastNorm(width)
        self.proj_out = nn.Linear(width, c.patch_size**2 * (c.out_channels or c.in_channels))

    rename_tensors = staticmethod(as_diffusers)

    def angles(self, words: int, pictures: Sequence[Size]) -> Angles:
        """The angles of a prompt of `words` tokens and of `pictures`, on the device.

        The first picture is what is made, others are edited. Places are counted from the middle of
        a picture; words come behind the largest.
        """
        last, furthest, places = len(pictures) - 1, 0, []
        for i, (frames, rows, columns) in enumerate(pictures):
            first = (rows // 2 - rows, columns // 2 - columns)
            layered = self.config.use_layer3d_rope and i == last
            places += [
                grid_places(rows, columns, (-1 if layered else i + frame, *first))
                for frame in range(frames)
            ]
            furthest = max(furthest, rows // 2, columns // 2)
        furthest = max(furthest, last) if self.config.use_layer3d_rope else furthest
        of_words = np.repeat(np.arange(furthest, furthest + words)[:, None], 3, 1)
        both = np.concatenate([of_words, *places])
        return angles_on(self, *axis_angles(both, self.config.axes_dims_rope, THETA))

    def later(self, pictures: Sequence[Size]) -> Tensor | None:
        """(tokens, 1) bool, true for pictures after the first, where these have time 0."""
        if not self.config.zero_cond_t:
            return None
        counts = [frames * rows * columns for frames, rows, columns in pictures]
        mask = np.arange(sum(counts)) >= counts[0]
        return tensor(mask[:, None], device=self.img_in.weight.device)

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        image_rotary_emb: Angles,
        encoder_hidden_states_mask: Tensor | None = None,
        later: Tensor | None = None,
        additional_t_cond: Tensor | None = None,
    ) -> Tensor:
        """The velocity (batch, tokens, patch_size^2 * out_channels) of packed latents.

        `hidden_states`: (batch, tokens, in_channels), those of edited pictures last. `timestep`:
        (batch,), from 1, noise, to 0. `encoder_hidden_states`: states of the language model (batch,
        words, joint_attention_dim), and `encoder_hidden_states_mask` (batch, words), 0 for padding.
        `image_rotary_emb` and `later`: what `angles` and `later` give. `additional_t_cond`:
        (batch,) of 0 and 1, for models that ask for it.
        """
        x = self.img_in(hidden_states)
        texts = self.txt_in(self.txt_norm(encoder_hidden_states))
        condition = self._condition(timestep.to(x.dtype), additional_t_cond)
        still = timestep.to(x.dtype) * 0.0
        clean = None if later is None else self._condition(still, additional_t_cond)
        mask = None
        if encoder_hidden_states_mask is not None:
            of_words = encoder_hidden_states_mask > 0
            of_pixels = of_words.new_ones((x.shape[0], x.shape[1]))
            mask = cat([of_words, of_pixels], 1)
        for layer in self.transformer_blocks:
            x, texts = layer(x, texts, (condition, clean), image_rotary_emb, (mask, later))
        out: Tensor = self.proj_out(self.norm_out.normed(x, condition))
        return out

    def _condition(self, times: Tensor, added: Tensor | None) -> Tensor:
        waves = time_waves(times, scale=1000.0).to(times.dtype)
        out: Tensor = self.time_text_embed(waves, added)
        return out
