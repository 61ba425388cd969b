"""Checkpoints as tools leave them: prefixes, tied weights stored twice, heads, spare tensors."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.generation.generate import CausalLM

DATA = Path(__file__).parent / "data"
Tensors = dict[str, rl.Tensor]
# What tools put before names: the model is an attribute of something, or wrapped.
PREFIXES = ("_orig_mod.", "module.", "module._orig_mod.", "model.", "base_model.model.",
            "language_model.", "transformer.", "net.", "learner.")  # fmt: skip
# Strict in the library that writes them, and told by their names.
STRICT = ("-timm", "-torchvision")


def load(config: dict[str, Any], tensors: Tensors) -> Any:
    own = "open_clip_config.json" if "model_cfg" in config else "config.json"
    return rl.models.assemble({own: json.dumps(config).encode()} if config else {}, tensors)


def text_row(table: ModuleType, row: str) -> tuple[dict[str, Any], Tensors]:
    """config.json and the tensors of a row of the table of families."""
    found = open_tables(DATA / "families" / f"{row}.safetensors")[0][1].metadata
    names = json.loads(found["names"])
    return json.loads(found["config"]), {
        n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()
    }


def image_row(vision: ModuleType, row: str) -> tuple[dict[str, Any], Tensors]:
    """config.json and the tensors of a row of the table of image families."""
    path = DATA / "vision" / f"{row}.safetensors"
    found = open_tables(path)[0][1].metadata
    tensors = {
        n: rl.tensor(vision.values_of(n, tuple(shape)))
        for n, shape in vision.names_of(found["names"]).items()
    }
    given = {n: t for n, t in load_safetensors(path).items() if n.startswith("given:")}
    return json.loads(found["config"]), tensors | {
        n.removeprefix("given:"): t for n, t in given.items()
    }


def assert_same(found: Any, wanted: Any) -> None:
    """Both models have the same parameters, so they compute the same."""
    a, b = found.state_dict(), wanted.state_dict()
    if any(name.startswith("swin.") for name in a):  # a backbone may have it or not
        a, b = ({n.removeprefix("swin."): t for n, t in one.items()} for one in (a, b))
    assert a.keys() == b.keys(), sorted(a.keys() ^ b.keys())
    for name in a:
        np.testing.assert_array_equal(a[name].numpy(), b[name].numpy(), err_msg=name)


def prefix_of(row: str) -> str:
    return PREFIXES[zlib.crc32(row.encode()) % len(PREFIXES)]


def check_names(row: str, config: dict[str, Any], tensors: Tensors, caplog: Any) -> None:
    plain = load(config, tensors)
    assert_same(load(config, {prefix_of(row) + n: t for n, t in tensors.items()}), plain)
    inside = {}
    for name, t in tensors.items():
        parts = name.split(".")
        parts.insert(len(parts) // 2, "_orig_mod")
        inside[".".join(parts)] = t
    assert_same(load(config, inside), plain)
    if row.endswith(STRICT):
        return
    spare = {
        "vision_tower.blocks.0.attn.weight": rl.ones(2, 2),
        "loss_fn.weight": rl.ones(1),
        "vision_tower.blocks.1.attn.weight": rl.ones(2, 2),
    }
    caplog.clear()
    assert_same(load(config, tensors | spare), plain)
    told = [r.message for r in caplog.records if "not used" in r.message]
    assert len(told) == 1 and told[0].startswith("3 tensors of the checkpoint are not used: ")
    assert "vision_tower (2)" in told[0] and "loss_fn" in told[0]


def test_prefixes_and_spare_tensors(
    row: str, table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    check_names(row, *text_row(table, row), caplog)


def test_prefixes_and_spare_tensors_of_image_families(
    vision: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    kinds: dict[str, str] = {}
    for row, (library, name, settings, _) in vision.ROWS.items():  # the first of each kind
        kinds.setdefault(library + settings.get("model_type", name.partition("_")[0]), row)
    for row in kinds.values():
        check_names(row, *image_row(vision, row), caplog)


def test_every_prefix(table: ModuleType) -> None:
    for row in ("llama", "bert", "t5", "whisper"):
        config, tensors = text_row(table, row)
        plain = load(config, tensors)
        for prefix in PREFIXES:
            assert_same(load(config, {prefix + n: t for n, t in tensors.items()}), plain)


def test_wrapped_names_beside_plain_ones(table: ModuleType) -> None:
    """Averaged weights under `module.` lie beside a count; plain names are the model's."""
    config, tensors = text_row(table, "llama")
    plain = load(config, tensors)
    averaged = {f"module.{n}": t for n, t in tensors.items()} | {"n_averaged": rl.tensor(3)}
    assert_same(load(config, averaged), plain)
    other = {f"module.{n}": t + 1 for n, t in tensors.items()}
    assert_same(load(config, tensors | other), plain)
    assert_same(load(config, other | tensors), plain)


