"""Generation through client.js: as in a Python process; stopping, options, sources, errors."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.tasks.record import camel

pytestmark = pytest.mark.warm_start

ASK = [{"role": "user", "content": "What is a light"}]
# Runs a body and gives the error's fields instead of throwing.
TRY = """async (body) => {
  try { return { value: await body() }; }
  catch (error) { return { name: error.name, message: error.message, hint: error.hint }; }
}"""


@pytest.fixture(scope="module", params=["cpu", "webgpu"])
def page(request: pytest.FixtureRequest, module_pages: Any, place: Any) -> Any:
    """A page with `rl` (the runtime) and `m` (the model) on each device."""
    found = module_pages.open(f"{place.url}rushlight/runtime.json")
    found.evaluate(
        """async (device) => {
          const { createRushlight } = await import("/rushlight/client.js");
          window.rl = await createRushlight();
          window.m = await rl.load("/models/chain/", { device });
          window.all = async (pieces) => {
            const found = [];
            for await (const piece of pieces) found.push(piece);
            return found;
          };
        }""",
        request.param,
    )
    assert found.evaluate("() => m.device") == request.param
    return found


def attempt(page: Any, body: str) -> dict[str, Any]:
    """The value or the error of an async JavaScript body."""
    found: dict[str, Any] = page.evaluate(f"({TRY})(async () => {{ {body} }})")
    return found


def test_the_model_says_what_it_is(page: Any) -> None:
    found = page.evaluate(
        "() => [m.name, m.modelType, m.contextLength, m.chatTemplate, m.parameters > 1e6]"
    )
    assert found == ["chain", "llama", 2000, True, True]


def test_chat_and_generate_give_what_python_gives(page: Any, chain_native: Any) -> None:
    assert page.evaluate("(ask) => all(m.chat(ask))", ASK) == list(chain_native.chat(ASK))
    found = page.evaluate("() => all(m.generate('a light', { maxNewTokens: 4 }))")
    assert found == list(chain_native.generate("a light", max_new_tokens=4))
    assert found == ["A", " rushlight", " is a", " **cheap**"]


def test_a_pipeline_streams_and_gives_the_whole(page: Any, chain_native: Any) -> None:
    found = page.evaluate(
        """async (ask) => {
          const pipe = await rl.pipeline("chat", m, { maxNewTokens: 4 });
          const ids = [];
          const pieces = await all(pipe.stream(ask, { onToken: ({ id }) => ids.push(id) }));
          return [pieces, await pipe(ask), ids.length, m.tasks];
        }""",
        ASK,
    )
    pieces = list(chain_native.chat(ASK, max_new_tokens=4))
    served = [*chain_native.tasks, "feature-extraction", "sentence-similarity", "text-ranking"]
    assert found == [pieces, "".join(pieces), 4, served]


def test_a_seed_draws_what_python_draws(page: Any, chain_native: Any) -> None:
    seeds = range(6)
    found = page.evaluate(
        """async (seeds) => {
          const found = [];
          const options = { temperature: 1, topK: 400, topP: 0.99, minP: 0.01 };
          for (const seed of seeds) {
            found.push((await all(m.generate("dice", { ...options, seed }))).join(""));
          }
          return found;
        }""",
        list(seeds),
    )
    options = {"temperature": 1.0, "top_k": 400, "top_p": 0.99, "min_p": 0.01}
    assert found == ["".join(chain_native.generate("dice", seed=s, **options)) for s in seeds]
    assert len(set(found)) > 2


def test_samplers_of_the_host_and_other_ways(page: Any, chain_native: Any) -> None:
    """They draw what Python draws; beams, guesses and contrastive search wait for no value."""
    drawn = {"temperature": 1.0, "typical_p": 0.95, "dry_multiplier": 0.5, "xtc_probability": 0.5}
    asked: list[dict[str, Any]] = [
        {**drawn, "seed": 3},
        {"mirostat": 2, "seed": 1},
        {"num_beams": 2},
        {"penalty_alpha": 0.4, "top_k": 3},
        {"prompt_lookup_num_tokens": 3},
    ]
    found = page.evaluate(
        """async (asked) => {
          const texts = [], top = [];
          for (const options of asked) {
            texts.push((await all(m.generate("dice", { ...options, maxNewTokens: 4 }))).join(""));
          }
          const onToken = (token) => top.push(token.top);
          await all(m.generate("dice", { maxNewTokens: 1, logprobs: 2, onToken }));
          const pipe = await m.pipeline("text-generation");
          const several = { numReturnSequences: 2, temperature: 1, maxNewTokens: 3, seed: 4 };
          return [texts, top, await pipe("dice", several)];
        }""",
        [{camel(name): value for name, value in options.items()} for options in asked],
    )
    native = ["".join(chain_native.generate("dice", max_new_tokens=4, **o)) for o in asked]
    several = chain_native.generate_batch(
        ["dice"], num_return_sequences=2, temperature=1.0, max_new_tokens=3, seed=4
    )
    assert found[0] == native and found[2] == several
    top = next(iter(chain_native.tokens("dice", logprobs=2))).top
    assert [pair[1] for pair in found[1][0]] == pytest.approx([log for _, log in top], abs=1e-4)


def test_conversations_take_turns_without_being_read_again(page: Any) -> None:
    words = " some words before the light" * 4
    found = page.evaluate(
        """async (words) => {
          const two = await rl.load("/models/chain/", { device: m.device, prefixCache: 1 << 24 });
          const first = [];
          for (const end of [" a", " b", " a light", " b light"]) {
            let read;
            const onProgress = ({ done }) => (read ??= done);
            await all(two.generate(end.trim()[0] + words + end, { maxNewTokens: 2, onProgress }));
            first.push(read);
          }
          await two.dispose();
          return first;
        }""",
        words,
    )
    assert found[0] == 0 and found[2] >= 16 and found[3] >= 16
    message = attempt(page, "await rl.load('/models/chain/', { prefixCache: 0.5 })")["message"]
    assert message == "load: prefixCache is 0.5; it must be a number of bytes"


def test_tokens_progress_and_counts(page: Any, chain_native: Any) -> None:
    found = page.evaluate(
        """async () => {
          const tokens = [], progress = [];
          let stats;
          const options = {
            onToken: (token) => tokens.push(token),
            onProgress: ({ stage, done, total }) => progress.push([stage, done, total]),
            onDone: (found) => (stats = found),
          };
          await all(m.generate("some words before the light", { maxNewTokens: 3, ...options }));
          return { tokens, progress, stats, count: await m.tokenCount("a light") };
        }"""
    )
    expected = list(chain_native.tokens("some words before the light", max_new_tokens=3))
    assert [(t["id"], t["text"]) for t in found["tokens"]] == [(t.id, t.text) for t in expected]
    logprobs = [t["logprob"] for t in found["tokens"]]
    assert logprobs == pytest.approx([t.logprob for t in expected], abs=1e-4)
    total = len(chain_native.prompt_ids("some words before the light"))
    assert found["progress"][-1] == ["prefill", total - 1, total]
    stats = found["stats"]
    assert (stats["promptTokens"], stats["generatedTokens"], stats["stopped"]) == (
        total,
        3,
        "length",
    )
    assert stats["seconds"]["prefill"] > 0 and stats["seconds"]["decode"] > 0
    assert found["count"] == len(chain_native.prompt_ids("a light"))


def test_stop_texts_and_biases(page: Any) -> None:
    found = page.evaluate(
        """async () => {
          const stops = await all(m.generate("light", { stop: ["\\n\\n- ru"] }));
          const [first] = await all(m.generate("light", { maxNewTokens: 1 }));
          let id;
          await all(m.generate("light", { maxNewTokens: 1, onToken: (token) => (id = token.id) }));
          const logitBias = { [id]: -99 };
          const other = await all(m.generate("light", { maxNewTokens: 1, logitBias }));
          return [stops.join(""), first, other.join("") === first];
        }"""
    )
    assert found == ["A rushlight is a **cheap** light:", "A", False]


def test_a_mask_of_tokens(page: Any, chain_native: Any) -> None:
    vocab = chain_native.config.vocab_size
    found = page.evaluate(
        """async (vocab) => {
          const answer = async (tokenMask) => {
            const ids = [];
            const options = { maxNewTokens: 3, tokenMask, onToken: ({ id }) => ids.push(id) };
            try { await all(m.generate("light", options)); } catch (e) { return e.message; }
            return ids;
          };
          const free = await answer();
          const bytes = new Uint8Array(vocab).fill(1);
          bytes[free[0]] = 0;
          const booleans = Array.from(bytes, (byte) => byte === 1);
          return [free, await answer(bytes), await answer(booleans), await answer([true])];
        }""",
        vocab,
    )
    free, masked, again, wrong = found
    assert len(free) == 3 and masked == again and free[0] not in masked and masked
    assert wrong == (
        f"generate: token_mask is (1,); it must be ({vocab},), a boolean for each token"
    )


@pytest.mark.parametrize("how", ["break", "signal", "return"])
def test_leaving_stops_the_worker_within_a_token(page: Any, how: str) -> None:
    found = page.evaluate(
        """async (how) => {
          const control = new AbortController();
          let seen = 0, last = 0, name = "";
          const onToken = () => (seen += 1);
          const endless = { maxNewTokens: 1e7, overflow: "shift" };
          const options = { ...endless, onToken, signal: control.signal };
          const pieces = m.generate("clock", options);
          try {
            for await (const piece of pieces) {
              last += 1;
              if (last < 4) continue;
              if (how === "break") break;
              if (how === "return") await pieces.return();
              if (how === "signal") control.abort();
            }
          } catch (error) { name = error.name; }
          const limit = new Promise((go) => setTimeout(() => go("it went on"), 60_000));
          const next = await Promise.race([m.tokenCount("next"), limit]);
          return { seen, last, name, next };
        }""",
        how,
    )
    assert found["last"] == 4 and found["seen"] <= 5
    assert found["name"] == ("AbortError" if how == "signal" else "")
    assert found["next"] == 4, "the worker answers once it has stopped"


def test_a_long_prompt_stops_while_it_is_read(page: Any) -> None:
    found = page.evaluate(
        """async () => {
          const control = new AbortController();
          const seen = [];
          const onProgress = ({ done }) => { seen.push(done); if (done > 0) control.abort(); };
          const prompt = Array.from({ length: 300 }, (_, i) => String.fromCharCode(97 + i % 26));
          const options = { signal: control.signal, onProgress };
          let name;
          try { await all(m.generate("z" + prompt.join(""), options)); }
          catch (error) { name = error.name; }
          await m.tokenCount("next");
          return { name, seen };
        }"""
    )
    assert found["name"] == "AbortError"
    assert found["seen"][-1] < 100


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("m.generate('a', { temperature: -1 })", "temperature is -1"),
        ("m.generate('a', { maxNewTokens: 2.5 })", "maxNewTokens is 2.5"),
        ("m.generate('a', { topP: 0 })", "top_p is 0"),
        ("m.generate('a', { heat: 1 })", "heat would have no effect; variables of the chat"),
        ("m.generate('')", "prompt is empty"),
        ("m.generate('a'.repeat(2100))", "the prompt has 2100 tokens, the context holds 2000"),
        ("(await rl.load('/models/tiny/')).generate('a')", "text-generation is not supported"),
    ],
)
def test_errors_are_readable(page: Any, body: str, words: str) -> None:
    found = attempt(page, f"return all({body})")
    assert words in found["message"], found
    assert page.evaluate("() => all(m.generate('light', { maxNewTokens: 1 }))") == ["A"]


def _adapters(model: Any, folder: Path) -> dict[str, bytes]:
    """The files of a LoRA adapter in PEFT's format, and as GGUF with another sign."""
    config = rl.adapters.LoraConfig(r=4, lora_alpha=8, target_modules=["lm_head", "q_proj"])
    rl.adapters.add_adapter(model, config, trainable=False)
    draws = np.random.default_rng(3)
    with rl.no_grad():
        for name, p in model.named_parameters():
            if ".attached." in name:
                p.copy_(rl.tensor(draws.normal(size=p.shape).astype(np.float32)))
    rl.adapters.save_adapter(model, folder)
    state = {n: t for n, t in rl.adapters.adapter_state(model).items() if "lm_head" in n}
    factors = {
        f"output.weight.lora_{'ab'['lora_B' in name]}": value for name, value in state.items()
    }
    facts = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}
    rl.save_gguf(factors, folder / "head.gguf", facts | {"adapter.lora.alpha": -4.0})
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_adapters_are_added_and_switched(page: Any, chain: Path, tmp_path: Path) -> None:
    native: Any = rl.models.load(str(chain))
    files = _adapters(native, tmp_path / "peft")
    rl.adapters.load_adapter(native, tmp_path / "peft" / "head.gguf", "head")
    said = {}
    for name in ("default", "head", ""):
        rl.adapters.set_adapter(native, name or ())
        said[name] = "".join(native.generate("a light", max_new_tokens=6, temperature=0))
    assert len(set(said.values())) == 3
    found = page.evaluate(
        """async (files) => {
          const chosen = await Promise.all(Object.entries(files).map(async ([name, packed]) =>
            ({ path: `x/${name}`, blob: await (await fetch(`data:;base64,${packed}`)).blob() })));
          const say = async () =>
            (await all(m.generate("a light", { maxNewTokens: 6, temperature: 0 }))).join("");
          const found = {};
          const seen = [];
          await m.addAdapter(chosen.filter(({ path }) => !path.endsWith("gguf")),
            { onProgress: ({ stage }) => seen.push(stage) });
          found.default = await say();
          await m.addAdapter([chosen.find(({ path }) => path.endsWith("gguf"))], { name: "head" });
          found.head = await say();
          await m.setAdapters("default");
          found.again = await say();
          const errors = [];
          for (const wrong of [() => m.setAdapters("none"), () => m.addAdapter("/models/tiny/"),
            () => m.addAdapter(chosen.filter(({ path }) => path.endsWith("json")))]) {
            errors.push(await wrong().then(() => "", (error) => error.message));
          }
          await m.setAdapters([]);
          found[""] = await say();
          return { found, errors, seen: [...new Set(seen)] };
        }""",
        {name: base64.b64encode(content).decode() for name, content in files.items()},
    )
    assert found["found"] == said | {"again": said["default"]}
    assert found["seen"] == ["download", "build"]
    unknown, missing, bare = found["errors"]
    assert unknown == "there is no adapter 'none'; there are: default, head"
    assert "adapter_config.json" in missing and "/models/tiny/" in missing
    assert "adapter_model.safetensors" in bare


