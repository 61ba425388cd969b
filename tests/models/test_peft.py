"""Adapters: PEFT's results and files, switching, merging, training, generation, GGUF."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.adapters import IA3Config, LoHaConfig, LoraConfig

HERE = Path(__file__).parent
DATA = HERE / "data" / "adapters"
CLOSE: Any = {"rtol": 1e-4, "atol": 5e-5}
Array = npt.NDArray[Any]


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


peft, vision = _module("peft_rows"), _module("vision")


class Row:
    """A row of the table: its model without the adapter, the adapter's parts, and its input."""

    def __init__(self, name: str, table: ModuleType) -> None:
        found = open_tables(DATA / f"{name}.safetensors")[0][1].metadata
        self.whose, self.of = peft.ROWS[name][:2]
        self.table = vision if self.whose == "vision" else table
        self.config, self.names = found["config"].encode(), json.loads(found["names"])
        self.adapter = found["adapter_config"].encode()
        self.shapes = json.loads(found["adapter"])
        self.out = load_safetensors(DATA / f"{name}.safetensors")["out"].numpy()
        self.given = self._given()

    def base(self, name: str) -> Array:
        values: Array = self.table.values_of(name, tuple(self.names[name]))
        return values

    def model(self, device: str = "cpu") -> Any:
        tensors = {n: rl.tensor(self.base(n)) for n in self.names}
        return rl.models.assemble({"config.json": self.config}, tensors, device=device)

    def tensors(self) -> dict[str, rl.Tensor]:
        found = {}
        for name, shape in self.shapes.items():
            if name.endswith(".base_layer.weight"):  # PEFT repeats tables that are adapted
                plain = name.removeprefix("base_model.model.").replace(".base_layer", "")
                found[name] = rl.tensor(self.base(plain))
            else:
                found[name] = rl.tensor(peft.values_of(name, tuple(shape)))
        return found

    def adapted(self, device: str = "cpu", **options: Any) -> Any:
        m = self.model(device)
        return rl.adapters.adapter_from(m, self.adapter, self.tensors(), **options)

    def _given(self) -> tuple[Array, ...]:
        settings = json.loads(self.config)
        if self.whose == "vision":
            return (vision.pixels_of(vision.ROWS[self.of][3]),)
        if settings["model_type"] in self.table.WAVES:
            return (self.table.features_of(settings),)
        ids = self.table.ids_of(settings["vocab_size"])
        if settings["model_type"] in self.table.TEXT_TO_TEXT:
            return ids, self.table.decoder_ids_of(settings["vocab_size"])
        return (ids,)

    def run(self, m: Any) -> Array:
        call = m.logits if type(m).__name__ == "HeadedEncoder" else m
        with rl.no_grad():
            found: Array = call(*(rl.tensor(x, device=m.device) for x in self.given)).numpy()
        return found


@pytest.fixture(params=list(peft.ROWS))
def adapter_row(request: pytest.FixtureRequest, table: ModuleType) -> Row:
    return Row(request.param, table)


def near(found: Array, wanted: Array) -> None:
    largest = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found / largest, wanted / largest, **CLOSE)


def test_goldens_are_small() -> None:
    sizes = {path.stem: path.stat().st_size for path in DATA.glob("*.safetensors")}
    assert set(sizes) == set(peft.ROWS) and max(sizes.values()) <= 50 << 10


def test_results_are_pefts(adapter_row: Row) -> None:
    m = adapter_row.model()
    plain, names = adapter_row.run(m), list(m.state_dict())
    biases = [n for n in adapter_row.shapes if n.endswith(".bias")]
    rl.adapters.adapter_from(m, adapter_row.adapter, adapter_row.tensors())
    near(adapter_row.run(m), adapter_row.out)
    assert not any(p.requires_grad for p in m.parameters())
    state = rl.adapters.adapter_state(m)
    assert set(state) == {n for n in adapter_row.shapes if not n.endswith(".base_layer.weight")}
    with rl.adapters.disable_adapter(m):
        if not biases:  # those belong to the model
            np.testing.assert_array_equal(adapter_row.run(m), plain)
    near(adapter_row.run(m), adapter_row.out)
    rl.adapters.delete_adapter(m, "default")
    assert list(m.state_dict()) == names and not hasattr(m, "attached")
    if not biases:
        np.testing.assert_array_equal(adapter_row.run(m), plain)


