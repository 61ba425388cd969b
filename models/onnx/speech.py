"""Speech by graphs: Whisper and Moonshine, which write text, and networks over samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.joining import stack
from rushlight.core.onnx import OnnxModule
from rushlight.core.ops.join import cat
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.speech.letters import Letters, stored_letters
from rushlight.models.layers.speech.samples import (
    check_samples,
    normalized,
    samples_of_a_frame,
    stored_normalization,
    stored_settings,
)
from rushlight.models.layers.speech.tokens import SpeechTokens, stored_tokens
from rushlight.models.onnx.graph import (
    GraphConfig,
    GraphModel,
    Graphs,
    ask,
    context_of,
    names_in,
    names_out,
    refuse_outputs,
    sizes,
    whole,
)
from rushlight.models.onnx.text_to_text import DecoderState, Stepper
from rushlight.models.small_files import find_tokenizer, small_json

_CROSS = "cross_attentions."


def speech_graph(config: GraphConfig, graphs: Graphs) -> SpeechGraph:
    """Whisper where the encoder takes features, Moonshine where it takes samples."""
    features = "input_features" in names_in(graphs["encoder_model"])
    return (WhisperGraph if features else MoonshineGraph)(config, graphs)


def _filled(samples: npt.NDArray[np.float32], least: int) -> npt.NDArray[np.float32]:
    """Samples (n,) as (1, n), with zeros after them up to `least`."""
    return np.concatenate([samples, np.zeros(max(0, least - len(samples)), np.float32)])[None]


class SpokenState(DecoderState):
    """The rows that a decoder goes on with, of one window of sound each."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.states.shape[0]

    def step(self, ids: Any) -> Tensor:
        """Logits (rows, n, vocab) after further ids (rows, n), a tensor or lists."""
        made = ids if isinstance(ids, Tensor) else tensor(np.asarray(ids, np.int64))
        with autograd.no_grad():
            return super().step(made.to(self.states.device)).float()


