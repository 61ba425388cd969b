"""Quantizing models to GGUF: what llama.cpp and Rushlight make of the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.basis.unpacking import by_formula
from rushlight.core.io.weights.gguf import load_gguf, open_gguf
from rushlight.core.io.weights.gguf_writer import save_gguf
from rushlight.core.io.weights.imatrix import write_imatrix
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.gguf.quantize import dequantize, quantize
from rushlight.models.gguf.recipes import FILE_TYPES, choose_types

pytestmark = pytest.mark.native

Array = npt.NDArray[Any]
WIDTH, ROWS = 256, 300
TEXT = "<|end|>It's 3 candles,\n\nis it?  caf\u00e9"
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "tied": {"tie_word_embeddings": True, "num_key_value_heads": None, "eos_token_id": [0, 258]},
    "biased": {"attention_bias": True, "mlp_bias": True, "rope_scaling": LLAMA3},
    "linear": {"rope_parameters": {"rope_theta": 5e4, "rope_type": "linear", "factor": 2.0}},
    "wide heads": {"head_dim": 64},
}


def byte_tokens() -> list[str]:
    """GPT-2's characters of the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return [chr(b) for b in shown] + [chr(256 + i) for i in range(len(hidden))]


def write_folder(folder: Path, name: str, dtype: rl.DType = rl.float32) -> None:
    """A random llama of one layer with a tokenizer of bytes and two merges."""
    folder.mkdir()
    config = {
        "model_type": "llama",
        "vocab_size": ROWS,
        "hidden_size": WIDTH,
        "intermediate_size": 512,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "eos_token_id": 258,
        "rms_norm_eps": 1e-5,
        **CONFIGS[name],
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokens = [*byte_tokens(), "an", "can"]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "use_regex": True,
        "trim_offsets": False,
    }
    (folder / "tokenizer.json").write_text(json.dumps({
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": ["a n", "c an"]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level]},
        "added_tokens": [{"id": 258, "content": "<|end|>", "special": True, "lstrip": False,
                          "rstrip": False, "normalized": False, "single_word": False}],
        "decoder": byte_level,
    }))  # fmt: skip
    settings = {"eos_token": {"content": "<|end|>"}, "chat_template": "{{ messages }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    from rushlight.models.families.text import llama

    names = () if config["tie_word_embeddings"] else ("lm_head.weight",)
    rng = np.random.default_rng(7)
    tensors = {}
    for key, p in llama.FAMILY.build(config, names).named_parameters():
        scale = 1.5 / np.sqrt(p.shape[-1]) if p.ndim == 2 else 0.1
        values = rng.normal(float("norm" in key), scale, p.shape).astype(np.float32)
        tensors[key] = rl.tensor(values).to(dtype)
    save_safetensors(tensors, folder / "model.safetensors")


def logits(model: Any, ids: list[int]) -> Array:
    with rl.no_grad():
        found: Array = model(rl.tensor([ids])).float().numpy()[0, -1]
    return found


@pytest.fixture(autouse=True)
def exact() -> Any:
    before = rl.get_linear_mode()
    rl.set_linear_mode("exact")
    yield
    rl.set_linear_mode(before)


# --- a folder in the Hugging Face layout ---------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_is_the_same_model_in_gguf(tmp_path: Path, llama_cpp: Any, name: str) -> None:
    """To Rushlight by its bits, to llama.cpp by its tokens and, within rounding, its logits."""
    write_folder(tmp_path / "tiny", name)
    (path,) = quantize(tmp_path / "tiny", tmp_path / "m.gguf", "f32")
    models: list[Any] = [rl.models.load(place) for place in (tmp_path / "tiny", path)]
    theirs, ours = models
    ids = ours.tokenizer.encode(TEXT).ids
    assert ids == theirs.tokenizer.encode(TEXT).ids and ids[0] == 258 and 257 in ids
    assert np.array_equal(logits(ours, ids), logits(theirs, ids))
    # The reader adds tokens that are known by their names.
    assert ours.eos_ids == theirs.eos_ids | ({258} if name == "tied" else set())
    assert ours.template.source == theirs.template.source
    assert ours.config.max_position_embeddings == 128
    with llama_cpp.model(path) as model:
        assert model.tokens(TEXT) == ids
        assert np.abs(model.logits(ids) - logits(ours, ids)).max() < 0.02
    _, metadata = load_gguf(path)
    assert metadata["general.name"] == "tiny" and metadata["general.file_type"] == 0


@pytest.mark.parametrize("name", CONFIGS)
def test_a_loaded_model_is_the_same_in_gguf(tmp_path: Path, name: str, device: str) -> None:
    """Also one that came out of GGUF, and one whose weights have changed since."""
    write_folder(tmp_path / "tiny", name)
    model: Any = rl.models.load(tmp_path / "tiny", device=device)
    with rl.no_grad():
        model.model.norm.weight.copy_(model.model.norm.weight * 2)
    rl.quantize(model, tmp_path / "a.gguf", "f32")
    again: Any = rl.models.load(tmp_path / "a.gguf")
    rl.quantize(again, tmp_path / "b.gguf", bits=32)
    ids = again.tokenizer.encode(TEXT).ids
    assert np.array_equal(logits(again, ids), logits(model.to("cpu"), ids))
    assert again.eos_ids == model.eos_ids and again.template.source == model.template.source
    found, expected = (load_gguf(tmp_path / n) for n in ("b.gguf", "a.gguf"))
    assert {n: t.raw_bytes() for n, t in found[0].items()} == {
        n: t.raw_bytes() for n, t in expected[0].items()
    }
    for key, value in expected[1].items():
        assert np.array_equal(found[1][key], value) or key == "general.name", key


def test_a_folder_in_bfloat16(tmp_path: Path) -> None:
    write_folder(tmp_path / "tiny", "biased", rl.bfloat16)
    (path,) = quantize(tmp_path / "tiny", tmp_path / "m.gguf", "bf16")
    tensors, _ = load_gguf(path)
    assert {n: t.dtype.name for n, t in tensors.items() if t.ndim == 2}.keys() == {
        n for n, t in tensors.items() if t.dtype is rl.bfloat16
    }
    assert {t.dtype.name for t in tensors.values() if t.ndim == 1} == {"float32"}
    models = [rl.models.load(p, dtype=rl.float32) for p in (tmp_path / "tiny", path)]
    found, expected = (logits(m, [1, 2, 3]) for m in models)
    assert np.abs(found - expected).max() < 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "albert"}, "albert cannot be written as GGUF; supported: .*, llama,"),
        ({"model_type": "quux"}, "model_type 'quux' is not supported"),
        ({"hidden_size": 128}, r"'lm_head.weight' has the shape \(300, 256\); config"),
        ({"num_hidden_layers": 2}, "has no tensor 'model.layers.1"),
        ({"tie_word_embeddings": False, "attention_bias": True}, "has no tensor '.*bias'"),
    ],
)
def test_a_folder_that_does_not_fit_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    write_folder(tmp_path / "tiny", "grouped")
    config = json.loads((tmp_path / "tiny/config.json").read_text()) | change
    (tmp_path / "tiny/config.json").write_text(json.dumps(config))
    with pytest.raises((rl.LoadError, rl.FormatError), match=message):
        quantize(tmp_path / "tiny", tmp_path / "m.gguf", "q8_0")
    assert not (tmp_path / "m.gguf").exists()