@pytest.mark.parametrize("name", ["lora", "dora", "dora-convolutions", "ia3", "loha"])
def test_results_on_the_device(name: str, table: ModuleType, device: str) -> None:
    row = Row(name, table)
    m = row.adapted(device)
    near(row.run(m), row.out)
    rl.adapters.merge_adapter(m)
    near(row.run(m), row.out)


def test_merged_weights_give_the_same(adapter_row: Row) -> None:
    m = adapter_row.adapted()
    before = {n: t.numpy().copy() for n, t in m.state_dict().items()}
    rl.adapters.merge_adapter(m)
    with pytest.raises(RuntimeError, match="'default' is merged; call unmerge_adapter"):
        rl.adapters.set_adapter(m, "default")
    near(adapter_row.run(m), adapter_row.out)
    rl.adapters.unmerge_adapter(m)
    for name, t in m.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), before[name], err_msg=name)
    near(adapter_row.run(m), adapter_row.out)
    rl.adapters.merge_and_unload(m)
    assert not any("attached" in name for name in m.state_dict())
    near(adapter_row.run(m), adapter_row.out)
    assert rl.adapters.adapters(m) == {}


@pytest.mark.native
@pytest.mark.parametrize("kind", ["adapter_model.safetensors", "adapter_model.bin"])
def test_folders_are_read_and_written(table: ModuleType, tmp_path: Path, kind: str) -> None:
    row = Row("lora-layers", table)
    (tmp_path / "adapter_config.json").write_bytes(row.adapter)
    rl.save(row.tensors(), tmp_path / kind)
    m = rl.adapters.load_adapter(row.model(), tmp_path)
    near(row.run(m), row.out)
    files = rl.adapters.save_adapter(m, tmp_path / "again")
    assert sorted(path.name for path in files) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    wanted = row.tensors()
    for name, t in rl.load(tmp_path / "again" / "adapter_model.safetensors").items():
        np.testing.assert_array_equal(t.numpy(), wanted[name].numpy(), err_msg=name)
    written = json.loads((tmp_path / "again" / "adapter_config.json").read_bytes())
    theirs = json.loads(row.adapter)
    free = ("init_lora_weights", "auto_mapping", "base_model_name_or_path")
    kept = {k: v for k, v in theirs.items() if k in written and k not in free}
    assert kept == {k: written[k] for k in kept}
    assert {"target_modules", "r", "layers_to_transform", "modules_to_save"} <= set(kept)
    with pytest.raises(ValueError, match="save_pretrained: .* has adapters"):
        m.save_pretrained(tmp_path / "model")


def _tiny(device: str = "cpu", **changes: Any) -> Any:
    """A llama of the table, whose logits depend on all it reads."""
    found: Any = _generate.tiny(device, **changes)
    return found


_generate = _module("test_generate")
PROMPT = [5, 9, 200, 31, 77, 12]


def _random(m: Any, seed: int) -> None:
    """Other values for the parameters of the active adapters."""
    draws = np.random.default_rng(seed)
    with rl.no_grad():
        for name, p in m.named_parameters():
            if f".attached.{rl.adapters.active_adapters(m)[0]}." in name:
                values = draws.normal(size=p.shape).astype(np.float32) * 0.3
                p.copy_(rl.tensor(values, device=m.device))


def _answer(m: Any, **options: Any) -> list[int]:
    return [t.id for t in m.tokens(PROMPT, max_new_tokens=8, temperature=0.0, **options)]


