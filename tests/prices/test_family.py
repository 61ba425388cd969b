"""The price of a decoder family that fits the skeleton: its file, its row, and what tools make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import save_safetensors

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("prices")]

Array = npt.NDArray[Any]
FILE = '''\
"""Toy: layer norms, attention and MLP side by side, no gate."""

from dataclasses import dataclass

from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.decoder import Decoder, DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import RotarySpec

NAMES, INSIDE = DecoderNames(before_mlp=None), MLPNames(up="fc1", down="fc2")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    model_type: str = "toy"


def build(config, names):
    """The model of a config.json, on the meta device."""
    c = read_config(Config, config, ("ToyForCausalLM",))
    head = c.hidden_size // c.num_attention_heads
    attention = AttentionSpec(
        c.num_attention_heads, c.num_attention_heads, head, rotary=RotarySpec(head)
    )
    layer = LayerSpec(attention, MLPSpec(c.intermediate_size, "relu", gated=False, names=INSIDE))
    return Decoder(c, DecoderSpec(
        c.vocab_size, c.hidden_size, c.max_position_embeddings, (layer,) * c.num_hidden_layers,
        norm=NormSpec("layer", 1e-5), parallel=True, tied=True, names=NAMES,
    ))


FAMILY = Family(
    model_types=("toy",), tasks=("text-generation", "chat"), base_prefix="model.",
    config=Config, build=build, gguf_types=("toy",),
    gguf=Architecture("toy", "ToyForCausalLM", decoder=NAMES, mlp=INSIDE),
)
'''
CONFIG = {
    "model_type": "toy",
    "architectures": ["ToyForCausalLM"],
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
}
ROW = f'''\
"""Rows of toy."""


def rows(t):
    return {{"toy": ("ToyForCausalLM", {CONFIG!r})}}
'''
# Those of transformers have goldens of changed keys, too.
PLACES = {
    "models/families/text/toy.py",
    "models/families/index.txt",
    "models/families/keys.txt",
    "models/families/measured.toml",
    "docs/models.md",
    "tests/models/families/toy.py",
    "tests/models/data/families/toy.safetensors",
}
# How tools/new_family.py begins a file, of a family with a key that its parent lacks.
BEGINS = """\
import sys
sys.path.insert(0, "tools")
import new_family
from rushlight.models.families import family_of, listed

file, row = new_family.begin("begun", "text", "llama", "BegunForCausalLM")
print(file.relative_to(new_family.ROOT), row.relative_to(new_family.ROOT))
family = family_of("begun", "model_type")
print(family.architectures, family.unread_keys("begun"), family.config.rope_theta)
print("begun" in str(listed()))
"""
NORMS = ("model.layers.{}.input_layernorm", "model.norm")
# A folder and a GGUF file of random weights, generated from on both devices.
GENERATES = """\
import sys
import rushlight as rl
from rushlight.core.io.weights.safetensors import save_safetensors

for place in sys.argv[1:]:
    for device in ("cpu", "webgpu"):
        model = rl.models.load(place, device=device)
        print(model.tasks, [t.id for t in model.tokens([1, 2, 3], max_new_tokens=9)])
"""


def shapes() -> dict[str, tuple[int, ...]]:
    """The names and shapes of the toy's checkpoint."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (40, 16)}
    for i in range(2):
        layer = f"model.layers.{i}"
        found |= {f"{layer}.self_attn.{p}_proj.weight": (16, 16) for p in "qkvo"}
        found |= {f"{layer}.mlp.fc1.weight": (24, 16), f"{layer}.mlp.fc2.weight": (16, 24)}
        found |= {f"{layer}.input_layernorm.{kind}": (16,) for kind in ("weight", "bias")}
    return found | {f"model.norm.{kind}": (16,) for kind in ("weight", "bias")}


def computed(values: dict[str, Array], ids: Array) -> Array:
    """The toy in float64: (length,) ids -> (length, vocab)."""

    def norm(name: str, x: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        out: Array = x * values[f"{name}.weight"] + values[f"{name}.bias"]
        return out

    def turned(x: Array) -> Array:
        angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(4) / 4)
        a, b = x[:, :4], x[:, 4:]
        return np.concatenate(
            [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], 1
        )

    x = values["model.embed_tokens.weight"][ids]
    for i in range(2):
        layer = f"model.layers.{i}"
        y = norm(f"{layer}.input_layernorm", x)
        q, k, v = (y @ values[f"{layer}.self_attn.{p}_proj.weight"].T for p in "qkv")
        heads = []
        for h in (slice(0, 8), slice(8, 16)):
            scores = turned(q[:, h]) @ turned(k[:, h]).T / np.sqrt(8)
            scores = np.exp(np.where(np.tri(len(x)) > 0, scores, -np.inf))
            heads.append(scores / scores.sum(1, keepdims=True) @ v[:, h])
        attended = np.concatenate(heads, 1) @ values[f"{layer}.self_attn.o_proj.weight"].T
        inner = np.maximum(y @ values[f"{layer}.mlp.fc1.weight"].T, 0)
        x = x + attended + inner @ values[f"{layer}.mlp.fc2.weight"].T
    out: Array = norm("model.norm", x) @ values["model.embed_tokens.weight"].T
    return out