def test_a_file_by_its_address_and_from_this_device(page: Any) -> None:
    found = page.evaluate(
        """async () => {
          const address = new URL("/models/chain/chain.gguf", location.href);
          const about = await rl.describe(address);
          const one = await rl.load(address);
          const blob = await (await fetch(address)).blob();
          const two = await rl.load([new File([blob], "my.gguf")]);
          const ask = [{ role: "user", content: "light" }];
          const texts = [];
          for (const model of [one, two]) {
            texts.push((await all(model.chat(ask, { maxNewTokens: 2 }))).join(""));
            await model.dispose();
          }
          return { bytes: about.bytes, size: blob.size, names: [one.name, two.name], texts };
        }"""
    )
    assert found["bytes"] == found["size"]
    assert found["names"] == ["chain", "my"]
    assert found["texts"] == ["A rushlight"] * 2


def test_a_split_file_by_its_address_and_from_this_device(
    page: Any, place: Any, chain_parts: dict[str, bytes]
) -> None:
    for name, content in chain_parts.items():
        place.mischief.replace[f"/{name}"] = content
    found = page.evaluate(
        """async (names) => {
          const addresses = names.map((name) => new URL(`/${name}`, location.href));
          const blobs = addresses.map(async (where) => (await fetch(where)).blob());
          const files = (await Promise.all(blobs)).map((blob, i) => new File([blob], names[i]));
          const texts = [];
          for (const from of [addresses[1], files.reverse()]) {
            const model = await rl.load(from);
            const text = await all(model.generate("light", { maxNewTokens: 2 }));
            texts.push([model.name, text.join("")]);
            await model.dispose();
          }
          return texts;
        }""",
        [*chain_parts],
    )
    assert found == [["links", "A rushlight"]] * 2
    first, *_ = chain_parts
    place.mischief.replace["/other-00001-of-00002.gguf"] = chain_parts[first]
    missing = attempt(page, "return rl.load(new URL('/other-00001-of-00002.gguf', location.href))")
    assert missing["message"] == "other-00002-of-00002.gguf: the server answered 404"


