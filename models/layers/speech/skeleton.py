"""The skeleton of Whisper: two convolutions before an encoder, and a decoder of text.

The decoder reads the encoder's states as a memory: keys and values of each layer, computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from rushlight.core import nn, ops
from rushlight.core.backends import linear_mode
from rushlight.core.basis.dtype import DType, as_dtype, float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.seq2seq.cross import Turn
from rushlight.models.layers.seq2seq.lengths import begin_decoding
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext
from rushlight.models.layers.speech.samples import stored_settings
from rushlight.models.layers.speech.state import SpeechState
from rushlight.models.layers.speech.tokens import SpeechTokens, stored_tokens
from rushlight.models.model import Model
from rushlight.models.small_files import find_tokenizer

TABLE = "model.decoder.embed_tokens"


def speech_spec(c: Any) -> Seq2SeqSpec:
    """The description of a WhisperConfig's parts."""

    def stack(which: str) -> StackSpec:
        heads, layers, inner = (
            getattr(c, f"{which}_{key}") for key in ("attention_heads", "layers", "ffn_dim")
        )
        if heads < 1 or c.d_model % heads:
            raise FormatError(
                f"config.json: d_model {c.d_model} is not a multiple of {which}_attention_heads "
                f"{heads}"
            )
        attention = AttentionSpec(
            heads,
            heads,
            c.d_model // heads,
            True,
            True,
            key_bias=False,
            names=AttentionNames(out="out_proj"),
        )
        mlp = MLPSpec(
            inner, c.activation_function, False, True, names=MLPNames(up="fc1", down="fc2")
        )
        names = StackNames(f"model.{which}", TABLE, norm="layer_norm")
        return StackSpec(layers, attention, mlp, names)

    return Seq2SeqSpec(
        c.vocab_size,
        c.d_model,
        c.max_target_positions,
        stack("encoder"),
        stack("decoder"),
        NormSpec("layer", 1e-5),
        "before",
    )


