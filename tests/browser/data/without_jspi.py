"""What runs in a page whose browser cannot wait in the middle of Python, as Safari cannot.

Each function that begins with `check_` is a test of test_without_jspi.py; all but the first two
find the device open.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyodide.code import run_js  # type: ignore[import-not-found, unused-ignore]
from pyodide.ffi import can_run_sync  # type: ignore[import-not-found, unused-ignore]
from pyodide.http import pyfetch  # type: ignore[import-not-found, unused-ignore]

import rushlight as rl
from rushlight import nn, optim
from rushlight.core.basis.errors import DeviceError, DeviceLostError
from rushlight.core.io.text.tokenizer import import_modules
from rushlight.core.tools.testing import draws

F = nn.functional


def raises(kind: type[Exception], part: str, call: Callable[[], Any]) -> None:
    try:
        found = call()
    except kind as error:
        assert part in str(error), error
    else:
        raise AssertionError(f"{found!r} instead of {kind.__name__}")


async def check_a_missing_adapter_is_told() -> None:
    assert not can_run_sync()
    for offer, why in (
        ("undefined", "webgpu: this browser has no WebGPU\n  hint: "),
        ("{ requestAdapter: async () => null }", "webgpu: the browser offers no WebGPU adapter\n"),
    ):
        value = f"{{ value: {offer}, configurable: true }}"
        run_js(f"Object.defineProperty(navigator, 'gpu', {value})")
        try:
            await rl.device_async("webgpu")
        except DeviceError as error:
            assert str(error).startswith(why), error
        else:
            raise AssertionError("there was an adapter")
        run_js("delete navigator.gpu")  # the prototype's own shows again


async def check_a_device_that_was_not_opened_says_how() -> None:
    assert [str(d) for d in rl.devices()] == ["cpu", "webgpu"]
    how = 'hint: `await rl.device_async("webgpu")` once, before the device is used'
    raises(rl.BlockingReadError, how, lambda: rl.ones(2, device="webgpu"))
    raises(rl.BlockingReadError, how, lambda: rl.device("webgpu").info)
    device = await rl.device_async("webgpu")
    assert device is rl.device("webgpu") and device.info["device"]
    assert (await rl.device_async("webgpu")).info["backend"] == "browser"


async def check_blocking_reads_say_so() -> None:
    x = rl.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device="webgpu")
    calls: list[Callable[[], Any]] = [
        x.numpy,
        x.tolist,
        x.sum().item,
        x.cpu,
        x.raw_bytes,
        x.nonzero,
        lambda: np.asarray(x),
        lambda: bool(x[0, 0]),
        lambda: float(x[0, 0]),
        lambda: x[x > 2],
    ]
    for call in calls:
        raises(rl.BlockingReadError, "webgpu: reading values would block, and this browser", call)
    raises(rl.BlockingReadError, "hint: use `await t.numpy_async()`", x.numpy)
    assert (await x.numpy_async()).tolist() == [[1, 2, 3], [4, 5, 6]], "what waited is not lost"


async def check_reads_that_wait() -> None:
    x = rl.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device="webgpu")
    assert await (x * 2).t().tolist_async() == [[2, 8], [4, 10], [6, 12]]
    assert await x.sum().item_async() == 21
    assert await x.bfloat16().tolist_async() == [[1, 2, 3], [4, 5, 6]]
    assert await (await x.masked_select_async(x > 2)).tolist_async() == [3, 4, 5, 6]
    assert await (await rl.nonzero_async(x > 5)).tolist_async() == [[1, 2]]
    assert (await x.cpu_async()).tolist() == [[1, 2, 3], [4, 5, 6]]
    await rl.device("webgpu").synchronize_async()


async def check_errors_of_the_device_come_with_a_read_that_waits() -> None:
    x = rl.arange(8, device="webgpu")
    for read in (
        x.index_select(0, rl.tensor([2, 8], device="webgpu")).numpy_async,
        rl.device("webgpu").synchronize_async,
    ):
        x.index_select(0, rl.tensor([2, 8], device="webgpu"))
        try:
            await read()
        except IndexError as error:
            assert "index_select: index 8 is out of range for size 8" in str(error), error
        else:
            raise AssertionError("no IndexError")
    assert await x.tolist_async() == list(range(8))


async def check_a_tensor_is_printed_without_its_values() -> None:
    x = rl.ones(2, 3, device="webgpu")
    assert repr(x) == (
        "tensor(..., size=(2, 3), dtype=rushlight.float32, device='webgpu', values not read)"
    ), repr(x)
    whole = repr(rl.arange(4, device="webgpu").requires_grad_(False))
    assert (
        whole == "tensor(..., size=(4,), dtype=rushlight.int64, device='webgpu', values not read)"
    ), whole
    assert "grad_fn=" in repr(x.clone().requires_grad_() * 2)
    assert f"{x}" == str(x) == repr(x)
    assert repr(rl.ones(2)) == "tensor([1., 1.])"


async def check_training() -> None:
    def trained(device: str) -> rl.Tensor:
        rl.manual_seed(4)
        points = rl.from_numpy(draws(1, (64, 2)).astype(np.float32))
        labels = (points[:, 0] * points[:, 1] > 0).long().to(device)
        points = points.to(device)
        model = nn.Sequential(
            nn.Linear(2, 16), nn.BatchNorm1d(16, momentum=None), nn.ReLU(), nn.Linear(16, 2)
        )
        model.to(device)
        rl.manual_seed(5)  # each device draws for itself
        chosen = optim.AdamW(model.parameters(), lr=0.03)
        losses = []
        for step in range(40):
            order = rl.randint(0, 64, (32,), device=device)
            loss = F.cross_entropy(model(points[order]), labels[order])
            chosen.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            chosen.step()
            if step % 10 == 9:
                losses.append(loss.detach())
        state.update(model.state_dict())
        return rl.stack(losses)

    state: dict[str, rl.Tensor] = {}
    want = trained("cpu").tolist()
    found = await trained("webgpu").tolist_async()
    assert np.abs(np.subtract(found, want)).max() < 1e-3, (found, want)
    assert found[-1] < found[0] - 0.1, found
    # What was trained can be saved: its values come to cpu first.
    await rl.device("webgpu").synchronize_async()
    kept = {name: await t.cpu_async() for name, t in state.items()}
    rl.save(kept, "trained.safetensors")
    again = rl.load("trained.safetensors")
    assert again.keys() == state.keys()
    assert again["3.weight"].tolist() == await state["3.weight"].tolist_async()


async def check_embedding() -> list[float]:
    model: Any = await rl.models.load_async("./models/tiny/", device="webgpu")
    told: list[tuple[int, int]] = []
    vectors = model.encode(
        ["a rush and a little fat", "cow"], progress=lambda *done: told.append(done)
    )
    assert told == [(2, 2)]
    found: list[list[float]] = await vectors.tolist_async()
    return found[0]


def _llama(device: str, tokenizer: bytes) -> Any:
    config = {
        "model_type": "llama",
        "vocab_size": 280,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "eos_token_id": 277,
    }
    shapes = {"embed_tokens": (280, 32), "norm": (32,)}
    for i in range(2):
        layer = {
            "self_attn.q_proj": (32, 32),
            "self_attn.k_proj": (16, 32),
            "self_attn.v_proj": (16, 32),
            "self_attn.o_proj": (32, 32),
            "mlp.gate_proj": (48, 32),
            "mlp.up_proj": (48, 32),
            "mlp.down_proj": (32, 48),
            "input_layernorm": (32,),
            "post_attention_layernorm": (32,),
        }
        shapes |= {f"layers.{i}.{name}": shape for name, shape in layer.items()}
    tensors = {
        f"model.{name}.weight": rl.from_numpy(
            (draws(k, shape, -0.4, 0.4) + (len(shape) == 1)).astype(np.float32)
        )
        for k, (name, shape) in enumerate(shapes.items())
    }
    tensors["lm_head.weight"] = rl.from_numpy(draws(99, (280, 32)).astype(np.float32))
    files = {"config.json": json.dumps(config).encode(), "tokenizer.json": tokenizer}
    return rl.models.assemble(files, tensors, device=device)


async def check_generation() -> None:
    await import_modules()
    tokenizer = await (await pyfetch("tiny_byte_level.json")).bytes()
    here, there = _llama("cpu", tokenizer), _llama("webgpu", tokenizer)
    for options in (
        {"max_new_tokens": 8},
        {"max_new_tokens": 8, "temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 3},
        {"max_new_tokens": 8, "repetition_penalty": 1.3, "logit_bias": {5: 2.0}},
    ):
        want = [t.id for t in here.tokens("a candle", **options)]
        assert [t.id async for t in there.tokens_async("a candle", **options)] == want
        texts = [text async for text in there.generate_async("a candle", **options)]
        assert "".join(texts) == "".join(here.generate("a candle", **options))
    batch = ["a candle", [5, 6, 7]]
    found = await there.generate_batch_async(batch, max_new_tokens=6)
    assert found == here.generate_batch(batch, max_new_tokens=6)
    try:
        next(there.tokens("a candle", max_new_tokens=2))
    except rl.BlockingReadError:
        pass
    else:
        raise AssertionError("the blocking form did not say so")


async def check_files_are_read() -> None:
    Path("x.npz").unlink(missing_ok=True)
    rl.save({"x": rl.ones(2)}, "x.safetensors")
    there = rl.load("x.safetensors", device="webgpu")["x"]
    assert await there.tolist_async() == [1, 1]


async def check_a_lost_device() -> None:
    device: Any = rl.device("webgpu")
    x = rl.ones(3, device=device)
    device.backend.port.js.device.destroy()  # amid a run: x is not computed yet
    for _ in range(2):
        try:
            await (x + 1).numpy_async()
        except DeviceLostError as error:
            assert "webgpu: the device was lost" in str(error) and "reset()" in str(error), error
        else:
            raise AssertionError("no DeviceLostError")
    device.reset()
    raises(rl.BlockingReadError, "device_async", lambda: rl.ones(3, device=device))
    assert await rl.device_async("webgpu") is device
    assert await (rl.ones(3, device=device) + 1).tolist_async() == [2, 2, 2]
    raises(DeviceLostError, "closed or lost", lambda: x + 1)