@pytest.mark.parametrize(
    ("kinds", "taken"),
    [(("IQ2_XXS", "Q4_K_M", "Q8_0", "Q4_1"), "Q4_1"), (("F16", "IQ2_XXS", "Q4_K_M"), "Q4_K_M")],
)
def test_a_hub_id_takes_the_best_kind(
    page: Any, place: Any, chain: Path, kinds: tuple[str, ...], taken: str
) -> None:
    content = (chain / "chain.gguf").read_bytes()
    rows = [{"type": "file", "path": f"chain-{kind}.gguf", "size": len(content)} for kind in kinds]
    tree = json.dumps(rows).encode()
    place.mischief.replace["/api/models/ann/chain/tree/main"] = tree
    place.mischief.replace[f"/ann/chain/resolve/main/chain-{taken}.gguf"] = content
    found = page.evaluate(
        """async () => {
          const hubUrl = location.origin;
          const about = await rl.describe("ann/chain", { hubUrl });
          const model = await rl.load("ann/chain", { hubUrl });
          const text = (await all(model.generate("light", { maxNewTokens: 2 }))).join("");
          await model.dispose();
          return [about.files.map(({ path }) => path), text];
        }"""
    )
    assert found == [[f"chain-{taken}.gguf"], "A rushlight"]