class SpeechModel(Model):
    """Audio to text: Whisper (Radford et al., 2022). Sums are float32, whatever weights are."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Seq2SeqSpec) -> None:
        self.config, self.spec = config, spec
        self.vocab_size, self.context_length = spec.vocab, spec.context
        self.mels, self.frames = config.num_mel_bins, config.max_source_positions
        width = spec.width
        put(self, "model.encoder.conv1", nn.Conv1d(self.mels, width, 3, padding=1))
        put(self, "model.encoder.conv2", nn.Conv1d(width, width, 3, stride=2, padding=1))
        put(self, TABLE, nn.Embedding(spec.vocab, width))
        for stack_spec, rows in ((spec.encoder, self.frames), (spec.decoder, spec.context)):
            base = stack_spec.names.base
            put(self, f"{base}.embed_positions", nn.Embedding(rows, width))
            layers = [Layer(spec, stack_spec, i) for i in range(stack_spec.layers)]
            put(self, f"{base}.layers", nn.ModuleList(layers))
            put(self, f"{base}.layer_norm", make_norm(width, spec.norm))
        self.duplicates = {"proj_out.weight": f"{TABLE}.weight"}
        self.tokens = SpeechTokens({}, spec.vocab)

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own."""
        self.proj_out = nn.Linear(self.spec.width, self.spec.vocab, bias=False)
        self.spec, self.duplicates = replace(self.spec, tied=False), {}
        return {name: name}

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Check the features; read the tokenizer, and what generation_config.json says."""
        stored_settings(files, "WhisperFeatureExtractor", feature_size=self.mels)
        self.tokenizer = find_tokenizer(files)
        stack = self.spec.decoder
        self.tokens = stored_tokens(
            files, self.tokenizer, self.vocab_size, stack.layers, stack.attention.heads
        )

    @property
    def followed(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.tasks.registry import find

        names = find("automatic-speech-recognition").names
        return names if self.tokens.multilingual else names - {"language", "task"}

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options of the task automatic-speech-recognition."""
        from rushlight.models.speech.transcribe import Transcriber

        return Transcriber(self, options)

    def forward(
        self, features: Tensor, decoder_ids: Tensor, decoder_attention_mask: Tensor | None = None
    ) -> Tensor:
        """Logits (batch, length, vocab) of features (batch, mels, frames) and ids (batch, length).

        decoder_attention_mask (batch, length): false or zero for padding. Raises ValueError for
        features or ids past the context.

        `decoder_ids` are the ids.
        """
        memory = self.remember(self.encode(features))
        return self.decode(decoder_ids, memory, mask=decoder_attention_mask)

    def encode(self, features: Tensor) -> Tensor:
        """The encoder's states (batch, frames / 2, width) of features (batch, mels, frames).

        Fewer frames than the context's are taken as they are; Whisper was trained on 30 s.
        Raises ValueError for features of another shape, or of more frames.
        """
        shape, most = features.shape, 2 * self.frames
        if len(shape) != 3 or shape[1] != self.mels or not 0 < shape[2] <= most:
            raise ValueError(
                f"{self.config.model_type}: features are {shape}; they must be (batch, "
                f"{self.mels}, up to {most})"
            )
        if not features.dtype.is_floating_point:
            raise TypeError(f"encode: features are {features.dtype.name}; they must be float32")
        x = features.to(float32)
        for name in ("conv1", "conv2"):
            x = ops.gelu(self.get_submodule(f"model.encoder.{name}")(x))
        x = x.transpose(1, 2)  # (batch, width, frames / 2) -> (batch, frames / 2, width)
        positions: Any = self.get_submodule("model.encoder.embed_positions")
        x = x + positions.weight[: x.shape[1]].to(float32)
        return self._run(self.spec.encoder, x, StackContext({}))

    def remember(
        self, states: Tensor, dtype: DType | str = "float32", mask: Tensor | None = None
    ) -> Memory:
        """What the decoder reads of the encoder's states: each layer's keys and values, and a mask.

        mask: (batch, 1, 1, frames), false for padding.

        `states` are what `encode` gave; `dtype` is that of keys and values. Raises TypeError for a
        dtype that is not known.
        """
        pairs = [layer.encoder_attn.memory(states) for layer in self._layers(self.spec.decoder)]
        layers = tuple((k.to(dtype).contiguous(), v.to(dtype).contiguous()) for k, v in pairs)
        return Memory(layers, mask)

    def decode(
        self,
        ids: Tensor,
        memory: Memory,
        cache: Cache | None = None,
        *,
        mask: Tensor | None = None,
        logits_to_keep: int = 0,
        watched: Mapping[int, Sequence[int]] | None = None,
        seen: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of decoder ids (batch, length).

        The batch may be a multiple of the memory's: rows that follow each other read the same
        audio. cache: holds the earlier tokens, and these are added. mask (batch, length), without a
        cache: false or zero for padding. logits_to_keep: only those of that many last tokens.
        watched: the heads of each layer whose weights of the memory are noted in `seen`.

        Raises ValueError past the context.
        """
        options, offset = begin_decoding(self, ids, cache, mask)
        positions = ops.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        if isinstance(offset, Tensor):
            positions = positions + offset.unsqueeze(1)
        x, turn = self._placed(self.get_submodule(TABLE)(ids).to(float32), positions)
        notes = {} if seen is None else seen
        context = StackContext(options, cache, memory, watched or {}, notes, turn)
        x = self._run(self.spec.decoder, x, context)
        if cache is not None:
            cache.advance(ids.shape[1])
        return self._logits(x[:, -logits_to_keep:] if logits_to_keep else x)

    def _placed(self, x: Tensor, at: Tensor) -> tuple[Tensor, Turn]:
        """Embedded tokens (batch, length, width) with the positions `at`, and rotary angles."""
        return x + self.get_submodule("model.decoder.embed_positions")(at).to(float32), None

    def _logits(self, x: Tensor) -> Tensor:
        return ops.linear(x, self._table) if self.spec.tied else self.proj_out(x)

    def start(self, states: Tensor, **options: Any) -> SpeechState:
        """A decoding state for the encoder's states (batch, frames, width).

        options: copies, rows of each audio (1); cache_type and memory_type, the dtypes of the
        cached keys and values of tokens and of the audio ("float32", or "float16"); linear, see
        `SpeechState`; reuse, a state that is no longer needed: if its sizes and types are the same
        it is filled and returned, with its captured steps.
        """
        reuse = options.pop("reuse", None)
        if isinstance(reuse, SpeechState) and reuse.fits(states, **options):
            reuse.restart(states)
            return reuse
        dtype = options.pop("memory_type", "float32")
        with no_grad(), linear_mode(options.get("linear", "fast")):
            memory = self.remember(states, dtype)
        return SpeechState(self, memory, **options)

    def step(self, state: SpeechState, ids: Any) -> Tensor:
        """Logits (rows, n, vocab) float32 after further ids (rows, n), by captured steps.

        The next step may overwrite them: read them, or clone them.
        """
        return state.step(ids)

    def cross_attention(
        self, states: Tensor, ids: Tensor, heads: Sequence[Sequence[int]] | None = None
    ) -> Tensor:
        """Weights (batch, heads, length, frames) that decoder heads give to the encoder's states.

        ids: (batch, length), all tokens from the first on. heads: pairs of a layer and a head;
        default: the checkpoint's `alignment_heads`. Raises ValueError for heads that there are not.
        """
        chosen = [tuple(pair) for pair in (self.tokens.alignment_heads if heads is None else heads)]
        decoder = self.spec.decoder
        watched: dict[int, list[int]] = {}
        for layer, head in chosen:
            if not (0 <= layer < decoder.layers and 0 <= head < decoder.attention.heads):
                raise ValueError(
                    f"cross_attention: head {head} of layer {layer} does not exist; there are "
                    f"{decoder.layers} layers of {decoder.attention.heads} heads"
                )
            if head not in watched.setdefault(layer, []):
                watched[layer].append(head)
        if not chosen:
            raise ValueError("cross_attention: no heads are given; name one at least")
        seen: dict[int, Tensor] = {}
        self.decode(ids, self.remember(states), logits_to_keep=1, watched=watched, seen=seen)
        parts = [seen[layer][:, watched[layer].index(head)] for layer, head in chosen]
        return stack(parts, 1)

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer of the decoder."""
        a = self.spec.decoder.attention
        return (KeysAndValues(a.heads, a.head_dim),) * self.spec.decoder.layers

    def new_cache(self, batch: int = 1, dtype: DType | str = "float32") -> Cache:
        """An empty cache for `batch` rows, with keys and values of a dtype: see `Cache`."""
        return Cache(
            self.cache_specs(), batch, limit=self.context_length, device=self.device, dtype=dtype
        )

    def quantize_(
        self,
        dtype: DType | str,
        filter: Any = None,
        importance: Mapping[str, Any] | None = None,
    ) -> Self:
        """As `Module.quantize_`; without a filter the tokens' embedding, which is the head, too.

        A step reads more bytes of it than of all layers of the small models.

        `dtype`, `filter`, `importance` and what it raises are as there.
        """
        super().quantize_(dtype, filter, importance)
        rows = self.spec.width % as_dtype(dtype).block == 0
        if filter is None and rows and self._table.dtype.kind == "f":
            super().quantize_(dtype, lambda path, _: path == TABLE)
        return self

    @property
    def _table(self) -> Tensor:
        embedding: Any = self.get_submodule(TABLE)
        return embedding.weight  # type: ignore[no-any-return]

    def _layers(self, stack: StackSpec) -> Any:
        return self.get_submodule(f"{stack.names.base}.layers")

    def _run(self, stack: StackSpec, x: Tensor, context: StackContext) -> Tensor:
        for layer in self._layers(stack):
            x = layer(x, context, None)
        out: Tensor = self.get_submodule(f"{stack.names.base}.{stack.names.norm}")(x)
        return out
