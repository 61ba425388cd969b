"""What a model costs, on the chat page: from its header alone, on each device, with a way out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from rushlight.core.io import load_gguf

pytestmark = pytest.mark.warm_start

FIRST = "bytes=0-65535"


def sparse_llama(path: Path, layers: int, width: int, kind: str, vocabulary: int = 512) -> int:
    """Write a llama whose weights are a hole in the file; returns the bytes of the file."""
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(4096)
    out.add_embedding_length(width)
    out.add_block_count(layers)
    out.add_feed_forward_length(3 * width)
    out.add_head_count(width // 128)
    out.add_head_count_kv(8)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(128)
    out.add_vocab_size(vocabulary)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(["t", "1", *(f"t{i}" for i in range(vocabulary - 2))])
    out.add_token_types([1] * vocabulary)
    out.add_token_merges(["t 1"])
    out.add_eos_token_id(0)
    raw = gguf.GGMLQuantizationType[kind]
    block, nbytes = gguf.GGML_QUANT_SIZES[raw]
    size = 0

    def add(name: str, *shape: int) -> None:
        nonlocal size
        count = int(np.prod(shape))
        dtype, taken = raw, count // block * nbytes
        if len(shape) == 1:
            dtype, taken = gguf.GGMLQuantizationType.F32, count * 4
        held = np.dtype(np.float32)  # overruled by raw_dtype
        out.add_tensor_info(name, shape, held, taken, raw_dtype=dtype)
        size += -(-taken // 32) * 32

    add("token_embd.weight", vocabulary, width)
    add("output_norm.weight", width)
    for i in range(layers):
        for name, rows, columns in (
            ("attn_q", width, width),
            ("attn_k", 1024, width),
            ("attn_v", 1024, width),
            ("attn_output", width, width),
            ("ffn_gate", 3 * width, width),
            ("ffn_up", 3 * width, width),
            ("ffn_down", width, 3 * width),
        ):
            add(f"blk.{i}.{name}.weight", rows, columns)
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{i}.{name}.weight", width)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    out.close()
    with path.open("r+b") as file:
        begin = -(-file.seek(0, 2) // 32) * 32
        file.truncate(begin + size)
    return begin + size


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of gigabytes that take no room."""
    folder = tmp_path_factory.mktemp("large")
    assert 3.0e9 < sparse_llama(folder / "three.gguf", 28, 4096, "Q4_0") < 3.5e9
    assert 5e9 < sparse_llama(folder / "five.gguf", 48, 4096, "Q4_0")
    sparse_llama(folder / "wide.gguf", 1, 4096, "F16", vocabulary=150_000)
    return folder


@pytest.fixture(scope="module")
def chat(module_pages: Any, place: Any) -> Any:
    """The chat page on the CPU, with the model of the site described."""
    page = module_pages.open(
        f"{place.url}chat/?device=cpu", viewport={"width": 1280, "height": 1100}
    )
    # Reading a header starts Python, which is downloaded when it is asked for.
    page.click("#costs-read")
    page.wait_for_selector("#costs-rows div")
    return page


def costs(page: Any) -> dict[str, str]:
    rows = page.locator("#costs-rows div").all()
    return {row.locator("dt").inner_text(): row.locator("dd").inner_text() for row in rows}


def use(page: Any, device: str) -> None:
    choice = f'input[name="device"][value="{device}"]'
    page.wait_for_selector(f"{choice}:enabled", state="attached")  # not while a header is read
    page.check(choice, force=True)


def name_url(page: Any, url: str) -> None:
    page.check('input[name="kind"][value="url"]', force=True)
    page.fill("#model-url", url)
    page.press("#model-url", "Tab")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('GB')")
    page.wait_for_selector("#costs-rows div")


def refused(page: Any) -> tuple[str, str]:
    """Press the button that loads; the error's title and hint."""
    before = page.get_attribute("html", "data-round")
    page.click("#load")
    page.wait_for_selector(f'html[data-state="ready"]:not([data-round="{before}"])')
    return page.inner_text("#error-title"), page.inner_text("#error-hint")


def sizes(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"([\d.]+) MB", text)]


