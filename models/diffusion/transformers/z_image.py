"""Z-Image (Tongyi, 2025): one stream of a picture's and a prompt's tokens, refined apart first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.activations import silu
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import (
    Angles,
    Attention,
    angles_on,
    axis_angles,
    check_axes,
    check_pixels,
    grid_places,
    patches,
    plain_norm,
    time_waves,
    unpatched,
)
from rushlight.models.diffusion.transformers.originals import as_diffusers
from rushlight.models.layers.naming import put

CONDITION = 256  # the largest width of a time's vector
MIDDLE = 1024
MULTIPLE = 32  # lengths are filled up to multiples of it


@dataclass
class ZImageConfig:
    """The keys of the denoiser's config.json."""

    all_patch_size: Any = (2,)
    all_f_patch_size: Any = (1,)
    in_channels: int = 16
    dim: int = 3840
    n_layers: int = 30
    n_refiner_layers: int = 2
    n_heads: int = 30
    norm_eps: float = 1e-5
    qk_norm: bool = True
    cap_feat_dim: int = 2560
    rope_theta: float = 256.0
    t_scale: float = 1000.0
    axes_dims: Any = (32, 48, 48)
    axes_lens: Any = (1024, 512, 512)

    # The reference makes as many key heads as heads, whatever n_kv_heads is.
    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {"n_kv_heads": (), "siglip_feat_dim": (None,)}


