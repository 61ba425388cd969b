"""The chat page: streaming, sanitising, stop, edit, keeping, errors, keyboard, looks; SmolLM2."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

READY = 'html[data-state="ready"]'
CHAIN = "/models/chain/chain.gguf"
LIGHT = "A rushlight is a cheap light:\n\nrush\nfat\n\nNo wax."


def say(page: Any, words: str) -> None:
    """Send a message by keyboard and wait for the end of the answer."""
    before = page.get_attribute("html", "data-round")
    page.fill("#draft", words)
    page.press("#draft", "Enter")
    done(page, before)


def done(page: Any, before: str) -> None:
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])', timeout=120_000)


def answers(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".assistant .body").all_inner_texts()]


def settle(page: Any, **settings: object) -> None:
    """Set the settings."""
    page.evaluate(
        """(settings) => {
          const form = document.getElementById("settings");
          for (const [name, value] of Object.entries(settings)) form[name].value = value;
          form.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        settings,
    )


# An answer to "clock" that goes on until it is stopped.
ENDLESS = {"maxNewTokens": 10**7, "overflow": "shift"}


# --- pictures, for screenshots.py ----------------------------------------------------------------


def talk_of_candles(page: Any, longest: int) -> None:
    """An answer of the model, the likeliest one, so that pictures stay alike."""
    settle(page, temperature=0, maxNewTokens=longest)
    before = page.get_attribute("html", "data-round")
    page.fill("#draft", "Write a short poem about a candle.")
    page.press("#draft", "Enter")
    page.wait_for_selector(
        f'{READY}:not([data-round="{before}"]) .assistant .under', timeout=600_000
    )
    page.wait_for_function("document.getElementById('used-says').innerText.includes('of')")


def pictures(studio: Any) -> None:
    """The page with an answer, on the CPU and on WebGPU, and what its timing shows."""
    page = studio.open("chat/?device=cpu")
    talk_of_candles(page, 100)
    studio.rest(page)
    studio.keep(page, "chat-desktop")
    page.emulate_media(color_scheme="dark")
    studio.keep(page, "chat-dark")
    studio.resize(page, phone=True)
    page.emulate_media(color_scheme="light")
    studio.rest(page, show="messages")
    studio.keep(page, "chat-phone")

    page = studio.open("chat/?device=webgpu")
    talk_of_candles(page, 40)
    studio.rest(page)
    studio.keep(page, "chat-webgpu")

    page = studio.open("chat/?device=webgpu&timing")
    talk_of_candles(page, 16)
    page.wait_for_selector("#timing-found:visible")
    studio.rest(page, show="panel-timing")
    studio.keep(page, "timing-desktop")
    studio.resize(page, phone=True)
    page.emulate_media(color_scheme="dark")
    studio.rest(page, show="panel-timing")
    studio.keep(page, "timing-phone-dark")
    page.evaluate("document.getElementById('panel-model').open = true")
    studio.rest(page)
    studio.keep(page, "chat-webgpu-phone-dark")


# --- one page, with conversations that go on from test to test -----------------------------------


@pytest.fixture(scope="module")
def talk(module_pages: Any, place: Any) -> Any:
    page = module_pages.open(
        f"{place.url}chat/?device=cpu", viewport={"width": 1280, "height": 900}
    )
    page.on("dialog", lambda dialog: dialog.accept())
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    return page


@pytest.fixture
def chat(talk: Any) -> Any:
    """The page with a new conversation."""
    talk.click("#new")
    talk.wait_for_function("document.querySelectorAll('#messages li').length === 0")
    return talk


def test_only_models_that_write_are_offered_with_their_size(chat: Any) -> None:
    assert chat.locator("#model-site option").all_inner_texts() == ["chain"]
    assert "5.5 MB" in chat.inner_text("#model-note")


def test_an_answer_streams_into_the_page_as_markdown(chat: Any) -> None:
    chat.evaluate(
        """() => {
          window.states = new Set();
          new MutationObserver(() => {
            const body = document.querySelector(".assistant .body");
            if (body) states.add(body.innerText);
          }).observe(document.getElementById("messages"), { childList: true, subtree: true });
        }"""
    )
    say(chat, "light")
    assert answers(chat) == [LIGHT]
    states = chat.evaluate("[...states]")
    # Pieces that come within 16 ms are shown together: nothing, a part at least, all.
    assert len(states) >= 3 and LIGHT in states, "the answer did not come piece by piece"
    assert chat.locator(".assistant .body li").count() == 2
    assert chat.inner_text(".assistant .body strong") == "cheap"
    under = chat.inner_text(".assistant .under")
    assert "2 prompt tokens · 9 generated" in under and "tokens/s" in under
    assert "3.7 M parameters on the CPU, relaxed SIMD" in chat.inner_text("#device")
    chat.wait_for_function("document.getElementById('used-says').innerText.includes('of 2,000')")


