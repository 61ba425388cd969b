"""The network of Moonshine: three convolutions over samples, an encoder, a decoder of text.

Both have rotary positions; the decoder reads the encoder's states as Whisper's does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.rotary import Rotary, RotarySpec, rotary_of
from rushlight.models.layers.seq2seq.cross import Turn
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext
from rushlight.models.layers.speech.samples import (
    check_samples,
    normalized,
    samples_of_a_frame,
    stored_normalization,
)
from rushlight.models.layers.speech.skeleton import TABLE, SpeechModel
from rushlight.models.layers.speech.tokens import SpeechTokens
from rushlight.models.small_files import find_tokenizer, small_json

# Kernel and stride of the convolutions.
_CONVS = ((127, 64), (7, 3), (3, 2))
_STEP = 64 * 3 * 2


def _rotary(c: Any, head: int) -> RotarySpec:
    parameters = {"partial_rotary_factor": c.partial_rotary_factor or 0.9}
    return moonshine_rotary(c, head, parameters | (c.rope_parameters or {}))


def moonshine_rotary(c: Any, head: int, parameters: dict[str, Any]) -> RotarySpec:
    """The positions; of an odd number of features one more is rotated, with the same angles.

    parameters: what rope_parameters of config.json are, with the share of `head` that is rotated.
    """
    parameters = dict(parameters)
    share = parameters.pop("partial_rotary_factor")
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise FormatError(f"config.json: partial_rotary_factor is {share!r}; it must be 0 to 1")
    size = int(head * share)
    odd = size % 2
    if odd:
        choose("rope_type", parameters.get("rope_type", "default"), ("default", "linear", "llama3"))
    config = vars(c) | {"rope_parameters": parameters, "partial_rotary_factor": None}
    spec = replace(rotary_of(config, size + odd), interleaved=True)
    return replace(spec, theta=spec.theta ** ((size + odd) / size)) if odd and size else spec


def moonshine_spec(c: Any) -> Seq2SeqSpec:
    """The description of a MoonshineConfig's parts."""
    heads = c.encoder_num_attention_heads
    for stack in ("encoder", "decoder"):  # transformers runs no others
        choose(f"{stack}_num_attention_heads", getattr(c, f"{stack}_num_attention_heads"), (heads,))
        choose(
            f"{stack}_num_key_value_heads",
            getattr(c, f"{stack}_num_key_value_heads"),
            (heads, None),
        )
    head = c.head_dim or c.hidden_size // max(heads, 1)
    attention = AttentionSpec(heads, heads, head, c.attention_bias, rotary=_rotary(c, head))
    encoder = StackSpec(
        c.encoder_num_hidden_layers,
        attention,
        MLPSpec(
            c.intermediate_size,
            c.encoder_hidden_act,
            False,
            True,
            names=MLPNames(up="mlp.fc1", down="mlp.fc2"),
        ),
        StackNames(
            "model.encoder",
            attention_norm="input_layernorm",
            norm="layer_norm",
            mlp_norm="post_attention_layernorm",
        ),
    )
    decoder = StackSpec(
        c.decoder_num_hidden_layers,
        attention,
        MLPSpec(
            c.intermediate_size,
            c.decoder_hidden_act,
            True,
            True,
            names=MLPNames(up_gate="mlp.fc1", down="mlp.fc2"),
        ),
        StackNames(
            "model.decoder",
            TABLE,
            attention_norm="input_layernorm",
            norm="norm",
            cross_norm="post_attention_layernorm",
            mlp_norm="final_layernorm",
        ),
    )
    return Seq2SeqSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        encoder,
        decoder,
        NormSpec("layer", 1e-5, bias=False),
        "before",
        tied=c.tie_word_embeddings,
    )