def test_files_that_are_no_model(page: Any, chain: Path, place: Any) -> None:
    content = (chain / "chain.gguf").read_bytes()
    place.mischief.replace["/cut.gguf"] = content[:3000]
    place.mischief.replace["/version.gguf"] = b"GGUF\x09" + content[5:]
    place.mischief.replace["/text.gguf"] = b"Hello, I am a text and not a model. " * 9
    found = [
        attempt(page, f"return rl.load(new URL('/{name}.gguf', location.href))")["message"]
        for name in ("cut", "version", "text")
    ]
    assert "cut.gguf" in found[0] and "tokens" in found[0]
    assert "version 9" in found[1]
    assert "text.gguf is not a GGUF file" in found[2]


# How many bytes the browser keeps of the files of a start.
KEPT_FILES = """async () => {
  const cache = await caches.open("rushlight-start");
  const kept = await cache.match("/rushlight/start/files");
  return kept ? (await kept.blob()).size : 0;
}"""


def test_jinja2_comes_when_a_chat_begins_and_is_kept(
    pages: Any, serve: Any, chat_site: Path
) -> None:
    place = serve(chat_site)
    page = pages.open(f"{place.url}rushlight/runtime.json")
    ours = ("jinja2.whl", "markupsafe/__init__.py", "markupsafe/_native.py")

    def visit(ask: str) -> list[str]:
        """Start, load and `ask`; the files of jinja2 that the server was asked for."""
        place.mischief.log.clear()
        page.goto(f"{place.url}models/index.json")
        page.evaluate(
            """async (ask) => {
              const { createRushlight } = await import("/rushlight/client.js");
              window.rl = await createRushlight();
              window.m = await rl.load("/models/chain/", { device: "cpu" });
              await eval(ask);
            }""",
            ask,
        )
        page.wait_for_timeout(500)  # a file that is asked for too late would be seen
        return [path for _, path, _ in place.mischief.log if path.endswith(ours)]

    generate = "m.generate('a light', { maxNewTokens: 1 }).next()"
    chat = "m.chat([{ role: 'user', content: 'light' }], { maxNewTokens: 1 }).next()"
    count = "m.tokenCount([{ role: 'user', content: 'light' }])"
    assert visit(generate) == []
    before = page.evaluate(KEPT_FILES)
    assert len(visit(chat)) == 3
    for _ in range(600):  # until the worker has kept its files
        if page.evaluate(KEPT_FILES) != before:
            break
        page.wait_for_timeout(200)
    assert [visit(ask) for ask in (chat, count, generate)] == [[], [], []]