# --- every type ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random llama as a GGUF file of float32."""
    folder = tmp_path_factory.mktemp("tiny")
    write_folder(folder / "tiny", "grouped")
    quantize(folder / "tiny", folder / "m.gguf", "f32")
    return folder / "m.gguf"


@pytest.mark.parametrize("kind", [kind for kind in FILE_TYPES if kind != "q2_k_s"])
def test_llama_cpp_loads_every_type(tmp_path: Path, tiny: Path, llama_cpp: Any, kind: str) -> None:
    """llama.cpp rounds what blocks are multiplied by to eight bits, which moves logits a little.

    It does not where the same weights are written as float32; then the logits are ours.
    """
    (path,) = quantize(tiny, tmp_path / "m.gguf", kind)
    tensors, metadata = load_gguf(path)
    given, before = load_gguf(tiny)
    chosen = choose_types(kind, before, {n: (t.dtype, t.shape) for n, t in given.items()})
    assert {n: t.dtype for n, t in tensors.items()} == chosen
    assert metadata["general.file_type"] == FILE_TYPES[kind][0]
    assert metadata["general.quantization_version"] == 2
    (plain,) = dequantize(path, tmp_path / "plain.gguf", "f32")
    for name, t in load_gguf(plain)[0].items():
        assert t.dtype is rl.float32
        blocks = np.frombuffer(tensors[name].raw_bytes(), np.uint8)
        if tensors[name].dtype.kind == "q":
            values = by_formula(
                tensors[name].dtype, blocks.reshape(-1, tensors[name].dtype.itemsize)
            )
            assert t.raw_bytes() == values.tobytes()
    ids = [5, 80, 7, 200, 33]
    wide = rl.float32 if kind in ("f16", "bf16") else None
    ours = logits(rl.models.load(path, dtype=wide), ids)
    with llama_cpp.model(plain) as model:
        assert np.abs(model.logits(ids) - ours).max() < 0.02
    with llama_cpp.model(path) as model:
        assert np.abs(model.logits(ids) - ours).max() < 0.1 * np.abs(ours).max()


