"""Fine-tuning: labels of answers alone, packed rows, losses by definition, the loop."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.tools.testing import check_gradient
from rushlight.models import finetune
from rushlight.models.adapters import LoraConfig
from rushlight.models.finetune import IGNORED, Example

HERE = Path(__file__).parent
Array = npt.NDArray[Any]


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_generate, _sentence = _module("test_generate"), _module("test_sentence")


def _learned(model: Any, example: Example) -> str:
    """The text of the tokens that have labels, with | where others lie between."""
    parts = [""]
    for number, label in zip(example.ids, example.labels, strict=True):
        assert label in (number, IGNORED)
        if label != IGNORED:
            parts[-1] += model.tokenizer.decode([number], skip_special_tokens=False)
        elif parts[-1]:
            parts.append("")
    return "|".join(part for part in parts if part)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _says(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_only_answers_have_labels() -> None:
    m = _generate.tiny()
    row = {"messages": [_user("ab"), _says("cde"), _user("fg"), _says("hi")]}
    (example,) = finetune.examples_of(m, row)
    assert _learned(m, example) == " cde</s>| hi</s>"
    asked = m.chat_ids(row["messages"][:3])
    assert example.ids[: len(asked)] == asked  # what generation reads
    (whole,) = finetune.examples_of(m, row, whole=True)
    assert whole.labels == whole.ids == example.ids
    (text,) = finetune.examples_of(m, {"text": "ab cd"})
    assert text.labels[1:] == text.ids[1:] and text.ids[-1] in m.eos_ids
    (pair,) = finetune.examples_of(m, {"prompt": "ab ", "completion": "cd"})
    assert _learned(m, pair) == "cd</s>"
    (chat,) = finetune.examples_of(m, {"prompt": [_user("ab")], "completion": "cd"})
    assert _learned(m, chat) == " cd</s>"
    (short,) = finetune.examples_of(m, row, max_length=len(asked) - 2)
    assert _learned(m, short) == " cde</s>" and len(short) == len(asked) - 2


def test_a_template_that_rewrites_turns_gives_an_example_for_each() -> None:
    m = _generate.tiny()
    m.template = type(m.template)(
        "{% for m in messages %}<s>{{ m.role }}: {{ m.content if loop.last or m.role == 'user' "
        "else '-' }}</s>{% endfor %}{% if add_generation_prompt %}<s>assistant:{% endif %}"
    )
    row = {"messages": [_user("ab"), _says("cde"), _user("fg"), _says("hi")]}
    one, two = finetune.examples_of(m, row)
    assert _learned(m, one) == " cde</s>" and _learned(m, two) == " hi</s>"
    assert "-" in m.tokenizer.decode(two.ids) and "fg" not in m.tokenizer.decode(one.ids)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"question": "x"}, "the keys .*question.*; supported: messages, prompt"),
        ({"messages": "x"}, "messages is 'x'; it must be a list"),
        ({"messages": [{"content": "x"}]}, "must be a list of role and content"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no answer of the assistant"),
        ({"prompt": "x"}, "'completion' is None; it must be a text"),
        ({"text": 3}, "'text' is 3"),
        ({"prompt": "abcdefgh" * 9, "completion": "x"}, "no answer within 5 tokens"),
    ],
)
def test_rows_that_cannot_be_learned_are_named(given: dict[str, Any], message: str) -> None:
    m = _generate.tiny()
    with pytest.raises(ValueError, match=message):
        finetune.examples_of(m, given, max_length=5)
    with pytest.raises(ValueError, match=f"row 1: .*{message}"):
        finetune.finetune(m, [{"text": "ab"}, given], length=5)


def test_files_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": "b"}\n', encoding="utf-8")
    assert finetune.read_rows(path) == [{"text": "a"}, {"text": "b"}]
    for text, message in (
        ('{"text": "a"}\n[1]\n', r"rows.jsonl:2 holds a list"),
        ('{"text": "a"\n', r"rows.jsonl:1 is not JSON"),
        ("[" * 99 + "]" * 99, "nest deeper"),
        ("\n", "has no lines"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(rl.FormatError, match=message):
            finetune.read_rows(path)


def test_packed_texts_are_as_if_alone(device: str) -> None:
    m = _generate.tiny(device)
    lengths = (7, 5, 9, 3, 6)
    draws = np.random.default_rng(2)
    examples = [
        Example(ids, list(ids)) for n in lengths if (ids := draws.integers(0, 270, n).tolist())
    ]
    batches = finetune.packed(examples, 12, rows=2, device=device)
    assert [b.ids.shape for b in batches] == [(2, 12), (2, 12)]  # 9+3, 7+5, 6
    seen = []
    for batch in batches:
        with rl.no_grad():
            out = m(batch.ids, segments=batch.segments).numpy()
        segments, labels = batch.segments.numpy(), batch.labels.numpy()
        for row, numbers in enumerate(segments):
            for number in set(numbers.tolist()) - {0}:
                at = np.flatnonzero(numbers == number)
                ids = batch.ids.numpy()[row, at]
                seen.append(len(ids))
                assert labels[row, at[0]] == IGNORED and (labels[row, at[1:]] == ids[1:]).all()
                with rl.no_grad():
                    single = m(rl.tensor(ids[None], device=device)).numpy()[0]
                np.testing.assert_allclose(out[row, at], single, rtol=1e-4, atol=2e-5)
        assert (labels[segments == 0] == IGNORED).all()
    assert sorted(seen) == sorted(lengths)
    with pytest.raises(ValueError, match="an example has 9 tokens, a row holds 8"):
        finetune.packed(examples, 8)
    first = batches[0]
    with pytest.raises(ValueError, match="not both, or segments"):
        m(first.ids, segments=first.segments, attention_mask=first.segments)


def test_layers_that_cannot_be_packed_say_so(rows: ModuleType, table: ModuleType) -> None:
    for name in ("mamba", "gemma3n", "llama4"):
        m = rows.model(name, table)
        ids = rl.zeros(1, 4, dtype="int64")
        with pytest.raises(ValueError, match="do not support segments"):
            m(ids, segments=ids)
    for name in ("bloom", "gpt2", "gemma3", "mpt"):  # ALiBi, learned positions, windows
        m = rows.model(name, table)
        ids = rl.tensor(table.ids_of(table.vocab_of(rows.metadata(name)[0]))[:1, :9])
        both = rl.cat((ids, ids), 1)
        segments = rl.tensor([[1] * 9 + [2] * 9])
        with rl.no_grad():
            single, found = m(ids).numpy(), m(both, segments=segments).numpy()
        for part in (found[:, :9], found[:, 9:]):
            np.testing.assert_allclose(part, single, rtol=1e-3, atol=1e-4, err_msg=name)


def test_losses_by_their_definitions(device: str) -> None:
    draws = np.random.default_rng(5)
    logits = draws.normal(size=(2, 5, 7)).astype(np.float32)
    labels = draws.integers(0, 7, (2, 5))
    labels[0, :3] = labels[1, 4] = IGNORED
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = [
        [logp[i, t - 1, labels[i, t]] for t in range(1, 5) if labels[i, t] >= 0] for i in range(2)
    ]
    on = [rl.tensor(x, device=device) for x in (logits, labels)]
    wanted = -np.mean(np.concatenate(picked))
    assert math.isclose(finetune.causal_loss(*on).item(), wanted, rel_tol=1e-5)
    sums = finetune.log_probabilities(*on).numpy()
    np.testing.assert_allclose(sums, [sum(p) for p in picked], rtol=1e-5)
    four = draws.normal(size=(4, 3)).astype(np.float32)
    margin = 0.3 * ((four[0] - four[2]) - (four[1] - four[3]))
    for smooth in (0.0, 0.2):
        wanted = np.mean(
            (1 - smooth) * np.log1p(np.exp(-margin)) + smooth * np.log1p(np.exp(margin))
        )
        given = [rl.tensor(x, device=device) for x in four]
        found = finetune.dpo_loss(*given, beta=0.3, label_smoothing=smooth)
        assert math.isclose(found.item(), wanted, rel_tol=1e-5)
    a, b, c = (draws.normal(size=(n, 6)).astype(np.float32) for n in (3, 3, 2))
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b, c)]
    for others in (unit[1], np.concatenate(unit[1:])):
        scores = 20 * unit[0] @ others.T
        wanted = np.mean(np.log(np.exp(scores).sum(1)) - np.diag(scores))
        more = None if len(others) == 3 else rl.tensor(c, device=device)
        one, two = (rl.tensor(x, device=device) for x in (a, b))
        found = finetune.ranking_loss(one, two, more)
        assert math.isclose(found.item(), wanted, rel_tol=1e-4)
    with pytest.raises(ValueError, match="causal_loss: logits are .* they must be"):
        finetune.causal_loss(on[0], on[1][:, :3])


def test_gradients_of_losses() -> None:
    draws = np.random.default_rng(6)
    labels = rl.tensor([[IGNORED, 1, 2, 0]])
    losses = (
        (lambda x: finetune.causal_loss(x, labels), (1, 4, 3)),
        (lambda x: finetune.dpo_loss(*x), (4, 3)),
        (lambda x: finetune.ranking_loss(*x), (2, 3, 4)),
    )
    for loss, shape in losses:
        check_gradient(lambda x, f=loss: f(x).reshape(1), [draws.normal(size=shape)], second=False)


@pytest.mark.parametrize("pack", [False, True])
def test_a_task_is_learned(device: str, pack: bool) -> None:
    m = _generate.tiny(device)
    if device == "cpu":
        m.quantize_("q8_0")
    rows = [{"messages": [_user(a), _says(b)]} for a, b in zip("abcdef", "uvwxyz", strict=True)]
    rl.manual_seed(0)
    rl.adapters.add_adapter(m, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    told: list[tuple[int, int, float]] = []
    losses = finetune.finetune(
        m,
        rows,
        steps=60,
        batch_size=1 if pack else 6,
        lr=0.01,
        pack=pack,
        length=96 if pack else None,
        watch=lambda *given: told.append(given),
    )
    assert [t[:2] for t in told] == [(i + 1, 60) for i in range(60)] and not m.training
    assert [t[2] for t in told] == losses and losses[-1] < 0.3 * losses[0]
    answers = ["".join(m.chat([_user(a)], max_new_tokens=4, temperature=0.0)) for a in "abcdef"]
    assert [a.strip() for a in answers] == list("uvwxyz")
    with rl.adapters.disable_adapter(m):
        assert "".join(m.chat([_user("a")], max_new_tokens=4, temperature=0.0)).strip() != "u"


def test_the_order_is_the_seeds() -> None:
    def run(seed: int) -> list[float]:
        m = _generate.tiny()
        rl.manual_seed(1)
        rl.adapters.add_adapter(m, LoraConfig(r=2, target_modules=["q_proj"], lora_dropout=0.2))
        rows = [{"text": text} for text in ("abc", "defgh", "ij", "klmnop")]
        return finetune.finetune(m, rows, epochs=2, batch_size=1, seed=seed)

    one = run(3)
    assert len(one) == 8 and one == run(3) and one != run(4)


def test_preferences_are_learned() -> None:
    m = _generate.tiny()
    rows = [{"prompt": [_user(a)], "chosen": "yes", "rejected": "no"} for a in "abcd"]
    rl.manual_seed(0)
    rl.adapters.add_adapter(m, LoraConfig(r=4, target_modules="all-linear"))
    losses = finetune.finetune(m, rows, steps=12, batch_size=4, lr=0.01)
    assert math.isclose(losses[0], math.log(2), rel_tol=1e-4)  # the model is the reference
    assert losses[-1] < 0.5 * losses[0]
    both = finetune.padded(finetune.preference_of(m, rows[0]))

    def margin() -> float:
        with rl.no_grad():
            yes, no = finetune.log_probabilities(m(both.ids), both.labels).tolist()
        return float(yes - no)

    after = margin()
    with rl.adapters.disable_adapter(m):
        assert after > margin() + 1
    with pytest.raises(ValueError, match="row 1: a row's 'rejected' is None"):
        finetune.finetune(m, [rows[0], {"prompt": "x", "chosen": "y"}])


def test_what_cannot_be_trained_is_named() -> None:
    m = _generate.tiny()
    rl.adapters.add_adapter(m, LoraConfig(target_modules=["q_proj"]), trainable=False)
    with pytest.raises(ValueError, match="no parameter takes gradients; add an adapter"):
        finetune.finetune(m, [{"text": "abc"}])
    rl.adapters.add_adapter(m, LoraConfig(target_modules=["q_proj"]), "other")
    with pytest.raises(ValueError, match="there are no rows"):
        finetune.finetune(m, [])
    before = {n: t.numpy().copy() for n, t in m.state_dict().items()}
    with pytest.raises(FloatingPointError, match="the loss of step 0 is nan; choose a lower rate"):
        nan = rl.tensor(math.nan)
        finetune.train(m, [0], lambda _: nan, steps=2)
    assert not m.training
    for name, t in m.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), before[name])


def test_heads_and_sentences_learn() -> None:
    m = _sentence.tiny("cpu")
    texts = ["a cat", "the dog is here", "one"]
    np.testing.assert_allclose(
        finetune.embed(m, texts).detach().numpy(), m.encode(texts).numpy(), rtol=1e-4, atol=1e-5
    )
    rl.manual_seed(0)
    rl.adapters.add_adapter(m, LoraConfig(r=4, target_modules=["query", "value", "dense"]))
    pairs = [
        {"anchor": a, "positive": p}
        for a, p in (("cat", "dog is"), ("one two", "here"), ("the", "a b c"), ("is", "cat here"))
    ]
    losses = finetune.finetune(m, pairs, steps=15, batch_size=4, lr=0.02)
    assert losses[-1] < 0.5 * losses[0]
    with pytest.raises(ValueError, match="row 1: 'positive' must be a text"):
        finetune.finetune(m, [pairs[0], {"anchor": "x"}])
    head = finetune.ClassificationHead(m.embedding_width, 2)
    both = rl.nn.ModuleList([m, head])
    wanted = rl.tensor([0, 1, 1])
    losses = finetune.train(
        both,
        [texts],
        lambda t: rl.nn.functional.cross_entropy(head(finetune.embed(m, t)), wanted),
        steps=30,
        lr=0.05,
    )
    assert losses[-1] < 0.2 * losses[0]
    with pytest.raises(ValueError, match="classes is 0; at least 1"):
        finetune.ClassificationHead(4, 0)


@pytest.mark.native
def test_the_command_trains_an_adapter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rushlight.cli import run

    m = _generate.tiny()
    m.save_pretrained(tmp_path / "model")
    data, out = tmp_path / "rows.jsonl", tmp_path / "adapter"
    rows = [{"messages": [_user(a), _says("u")]} for a in "abcd"]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    given = ["finetune", str(tmp_path / "model"), str(data), "--lora", "4", "--output", str(out),
             "--steps", "30", "--rate", "0.02", "--pack", "--length", "48"]  # fmt: skip
    assert run(given) == 0
    said = capsys.readouterr()
    assert said.out.split() == [
        str(out / "adapter_model.safetensors"),
        str(out / "adapter_config.json"),
    ]
    assert "loss" in said.err
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["task_type"]) == (4, 8, "CAUSAL_LM")
    asked = ["generate", "--prompt", "a", "--model", str(tmp_path / "model"),
             "--max-new-tokens", "4", "--temperature", "0"]  # fmt: skip
    assert run([*asked, "--adapter", str(out)]) == 0
    assert capsys.readouterr().out.strip() == "u"
    assert run(asked) == 0
    assert capsys.readouterr().out.strip() != "u"
    data.write_text("[]", encoding="utf-8")
    assert run(given) == 2
    assert "rows.jsonl:1 holds a list, not an object" in capsys.readouterr().err
