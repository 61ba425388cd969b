"""All passes over a captured decode step: what they save, and that they change nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.graph import PASSES
from rushlight.models.families.text import llama

pytestmark = pytest.mark.native
LAYERS = 2


@pytest.fixture(scope="module")
def model() -> Any:
    """SmolLM2's structure, small, with weights in blocks: three query heads to a key head."""
    made = llama.FAMILY.build(
        dict(
            vocab_size=64,
            hidden_size=192,
            intermediate_size=256,
            num_hidden_layers=LAYERS,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        ),
        [],
    )
    draws = np.random.default_rng(0)
    for p in dict(made.named_parameters()).values():
        if p.ndim == 1:
            values = 1 + 0.1 * draws.normal(size=p.shape)
            p.set_(rl.from_numpy(values.astype(np.float32)).to("webgpu"))
            continue
        raw = draws.integers(0, 256, (p.shape[0] * p.shape[1] // 32, 18)).astype(np.uint8)
        scales = draws.uniform(0.01, 0.03, (len(raw), 1)).astype(np.float16)
        raw[:, :2] = scales.view(np.uint8)
        p.set_(rl.Tensor.from_buffer(raw.tobytes(), "q4_0", p.shape).to("webgpu"))
    return made


def decode(model: Any, passes: Any, tokens: int = 4) -> tuple[np.ndarray[Any, Any], Any]:
    """Logits of some tokens one after another, and the executable that gave them."""
    cache = model.new_cache()
    cache.reserve(tokens)
    cache.static = True

    def step(ids: Any) -> Any:
        return model(ids, cache)

    run: Any = step if passes is None else rl.jit(step, passes=passes)
    with rl.no_grad():
        found = [run(rl.tensor([[7 * k % 64]], device="webgpu")).numpy() for k in range(tokens)]
    executable = None
    if passes is not None:
        (entry,) = run.executables.values()
        assert entry.why is None and entry.replays == tokens - 1
        executable = entry.body.executable
    return np.concatenate(found), executable


def test_every_choice_of_passes_gives_the_same(model: Any) -> None:
    want, _ = decode(model, None)
    chosen = [c for n in range(len(PASSES) + 1) for c in itertools.combinations(sorted(PASSES), n)]
    counts = {}
    for passes in chosen:
        got, executable = decode(model, passes)
        np.testing.assert_array_equal(got, want)
        counts[passes] = len(executable.ops)
    # Each pass saves dispatches whatever else is on; memory is not its business.
    for name in ("fold", "fuse", "merge"):
        for passes in chosen:
            if name not in passes:
                assert counts[tuple(sorted((*passes, name)))] < counts[passes], (name, passes)
    for passes in chosen:
        if "reuse" not in passes:
            assert counts[tuple(sorted((*passes, "reuse")))] == counts[passes]


def test_a_decode_step_is_at_most_ten_dispatches_a_layer(model: Any) -> None:
    _, plain = decode(model, ())
    _, best = decode(model, PASSES)
    labels = [label for _, label in best.labels]
    layers = [i for i, (op, _) in enumerate(best.labels) if op == "attention"]
    assert len(layers) == LAYERS
    # From one layer's attention to the next one's there is a layer.
    assert layers[1] - layers[0] <= 10, labels
    # norm; q, k and v; rope and writes; attention; o and x; norm; gate and up; silu; down and x.
    assert layers[1] - layers[0] == 9, labels
    # Positions, angles and the embedding before; the last norm and the head behind.
    assert len(best.ops) <= 10 * LAYERS + 6
    assert len(plain.ops) >= 18 * LAYERS + 6


def test_bytes_of_a_decode_step(model: Any) -> None:
    """Memory of intermediates, by what is reused and what is never written at all."""

    def held(passes: Any) -> int:
        _, executable = decode(model, passes)
        return sum(b.nbytes for b in {b.handle: b for b in executable.held}.values())

    plain, fused = held(()), held(("fuse",))
    reused, best = held(("reuse",)), held(PASSES)
    assert fused < plain and reused < plain / 3
    assert best <= reused + 1024


def test_a_chunk_of_a_prompt_is_the_same_by_all_passes(model: Any) -> None:
    ids = rl.tensor([list(range(3, 20))], device="webgpu")
    found = []
    for passes in (None, (), ("fuse",), ("merge",), PASSES):
        cache = model.new_cache()
        cache.reserve(17)
        cache.static = True
        step: Any = lambda ids, cache=cache: model(ids, cache, logits_to_keep=1)  # noqa: E731
        run = step if passes is None else rl.jit(step, passes=passes)
        with rl.no_grad():
            found.append(run(ids).numpy())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_encoder_is_the_same_by_all_passes(dtype: str) -> None:
    """BERT's structure: biases, gelu, residuals into norms, a mask."""
    from rushlight.core.nn import functional as F

    draws = np.random.default_rng(1)

    def numbers(*shape: int) -> Any:
        values = draws.normal(size=shape).astype(np.float32) * 0.2
        return rl.from_numpy(values).to("webgpu").to(dtype)

    w, v, b, c, g = (numbers(*s) for s in ((24, 12), (12, 24), (24,), (12,), (12,)))

    def layer(x: Any, mask: Any) -> Any:
        y = F.linear(F.gelu(F.linear(x, w, b)), v, c)
        x = F.layer_norm(x + y, 12, g, c)
        return (x * mask).sum(1) / mask.sum(1)

    x, mask = numbers(2, 5, 12), (numbers(2, 5, 1) > 0).to(dtype)
    with rl.no_grad():
        want = layer(x, mask).float().numpy()
        for passes in ((), ("fuse",), ("merge",), PASSES):
            run: Any = rl.jit(layer, passes=passes)
            for _ in range(2):
                np.testing.assert_array_equal(run(x, mask).float().numpy(), want)