def test_the_file_is_that_of_llama_cpp(tmp_path: Path, tiny: Path, llama_cpp: Any) -> None:
    """Its own quantizer writes the same metadata and types; values of q8_0 are a step apart."""
    for kind in ("q4_k_m", "q8_0"):
        quantize(tiny, tmp_path / "ours.gguf", kind, overwrite=True)
        llama_cpp.quantize(tiny, tmp_path / "theirs.gguf", FILE_TYPES[kind][0])
        (ours, given), (theirs, expected) = (
            load_gguf(tmp_path / name) for name in ("ours.gguf", "theirs.gguf")
        )
        assert given.keys() == expected.keys()
        assert all(np.array_equal(given[key], expected[key]) for key in given)
        assert {n: (t.dtype, t.shape) for n, t in ours.items()} == {
            n: (t.dtype, t.shape) for n, t in theirs.items()
        }
    for n, t in theirs.items():
        values = t.dequantize().numpy()
        apart = np.abs(ours[n].dequantize().numpy() - values).max()
        assert apart <= 1.01 * np.abs(values).max() / 127, n


def test_an_importance_matrix_lowers_the_error_where_it_counts(tmp_path: Path, tiny: Path) -> None:
    given, _ = load_gguf(tiny)
    weights = {n: t.numpy() for n, t in given.items() if n.startswith("blk") and t.ndim == 2}
    rng = np.random.default_rng(4)
    sums = {n: rng.exponential(1, (w.shape[1],)) ** 3 for n, w in weights.items()}
    write_imatrix(tmp_path / "i.gguf", sums, dict.fromkeys(sums, 1), 1)
    errors = {}
    for imatrix in (None, tmp_path / "i.gguf"):
        (path,) = quantize(tiny, tmp_path / "m.gguf", "q3_k_s", imatrix=imatrix, overwrite=True)
        found = {n: t.dequantize().numpy() for n, t in load_gguf(path)[0].items() if n in weights}
        errors[imatrix] = [((found[n] - w) ** 2 * sums[n]).sum() for n, w in weights.items()]
    without, by = errors.values()
    assert all(a < 0.97 * b for a, b in zip(by, without, strict=True))
    short = {n: s[:-1] for n, s in sums.items()}
    with pytest.raises(rl.FormatError, match="has (255|511) values for .*, whose 1 matrices have"):
        quantize(tiny, tmp_path / "n.gguf", "q3_k_s", imatrix=short)


def test_experts_have_an_importance_each(tmp_path: Path) -> None:
    """The matrix of one expert is quantized as it is alone, with its own importance."""
    rng = np.random.default_rng(3)
    experts = rng.normal(size=(3, 8, 256)).astype(np.float32)
    importance = rng.exponential(1, (3, 256)).astype(np.float32) ** 2
    name = "blk.0.ffn_up_exps.weight"
    metadata = {"general.architecture": "llama", "llama.expert_count": 3, "llama.block_count": 1}
    save_gguf({name: rl.tensor(experts)}, tmp_path / "a.gguf", metadata)
    for given in (importance, importance.reshape(-1)):  # as GGUF has it, and as the older format
        (path,) = quantize(
            tmp_path / "a.gguf",
            tmp_path / "b.gguf",
            "q4_k_s",
            imatrix={name: given},
            overwrite=True,
        )
        found = load_gguf(path)[0][name]
        assert found.shape == (3, 8, 256) and found.dtype is rl.q4_k
        for i in range(3):
            save_gguf(
                {"w.weight": rl.tensor(experts[i])}, tmp_path / "c.gguf", metadata, overwrite=True
            )
            (alone,) = quantize(
                tmp_path / "c.gguf",
                tmp_path / "d.gguf",
                "q4_k_s",
                imatrix={"w.weight": importance[i]},
                overwrite=True,
            )
            n = found.dtype.nbytes(8 * 256)
            one = load_gguf(alone)[0]["w.weight"].raw_bytes()
            assert found.raw_bytes()[i * n : (i + 1) * n] == one