def _slowly(m: Any) -> list[int]:
    """Greedy decoding without a cache or captures."""
    ids = list(PROMPT)
    with rl.no_grad():
        for _ in range(8):
            ids.append(int(m(rl.tensor([ids], device=m.device))[0, -1].argmax().item()))
            if ids[-1] in m.eos_ids:
                break
    return ids[len(PROMPT) :]


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_generation_follows_the_adapters(device: str, kind: str) -> None:
    m = _tiny(device)
    plain = _answer(m)
    for i, name in enumerate(("one", "two")):
        config = LoraConfig(r=4, target_modules="all-linear", use_dora=kind == "dora")
        rl.adapters.add_adapter(m, config, name, trainable=False)
        _random(m, i)
    answers = {}
    for names in ("one", "two", ("one", "two"), ()):
        rl.adapters.set_adapter(m, names)
        answers[names] = _slowly(m)
    assert len({tuple(a) for a in answers.values()}) == 4 and answers[()] == plain
    for _ in range(2):  # the second time captured steps are replayed
        for names in ("two", (), "one", ("one", "two")):
            rl.adapters.set_adapter(m, names)
            assert _answer(m) == answers[names], names
    with rl.adapters.disable_adapter(m):
        assert _answer(m) == plain
    rl.adapters.set_adapter(m, "one")
    rl.adapters.merge_adapter(m)
    assert _answer(m) == answers["one"]
    rl.adapters.unmerge_adapter(m)
    rl.adapters.delete_adapter(m, "two")
    assert _answer(m) == answers["one"]
    rl.adapters.delete_adapter(m, "one")
    assert _answer(m) == plain


def test_switching_back_captures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    m = _tiny()
    for name in ("one", "two"):
        rl.adapters.add_adapter(m, LoraConfig(target_modules=["q_proj"]), name, trainable=False)
        _random(m, ord(name[0]))
    for name in ("one", "two", "one", "two"):
        rl.adapters.set_adapter(m, name)
        _answer(m)
    step = m._session._next
    count = len(step.executables)
    for name in ("one", "two"):
        rl.adapters.set_adapter(m, name)
        _answer(m)
    assert m._session._next is step and len(step.executables) == count


@pytest.mark.parametrize("storage", ["q8_0", "q4_0", "bfloat16", "float16"])
def test_a_base_of_any_dtype_stays_as_stored(storage: str) -> None:
    m = _tiny()
    if storage.startswith("q"):
        m.quantize_(storage)
    else:
        m.to(storage)
    ids = rl.tensor([PROMPT])
    stored = {n: t for n, t in m.state_dict().items()}
    with rl.no_grad():
        plain = m(ids).float().numpy()
    rl.adapters.add_adapter(m, LoraConfig(r=4, target_modules=["q_proj", "down_proj"]))
    with rl.no_grad():  # B is zero at first
        np.testing.assert_array_equal(m(ids).float().numpy(), plain)
    _random(m, 3)
    for name, t in m.state_dict().items():
        if name in stored:
            assert t.dtype is stored[name].dtype and t.storage is stored[name].storage
    with rl.no_grad():
        out = m(ids).float().numpy()
    assert np.abs(out - plain).max() > 0.1
    if storage.startswith("q"):
        with pytest.raises(ValueError, match=f"q_proj.weight is {storage}.*dtype="):
            rl.adapters.merge_adapter(m)
        rl.adapters.merge_adapter(m, dtype="float32")
    else:
        rl.adapters.merge_adapter(m)
    with rl.no_grad():
        merged = m(ids).float().numpy()
    # A quantized product rounds activations; narrow floats round the sum.
    np.testing.assert_allclose(merged, out, atol=0.1 * np.abs(out).max())
    rl.adapters.unmerge_adapter(m)
    with rl.no_grad():
        np.testing.assert_array_equal(m(ids).float().numpy(), out)