def test_openais_calls(page: Any, chain_native: Any) -> None:
    """The body and the answers of OpenAI's client, streamed and not, and vectors."""
    whole, chunks, cut, vectors = page.evaluate(
        """async (messages) => {
          const { chat, embeddings } = rl.openai(m);
          const body = { messages, model: "mine", logprobs: true };
          const whole = await chat.completions.create(body);
          const options = { stream: true, stream_options: { include_usage: true } };
          const chunks = await all(await chat.completions.create({ ...body, ...options }));
          const cut = await chat.completions.create({ messages, max_tokens: 3 });
          const vectors = await embeddings.create({ input: ["a light", "clock"] });
          return [whole, chunks, cut, vectors];
        }""",
        ASK,
    )
    text = "".join(chain_native.chat(ASK))
    (choice,) = whole["choices"]
    assert choice["message"] == {"role": "assistant", "content": text}
    assert (whole["model"], whole["object"]) == ("mine", "chat.completion")
    assert choice["finish_reason"] == "stop"
    assert "".join(t["token"] for t in choice["logprobs"]["content"]) == text
    usage = whole["usage"]
    assert usage["prompt_tokens"] == len(chain_native.chat_ids(ASK))
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    *parts, last = chunks
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in parts) == text
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    streamed = [
        t for c in parts for t in (c["choices"][0]["logprobs"] or {"content": []})["content"]
    ]
    assert streamed == choice["logprobs"]["content"]
    assert [c["choices"][0]["finish_reason"] for c in parts][-2:] == [None, "stop"]
    assert last["usage"] == usage and last["choices"] == []
    assert cut["choices"][0]["finish_reason"] == "length"
    expected = chain_native.encode(["a light", "clock"]).numpy()
    rows = np.array([row["embedding"] for row in vectors["data"]])
    assert np.abs(rows - expected).max() < 1e-3 and vectors["usage"]["prompt_tokens"] > 2