def goldens(table: ModuleType, place: Path) -> None:
    """What make_family_goldens.py would write, by the computation above."""
    values = {n: table.values_of(n, shape).astype(np.float64) for n, shape in shapes().items()}
    ids, mask = table.ids_of(40), table.mask_of()
    out = np.stack([computed(values, row) for row in ids])
    padded = out.copy()
    for row, real in enumerate(mask):
        padded[row, real] = computed(values, ids[row, real])
    metadata = {"config": json.dumps(CONFIG), "names": json.dumps(shapes())}
    tensors = {"out": out.astype(np.float32), "padded": padded.astype(np.float32)}
    save_safetensors({n: rl.tensor(t) for n, t in tensors.items()}, place, metadata=metadata)


@pytest.fixture(scope="module")
def tree(make_tree: Callable[..., Any]) -> Any:
    """A copy of the checkout with a family more."""
    copy = make_tree("simd_kernels/build")
    copy.add("models/families/text/toy.py", FILE)
    rows = copy.place / "tests/models/families.py"
    copy.add("tests/models/families/toy.py", ROW)
    copy.append("models/families/keys.txt", "toy\t{}\n")  # its fields are all there is
    table = ModuleType("table")
    vars(table)["__file__"] = str(rows)
    exec(compile(rows.read_text(encoding="utf-8"), str(rows), "exec"), vars(table))
    golden = copy.place / "tests/models/data/families/toy.safetensors"
    goldens(table, golden)
    copy.python("tools/family_index.py")
    copy.python("tools/measure_families.py", "cpu,webgpu", "toy")
    assert copy.edited() == PLACES
    assert len(FILE.splitlines()) < 80
    assert golden.stat().st_size <= 50 << 10
    return copy


def as_gguf(values: dict[str, Array], place: Path) -> None:
    """The checkpoint as llama.cpp would have it: its names follow from the skeleton's."""
    import gguf

    writer = gguf.GGUFWriter(place, "toy")
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(24)
    writer.add_block_count(2)
    writer.add_head_count(2)
    writer.add_context_length(32)
    names = {
        "embed_tokens": "token_embd",
        "input_layernorm": "attn_norm",
        "norm": "output_norm",
        "fc1": "ffn_up",
        "fc2": "ffn_down",
        "o_proj": "attn_output",
    }
    names |= {f"{p}_proj": f"attn_{p}" for p in "qkv"}
    for name, value in values.items():
        parts = name.split(".")
        layer = f"blk.{parts[2]}." if "layers" in parts else ""
        writer.add_tensor(f"{layer}{names[parts[-2]]}.{parts[-1]}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_it_loads_and_generates(tree: Any, tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    values = {n: draws.normal(size=shape).astype(np.float32) for n, shape in shapes().items()}
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    rl.save({n: rl.tensor(v) for n, v in values.items()}, folder / "model.safetensors")
    as_gguf(values, tmp_path / "toy.gguf")
    given = (str(folder), str(tmp_path / "toy.gguf"))
    cpu, webgpu, *others = tree.python("-c", GENERATES, *given).splitlines()
    assert others == [cpu, webgpu]
    assert cpu == webgpu and cpu.startswith("('text-generation', 'chat') [")
    assert len(json.loads(cpu.partition(") ")[2])) == 9


def test_its_row_passes(tree: Any) -> None:
    chosen = "toy or every_family_has or page_of_families or references_and_errors"
    out = tree.pytest(
        "tests/models/test_families.py", "-k", chosen, env={"RUSHLIGHT_TEST_DEVICES": "cpu"}
    )
    assert "9 passed" in out, out


def test_a_file_is_begun(tree: Any) -> None:
    """It is found though the index lacks it, and its row names the key that is to be decided."""
    keys = {"keys": {"vocab_size": 9, "rope_theta": 5.0, "twist": True}, "asked": {}}
    tree.append("models/families/keys.txt", f"begun\t{json.dumps(keys)}\n")
    places, family, listed = tree.python("-c", BEGINS).splitlines()[-3:]
    assert places == "models/families/text/begun.py tests/models/families/begun.py"
    assert family == "('BegunForCausalLM',) ['twist'] 5.0" and listed == "False"