def test_thoughts_fold_away(chat: Any) -> None:
    say(chat, "ponder")
    assert chat.inner_text(".thought summary") == "Thoughts"
    assert answers(chat) == ["Thoughts\n\nIt burns."]
    assert not chat.is_visible(".thought > div")
    chat.click(".thought summary")
    assert chat.inner_text(".thought > div") == "Hm so."
    assert chat.inner_text(".thought strong") == "so"


def test_markup_in_an_answer_is_harmless(chat: Any) -> None:
    say(chat, "evil")
    body = chat.locator(".assistant .body")
    text = body.inner_text()
    assert '<img src=x onerror="document.title=1">' in text and "<b>bold</b> & strong" in text
    assert "<script>document.title=3</script>" in text
    assert body.locator("img, script, b, style, iframe, form").count() == 0
    links = body.locator("a").evaluate_all("(links) => links.map((a) => a.getAttribute('href'))")
    assert links == [None, "https://example.com/"]
    assert body.locator("strong").inner_text() == "strong"
    assert chat.title() == "Chat in this tab: Rushlight"


def test_markdown_of_other_kinds_is_harmless(chat: Any) -> None:
    cases = [
        "[a](JaVaScRiPt:alert(1))",
        "[a](&#106;avascript:alert(1))",
        "[a](data:text/html,<script>alert(1)</script>)",
        "<javascript:alert(1)>",
        '![a](x"onerror="alert(1))',
        '<svg onload="alert(1)"><style>*{}</style>',
        "<a href='javascript:alert(1)' onclick=alert(1)>a</a>",
        "<details open ontoggle=alert(1)>",
        "```html\n<img src=x onerror=alert(1)>\n```",
        "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
        "- [x] <input onfocus=alert(1) autofocus>",
    ]
    found = chat.evaluate(
        """async (cases) => {
          const { rendered } = await import("/chat/markdown.js");
          return cases.map((text) => {
            const box = document.createElement("div");
            box.append(rendered(text));
            const all = [...box.querySelectorAll("*")];
            const names = all.flatMap((e) => [...e.attributes].map((a) => `${a.name}=${a.value}`));
            return [all.map((e) => e.localName), names];
          });
        }""",
        cases,
    )
    for tags, attributes in found:
        assert not {"img", "script", "svg", "style", "input", "details"} & set(tags)
        kinds = ("class=", "target=", "rel=", "href=http", "href=mailto", "tabindex=0",
                 "role=group", "aria-label=Code", "aria-label=A table")  # fmt: skip
        assert all(attribute.startswith(kinds) for attribute in attributes), attributes


def test_stop_ends_an_answer_and_keeps_what_there_is(chat: Any) -> None:
    settle(chat, **ENDLESS)
    before = chat.get_attribute("html", "data-round")
    chat.fill("#draft", "clock")
    chat.press("#draft", "Enter")
    chat.wait_for_function("document.querySelector('.assistant .body')?.innerText.length > 20")
    chat.keyboard.press("Escape")
    done(chat, before)
    stopped = answers(chat)[0]
    assert stopped.startswith("tick tock tick tock")
    assert "stopped" in chat.inner_text(".assistant .under")
    say(chat, "light")
    assert answers(chat) == [stopped, LIGHT], "it went on, or the worker did"
    chat.evaluate("document.getElementById('defaults').click()")


def test_the_stop_button(chat: Any) -> None:
    settle(chat, **ENDLESS)
    before = chat.get_attribute("html", "data-round")
    chat.fill("#draft", "clock")
    chat.click("#send")
    chat.wait_for_selector(".assistant .body:not(:empty)")
    chat.click("#stop")
    done(chat, before)
    assert not chat.is_visible("#stop") and chat.is_visible("#send")
    chat.evaluate("document.getElementById('defaults').click()")


