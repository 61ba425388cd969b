"""The codec of Pocket TTS: Mimi's layers around frames of numbers, which no table makes codes."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.layers.sound.codec import CodecModel, Coding, Flow, Flowing
from rushlight.models.layers.sound.mimi import FrameTransformer
from rushlight.models.layers.sound.seanet import (
    SeaConv,
    SeaDecoder,
    SeaEncoder,
    SeaSpec,
    SeaTransposed,
)


class LatentCodec(CodecModel):
    """Sound (batch, 1, n) -> frames of numbers (batch, latent_dim, frames), and back.

    These stand where other codecs have codes; there is one book of them, of 32 bits a number.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: SeaSpec, rotary: RotarySpec) -> None:
        c = self.config = config
        self.rate, self.channels, self.latent = c.sampling_rate, c.audio_channels, c.latent_dim
        self.hop = math.prod(spec.ratios) * c.latent_stride
        self.bits, self.codebooks, self.in_parts = 32.0 * c.latent_dim, 1, spec.streams
        kernel, width = 2 * c.latent_stride, c.hidden_size
        put(self, "encoder.encoder_seanet", SeaEncoder(spec))
        put(self, "encoder.encoder_transformer", FrameTransformer(c, rotary))
        narrowed = SeaConv(
            spec, width, c.latent_dim, kernel, c.latent_stride, bias=False, padding="replicate"
        )
        put(self, "encoder.downsample", narrowed)
        self.latent_proj = nn.Conv1d(c.latent_dim, width, 1, bias=False)
        widened = SeaTransposed(
            spec, width, width, kernel, c.latent_stride, c.upsample_groups, False
        )
        put(self, "decoder.upsample", widened)
        put(self, "decoder.decoder_transformer", FrameTransformer(c, rotary))
        put(self, "decoder.decoder_seanet", SeaDecoder(spec))

    def checked_codes(self, codes: Tensor) -> Tensor:
        """The frames; ValueError where they are no numbers (batch, latent_dim, frames)."""
        good = codes.ndim == 3 and codes.shape[1] == self.latent and 0 not in codes.shape
        if not good or not codes.dtype.is_floating_point:
            raise ValueError(
                f"{self.config.model_type}: frames are {codes.dtype.name} of shape {codes.shape}; "
                f"they must be numbers (batch, {self.latent}, frames)"
            )
        return codes

    def encoding(self, codebooks: int | None = None) -> Coding:
        self.checked_count(codebooks)
        empty = self.latent_proj.weight.new_zeros(1, self.latent, 0)
        return Flowing(self._frames, self.hop, empty)

    def decoding(self) -> Coding:
        empty = self.latent_proj.weight.new_zeros(1, self.channels, 0)
        return Flowing(self._sound, 1, empty)

    def _frames(self, x: Tensor, flow: Flow) -> Tensor:
        known, part = flow if self.in_parts else None, self.encoder
        x = part.encoder_transformer(part.encoder_seanet(x, known), known)
        frames: Tensor = part.downsample(x, known)
        return frames

    def _sound(self, frames: Tensor, flow: Flow) -> Tensor:
        known, part = flow if self.in_parts else None, self.decoder
        x = self.latent_proj(self.checked_codes(frames).to(self.dtype))
        x = part.decoder_transformer(part.upsample(x, known), known)
        sound: Tensor = part.decoder_seanet(x, known)
        return sound