# --- the real model ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["q8_0", "q4_k_m"])
def test_llama_cpp_says_the_same_with_smollm2(tmp_path: Path, llama_cpp: Any, kind: str) -> None:
    """The same greedy tokens, for a text that both are sure of, and logits within a bound.

    llama.cpp rounds activations to eight bits, so logits differ by about one, beside what they
    all have in common; they are spread by four. Where the two likeliest tokens are nearer than
    that, the choice would be chance.
    """
    (path,) = quantize("smollm2-135m-instruct", tmp_path / "m.gguf", kind)
    ours: Any = rl.models.load(path)
    text = "1, 2, 3, 4, 5, 6, 7, 8,"
    ids = ours.tokenizer.encode(text).ids
    with llama_cpp.model(path) as theirs:
        assert theirs.tokens(text) == ids
        cache, given, said = ours.new_cache(), ids, []
        for _ in range(16):
            found = theirs.logits(given)
            with rl.no_grad():
                own = ours(rl.tensor([given]), cache=cache).numpy()[0, -1]
            apart = (found - found.mean()) - (own - own.mean())
            assert np.abs(apart).max() < 1.5
            assert found.argmax() == own.argmax()
            given = [int(own.argmax())]
            said += given
    assert ours.tokenizer.decode(said).startswith(" 9, 10, 11, 12,")
    free = list(ours.tokens(ids, max_new_tokens=16, temperature=0))
    assert [token.id for token in free] == said


# --- memory, parts and mistakes ------------------------------------------------------------------

_GROWN = """
import resource, sys
from rushlight.models.gguf.quantize import quantize
import rushlight.core.basis.encoding, rushlight.models.gguf.opened
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) << 10
quantize(sys.argv[2], sys.argv[3] + ".warm", "q8_0")
before = peak()
quantize(sys.argv[1], sys.argv[3], "q8_0")
print(peak() - before)
"""