def test_regenerate_and_edit(chat: Any) -> None:
    settle(chat, temperature=1.5, topP=1)
    say(chat, "dice")
    seen = {answers(chat)[0]}
    for _ in range(12):
        before = chat.get_attribute("html", "data-round")
        chat.click("text=Regenerate")
        done(chat, before)
        assert len(answers(chat)) == 1
        seen.add(answers(chat)[0])
        if len(seen) > 1:
            break
    assert len(seen) > 1, "twelve throws alike"
    chat.evaluate("document.getElementById('defaults').click()")
    say(chat, "light")
    chat.locator("text=Edit").first.click()
    chat.keyboard.press("Escape")
    assert len(answers(chat)) == 2
    before = chat.get_attribute("html", "data-round")
    chat.locator("text=Edit").first.click()
    chat.fill(".message textarea", "evil")
    chat.keyboard.press("Enter")
    done(chat, before)
    assert chat.locator(".user .body").all_inner_texts() == ["evil"]
    assert answers(chat)[0].startswith("Look:")


def test_an_answer_stays_where_another_does_not_come(chat: Any) -> None:
    say(chat, "light")
    settle(chat, maxNewTokens=0)
    before = chat.get_attribute("html", "data-round")
    chat.click("text=Regenerate")
    done(chat, before)
    assert chat.is_visible("#error") and answers(chat) == [LIGHT]
    chat.evaluate("document.getElementById('defaults').click()")


def test_a_long_title_leaves_room_to_remove_the_conversation(chat: Any) -> None:
    say(chat, "tell me about everything that has ever given anybody light")
    item = chat.locator("#chats li").first
    item.scroll_into_view_if_needed()
    box, inside = item.bounding_box(), chat.locator("#chats").bounding_box()
    assert box["x"] + box["width"] <= inside["x"] + inside["width"]
    item.locator("button[aria-label^=Remove]").click()
    chat.wait_for_function("document.querySelectorAll('#messages li').length === 0")


def test_a_short_talk_fits_the_window(chat: Any) -> None:
    say(chat, "light")
    assert chat.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0
    assert chat.evaluate("scrollY") == 0


def test_conversations_are_kept_and_cleared(chat: Any) -> None:
    say(chat, "first light")
    chat.click("#new")
    say(chat, "second light")
    titles = chat.locator("#chats .open").all_inner_texts()
    assert titles[:2] == ["second light", "first light"]
    chat.reload()
    chat.wait_for_selector(f"{READY} .assistant")
    assert chat.locator(".user .body").all_inner_texts() == ["second light"]
    assert answers(chat) == [LIGHT]
    chat.click('#chats .open:has-text("first light")')
    chat.wait_for_function("document.querySelector('.user .body').innerText === 'first light'")
    chat.click('[aria-label="Remove first light"]')
    chat.wait_for_selector("#empty", state="visible")
    assert "first light" not in chat.locator("#chats .open").all_inner_texts()
    chat.click("#clear")
    chat.wait_for_function("document.querySelectorAll('#chats li').length === 0")
    assert chat.evaluate("Object.keys(localStorage).filter((k) => /chat-\\d/.test(k))") == []


def test_what_is_removed_or_replaced_can_be_had_back(chat: Any) -> None:
    say(chat, "first light")
    chat.click('[aria-label="Remove first light"]')
    chat.wait_for_selector("#empty", state="visible")
    chat.click(".undo button")
    chat.wait_for_selector(".assistant")
    assert answers(chat) == [LIGHT]
    before = chat.get_attribute("html", "data-round")
    chat.click('[aria-label="Edit this message"]')
    chat.fill(".message textarea", "evil")
    chat.keyboard.press("Enter")
    done(chat, before)
    assert chat.locator(".user .body").all_inner_texts() == ["evil"]
    chat.click(".undo button")
    chat.wait_for_function("document.querySelector('.user .body').innerText === 'first light'")
    assert answers(chat) == [LIGHT]