def test_only_adapters_learn(device: str) -> None:
    m = _tiny(device)
    m.quantize_("q8_0") if device == "cpu" else None
    before = {n: t.clone() for n, t in m.state_dict().items() if t.dtype.kind == "f"}
    rl.adapters.add_adapter(m, LoraConfig(r=4, target_modules="all-linear", lora_alpha=16))
    trained = [p for p in m.parameters() if p.requires_grad]
    assert trained and all(
        p.requires_grad == (".attached.default." in n) for n, p in m.named_parameters()
    )
    ids = rl.tensor(np.arange(24).reshape(2, 12) * 7 % 250, device=device)
    optimizer = rl.optim.AdamW(trained, lr=0.01)

    @rl.jit
    def step(ids: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        logits = m(ids)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(ids).item() for _ in range(12)]
    assert losses[-1] < 0.5 * losses[0]
    for name, t in m.state_dict().items():
        if name in before:
            np.testing.assert_array_equal(t.numpy(), before[name].numpy())


def test_what_trains_is_what_the_configuration_says() -> None:
    def trained(**options: Any) -> set[str]:
        m = _tiny(attention_bias=True) if "bias" in options else _tiny()
        rl.adapters.add_adapter(m, LoraConfig(target_modules=["q_proj"], **options))
        return {n for n, p in m.named_parameters() if p.requires_grad}

    inside = {
        f"model.layers.{i}.self_attn.q_proj.attached.default.lora_{x}.weight"
        for i in range(2)
        for x in "AB"
    }
    assert trained() == inside
    assert trained(modules_to_save=["lm_head"]) == inside | {"lm_head.weight"}


def test_several_adapters_and_their_gradients() -> None:
    m = nn.Sequential(nn.Linear(6, 8), nn.Conv1d(8, 8, 1))
    lora = LoraConfig(r=2, target_modules=["0", "1"])
    rl.adapters.add_adapter(m, lora, "a")
    rl.adapters.add_adapter(m, IA3Config(target_modules=["0"]), "b")
    rl.adapters.add_adapter(m, LoHaConfig(r=2, target_modules=["0", "1"]), "c")
    assert rl.adapters.active_adapters(m) == ("c",) and list(rl.adapters.adapters(m)) == [*"abc"]
    rl.adapters.set_adapter(m, ["a", "b"])
    on = {n.split(".")[2] for n, p in m.named_parameters() if p.requires_grad}
    assert on == {"a", "b"}
    m(rl.randn(3, 8, 6).transpose(0, 0)[0].T.T.reshape(8, 6)).sum().backward()
    assert all(p.grad is not None for p in m.parameters() if p.requires_grad)


def _gguf_of(row: Row, table: ModuleType) -> tuple[dict[str, Any], dict[str, rl.Tensor]]:
    """What llama.cpp's converter makes of an adapter of a llama: other names, rows of q and k."""
    m, found = row.model(), {}
    kinds = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "down_proj": "ffn_down"}
    for name, t in row.tensors().items():
        part, kind = name.removeprefix("base_model.model.").rsplit(".", 2)[:2]
        if name.endswith("base_layer.weight"):
            continue
        if "embed_tokens" in name:
            end = name[-1].lower()
            found[f"token_embd.weight.lora_{end}"] = t.t().contiguous() if end == "a" else t
            continue
        base = "output" if part == "lm_head" else ""
        if not base:
            layer = part.split(".")[2]
            base = f"blk.{layer}.{kinds[part.rpartition('.')[2]]}"
        if kind == "lora_B" and base.endswith(("attn_q", "attn_k")):
            heads = m.config.num_attention_heads if base.endswith("q") else 2
            rows = t.shape[0] // heads // 2
            t = t.reshape(heads, 2, rows, -1).transpose(1, 2).reshape(t.shape)
        found[f"{base}.weight.{kind.lower()}"] = t
    alpha = float(json.loads(row.adapter)["lora_alpha"])
    metadata = {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": alpha,
    }
    return metadata, found