def test_memory_is_that_of_the_largest_tensor(tmp_path: Path) -> None:
    """A model of 96 MB in tensors of 16 MB."""
    metadata = {"general.architecture": "llama"}
    values = rl.tensor(np.random.default_rng(1).normal(size=(4096, 1024)).astype(np.float32))
    save_gguf({f"blk.{i}.a.weight": values for i in range(6)}, tmp_path / "m.gguf", metadata)
    save_gguf({"blk.0.a.weight": values[:64]}, tmp_path / "warm.gguf", metadata)
    found = subprocess.run(
        [sys.executable, "-c", _GROWN, *(str(tmp_path / n) for n in ("m.gguf", "warm.gguf", "o"))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(found.stdout) < 3 * (16 << 20)


def test_parts_of_parts(tmp_path: Path, tiny: Path, llama_cpp: Any) -> None:
    """A split file is written, read by llama.cpp, and quantized again into one."""
    paths = quantize(tiny, tmp_path / "m.gguf", "q8_0", split_max_size=200_000)
    assert len(paths) > 3 and paths[0].name == f"m-00001-of-{len(paths):05}.gguf"
    (whole,) = quantize(paths[0], tmp_path / "whole.gguf", "q8_0")
    (alone,) = quantize(tiny, tmp_path / "alone.gguf", "q8_0")
    assert whole.read_bytes() == alone.read_bytes()
    with llama_cpp.model(paths[0]) as parts, llama_cpp.model(whole) as one:
        assert np.array_equal(parts.logits([1, 2, 3]), one.logits([1, 2, 3]))


def test_metadata_stays_as_it_was(tmp_path: Path, tiny: Path) -> None:
    metadata: dict[str, Any] = {
        "general.architecture": "llama",
        "general.file_type": np.uint32(99),
        "x.small": np.int8(-3),
        "x.real": np.float64(0.1),
        "x.list": np.arange(3, dtype=np.uint16),
    }
    save_gguf(load_gguf(tiny)[0], tmp_path / "a.gguf", metadata)
    quantize(tmp_path / "a.gguf", tmp_path / "b.gguf", bits=8)
    ((source, part),) = open_gguf(tmp_path / "b.gguf")
    typed = part.typed()
    source.close()
    for key in ("x.small", "x.real"):
        assert typed[key] == metadata[key] and typed[key].dtype == metadata[key].dtype
    assert typed["x.list"].dtype == np.uint16 and typed["general.file_type"] == 7


def test_commands(tmp_path: Path, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "m.gguf")
    arguments = ["quantize", str(tiny), out, "--type", "Q4_K", "--keep", "attn_[qk]=q8_0"]
    assert run(arguments) == 0
    told = capsys.readouterr()
    assert told.out == f"{out}\n"
    assert "q8_0" in told.err and "bits each" in told.err.splitlines()[-1]
    types = {n: t.dtype.name for n, t in load_gguf(out)[0].items()}
    assert types["blk.0.attn_q.weight"] == types["blk.0.attn_k.weight"] == "q8_0"
    assert types["blk.0.attn_output.weight"] == "q4_k" and types["output.weight"] == "q6_k"
    assert run(["dequantize", out, str(tmp_path / "p.gguf"), "--split-max-size", "1M"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len([*tmp_path.glob("p-*")]) > 1
    for wrong, words in {
        ("quantize", str(tiny), out): "exists already",
        ("quantize", str(tiny), out, "--overwrite", "--type", "q9"): "'q9' is not supported",
        ("quantize", str(tiny), out, "--overwrite", "--keep", "a"): "is not PATTERN=TYPE",
        ("quantize", str(tiny), out, "--split-max-size", "2X"): "is not a size such as 2G or 500M",
        ("quantize", str(tiny), out + "2", "--imatrix", out): "so it is no importance matrix",
        ("quantize", str(tmp_path / "none"), out): "is not supported, and no folder",
        ("quantize", str(tiny), out + "3", "--type", "q2_k_s"): "needs an importance matrix",
        ("dequantize", str(tiny), out + "4", "--type", "q8_0"): "type 'q8_0' is quantized",
    }.items():
        assert run([*wrong]) == 2
        assert words in capsys.readouterr().err
    assert not [*tmp_path.glob("*.part")]


@pytest.mark.parametrize("shape", [(0, 256), (2, 0, 256), (0, 2, 256), (3, 0)])
def test_tensors_of_nothing(tmp_path: Path, shape: tuple[int, ...]) -> None:
    metadata = {"general.architecture": "llama"}
    save_gguf({"w.weight": rl.zeros(shape)}, tmp_path / "a.gguf", metadata)
    quantize(tmp_path / "a.gguf", tmp_path / "b.gguf", "q4_k_m")
    found = load_gguf(tmp_path / "b.gguf")[0]["w.weight"]
    assert found.shape == shape and found.dtype is rl.q4_k


def test_mistakes_in_python(tmp_path: Path, tiny: Path) -> None:
    wrong: tuple[dict[str, Any], ...] = ({}, {"type": "q4_0", "bits": 4})
    for arguments in wrong:
        with pytest.raises(ValueError, match="pass either type or bits"):
            rl.quantize(tiny, tmp_path / "m", **arguments)
    with pytest.raises(ValueError, match="bits is 7; supported: 2, 3, 4, 5, 6, 8, 16, 32"):
        rl.quantize(tiny, tmp_path / "m", bits=7)
    metadata = {"general.architecture": "llama"}
    for value, kind, message in (
        (np.nan, "q8_0", "tensor 'w.weight': quantizing to q8_0: the value at row 1, column 3"),
        (1e6, "f16", "'w.weight' has a value that is too large for float16\n  hint: use bf16"),
    ):
        values = np.zeros((2, 32), np.float32)
        values[1, 3] = value
        save_gguf({"w.weight": rl.tensor(values)}, tmp_path / "a.gguf", metadata, overwrite=True)
        with pytest.raises(rl.FormatError, match=message):
            quantize(tmp_path / "a.gguf", tmp_path / "b.gguf", kind)
    assert not (tmp_path / "b.gguf").exists()
