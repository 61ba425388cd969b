"""The page API: vectors as in a Python process, progress, stopping, queueing, errors, death."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.models.tasks import tasks

pytestmark = pytest.mark.warm_start

TEXTS = ["a rush and a little fat", "cheap light", "", "the bee was in the lamp . " * 20, "who ?"]

# Runs a body and gives the error's fields instead of throwing.
TRY = """async (body) => {
  try { return { value: await body() }; }
  catch (error) {
    const { name, message, hint, retry } = error;
    return { name, message, hint, retry, isError: error instanceof Error };
  }
}"""


def attempt(page: Any, body: str) -> dict[str, Any]:
    """The value or the error of an async JavaScript body."""
    found: dict[str, Any] = page.evaluate(f"({TRY})(async () => {{ {body} }})")
    return found


def test_vectors_equal_those_of_a_python_process(shared_page: Any, native: Any) -> None:
    rows = shared_page.evaluate(
        "async (texts) => (await model.encode(texts, { batchSize: 2 })).map((v) => [...v])", TEXTS
    )
    expected = native.encode(TEXTS).numpy()
    assert np.abs(np.array(rows) - expected).max() <= 1e-5


def test_weights_of_another_format_from_this_device(
    shared_page: Any, native: Any, tiny_model: Path
) -> None:
    buffer = io.BytesIO()
    weights: Any = load_safetensors(tiny_model / "model.safetensors")
    np.savez(buffer, **{name: tensor.numpy() for name, tensor in weights.items()})
    rows = shared_page.evaluate(
        """async ([texts, packed]) => {
          const files = [];
          for (const path of ["config.json", "tokenizer.json", "1_Pooling/config.json",
            "modules.json", "tokenizer_config.json"]) {
            const response = await fetch(`/models/tiny/${path}`);
            if (response.ok) files.push({ path: `m/${path}`, blob: await response.blob() });
          }
          const bytes = await (await fetch(`data:;base64,${packed}`)).blob();
          files.push({ path: "m/weights.npz", blob: bytes });
          const own = await rl.load(files);
          const rows = (await own.encode(texts)).map((v) => [...v]);
          await own.dispose();
          return rows;
        }""",
        [TEXTS[:2], base64.b64encode(buffer.getvalue()).decode()],
    )
    assert np.abs(np.array(rows) - native.encode(TEXTS[:2]).numpy()).max() <= 1e-5


def test_a_single_text_no_text_and_the_kind_of_array(shared_page: Any) -> None:
    assert shared_page.evaluate(
        """async () => {
          const [one] = await model.encode("cheap light");
          const none = await model.encode([]);
          return [one instanceof Float32Array, one.length, one.buffer.byteLength, none.length];
        }"""
    ) == [True, 64, 256, 0]


def test_progress_counts_texts(shared_page: Any) -> None:
    seen = shared_page.evaluate(
        """async () => {
          const seen = [];
          const onProgress = (p) => seen.push([p.stage, p.done, p.total]);
          await model.encode(["a", "the", "king", "bee", "oil"], { batchSize: 2, onProgress });
          return seen;
        }"""
    )
    assert seen == [["encode", 2, 5], ["encode", 4, 5], ["encode", 5, 5]]


def test_a_stream_gives_the_same_vectors_in_order(shared_page: Any) -> None:
    assert shared_page.evaluate(
        """async (texts) => {
          const all = await model.encode(texts);
          async function* source() { yield* texts; }
          let i = 0, worst = 0;
          for await (const vector of model.encodeStream(source(), { batchSize: 2 })) {
            vector.forEach((x, k) => (worst = Math.max(worst, Math.abs(x - all[i][k]))));
            i += 1;
          }
          return [i, worst < 1e-5];
        }""",
        TEXTS,
    ) == [len(TEXTS), True]


def test_the_signal_stops_the_worker_within_a_step(shared_page: Any) -> None:
    found = shared_page.evaluate(
        """async () => {
          const control = new AbortController();
          const long = "the king was in the house ".repeat(20);
          const texts = Array.from({ length: 20_000 }, (_, i) => `${i} ${long}`);
          let last = 0, after = 0;
          const onProgress = ({ done }) => {
            if (control.signal.aborted) after += 1;
            last = done;
            if (done >= 4) control.abort();
          };
          let name = "";
          const signal = control.signal;
          try { await model.encode(texts, { batchSize: 2, signal, onProgress }); }
          catch (error) { name = error.name; }
          const limit = new Promise((go) => setTimeout(() => go("it went on"), 20_000));
          const next = await Promise.race([model.encode("next"), limit]);
          return { name, last, after, next: next.length };
        }"""
    )
    # All of the texts would take minutes.
    assert found == {"name": "AbortError", "last": 4, "after": 0, "next": 1}


def test_break_stops_a_stream(shared_page: Any) -> None:
    found = shared_page.evaluate(
        """async () => {
          let taken = 0, got = 0;
          function* source() { for (;;) { taken += 1; yield "the bee"; } }
          for await (const vector of model.encodeStream(source(), { batchSize: 2 })) {
            got += vector.length / 64;
            if (got === 3) break;
          }
          const before = taken;
          await model.encode("next");
          return [got, before, taken];
        }"""
    )
    assert found == [3, 4, 4]


def test_a_signal_that_has_fired_before_the_call(shared_page: Any) -> None:
    found = attempt(shared_page, "return model.encode('a', { signal: AbortSignal.abort() });")
    assert found["name"] == "AbortError"


def test_a_stop_while_python_starts_is_obeyed_at_once(pages: Any, serve: Any, site: Path) -> None:
    page = pages.open(f"{serve(site).url}rushlight/NOTICE.txt")
    found = page.evaluate(
        """async () => {
          const { openRushlight } = await import("/rushlight/client.js");
          const rl = openRushlight();
          let started = false;
          const ready = rl.ready.then(() => (started = true));
          const signal = AbortSignal.timeout(100);
          const error = await rl.load("/models/tiny/", { signal }).catch((error) => error);
          const before = started;
          await ready;
          return [error.name, before, (await rl.load("/models/tiny/")).name];
        }"""
    )
    assert found == ["TimeoutError", False, "tiny"]


def test_jobs_queue_and_keep_their_answers_apart(shared_page: Any) -> None:
    assert shared_page.evaluate(
        """async (texts) => {
          const alone = [];
          for (const text of texts) alone.push((await model.encode(text))[0]);
          const together = await Promise.all(texts.map((text) => model.encode(text)));
          return together.every(([v], i) => v.every((x, k) => Math.abs(x - alone[i][k]) < 1e-6));
        }""",
        TEXTS,
    )


def test_a_pipeline_gives_what_the_model_gives(shared_page: Any, native: Any) -> None:
    found = shared_page.evaluate(
        """async (texts) => {
          const pipe = await rl.pipeline("feature-extraction", "/models/tiny/", { batchSize: 2 });
          const progress = [];
          const onProgress = ({ done }) => progress.push(done);
          const rows = (await pipe(texts, { onProgress })).map((v) => [...v]);
          const [vector] = await pipe.model.encode(texts[0]);
          const one = await pipe(texts[0]);
          const same = one.every((x, i) => Math.abs(x - vector[i]) < 1e-6);
          await pipe.model.dispose();
          const again = (await rl.pipeline("feature-extraction", model)).model === model;
          const listed = (await rl.tasks()).map((task) => task.name);
          return { rows, progress, same, again, listed, output: pipe.task.output };
        }""",
        TEXTS,
    )
    assert np.abs(np.array(found["rows"]) - native.encode(TEXTS).numpy()).max() <= 1e-5
    assert found["progress"] == [2, 4, 5] and found["same"] and found["again"]
    assert found["listed"] == list(tasks()) and found["output"] == "vectors"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("rl.pipeline('chat', model)", "sentence-similarity; chat is not supported"),
        ("rl.pipeline('chat', '/models/tiny/')", "bert serves feature-extraction, sentence-"),
        (
            "rl.pipeline('chatter', '/models/none/')",
            "did you mean 'chat'? supported: audio-classification, ",
        ),
        ("(await rl.pipeline('feature-extraction', model)).stream('a')", "does not stream"),
    ],
)
def test_an_unsupported_task_is_named(shared_page: Any, body: str, message: str) -> None:
    assert message in attempt(shared_page, f"return {body};")["message"]


def test_info_says_what_runs(shared_page: Any) -> None:
    info = shared_page.evaluate("() => rl.info()")
    assert info["pyodide"] == "314.0.3"
    assert info["device"] == "CPU, relaxed SIMD"
    assert info["cores"] >= 1 and info["jspi"] is True
    assert "swiftshader" in info["webgpu"].lower()


def test_the_cache_lists_and_clears(shared_page: Any) -> None:
    found = shared_page.evaluate(
        """async () => {
          const before = await rl.cache.list();
          const freed = await rl.cache.clear(new URL("/models/", location.href).href);
          const after = await rl.cache.list();
          return { before, freed, after };
        }"""
    )
    weights = [row for row in found["before"] if row["url"].endswith("model.safetensors")]
    assert len(weights) == 1 and weights[0]["complete"]
    assert weights[0]["bytes"] == weights[0]["size"] > 2_000_000
    assert found["freed"] >= weights[0]["bytes"]
    assert found["after"] == []


@pytest.mark.parametrize(
    ("body", "name", "message"),
    [
        ("return model.encode([1]);", "TypeError", "texts is [1]; it must be a text or a list"),
        ("return model.encode('a', { batchSize: 0 });", "ValueError", "batchSize is 0"),
        ("return model.encode('a', { size: 1 });", "TypeError", "'size' is not supported"),
        ("return rl.load('what is this');", "WeightsError", "neither an address nor a hub id"),
        ("return rl.load('/models/tiny/', { device: 'abacus' });", "", "abacus"),
        ("return rl.load('/models/tiny/', { dtype: 'float33' });", "", "float33"),
    ],
)
def test_errors_are_errors_with_words(shared_page: Any, body: str, name: str, message: str) -> None:
    found = attempt(shared_page, body)
    assert found["isError"] and message in found["message"]
    assert "Traceback" not in found["message"]
    assert name in ("", found["name"])


def test_a_disposed_model_says_so(shared_page: Any) -> None:
    found = attempt(
        shared_page,
        "const one = await rl.load('/models/tiny/'); await one.dispose(); return one.encode('a');",
    )
    assert "disposed" in found["message"]


def test_memory_comes_back_after_dispose(shared_page: Any) -> None:
    sizes = shared_page.evaluate(
        """async () => {
          const sizes = [];
          for (let i = 0; i < 12; i += 1) {
            await (await rl.load("/models/tiny/")).dispose();
            sizes.push((await rl.info()).heapBytes);
          }
          return sizes;
        }"""
    )
    assert sizes[-1] == sizes[3], "the heap grew with every load"


@pytest.mark.parametrize("end", ["crash", "close"])
def test_a_dead_worker_rejects_all_pending_calls(
    pages: Any, serve: Any, site: Path, end: str
) -> None:
    place = serve(site)
    # A worker that ends itself in the middle of a job sends no event at all.
    place.mischief.prepend["/rushlight/worker.js"] = (
        b"addEventListener('message', (e) => { if (e.data?.path?.[0] === 'measure') close(); });\n"
    )
    page = pages.open(f"{place.url}rushlight/runtime.json")
    kill = "rl.measure().catch(() => {})" if end == "crash" else "rl.close()"
    found = page.evaluate(
        f"""async () => {{
          const {{ createRushlight }} = await import("/rushlight/client.js");
          const rl = await createRushlight();
          const model = await rl.load("/models/tiny/");
          let calls = [];
          const texts = Array.from({{ length: 50_000 }}, (_, i) => `the king ${{i}}`);
          const begun = new Promise((onProgress) => {{
            calls = [model.encode(texts, {{ onProgress }}), model.encode("a"), rl.info()];
          }});
          for (const call of calls) call.catch(() => {{}});
          await begun;
          {kill};
          const ends = (await Promise.allSettled(calls)).map((e) => e.reason?.name ?? e.status);
          const later = await model.encode("b").catch((error) => error);
          return {{ ends, later: later.message, hint: later.hint }};
        }}"""
    )
    assert found["ends"] == ["WorkerError"] * 3
    assert found["later"] == ("the worker has ended" if end == "crash" else "Rushlight was closed")
    assert found["hint"]


def test_without_jspi_everything_works(pages: Any, serve: Any, site: Path, native: Any) -> None:
    place = serve(site)
    remove = b"delete WebAssembly.Suspending; delete WebAssembly.promising;\n"
    place.mischief.prepend["/rushlight/worker.js"] = remove
    page = pages.context(service_workers="block").new_page()  # a first start
    page.goto(f"{place.url}rushlight/runtime.json")
    found = page.evaluate(
        """async (texts) => {
          delete WebAssembly.Suspending;
          delete WebAssembly.promising;
          const { createRushlight } = await import("/rushlight/client.js");
          const rl = await createRushlight();
          const { jspi } = await rl.info();
          const model = await rl.load("/models/tiny/");
          const stream = [];
          for await (const v of model.encodeStream(texts)) stream.push([...v]);
          return { jspi, rows: (await model.encode(texts)).map((v) => [...v]), stream };
        }""",
        TEXTS,
    )
    assert found["jspi"] is False
    expected = native.encode(TEXTS).numpy()
    for rows in (found["rows"], found["stream"]):
        assert np.abs(np.array(rows) - expected).max() <= 1e-5
