"""MusicGen's model: a decoder of several codes a frame that reads a text, and its codec."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seq2seq.text_encoder import TextEncoder
from rushlight.models.layers.sound.encodec import EncodecModel
from rushlight.models.model import Model
from rushlight.models.small_files import find_tokenizer

KeysValues = dict[str, tuple[Tensor, Tensor]]  # keys and values by the attention's place


class _Attention(nn.Module):
    """Attention of frames to those before them, or to a text."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def remember(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, heads, n, size) of x (batch, n, width)."""
        return self._split(self.k_proj(x)), self._split(self.v_proj(x))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        y = scaled_dot_product_attention(self._split(self.q_proj(x)), keys, values, attn_mask=mask)
        out: Tensor = self.out_proj(y.transpose(1, 2).reshape(*x.shape))
        return out


class _Layer(nn.Module):
    """Attention to frames, to the text where it `reads` one, and an MLP; each after a norm."""

    def __init__(self, c: Any, reads: bool) -> None:
        width, self.reads = c.hidden_size, reads
        self.self_attn = _Attention(width, c.num_attention_heads)
        if reads:
            self.encoder_attn = _Attention(width, c.num_attention_heads)
            self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, c.ffn_dim, bias=False)
        self.fc2 = nn.Linear(c.ffn_dim, width, bias=False)
        self.act = ACTIVATIONS[c.activation_function]
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, cache: KeysValues, place: str, masks: tuple[Tensor | None, Tensor | None]
    ) -> Tensor:
        """masks: of the frames and of the text."""
        y = self.self_attn_layer_norm(x)
        keys, values = self.self_attn.remember(y)
        if place in cache:
            keys, values = cat([cache[place][0], keys], 2), cat([cache[place][1], values], 2)
        cache[place] = keys, values
        x = x + self.self_attn(y, keys, values, masks[0])
        if self.reads:
            text = cache[f"text:{place}"]
            x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), *text, masks[1])
        y = self.fc2(self.act(self.fc1(self.final_layer_norm(x))))
        out: Tensor = x + y
        return out