class _GatedForward(nn.Module):
    """w2(silu(w1 x) w3 x)."""

    def __init__(self, width: int, inner: int) -> None:
        self.w1 = nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)
        self.w3 = nn.Linear(width, inner, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> the same."""
        out: Tensor = self.w2(silu(self.w1(x)) * self.w3(x))
        return out


class ZImageLayer(nn.Module):
    """Norms before and after each part; if `conditioned` a time scales and gates them."""

    def __init__(self, c: ZImageConfig, conditioned: bool) -> None:
        self.conditioned = conditioned
        self.attention = Attention(
            c.dim,
            c.n_heads,
            c.dim // c.n_heads,
            bias=False,
            out_bias=False,
            norm="head" if c.qk_norm else "",
            eps=1e-5,
        )
        self.feed_forward = _GatedForward(c.dim, int(c.dim / 3 * 8))
        self.attention_norm1 = nn.RMSNorm(c.dim, eps=c.norm_eps)
        self.attention_norm2 = nn.RMSNorm(c.dim, eps=c.norm_eps)
        self.ffn_norm1 = nn.RMSNorm(c.dim, eps=c.norm_eps)
        self.ffn_norm2 = nn.RMSNorm(c.dim, eps=c.norm_eps)
        if conditioned:
            inside = min(c.dim, CONDITION)
            self.adaLN_modulation = nn.ModuleList([nn.Linear(inside, 4 * c.dim)])

    def forward(
        self,
        x: Tensor,
        angles: Angles,
        mask: Tensor | None = None,
        condition: Tensor | None = None,
    ) -> Tensor:
        """(batch, length, width) -> the same; mask: bool (batch, length)."""
        if not self.conditioned:
            seen, _ = self.attention(self.attention_norm1(x), angles=angles, mask=mask)
            x = x + self.attention_norm2(seen)
            out: Tensor = x + self.ffn_norm2(self.feed_forward(self.ffn_norm1(x)))
            return out
        vectors = self.adaLN_modulation[0](condition).unsqueeze(1).chunk(4, -1)
        scale, gate, scale_inner, gate_inner = vectors
        y = self.attention_norm1(x) * (scale + 1.0)
        seen, _ = self.attention(y, angles=angles, mask=mask)
        x = x + gate.tanh() * self.attention_norm2(seen)
        y = self.feed_forward(self.ffn_norm1(x) * (scale_inner + 1.0))
        out = x + gate_inner.tanh() * self.ffn_norm2(y)
        return out


class ZImageTransformer2DModel(nn.Module):
    """Z-Image's denoiser: Turbo and Base."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(ZImageConfig, config)
        sizes, times = list(c.all_patch_size), list(c.all_f_patch_size)
        if len(sizes) != len(times) or 1 not in times:
            raise FormatError(
                f"config.json: all_f_patch_size is {brief(times)}; it must have as many numbers as "
                "all_patch_size, one of them 1"
            )
        if c.n_heads < 1 or c.dim % c.n_heads:
            raise FormatError(f"config.json: dim {c.dim} is not a multiple of n_heads {c.n_heads}")
        check_axes("axes_dims", c.axes_dims, c.dim // c.n_heads)
        self.patch_size = sizes[times.index(1)]
        inside = min(c.dim, CONDITION)
        for size, time in zip(sizes, times, strict=True):
            features, key = time * size * size * c.in_channels, f"{size}-{time}"
            put(self, f"all_x_embedder.{key}", nn.Linear(features, c.dim))
            put(self, f"all_final_layer.{key}.linear", nn.Linear(c.dim, features))
            put(self, f"all_final_layer.{key}.adaLN_modulation.1", nn.Linear(inside, c.dim))
        few, many = range(c.n_refiner_layers), range(c.n_layers)
        self.noise_refiner = nn.ModuleList([ZImageLayer(c, True) for _ in few])
        self.context_refiner = nn.ModuleList([ZImageLayer(c, False) for _ in few])
        self.layers = nn.ModuleList([ZImageLayer(c, True) for _ in many])
        put(self, "t_embedder.mlp.0", nn.Linear(256, MIDDLE))
        put(self, "t_embedder.mlp.2", nn.Linear(MIDDLE, inside))
        put(self, "cap_embedder.0", nn.RMSNorm(c.cap_feat_dim, eps=c.norm_eps))
        put(self, "cap_embedder.1", nn.Linear(c.cap_feat_dim, c.dim))
        self.x_pad_token, self.cap_pad_token = parameter(1, c.dim), parameter(1, c.dim)
        self._fill()

    rename_tensors = staticmethod(as_diffusers)

    def reset_parameters(self) -> None:
        """Tokens of padding are zero."""
        init.zeros_(self.x_pad_token)
        init.zeros_(self.cap_pad_token)

    def angles(self, words: Sequence[int], height: int, width: int) -> tuple[Angles, Angles]:
        """The angles of a batch's prompts, and of its pictures, on the device.

        `words`: the length of each prompt; `height`, `width`: of the latents. A picture's tokens
        come after its prompt on the first axis. Raises ValueError beyond the places that
        axes_lens of config.json names.
        """
        c, size = self.config, self.patch_size
        longest = _filled(max(words))
        rows, columns = height // size, width // size
        needed = (longest + 2, rows, columns)
        if any(need > most for need, most in zip(needed, c.axes_lens, strict=True)):
            raise ValueError(
                f"ZImageTransformer2DModel: a prompt of {max(words)} tokens and {rows} x {columns} "
                f"patches are more than axes_lens {list(c.axes_lens)} of config.json allows; give "
                "a shorter prompt or a smaller picture"
            )
        of_words, of_pixels = [], []
        for count in words:
            room = _filled(count)
            places = np.zeros((longest, 3), np.int64)
            places[:room, 0] = np.arange(1, room + 1)
            of_words.append(places)
            places = np.zeros((_filled(rows * columns), 3), np.int64)
            places[: rows * columns] = grid_places(rows, columns, (room + 1, 0, 0))
            of_pixels.append(places)
        return self._angles(np.stack(of_words)), self._angles(np.stack(of_pixels))

    def _angles(self, places: Any) -> Angles:
        c = self.config
        cos, sin = axis_angles(places.reshape(-1, 3), c.axes_dims, c.rope_theta)
        shape = (places.shape[0], 1, places.shape[1], -1)
        return angles_on(self, cos.reshape(shape), sin.reshape(shape))

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Sequence[Tensor],
        image_rotary_emb: tuple[Angles, Angles] | None = None,
    ) -> Tensor:
        """The reference's prediction (batch, channels, height, width).

        `hidden_states`: latents of this shape. `timestep`: (batch,), from 0, noise, to 1.
        `encoder_hidden_states`: each prompt's states (words, cap_feat_dim). `image_rotary_emb`:
        what `angles` gives.
        """
        c, size = self.config, self.patch_size
        check_pixels("ZImageTransformer2DModel", hidden_states, c.in_channels, size)
        batch, _, height, width = hidden_states.shape
        words = [len(text) for text in encoder_hidden_states]
        if len(words) != batch or min(words) < 1:
            raise ValueError(
                f"ZImageTransformer2DModel: {len(words)} prompts of {words} tokens are for "
                f"{batch} pictures; give one of at least one token for each"
            )
        if image_rotary_emb is None:
            image_rotary_emb = self.angles(words, height, width)
        of_words, of_pixels = image_rotary_emb
        get: Any = self.get_submodule
        waves = time_waves(timestep * c.t_scale).to(hidden_states.dtype)
        condition = get("t_embedder.mlp.2")(silu(get("t_embedder.mlp.0")(waves)))

        pixels = get(f"all_x_embedder.{size}-1")(patches(hidden_states, size))
        count = pixels.shape[1]
        filling = self.x_pad_token.expand(batch, _filled(count) - count, c.dim).to(pixels.dtype)
        x = cat([pixels, filling], 1)
        for layer in self.noise_refiner:
            x = layer(x, of_pixels, None, condition)
        texts, mask = self._texts(encoder_hidden_states, words)
        for layer in self.context_refiner:
            texts = layer(texts, of_words, mask)
        longer = x.shape[1]
        both = tuple(cat(list(pair), 2) for pair in zip(of_pixels, of_words, strict=True))
        x = cat([x, texts], 1)
        if mask is not None:
            seen = tensor(np.ones((batch, longer), bool), device=x.device)
            mask = cat([seen, mask], 1)
        for layer in self.layers:
            x = layer(x, (both[0], both[1]), mask, condition)
        last: Any = get(f"all_final_layer.{size}-1")
        scale = last.adaLN_modulation.get_submodule("1")(silu(condition)).unsqueeze(1)
        out = last.linear(plain_norm(x[:, :count]) * (scale + 1.0))
        return unpatched(out, size, height, width)

    def _texts(
        self, states: Sequence[Tensor], words: Sequence[int]
    ) -> tuple[Tensor, Tensor | None]:
        """Prompts (batch, longest, width) in the denoiser's width, and which tokens are theirs."""
        get: Any = self.get_submodule
        longest, texts = _filled(max(words)), []
        for text in states:
            y = get("cap_embedder.1")(get("cap_embedder.0")(text))
            filling = self.cap_pad_token.expand(longest - len(text), y.shape[1]).to(y.dtype)
            texts.append(cat([y, filling], 0))
        lengths = [_filled(count) for count in words]
        if min(lengths) == longest:
            return stack(texts), None
        mask = np.arange(longest) < np.array(lengths)[:, None]
        return stack(texts), tensor(mask, device=texts[0].device)


def _filled(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE
