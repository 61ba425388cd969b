"""Generation: samplers against their rules, streamed text, stops, contexts, batches, the cache."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.core.jit.function import executable_memory
from rushlight.models.generation.batch import Batch
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.device_sampling import DeviceSampler
from rushlight.models.generation.session import ChatSession
from rushlight.models.generation.steps import blocking
from rushlight.models.generation.streaming import Pieces
from rushlight.models.model import runs_in_software
from rushlight.models.tasks.text_ranking import JUDGE

DATA = Path(__file__).parents[1] / "core" / "data"
TOKENIZER = (DATA / "tiny_byte_level.json").read_bytes()
TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)
VOCAB = 280
Array = npt.NDArray[Any]


def tiny(device: str = "cpu", *, stored: dict[str, Any] | None = None, **changes: Any) -> Any:
    """A random llama over a byte-level tokenizer; stored: of its generation_config.json."""
    config = {
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "eos_token_id": 277,
        **changes,
    }
    settings = {"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": "</s>"}
    rng = np.random.default_rng(4)
    shapes = {"embed_tokens": (VOCAB, 32), "norm": (32,)}
    for i in range(2):
        layer = {
            "self_attn.q_proj": (32, 32),
            "self_attn.k_proj": (16, 32),
            "self_attn.v_proj": (16, 32),
            "self_attn.o_proj": (32, 32),
            "mlp.gate_proj": (48, 32),
            "mlp.up_proj": (48, 32),
            "mlp.down_proj": (32, 48),
            "input_layernorm": (32,),
            "post_attention_layernorm": (32,),
        }
        shapes |= {f"layers.{i}.{name}": shape for name, shape in layer.items()}
    tensors = {
        f"model.{name}.weight": rl.tensor(
            (
                rng.normal(size=shape) * (0.25 if len(shape) == 2 else 0.1) + (len(shape) == 1)
            ).astype(np.float32)
        )
        for name, shape in shapes.items()
    }
    head = rng.normal(size=(VOCAB, 32)).astype(np.float32) * 0.5
    head[94:256] *= 0.3  # letters are likelier than parts of longer characters
    tensors["lm_head.weight"] = rl.tensor(head)
    files = {
        "config.json": json.dumps(config).encode(),
        "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": json.dumps(settings).encode(),
    }
    if stored is not None:
        files["generation_config.json"] = json.dumps(stored).encode()
    return rl.models.assemble(files, tensors, device=device)


class Counting:
    """Counts the tokens that a model is fed, replayed steps included."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens = 0
        for name in ("read", "step"):
            self._count(monkeypatch, name, getattr(ChatSession, name))

    def _count(self, monkeypatch: pytest.MonkeyPatch, name: str, usual: Any) -> None:
        def counted(session: ChatSession, *given: Any) -> rl.Tensor:
            before = session.cache.longest
            found: rl.Tensor = usual(session, *given)
            self.tokens += session.cache.longest - before
            return found

        monkeypatch.setattr(ChatSession, name, counted)


def ids_of(model: Any, prompt: Any, **options: Any) -> list[int]:
    return [t.id for t in model.tokens(prompt, **options)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens is 0; it must be at least 1"),
        ({"max_new_tokens": 1.5}, TypeError, "max_new_tokens is 1.5; it must be a whole number"),
        ({"temperature": -0.1}, ValueError, "temperature is -0.1; it must be from 0"),
        ({"temperature": float("nan")}, ValueError, "temperature is nan"),
        ({"temperature": "hot"}, TypeError, "temperature is 'hot'; it must be a number"),
        ({"top_k": -1}, ValueError, "top_k is -1"),
        ({"top_p": 0}, ValueError, "top_p is 0; it must be from 0 to 1"),
        ({"top_p": 1.1}, ValueError, "top_p is 1.1"),
        ({"min_p": 2}, ValueError, "min_p is 2"),
        ({"repetition_penalty": 0}, ValueError, "repetition_penalty is 0"),
        ({"frequency_penalty": float("inf")}, ValueError, "frequency_penalty is inf"),
        ({"presence_penalty": "a"}, TypeError, "presence_penalty is 'a'"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"stop": ""}, ValueError, "stop is ''"),
        ({"stop": ["a", 3]}, ValueError, "stop is"),
        ({"overflow": "wrap"}, ValueError, "overflow is 'wrap'"),
        (
            {"logit_bias": {VOCAB: 1.0}},
            ValueError,
            "logit_bias names token 280; the vocabulary has 280",
        ),
        ({"tempreature": 1}, TypeError, "tempreature"),
    ],
)
def test_options_out_of_range_are_named(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tiny().generate([1, 2], **options)  # before the first piece is asked for


def test_prompts_out_of_range_are_named() -> None:
    m = tiny(max_position_embeddings=16)
    for prompt, message in (
        ([], "the prompt is empty"),
        ([1, 280], "token 280 is not one of the 280"),
        ([-1], "token -1 is not one"),
        ([1] * 16, "the prompt has 16 tokens, the context holds 16"),
    ):
        with pytest.raises(ValueError, match=message):
            m.generate(prompt)


def test_seeds(device: str) -> None:
    m = tiny(device)
    options: dict[str, Any] = {"temperature": 1.5, "max_new_tokens": 12}
    one = ids_of(m, [1, 2, 3], seed=7, **options)
    assert ids_of(m, [1, 2, 3], seed=7, **options) == one
    others = [ids_of(m, [1, 2, 3], seed=s, **options) for s in (8, 9)]
    assert one not in others and others[0] != others[1]
    assert one == ids_of(tiny(), [1, 2, 3], seed=7, **options)  # on every device


RULES: list[dict[str, Any]] = [
    {"temperature": 0.9, "top_k": 20, "repetition_penalty": 1.3},
    {"frequency_penalty": 0.7, "presence_penalty": 0.4, "logit_bias": {100: 3.0}},
    {"temperature": 1.2, "top_p": 0.9, "min_p": 0.01, "token_mask": np.arange(VOCAB) % 3 > 0},
    {"token_mask": [i < 94 for i in range(VOCAB)]},
]


def test_rules_hold_on_every_device(device: str) -> None:
    """One model for all: what was captured for an answer serves, or does not, the next."""
    here, there = tiny(), tiny(device)
    for options in [*RULES, {}, *RULES[::-1]]:
        given = {"max_new_tokens": 8, "seed": 4, **options}
        found = list(there.tokens("a candle", **given))
        assert [t.id for t in found] == ids_of(here, "a candle", **given)
        allowed = given.get("token_mask", [True] * VOCAB)
        assert all(allowed[t.id] for t in found)


def test_a_mask_that_changes_with_each_token(device: str) -> None:
    """No step begins before the caller has had its say."""
    m, order = tiny(device), [65, 101, 9, 65, 200]
    m.eos_ids = frozenset()
    mask = rl.arange(VOCAB, device=device) == order[0]
    found = []
    for token in m.tokens([1, 2], max_new_tokens=5, token_mask=mask):
        found.append(token.id)
        mask.copy_(rl.arange(VOCAB, device=device) == (order[len(found) :] or [0])[0])
    assert found == order
    with pytest.raises(ValueError, match=r"token_mask is \(3,\); it must be \(280,\)"):
        m.tokens([1, 2], token_mask=[True] * 3)


# --- text ----------------------------------------------------------------------------------------

TEXTS = [
    "plain words",
    "na\u00efve caf\u00e9",
    "\u4f60\u597d\uff0c\u4e16\u754c",
    "\U0001f56f\ufe0f\U0001f468\u200d\U0001f469 x",
    "  spaces  and\n\nlines\t",
    "\u0928\u092e\u0938\u094d\u0924\u0947",
]


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_are_whole_characters(text: str) -> None:
    tokenizer = load_tokenizer(TOKENIZER)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    pieces = Pieces(tokenizer, ())
    found = [pieces.add(i)[0] for i in ids]
    assert "\ufffd" not in "".join(found)
    assert "".join(found) + pieces.finish() == tokenizer.decode(ids) == text
    assert len(ids) > len([f for f in found if f]) or text.isascii()


def test_an_unfinished_character_comes_at_the_end() -> None:
    tokenizer = load_tokenizer(TOKENIZER)
    ids = tokenizer.encode("ab\U0001f56f", add_special_tokens=False).ids[:-1]
    pieces = Pieces(tokenizer, ())
    assert "".join(pieces.add(i)[0] for i in ids) == "ab"
    assert set(pieces.finish()) == {"\ufffd"}
    for token in ids[2:3] * 9:  # and what cannot become one any more comes earlier
        text, _ = pieces.add(token)
    assert text == "\ufffd"


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (("lo w",), "hel"),  # over several tokens
        (("w", "lo"), "hel"),
        (("xyz",), "hello worlds"),
        (("world!", "worlds?"), "hello worlds"),  # begun, and never ended
        (("hello",), ""),
        (("s",), "hello world"),
    ],
)
def test_stop_texts(stops: tuple[str, ...], expected: str) -> None:
    tokenizer = load_tokenizer(TOKENIZER)
    pieces, found = Pieces(tokenizer, stops), ""
    for token in (tokenizer.encode(c, add_special_tokens=False).ids[0] for c in "hello worlds"):
        text, hit = pieces.add(token)
        found += text
        assert not any(s in found for s in stops)
        if hit:
            break
    else:
        found += pieces.finish()
    assert found == expected


def test_generate_stops_as_told(device: str) -> None:
    m = tiny(device)
    m.eos_ids = frozenset()
    options: dict[str, Any] = {"max_new_tokens": 20, "temperature": 1.0, "seed": 5}
    tokens = list(m.tokens("a candle", **options))
    whole = "".join(t.text for t in tokens)
    assert len({t.id for t in tokens}) > 10 and len(whole) > 10
    assert [t.stopped for t in tokens] == [""] * 19 + ["length"]
    assert all(t.logprob <= 0 for t in tokens)
    assert whole == "".join(m.generate("a candle", **options))
    stop = next(whole[i : i + 3] for i in range(3, 17) if "\ufffd" not in whole[i : i + 3])
    cut = list(m.tokens("a candle", stop=["never met", stop], **options))
    assert cut[-1].stopped == "stop" and len(cut) < 20
    assert "".join(t.text for t in cut) == whole[: whole.index(stop)]
    m.eos_ids = frozenset({tokens[4].id})
    ended = list(m.tokens("a candle", **options))
    first = next(i for i, t in enumerate(tokens) if t.id == tokens[4].id)
    assert ended[-1].stopped == "eos" and len(ended) == first + 1


@pytest.mark.native  # the tab has a running loop already
def test_generate_async_lets_others_run() -> None:
    m, ran = tiny(), 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    async def main() -> str:
        task = asyncio.create_task(other())
        pieces = [piece async for piece in m.generate_async("a", max_new_tokens=6)]
        task.cancel()
        assert ran >= len(pieces)
        return "".join(pieces)

    assert asyncio.run(main()) == "".join(m.generate("a", max_new_tokens=6))


def test_a_language_model_ranks_by_yes_and_no(monkeypatch: pytest.MonkeyPatch) -> None:
    m, words = tiny(max_position_embeddings=1024), {"yes": 65, "no": 70}
    rank = rl.pipeline("text-ranking", m)
    with pytest.raises(ValueError, match="'yes' is 3 tokens of this model, not one"):
        rank(["a"], query="b")
    monkeypatch.setattr("rushlight.models.tasks.text_ranking._word", lambda m, word: words[word])
    texts = ["a wick", "a tax form that is long", "wax"]
    found = {}
    for i, text in enumerate(texts):
        body = f"<Instruct>: Judge it\n<Query>: light\n<Document>: {text}"
        told = [{"role": "system", "content": JUDGE}, {"role": "user", "content": body}]
        logits = m(rl.tensor([m.chat_ids(told)]))[0, -1]
        found[i] = float(logits[65] - logits[70])
    options: Any = {"query": "light", "instruction": "Judge it", "batch_size": 2}
    given = rank(texts, **options, function_to_apply="none", return_documents=True)
    assert [row["corpus_id"] for row in given] == sorted(found, key=lambda i: -found[i])
    assert [row["text"] for row in given] == [texts[row["corpus_id"]] for row in given]
    for row in given:
        assert row["score"] == pytest.approx(found[row["corpus_id"]], abs=1e-4)
    (first,) = rank(texts, **options, top_k=1)
    assert first["score"] == pytest.approx(1 / (1 + np.exp(-given[0]["score"])), abs=1e-5)


def test_chat_uses_the_template() -> None:
    m = tiny()
    messages = [{"role": "user", "content": "hi"}]
    text = "<s>user: hi</s><s>assistant:"
    assert m.tokenizer.decode(m.chat_ids(messages), skip_special_tokens=False) == text
    answer = "".join(m.chat(messages, max_new_tokens=5))
    ids = m.tokenizer.encode(text, add_special_tokens=False).ids
    assert answer == "".join(m.generate(ids, max_new_tokens=5))
    m.template = None
    with pytest.raises(ValueError, match="this llama checkpoint has no chat template"):
        m.chat(messages)
    m.tokenizer = None
    with pytest.raises(ValueError, match="has no tokenizer; give token ids"):
        m.generate("a")
    assert len(ids_of(m, [1, 2], max_new_tokens=2)) == 2


# --- the cache between turns, long prompts and batches -------------------------------------------


def test_the_beginning_of_the_last_turn_is_read_once(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = tiny(device)
    m.eos_ids = frozenset()
    prompt = list(range(5, 45))
    fed = Counting(monkeypatch)
    made = ids_of(m, prompt, max_new_tokens=4)
    assert fed.tokens == 40 + 3  # the last token made is not fed
    fresh = tiny()
    fresh.eos_ids = frozenset()
    for more, count in (
        ([*prompt, *made, 9, 9], 1 + 2),  # goes on: the last token made, and the new ones
        (prompt, 1),  # the same again: its last token, for the logits
        ([*prompt[:10], 200, 201], 2),  # parts ways
        ([3, 4], 2),  # another one
    ):
        fed.tokens = 0
        found = ids_of(m, more, max_new_tokens=1)
        assert fed.tokens == count
        fresh._session = None
        assert found == ids_of(fresh, more, max_new_tokens=1)


def test_captured_steps_give_what_the_whole_prompt_gives(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy over 300 tokens: the cache grows once, and each of its shapes is captured once."""
    m = tiny(device)
    m.eos_ids = frozenset()
    forward, runs = type(m).forward, [0]

    def counted(*args: Any, **options: Any) -> rl.Tensor:
        runs[0] += 1
        found: rl.Tensor = forward(*args, **options)
        return found

    monkeypatch.setattr(type(m), "forward", counted)
    ids = [7, 8, 9]
    made = ids_of(m, ids, max_new_tokens=300)
    assert runs[0] == 1 + 2  # the prompt, and one token at each of two capacities
    with rl.no_grad():
        logits = forward(m, rl.tensor([ids + made[:-1]], device=device)).cpu().numpy()[0, 2:]
    best = np.sort(logits, 1)
    for i, token in enumerate(made):
        # Where two are as good as equal, either is.
        assert logits[i].argmax() == token or best[i, -1] - logits[i, token] < 1e-4


def test_a_turn_that_was_broken_off_goes_on(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m = tiny(device)
    m.eos_ids = frozenset()
    expected = ids_of(m, [1, 2, 3, 4], max_new_tokens=6)
    m._session = None
    fed = Counting(monkeypatch)
    steps = m.tokens([1, 2, 3, 4], max_new_tokens=6)
    begun = [next(steps).id, next(steps).id]
    steps.close()
    # Stopped at once; a device that computes by itself was one step ahead.
    assert fed.tokens == (5 if device == "cpu" else 6)
    assert begun + ids_of(m, [1, 2, 3, 4, *begun], max_new_tokens=4) == expected
    # Two at the same time do not share a cache.
    one, two = m.tokens([1, 2, 3, 4], max_new_tokens=6), m.tokens([1, 2, 9], max_new_tokens=6)
    found = [(next(one).id, next(two).id) for _ in range(6)]
    assert [a for a, _ in found] == expected
    m._session = None
    assert [b for _, b in found] == ids_of(m, [1, 2, 9], max_new_tokens=6)


@pytest.mark.parametrize(
    "how", ["written to", "loaded", "other memory", "another device", "a layer", "a bias"]
)
def test_nothing_is_kept_of_other_weights(
    device: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a turn or a batch has read by the weights before is not gone on from."""
    m, fresh = tiny(device), tiny(device)
    m.eos_ids = fresh.eos_ids = frozenset()
    prompt, prompts = list(range(1, 30)), [[5, 6, 7], list(range(20))]
    for _ in range(2):
        before = ids_of(m, prompt, max_new_tokens=6), batch_ids(m, prompts, max_new_tokens=6)
    changed = {k: v.detach() * -0.7 for k, v in fresh.state_dict().items()}
    fresh.load_state_dict(changed)
    with rl.no_grad():
        if how == "written to":
            for p in m.parameters():
                p.mul_(-0.7)
        elif how == "loaded":
            m.load_state_dict(changed)
        elif how == "other memory":
            for name, p in m.named_parameters():
                p.set_(changed[name].clone())
        elif how == "another device":
            m.load_state_dict(changed)
            m.to("cpu")
        elif how == "a layer":
            m.model.layers[0] = fresh.model.layers[0]
            m.load_state_dict(changed)
        else:
            m.load_state_dict(changed)
            for model in (m, fresh):
                bias = nn.Parameter(rl.ones(32, device=device))
                model.model.layers[0].self_attn.q_proj.bias = bias
    assert ids_of(m, prompt, max_new_tokens=6) == ids_of(fresh, prompt, max_new_tokens=6)
    after = batch_ids(m, prompts, max_new_tokens=6)
    assert after == batch_ids(fresh, prompts, max_new_tokens=6) != before[1]
    # As long as nothing changes, it is gone on from.
    fed = Counting(monkeypatch)
    ids_of(m, prompt, max_new_tokens=1)
    assert fed.tokens == 1


def test_going_on_walks_no_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    m = tiny()
    ids_of(m, [1, 2, 3], max_new_tokens=2)
    session = m._session
    monkeypatch.setattr(nn.Module, "named_modules", None)
    assert session.can_resume(m, session.activation_precision)


def test_a_prompt_is_computed_again_in_another_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where weights are quantized, and it makes a difference."""

    def found(model: Any, linear: str) -> list[float]:
        tokens = model.tokens(list(range(1, 20)), max_new_tokens=4, linear=linear)
        return [t.logprob for t in tokens]

    models = [tiny(), tiny(), tiny()]
    for m in models:
        m.eos_ids = frozenset()
    fed = Counting(monkeypatch)
    for linear in ("fast", "exact"):
        found(models[0], linear)
    assert fed.tokens == 22 + 4
    blocks = np.random.default_rng(1).integers(-9, 9, (16, 34), np.int8)
    blocks[:, :2] = np.full((16, 1), 0.5, np.float16).view(np.int8)
    for m in models:
        for layer in m.model.layers:
            layer.self_attn.v_proj.weight.set_(rl.Tensor.from_buffer(blocks, "q8_0", (16, 32)))
    fast, exact = found(models[1], "fast"), found(models[2], "exact")
    again = [found(models[0], mode) for mode in ("fast", "exact", "fast")]
    if models[0].linear_in_use("fast") == "fast":
        assert again == [fast, exact, fast]
        assert fast != exact
    else:  # the second and the third went on, and read the last token by itself
        assert fast == exact
        np.testing.assert_allclose(again, [fast, exact, fast], atol=1e-5, rtol=0)


def test_long_prompts_are_read_in_chunks(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = np.random.default_rng(2).integers(0, 276, 300).tolist()
    m = tiny(device)
    m.eos_ids = frozenset()
    found = ids_of(m, prompt, max_new_tokens=5)
    assert found == ids_of(tiny(), prompt, max_new_tokens=5)
    for chunk in (1000, 7):
        monkeypatch.setattr("rushlight.models.generation.session.CHUNK", chunk)
        monkeypatch.setattr(
            "rushlight.models.generation.session.WIDTHS", (chunk, 5) if chunk == 7 else (64,)
        )
        m._session = None
        assert ids_of(m, prompt, max_new_tokens=5) == found


def test_a_discrete_gpu_reads_long_prompts_in_wide_parts(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = np.random.default_rng(4).integers(0, 276, 700).tolist()
    expected = ids_of(tiny(max_position_embeddings=1024), prompt, max_new_tokens=3)
    if device != "cpu":
        info = rl.device(device).backend.port.info  # type: ignore[attr-defined]
        monkeypatch.setitem(info, "type", "DiscreteGPU")
    m = tiny(device, max_position_embeddings=1024)
    m.eos_ids = frozenset()
    assert ids_of(m, prompt, max_new_tokens=3) == expected
    session = ChatSession(m)
    session.resume(m, prompt)
    session.read(m, prompt)
    assert len(session.ids) == (128 if device == "cpu" else 512)


@pytest.mark.parametrize("software", [True, False])
def test_prompts_of_every_length(
    device: str, software: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few widths serve them all; up to the end of the context, where no padding fits."""
    prompt = np.random.default_rng(3).integers(0, 276, 60).tolist()
    m = tiny(device, max_position_embeddings=60)
    m.eos_ids = frozenset()
    with rl.no_grad():
        ids = rl.tensor([prompt], device=device)
        best = m(ids).cpu().numpy()[0].argmax(-1)
    session = ChatSession(m)
    session.software = software
    for length in [*range(1, 12), 31, 32, 33, 40, 47, 52, 53, 55, 58, 59]:
        session.restart()  # its captures stay
        m._session = session
        assert ids_of(m, prompt[:length], max_new_tokens=1) == [best[length - 1]]
        assert session.ids == prompt[:length] and session.cache.longest == length
        assert session.cache.lengths.tolist() == [length]


def test_a_full_context_raises_or_shifts(device: str) -> None:
    m = tiny(device, max_position_embeddings=24)
    m.eos_ids = frozenset()
    prompt = list(range(10, 30))
    # The last token may come out of a full context; it is not fed.
    assert len(ids_of(m, prompt, max_new_tokens=5)) == 5
    with pytest.raises(ValueError, match="the context of 24 tokens is full"):
        ids_of(m, prompt, max_new_tokens=6)
    assert len(ids_of(m, prompt, max_new_tokens=60, overflow="shift")) == 60
    shifted = ids_of(m, list(range(60)), max_new_tokens=1, overflow="shift")
    assert shifted == ids_of(m, [*range(4), *range(48, 60)], max_new_tokens=1)


def test_cached_tokens_are_not_computed_again(device: str) -> None:
    """Wherever an answer ends, also one step ahead of it: the next turn reads what is new."""
    m = tiny(device)
    m.eos_ids = frozenset()
    prompt = [1, 2, 3, 4]
    made = ids_of(m, prompt, max_new_tokens=12, temperature=1.0, seed=3)
    for options, count in (
        ({"max_new_tokens": 5}, 5),
        ({"max_new_tokens": 12}, 12),
        ({"max_new_tokens": 1}, 1),
    ):
        m._session = None
        assert ids_of(m, prompt, temperature=1.0, seed=3, **options) == made[:count]
        assert m._session.ids == (prompt + made)[: m._session.cache.longest]
    m.eos_ids, m._session = frozenset({made[6]}), None
    first = made.index(made[6])
    assert ids_of(m, prompt, max_new_tokens=12, temperature=1.0, seed=3) == made[: first + 1]
    assert m._session.ids == (prompt + made)[: m._session.cache.longest]
    m.eos_ids = frozenset()
    # What was read ahead is cut off where the next prompt differs from it.
    other = [*prompt, *made[:first], (made[first] + 1) % 270, 5]
    found = ids_of(m, other, max_new_tokens=4)
    m._session = None
    assert found == ids_of(m, other, max_new_tokens=4)


def test_batches_equal_single_prompts(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m = tiny(device)
    prompts = ["a candle", [5, 6, 7], "x", list(range(150))]
    for options in (
        {"max_new_tokens": 12},
        {"max_new_tokens": 9, "temperature": 1.0, "seed": 3},
        {"max_new_tokens": 12, "stop": ["e", "\ufffd"]},
    ):
        expected = ["".join(m.generate(p, **options)) for p in prompts]
        assert m.generate_batch(prompts, **options) == expected
    assert len(set(expected)) > 1
    assert m.generate_batch([]) == []
    with pytest.raises(ValueError, match="generate the prompts one by one"):
        m.generate_batch(prompts, overflow="shift")
    with pytest.raises(ValueError, match="the prompt is empty"):
        m.generate_batch([[1], []])
    with pytest.raises(ValueError, match="do not fit the context of 160"):
        tiny(max_position_embeddings=160, eos_token_id=None).generate_batch(prompts)


def counting(m: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the model runs in Python, in a list of one."""
    forward, runs = type(m).forward, [0]

    def counted(*args: Any, **options: Any) -> rl.Tensor:
        runs[0] += 1
        found: rl.Tensor = forward(*args, **options)
        return found

    monkeypatch.setattr(type(m), "forward", counted)
    return runs


def batch_ids(m: Any, prompts: list[Any], **options: Any) -> list[list[int]]:
    """The tokens of each row of a batch, without the one that ended it, if one did."""
    rows, chosen = m._rows(prompts, options)
    assert list(blocking(m._run_rows(rows, chosen))) == []
    return [row.telling.pieces.ids for row in rows]


def test_a_batch_is_captured(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps run without Python; the cache grows once."""
    m = tiny(device)
    m.eos_ids = frozenset()
    runs = counting(m, monkeypatch)
    prompts = [[5, 6, 7], list(range(150)), [9] * 20]
    options: dict[str, Any] = {"max_new_tokens": 120}
    found = m.generate_batch(prompts, **options)
    # 128 tokens, the rest of the longest, one token at each of two capacities; and what is met
    # again of the prompts is captured then. A GPU reads the longest prompt in one padded step.
    most = 4 if device == "cpu" else 5
    assert runs[0] == most if runs_in_software(rl.device(device)) else 3 <= runs[0] <= most
    assert found == ["".join(m.generate(p, **options)) for p in prompts]


def test_a_batch_goes_on_with_what_was_captured_for_the_last(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as many prompts, whatever their lengths and options, where its cache is no larger."""
    m, other = tiny(device), tiny(device)
    m.eos_ids = other.eos_ids = frozenset()
    options: dict[str, Any] = {"max_new_tokens": 5, "temperature": 1.0, "top_k": 20}

    def run(prompts: list[Any], seed: int) -> int:
        """How often Python ran the model."""
        other._batch = None
        want = batch_ids(other, prompts, seed=seed, **options)
        before = runs[0]
        assert batch_ids(m, prompts, seed=seed, **options) == want
        return runs[0] - before

    runs = counting(m, monkeypatch)
    lists: list[list[Any]] = [
        [[5, 6, 7], list(range(128))],
        [list(range(128)), [9]],
        [[1], list(range(50, 178))],
    ]
    first, second, third = (run(prompts, seed) for seed, prompts in enumerate(lists))
    assert first > 1 >= second and third == 0
    assert run([[1], [2], [3]], 1) > 0  # another number of rows
    kept = m._batch
    with pytest.raises(FloatingPointError), monkeypatch.context() as broken:
        broken.setattr(DeviceSampler, "token_of", lambda *_: fail())
        batch_ids(m, [[1], [2], [3]], **options)
    assert m._batch is kept and run([[4], [5], [6]], 2) == 1  # so short a prompt is not captured
    before = executable_memory()
    try:
        rl.set_executable_memory(kept.cache.nbytes - 1)
        run([[4], [5], [6]], 2)
        assert m._batch is None
    finally:
        rl.set_executable_memory(before)


def test_a_long_prompt_gets_its_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No buffers of half the size are filled first, and left."""
    m, sizes = tiny("cpu"), []
    made = Cache._resize

    def resize(cache: Cache, layers: list[int], size: int, held: int) -> None:
        sizes.append(size)
        made(cache, layers, size, held)

    monkeypatch.setattr(Cache, "_resize", resize)
    ids_of(m, [1 + i % 90 for i in range(400)], max_new_tokens=3)
    assert sizes == [512]


def fail() -> Any:
    raise FloatingPointError


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"temperature": 1.2, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "seed": 5},
        {"temperature": 1.0, "top_p": 0.9, "presence_penalty": 0.6, "seed": 6},
        {"temperature": 0.9, "top_k": 30, "logit_bias": {100: 2.0}, "seed": 7},
    ],
    ids=lambda o: "-".join(o) or "greedy",
)
def test_rows_that_end_leave_the_others_as_they_are(
    device: str, rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gets the tokens that it gets alone, from the same captures, while the cache grows."""
    m = tiny(device)
    m.eos_ids = frozenset()
    prompts = [list(range(10, 250)), [5, 6, 7], [9, 8] * 122, list(range(150))]
    options = {"max_new_tokens": 40, **rules}
    alone = [ids_of(m, p, **options) for p in prompts]
    assert batch_ids(m, prompts, **options) == alone
    m.eos_ids = frozenset({alone[2][3], alone[0][11], alone[1][20]})
    ended = [[t.id for t in m.tokens(p, **options) if t.stopped != "eos"] for p in prompts]
    assert len({len(row) for row in ended}) > 2 and len(ended[2]) < 4
    runs = counting(m, monkeypatch)
    assert batch_ids(m, prompts, **options) == ended
    # The prompts, 244 tokens long, and one token, at each capacity that the rows need.
    most = 2 if max(len(p) + len(e) for p, e in zip(prompts, ended, strict=True)) > 256 else 1
    assert runs[0] <= (2 if device == "cpu" else 5) + most


def test_a_batch_is_a_step_ahead(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that computes by itself; not where a mask may change with each token."""
    m, seen = tiny(device), []
    m.eos_ids = frozenset()
    step, taken = Batch.step, DeviceSampler.token_of

    def stepped(batch: Batch, model: Any) -> rl.Tensor:
        seen.append("step")
        return step(batch, model)

    def read(sampler: DeviceSampler, values: Array) -> tuple[int, float]:
        seen.append("read")
        return taken(sampler, values)

    monkeypatch.setattr(Batch, "step", stepped)
    monkeypatch.setattr(DeviceSampler, "token_of", read)
    both = ["read"] * 2
    expected = ([*both, "step"] if device == "cpu" else ["step", *both]) * 3 + both
    m.generate_batch([[1, 2, 3], [4]], max_new_tokens=4)
    assert seen == expected
    seen.clear()
    asyncio.run(m.generate_batch_async([[1, 2, 3], [4]], max_new_tokens=4))
    assert seen == expected
    seen.clear()
    mask = rl.ones(VOCAB, device=device) > 0
    m.generate_batch([[1, 2, 3], [4]], max_new_tokens=4, token_mask=mask)
    assert seen == [*both, "step"] * 3 + both
    options: dict[str, Any] = {"max_new_tokens": 9, "temperature": 1.5, "seed": 1}
    made = ids_of(m, [4], **options)
    m.eos_ids = frozenset(made[3:4])
    assert made[3] not in made[:3]
    seen.clear()
    m.generate_batch([[4], [4]], **options)  # all rows end: what was begun is left
    assert seen.count("step") == (3 if device == "cpu" else 4)


def test_a_batch_in_a_full_context(device: str) -> None:
    m = tiny(device, max_position_embeddings=24)
    m.eos_ids = frozenset()
    prompts = [list(range(10, 30)), [3, 4, 5, 6], [7] * 9]
    options: dict[str, Any] = {"temperature": 1.5, "seed": 2}
    alone = [ids_of(m, p, max_new_tokens=25 - len(p), **options) for p in prompts]
    # The last token may come out of a full context; it is not fed.
    assert batch_ids(m, prompts, max_new_tokens=5, **options) == [row[:5] for row in alone]
    with pytest.raises(ValueError, match="25 tokens do not fit the context of 24"):
        m.generate_batch(prompts, max_new_tokens=6, **options)
    with pytest.raises(ValueError, match="the prompt has 24 tokens, the context holds 24"):
        m.generate_batch([[1], [2] * 24])
    # A row that ended there leaves the others their room.
    m.eos_ids = frozenset({alone[0][4]})
    assert alone[0][4] not in [*alone[0][:4], *alone[1], *alone[2][:16]]
    assert batch_ids(m, prompts[:2], max_new_tokens=21, **options) == [alone[0][:4], alone[1]]
    with pytest.raises(ValueError, match="25 tokens do not fit the context of 24"):
        m.generate_batch(prompts, max_new_tokens=18, **options)


def test_generation_without_blocking_reads(device: str) -> None:
    """Also the async form gives the same tokens, and a run that is broken off closes."""
    model = tiny(device)
    options = {"max_new_tokens": 7, "temperature": 0.8, "seed": 2}
    want = [t.id for t in model.tokens([1, 2, 3], **options)]
    backend = rl.device(device).backend
    download = backend.download

    def refused(*args: Any) -> Any:
        raise AssertionError("a blocking read")

    async def run() -> list[int]:
        if device != "cpu":  # on cpu there is nothing that blocks
            backend.download = refused  # type: ignore[method-assign, assignment]
        return [t.id async for t in model.tokens_async([1, 2, 3], **options)]

    prompts = ["a candle", [5, 6, 7]]
    texts = model.generate_batch(prompts, **options)

    async def batch() -> list[str]:
        found: list[str] = await model.generate_batch_async(prompts, **options)
        return found

    try:
        found = asyncio.run(run())
        assert asyncio.run(batch()) == texts
    finally:
        if device != "cpu":
            del backend.download
    assert backend.download == download
    assert found == want

    async def broken() -> None:
        async for _ in model.tokens_async([1, 2, 3], **options):
            break

    asyncio.run(broken())
    assert [t.id for t in model.tokens([1, 2, 3], **options)] == want

    async def cancelled() -> None:
        task = asyncio.ensure_future(collect())
        while not taken:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def collect() -> None:
        async for token in model.tokens_async([1, 2, 3], temperature=0.8, max_new_tokens=400):
            taken.append(token.id)

    taken: list[int] = []
    asyncio.run(cancelled())
    assert taken and [t.id for t in model.tokens([1, 2, 3], **options)] == want


@pytest.mark.native  # in the tab all code runs inside a loop
def test_blocking_generation_inside_a_loop(device: str) -> None:
    model = tiny(device)
    expected = ids_of(model, [1, 2, 3], max_new_tokens=5)

    async def main() -> list[int]:
        return ids_of(model, [1, 2, 3], max_new_tokens=5)

    assert asyncio.run(main()) == expected


def test_an_answer_keeps_to_its_form(device: str) -> None:
    """By whichever engine is here: in the tab it is our own, over the tab's tokenizer."""
    model = tiny(device)
    schema = {
        "type": "object",
        "properties": {"word": {"enum": ["hello", "é"]}, "n": {"type": "integer", "maximum": -1}},
        "required": ["word", "n"],
        "additionalProperties": False,
    }
    options = {"response_format": schema, "temperature": 1.5, "seed": 1, "max_new_tokens": 90}
    tokens = list(model.tokens("word", **options))
    assert tokens[-1].stopped == "stop"
    value = json.loads("".join(token.text for token in tokens))
    assert value["word"] in ("hello", "é") and value["n"] < 0
    rows = model.generate_batch(
        ["a", "hello"], response_format={"type": "regex", "pattern": "(word|ing){2}!"}
    )
    assert all(len(row.removesuffix("!").replace("word", "ing")) == 6 for row in rows)


def pickled(m: Any) -> Any:
    return pickle.loads(pickle.dumps(m))


@pytest.mark.parametrize("way", [copy.deepcopy, pytest.param(pickled, marks=pytest.mark.native)])
def test_a_copy_answers_alone(device: str, way: Any) -> None:
    messages = [{"role": "user", "content": "a rush"}]
    options: Any = {"max_new_tokens": 6, "temperature": 0.0}
    m = tiny(device)
    first = "".join(m.chat(messages, **options))
    copied = way(m)
    assert copied.device == m.device and copied._session is None and m._session is not None
    assert "".join(copied.chat(messages, **options)) == first
    with rl.no_grad():
        copied.lm_head.weight.neg_()  # weights of its own
    assert "".join(copied.chat(messages, **options)) != first
    assert "".join(m.chat(messages, **options)) == first
