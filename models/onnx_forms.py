"""What of a model goes into an ONNX file: its inputs, outputs and free sizes, as others name them.

The names are those of Hugging Face's optimum and of transformers.js: input_ids, attention_mask,
pixel_values; for a decoder position_ids, and past_key_values.N.key and .value (batch, heads, past
tokens, features), with present.N.key and .value among the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core import ops
from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.cache_spec import KeysAndValues
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.decoder import Decoder
from rushlight.models.layers.encoder import Encoder
from rushlight.models.layers.heads import HeadedEncoder
from rushlight.models.layers.seq2seq.pair import DecoderPair
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.two_models import TwoModels
from rushlight.models.layers.speech.parakeet import TransducerModel
from rushlight.models.layers.speech.skeleton import SpeechModel
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.vision.clip import ClipModel
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.model import Model
from rushlight.models.sentence import SentenceEncoder

PAST = "-with-past"
_TEXT = {0: "batch_size", 1: "sequence_length"}


@dataclass(frozen=True)
class OnnxForm:
    """A function of named tensors, an example of them, and which sizes are free."""

    fn: Callable[..., Any]
    example: Mapping[str, Tensor]
    free: Mapping[str, Mapping[int, str]]
    metadata: Mapping[str, str] = field(default_factory=dict)


def form_of(model: Model, task: str | None = None) -> OnnxForm:
    """The form of a model for a task; None: its first one, a decoder's with past.

    ValueError for a task that the model does not serve, or that has no form.
    """
    named = None if task is None else task.removesuffix(PAST)
    known = {*model.tasks, "feature-extraction"}
    if named is not None and named not in known:
        raise ValueError(f"onnx.export: task {task!r}; the model serves {', '.join(sorted(known))}")
    served = task or (model.tasks[0] if model.tasks else "feature-extraction")
    metadata = {"task": served, "model_type": str(getattr(model.config, "model_type", ""))}
    for kind, make in _FORMS:
        if isinstance(model, kind):
            form: OnnxForm = make(model, served if task is None else task, task is None)
            return OnnxForm(form.fn, form.example, form.free, metadata)
    raise ValueError(
        f"onnx.export: {type(model).__name__} has no form with names of its own; pass the "
        "arguments of its forward"
    )


class _Bound(Module):
    """A function of a model, which keeps the names of the model's parameters."""

    model: Model
    fn: Callable[..., Any]

    def __init__(self, model: Model, fn: Callable[..., Any]) -> None:
        super().__init__()
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "fn", fn)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """Those of the model."""
        return self.model.named_parameters(*args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Any:
        """Those of the model."""
        return self.model.named_buffers(*args, **kwargs)

    def forward(self, **inputs: Tensor) -> Any:
        """What the function gives."""
        return self.fn(self.model, **inputs)


def _ids(model: Any, count: int = 6, batch: int = 2) -> Tensor:
    vocab = int(getattr(model, "vocab_size", 0) or getattr(model.config, "vocab_size", 0) or 32)
    most = max(1, min(vocab, 1000) - 2)
    ids = (np.arange(batch * count, dtype=np.int64) * 37 % most + 1).reshape(batch, count)
    return from_numpy(ids).to(model.device)


def _waves_of(model: Any, *shape: int) -> Tensor:
    """Numbers between -1 and 1, of no pattern that a layer could have."""
    count = int(np.prod(shape))
    numbers = np.sin(np.arange(count) ** 1.5 % 6.283).astype(np.float32)
    return from_numpy(numbers.reshape(shape)).to(model.device)


def _mask(ids: Tensor, more: int = 0) -> Tensor:
    mask = np.ones((ids.shape[0], ids.shape[1] + more), np.int64)
    mask[-1, 0] = 0  # one row has padding on the left
    return from_numpy(mask).to(ids.device)


# Decoders.


class _GrowingCache:
    """The cache of one call: keys and values of earlier tokens, and after them the new ones."""

    longest = farthest = 0

    def __init__(self, past: Mapping[int, tuple[Tensor, Tensor]]) -> None:
        self.rows: dict[int, tuple[Tensor, ...]] = dict(past)

    def write(self, layer: int, offset: Tensor, *new: Tensor) -> tuple[Tensor, ...]:
        """The earlier rows and the new ones."""
        del offset
        joined = tuple(ops.cat((a, b), 2) for a, b in zip(self.rows[layer], new, strict=True))
        self.rows[layer] = joined
        return joined


def _kept(model: Decoder) -> dict[int, KeysAndValues]:
    """The layers that keep keys and values. ValueError for another kind of state."""
    kept = {}
    for layer, spec in enumerate(model.cache_specs()):
        if not isinstance(spec, KeysAndValues):
            raise ValueError(
                f"onnx.export: layer {layer} of {model.config.model_type} keeps a "
                f"{type(spec).__name__}, which has no input of a file; export the task "
                '"text-generation", without past'
            )
        if spec.heads and len(spec.rows) != 2:
            raise ValueError(
                f"onnx.export: layer {layer} of {model.config.model_type} keeps {len(spec.rows)} "
                'rows of each token, not a key and a value; export the task "text-generation", '
                "without past"
            )
        if spec.heads:
            kept[layer] = spec
    if model.rotary.by_length:
        raise ValueError(
            f"onnx.export: the angles of {model.config.model_type} depend on the length of a "
            'text; export the task "text-generation", without past'
        )
    return kept


def logits_with_past(model: Decoder, **inputs: Tensor) -> dict[str, Any]:
    """Logits and the keys and values of all tokens, of new tokens and those of earlier ones.

    input_ids and position_ids (batch, length); attention_mask (batch, earlier + length): zero for
    padding; past_key_values.N.key and .value for each layer N that keeps any.
    """
    ids, positions = inputs["input_ids"], inputs["position_ids"]
    kept = _kept(model)
    past = {
        layer: (inputs[f"past_key_values.{n}.key"], inputs[f"past_key_values.{n}.value"])
        for n, layer in enumerate(kept)
    }
    cache: Any = _GrowingCache(past)
    before = next(iter(past.values()))[0].shape[2]
    offset = ops.arange(before, before + 1, device=ids.device).expand(ids.shape[0])
    mask = (inputs["attention_mask"] != 0)[:, None, None, :]
    angles = model.rotary.angles(positions)
    offsets = [offset] * len(model.cache_specs())
    context = AttentionContext(angles, mask, None, cache, offsets, positions)
    logits = model.logits(model.through(ids, positions, context))
    result: dict[str, Any] = {"logits": logits}
    for n, layer in enumerate(kept):
        result[f"present.{n}.key"], result[f"present.{n}.value"] = cache.rows[layer]
    return result


def _decoder(model: Decoder, task: str, free: bool) -> OnnxForm:
    if task == "feature-extraction":
        return _encoder_like(model, lambda m, **i: {"last_hidden_state": m.states(
            i["input_ids"], i["attention_mask"])})  # fmt: skip
    ids = _ids(model)
    try:
        kept = _kept(model) if task.endswith(PAST) or free else None
    except ValueError:
        if not free:
            raise
        kept = None
    if kept is None:
        return _encoder_like(model, lambda m, **i: {"logits": m(**_renamed(i))})
    inputs = {"input_ids": ids, "attention_mask": _mask(ids, 3)}
    places = np.tile(np.arange(3, 3 + ids.shape[1], dtype=np.int64), (ids.shape[0], 1))
    places[-1] -= 1
    inputs["position_ids"] = from_numpy(places).to(ids.device)
    shapes: dict[str, Mapping[int, str]] = {
        "input_ids": _TEXT,
        "attention_mask": {0: "batch_size", 1: "past_sequence_length + sequence_length"},
        "position_ids": _TEXT,
    }
    for n, spec in enumerate(kept.values()):
        for kind, (heads, width) in zip(("key", "value"), spec.rows, strict=True):
            name = f"past_key_values.{n}.{kind}"
            inputs[name] = _waves_of(model, ids.shape[0], heads, 3, width)
            shapes[name] = {0: "batch_size", 2: "past_sequence_length"}
    return OnnxForm(_Bound(model, logits_with_past), inputs, shapes)


def _renamed(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"ids" if k == "input_ids" else k: v for k, v in inputs.items()}


def _encoder_like(model: Any, fn: Callable[..., Any], types: bool = False) -> OnnxForm:
    ids = _ids(model)
    inputs = {"input_ids": ids, "attention_mask": _mask(ids)}
    spec = getattr(model, "spec", None)
    if types:
        columns = getattr(spec, "type_columns", 0)
        zeros = ids * 0
        inputs[_TYPES] = ops.cat([zeros.unsqueeze(2)] * columns, 2) if columns else zeros
    free = {0: _TEXT[0]} if getattr(spec, "by_length", False) else _TEXT
    return OnnxForm(_Bound(model, fn), inputs, dict.fromkeys(inputs, free))


def _encoder(model: Encoder, task: str, free: bool) -> OnnxForm:
    def hidden(m: Any, **i: Tensor) -> dict[str, Tensor]:
        return {"last_hidden_state": m(i["input_ids"], i["attention_mask"], i.get(_TYPES))}

    def logits(m: Any, **i: Tensor) -> dict[str, Tensor]:
        out = m.logits(i["input_ids"], i["attention_mask"], i.get(_TYPES))
        if task != "question-answering":
            return {"logits": out}
        return {"start_logits": out[..., 0], "end_logits": out[..., 1]}

    headed = isinstance(model, HeadedEncoder) and task in KINDS.values()
    return _encoder_like(model, logits if headed else hidden, bool(model.spec.types))


_TYPES = "token_type_ids"
KINDS = {
    "masks": "fill-mask",
    "texts": "text-classification",
    "tokens": "token-classification",
    "ends": "question-answering",
}


def _pixels(model: Any, batch: int = 2) -> Tensor:
    height, width = getattr(model, "image_size", None) or (224, 224)
    spec = getattr(model, "image", None)
    channels: Any = getattr(spec, "channels", None) or getattr(model.config, "num_channels", 3)
    return _waves_of(model, batch, int(channels), height, width)


def _image(model: ImageModel, task: str, free: bool) -> OnnxForm:
    def run(m: Any, **i: Tensor) -> Any:
        out = m(i["pixel_values"])
        if not isinstance(out, Tensor):
            return out
        return {"logits" if m.labels else "last_hidden_state": out}

    return OnnxForm(
        _Bound(model, run), {"pixel_values": _pixels(model)}, {"pixel_values": {0: "batch_size"}}
    )


def _two_towers(model: ClipModel, task: str, free: bool) -> OnnxForm:
    if model.text is None or model.image is None:
        return _image(model, task, free)
    ids = _ids(model, _text_length(model), batch=3)

    def run(m: Any, **i: Tensor) -> dict[str, Tensor]:
        out = m(i["input_ids"], i["pixel_values"])
        return {"logits_per_image": out, "logits_per_text": out.t()}

    inputs = {"input_ids": ids, "pixel_values": _pixels(model)}
    shapes = {"input_ids": {0: "text_batch_size"}, "pixel_values": {0: "image_batch_size"}}
    return OnnxForm(_Bound(model, run), inputs, shapes)


def _text_length(model: Any) -> int:
    return int(getattr(model.text, "context", 0) or getattr(model, "context_length", 0) or 6)


def _text_to_text(model: Seq2Seq | TwoModels | DecoderPair, task: str, free: bool) -> OnnxForm:
    def run(m: Any, **i: Tensor) -> dict[str, Tensor]:
        return {"logits": m(i["input_ids"], i["decoder_input_ids"], i["attention_mask"])}

    ids = _ids(model)
    inputs = {"input_ids": ids, "attention_mask": _mask(ids), "decoder_input_ids": _ids(model, 4)}
    after = {0: "batch_size", 1: "decoder_sequence_length"}
    return OnnxForm(
        _Bound(model, run),
        inputs,
        {"input_ids": _TEXT, "attention_mask": _TEXT, "decoder_input_ids": after},
    )


def _two_models(model: TwoModels, task: str, free: bool) -> OnnxForm:
    if not hasattr(model, "source_vocab_size"):
        raise ValueError(
            f"onnx.export: {model.config.model_type} writes texts of pictures, which has no form "
            "with names of its own; pass the arguments of its forward"
        )
    return _text_to_text(model, task, free)


def _states(model: SentenceEncoder, task: str, free: bool) -> OnnxForm:
    return _encoder_like(
        model, lambda m, **i: {"last_hidden_state": m(i["input_ids"], i["attention_mask"])}
    )


def _speech(model: SpeechModel, task: str, free: bool) -> OnnxForm:
    bins = getattr(model, "features", 0)  # Speech2Text's, frame by frame
    waves = not hasattr(model, "mels") and not bins  # Moonshine reads samples
    name = "input_values" if waves else "input_features"

    def run(m: Any, **i: Tensor) -> dict[str, Tensor]:
        return {"logits": m(i[name], i["decoder_input_ids"])}

    samples = min(16000, 160 * model.spec.context) if waves else 0
    shape: tuple[int, ...] = (2, samples) if waves else (2, 64, bins)
    shape = shape if waves or bins else (2, int(model.mels), 2 * int(model.frames))
    inputs = {name: _waves_of(model, *shape), "decoder_input_ids": _ids(model, 4)}
    shapes = {
        name: {0: "batch_size"},
        "decoder_input_ids": {0: "batch_size", 1: "decoder_sequence_length"},
    }
    return OnnxForm(_Bound(model, run), inputs, shapes)


def _waves(model: WaveModel, task: str, free: bool) -> OnnxForm:
    bins = getattr(model, "features", 0)  # of a frame, where a model does not read samples
    name = "input_features" if bins else "input_values"
    if isinstance(model, TransducerModel):
        raise ValueError(
            f"export: {model.config.model_type} writes token by token, which a file cannot say; "
            "supported: models with a CTC head"
        )

    def run(m: Any, **i: Tensor) -> dict[str, Tensor]:
        return {"logits": m(i[name])}

    inputs = {name: _waves_of(model, *((2, 64, bins) if bins else (2, 16000)))}
    return OnnxForm(_Bound(model, run), inputs, {name: {0: "batch_size"}})


_FORMS: Sequence[tuple[Any, Callable[..., OnnxForm]]] = (
    (Decoder, _decoder),
    (Encoder, _encoder),
    (ClipModel, _two_towers),
    (ImageModel, _image),
    (Seq2Seq, _text_to_text),
    (TwoModels, _two_models),
    (DecoderPair, _text_to_text),
    (SpeechModel, _speech),
    (WaveModel, _waves),
    (SentenceEncoder, _states),
)