def test_two_models_under_names_of_their_own_are_not_told_apart(table: ModuleType) -> None:
    config, tensors = text_row(table, "llama")
    both = {f"{who}.{n}": t for who in ("student", "teacher") for n, t in tensors.items()}
    with pytest.raises(rl.LoadError, match='twice, under "student." and "teacher."'):
        load(config, both)


@pytest.mark.parametrize("names", ["language_model.{}", "model.language_model.{}"])
def test_the_text_of_a_multimodal_checkpoint(
    names: str, table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """`model.layers` or `layers` below it; the head lies there or on top."""
    config, tensors = text_row(table, "llama")
    plain = load(config, tensors)
    seen = {
        f"vision_tower.encoder.layers.{i}.self_attn.q_proj.weight": rl.ones(48, 48)
        for i in range(3)
    }
    seen |= {"multi_modal_projector.linear_1.weight": rl.ones(3, 3)}
    for head in ("lm_head.weight", "language_model.lm_head.weight"):
        below = {
            names.format(n if names[0] == "l" else n.removeprefix("model.")): t
            for n, t in tensors.items()
            if n != "lm_head.weight"
        }
        caplog.clear()
        assert_same(load(config, seen | below | {head: tensors["lm_head.weight"]}), plain)
        assert "4 tensors of the checkpoint are not used: vision_tower (3), multi" in caplog.text


# --- weights that are stored twice -----------------------------------------------------------


def stored_name(tensors: Tensors, name: str) -> str:
    return next(n for n in tensors if n == name or n.endswith(f".{name}"))


def test_a_tied_weight_that_is_stored_as_well(
    row: str, table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """Equal values are one tensor; others are the stored name's own, which is said."""
    config, tensors = text_row(table, row)
    plain = load(config, tensors)
    params = plain.state_dict()
    for name, same in plain.duplicates.items():
        if not same or name in params:
            continue
        own = same if same in params else same.partition(".")[2]
        values = params[own]
        assert_same(load(config, tensors | {name: values.clone()}), plain)
        without = {n: t for n, t in tensors.items() if n != stored_name(tensors, own)}
        assert_same(load(config, without | {name: values}), plain)
        caplog.clear()
        m = load(config, tensors | {name: values + 1})
        assert "different values, so they are not tied" in caplog.text
        found = m.state_dict()
        taker = name if name in found else own
        np.testing.assert_array_equal(found[taker].numpy(), (values + 1).numpy())
        if name.endswith("weight"):
            np.testing.assert_array_equal(found[own].numpy(), values.numpy())


@pytest.mark.parametrize(
    "name", ["llama-biases", "gpt2", "bloom", "cohere", "replit", "t5", "bart", "whisper", "mamba"]
)
def test_logits_come_from_a_head_of_its_own(name: str, table: ModuleType, rows: ModuleType) -> None:
    """Twice the weight gives twice the logits; hidden states are as before."""
    config, tensors = text_row(table, name)
    plain, inputs = load(config, tensors), rows.given(name, table)
    head = next(n for n in plain.duplicates if n.startswith(("lm_head", "proj_out")))
    own = stored_name(tensors, plain.duplicates[head])
    twice = load(config, tensors | {head: 2 * tensors[own]})
    expected = 2 * rows.run(plain, *inputs)
    if "final_logits_bias" in tensors:
        expected -= tensors["final_logits_bias"].numpy()
    np.testing.assert_allclose(rows.run(twice, *inputs), expected, rtol=1e-5, atol=1e-5)
    saved = json.loads(twice.files["config.json"])
    assert saved["model_type"] == config["model_type"]


def test_a_head_of_its_own_is_saved(table: ModuleType, rows: ModuleType, tmp_path: Path) -> None:
    for name in ("llama-biases", "t5", "whisper"):
        config, tensors = text_row(table, name)
        plain = load(config, tensors)
        head = next(n for n in plain.duplicates if n.startswith(("lm_head", "proj_out")))
        own = stored_name(tensors, plain.duplicates[head])
        m = load(config, tensors | {head: tensors[own] + 1})
        m.save_pretrained(tmp_path / name)
        again = rl.models.load(tmp_path / name)
        inputs = rows.given(name, table)
        np.testing.assert_array_equal(rows.run(again, *inputs), rows.run(m, *inputs))


def test_the_head_of_masked_words(table: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """Its bias is stored under two names, its weight beside the embedding."""
    config, tensors = masked_words(table)
    words, decoder = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder."
    plain = load(config, tensors)
    ids = rl.tensor([[3, 1, 4]])
    with rl.no_grad():
        first = plain.logits(ids).numpy()
    both = {f"{decoder}weight": tensors[words], f"{decoder}bias": tensors["cls.predictions.bias"]}
    assert_same(load(config, tensors | both), plain)
    assert "not tied" not in caplog.text
    own = {f"{decoder}weight": tensors[words] * 2, f"{decoder}bias": rl.zeros(50)}
    for order in (list(own), list(own)[::-1]):
        m = load(config, tensors | {n: own[n] for n in order})
        with rl.no_grad():
            expected = 2 * (first - tensors["cls.predictions.bias"].numpy())
            np.testing.assert_allclose(m.logits(ids).numpy(), expected, rtol=1e-5, atol=1e-5)
    bias = load(config, tensors | {f"{decoder}bias": tensors["cls.predictions.bias"] + 1})
    with rl.no_grad():
        np.testing.assert_allclose(bias.logits(ids).numpy(), first + 1, rtol=1e-5, atol=1e-5)


def masked_words(table: ModuleType) -> tuple[dict[str, Any], Tensors]:
    """A BertForMaskedLM of the table's BERT."""
    config, tensors = text_row(table, "bert")
    wide, vocab = config["hidden_size"], config["vocab_size"]
    shapes = {
        "transform.dense.weight": (wide, wide),
        "transform.dense.bias": (wide,),
        "transform.LayerNorm.weight": (wide,),
        "transform.LayerNorm.bias": (wide,),
        "bias": (vocab,),
    }
    head = {f"cls.predictions.{n}": rl.tensor(table.values_of(n, s)) for n, s in shapes.items()}
    base = {n if n.startswith("bert.") else f"bert.{n}": t for n, t in tensors.items()}
    return config | {"architectures": ["BertForMaskedLM"]}, base | head


# --- heads -------------------------------------------------------------------------------------


def test_language_models_without_their_head(
    row: str, table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """A base model as transformers saves it: other names, no head. It loads, and says so."""
    config, tensors = text_row(table, row)
    plain = load(config, tensors)
    spec = getattr(plain, "spec", None)
    if not isinstance(plain, CausalLM) or getattr(spec, "tied", True):
        return
    assert spec is not None
    head = f"{spec.names.head}."
    kept = {n: t for n, t in tensors.items() if not n.startswith(head)}
    if len(kept) == len(tensors):  # a head with a name of its own
        return
    config["tie_word_embeddings"] = False
    base = f"{spec.names.base.partition('.')[0]}."
    bare = {n.removeprefix(base): t for n, t in kept.items()}
    if head.startswith(base):  # a class that has no other below it
        with pytest.raises(rl.LoadError, match=f"no tensor .{head}weight"):
            load(config, kept)
        return
    for names in (kept, bare):
        caplog.clear()
        m = load(config, names)
        assert f"the checkpoint has no {head}weight" in caplog.text
        assert m.tasks == ("feature-extraction",) and "text-generation" in m.lacking
        found = plain.state_dict()
        for name, t in m.state_dict().items():
            np.testing.assert_array_equal(t.numpy(), found[name].numpy())
        with pytest.raises(rl.LoadError, match=f"no tensor .{head}weight"):
            rl.pipeline("text-generation", m)
        with pytest.raises(rl.LoadError, match=f"no {head}weight"):
            m(rl.tensor([[1, 2]]))


def test_image_models_without_their_head(
    vision: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    seen = 0
    for row, (library, *_) in vision.ROWS.items():
        if library != "transformers":
            continue
        config, tensors = image_row(vision, row)
        if not str(config.get("architectures")).endswith("ForImageClassification']"):
            continue
        caplog.clear()
        heads = ("classifier", "cls_class", "fc.", "head.", "dist_head.")
        kept = {n: t for n, t in tensors.items() if not n.startswith(heads)}
        m = load(config, kept)
        assert "it is loaded without its head" in caplog.text and "image-class" in caplog.text, row
        with pytest.raises(rl.LoadError, match="image-classification: the checkpoint has"):
            rl.pipeline("image-classification", m)
        seen += 1
    assert seen > 10


# --- folders -----------------------------------------------------------------------------------


@pytest.mark.native
def test_what_lies_beside_the_weights(table: ModuleType, tmp_path: Path) -> None:
    """Adapters, states of optimizers, files in other dtypes and of PyTorch are left alone."""
    config, tensors = text_row(table, "llama")
    plain = load(config, tensors)
    other = {n: t + 1 for n, t in tensors.items()}
    (tmp_path / "config.json").write_text(json.dumps(config))
    beside = (
        "adapter_model.safetensors",
        "optimizer.bin",
        "optimizer.pt",
        "training_args.bin",
        "scheduler.pt",
        "rng_state_0.pth",
        "optimizer_0.bin",
    )
    for name in beside:
        rl.save(other, tmp_path / name)
    for name in ("model.fp16.safetensors", "model.fp32.safetensors", "model.safetensors"):
        rl.save(tensors, tmp_path / name)
        assert_same(rl.models.load(tmp_path), plain)
        rl.save(other, tmp_path / name)  # the next one comes first
    (tmp_path / "model.safetensors").unlink()
    for name in ("model.fp16.safetensors", "model.fp32.safetensors"):
        (tmp_path / name).unlink()
    rl.save(tensors, tmp_path / "pytorch_model.bin")
    assert_same(rl.models.load(tmp_path), plain)


@pytest.mark.native
def test_an_index_that_is_out_of_date(table: ModuleType, tmp_path: Path) -> None:
    """A tensor may be in another shard than the index says; one in no shard is named."""
    config, tensors = text_row(table, "llama")
    plain, names = load(config, tensors), sorted(tensors)
    (tmp_path / "config.json").write_text(json.dumps(config))
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for i, shard in enumerate(shards):
        rl.save({n: tensors[n] for n in names[i::2]}, tmp_path / shard)
    places = {n: shards[i < 5] for i, n in enumerate(names[:-3])}  # wrong, and three are left out
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    assert_same(rl.models.load(tmp_path), plain)
    index.write_text(json.dumps({"weight_map": places | {"model.x.weight": shards[0]}}))
    with pytest.raises(rl.FormatError, match=r'"model.x.weight" should be in model-00001'):
        rl.models.load(tmp_path)
    rl.save(tensors, tmp_path / "model.safetensors")  # which comes before an index
    assert_same(rl.models.load(tmp_path), plain)


@pytest.mark.native
@pytest.mark.parametrize("key", ["state_dict", "model", "model_state_dict", "module"])
def test_checkpoints_of_trainers(key: str, table: ModuleType, tmp_path: Path) -> None:
    """The state dict lies in what a trainer saves, with the prefix of the trainer's own module."""
    config, tensors = text_row(table, "bert")
    plain = load(config, tensors)
    (tmp_path / "config.json").write_text(json.dumps(config))
    for prefix in ("", "model.", "module.", "net.bert."):
        state = {prefix + n: t for n, t in tensors.items()}
        if key == "state_dict":
            state |= {"loss_fn.pos_weight": rl.ones(2)}
        saved = {
            "epoch": 3,
            key: state,
            "optimizer": {"state": {0: {"step": rl.ones(1)}}},
            "hyper_parameters": {"lr": 0.1},
        }
        rl.save(saved, tmp_path / "last.pt")
        assert_same(rl.models.load(tmp_path), plain)


@pytest.mark.parametrize("name", ["whisper", "wav2vec2", "vit"])
def test_float64_of_what_hears_and_sees_is_cast(
    name: str, table: ModuleType, vision: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """Samples and pixels are float32; a dtype that the caller names stays."""
    config, tensors = image_row(vision, name) if name == "vit" else text_row(table, name)
    wide = {n: t.to(dtype="float64") if t.dtype.kind == "f" else t for n, t in tensors.items()}
    assert_same(load(config, wide), load(config, tensors))
    assert "in float64 are cast to float32" in caplog.text
    m = rl.models.assemble({"config.json": json.dumps(config).encode()}, wide, dtype="float64")
    assert {p.dtype.name for p in m.parameters()} == {"float64"}