class MusicModel(Model):
    """Codes (batch, codebooks, n) and a text -> logits (batch, codebooks, n, codes) of the next.

    `compose` makes codes of texts, and `sound` makes sound of codes. Codebook k of a frame is made
    k steps after its first (Copet et al., 2023).
    """

    reads = True  # whether its layers attend to the text apart from the frames

    @nn.layers_on("meta")
    def __init__(self, config: Any, inner: Any, text: TextEncoder, audio: EncodecModel) -> None:
        """inner: config.json's decoder."""
        c = inner
        self.config, self.inner, self.text_encoder, self.audio_encoder = config, c, text, audio
        self.rate, self.channels = audio.rate, c.audio_channels
        base = "decoder.model.decoder"
        books = [nn.Embedding(c.vocab_size + 1, c.hidden_size) for _ in range(c.num_codebooks)]
        put(self, f"{base}.embed_tokens", nn.ModuleList(books))
        layers = [_Layer(c, self.reads) for _ in range(c.num_hidden_layers)]
        put(self, f"{base}.layers", nn.ModuleList(layers))
        put(self, f"{base}.layer_norm", nn.LayerNorm(c.hidden_size))
        heads = [nn.Linear(c.hidden_size, c.vocab_size, bias=False) for _ in range(c.num_codebooks)]
        put(self, "decoder.lm_heads", nn.ModuleList(heads))
        self.projects = text.width != c.hidden_size
        if self.projects:
            self.enc_to_dec_proj = nn.Linear(text.width, c.hidden_size)
        self.duplicates = {
            f"text_encoder.{n}": f"text_encoder.{of}" for n, of in text.duplicates.items()
        }

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer."""
        self.tokenizer = find_tokenizer(files)

    @property
    def delay(self) -> int:
        """How many steps after a frame's first code its last one is made, and one."""
        books: int = self.inner.num_codebooks // self.channels
        return books

    def read(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """The states (batch, length, width) of texts' token ids (batch, length), as layers read
        them; mask (batch, length): false or zero for padding, whose states are zero.
        """
        states: Tensor = self.text_encoder(ids, mask)
        states = self.enc_to_dec_proj(states) if self.projects else states
        return states if mask is None else states * (mask != 0).unsqueeze(-1).to(states.dtype)

    def blank(self, states: Tensor) -> Tensor:
        """The states (batch, length, width) of no text, which guidance compares those of one with.

        states: those of texts, of the same shape.
        """
        return states * 0  # attention makes nothing of them

    def remembered(self, states: Tensor) -> KeysValues:
        """What `step` holds before the first codes: the text's keys and values in each layer."""
        layers: Any = self.get_submodule("decoder.model.decoder.layers")
        pairs = (layer.encoder_attn.remember(states) for layer in layers)
        return {f"text:{i}": pair for i, pair in enumerate(pairs)}

    def step(self, codes: Tensor, cache: KeysValues, mask: Tensor | None = None) -> Tensor:
        """Logits (batch, codebooks, n, codes) after further codes (batch, codebooks, n).

        cache: what `remembered` made, to which these codes are added. mask (batch, length): of the
        text. ValueError for another number of codebooks.
        """
        c: Any = self.inner
        net: Any = self.get_submodule("decoder.model.decoder")
        if codes.ndim != 3 or codes.shape[1] != c.num_codebooks or not codes.shape[2]:
            raise ValueError(
                f"{self.config.model_type}: codes are {codes.shape}; they must be (batch, "
                f"{c.num_codebooks}, n)"
            )
        tables = list(net.embed_tokens.children())
        x = tables[0](codes[:, 0])
        for i in range(1, c.num_codebooks):
            x = x + tables[i](codes[:, i])
        x = net.layer_norm(self.through(x, cache, mask))
        heads = self.get_submodule("decoder.lm_heads").children()
        return stack([head(x) for head in heads], 1)

    def through(self, x: Tensor, cache: KeysValues, mask: Tensor | None = None) -> Tensor:
        """Further inputs x (batch, n, width) through the layers, with their positions.

        cache: what came before, to which these are added. mask (batch, length): of the text. It
        raises nothing of its own.
        """
        start, n = (cache["0"][0].shape[2] if "0" in cache else 0), x.shape[1]
        x = x + tensor(waves(start, n, x.shape[2]), device=x.device).to(x.dtype)
        before = None
        if n > 1:
            at = ops.arange(start, start + n, device=x.device).unsqueeze(1)
            before = at >= ops.arange(start + n, device=x.device)
        text = None if mask is None else (mask != 0)[:, None, None, :]
        layers: Any = self.get_submodule("decoder.model.decoder.layers")
        for i, layer in enumerate(layers.children()):
            x = layer(x, cache, str(i), (before, text))
        return x

    def forward(self, ids: Tensor, codes: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (batch, codebooks, n, codes) of texts' ids (batch, length) and codes so far.

        `codes` are (batch, codebooks, n), delayed; attention_mask (batch, length): of the text.
        ValueError as of `step`.
        """
        cache = self.remembered(self.read(ids, attention_mask))
        return self.step(codes, cache, attention_mask)

    def sound(self, codes: Tensor) -> Tensor:
        """Sound (batch, channels, n) of codes (batch, codebooks, frames), without delays."""
        if self.channels == 1:
            return self.audio_encoder.decode(codes)
        sides = [self.audio_encoder.decode(codes[:, i :: self.channels]) for i in range(2)]
        return cat(sides, 1)


class MelodyModel(MusicModel):
    """A `MusicModel` whose layers read a melody and the text before the frames.

    chroma: how loud each of 12 tones is in each frame of the melody. Without one the first is.
    """

    reads = False

    @nn.layers_on("meta")
    def __init__(self, config: Any, inner: Any, text: TextEncoder, audio: EncodecModel) -> None:
        super().__init__(config, inner, text, audio)
        if config.num_chroma != inner.hidden_size:
            self.audio_enc_to_dec_proj = nn.Linear(config.num_chroma, inner.hidden_size)

    def read(self, ids: Tensor, mask: Tensor | None = None, chroma: Tensor | None = None) -> Tensor:
        """The states (batch, chroma_length + length, width) of melodies, then of texts' ids.

        `ids` and `mask` are (batch, length). chroma (batch, frames, num_chroma): of the melodies,
        repeated or cut to chroma_length. ValueError for another shape.
        """
        c: Any = self.config
        states = super().read(ids, mask)
        if chroma is None:
            row = np.zeros((len(ids), 1, c.num_chroma), np.float32)
            row[:, :, 0] = 1
            chroma = tensor(row, device=states.device)
        if chroma.ndim != 3 or chroma.shape[::2] != (len(ids), c.num_chroma) or 0 in chroma.shape:
            raise ValueError(
                f"musicgen_melody: chroma is {chroma.shape}; it must be ({len(ids)}, frames, "
                f"{c.num_chroma})"
            )
        heard = chroma.to(states.dtype)
        if c.num_chroma != self.inner.hidden_size:
            heard = self.audio_enc_to_dec_proj(heard)
        at = np.arange(c.chroma_length) % heard.shape[1]
        return cat([heard[:, tensor(at, device=heard.device)], states], 1)

    def blank(self, states: Tensor) -> Tensor:
        length = self.config.chroma_length
        return cat([states[:, :length], states[:, length:] * 0], 1)

    def remembered(self, states: Tensor) -> KeysValues:
        cache: KeysValues = {}
        self.through(states, cache)
        return cache

    def step(self, codes: Tensor, cache: KeysValues, mask: Tensor | None = None) -> Tensor:
        return super().step(codes, cache)


def waves(start: int, n: int, width: int) -> npt.NDArray[np.float32]:
    """Positions start to start + n - 1 as cosines, then sines (Vaswani et al., 2017)."""
    half = width // 2
    steps = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1)))
    angles = np.arange(start, start + n, dtype=np.float32)[:, None] * steps
    rows = np.concatenate([np.cos(angles), np.sin(angles)], 1)
    return np.pad(rows, ((0, 0), (0, width - 2 * half)))
