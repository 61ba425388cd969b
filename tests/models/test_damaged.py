"""Checkpoints that cannot be are refused by the key and its value, before they cost anything."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.families import families
from rushlight.models.families.text.llama import Config
from rushlight.models.find_config import completed, find_config
from rushlight.models.hub.names import UnknownModelError
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.loading import assemble, from_gguf

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 8,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "tie_word_embeddings": True,
}
METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 16,
    "llama.feed_forward_length": 16,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 2,
    "llama.context_length": 32,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
    "llama.rope.dimension_count": 8,
}
PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def tensors(layer: str = "blk.{}.", *, gguf: bool = True, layers: int = 2) -> dict[str, rl.Tensor]:
    """Tensors of the model above, by the names of a GGUF file or of a checkpoint."""
    found = {
        "token_embd.weight" if gguf else "model.embed_tokens.weight": rl.ones(8, 16),
        "output_norm.weight" if gguf else "model.norm.weight": rl.ones(16),
    }
    for i in range(layers):
        for theirs, ours in PARTS.items():
            name = layer.format(i) + (theirs if gguf else ours)
            found[f"{name}.weight"] = rl.ones(16) if "norm" in name else rl.ones(16, 16)
    return found


def config(**changes: Any) -> dict[str, bytes]:
    return {"config.json": json.dumps({**CONFIG, **changes}).encode()}


def checkpoint() -> dict[str, rl.Tensor]:
    return tensors("model.layers.{}.", gguf=False)


def test_the_undamaged_ones_load() -> None:
    assert isinstance(from_gguf(METADATA, tensors()).config, Config)
    assert isinstance(assemble(config(), checkpoint()).config, Config)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rope.freq_base", 0.0, "is 0.0, out of range"),
        ("rope.freq_base", float("nan"), "is nan, out of range"),
        ("rope.freq_base", "10000", "is '10000'; it must be of type float"),
        ("attention.head_count_kv", True, "is True; it must be of type int"),
        ("attention.head_count", np.array([2, 2]), r"is array\(\[2, 2\]\); it must be of type int"),
        ("block_count", 2.0, "is 2.0; it must be of type int"),
        ("embedding_length", [[1, "a"]], r"is \[\[1, 'a'\]\]; it must be of type int"),
        ("attention.key_length", 1 << 24, "is 16777216, out of range"),
        ("rope.dimension_count", 4, "is 4, which differs from a head's 8 features"),
        ("rope.dimension_count", 8.0, "is 8.0, which differs"),
        ("rope.scaling.type", ["linear"], r"is \['linear'\], which is not supported"),
        (
            "rope.scaling.type",
            "ntk",
            "is 'ntk', which is not supported; supported: none, linear, yarn",
        ),
        ("block_count", 3, "is 3, but the file has tensors of 2 layers"),
        ("block_count", 1, "is 1, but the file has tensors of 2 layers"),
    ],
)
def test_a_value_of_a_gguf_file_is_named_with_its_key(key: str, value: Any, message: str) -> None:
    with pytest.raises(rl.FormatError, match=f"^llama.{key}(?:.factor)? {message}"):
        from_gguf({**METADATA, f"llama.{key}": value}, tensors())


@pytest.mark.parametrize("key", ["block_count", "attention.head_count", "feed_forward_length"])
def test_a_key_that_a_gguf_file_lacks_is_named(key: str) -> None:
    fewer = {k: v for k, v in METADATA.items() if k != f"llama.{key}"}
    with pytest.raises(rl.FormatError, match=f"the metadata has no llama.{key}"):
        from_gguf(fewer, tensors())


def test_other_values_of_a_gguf_file() -> None:
    with pytest.raises(LoadError, match=r"general.architecture array\(\[0, 1\]\) is not supported"):
        from_gguf({**METADATA, "general.architecture": np.arange(2)}, tensors())
    with pytest.raises(
        rl.FormatError, match=r"tokenizer.ggml.model is array\(\[0\]\), not of type"
    ):
        from_gguf({**METADATA, "tokenizer.ggml.model": np.zeros(1, int)}, tensors())
    scaled = {**METADATA, "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": "2"}
    with pytest.raises(rl.FormatError, match=r"llama.rope.scaling.factor is '2'; it must be"):
        from_gguf(scaled, tensors())
    words = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": list("abcdefghi")}
    with pytest.raises(rl.FormatError, match="tokens has 9 entries, more than the 8 rows of token"):
        from_gguf({**METADATA, **words}, tensors())


@pytest.mark.parametrize("shape", [(0, 16), (0,), (), (4, 4, 16)])
def test_a_projection_that_has_no_rows(shape: tuple[int, ...]) -> None:
    with pytest.raises(rl.FormatError, match="of shape .* does not divide into 2 heads of pairs"):
        from_gguf(METADATA, {**tensors(), "blk.0.attn_q.weight": rl.ones(*shape)})


@pytest.mark.parametrize("shape", [(4, 4), (1 << 17,)])
def test_frequencies_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(rl.FormatError, match="rope_freqs.weight is float32 of shape"):
        from_gguf(METADATA, {**tensors(), "rope_freqs.weight": rl.ones(*shape)})


@pytest.mark.parametrize("layers", [256, 1024])
def test_layers_without_tensors_are_not_built(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: Any) -> None:
        raise AssertionError("a layer was built")

    monkeypatch.setattr(DecoderLayer, "__init__", build)
    with pytest.raises(rl.FormatError, match=f"llama.block_count is {layers}, but"):
        from_gguf({**METADATA, "llama.block_count": layers}, tensors())
    with pytest.raises(LoadError, match=f"num_hidden_layers is {layers}, but the .* only 20"):
        assemble(config(num_hidden_layers=layers), checkpoint())


def test_names_that_do_not_fit_are_told_in_linear_time(
    count_steps: Callable[[Callable[[], object]], int],
) -> None:
    """Each name that is told looks for the nearest ones, so only those that are shown do."""

    def told(n: int) -> int:
        module = nn.ModuleList([nn.Linear(1, 1) for _ in range(n)])
        given = {f"layer{i}.w": rl.ones(1, 1) for i in range(n)}

        def run() -> None:
            with pytest.raises(LoadError, match="more like these"):
                module.load_state_dict(given)

        return count_steps(run)

    assert told(200) < 5 * told(50)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_theta": 0}, "rope_theta is 0, out of range"),
        ({"rope_theta": -1.0}, "rope_theta is -1.0, out of range"),
        ({"rope_theta": float("nan")}, "rope_theta is nan, out of range"),
        ({"rope_parameters": {"rope_theta": 0.0}}, "rope_theta is 0.0; it must be a number from 1"),
        ({"rope_parameters": {"rope_theta": "1"}}, "rope_theta is '1'; it must be a number from 1"),
        ({"rms_norm_eps": 10**400}, "rms_norm_eps is 10+.*, out of range"),
        ({"rms_norm_eps": -1e-5}, "rms_norm_eps is -1e-05, out of range"),
        ({"vocab_size": 1e9}, "vocab_size is 1000000000.0; it must be of type int"),
        ({"head_dim": 1 << 24}, "head_dim is 16777216, out of range"),
        (
            {"hidden_size": 1 << 28, "num_attention_heads": 1, "num_key_value_heads": 1},
            "head_dim 268435456 is out of range",
        ),
    ],
)
def test_a_number_of_config_json_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.FormatError, match=f"config.json: {message}"):
        assemble(config(**changes), checkpoint())


@pytest.mark.parametrize("named", [5, {"a": 1}, [], ["LlamaForCausalLM"] * 2, [["x"]]])
def test_architectures_of_another_kind(named: Any) -> None:
    if not named or named == ["LlamaForCausalLM"] * 2:  # one that is known is enough
        assemble(config(architectures=named), checkpoint())
        return
    with pytest.raises(LoadError, match="config.json: architecture .* is not supported"):
        assemble(config(architectures=named), checkpoint())


def test_a_dropout_that_cannot_be() -> None:
    bert = {
        "model_type": "bert",
        "vocab_size": 8,
        "hidden_size": 4,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 4,
        "hidden_dropout_prob": 1.1,
    }
    with pytest.raises(rl.FormatError, match="hidden_dropout_prob is 1.1, out of range"):
        assemble({"config.json": json.dumps(bert).encode()}, {"w": rl.ones(1)})


def test_a_whole_number_is_a_float_too() -> None:
    m = assemble(config(rope_theta=10**9), checkpoint())
    assert m.config.rope_theta == 10**9


# --- folders and names ---------------------------------------------------------------------------


@pytest.mark.native
def test_a_folder_is_not_searched_for_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for place in ("many.json", "deep/one.json", "deep/er/two.json", "deep/er/config.json"):
        (tmp_path / place).write_text("[" * 100)
    read: list[str] = []
    read_bytes = Path.read_bytes

    def noted(self: Path) -> bytes:
        read.append(self.name)
        return read_bytes(self)

    monkeypatch.setattr(Path, "read_bytes", noted)
    with pytest.raises(LoadError, match="lack config.json"):
        rl.models.load(tmp_path)
    assert read == []
    (tmp_path / "config.json").write_bytes(config()["config.json"])
    save_safetensors(checkpoint(), tmp_path / "model.safetensors")
    rl.models.load(tmp_path)
    assert read == ["config.json"]


@pytest.mark.native
def test_a_file_of_a_folder_lies_in_it(tmp_path: Path) -> None:
    from rushlight.core.io.hub.folder import SmallFiles

    (tmp_path / "model").mkdir()
    (tmp_path / "config.json").write_text("{}")
    files = SmallFiles(tmp_path / "model")
    os.mkfifo(tmp_path / "model" / "pipe.json")
    with (tmp_path / "model" / "large.json").open("wb") as large:
        large.truncate((64 << 20) + 1)
    for name in (
        "../config.json",
        str(tmp_path / "config.json"),
        "a\0.json",
        "x" * 300 + ".json",
        "pipe.json",
        "model.bin",
    ):
        assert name not in files and files.get(name) is None
    with pytest.raises(rl.FormatError, match="large.json has more than 67108864 bytes"):
        files["large.json"]
    assert list(files) == ["large.json"] and len(files) == 1


@pytest.mark.native
@pytest.mark.parametrize("name", ["~nosuchuser", "a/..", "a/.b", "a\0b", "x" * 5000, "a--b/c"])
def test_a_name_that_nothing_has(name: str) -> None:
    with pytest.raises(UnknownModelError, match="is not supported, and no folder has that name"):
        rl.models.load(name)


@pytest.mark.native
@pytest.mark.parametrize("shard", ["x" * 300 + ".safetensors", "\ud800.safetensors"])
def test_a_shard_whose_name_no_file_can_have(shard: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(config()["config.json"])
    index = {"weight_map": {"model.norm.weight": shard}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(
        rl.FormatError, match='tensor "model.norm.weight" should be in .*, which is'
    ):
        rl.models.load(tmp_path)


def test_shapes_that_a_reader_of_tensors_trips_over_are_named() -> None:
    """A family that its tensors tell reads no shapes of one number, or says so: nothing else."""
    accidents = 0
    for told in families("tensors"):
        try:
            find_config(completed({}, {told: rl.tensor(1.0)}), {told: rl.tensor(1.0)})
        except LoadError as error:
            accidents += "no configuration follows" in str(error)
        except FormatError:
            continue
    assert accidents >= 3