def test_two_tabs_go_on_with_one_conversation(chat: Any, place: Any) -> None:
    """Questions and answers of both are kept, whichever writes last; each follows the other."""
    say(chat, "first light")
    other = chat.context.new_page()
    other.goto(f"{place.url}chat/?device=cpu")
    other.wait_for_selector(f"{READY} .assistant")
    settle(chat, **ENDLESS)
    chat.fill("#draft", "clock")
    chat.press("#draft", "Enter")
    chat.wait_for_function("document.querySelector('.writing .body')?.innerText.includes('tock')")
    say(other, "second light")  # while the first tab is writing
    chat.bring_to_front()
    before = chat.get_attribute("html", "data-round")
    chat.keyboard.press("Escape")
    done(chat, before)
    asked = ["first light", "clock", "second light"]
    for page in (chat, other):
        page.wait_for_function("document.querySelectorAll('.assistant').length === 3")
        assert page.locator(".user .body").all_inner_texts() == asked
        assert [text[:4] for text in answers(page)] == ["A ru", " tick"[1:], "A ru"]
    chat.evaluate("document.getElementById('set-temperature').value = 1.5")
    chat.evaluate(
        "document.getElementById('set-temperature').dispatchEvent("
        "new Event('input', { bubbles: true }))"
    )
    other.wait_for_function("document.getElementById('set-temperature').value === '1.5'")
    other.close()
    chat.evaluate("document.getElementById('defaults').click()")
    chat.reload()
    chat.wait_for_selector(f"{READY} .assistant")
    assert chat.locator(".user .body").all_inner_texts() == asked


def test_no_stored_content_stops_the_page(chat: Any) -> None:
    say(chat, "light")
    count = chat.locator("#chats .open").count()
    chat.evaluate(
        """() => {
          // As an earlier version kept it: one entry for a conversation.
          const at = Date.now() + 1000;
          const asked = { role: "user", content: "light" };
          const said = { role: "assistant", content: "A light.", note: "" };
          const quotes = { role: "assistant", content: ">".repeat(6000), note: "deep" };
          const deep = { id: "7", at, messages: [asked, said, asked, quotes] };
          localStorage["rushlight-chat-7"] = JSON.stringify(deep);
          const broken = [
            "{", "5", "[]", "null", '"text"', "{}", { messages: 1 }, { messages: [null] },
            { messages: [{ role: "user" }] }, { messages: [{ role: "user", content: 5 }] },
            { messages: [{ role: "<b>", content: "x" }] }, { messages: [], at: "now" },
            { messages: [{ role: "user", content: "x", note: {} }] }, { id: 9, messages: [] },
          ];
          broken.forEach((found, i) => {
            const whole = typeof found === "string" ? found : { id: `80${i}`, at, ...found };
            localStorage[`rushlight-chat-80${i}`] =
              typeof whole === "string" ? whole : JSON.stringify(whole);
          });
          localStorage["rushlight-chat-settings"] = '{"temperature": "much", "overflow": 3}';
        }"""
    )
    chat.reload()
    chat.wait_for_selector(f"{READY} .assistant")
    assert chat.locator("#chats .open").count() == count + 1
    assert answers(chat) == ["A light.", ">" * 6000]
    chat.click('[aria-label="Remove light"] >> nth=0')
    chat.wait_for_selector("#empty", state="visible")
    say(chat, "light")
    assert answers(chat) == [LIGHT]
    chat.click("#clear")
    chat.wait_for_function("document.querySelectorAll('#chats li').length === 0")
    kept = chat.evaluate("Object.keys(localStorage).filter((k) => /chat-\\d/.test(k))")
    assert kept == []


def test_settings_are_kept_and_used(chat: Any) -> None:
    settle(chat, maxNewTokens=2, system="You know of light.")
    chat.reload()
    chat.wait_for_selector(READY)
    chat.click("#new")
    say(chat, "light")
    assert answers(chat)[0] == "A rushlight"
    under = chat.inner_text(".assistant .under")
    assert "cut at the longest answer" in under and "17 prompt tokens" in under
    chat.evaluate("document.getElementById('defaults').click()")


def test_samplers_and_the_form_of_answers(chat: Any) -> None:
    settle(chat, temperature=0, answerForm="/ [35]/", xtcProbability="0.5", dryMultiplier="0.8")
    say(chat, "dice")
    assert answers(chat)[-1].strip() in ("3", "5")
    settle(chat, answerForm='{"enum": ["A rushlight"]}')
    say(chat, "light")
    assert answers(chat)[-1] == '"A rushlight"'
    settle(chat, answerForm="{enum")
    say(chat, "light")
    assert "is no JSON" in chat.inner_text("#error-title")
    assert "between slashes" in chat.inner_text("#error-hint")
    settle(chat, answerForm="", xtcProbability="2")
    say(chat, "light")
    assert "xtc_probability" in chat.inner_text("#error")
    settle(chat, xtcProbability="", dryMultiplier="")
    say(chat, "light")
    assert answers(chat)[-1] == LIGHT and chat.is_hidden("#error")


