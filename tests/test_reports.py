"""What users' reports, programs and attacks showed, by section: the shortest call of each.

The kinds behind them are tested where they belong; here is what a person would try first. Right
values are those of torch 2.14, transformers 5.24 and jinja2.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import io
import json
import math
import os
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.template import ChatTemplate
from rushlight.models.generation.answers import answer_parts

pytestmark = pytest.mark.native

F: Any = nn.functional
INF = math.inf
WEATHER = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


# --- files and folders as the hub has them ------------------------------------------------------

IDS = [[5, 9, 17, 3]]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "vocab_size": 61,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
WILD = {"output_past": True, "directionality": "bidi", "pooler_fc_size": 768, "language": "english",
        "pooler_type": "first_token_transform", "name": "Bert", "max_sequence_length": 2048,
        "model_max_length": 512, "seq_length": 512, "layers_to_keep": [0, 1], "license": "mit",
        "generator_size": "0.25", "summary_type": "first", "n_ctx": 1024, "unk_token_id": 0,
        "cache_implementation": "hybrid", "loss_type": "ForMaskedLMLoss"}  # fmt: skip


def llama(folder: Path, **settings: Any) -> rl.Tensor:
    """A tiny llama in `folder`, with more keys in its config.json; its logits of IDS."""
    rl.manual_seed(0)
    width, inner, rows = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (rows, width),
        "model.norm.weight": (width,),
        "lm_head.weight": (rows, width),
    }
    for n in range(SIZES["num_hidden_layers"]):
        layer = f"model.layers.{n}."
        for name, shape in {
            "self_attn.q_proj": (width, width),
            "self_attn.k_proj": (width // 2, width),
            "self_attn.v_proj": (width // 2, width),
            "self_attn.o_proj": (width, width),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
            "input_layernorm": (width,),
            "post_attention_layernorm": (width,),
        }.items():
            shapes[f"{layer}{name}.weight"] = shape
    rl.save(
        {name: rl.randn(shape) * 0.2 for name, shape in shapes.items()},
        folder / "model.safetensors",
    )
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SIZES}
    written = json.dumps({**config, "tie_word_embeddings": False})
    (folder / "config.json").write_text(written, "utf-8")
    expected: rl.Tensor = rl.models.load(folder)(rl.tensor(IDS)).detach()
    (folder / "config.json").write_text(json.dumps({**json.loads(written), **settings}), "utf-8")
    return expected


def rewrite(folder: Path, change: Callable[[dict[str, rl.Tensor]], dict[str, rl.Tensor]]) -> None:
    """The weights of `folder` changed."""
    [file] = folder.glob("*.safetensors")
    rl.save(change({name: t.clone() for name, t in rl.load(file).items()}), file)


class TestFiles:
    def test_keys_of_the_wild_change_nothing(self, tmp_path: Path) -> None:
        expected = llama(tmp_path, **WILD)
        assert rl.allclose(rl.models.load(tmp_path)(rl.tensor(IDS)), expected, atol=1e-6)

    def test_a_head_stored_beside_tied_embeddings_is_the_files(self, tmp_path: Path) -> None:
        expected = llama(tmp_path, tie_word_embeddings=True)
        assert rl.allclose(rl.models.load(tmp_path)(rl.tensor(IDS)), expected, atol=1e-6)

    @pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
    def test_prefixes_of_wrappers_are_dropped(self, prefix: str, tmp_path: Path) -> None:
        expected = llama(tmp_path)
        rewrite(tmp_path, lambda tensors: {prefix + name: t for name, t in tensors.items()})
        assert rl.allclose(rl.models.load(tmp_path)(rl.tensor(IDS)), expected, atol=1e-6)

    def test_complex_tensors_and_plain_values_are_read(self, tmp_path: Path) -> None:
        values = {
            "freqs": rl.view_as_complex(rl.ones(3, 2)),
            "counter": collections.Counter("aab"),
            "defaults": collections.defaultdict(list, {"a": [1]}),
            "set": {1, 2},
            "arguments": argparse.Namespace(lr=0.1),
            "array": np.arange(3),
            "path": Path("a/b"),
            "scalar": np.float32(0.5),
            "dtype": np.dtype("int8"),
        }
        rl.save(values, tmp_path / "values.pt")
        found = rl.load(tmp_path / "values.pt")
        assert found["freqs"].tolist() == [1 + 1j] * 3
        assert found["counter"] == {"a": 2, "b": 1} and found["defaults"] == {"a": [1]}
        arguments = found["arguments"]
        assert (arguments if isinstance(arguments, dict) else vars(arguments))["lr"] == 0.1
        assert list(np.asarray(found["array"])) == [0, 1, 2] and set(found["set"]) == {1, 2}
        assert float(found["scalar"]) == 0.5 and "a" in str(found["path"])

    def test_files_in_memory_and_torchs_keywords(self, tmp_path: Path) -> None:
        state = {"w": rl.arange(3.0)}
        memory = io.BytesIO()
        rl.save(state, memory)
        data = memory.getvalue()
        for given in (io.BytesIO(data), data):
            assert rl.load(given)["w"].tolist() == [0.0, 1.0, 2.0]
        (tmp_path / "w.pt").write_bytes(data)
        with (tmp_path / "w.pt").open("rb") as file:
            assert rl.load(file, map_location=lambda storage, where: storage)["w"].shape == (3,)
        found = rl.load(
            tmp_path / "w.pt",
            map_location={"cuda:0": "cpu"},
            weights_only=True,
            mmap=True,
            encoding="latin1",
        )
        assert found["w"].tolist() == [0.0, 1.0, 2.0]
        rl.save(state, tmp_path / "v.pt", pickle_protocol=2)


# --- chat ---------------------------------------------------------------------------------------


class TestChat:
    def test_variables_reach_the_template(self) -> None:
        template = ChatTemplate("{{ messages[0].content }}|{{ enable_thinking }}|{{ anything }}")
        messages = [{"role": "user", "content": "hi"}]
        assert template.render(messages, enable_thinking=False, anything=3) == "hi|False|3"

    def test_integers_of_any_size_are_rendered(self) -> None:
        template = ChatTemplate("{{ tools | tojson }}")
        tools = [{"type": "function", "function": {"name": "f", "maximum": 2**70}}]
        assert str(2**70) in template.render([{"role": "user", "content": ""}], tools=tools)

    @pytest.mark.parametrize(
        "text",
        [
            "<|channel|>analysis<|message|>hm<|end|>"
            "<|start|>assistant<|channel|>final<|message|>four",
            "<think>\nhm</think>\n\nfour",
            "[THINK]hm[/THINK]four",
        ],
    )
    def test_thinking_is_apart(self, text: str) -> None:
        found = answer_parts(text)
        assert (found.thinking.strip(), found.content.strip()) == ("hm", "four")

    @pytest.mark.parametrize(
        "text",
        [
            "<tool_call>\n<function=get_weather>\n<parameter=city>\n"
            "Paris\n</parameter>\n</function>\n"
            "</tool_call>",
            '<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
            "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
            "</tool_call>",
            '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
            "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
            '{"city": "Paris"}<|call|>',
            '{"name": "get_weather", "parameters": {"city": "Paris"}}',
        ],
    )
    def test_calls_are_found(self, text: str) -> None:
        [call] = answer_parts(text, tools=WEATHER).tool_calls
        assert (call.name, call.arguments) == ("get_weather", {"city": "Paris"})

    @pytest.mark.parametrize(
        "text",
        ["Wrap it in <think> tags. Then send.", '{"name": "Ada", "parameters": {"age": 36}}'],
    )
    def test_what_is_no_call_stays(self, text: str) -> None:
        found = answer_parts(text)
        assert found.content == text and not found.tool_calls

    def test_filters_of_published_templates(self) -> None:
        text = (
            "{{ '<a>' | e }} {{ '%s-%s' | format(1, 2) }} {{ [1, 2, 3] | batch(2) | list }} "
            "{{ [1, 2, 3] | slice(2) | list }} {{ 'e' is filter }}"
        )
        expected = "&lt;a&gt; 1-2 [[1, 2], [3]] [[1, 2], [3]] True"
        assert ChatTemplate(text).render([{"role": "user", "content": ""}]) == expected


# --- numbers and training -----------------------------------------------------------------------


class TestNumbers:
    def test_a_loss_of_saturated_probabilities(self) -> None:
        x = rl.tensor([100.0, -200.0, 0.5]).requires_grad_()
        F.binary_cross_entropy(x.sigmoid(), rl.tensor([1.0, 0.0, 1.0])).backward()
        assert x.grad is not None
        assert x.grad.tolist() == pytest.approx([0, 0, -0.1258], abs=1e-4)

    def test_a_sample_that_is_all_padding(self) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        mask = rl.tensor([[True, True, True], [False, False, True]])
        x = rl.randn(2, 3, 8).requires_grad_()
        out = layer(x, src_key_padding_mask=mask)
        out.sum().backward()
        assert x.grad is not None and bool(x.grad.isfinite().all()) and bool(out.isfinite().all())
        q = rl.randn(1, 1, 2, 4)
        seen = F.scaled_dot_product_attention(q, q, q, rl.full((2, 2), -INF))
        assert seen.tolist() == [[[[0.0] * 4] * 2]]

    def test_milestones_go_on_after_loading(self) -> None:
        def pair() -> Any:
            optimizer = rl.optim.SGD([rl.ones(1).requires_grad_()], lr=1.0)
            return optimizer, rl.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4], 0.1)

        first, schedule = pair()
        for _ in range(3):
            first.step()
            schedule.step()
        memory = io.BytesIO()
        rl.save({"o": first.state_dict(), "s": schedule.state_dict()}, memory)
        second, again = pair()
        state = rl.load(io.BytesIO(memory.getvalue()))
        second.load_state_dict(state["o"])
        again.load_state_dict(state["s"])
        second.step()
        again.step()
        assert second.param_groups[0]["lr"] == pytest.approx(0.01)

    def test_activations_in_place(self) -> None:
        for name in ("silu", "hardswish", "mish", "relu", "elu", "leaky_relu"):
            w, v = rl.tensor([0.3, -0.4]).requires_grad_(), rl.tensor([0.3, -0.4]).requires_grad_()
            inside = getattr(F, name)(w * 1.0, inplace=True)
            inside.mul_(2)
            inside.sum().backward()
            (getattr(F, name)(v * 1.0) * 2).sum().backward()
            assert w.grad is not None and v.grad is not None
            assert w.grad.tolist() == pytest.approx(v.grad.tolist()), name

    def test_first_values_hooks_and_small_ones(self) -> None:
        attention: Any = nn.MultiheadAttention(8, 2)
        assert attention.out_proj.bias.tolist() == [0.0] * 8
        seen: list[Any] = []
        layer = nn.Linear(2, 2)
        layer.register_forward_hook(lambda m, args, out: out * 2)
        layer.register_full_backward_hook(lambda m, into, out: seen.append(out[0]))
        layer(rl.ones(1, 2)).mul(3).sum().backward()
        [[grad]] = [out.tolist() for out in seen]
        assert grad == [3.0, 3.0]
        x = rl.arange(3)
        assert x[rl.tensor([1, 0, 1], dtype=rl.uint8)].tolist() == [0, 2]
        with pytest.warns(UserWarning, match="broadcast"):
            loss = F.mse_loss(rl.arange(3.0)[:, None], rl.arange(3.0))
        assert loss.item() == pytest.approx(1.3333, abs=1e-4)
        assert (rl.tensor([-1]) >> 70).tolist() == [-1]
        a, b = rl.randn(2, 3), rl.randn(3, 4)
        assert rl.allclose(rl.einsum(a, [0, 1], b, [1, 2], [0, 2]), a @ b, atol=1e-6)

    def test_weights_of_no_draw_are_refused(self, device: str) -> None:
        for weights in ([0.0, 0.0], [math.nan, 1.0]):
            with pytest.raises((RuntimeError, ValueError)):
                rl.tensor(weights, device=device).multinomial(1).tolist()


# --- programs with their imports changed ----------------------------------------------------------


class TestPrograms:
    @pytest.mark.parametrize(
        "name",
        [
            "accelerator",
            "cuda.amp",
            "nn.parallel",
            "distributed",
            "multiprocessing",
            "fx",
            "jit",
            "onnx",
            "profiler",
            "hub",
            "nn.attention",
            "nn.modules.linear",
            "utils.data.dataloader",
            "utils.data.distributed",
            "utils.tensorboard",
            "version",
            "serialization",
            "compiler",
            "overrides",
            "distributions.normal",
        ],
    )
    def test_a_module_is_there_or_says_what_is(self, name: str) -> None:
        try:
            importlib.import_module(f"rushlight.{name}")
        except ImportError as error:
            assert len(str(error)) > 30, name

    def test_compiled_modules_stay_modules(self) -> None:
        net = rl.compile(
            nn.Linear(2, 3),
            mode="reduce-overhead",
            backend="inductor",
            fullgraph=False,
            dynamic=True,
        )
        assert net.train() is net and net.eval() is net
        assert len(list(net.parameters())) == 2
        assert {name.removeprefix("_orig_mod.") for name in net.state_dict()} == {"weight", "bias"}

        @rl.compile
        def branching(x: rl.Tensor) -> rl.Tensor:
            return x * 2 if x.sum() > 0 else x - 1

        assert branching(rl.ones(2)).tolist() == [2.0, 2.0]
        assert branching(-rl.ones(2)).tolist() == [-2.0, -2.0]

    def test_small_names(self) -> None:
        assert rl.randint(10, size=(3,)).shape == (3,)
        assert rl.ones(2).new_zeros(3, requires_grad=True).requires_grad
        assert rl.where(rl.tensor([0, 3]))[0].tolist() == [1]
        assert rl.ones(2, 3).stride(0) == 3
        assert rl.ones(2).view(rl.int32).tolist() == [0x3F800000] * 2
        assert f"{rl.tensor(3.5)}" == "3.5"
        assert rl.device("cpu").index is None and isinstance(rl.device("cpu"), rl.device)
        assert len(nn.ModuleList([nn.ReLU()]) + [nn.ReLU()]) == 2
        held = nn.ModuleDict({"a": nn.ReLU()})
        assert isinstance(held.pop("a"), nn.ReLU) and not held
        assert nn.Linear(1, 1)._modules == {}
        assert len(nn.LSTM(2, 3).all_weights[0]) == 4
        names = nn.utils.spectral_norm(nn.Linear(2, 2)).state_dict()
        assert {"weight_orig", "weight_u"} <= set(names)
        state = rl.Generator().get_state()
        assert state.dtype is rl.uint8

    def test_sparse_graphs(self) -> None:
        edges = rl.tensor([[0, 1, 1], [1, 0, 0]])
        adjacent = rl.sparse_coo_tensor(edges, rl.tensor([1.0, 2.0, 3.0]), (2, 2)).coalesce()
        assert adjacent.to_dense().tolist() == [[0.0, 1.0], [5.0, 0.0]]
        assert rl.spmm(adjacent, rl.eye(2)).tolist() == [[0.0, 1.0], [5.0, 0.0]]


# --- attacks --------------------------------------------------------------------------------------


def refused(call: Callable[[], Any], *kinds: type[Exception]) -> None:
    """The call raises one of these, soon."""
    began = time.monotonic()
    with pytest.raises(kinds or (FormatError,)):
        call()
    assert time.monotonic() - began < 60


class TestAttacks:
    @pytest.mark.parametrize("name", ["!scope", "!each", "!held", "!made", "!key", "!weigh"])
    def test_templates_do_not_reach_the_meter(self, name: str) -> None:
        text = f"{{% set _ = [-10**15]|map('{name}', -10**15)|list %}}"
        refused(lambda: ChatTemplate(text).render([{"role": "user", "content": ""}]))

    def test_long_answers_are_read_in_linear_time(self) -> None:
        began = time.monotonic()
        answer_parts("[TOOL_CALLS]a" + " " * 65000 + "x")
        assert time.monotonic() - began < 20

    def test_one_path_saved_by_several_threads(self, tmp_path: Path) -> None:
        file = tmp_path / "one.safetensors"
        states = [{"w": rl.full((1000,), float(n))} for n in range(4)]
        threads = [threading.Thread(target=rl.save, args=(s, file)) for s in states * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(rl.load(file)["w"].tolist())) == 1
        assert [p.name for p in tmp_path.iterdir()] == ["one.safetensors"]

    def test_refused_draws_do_not_end_all_draws(self) -> None:
        for _ in range(70):
            with pytest.raises(Exception):  # noqa: B017  of memory or of size
                rl.randn(2**60)
        assert rl.randn(3).shape == (3,)

    def test_giant_and_empty_arguments(self) -> None:
        began = time.monotonic()
        assert rl.polygamma(2**40, rl.ones(2)).tolist() == [-INF, -INF]
        ones: Any = rl.ones(2)
        assert all(map(math.isnan, ones.round_(decimals=2**40).tolist()))
        assert time.monotonic() - began < 60
        refused(lambda: F.adaptive_max_pool1d(rl.ones(1, 4), 2**24), ValueError, RuntimeError)
        refused(
            lambda: rl.ones(3).repeat_interleave(rl.tensor([1, -1, 2])), ValueError, RuntimeError
        )
        refused(lambda: F.channel_shuffle(rl.ones(1, 4, 2, 2), 0), ValueError, RuntimeError)
        wrong: Any = []
        refused(lambda: rl.full((2, 2), wrong), TypeError, ValueError)

    def test_an_arrow_file_changed_in_its_middle(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        file = tmp_path / "table.arrow"
        table = pyarrow.table({"text": ["abc", "defg"] * 20, "n": list(range(40))})
        with pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        data = bytearray(file.read_bytes())
        script = (
            "import sys, rushlight as rl\n"
            "try: rl.datasets.read_table(sys.argv[1])\n"
            "except rl.FormatError: pass\n"
        )
        for at in range(len(data) // 3, 2 * len(data) // 3, 97):
            changed = tmp_path / f"{at}.arrow"
            changed.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) * 8 + data[at + 8 :])
        for changed in sorted(tmp_path.glob("[0-9]*.arrow"))[:4]:
            done = subprocess.run([sys.executable, "-c", script, changed], capture_output=True)
            assert done.returncode == 0, done.stderr[-500:]

    def test_images_that_claim_too_much(self, tmp_path: Path) -> None:
        def chunk(kind: bytes, data: bytes) -> bytes:
            body = kind + data
            return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

        head = struct.pack(">IIBBBBB", 50_000, 50_000, 16, 6, 0, 0, 0)
        file = tmp_path / "vast.png"
        parts = (b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")
        file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))
        refused(lambda: rl.image.load(file), FormatError, ValueError)
        eps = tmp_path / "cat.png"
        eps.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")
        refused(lambda: rl.image.load(eps), FormatError, ValueError)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
    def test_a_fifo_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "rows.csv")
        refused(lambda: rl.datasets.read_table(tmp_path / "rows.csv"), FormatError, OSError)
