"""The network of Canary and Cohere's transcriber: fast conformers, and a decoder of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.seq2seq.cross import Turn
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer
from rushlight.models.layers.speech.conformer import distance_angles
from rushlight.models.layers.speech.parakeet import HOP, ParakeetLayer, Subsampling, mel_features
from rushlight.models.layers.speech.samples import stored_settings
from rushlight.models.layers.speech.skeleton import TABLE, SpeechModel
from rushlight.models.layers.speech.tokens import SpeechTokens
from rushlight.models.small_files import find_tokenizer, small_json


def decoder_spec(d: Any, tied: bool) -> Seq2SeqSpec:
    """The description of the decoder, of its keys; FormatError for groups of heads."""
    heads = d.num_attention_heads
    if heads < 1 or d.num_key_value_heads not in (heads, None):
        raise FormatError(
            f"config.json: num_key_value_heads {d.num_key_value_heads} is not num_attention_heads "
            f"{heads}, which the model needs"
        )
    choose("hidden_act", d.hidden_act, tuple(ACTIVATIONS))
    head = d.head_dim or d.hidden_size // heads
    decoder = StackSpec(
        d.num_hidden_layers,
        AttentionSpec(heads, heads, head, d.attention_bias, d.attention_bias),
        MLPSpec(
            d.intermediate_size, d.hidden_act, False, True,
            names=MLPNames(up="mlp.fc1", down="mlp.fc2"),
        ),
        StackNames(
            "model.decoder", TABLE, attention_norm="input_layernorm", norm="norm",
            cross_norm="post_attention_layernorm", mlp_norm="final_layernorm",
        ),
    )  # fmt: skip
    # The encoder's layers are not of this skeleton.
    return Seq2SeqSpec(
        d.vocab_size, d.hidden_size, d.max_position_embeddings, decoder, decoder,
        NormSpec("layer", 1e-5), "before", tied=tied,
    )  # fmt: skip


def paired_waves(count: int, width: int) -> npt.NDArray[np.float32]:
    """NeMo's positions (count, width): sines, then cosines, divided by the root of the width."""
    rates = 10000.0 ** (-2.0 * np.arange(width // 2) / width)
    angles = np.arange(count)[:, None] * rates.astype(np.float32)
    both = np.concatenate([np.sin(angles), np.cos(angles)], 1)
    return np.asarray(both / np.sqrt(width), np.float32)


class CanaryModel(SpeechModel):
    """Mel features to text: Canary (Puvvada et al., 2024).

    prompt: the texts of the tokens that a transcript begins with, with places for the language
    spoken and that written. learned: positions of tokens are a table of the checkpoint's, and the
    encoder's states go through a product.
    """

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, encoder: Any, decoder: Any, prompt: tuple[str, ...], learned: bool
    ) -> None:
        """config, encoder, decoder: the keys of the model and of its parts."""
        self.config, self.encoding, self.prompt, self.learned = config, encoder, prompt, learned
        self.spec = spec = decoder_spec(decoder, config.tie_word_embeddings)
        self.vocab_size, self.context_length = spec.vocab, spec.context
        self.features, width = encoder.num_mel_bins, spec.width
        put(self, "model.encoder.subsampling", Subsampling(encoder))
        conformers = [ParakeetLayer(encoder) for _ in range(encoder.num_hidden_layers)]
        put(self, "model.encoder.layers", nn.ModuleList(conformers))
        self.scaled = encoder.hidden_size**0.5 if encoder.scale_input else 1.0
        put(self, TABLE, nn.Embedding(spec.vocab, width))
        put(self, "model.decoder.embedding_layernorm", nn.LayerNorm(width))
        if learned:
            put(self, "model.decoder.pos_emb", nn.Embedding(spec.context, width))
            put(self, "model.decoder.proj", nn.Linear(encoder.hidden_size, width))
        elif encoder.hidden_size != width or width % 2:
            raise FormatError(
                f"config.json: hidden_size of the encoder {encoder.hidden_size} and of the decoder "
                f"{width} must be equal and even"
            )
        layers = [Layer(spec, spec.decoder, i) for i in range(spec.decoder.layers)]
        put(self, "model.decoder.layers", nn.ModuleList(layers))
        put(self, "model.decoder.norm", make_norm(width, spec.norm))
        if spec.tied:
            self.duplicates = {"proj_out.weight": f"{TABLE}.weight"}
            put(self, "proj_out", nn.Module())
            head: Any = self.get_submodule("proj_out")
            head.bias = parameter(spec.vocab)
        else:
            self.proj_out = nn.Linear(width, spec.vocab)
        self.tokens = SpeechTokens({}, spec.vocab)
        self.ends: tuple[int, ...] = (3,)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Check the features' settings; read the tokenizer and the last tokens."""
        kind = "CohereAsrFeatureExtractor" if self.learned else "ParakeetFeatureExtractor"
        stored_settings(files, kind, feature_size=self.features)
        self.tokenizer = find_tokenizer(files)
        stored = small_json(files, "config.json") | small_json(files, "generation_config.json")
        ends = stored.get("eos_token_id", 3)
        ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
        if not all(type(i) is int and 0 <= i < self.vocab_size for i in ends):
            raise FormatError(
                f"eos_token_id is {brief(ends)}; it must be one of {self.vocab_size} tokens"
            )
        self.ends = tuple(ends)

    @property
    def followed(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.speech.greedy import PromptedTranscriber

        return frozenset(PromptedTranscriber.taken)

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options of the task automatic-speech-recognition."""
        from rushlight.models.speech.greedy import PromptedTranscriber

        return PromptedTranscriber(self, options)

    def prompt_ids(self, language: str = "en", written: str = "en") -> list[int]:
        """The tokens that a transcript begins with.

        language: what is spoken; written: what is to be written, another one for a translation.
        ValueError for a language that the vocabulary has no token for, and without a tokenizer.
        """
        if self.tokenizer is None:
            raise ValueError(f"{self.config.model_type}: the checkpoint has no tokenizer")
        ids = []
        for text in self.prompt:
            name = text.format(language=language, written=written)
            token = self.tokenizer.token_to_id(name)
            if token is None:
                raise ValueError(
                    f"{self.config.model_type}: the vocabulary has no token {name!r}; give a "
                    "language that the checkpoint knows"
                )
            ids.append(token)
        return ids

    def ready(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The features (1, frames, mels) of one recording's samples (n,)."""
        enough = np.zeros(max(0, 2 * HOP - len(samples)), np.float32)
        return mel_features(np.concatenate([samples, enough]), self.features)[None]

    def forward(
        self,
        features: Tensor,
        decoder_ids: Tensor,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of features (batch, frames, mels) and ids.

        `decoder_ids` (batch, length); decoder_attention_mask is alike, false or zero for padding.
        Raises ValueError for features of another shape, and past the context.
        """
        memory = self.remember(self.encode(features))
        return self.decode(decoder_ids, memory, mask=decoder_attention_mask)

    def encode(self, features: Tensor) -> Tensor:
        """The encoder's states (batch, fewer frames, width) of features (batch, frames, mels).

        Raises ValueError for features of another shape, TypeError for whole numbers.
        """
        name, wanted = self.config.model_type, self.features
        if features.ndim != 3 or features.shape[2] != wanted or not features.shape[1]:
            raise ValueError(
                f"{name}: features are {features.shape}; they must be (batch, frames, {wanted})"
            )
        if not features.dtype.is_floating_point:
            raise TypeError(f"{name}: features are {features.dtype.name}; they must be float32")
        base: Any = self.get_submodule("model.encoder")
        x: Tensor = base.subsampling(features.to(float32), None) * self.scaled
        angles = tensor(distance_angles(x.shape[1], x.shape[2]), device=x.device)
        for layer in base.layers:
            x = layer(x, None, angles)
        return x

    def remember(
        self, states: Tensor, dtype: DType | str = "float32", mask: Tensor | None = None
    ) -> Memory:
        """What the decoder reads of the encoder's states; see `SpeechModel`.

        `states`, `dtype` and `mask` are as there, and what it raises.
        """
        x = self.get_submodule("model.decoder.proj")(states) if self.learned else states
        return super().remember(x, dtype, mask)

    def _placed(self, x: Tensor, at: Tensor) -> tuple[Tensor, Turn]:
        if self.learned:
            rows = self.get_submodule("model.decoder.pos_emb")(at).to(float32)
        else:
            waves = paired_waves(self.context_length, self.spec.width)
            rows = tensor(waves, device=x.device)[at]
        out: Tensor = self.get_submodule("model.decoder.embedding_layernorm")(x + rows)
        return out, None

    def _logits(self, x: Tensor) -> Tensor:
        head: Any = self.get_submodule("proj_out")
        return ops.linear(x, self._table, head.bias) if self.spec.tied else head(x)
