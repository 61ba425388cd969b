"""Models whose layers lie on several devices give what they give on one."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import DeviceError, LoadError
from rushlight.core.tensor import tensor as tensors_of
from rushlight.models.placing.plan import nbytes_of_text


@pytest.fixture(scope="module", autouse=True)
def adapter() -> None:
    """Skip where there is no adapter; under RUSHLIGHT_REQUIRE that is a failure."""
    try:
        _ = rl.device("webgpu").info
    except DeviceError as error:
        if "webgpu" in os.environ.get("RUSHLIGHT_REQUIRE", ""):
            raise
        pytest.skip(str(error))


WIDTH, INNER, VOCAB, LAYERS = 64, 96, 131, 4
PROMPT = [3, 5, 7, 9, 2, 44, 17, 80]


def parts(tied: bool = False) -> tuple[dict[str, bytes], dict[str, rl.Tensor]]:
    """The files and the tensors of a random llama of four layers."""
    config = {
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": tied,
        "eos_token_id": None,
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (VOCAB, WIDTH)}
    for i in range(LAYERS):
        for name, out, into in (
            ("self_attn.q_proj", WIDTH, WIDTH),
            ("self_attn.k_proj", WIDTH // 2, WIDTH),
            ("self_attn.v_proj", WIDTH // 2, WIDTH),
            ("self_attn.o_proj", WIDTH, WIDTH),
            ("mlp.gate_proj", INNER, WIDTH),
            ("mlp.up_proj", INNER, WIDTH),
            ("mlp.down_proj", WIDTH, INNER),
        ):
            shapes[f"model.layers.{i}.{name}"] = (out, into)
        shapes[f"model.layers.{i}.input_layernorm"] = (WIDTH,)
        shapes[f"model.layers.{i}.post_attention_layernorm"] = (WIDTH,)
    shapes["model.norm"] = (WIDTH,)
    shapes |= {} if tied else {"lm_head": (VOCAB, WIDTH)}
    rng = np.random.default_rng(0)
    made = {
        f"{name}.weight": rl.tensor(rng.normal(size=s).astype(np.float32) * 0.4 ** (len(s) - 1))
        for name, s in shapes.items()
    }
    return {"config.json": json.dumps(config).encode()}, made


def tokens(model: Any, **options: Any) -> list[int]:
    chosen = {"max_new_tokens": 12, "temperature": 0, "linear": "exact", **options}
    return [token.id for token in model.tokens(PROMPT, **chosen)]


@pytest.fixture
def budget() -> Iterator[int]:
    """The webgpu device with a bound of 700 kB beside what it holds."""
    gpu = rl.device("webgpu")
    gpu.set_memory_budget(1 << 40)
    held = (1 << 40) - (gpu.backend.memory_left() or 0)
    gpu.set_memory_budget(held + 700_000)
    yield 700_000
    gpu.set_memory_budget(None)


def test_a_model_larger_than_the_adapter(budget: int, caplog: pytest.LogCaptureFixture) -> None:
    files, weights = parts()
    expected = tokens(rl.models.assemble(files, weights))
    with pytest.raises(rl.DeviceMemoryError):
        large = {name: rl.cat([t, t, t, t]).to("webgpu") for name, t in weights.items()}
        del large
    with caplog.at_level(logging.WARNING, "rushlight"):
        model = rl.models.assemble(
            files, weights, device_map="auto", max_memory={"webgpu": "1 GiB"}
        )
    where: Any = model.placement
    assert [str(d) for d in where.layers] == ["webgpu"] * 3 + ["cpu"]
    assert str(where) in caplog.text
    assert "webgpu has the embedding, layers 0 to 2: 403.7 kB of weights" in str(where)
    assert "cpu has layer 3, norm, lm_head" in str(where)
    assert tokens(model) == expected
    assert tokens(model) == expected  # by what was captured
    with pytest.raises(RuntimeError, match="load it again"):
        model.to("cpu")
    model.to(rl.float32)


ODD = {"": "webgpu", "model.layers.1": "cpu", "model.layers.3": 0, "model.layers.2": "cpu"}
TURNS = {"model.embed_tokens": "cpu", "model.layers": "webgpu", "model.layers.2": "cpu",
         "model.norm": "webgpu", "lm_head": "cpu"}  # fmt: skip


@pytest.mark.parametrize("tied", [False, True])
def test_borders_in_the_middle(tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    files, weights = parts(tied)
    one = rl.models.assemble(files, weights)
    split: Any = rl.models.assemble(files, weights, device_map=TURNS if not tied else ODD)
    assert tokens(split) == tokens(one)
    batch = {"max_new_tokens": 6, "linear": "exact"}
    prompts = [PROMPT, PROMPT[:3]]
    ids = [rl.tensor([p]) for p in prompts]
    with rl.no_grad():
        for each in ids:
            a, b = one(each).numpy(), split(each.to(split.device)).numpy()
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert tokens(split, num_beams=3) == tokens(one, num_beams=3)
    rows = [[t.ids for t in f] for f in split.answers(prompts, num_beams=2, **batch)]
    assert rows == [[t.ids for t in f] for f in one.answers(prompts, num_beams=2, **batch)]
    # What a token carries is what was said.
    moved: list[int] = []
    transfer = tensors_of._transfer
    steps = split.tokens(PROMPT, max_new_tokens=8, temperature=0)
    for _ in range(4):
        next(steps)

    def counted(x: Any, device: Any) -> Any:
        moved.append(x.nbytes)
        return transfer(x, device)

    monkeypatch.setattr(tensors_of, "_transfer", counted)
    next(steps)
    assert sum(moved) == split.placement.carried


@pytest.mark.parametrize("kind", ["gemma2", "falcon_h1", "gemma3n", "bert"])
def test_kinds_of_layers(kind: str, table: ModuleType, rows: ModuleType) -> None:
    config, shapes = rows.metadata(kind)
    one = rows.model(kind, table)
    weights = {n: rl.tensor(table.values_of(n, tuple(s))) for n, s in shapes.items()}
    places = {"": "webgpu"} | dict.fromkeys(one.parts_in_order().layers[1::2], "cpu")
    files = {"config.json": json.dumps(config).encode()}
    split: Any = rl.models.assemble(files, weights, device_map=places)
    ids = table.ids_of(table.vocab_of(config))
    results = []
    for model in (one, split):
        if kind == "bert":
            results.append(rows.run(model, ids))
            continue
        cache = model.new_cache(len(ids))
        results.append(np.concatenate([rows.run(model, ids[:, a:b], cache)
                                       for a, b in ((0, 12), (12, 13))], 1))  # fmt: skip
    assert np.abs(results[0] - results[1]).max() < 1e-3 * np.abs(results[0]).max()


def test_blocks_of_a_file(quantized_llama: Path) -> None:
    one = rl.models.load(quantized_llama)
    split: Any = rl.models.load(quantized_llama, device_map="auto", max_memory={"webgpu": "1.2MB"})
    assert len(split.placement.devices) == 2
    assert {str(p.device) for p in split.parameters()} == {"cpu", "webgpu"}
    options = {"max_new_tokens": 8, "temperature": 0, "linear": "exact"}
    assert "".join(split.generate("abc", **options)) == "".join(one.generate("abc", **options))


@pytest.mark.parametrize(
    ("device_map", "max_memory", "error", "words"),
    [
        ({"model.layer.0": "cpu", "": "webgpu"}, None, LoadError, "model.layers"),
        ({"model": "webgpu"}, None, LoadError, "places no lm_head.weight"),
        ({"": "cpu", "model.layers.0.mlp": "webgpu"}, None, LoadError, "model.layers.0 lies on"),
        ({"": "disk"}, None, ValueError, "views of the file"),
        ("cuda", None, ValueError, "webgpu"),
        ("balanced", None, ValueError, "one device"),
        (3, None, TypeError, "int"),
        ("auto", {"webgpu": "lots"}, ValueError, "'4GiB'"),
        ("auto", {"webgpu": 1000, "cpu": 1000}, LoadError, "fits on no device"),
        ({"": "cpu"}, {"cpu": 1}, ValueError, "auto"),
        (None, {"cpu": 1}, ValueError, "auto"),
    ],
)
def test_what_cannot_be_placed(
    device_map: Any, max_memory: Any, error: type[Exception], words: str
) -> None:
    files, weights = parts()
    with pytest.raises(error, match=words):
        rl.models.assemble(files, weights, device_map=device_map, max_memory=max_memory)


def test_one_device_is_no_placement() -> None:
    files, weights = parts()
    for device_map, name in (("webgpu", "webgpu"), ({"": "cpu"}, "cpu"), ({"": 0}, "webgpu")):
        model = rl.models.assemble(files, weights, device_map=device_map)
        assert model.placement is None
        assert str(model.device) == name
    model = rl.models.assemble(files, weights, device_map="auto", max_memory={"webgpu": "1GB"})
    assert model.placement is None and str(model.device) == "webgpu"
    with pytest.raises(ValueError, match="not both"):
        rl.models.assemble(files, weights, device="webgpu", device_map="auto")


def test_sizes_as_texts() -> None:
    assert [nbytes_of_text(x) for x in (5, "5", "4GiB", "1.5 kB", "2MB")] == [
        5, 5, 4 << 30, 1500, 2_000_000,
    ]  # fmt: skip
    for wrong in ("", "4 parsecs", "iB", -1, True, 1.5):
        with pytest.raises(ValueError, match="is not a size"):
            nbytes_of_text(wrong)  # type: ignore[arg-type]


def test_commands(tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rushlight.cli import run

    tiny().save_pretrained(tmp_path / "m")
    asked = ["generate", "--model", str(tmp_path / "m"), "--prompt", "ab", "--temperature", "0"]
    asked += ["--max-new-tokens", "6", "--json"]
    assert run(asked) == 0
    expected = json.loads(capsys.readouterr().out)["text"]
    split = ["--device-map", "=webgpu,model.layers.1=cpu"]
    assert run([*asked, *split]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == expected
    (tmp_path / "map.json").write_text('{"": "webgpu", "lm_head": "cpu"}')
    assert run([*asked, "--device-map", str(tmp_path / "map.json")]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == expected
    for wrong, words in (
        (["--device-map", "auto", "--device", "webgpu"], "not both"),
        (["--device-map", "auto", "--max-memory", "4GiB"], "no name=value"),
        (["--max-memory", "cpu=4GiB"], "--device-map auto"),
        (["--device-map", "{]"], "--device-map"),
    ):
        assert run([*asked, *wrong]) == 2
        assert words in capsys.readouterr().err