def test_tools_run_in_the_page(chat: Any, tmp_path: Path) -> None:
    chat.evaluate("document.getElementById('panel-settings').open = true")
    if chat.locator("#tools").is_hidden():  # before a model is loaded nobody knows its template
        say(chat, "light")
        chat.click("#new")
    chat.check("#tool-calculator")
    say(chat, "reckon")
    call = chat.locator(".assistant .call")
    assert call.locator("summary").inner_text() == "calculator: 6 * (3 + 4)"
    call.locator("summary").click()
    assert call.locator("p").inner_text() == "42"
    # The result's last character begins the chain that a letter begins.
    assert answers(chat)[0].endswith(LIGHT) and "<tool_call>" not in answers(chat)[0]
    say(chat, "light")  # the calls are part of the conversation
    assert answers(chat)[1] == LIGHT
    found = chat.evaluate(
        """async () => {
          const tools = await import("/chat/tools.js");
          const calls = [["calculator", { expression: "2 +" }], ["clock", {}], ["other", {}]];
          const results = await tools.called(calls.map(([name, values]) => (
            { name, arguments: values })));
          return results.map(({ result }) => result);
        }"""
    )
    assert found[0].startswith("Error: ") and str(datetime.now().year) in found[1]
    assert found[2] == "There is no tool other."
    notes = tmp_path / "notes.md"
    notes.write_text("The key lies under the mat.\n\n" + "Rain fell on the roof. " * 200)
    chat.set_input_files("#documents-files", notes)
    chat.wait_for_function("document.getElementById('documents').innerText === 'notes.md'")
    assert chat.is_checked("#tool-documents")
    passages = chat.evaluate(
        """async () => {
          const tools = await import("/chat/tools.js");
          const ask = (query) => tools.called([{ name: "search_documents", arguments: { query } }]);
          const [[key], [none]] = await Promise.all([ask("keys"), ask("zebra")]);
          return [key.result, none.result];
        }"""
    )
    assert passages[0].startswith("notes.md: The key lies under the mat. Rain")
    assert len(passages[0]) < 700 and passages[1] == "Nothing fits."
    chat.click("#documents-close")
    for name in ("calculator", "documents"):
        chat.uncheck(f"#tool-{name}")


def test_a_context_that_is_full_says_so(chat: Any) -> None:
    say(chat, "x" * 2100)
    assert chat.inner_text("#error-title").endswith("the context holds 2000.")
    assert "forget the oldest" in chat.inner_text("#error-hint")
    assert chat.is_visible("#retry")
    settle(chat, overflow="shift")
    before = chat.get_attribute("html", "data-round")
    chat.click("#retry")
    done(chat, before)
    assert not chat.is_visible("#error")
    assert answers(chat) == [LIGHT]
    chat.evaluate("document.getElementById('defaults').click()")


def test_keyboard_and_names(chat: Any, nameless: Any) -> None:
    chat.focus(".skip")
    chat.keyboard.press("Enter")
    assert chat.evaluate("document.activeElement.id") == "draft"
    chat.keyboard.type("one")
    chat.keyboard.press("Shift+Enter")
    chat.keyboard.type("light")
    assert chat.input_value("#draft") == "one\nlight"
    before = chat.get_attribute("html", "data-round")
    chat.keyboard.press("Enter")
    done(chat, before)
    assert chat.locator(".user .body").all_inner_texts() == ["one\nlight"]
    assert nameless(chat) == []


def test_a_phone_needs_no_sideways_scrolling(chat: Any) -> None:
    say(chat, "evil")
    chat.set_viewport_size({"width": 360, "height": 740})
    widths = chat.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    chat.set_viewport_size({"width": 1280, "height": 900})
    assert widths[0] <= widths[1]


def test_a_model_from_a_local_file(chat: Any, chain: Path) -> None:
    chat.evaluate("document.getElementById('panel-model').open = true")
    chat.check('input[name="kind"][value="files"]', force=True)
    chat.set_input_files("#model-files", str(chain / "chain.gguf"))
    chat.wait_for_function(
        "document.getElementById('model-note').innerText.includes('from this device')"
    )
    say(chat, "light")
    assert answers(chat) == [LIGHT]


