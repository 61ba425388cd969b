"""Mixed files: the type of every tensor is the one that llama.cpp chooses."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.gguf_writer import Row, write_gguf
from rushlight.models.gguf.recipes import FILE_TYPES, choose_types, file_type, keep

pytestmark = pytest.mark.native

# layers, width, feed forward, heads, key heads, experts, and whether the head is tied.
MODELS = {
    "grouped": (16, 256, 512, 8, 2, 0, False),
    "odd layers": (9, 256, 256, 4, 4, 0, True),
    "no blocks of 256": (9, 288, 768, 4, 4, 0, False),
    "no blocks of 256, tied": (3, 288, 768, 4, 2, 0, True),
    "no blocks of 32": (2, 40, 256, 4, 4, 0, False),
    "eight experts": (17, 256, 512, 4, 2, 8, False),
    "four experts": (17, 256, 512, 4, 1, 4, False),
    "a single expert": (2, 256, 512, 4, 1, 1, False),
    "as large as it gets": (80, 256, 32, 8, 1, 0, False),
    "falcon": (17, 256, 512, 4, 1, 0, False),
}


def zeros(n: int) -> list[bytes]:
    return [bytes(n)]


def write(path: Path, name: str) -> None:
    """A model of zeros."""
    layers, width, wide, heads, shared, experts, tied = MODELS[name]
    a = "falcon" if name == "falcon" else "llama"
    metadata: dict[str, Any] = {
        "general.architecture": a,
        f"{a}.block_count": layers,
        f"{a}.embedding_length": width,
        f"{a}.feed_forward_length": wide,
        f"{a}.attention.head_count": heads,
        f"{a}.attention.head_count_kv": shared,
        f"{a}.context_length": 64,
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{a}.attention.layer_norm_epsilon": 1e-5,
        f"{a}.vocab_size": 32,
        "tokenizer.ggml.model": "none",
    }
    if experts:
        metadata |= {f"{a}.expert_count": experts, f"{a}.expert_used_count": 1}
    head = width // heads * shared
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (32, width)}
    for i in range(layers):
        lead = (experts,) if experts else ()
        ending = "_exps" if experts else ""
        own: dict[str, tuple[int, ...]] = {
            "attn_norm": (width,),
            "ffn_norm": (width,),
            "attn_output": (width, width),
            f"ffn_up{ending}": (*lead, wide, width),
            f"ffn_down{ending}": (*lead, width, wide),
        }
        if a == "falcon":
            own["attn_qkv"] = (width + 2 * head, width)
        else:
            own |= {"attn_q": (width, width), "attn_k": (head, width), "attn_v": (head, width)}
            own[f"ffn_gate{ending}"] = (*lead, wide, width)
        if experts:
            own["ffn_gate_inp"] = (experts, width)
        shapes |= {f"blk.{i}.{part}.weight": shape for part, shape in own.items()}
    shapes["output_norm.weight"] = (width,)
    if not tied:
        shapes["output.weight"] = (32, width)
    rows = []
    for part, shape in shapes.items():
        dtype = rl.float32 if "norm" in part or "inp" in part else rl.float16
        rows.append(Row(part, dtype, shape, partial(zeros, dtype.nbytes(math.prod(shape)))))
    write_gguf(path, metadata, rows)


@pytest.mark.parametrize("important", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_types_are_those_of_llama_cpp(
    tmp_path: Path, llama_cpp: Any, name: str, important: bool
) -> None:
    write(tmp_path / "m.gguf", name)
    tensors, metadata = load_gguf(tmp_path / "m.gguf")
    given = {n: (t.dtype, t.shape) for n, t in tensors.items()}
    imatrix = {"output.weight": np.ones(MODELS[name][1])} if important else None
    several = set()
    for kind, (number, _) in FILE_TYPES.items():
        if kind == "q2_k_s" and not important:
            with pytest.raises(rl.LoadError, match="q2_k_s needs an importance matrix"):
                choose_types(kind, metadata, given)
            continue
        chosen = choose_types(kind, metadata, given, important=important)
        assert [*chosen] == [*given]
        theirs = llama_cpp.types(tmp_path / "m.gguf", number, imatrix)
        as_ggml = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
        ours = {n: as_ggml.get(d.name, d.name) for n, d in chosen.items()}
        assert ours == {n: t.lower() for n, t in theirs.items()}, kind
        several.add(len({d for d in chosen.values() if d.kind == "q"}))
    assert max(several) >= 2


def of_tensors(**shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name.replace("__", "."): (rl.float32, shape) for name, shape in shapes.items()}


GIVEN = of_tensors(
    token_embd__weight=(8, 256),
    blk__0__attn_v__weight=(256, 256),
    blk__0__attn_q__weight=(8, 288),
    blk__0__attn_norm__weight=(256,),
)
LLAMA = {"general.architecture": "llama", "llama.block_count": 1, "llama.attention.head_count": 4}


def test_what_the_user_keeps() -> None:
    """The first rule that matches; it falls back as the others do, and norms stay."""
    keeps = [keep("attn_[qv]=Q6_K"), keep("blk.0.=f16"), keep("embd=bf16")]
    found = choose_types("q4_0", LLAMA, GIVEN, keeps=[*keeps[:1], *keeps[2:]])
    assert [d.name for d in found.values()] == ["bfloat16", "q6_k", "q8_0", "float32"]
    with pytest.raises(ValueError, match=r"keep: 'blk.0.' decides no matrix of the model"):
        choose_types("q4_0", LLAMA, GIVEN, keeps=keeps)
    assert choose_types("f16", LLAMA, GIVEN, keeps=[keep("embd=q8_0")])["token_embd.weight"] is (
        rl.q8_0
    )


@pytest.mark.parametrize("said", ["q4_k", "=q4_k", "a=", "a=q9", "a=iq2_s", "a=q4_k_m"])
def test_a_wrong_rule_is_named(said: str) -> None:
    with pytest.raises(ValueError, match=r"is not PATTERN=TYPE\n  hint: .* f32, f16, .*q4_k"):
        keep(said)
    with pytest.raises(ValueError, match=r"keep: '\(' is no regular expression: missing \)"):
        keep("(=q4_k")


def test_file_types_have_names() -> None:
    assert [file_type(name) for name in ("Q4_K", "Q4_K_M", "mxfp4", "F16")] == [
        "q4_k_m",
        "q4_k_m",
        "mxfp4_moe",
        "f16",
    ]
    with pytest.raises(ValueError, match="'q4_k_n' is not supported\n  hint: did you mean q4_k_"):
        file_type("q4_k_n")
    assert len({number for number, _ in FILE_TYPES.values()}) == len(FILE_TYPES)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "the metadata has no general.architecture"),
        ({**LLAMA, "llama.block_count": "many"}, "llama.block_count is 'many', not a number"),
        ({**LLAMA, "llama.block_count": float("nan")}, "llama.block_count is nan"),
        ({**LLAMA, "llama.block_count": -1}, "llama.block_count is -1"),
        ({**LLAMA, "llama.attention.head_count": []}, r"head_count is \[\], not a number"),
        ({**LLAMA, "llama.expert_count": True}, "expert_count is True, not a number"),
    ],
)
def test_metadata_of_another_type_is_named(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.FormatError, match=message):
        choose_types("q4_k_m", metadata, GIVEN)


def test_heads_may_differ_by_layer() -> None:
    """Those of the first layer decide, as in llama.cpp."""
    metadata = {**LLAMA, "llama.attention.head_count": np.array([8, 1], np.int32)}
    metadata["llama.attention.head_count_kv"] = np.array([2, 1], np.int32)
    assert choose_types("q2_k", metadata, GIVEN)["blk.0.attn_v.weight"].name == "q4_k"
