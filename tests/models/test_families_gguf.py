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
from rushlight.core.io import save_gguf
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables, save_safetensors
from rushlight.models.families import families, family_of
from rushlight.models.gguf.quantize import dequantize
from rushlight.models.loading import from_gguf

Array = npt.NDArray[Any]
DATA = Path(__file__).parent / "data" / "families"
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
    known = {families()[table.ROWS[row][1]["model_type"]] for row in (*table.GGUF, "phimoe-gguf")}
    assert known == set(families("gguf_types").values())


def test_the_file_gives_the_published_logits(
    gguf_row: str, table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    file = tmp_path / f"{gguf_row}.gguf"
    dequantize(folder(gguf_row, table, tmp_path / "model"), file, type="f32")
    golden = load_safetensors(DATA / f"{gguf_row}.safetensors")["out"].numpy()
    ours, compared = both(file, table, llama_cpp)
    np.testing.assert_allclose(ours, golden, rtol=1e-4, atol=5e-5)
    assert compared < 1e-3


def both(file: Path, table: ModuleType, llama_cpp: Any) -> tuple[Array, float]:
    """What a file's model gives, and how far llama.cpp's is from it.

    Logits, or the last hidden states where there are none.
    """
    m: Any = rl.models.load(file)
    two, logits = "text2text-generation" in m.tasks, "feature-extraction" not in m.tasks
    given = [table.ids_of(m.spec.vocab), table.decoder_ids_of(m.spec.vocab)][: 1 + two]
    tensors = [rl.tensor(ids) for ids in given]
    with rl.no_grad():
        seen = rl.ones(*given[0].shape).bool()
        ours = (m(*tensors) if logits else m.states(tensors[0], seen)).numpy()
    with llama_cpp.model(file, context=64) as model:
        if two:  # llama.cpp does not scale the output of T5's first models
            theirs = model.answer(given[0][0], given[1][0]) * m.spec.output_scale
        else:
            theirs = model.logits(given[0][0]) if logits else model.states(given[0][0])
    ours_of_row = ours[0, -1] if logits else ours[0]
    most = np.abs(ours_of_row - theirs).max() / np.abs(ours).max()
    # ggml's GELU is a table of float16.
    acts = str(vars(m.config)) + str(getattr(m.spec, "activation", ""))
    return ours, most / (3 if "gelu" in acts else 1)


# Configurations of random checkpoints, and the architecture that each is written as.
_OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("jina-bert-v2", {"model_type": "bert", "position_embedding_type": "alibi",
        "feed_forward_type": "geglu", "architectures": ["JinaBertModel"]}),
    ("bert", {"model_type": "camembert", "pad_token_id": 0, "type_vocab_size": 1}),
    ("gemma-embedding", {"model_type": "gemma3_text", "architectures": ["Gemma3TextModel"],
        "use_bidirectional_attention": True, "num_hidden_layers": 7, "sliding_window": 6,
        "query_pre_attn_scalar": 8, "head_dim": 8, "tie_word_embeddings": True}),
    ("llama-embed", {"model_type": "llama", "architectures": ["LlamaModel"], "is_causal": False,
        "tie_word_embeddings": True}),
    ("t5", {"model_type": "t5", "feed_forward_proj": "gated-gelu", "num_decoder_layers": 1,
        "tie_word_embeddings": False, "decoder_start_token_id": 3}),
    ("t5", {"model_type": "umt5", "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    ("t5encoder", {"model_type": "t5", "architectures": ["T5EncoderModel"]}),
    ("t5encoder", {"model_type": "umt5", "architectures": ["UMT5EncoderModel"],
        "feed_forward_proj": "gated-gelu"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes"), _OTHERS)
def test_encoders_and_stacks_as_llama_cpp_has_them(
    kind: str, changes: dict[str, Any], table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    known = table.t5 if "t5" in kind else table.encoder if "bert" in kind else table.sized
    made = random_folder(known(changes["model_type"]) | changes, table, tmp_path / "model")
    file = tmp_path / "x.gguf"
    dequantize(made, file, type="f32")
    assert load_gguf(file)[1]["general.architecture"] == kind
    ours, compared = both(file, table, llama_cpp)
    assert compared < 1e-3
    m: Any = rl.models.load(file)
    # A loaded model is written as its folder was.
    dequantize(m, tmp_path / "y.gguf", type="f32")
    again, _ = both(tmp_path / "y.gguf", table, llama_cpp)
    assert np.array_equal(ours, again)


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
        ("arcee-biases", r"its layers\[0\].attention.bias is True, .* arcee means False"),
        ("hunyuan-tied", r"its layers\[0\].attention.bias is True, .* hunyuan-dense means False"),
        ("gpt2-layers", r"its layers\[0\].attention.scale is 0.28.*, .* gpt2 means None"),
        ("gpt_bigcode-heads", r"attention.kv_heads is 4, .* starcoder means 1"),
        ("falcon_h1-norms", "in_proj.bias' has no name in GGUF"),
        ("gemma3n", "its streams, features, rank, active and correct scale is"),
        ("qwen3_next", r"its layers\[0\].attention.values is 6, .* qwen3next means 10"),
        ("falcon-new", r"its layers\[0\].attention.bias is True, .* falcon means False"),
        ("phimoe-gguf", "llama.cpp computes it with RMS norms"),
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
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
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
        f"{key}key_length": 14,
        f"{key}value_length": 9,
    }
    found = from_gguf(metadata, tensors)(rl.tensor(table.ids_of(golden.shape[-1])))
    np.testing.assert_allclose(found.detach().numpy(), golden, rtol=1e-4, atol=5e-5)
    half = {n: t for n, t in tensors.items() if "attn_kv_b" not in n} | {
        f"blk.{i}.attn_k_b.weight": rl.ones(4, 16, 8) for i in range(3)
    }
    with pytest.raises(rl.FormatError, match="k_b_proj.weight, but no .*v_b_proj"):
        from_gguf(metadata, half)


def random_folder(config: dict[str, Any], table: ModuleType, made: Path, quiet: str = "x^") -> Path:
    """A checkpoint of a configuration; what matches `quiet` is zero."""
    family = family_of(config["model_type"], "model_type")
    untied = config.get("tie_word_embeddings") is False
    names = ["lm_head.weight"] if untied and "d_model" not in config else []
    shapes = {n: p.shape for n, p in family.build(dict(config), names).named_parameters()}
    if untied and not names:  # T5
        shapes["lm_head.weight"] = shapes["shared.weight"]
    values = {n: table.values_of(n, s) * (not re.search(quiet, n)) for n, s in shapes.items()}
    made.mkdir()
    save_safetensors({n: rl.tensor(t) for n, t in values.items()}, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return made


@pytest.mark.parametrize(
    ("known", "sizes"),
    [
        ("deepseek_v2-gguf", {"moe_intermediate_size": 32, "kv_lora_rank": 32, "v_head_dim": 32}),
        ("qwen3_next-gguf", {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}),
        (
            "qwen3_5",
            {
                "intermediate_size": 64,
                "linear_num_value_heads": 4,
                "linear_key_head_dim": 16,
                "linear_value_head_dim": 16,
            },
        ),
        ("granitemoehybrid", {"intermediate_size": 64, "shared_intermediate_size": 64}),
        ("gemma3n-gguf", {}),
        ("rwkv6", {"attention_hidden_size": 64, "head_size": 16, "intermediate_size": 64}),
        ("rwkv7-gguf", {"intermediate_size": 64}),
        ("falcon-gguf", {"num_attention_heads": 4}),
    ],
)
def test_quantized_files_are_read_as_llama_cpp_reads_them(
    known: str, sizes: dict[str, Any], table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    config = dict(table.ROWS[known][1]) | {"hidden_size": 64} | sizes
    file, plain = tmp_path / "q.gguf", tmp_path / "x.gguf"
    rl.quantize(random_folder(config, table, tmp_path / "model"), file, "q5_0")
    dequantize(file, plain, type="f32")
    m: Any = rl.models.load(file)
    assert sum(t.dtype.kind == "q" for t in m.state_dict().values()) > 12
    ids = table.ids_of(131)
    with rl.no_grad():
        ours = m(rl.tensor(ids)).numpy()[0, -1]
    # It rounds activations too where weights are quantized.
    with llama_cpp.model(plain, context=64) as theirs:
        assert np.abs(theirs.logits(ids[0]) - ours).max() < 1e-3 * np.abs(ours).max()
    with llama_cpp.model(file, context=64) as theirs:
        assert np.isfinite(theirs.logits(ids[0])).all()


def test_layers_share_keys_as_in_llama_cpp(
    table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    # Its first ten layers have sparse gates by a spread over n - 1, which few gates would show.
    config = dict(table.ROWS["gemma3n-gguf"][1]) | {
        "num_hidden_layers": 21,
        "num_kv_shared_layers": 1,
        "intermediate_size": 56,
        "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 11,
    }
    made = random_folder(config, table, tmp_path / "model", r"layers\.\d\.post_feedforward")
    tensors = load_safetensors(made / "model.safetensors")
    # A checkpoint may hold keys that no layer reads.
    tensors["model.layers.20.self_attn.k_proj.weight"] = rl.ones(20, 48)
    save_safetensors(tensors, made / "model.safetensors")
    dequantize(made, tmp_path / "x.gguf", type="f32")
    ids = table.ids_of(131)
    with rl.no_grad():
        ours = rl.models.load(tmp_path / "x.gguf")(rl.tensor(ids)).numpy()[0, -1]
    with llama_cpp.model(tmp_path / "x.gguf", context=64) as theirs:
        assert np.abs(theirs.logits(ids[0]) - ours).max() < 1e-3 * np.abs(ours).max()


def test_older_files_have_a_matrix_for_q_k_v_and_gates(table: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    dequantize(folder("qwen3_next-gguf", table, tmp_path / "model"), file, type="f32")
    tensors, metadata = load_gguf(file)
    golden = load_safetensors(DATA / "qwen3_next-gguf.safetensors")["out"].numpy()
    for layer in (0, 2):
        rows = sum(tensors.pop(f"blk.{layer}.attn_{n}.weight").shape[0] for n in ("qkv", "gate"))
        name = f"model.layers.{layer}.linear_attn.in_proj_qkvz.weight"
        tensors[f"blk.{layer}.ssm_in.weight"] = rl.tensor(table.values_of(name, (rows, 48)))
    # Files may have layers that predict further tokens.
    more = {"qwen3next.nextn_predict_layers": 1, "qwen3next.block_count": 4}
    tensors["blk.3.nextn.eh_proj.weight"] = rl.ones(48, 96)
    found = from_gguf(metadata | more, tensors)(rl.tensor(table.ids_of(golden.shape[-1])))
    np.testing.assert_allclose(found.detach().numpy(), golden, rtol=1e-4, atol=5e-5)


def test_the_vocabulary_of_world_models(table: ModuleType, tmp_path: Path, llama_cpp: Any) -> None:
    config = dict(table.ROWS["rwkv6"][1]) | {"vocab_size": 270, "num_hidden_layers": 1}
    words = [b" hello", b"hello world", b"\n\n", "é".encode(), b"'\"\\", "中文".encode()]
    tokens = [bytes([i]) for i in range(256)] + words
    made = random_folder(config, table, tmp_path / "model")
    lines = [f"{i} {token!r} {len(token)}\n" for i, token in enumerate(tokens, 1)]
    (made / "rwkv_vocab_v20230424.txt").write_text("".join(lines), encoding="utf-8")
    dequantize(made, tmp_path / "x.gguf", type="f32")
    text = "hello worlds hello\n\n\tné 中文字 '\"\\\x00"
    for _ in range(2):
        m: Any = rl.models.load(tmp_path / "x.gguf")
        ids = m.tokenizer.encode(text).ids
        own: Any = rl.models.load(made)
        assert m.tokenizer.decode(ids) == text and ids == own.tokenizer.encode(text).ids
        with llama_cpp.model(tmp_path / "x.gguf", context=64) as theirs:
            # It reads texts that end with a zero.
            assert theirs.tokens(text[:-1], special=False) == ids[:-1]
        dequantize(m, tmp_path / "x.gguf", type="f32", overwrite=True)


def test_phimoe_is_read_as_published(table: ModuleType, tmp_path: Path) -> None:
    import gguf

    made = folder("phimoe-gguf", table, tmp_path / "model")
    tensors = load_safetensors(made / "model.safetensors")
    theirs = gguf.get_tensor_name_map(gguf.MODEL_ARCH.PHIMOE, 3)
    stacks: dict[str, list[rl.Tensor]] = {}
    for name, t in tensors.items():
        whole = re.sub(r"experts\.\d+\.", "experts.", name)
        stacks.setdefault(str(theirs.get_name(whole, (".weight", ".bias"))), []).append(t)
    renamed = {n: rl.stack(ts) if "_exps" in n else ts[0] for n, ts in stacks.items()}
    metadata = {"general.architecture": "phimoe"} | {f"phimoe.{key}": value for key, value in {
        "embedding_length": 48, "feed_forward_length": 56, "block_count": 3, "context_length": 64,
        "attention.head_count": 6, "attention.head_count_kv": 2, "rope.freq_base": 1e6,
        "attention.layer_norm_rms_epsilon": 1e-5, "expert_count": 5, "expert_used_count": 2,
        "rope.dimension_count": 8,
    }.items()}  # fmt: skip
    golden = load_safetensors(DATA / "phimoe-gguf.safetensors")["out"].numpy()
    found = from_gguf(metadata, renamed)(rl.tensor(table.ids_of(golden.shape[-1])))
    np.testing.assert_allclose(found.detach().numpy(), golden, rtol=1e-4, atol=5e-5)


_SCALES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"rope.scale_linear": 3.0}),
    ("llama", {"rope.scaling.factor": 3.0}),
    ("llama", {"rope.scaling.factor": 2.0, "rope.scale_linear": 3.0}),
    ("llama", {"rope.scaling.factor": 0.0}),
    ("falcon", {"rope.scale_linear": 0.5}),
    ("llama", {"rope.scaling.type": "none", "rope.scaling.factor": 3.0}),
    ("llama", {"rope.scaling.type": "linear"}),
    ("phi", {"rope.scale_linear": 2.5}),
    ("qwen2-yarn", {"rope.scaling.attn_factor": 0.7}),
    ("lfm2", {"rope.scale_linear": 2.0}),
    ("gemma3-gguf", {"attention.sliding_window_pattern": 2}),
    ("cohere2-gguf", {"attention.sliding_window_pattern": 2}),
    ("olmoe", {"attention.clamp_kqv": 0.01}),
    ("deepseek_v2", {"expert_gating_func": 1}),
    ("deepseek_v2", {"expert_group_count": 3, "expert_group_used_count": 1}),
    ("deepseek_v2", {"expert_group_count": 3, "expert_group_used_count": 2}),
]


@pytest.mark.parametrize(("known", "keys"), _SCALES)
def test_keys_of_other_tools_mean_what_llama_cpp_reads(
    known: str, keys: dict[str, Any], table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    file = tmp_path / "x.gguf"
    dequantize(folder(known, table, tmp_path / "model"), file, type="f32")
    tensors, metadata = load_gguf(file)
    name = metadata["general.architecture"]
    changed = {
        f"{name}.{k}": np.float32(v)
        if isinstance(v, float)
        else np.uint32(v)
        if isinstance(v, int)
        else v
        for k, v in keys.items()
    }
    save_gguf(tensors, file, {**metadata, **changed}, overwrite=True)
    m = rl.models.load(file)
    ids = table.ids_of(m.vocab_size)[:1]
    with rl.no_grad():
        found = m(rl.tensor(ids)).numpy()[0, -1]
    with llama_cpp.model(file, context=64) as theirs:
        wanted = theirs.logits(ids[0])
    assert np.abs(found - wanted).max() < 2e-3 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("known", "key", "value"),
    [
        ("llama", "attention.causal", False),
        ("llama", "rope.scaling.attn_factor", 0.5),
        ("llama", "rope.scaling.yarn_ext_factor", 0.5),
        ("chatglm-gguf", "rope.scale_linear", 2.0),
        ("gemma2-gguf", "rope.freq_base_swa", 500.0),
        ("gemma3-gguf", "rope.dimension_count_swa", 2),
        ("gemma3-gguf", "final_logit_softcapping", 5.0),
        ("mamba", "ssm.dt_b_c_rms", True),
        ("lfm2", "attention.sliding_window", 3),
        ("gpt_oss-gguf", "rope.freq_base_swa", 9.0),
        ("deepseek_v3", "expert_gating_func", 3),
        ("deepseek_v2", "expert_gating_func", 3),
        ("deepseek_v2", "expert_gating_func", 4),
        ("qwen3_moe", "expert_group_count", 2),
    ],
)
def test_keys_that_change_numbers_in_llama_cpp_are_refused(
    known: str, key: str, value: Any, table: ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "x.gguf"
    dequantize(folder(known, table, tmp_path / "model"), file, type="f32")
    tensors, metadata = load_gguf(file)
    name = metadata["general.architecture"]
    part = f"{name}.rope" if "scale_linear" in key else f"{name}.{key} is {value}"
    with pytest.raises(rl.FormatError, match=part.replace(".", r"\.")):
        from_gguf({**metadata, f"{name}.{key}": value}, tensors)
    # Keys that nothing reads, of any name, change nothing.
    from_gguf({**metadata, f"{name}.no_such_key": 3, f"{name}.attention.beads": "x"}, tensors)


_SECTIONS = {"rope.dimension_sections": np.array([1, 1, 2, 0], np.int32)}
_MOE = {"head_dim": 8, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
# Architectures, the configurations that they mean, and their further keys.
_ALIASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("qwen2vl", {"model_type": "qwen2"}, _SECTIONS),
    ("qwen3vl", {"model_type": "qwen3", "head_dim": 8}, _SECTIONS),
    ("qwen3vlmoe", {"model_type": "qwen3_moe", "norm_topk_prob": True, **_MOE}, _SECTIONS),
    ("internlm2", {"model_type": "llama"}, {}),
    ("xverse", {"model_type": "llama"}, {}),
    ("baichuan", {"model_type": "llama", "num_hidden_layers": 32}, {}),
    ("mistral3", {"model_type": "llama", "rope_parameters": _YARN},
        {"rope.scaling.yarn_log_multiplier": np.float32(0.7)}),
    ("minicpm", {"model_type": "granite", "embedding_multiplier": 9.0, "logits_scaling": 3.0,
        "residual_multiplier": 0.3, "attention_multiplier": 8**-0.5}, {"attention.scale": None}),
    ("orion", {"model_type": "stablelm", "partial_rotary_factor": 1.0}, {}),
]  # fmt: skip


def renamed(
    kind: str, config: dict[str, Any], keys: dict[str, Any], table: ModuleType, place: Path
) -> tuple[dict[str, rl.Tensor], dict[str, Any]]:
    """A random checkpoint as a file of the architecture `kind`, y.gguf: tensors and metadata."""
    made = random_folder(table.sized(config["model_type"]) | config, table, place / "model")
    dequantize(made, place / "x.gguf", type="f32")
    tensors, given = load_gguf(place / "x.gguf")
    types: dict[type, Any] = {int: np.uint32, float: np.float32}
    old = f"{given['general.architecture']}."
    metadata = {
        kind + name[len(old) - 1 :] if name.startswith(old) else name: types.get(
            type(value), lambda same: same
        )(value)
        for name, value in given.items()
    } | {f"{kind}.{name}": value for name, value in keys.items()}
    metadata["general.architecture"] = kind
    told = {name: value for name, value in metadata.items() if value is not None}
    save_gguf(tensors, place / "y.gguf", told)
    return load_gguf(place / "y.gguf")


@pytest.mark.parametrize(("kind", "config", "keys"), _ALIASES)
def test_other_names_of_families_mean_what_llama_cpp_reads(
    kind: str,
    config: dict[str, Any],
    keys: dict[str, Any],
    table: ModuleType,
    tmp_path: Path,
    llama_cpp: Any,
) -> None:
    tensors, metadata = renamed(kind, config, keys, table, tmp_path)
    assert both(tmp_path / "y.gguf", table, llama_cpp)[1] < 1.5e-3
    known: Any = from_gguf(metadata, tensors).config
    # Without a temperature, Mistral Small 3's layers are LLaMA's.
    assert known.model_type == ("ministral3" if kind == "mistral3" else config["model_type"])


@pytest.mark.parametrize(
    ("kind", "key", "value", "lost"),
    [
        ("qwen2vl", "rope.dimension_sections", [1, 1, 1, 1], r"sections is \[1, 1, 1, 1\]; supp"),
        ("baichuan", "block_count", 3, "baichuan.block_count is 3, which is not supported"),
    ],
)
def test_what_other_names_mean_and_is_not_read_is_refused(
    kind: str, key: str, value: Any, lost: str, table: ModuleType, tmp_path: Path
) -> None:
    config = next(config for name, config, _ in _ALIASES if name == kind)
    few = {k: v for k, v in config.items() if k != "num_hidden_layers"}
    tensors, metadata = renamed(kind, few, _SECTIONS, table, tmp_path)
    with pytest.raises(rl.FormatError, match=lost):
        from_gguf(metadata | {f"{kind}.{key}": value}, tensors)


def test_files_of_minicpm_without_multipliers(table: ModuleType, tmp_path: Path) -> None:
    config = {"model_type": "granite", "attention_multiplier": 8**-0.5}
    none = ("embedding_scale", "residual_scale", "logit_scale", "attention.scale")
    tensors, metadata = renamed("minicpm", config, dict.fromkeys(none), table, tmp_path)
    spec: Any = from_gguf(metadata, tensors).spec
    assert (spec.embedding_scale, spec.logits_scale) == (12, 256 / 48)
    assert abs(spec.residual_scale - 1.4 / 3**0.5) < 1e-6


def test_corrections_of_softmax_scores_are_refused(table: ModuleType, tmp_path: Path) -> None:
    """llama.cpp chooses experts by softmax scores with the corrections; no family here does."""
    file = tmp_path / "x.gguf"
    dequantize(folder("deepseek_v3", table, tmp_path / "model"), file, type="f32")
    tensors, metadata = load_gguf(file)
    for gate in (0, 1):
        with pytest.raises(rl.LoadError, match=r"exp_probs_b.bias', which deepseek_v2 does not"):
            from_gguf({**metadata, "deepseek2.expert_gating_func": gate}, tensors)
