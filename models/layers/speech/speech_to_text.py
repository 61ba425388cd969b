"""The network of Speech2Text: gated convolutions over filter banks, an encoder, a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.fbank import HOP, WINDOW, fbank
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.seq2seq.cross import Turn
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext
from rushlight.models.layers.speech.samples import stored_settings
from rushlight.models.layers.speech.skeleton import TABLE, SpeechModel, speech_spec
from rushlight.models.layers.speech.tokens import SpeechTokens
from rushlight.models.layers.speech.wave_heads import MOST_TAPS
from rushlight.models.small_files import find_tokenizer, small_json


def speech_to_text_spec(c: Any) -> Seq2SeqSpec:
    """The description of a Speech2TextConfig's parts: Whisper's, with biases of keys."""

    def biased(stack: StackSpec) -> StackSpec:
        return replace(stack, attention=replace(stack.attention, key_bias=True))

    spec = speech_spec(c)
    return replace(spec, encoder=biased(spec.encoder), decoder=biased(spec.decoder))


class Speech2TextModel(SpeechModel):
    """Filter banks to text: fairseq S2T (Wang et al., 2020).

    first: the token that a text begins with; ends: those that end it.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Seq2SeqSpec) -> None:
        c, width = config, spec.width
        self.config, self.spec = config, spec
        self.vocab_size, self.context_length = spec.vocab, spec.context
        self.features = c.input_feat_per_channel * c.input_channels
        sizes = numbers_of("conv_kernel_sizes", c.conv_kernel_sizes, c.num_conv_layers)
        if not sizes or not all(n % 2 and 0 < n <= MOST_TAPS for n in sizes) or width < 4:
            raise FormatError(
                f"config.json: conv_kernel_sizes {sizes} must be odd, up to {MOST_TAPS}, and "
                f"d_model {width} 4 or more"
            )
        inside, self.convs = self.features, len(sizes)
        for i, taps in enumerate(sizes):
            outside = 2 * width if i == len(sizes) - 1 else c.conv_channels
            conv = nn.Conv1d(inside, outside, taps, stride=2, padding=taps // 2)
            put(self, f"model.encoder.conv.conv_layers.{i}", conv)
            inside = outside // 2
        put(self, TABLE, nn.Embedding(spec.vocab, width))
        for stack in (spec.encoder, spec.decoder):
            base = stack.names.base
            layers = [Layer(spec, stack, i) for i in range(stack.layers)]
            put(self, f"{base}.layers", nn.ModuleList(layers))
            put(self, f"{base}.layer_norm", make_norm(width, spec.norm))
        self.scaled = width**0.5 if c.scale_embedding else 1.0
        if spec.tied:
            self.duplicates = {"lm_head.weight": f"{TABLE}.weight"}
        else:
            self.lm_head = nn.Linear(width, spec.vocab, bias=False)
        self.tokens = SpeechTokens({}, spec.vocab)
        self.first, self.ends = c.decoder_start_token_id, (2,)
        self.means, self.spreads = True, True

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own."""
        self.lm_head = nn.Linear(self.spec.width, self.spec.vocab, bias=False)
        self.spec, self.duplicates = replace(self.spec, tied=False), {}
        return {name: name}

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, how features are scaled, and the first and last tokens."""
        self.tokenizer = find_tokenizer(files)
        told = stored_settings(files, "Speech2TextFeatureExtractor", num_mel_bins=self.features)
        scaled = told.get("do_ceptral_normalize", True)
        self.means = bool(scaled and told.get("normalize_means", True))
        self.spreads = bool(scaled and told.get("normalize_vars", True))
        stored = small_json(files, "config.json") | small_json(files, "generation_config.json")
        first, ends = stored.get("decoder_start_token_id", 2), stored.get("eos_token_id", 2)
        ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
        for name, ids in (("decoder_start_token_id", [first]), ("eos_token_id", ends)):
            if not all(type(i) is int and 0 <= i < self.vocab_size for i in ids):
                raise FormatError(
                    f"{name} is {brief(ids)}; it must be one of {self.vocab_size} tokens"
                )
        self.first, self.ends = first, tuple(ends)

    @property
    def followed(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.speech.greedy import GreedyTranscriber

        return frozenset(GreedyTranscriber.taken)

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options of the task automatic-speech-recognition."""
        from rushlight.models.speech.greedy import GreedyTranscriber

        return GreedyTranscriber(self, options)

    def ready(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The features (1, frames, bins) of one recording's samples (n,)."""
        enough = np.zeros(max(0, WINDOW + HOP - len(samples)), np.float32)
        x = fbank(np.concatenate([samples, enough]), self.features).astype(np.float64)
        x = x - x.mean(0) if self.means else x
        spread = x.std(0)
        x = x / np.where(spread > 0, spread, 1) if self.spreads else x
        return x.astype(np.float32)[None]

    def forward(
        self,
        features: Tensor,
        decoder_ids: Tensor,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of features (batch, frames, bins) and ids.

        `decoder_ids` (batch, length); decoder_attention_mask is alike, false or zero for padding.
        Raises ValueError for features of another shape, and past the context.
        """
        memory = self.remember(self.encode(features))
        return self.decode(decoder_ids, memory, mask=decoder_attention_mask)

    def encode(self, features: Tensor) -> Tensor:
        """The encoder's states (batch, fewer frames, width) of features (batch, frames, bins).

        Raises ValueError for features of another shape or too many, TypeError for whole numbers.
        """
        most = self.config.max_source_positions * 2**self.convs
        if (
            features.ndim != 3
            or features.shape[2] != self.features
            or not (0 < features.shape[1] <= most)
        ):
            raise ValueError(
                f"{self.config.model_type}: features are {features.shape}; they must be (batch, up "
                f"to {most}, {self.features})"
            )
        if not features.dtype.is_floating_point:
            raise TypeError(f"encode: features are {features.dtype.name}; they must be float32")
        x = features.to(float32).transpose(1, 2)
        for i in range(self.convs):
            a, b = self.get_submodule(f"model.encoder.conv.conv_layers.{i}")(x).chunk(2, 1)
            x = a * b.sigmoid()
        x = x.transpose(1, 2) * self.scaled
        rows = tensor(self._angles(x.shape[1]), device=x.device)
        return self._run(self.spec.encoder, x + rows, StackContext({}))

    def _angles(self, count: int) -> npt.NDArray[np.float32]:
        """Sines, then cosines, of the first places, which begin after the padding's."""
        half, first = self.spec.width // 2, int(self.config.pad_token_id) + 1
        rates = np.exp(np.arange(half, dtype=np.float32) * np.float32(-np.log(10000) / (half - 1)))
        angles = np.arange(first, first + count, dtype=np.float32)[:, None] * rates
        both = np.concatenate([np.sin(angles), np.cos(angles)], 1)
        return np.pad(both, ((0, 0), (0, self.spec.width - 2 * half))).astype(np.float32)

    def _placed(self, x: Tensor, at: Tensor) -> tuple[Tensor, Turn]:
        table = tensor(self._angles(self.context_length), device=x.device)
        return x * self.scaled + table[at], None

    def _logits(self, x: Tensor) -> Tensor:
        return super()._logits(x) if self.spec.tied else self.lm_head(x)