class SpeechGraph(GraphModel):
    """Sound to text by the graphs of an encoder and a decoder."""

    tasks = ("automatic-speech-recognition",)

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.stepper = Stepper(self, graphs)
        self.vocab_size = self.stepper.vocabulary(config)
        self.context_length = whole(config, "max_target_positions", default=context_of(config))

    def start(self, states: Tensor, **options: Any) -> SpokenState:
        """A decoding state for the encoder's states (batch, frames, width).

        options: what other models take, without effect here.
        """
        return SpokenState(self.stepper, states)

    def step(self, state: SpokenState, ids: Any) -> Tensor:
        """Logits (rows, n, vocab) float32 after further ids (rows, n)."""
        return state.step(ids)

    def encode(self, features: Tensor) -> Tensor:
        """The encoder's states (batch, frames, width); classes define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define encode")

    def forward(self, features: Tensor, decoder_ids: Tensor) -> Tensor:
        """Logits (batch, length, vocab) of what `encode` takes and ids (batch, length)."""
        return DecoderState(self.stepper, self.encode(features)).step(decoder_ids)


class WhisperGraph(SpeechGraph):
    """Whisper as graphs."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.mels = whole(config, "num_mel_bins", default=80)
        self.frames = whole(config, "max_source_positions", default=1500)
        self.tokens = SpeechTokens({}, self.vocab_size)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Check the features; read the tokenizer, and what generation_config.json says."""
        stored_settings(files, "WhisperFeatureExtractor", feature_size=self.mels)
        self.tokenizer = find_tokenizer(files)
        layers, heads = (
            whole(self.config, key, default=1)
            for key in ("decoder_layers", "decoder_attention_heads")
        )
        self.tokens = stored_tokens(files, self.tokenizer, self.vocab_size, layers, heads)

    @property
    def watches(self) -> bool:
        """Whether the decoder gives the weights of the sound, which words' times come from."""
        return any(name.startswith(_CROSS) for name in names_out(self.stepper.first))

    @property
    def followed(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.tasks.registry import find

        names = find("automatic-speech-recognition").names
        names = names if self.watches else names - {"words"}
        return names if self.tokens.multilingual else names - {"language", "task"}

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options. ValueError for words where they have no times."""
        from rushlight.models.speech.transcribe import Transcriber

        if options["words"] and not self.watches:
            refuse_outputs(
                self.stepper.first,
                "words have no times without cross_attentions; leave words off, or use a folder "
                'whose name ends in "_timestamped"',
            )
        return Transcriber(self, options)

    def encode(self, features: Tensor) -> Tensor:
        """The encoder's states (batch, frames / 2, width) of features (batch, mels, frames).

        Fewer frames than the context's are filled up with the least value of each. Raises
        ValueError for features of another shape, or of more frames.
        """
        shape, most = features.shape, 2 * self.frames
        if len(shape) != 3 or shape[1] != self.mels or not 0 < shape[2] <= most:
            raise ValueError(
                f"{self.config.model_type}: features are {shape}; they must be (batch, "
                f"{self.mels}, up to {most})"
            )
        if shape[2] < most:
            least = features.amin((1, 2), keepdim=True)
            features = cat([features, least.expand(shape[0], shape[1], most - shape[2])], 2)
        results = ask(self.graph("encoder_model"), {"input_features": features})
        states: Tensor = next(iter(results.values()))
        return states

    def cross_attention(
        self, states: Tensor, ids: Tensor, heads: Sequence[Sequence[int]] | None = None
    ) -> Tensor:
        """Weights (batch, heads, length, frames) that decoder heads give to the encoder's states.

        ids: (batch, length), all tokens from the first on. heads: pairs of a layer and a head;
        default: the checkpoint's `alignment_heads`. Raises ValueError where the graph gives none.
        """
        if not self.watches:
            refuse_outputs(self.stepper.first, "no cross_attentions")
        results = self.stepper.begin(ids, states, None)
        pairs = self.tokens.alignment_heads if heads is None else heads
        return stack([results[f"{_CROSS}{layer}"][:, head] for layer, head in pairs], 1)


class MoonshineGraph(SpeechGraph):
    """Moonshine as graphs: samples to text. first: the token that a text begins with."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.normalized, self.first, self.ends = False, 1, (2,)
        self.least = 895  # samples of a frame

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, whether samples are normalized, and the first and last tokens."""
        self.tokenizer = find_tokenizer(files)
        self.normalized = stored_normalization(files, False)
        stored = small_json(files, "config.json") | small_json(files, "generation_config.json")
        first, ends = stored.get("decoder_start_token_id", 1), stored.get("eos_token_id", 2)
        ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
        for ids in ([first], ends):
            if not all(type(i) is int and 0 <= i < self.vocab_size for i in ids):
                raise FormatError(f"{brief(ids)} must be one of {self.vocab_size} tokens")
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

    def prepared(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Samples (n,) as the checkpoint wants them: as they are, or of mean 0 and variance 1."""
        return normalized(samples) if self.normalized else samples

    def ready(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What `forward` takes, of one recording's samples (n,): (1, n or more)."""
        return _filled(self.prepared(samples), self.least)

    def encode(self, features: Tensor) -> Tensor:
        """The encoder's states (batch, frames, width) of samples (batch, n), 16000 a second."""
        check_samples(self.config.model_type, features, None, self.least)
        given = {"input_values": features}
        if "attention_mask" in names_in(self.graph("encoder_model")):
            given["attention_mask"] = (features == features).to(int64)
        states: Tensor = next(iter(ask(self.graph("encoder_model"), given).values()))
        return states


class SoundGraph(GraphModel):
    """A network over samples: letters by a CTC head, classes of a recording, or its states."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.sound_name = next(iter(graphs))
        graph, named = self.sound, str((config.get("architectures") or [""])[0])
        self.output = names_out(graph)[0]
        info = graph.outputs[0]
        self.vocab_size = whole(config, "vocab_size", default=1)
        self.head = named.endswith("ForCTC") or (not named and len(sizes(info)) == 3)
        self.tasks = ("automatic-speech-recognition",) if self.head else ()
        classes = named.endswith("ForSequenceClassification")
        self.labels = labels_of(vars(config)) if classes else ()
        self.normalized = True
        self.letters: Letters | None = None
        kernels, strides = config.get("conv_kernel"), config.get("conv_stride")
        fits = isinstance(kernels, list) and isinstance(strides, list)
        both = zip(kernels or (), strides or (), strict=False) if fits else ()
        self.convs = [(1, kernel, stride) for kernel, stride in both]
        if not all(type(n) is int and 0 < n < 1 << 16 for row in self.convs for n in row):
            raise FormatError(f"config.json: conv_kernel {brief(kernels)}, {brief(strides)}")

    @property
    def sound(self) -> OnnxModule:
        """The graph of samples."""
        return self.graph(self.sound_name)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read whether samples are normalized, and the letters."""
        if "input_values" not in names_in(self.sound):
            return
        self.normalized = stored_normalization(files, True)
        if self.head:
            self.letters = stored_letters(files, self.vocab_size, self.config.get("pad_token_id"))
        if self.letters is not None and "vocab.json" in files:
            self.files = {"vocab.json": files["vocab.json"]}

    @property
    def followed(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.speech.ctc import CTCTranscriber

        words = self.letters is not None and self.letters.words
        return frozenset(CTCTranscriber.taken) - (set() if words else {"words"})

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options. ValueError for a graph that takes features."""
        from rushlight.models.speech.ctc import CTCTranscriber

        if "input_values" not in names_in(self.sound):
            raise ValueError(
                f"{self.config.model_type}: {self.sound.name} takes "
                f"{', '.join(names_in(self.sound))}; transcription needs input_values"
            )
        return CTCTranscriber(self, options)

    @property
    def step(self) -> int:
        """The number of samples from one frame to the next."""
        return int(np.prod([stride for *_, stride in self.convs]))

    @property
    def least(self) -> int:
        """The number of samples that make one frame."""
        return samples_of_a_frame(self.convs)

    def prepared(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Samples (n,) as the checkpoint wants them: of mean 0 and variance 1, or as they are."""
        return normalized(samples) if self.normalized else samples

    def ready(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What `forward` takes, of one recording's samples (n,): (1, n or more)."""
        return _filled(self.prepared(samples), self.least)

    def forward(self, samples: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (batch, frames, vocab) of a CTC head or (batch, classes), or the last states.

        samples: (batch, n) floating, 16000 a second, see `prepared`; or what else the graph takes
        first. attention_mask (batch, n): false or zero for padding.
        """
        first = self.sound.inputs[0].name
        given: dict[str, Any] = {first: samples, "attention_mask": attention_mask}
        if "attention_mask" in names_in(self.sound) and attention_mask is None:
            given["attention_mask"] = (samples == samples).to(int64)
        out: Tensor = ask(self.sound, given)[self.output]
        return out