class MoonshineModel(SpeechModel):
    """Samples to text: Moonshine (Jeffries et al., 2024). Sums are float32, whatever weights are.

    first: the token that a text begins with; ends: those that end it.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Seq2SeqSpec) -> None:
        self.config, self.spec, width = config, spec, spec.width
        self.vocab_size, self.context_length = spec.vocab, spec.context
        # channels, kernel and stride
        self.convs = [(m * width, *c) for m, c in zip((1, 2, 1), _CONVS, strict=True)]
        inside = 1
        for i, (outside, kernel, stride) in enumerate(self.convs):
            conv = nn.Conv1d(inside, outside, kernel, stride=stride, bias=i > 0)
            put(self, f"model.encoder.conv{i + 1}", conv)
            inside = outside
        put(self, "model.encoder.groupnorm", nn.GroupNorm(1, width))
        put(self, TABLE, nn.Embedding(spec.vocab, width))
        for stack in (spec.encoder, spec.decoder):
            layers = [Layer(spec, stack, i) for i in range(stack.layers)]
            put(self, f"{stack.names.base}.layers", nn.ModuleList(layers))
            put(self, f"{stack.names.base}.{stack.names.norm}", make_norm(width, spec.norm))
        self.rotary = Rotary([spec.encoder.attention.rotary])
        if spec.tied:
            self.duplicates = {"proj_out.weight": f"{TABLE}.weight"}
        else:
            self.proj_out = nn.Linear(width, spec.vocab, bias=False)
        self.tokens = SpeechTokens({}, spec.vocab)
        self.normalized, self.first, self.ends = False, 1, (2,)

    @property
    def least(self) -> int:
        """The number of samples that make one frame."""
        return samples_of_a_frame(self.convs)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, whether samples are normalized, and the first and last tokens."""
        self.tokenizer = find_tokenizer(files)
        self.normalized = stored_normalization(files, False)
        stored = small_json(files, "config.json") | small_json(files, "generation_config.json")
        first, ends = stored.get("decoder_start_token_id", 1), stored.get("eos_token_id", 2)
        first = stored.get("bos_token_id", 1) if first is None else first
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
        """What `encode` takes, of one recording's samples (n,): (1, n or more)."""
        x = self.prepared(samples)
        return np.concatenate([x, np.zeros(max(0, self.least - len(x)), np.float32)])[None]

    def prepared(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Samples (n,) as the checkpoint wants them: as they are, or of mean 0 and variance 1."""
        return normalized(samples) if self.normalized else samples

    def forward(
        self,
        features: Tensor,
        decoder_ids: Tensor,
        decoder_attention_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of samples (batch, n) and ids (batch, length).

        The masks, of ids and of samples, are false or zero for padding on the right. Raises
        ValueError for fewer samples than a frame has, and for ids past the context.

        `features` are the samples, with `attention_mask`; `decoder_ids` the ids, with
        `decoder_attention_mask`.
        """
        states = self.encode(features, attention_mask)
        memory = self.remember(states, mask=self._seen(attention_mask, states.shape[1]))
        return self.decode(decoder_ids, memory, mask=decoder_attention_mask)

    def encode(self, features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's states (batch, frames, width) of samples (batch, n), 16000 a second.

        attention_mask (batch, n): false or zero for padding on the right. Raises ValueError for
        samples of another shape, or fewer than a frame has.
        """
        check_samples(self.config.model_type, features, attention_mask, self.least)
        x = ops.tanh(self._conv(1, features.to(float32).unsqueeze(1)))
        x = self.get_submodule("model.encoder.groupnorm")(x)
        x = ops.gelu(self._conv(3, ops.gelu(self._conv(2, x))))
        x = x.transpose(1, 2)  # (batch, width, frames) -> (batch, frames, width)
        positions = ops.arange(x.shape[1], device=x.device).unsqueeze(0)
        mask = self._seen(attention_mask, x.shape[1])
        return self._run(
            self.spec.encoder, x, StackContext({"mask": mask}, turn=self._turn(positions))
        )

    def _conv(self, number: int, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(f"model.encoder.conv{number}")(x)
        return out

    def _seen(self, mask: Tensor | None, frames: int) -> Tensor | None:
        """(batch, 1, 1, frames), false for frames whose first sample is padding."""
        return None if mask is None else (mask != 0)[:, None, None, ::_STEP][..., :frames]

    def _turn(self, at: Tensor) -> Turn:
        [turn] = self.rotary.angles(at).values()
        return turn

    def _placed(self, x: Tensor, at: Tensor) -> tuple[Tensor, Turn]:
        return x, self._turn(at)

    def _logits(self, x: Tensor) -> Tensor:
        return super()._logits(x) if self.spec.tied else self.proj_out(x)