@pytest.mark.native
def test_gguf_adapters_are_read(table: ModuleType, tmp_path: Path) -> None:
    row = Row("lora-table", table)
    metadata, tensors = _gguf_of(row, table)
    rl.save_gguf(tensors, tmp_path / "adapter.gguf", metadata)
    m = rl.adapters.load_adapter(row.model(), tmp_path / "adapter.gguf")
    near(row.run(m), row.out)
    wanted = rl.adapters.adapters(m)["default"].target_modules
    assert wanted is not None and wanted[0] == "model.embed_tokens"
    m = row.model()
    for change, message in (
        ({"general.type": "model"}, "general.type is 'model'; it must be adapter"),
        ({"general.architecture": "gpt2"}, "general.architecture is 'gpt2'; it must be llama"),
        ({"adapter.lora.alpha": "x"}, "adapter.lora.alpha is 'x'"),
        ({"adapter.alora.invocation_tokens": [1]}, "activated LoRA"),
    ):
        with pytest.raises(rl.LoadError, match=message):
            rl.adapters.adapter_from_gguf(m, {**metadata, **change}, tensors)
    lost = dict(tensors)
    lost.pop("blk.0.attn_k.weight.lora_b")
    with pytest.raises(rl.LoadError, match="one of the two tensors of 'blk.0.attn_k.weight'"):
        rl.adapters.adapter_from_gguf(m, metadata, lost)
    with pytest.raises(rl.LoadError, match="layers.7.self_attn.k_proj"):
        far = {n.replace("blk.0", "blk.7"): t for n, t in tensors.items()}
        rl.adapters.adapter_from_gguf(m, metadata, far)
    assert rl.adapters.adapters(m) == {} and not any("attached" in n for n in m.state_dict())
    ranks = {
        n: t[:, :2] if n.endswith("_b") and "attn" in n else t[:2] if "attn" in n else t
        for n, t in tensors.items()
    }
    rl.adapters.adapter_from_gguf(m, metadata | {"adapter.lora.alpha": 0.0}, ranks)
    layer = m.model.layers[0].self_attn.k_proj.attached.default
    assert (layer.rank, layer.scale) == (
        2,
        1.0,
    ) and m.model.embed_tokens.attached.default.scale == 1


def test_what_does_not_fit_is_named(table: ModuleType) -> None:
    row = Row("lora", table)
    m, config, tensors = row.model(), json.loads(row.adapter), row.tensors()
    name = next(n for n in tensors if n.endswith("0.self_attn.q_proj.lora_A.weight"))
    fails: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"peft_type": "BOFT"}, {}, "peft_type 'BOFT' is not supported; supported: LORA"),
        ({"alora_invocation_tokens": [1]}, {}, "alora_invocation_tokens .* is not supported"),
        ({"init_lora_weights": "corda"}, {}, "init_lora_weights 'corda' is not supported"),
        ({"r": 0}, {}, "r is 0, out of range"),
        ({"r": 1 << 40}, {}, "out of range"),
        ({"lora_dropout": 2.0}, {}, "lora_dropout is 2.0, out of range"),
        ({"target_modules": 3}, {}, "target_modules is 3"),
        ({"rank_pattern": {"(?i)q_proj": 3}}, {}, "no regular expression: global flags"),
        ({"rank_pattern": {r"(a)\1": 3}}, {}, "a reference to a group"),
        ({"target_modules": "a" * 2000}, {}, "a pattern of 2000 characters; at most 1024"),
        ({"exclude_modules": "(?<=a)b"}, {}, "looking behind"),
        ({"rank_pattern": {"((": 3}}, {}, "no regular expression"),
        ({"rank_pattern": {f"m{i}": 3 for i in range(5000)}}, {}, "5000 patterns; at most 4096"),
        ({"peft_type": "IA3", "feedforward_modules": "(.*a)*+"}, {}, "possessive|multiple repeat"),
        ({"bias": "some"}, {}, "bias 'some' is not supported"),
        ({"rank_pattern": {}}, {}, r"the adapter of .*(.|\n)*takes \(3, 64\)"),
        ({}, {name: rl.zeros(2, 2)}, "the adapter of .*q_proj"),
        ({}, {name.replace("q_proj", "x_proj"): rl.zeros(2, 2)}, "x_proj.* does not have"),
        ({}, {"base_model.model.model.norm.weight": rl.zeros(32)}, "no part of LoraConfig"),
        ({}, {name: rl.zeros(2, 2, dtype="int64")}, "no tensor of floats"),
    ]
    names = list(m.state_dict())
    for changes, more, message in fails:
        data = json.dumps(config | changes).encode()
        with pytest.raises((rl.FormatError, rl.LoadError), match=message):
            rl.adapters.adapter_from(m, data, {**tensors, **more})
        assert list(m.state_dict()) == names and rl.adapters.adapters(m) == {}
    with pytest.raises(rl.LoadError, match="no tensor of LoraConfig"):
        rl.adapters.adapter_from(m, row.adapter, {})
    rl.adapters.adapter_from(m, row.adapter, tensors)
    with pytest.raises(ValueError, match="cannot be called 'default'; in use"):
        rl.adapters.adapter_from(m, row.adapter, tensors)
    with pytest.raises(KeyError, match="no adapter 'defualt'; there are: default"):
        rl.adapters.set_adapter(m, "defualt")