def test_a_cut_file_says_so_and_leaves_no_model(chat: Any, chain: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((chain / "chain.gguf").read_bytes()[:-1000])
    chat.check('input[name="kind"][value="files"]', force=True)
    chat.set_input_files("#model-files", str(cut))
    say(chat, "light")
    assert "do not fit a file of" in chat.inner_text("#error-title")
    assert "download it again" in chat.inner_text("#error-hint")
    assert chat.inner_text("#device") == "" and chat.is_hidden("#context")
    chat.check('input[name="kind"][value="site"]', force=True)


def test_a_model_from_an_address(chat: Any, module_pages: Any) -> None:
    chat.check('input[name="kind"][value="url"]', force=True)
    chat.fill("#model-url", "../models/chain/chain.gguf")
    chat.press("#model-url", "Tab")
    chat.wait_for_function("document.getElementById('model-note').innerText.includes('MB')")
    say(chat, "light")
    assert answers(chat) == [LIGHT]
    chat.fill("#model-url", "../models/tiny/")
    chat.press("#model-url", "Tab")
    say(chat, "light")
    assert "does not write text" in chat.inner_text("#error-title")
    module_pages.expect("404")
    chat.fill("#model-url", "../models/gone.gguf")
    chat.press("#model-url", "Tab")
    chat.wait_for_function("document.getElementById('model-note').innerText.includes('404')")
    assert "a model is a .gguf file" in chat.inner_text("#model-note")
    chat.check('input[name="kind"][value="site"]', force=True)


# --- errors and offline --------------------------------------------------------------------------


def test_a_broken_download_is_shown_and_retry_goes_on(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    place = serve(chat_site)
    size = (chat_site / CHAIN[1:]).stat().st_size
    place.mischief.cut_after(CHAIN, cut := size * 2 // 5)
    pages.expect("ERR_CONTENT_LENGTH_MISMATCH")
    page = pages.open(f"{place.url}chat/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    say(page, "light")
    assert "connection broke after" in page.inner_text("#error-title")
    assert answers(page) == []
    place.mischief.log.clear()
    before = page.get_attribute("html", "data-round")
    page.click("#retry")
    done(page, before)
    assert place.mischief.asked("chain.gguf") == [("GET", f"bytes={cut}-")]
    assert answers(page) == [LIGHT]


def test_reload_from_the_cache_and_offline(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    place = serve(chat_site)
    page = pages.open(f"{place.url}chat/?device=cpu", service_workers="allow")
    page.wait_for_selector("#model-site option", state="attached")
    say(page, "light")
    page.wait_for_selector('html[data-offline="ready"]')
    place.stop()
    page.reload()
    page.wait_for_function("document.getElementById('model-note').innerText.includes('already')")
    assert answers(page) == [LIGHT]
    say(page, "evil")
    assert answers(page)[1].startswith("Look:")


# --- the real model ------------------------------------------------------------------------------


def test_smollm2_answers_as_in_python(
    pages: Any, serve: Callable[..., Any], tmp_path: Path
) -> None:
    folder = resolve("smollm2-135m-instruct")
    build(tmp_path / "site", [("smollm2-135m-instruct", folder)])
    place = serve(tmp_path / "site")
    page = pages.open(f"{place.url}chat/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    assert "98.4 MB to download" in page.inner_text("#model-note")
    settle(page, temperature=0, repetitionPenalty=1, topP=1, maxNewTokens=6, system="Be brief.")
    heap = "import('/shared/model.js').then((m) => m.rushlight().info()).then((i) => i.heapBytes)"
    begin = page.evaluate(heap)
    before = page.get_attribute("html", "data-round")
    page.fill("#draft", "What is the capital of France?")
    page.press("#draft", "Enter")
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])', timeout=400_000)
    assert not page.is_visible("#error"), page.inner_text("#error")
    native = rl.models.load("smollm2-135m-instruct")
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    kept = page.evaluate(
        """Object.keys(localStorage).filter((k) => /chat-\\d/.test(k))
          .map((k) => JSON.parse(localStorage[k])).find(({ role }) => role === "assistant")"""
    )
    expected = "".join(native.chat(messages, max_new_tokens=6))
    assert kept["content"] == expected and "Paris" in expected
    weights = next(folder.glob("*.gguf")).stat().st_size
    grown = page.evaluate(heap) - begin
    print(json.dumps({"note": kept["note"], "heap MB": grown / 1e6}))
    assert grown <= 1.1 * weights + 60e6
