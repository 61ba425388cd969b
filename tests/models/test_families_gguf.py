"""Every family that GGUF knows: its file gives the published logits here and in llama.cpp."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables, save_safetensors
from rushlight.models.families import families
from rushlight.models.families.text import gemma3n
from rushlight.models.gguf.quantize import dequantize
from rushlight.models.loading import from_gguf

Array = npt.NDArray[Any]
DATA = Path(__file__).parent / "data" / "families"
# Rows that a GGUF file can say, one or more for each family with names of GGUF.
ROWS = (
    "llama", "llama-biases", "qwen2", "qwen2-yarn", "qwen3", "qwen2_moe", "qwen3_moe", "olmoe",
    "gemma", "gemma2-gguf", "gemma3-gguf", "phi", "phi3", "starcoder2", "stablelm",
    "olmo", "olmo2", "granite", "cohere", "smollm3", "ernie4_5", "exaone4-full", "hunyuan",
    "stablelm-norms", "mistral-yarn", "mixtral-tied", "gpt2", "gpt_bigcode", "gpt_neox", "bloom",
    "falcon", "mpt", "glm4", "mamba", "mamba2", "gpt_oss-gguf", "llama4-gguf",
    "cohere2-gguf", "chatglm-gguf", "granitemoe", "granitemoe-biases",
    "lfm2", "falcon_h1", "deepseek_v2", "deepseek_v2-gguf", "deepseek_v3", "deepseek_v3-gguf",
    "gemma3n-gguf",
)  # fmt: skip
pytestmark = pytest.mark.native


def folder(row: str, table: ModuleType, place: Path) -> Path:
    """The checkpoint of a row of the table."""
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    shapes = json.loads(found["names"])
    place.mkdir()
    save_safetensors(
        {name: rl.tensor(table.values_of(name, tuple(shape))) for name, shape in shapes.items()},
        place / "model.safetensors",
    )
    (place / "config.json").write_text(found["config"])
    return place


def test_every_family_with_names_of_gguf_is_here(table: ModuleType) -> None:
    known = {families()[table.ROWS[row][1]["model_type"]] for row in ROWS}
    assert known == set(families("GGUF_TYPES").values())


@pytest.mark.parametrize("known", ROWS)
def test_the_file_gives_the_published_logits(
    known: str, table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    file = tmp_path / f"{known}.gguf"
    dequantize(folder(known, table, tmp_path / "model"), file, type="f32")
    golden = load_safetensors(DATA / f"{known}.safetensors")["out"].numpy()
    ids = table.ids_of(golden.shape[-1])
    m = rl.models.load(file)
    with rl.no_grad():
        np.testing.assert_allclose(m(rl.tensor(ids)).numpy(), golden, rtol=1e-4, atol=5e-5)
    most = np.abs(golden).max()
    with llama_cpp.model(file, context=64) as theirs:
        found = np.abs(theirs.logits(ids[0]) - golden[0, -1]).max() / most
    # ggml's GELU is a table of float16.
    assert found < (3e-3 if "gelu" in str(vars(m.config).get("hidden_act")) else 1e-3)


@pytest.mark.parametrize(
    ("known", "lost"),
    [
        ("qwen2-windows", r"its layers\[1\].attention.window is 4, .* qwen2 means None"),
        ("qwen3-biases", "scaled by 'dynamic' cannot be written"),
        ("starcoder2-window", r"its layers\[0\].attention.window is 4, .* starcoder2 means None"),
        ("gemma2", r"its layers\[0\].attention.scale is 0.204.*, .* gemma2 means 0.316"),
        ("smollm3-windows", "cannot be written"),
        ("mpt-clipped", r"its layers\[0\].attention.scale is 0.5, .* mpt means None"),
        ("glm", "its names.after_attention is None, .* glm4 means post_self"),
        ("opt", "opt cannot be written as GGUF; supported: "),
        ("hunyuan-tied", r"its layers\[0\].attention.bias is True, .* hunyuan-dense means False"),
        ("gpt2-layers", r"its layers\[0\].attention.scale is 0.28.*, .* gpt2 means None"),
        ("gpt_bigcode-heads", r"attention.kv_heads is 4, .* starcoder means 1"),
        ("falcon_h1-norms", "in_proj.bias' has no name in GGUF"),
        ("gemma3n", "its streams, features, rank, active and correct scale is"),
        ("deepseek_v2-groups", "biases cannot be written as GGUF of deepseek2"),
        ("deepseek_v3-halves", "interleaved is False, .* deepseek2 means True"),
        ("mixtral", r"its layers\[0\].attention.window is 4, .* llama means None"),
    ],
)
def test_what_gguf_cannot_say_is_refused(
    known: str, lost: str, table: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(rl.LoadError, match=lost):
        dequantize(folder(known, table, tmp_path / "model"), tmp_path / "x.gguf", type="f32")
    assert not list(tmp_path.glob("*.gguf"))


def test_positions_that_llama_cpp_would_lose_are_refused(table: ModuleType, tmp_path: Path) -> None:
    made = folder("falcon_h1", table, tmp_path / "model")
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    config["rope_parameters"] |= {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }  # fmt: skip
    (made / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(rl.LoadError, match="'llama3' cannot be written as GGUF of falcon-h1"):
        dequantize(made, tmp_path / "x.gguf", type="f32")


def test_older_files_have_the_latents_projection_in_one(table: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    dequantize(folder("deepseek_v2", table, tmp_path / "model"), file, type="f32")
    tensors, metadata = load_gguf(file)
    golden = load_safetensors(DATA / "deepseek_v2.safetensors")["out"].numpy()
    for layer in range(3):
        k, v = (tensors.pop(f"blk.{layer}.attn_{n}_b.weight") for n in "kv")
        tensors[f"blk.{layer}.attn_kv_b.weight"] = rl.cat([k.transpose(1, 2), v], 1).reshape(-1, 16)
    key = "deepseek2.attention."
    metadata = {k: v for k, v in metadata.items() if not k.endswith("_mla")} | {
        f"{key}key_length": 14, f"{key}value_length": 9,
    }  # fmt: skip
    found = from_gguf(metadata, tensors)(rl.tensor(table.ids_of(golden.shape[-1])))
    np.testing.assert_allclose(found.detach().numpy(), golden, rtol=1e-4, atol=5e-5)
    half = {n: t for n, t in tensors.items() if "attn_kv_b" not in n} | {
        f"blk.{i}.attn_k_b.weight": rl.ones(4, 16, 8) for i in range(3)
    }
    with pytest.raises(rl.FormatError, match="k_b_proj.weight, but no .*v_b_proj"):
        from_gguf(metadata, half)


def test_layers_share_keys_as_in_llama_cpp(
    table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    # Its first ten layers have sparse gates by a spread over n - 1, which few gates would show.
    config = dict(table.ROWS["gemma3n-gguf"][1]) | {
        "num_hidden_layers": 21, "num_kv_shared_layers": 1, "intermediate_size": 56,
        "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 11,
    }  # fmt: skip
    quiet = re.compile(r"layers\.\d\.post_feedforward")
    shapes = {n: p.shape for n, p in gemma3n.build(dict(config), ()).named_parameters()}
    tensors = {n: table.values_of(n, s) * (not quiet.search(n)) for n, s in shapes.items()}
    # A checkpoint may hold keys that no layer reads.
    tensors["model.layers.20.self_attn.k_proj.weight"] = np.ones((20, 48), np.float32)
    made = tmp_path / "model"
    made.mkdir()
    save_safetensors({n: rl.tensor(t) for n, t in tensors.items()}, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps(config), encoding="utf-8")
    dequantize(made, tmp_path / "x.gguf", type="f32")
    ids = table.ids_of(131)
    with rl.no_grad():
        ours = rl.models.load(tmp_path / "x.gguf")(rl.tensor(ids)).numpy()[0, -1]
    with llama_cpp.model(tmp_path / "x.gguf", context=64) as theirs:
        assert np.abs(theirs.logits(ids[0]) - ours).max() < 1e-3 * np.abs(ours).max()