def test_the_cost_of_a_model_is_shown_before_it_is_loaded(
    chat: Any, place: Any, chain: Path, chain_native: Any
) -> None:
    weights = sum(t.nbytes for t in load_gguf(chain / "chain.gguf")[0].values()) / 1e6
    cache, context = chain_native.new_cache(), chain_native.context_length
    cache.reserve(context)
    token = cache.nbytes / context / 1e6
    asked = [r for _, r in place.mischief.asked("chain.gguf") if r]
    assert asked == [FIRST], "the header alone"
    for tokens, choice in ((context, ""), (512, "512")):
        chat.select_option("#context-limit", choice)
        parts = chat.inner_text("#costs-parts")
        assert f"for {tokens:,} tokens" in parts
        assert sizes(parts) == pytest.approx([weights, token * tokens], abs=0.06)
        for words in costs(chat).values():
            assert sizes(words)[0] == pytest.approx(weights + token * tokens, abs=0.06)
    assert "fits in 4." in costs(chat)["CPU"] and "fits in a buffer" in costs(chat)["WebGPU"]
    assert chat.inner_text("#costs-say") == ""


def test_a_shorter_context_is_what_the_model_gets(chat: Any) -> None:
    chat.select_option("#context-limit", "512")
    before = chat.get_attribute("html", "data-round")
    chat.click("#load")
    chat.wait_for_selector(f'html[data-state="ready"]:not([data-round="{before}"])')
    found = chat.evaluate("import('/shared/job.js').then((job) => job.model.contextLength)")
    assert found == 512
    chat.select_option("#context-limit", "")


def test_what_memory_cannot_hold_is_refused_before_it_is_downloaded(
    chat: Any, module_serve: Any, models: Path
) -> None:
    """On each device by its own limit, with a way out; of gigabytes the header alone is read."""
    away = module_serve(models, cors=True)

    def given() -> int:
        """Bytes that the server was asked for; a request without a range counts as all."""
        total = 0
        for method, path, range_ in away.mischief.log:
            if method == "GET" and path.endswith(".gguf"):
                begin, end = map(int, re.findall(r"\d+", range_) or (0, 1 << 40))
                total += end - begin + 1
        return total

    name_url(chat, f"{away.url}five.gguf")
    title, hint = refused(chat)
    assert "On the CPU the model does not fit: it needs more than the 4." in title
    assert hint == "Choose WebGPU."
    assert title in chat.inner_text("#costs-say")
    use(chat, "webgpu")
    assert chat.inner_text("#costs-say") == "", "WebGPU's memory is not that of WebAssembly"

    name_url(chat, f"{away.url}wide.gguf")
    title, hint = refused(chat)
    assert "On WebGPU the model does not fit: its largest tensor, 1.2 GB, is more than" in title
    assert hint.startswith("Choose the CPU, or take a file with fewer bits per weight: with 4.5 it")
    assert chat.is_visible("#use-cpu")

    name_url(chat, f"{away.url}three.gguf")
    assert chat.inner_text("#costs-say") == ""
    use(chat, "cpu")
    assert "fits in 4." in costs(chat)["CPU"] and chat.inner_text("#costs-say") == ""
    assert 0 < given() < 5e6 + 2 * 4e6, "headers alone; that of 150,000 tokens is the longest"


def test_the_client_refuses_too(chat: Any, module_serve: Any, models: Path) -> None:
    """Without the page: by the size alone, or by what the header says of the largest tensor."""
    away = module_serve(models, cors=True)
    found = chat.evaluate(
        """async (cases) => {
          const { rushlight } = await import("/shared/model.js");
          const found = [];
          for (const [url, device] of cases) {
            try { await rushlight().load(url, { device }); }
            catch ({ name, message, hint }) { found.push([name, message, hint]); }
          }
          return found;
        }""",
        [[f"{away.url}five.gguf", "cpu"], [f"{away.url}wide.gguf", "webgpu"]],
    )
    (heap, buffer) = found
    assert heap[0] == "MemoryError" and "do not fit in the 4." in heap[1] and "WebGPU" in heap[2]
    assert buffer[0] == "DeviceLimitError" and "largest tensor has" in buffer[1]
    assert ("GET", "") not in away.mischief.asked("five.gguf"), "not one byte"