def test_thoughts_of_openais_calls_are_apart(page: Any) -> None:
    found = page.evaluate(
        """async () => {
          const { chat } = rl.openai(m);
          const ask = [{ role: "user", content: [{ type: "text", text: "ponder" }] }];
          const { choices: [{ message }] } = await chat.completions.create({ messages: ask });
          return message;
        }"""
    )
    assert found["content"].strip() == "It burns." and "Hm" in found["reasoning_content"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{ messages: [], n: 2 }", "n is 2; one answer is written"),
        ("{ messages: [], functions: [] }", "functions is not supported; supported: model"),
        (
            "{ messages: [{ role: 'user', content: [{ type: 'image_url', "
            "image_url: { url: 'https://example.com/a.png' } }] }] }",
            "nothing is fetched",
        ),
    ],
)
def test_what_openais_calls_refuse(page: Any, body: str, words: str) -> None:
    found = attempt(page, f"return rl.openai(m).chat.completions.create({body})")
    assert words in found["message"]


def test_the_prompt_api(page: Any, chain_native: Any) -> None:
    """Sessions as Chrome's `LanguageModel` has them."""
    found = page.evaluate(
        """async () => {
          const LanguageModel = rl.languageModel(m);
          const available = await LanguageModel.availability();
          const initialPrompts = [{ role: "system", content: "Be brief" }];
          const session = await LanguageModel.create({ initialPrompts, temperature: 0, topK: 1 });
          const before = session.inputUsage;
          const said = await session.prompt("What is a light");
          const used = session.inputUsage;
          const copy = await session.clone();
          const streamed = (await all(session.promptStreaming("What is a light"))).join("");
          const roll = await copy.prompt("dice", { responseConstraint: / [3]/ });
          const stop = new AbortController();
          const endless = session.prompt("clock", { signal: stop.signal });
          setTimeout(() => stop.abort(), 300);
          const stopped = await endless.catch(({ name }) => name);
          session.destroy();
          const dead = await session.prompt("x").catch(({ name }) => name);
          const cloned = copy.inputUsage;
          const told = (options) => LanguageModel.create(options).catch(({ message }) => message);
          const refused = [await told({ tools: [] }),
            await told({ monitor() {}, expectedInputs: [{ type: "image" }] })];
          return { refused, available, before, said, used, streamed, roll, stopped, dead, cloned,
            quota: session.inputQuota };
        }"""
    )
    text = "".join(chain_native.chat(ASK))
    system = [{"role": "system", "content": "Be brief"}]
    assert found["available"] == "available" and found["quota"] == 2000
    assert found["before"] == len(chain_native.chat_ids(system))
    assert found["said"] == found["streamed"] == text
    assert found["used"] > len(chain_native.chat_ids([*system, *ASK]))
    assert found["cloned"] > found["used"]
    assert found["roll"] == " 3"
    followed = "create does not follow tools; it follows initialPrompts, temperature, topK, signal"
    assert found["refused"][0] == followed
    assert found["refused"][1].startswith("expectedInputs has other types than text")
    assert found["stopped"] == "AbortError" and found["dead"] == "InvalidStateError"
