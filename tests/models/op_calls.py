"""The ops that a model calls, and what the op tests lack of them; found on the meta device."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.core.tensor.op import Op
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.generate import CausalLM
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.layers.speech.moonshine import MoonshineModel
from rushlight.models.layers.speech.skeleton import SpeechModel
from rushlight.models.layers.speech.wav2vec2 import WaveModel


def calls(m: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Op, tuple[Any, ...], Any]]:
    """The ops of a prompt, of a token and of a padded batch, on the meta device."""
    found: list[tuple[Op, tuple[Any, ...], Any]] = []
    for name in ("__call__", "inplace"):
        usual = getattr(Op, name)

        def noted(op: Op, *inputs: Any, _usual: Any = usual, **attrs: Any) -> Any:
            found.append((op, inputs, attrs))
            return _usual(op, *inputs, **attrs)

        monkeypatch.setattr(Op, name, noted)
    with monkeypatch.context(), rl.no_grad():
        ids = rl.zeros(2, 5, dtype=rl.int64, device="meta")
        if isinstance(m, SpeechModel):
            moonshine = isinstance(m, MoonshineModel)
            shape = (2, 4 * m.least) if moonshine else (2, 37, getattr(m, "features", 0))
            shape = shape if shape[-1] else (2, m.mels, 2 * m.frames)
            heard = rl.zeros(*shape, device="meta")
            states = m.encode(heard)
            if moonshine:
                m(heard, ids, attention_mask=heard == 0)
            memory, cache = m.remember(states), m.new_cache(4)
            m.decode(rl.zeros(4, 5, dtype=rl.int64, device="meta"), memory, cache)
            m.decode(ids, memory, mask=ids == 0)
            m.cross_attention(states, ids, [(0, 1)])
            monkeypatch.undo()
            return found
        if isinstance(m, WaveModel):
            features = getattr(m, "features", 0)
            samples = rl.zeros(2, *((29, features) if features else (16 * m.least,)), device="meta")
            m(samples)
            m(samples, attention_mask=(samples[..., 0] if features else samples) == 0)
            monkeypatch.undo()
            return found
        rest = (ids,) if isinstance(m, Seq2SeqLM) else ()
        m(ids, *rest)
        m(ids, *rest, attention_mask=rl.zeros(2, 5, dtype=rl.bool, device="meta"))
        if isinstance(m, CausalLM):
            cache = m.new_cache(2)
            m(ids, cache, logits_to_keep=1, lengths=rl.zeros(2, dtype=rl.int64, device="meta"))
            m(ids[:, :1], cache, logits_to_keep=1)
        if isinstance(m, Seq2SeqLM):
            memory, cache = m.remember(m.encode(ids)), m.new_cache(2)
            m.decode(ids, memory, cache)
            m.decode(ids[:, :1], memory, cache, logits_to_keep=1)
    monkeypatch.undo()
    return found


def kind_of(x: Any) -> str:
    """What the samples tell apart of an input: a floating dtype takes every one of them."""
    if x is None:
        return "none"
    name = x.dtype.name
    return "float" if name.startswith(("float", "bfloat")) else str(name)


def lacking(op: Op, inputs: tuple[Any, ...], attrs: Any, samples: Any) -> list[str]:
    """What no sample of the op's tests has of a call."""
    if op.view or op.name in ("transfer", "copy", "cast"):
        return []
    if samples is None:
        return ["no samples"]
    given = [kind_of(x) for x in inputs if x is None or isinstance(x, Tensor)]
    sampled = [[kind_of(x) for x in s.inputs] for s in samples.samples]
    several = op.name == "cat"
    wrong = []
    if not any(set(given) <= set(s) if several else given == s[: len(given)] for s in sampled):
        wrong.append(f"no sample with inputs {given}")
    for x in inputs:
        floating = isinstance(x, Tensor) and x.dtype.is_floating_point
        if floating and x.dtype.name not in samples.floats:
            wrong.append(f"no sample in {x.dtype.name}")
    for name, value in attrs.items():
        if name == "device":
            continue
        same = [s.attrs.get(name) for s in samples.samples]
        if isinstance(value, bool) and value and True not in same:
            wrong.append(f"no sample with {name}")
        if value is not None and not isinstance(value, bool) and all(v is None for v in same):
            wrong.append(f"no sample with {name}, here {value!r}")
    return wrong