def test_configurations_that_mean_nothing_are_named() -> None:
    m = _tiny()
    for config, message in (
        (LoraConfig(), "target_modules is None; name ends of modules' paths"),
        (LoraConfig(target_modules=["qproj"]), "'qproj'.* names no module of .*: q_proj"),
        (LoraConfig(target_modules=["q_proj"], exclude_modules=["q_proj"]), "not excluded"),
        (LoraConfig(target_modules=["norm"]), "'model.norm' is a RMSNorm, .* supported: Linear"),
        (LoHaConfig(target_modules=["embed_tokens"]), "is a Embedding"),
        (LoraConfig(target_modules=["q_proj"], modules_to_save=["head"]), "no module 'head'"),
        (LoraConfig(r=0, target_modules=["q_proj"]), "the rank of .* is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            rl.adapters.add_adapter(m, config)
    for name in ("", "a.b", "active", "forward"):
        with pytest.raises(ValueError, match="cannot be called"):
            rl.adapters.add_adapter(m, LoraConfig(target_modules=["q_proj"]), name)
    with pytest.raises(ValueError, match="bias 'one' is not supported"):
        LoraConfig(bias="one")
    attention = nn.Sequential(nn.MultiheadAttention(4, 2))
    with pytest.raises(ValueError, match="'0.out_proj' is part of a MultiheadAttention"):
        rl.adapters.add_adapter(attention, LoraConfig(target_modules=["out_proj"]))
    with pytest.raises(ValueError, match="names no module"):
        rl.adapters.add_adapter(attention, LoraConfig(target_modules="all-linear"))
    grouped = nn.Sequential(nn.Conv2d(4, 4, 3, groups=2))
    with pytest.raises(ValueError, match="no multiple of the 2 groups"):
        rl.adapters.add_adapter(grouped, LoraConfig(r=3, target_modules=["0"]))
    rl.adapters.add_adapter(grouped, LoraConfig(r=4, target_modules=["0"]))
    assert grouped(rl.ones(1, 4, 5, 5)).shape == (1, 4, 3, 3)
    with pytest.raises(ValueError, match="2 groups .* cannot be merged"):
        rl.adapters.merge_adapter(grouped)


def test_layers_whose_weights_are_read_are_refused(rows: ModuleType, table: ModuleType) -> None:
    m = rows.model("mamba", table)
    with pytest.raises(ValueError, match="is a CausalConv, which is not supported"):
        rl.adapters.add_adapter(m, LoraConfig(target_modules=["conv1d"]))
    m = rows.model("mixtral", table)
    with pytest.raises(
        ValueError, match="is a ExpertStack, which is not supported; supported: Linear"
    ):
        rl.adapters.add_adapter(m, IA3Config(target_modules=["w1"]))


def test_routers_are_adapted(rows: ModuleType, table: ModuleType) -> None:
    m = rows.model("mixtral", table)
    ids = rl.tensor(table.ids_of(table.vocab_of(rows.metadata("mixtral")[0])))
    with rl.no_grad():
        plain = m(ids).numpy()
        rl.adapters.add_adapter(m, LoraConfig(target_modules=["gate"], init_lora_weights=False))
        out = m(ids).numpy()
        assert np.abs(out - plain).max() > 1e-3
        rl.adapters.merge_adapter(m)
        np.testing.assert_allclose(m(ids).numpy(), out, **CLOSE)


def test_a_tied_table_is_not_merged(table: ModuleType) -> None:
    m = Row("dora", table).model()
    rl.adapters.add_adapter(m, LoraConfig(target_modules=["embed_tokens"]))
    with pytest.raises(ValueError, match="embed_tokens.weight is another layer's weight too"):
        rl.adapters.merge_adapter(m)
    with pytest.raises(ValueError, match="is the weight of the head too"):
        config = LoraConfig(target_modules=["q_proj"], modules_to_save=["embed_tokens"])
        rl.adapters.add_adapter(Row("dora", table).model(), config)


# --- tables and heads that adapters carry -------------------------------------------------------


def _tied(table: ModuleType) -> tuple[Any, Row]:
    row = Row("lora-tokens-tied", table)
    return row.model(), row


def test_a_table_that_was_resized_is_the_adapters(table: ModuleType) -> None:
    """As PEFT saves it: embedding and head with more rows, wrapped or not; gone once deleted."""
    m, row = _tied(table)
    names, plain = list(m.state_dict()), row.run(m)
    config = json.loads(row.adapter) | {"trainable_token_indices": None}
    lora = {n: t for n, t in row.tensors().items() if "lora" in n}
    width = m.model.embed_tokens.weight.shape[1]
    rows = np.concatenate([row.base("model.embed_tokens.weight"), np.ones((3, width), np.float32)])
    before = "base_model.model."
    for wrap in ("", "modules_to_save.", "modules_to_save.default."):
        more = {
            f"{before}model.embed_tokens.{wrap}weight": rl.tensor(rows),
            f"{before}lm_head.{wrap}weight": rl.tensor(rows * 2),
            f"{before}lm_head.original_module.weight": rl.tensor(rows),
        }
        rl.adapters.adapter_from(m, json.dumps(config).encode(), lora | more)
        assert m.vocab_size == len(rows) and row.run(m).shape[-1] == len(rows)
        hidden = m.hidden(rl.tensor([[len(rows) - 1]])).detach().numpy()
        with rl.no_grad():
            found = m(rl.tensor([[len(rows) - 1]])).numpy()
        np.testing.assert_allclose(found, hidden @ (rows * 2).T, rtol=1e-4, atol=1e-4)
        rl.adapters.delete_adapter(m, "default")
        assert list(m.state_dict()) == names and m.spec.tied and m.vocab_size == len(rows) - 3
        np.testing.assert_array_equal(row.run(m), plain)


def test_tokens_are_trained_alone(table: ModuleType) -> None:
    m, row = _tied(table)
    config = LoraConfig(r=2, target_modules=["q_proj"], trainable_token_indices=[23, 5])
    plain = row.run(m)
    rl.adapters.add_adapter(m, config)
    near(row.run(m), plain)
    trained = {n for n, p in m.named_parameters() if p.requires_grad}
    assert sum("trainable_tokens_delta" in n for n in trained) == 1
    m(rl.tensor([[23, 5, 1]])).sum().backward()
    own = m.model.embed_tokens.attached.default.trainable_tokens_delta
    assert own.grad is not None and own.grad.shape == own.shape and own.grad.abs().sum().item() > 0
    state = rl.adapters.adapter_state(m)
    assert sum("token_adapter.trainable_tokens_delta" in n for n in state) == 1
    rl.adapters.delete_adapter(m, "default")
    np.testing.assert_array_equal(row.run(m), plain)
    with pytest.raises(ValueError, match="must be different numbers below 131"):
        rl.adapters.add_adapter(
            m, LoraConfig(target_modules=["q_proj"], trainable_token_indices=[131])
        )
    assert m.spec.tied
    with pytest.raises(ValueError, match="there is no module 'nope'"):
        rl.adapters.add_adapter(
            m, LoraConfig(target_modules=["q_proj"], trainable_token_indices={"nope": [1]})
        )
    assert m.spec.tied


def test_keys_that_peft_does_not_read_are_ignored(table: ModuleType) -> None:
    """An unknown key is ignored; one that PEFT reads is refused unless it changes nothing."""
    row = Row("lora", table)
    known = json.loads(row.adapter)
    m = row.model()
    more = {
        "trained_by": "someone",
        "r_max": [1],
        "notes": {"a": True},
        "use_qalora": False,
        "layer_replication": None,
        "corda_config": {},
        "target_parameters": [],
    }
    rl.adapters.adapter_from(m, json.dumps(known | more).encode(), row.tensors())
    near(row.run(m), row.out)
    rl.adapters.delete_adapter(m, "default")
    for key, value in (
        ("use_qalora", True),
        ("layer_replication", [[0, 2]]),
        ("use_bdlora", {}),
        ("alora_invocation_tokens", [1]),
        ("arrow_config", {"top_k": 1}),
        ("kasa_config", {}),
        ("velora_config", {"a": 1}),
    ):
        with pytest.raises(rl.FormatError, match=f"{key} is .* is not supported; supported: "):
            rl.adapters.adapter_from(m, json.dumps(known | {key: value}).encode(), row.tensors())


def test_kinds_say_what_they_lack(table: ModuleType) -> None:
    """VeRA without its matrices, AdaLoRA's patterns, rotations of another size."""
    row = Row("vera", table)
    m, tensors = row.model(), row.tensors()
    own = {n: t for n, t in tensors.items() if ".vera_A" not in n and ".vera_B" not in n}
    with pytest.raises(rl.LoadError, match="PEFT draws at random where save_projection is false"):
        rl.adapters.adapter_from(m, row.adapter, own)
    assert rl.adapters.adapters(m) == {}
    with pytest.raises(ValueError, match="new adapters are not supported"):
        rl.adapters.add_adapter(m, rl.adapters.VeraConfig(r=4, target_modules=["q_proj"]))
    row = Row("adalora", table)
    config, tensors = json.loads(row.adapter), row.tensors()
    name = next(n for n in tensors if n.endswith("q_proj.lora_E"))
    path = name.removeprefix("base_model.model.")
    kept = [True, False, True, True, False]
    pattern = {path: kept}
    for part in "AE":
        one = name[:-1] + part
        tensors[one] = tensors[one][rl.tensor(kept)]
    tensors[name[:-1] + "B"] = tensors[name[:-1] + "B"][:, rl.tensor(kept)]
    m = row.model()
    data = json.dumps(config | {"rank_pattern": pattern}).encode()
    rl.adapters.adapter_from(m, data, tensors)
    layer = m.get_submodule(path.removesuffix(".lora_E"))
    assert layer.attached.default.lora_E.shape == (3, 1)
    with pytest.raises(rl.FormatError, match="no booleans"):
        data = json.dumps(config | {"rank_pattern": {path: [1, 2]}}).encode()
        rl.adapters.adapter_from(row.model(), data, tensors)
    row = Row("oft", table)
    for changes, message in (
        ({"oft_block_size": 7}, "oft_block_size 7 of"),
        ({"coft": True}, "co"),
        ({"r": "x"}, "r is 'x'; it must be a whole number"),
    ):
        data = json.dumps(json.loads(row.adapter) | changes).encode()
        with pytest.raises((rl.LoadError, rl.FormatError), match=message):
            rl.adapters.adapter_from(row.model(), data, row.tensors())
