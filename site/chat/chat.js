// chat.js: the chat page: messages to the model, its answer as it comes, and what is kept of both.

import * as chosen from "../shared/model.js";
import { byId, duration, make, pick, work } from "../shared/page.js";
import { hideError, showError, showLoading } from "../shared/status.js";
import { mark, watch } from "../shared/timing.js";
import { rendered } from "./markdown.js";
import * as settings from "./settings.js";
import * as store from "./store.js";
import { item, listing } from "./view.js";

/**
 * @typedef {import("../rushlight/client.js").Model} Model
 * @typedef {import("../rushlight/client.js").GenerateStats} GenerateStats
 * @typedef {import("./store.js").Chat} Chat
 * @typedef {import("./store.js").Message} Message
 */

const SUGGESTIONS = [
  "What is a rushlight?",
  "Write a haiku about a candle.",
  "Give me three names for a cat.",
];
const ENDS = { eos: "", stop: "at the stop text", length: "cut at the longest answer" };

const narrow = matchMedia("(max-width: 56rem)");
const draft = pick("draft", HTMLTextAreaElement);
const list = byId("messages");

/** @type {Chat} */
let chat = store.newChat();
/** @type {Model | null} */
let model = null;
/** @type {AbortController | null} */
let running = null;
let round = 0; // how often work has ended
/** @type {Promise<void>} */
let over = Promise.resolve(); // the work that is going on

// --- what is shown -------------------------------------------------------------------------------

function show() {
  const { messages } = chat;
  const acts = { edit, again };
  list.replaceChildren(
    ...messages.map((message, i) => item(message, i, i === messages.length - 1, acts)),
  );
  byId("empty").hidden = messages.length > 0;
  work.inProgress = running !== null || draft.value.trim() !== "";
}

function showChats() {
  const all = store.chats();
  const acts = {
    open: (/** @type {Chat} */ other) => void open(other),
    remove: async (/** @type {Chat} */ other) => {
      store.remove(other.id);
      if (other.id === chat.id) await open(store.newChat());
      showChats();
    },
  };
  byId("chats").replaceChildren(...listing(all, chat.id, acts));
  byId("clear").hidden = all.length === 0;
  const { why } = store.trouble;
  byId("kept-note").textContent = why
    ? `Conversations are not kept: ${why}.`
    : all.length
      ? ""
      : "Conversations are kept in this browser.";
}

/** @param {boolean} on */
function busy(on) {
  if (!on) round += 1;
  byId("stop").hidden = !on;
  byId("send").hidden = on;
  byId("keys").textContent = on ? "Esc stops" : "Enter sends, Shift+Enter breaks the line";
  pick("load", HTMLButtonElement).disabled = on;
  list.setAttribute("aria-busy", String(on));
  document.documentElement.dataset.round = String(round);
  document.documentElement.dataset.state = on ? "busy" : "ready";
}

/** Whether the reader is at the end, and so wants to stay there. */
const atEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight });

/** @param {number} used  tokens */
function showContext(used) {
  const limit = model?.contextLength ?? 0;
  byId("context").hidden = limit === 0;
  if (!limit) return;
  pick("used", HTMLMeterElement).value = used / limit;
  const words = `${used.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens`;
  byId("used-says").textContent = words;
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let counting;

/** Counts the tokens of what there is, a moment after it last changed. */
function measure() {
  clearTimeout(counting);
  counting = setTimeout(async () => {
    const asked = model;
    if (!asked || running || asked.contextLength === 0) return;
    const text = draft.value.trim();
    const next = text ? [{ role: "user", content: text }] : [];
    const given = messagesFor([...chat.messages, ...next]);
    try {
      const used = given.length ? await asked.tokenCount(promptFor(asked, given)) : 0;
      if (model === asked && !running) showContext(used);
    } catch {
      // Sending says what is wrong with it.
    }
  }, 400);
}

// --- the model -----------------------------------------------------------------------------------

/** @param {AbortSignal} signal */
async function ensure(signal) {
  try {
    model = await chosen.load(signal, showLoading);
  } catch (error) {
    model = null;
    byId("device").textContent = "";
    byId("context").hidden = true;
    throw error;
  }
  byId("status").hidden = true;
  byId("device").textContent = chosen.words(model);
  void chosen.describe();
  if (narrow.matches) pick("panel-model", HTMLDetailsElement).open = false;
  if (model.contextLength === 0) {
    const error = new Error(`${model.name} is a ${model.modelType} model: it does not write text.`);
    throw Object.assign(error, { hint: "Choose a model of the llama family, such as SmolLM2." });
  }
  return model;
}

/** One piece of work at a time: shows that it goes on, and what came of it.
 *  @param {(signal: AbortSignal) => Promise<void>} act @param {() => void} retry */
function job(act, retry) {
  running?.abort();
  const before = over;
  const control = (running = new AbortController());
  const go = async () => {
    await before;
    if (control.signal.aborted) return;
    hideError();
    busy(true);
    try {
      await act(control.signal);
    } catch (error) {
      byId("status").hidden = true;
      if (/** @type {Error} */ (error).name === "DeviceLostError") await chosen.forget();
      if (error !== control.signal.reason) showError(settings.inPageWords(error), retry);
    } finally {
      if (running === control) running = null;
      busy(false);
      show();
      showChats();
      measure();
    }
  };
  over = go();
  return over;
}

function load() {
  return job(async (signal) => {
    model = null;
    await ensure(signal);
    byId("said").textContent = "The model is ready.";
  }, load);
}

// --- talking -------------------------------------------------------------------------------------

/** @param {{ role: string, content: string }[]} messages */
function messagesFor(messages) {
  const system = settings.system();
  const plain = messages.map(({ role, content }) => ({ role, content }));
  return system && plain.length ? [{ role: "system", content: system }, ...plain] : plain;
}

/** @param {Model} model @param {{ role: string, content: string }[]} messages */
function promptFor(model, messages) {
  // Without a chat template the model just goes on where the text ends.
  return model.chatTemplate ? messages : messages.map(({ content }) => content).join("\n\n");
}

/** Has the last message answered, again if it has been: then the new answer replaces the old one,
 *  if a word comes of it. */
function answer() {
  const mine = chat;
  return job(async (signal) => {
    const current = await ensure(signal);
    const answered = mine.messages.at(-1)?.role === "assistant";
    const before = answered ? mine.messages.pop() : undefined;
    if (before) show();
    const given = messagesFor(mine.messages);
    /** @type {Message} */
    const reply = { role: "assistant", content: "" };
    const place = item(reply, mine.messages.length, false, { edit, again });
    place.classList.add("writing");
    const body = /** @type {HTMLElement} */ (place.querySelector(".body"));
    const under = /** @type {HTMLElement} */ (place.querySelector(".under"));
    list.append(place);
    toEnd();
    const count = new Count();
    const tell = () => (under.textContent = count.says());
    try {
      const options = {
        ...settings.options(),
        signal,
        onProgress: (/** @type {any} */ { done, total }) => {
          count.prompt = total;
          if (!reply.content) {
            under.textContent = `Reading: ${done} of ${total} tokens`;
            showContext(total);
          }
        },
        onToken: () => {
          count.token();
          mark();
          tell();
          showContext(count.prompt + count.generated);
        },
        onDone: (/** @type {GenerateStats} */ stats) => count.done(stats),
      };
      const prompt = promptFor(current, given);
      const pieces =
        typeof prompt === "string"
          ? current.generate(prompt, options)
          : current.chat(/** @type {any} */ (prompt), options);
      await watch(current, async () => {
        for await (const piece of pieces) {
          reply.content += piece;
          const follow = atEnd();
          body.replaceChildren(rendered(reply.content));
          if (follow) toEnd();
        }
      });
      byId("said").textContent = "The answer is complete.";
    } finally {
      place.classList.remove("writing");
      if (signal.aborted) count.end = "stopped";
      if (reply.content || count.generated) {
        reply.note = count.says();
        mine.messages.push(reply);
        store.keep(mine);
      } else {
        place.remove();
        if (before) mine.messages.push(before);
      }
    }
  }, again);
}

/** Counts and times one answer. */
class Count {
  constructor() {
    this.began = performance.now();
    this.first = 0; // seconds until the first token
    this.last = 0;
    this.prompt = 0;
    this.generated = 0;
    this.end = "";
  }

  token() {
    this.last = (performance.now() - this.began) / 1000;
    this.first ||= this.last;
    this.generated += 1;
  }

  /** @param {GenerateStats} stats */
  done({ promptTokens, generatedTokens, stopped }) {
    this.prompt = promptTokens;
    this.generated = generatedTokens;
    this.end = ENDS[stopped];
  }

  says() {
    const spent = this.last - this.first;
    const speed = this.generated > 1 && spent > 0 ? (this.generated - 1) / spent : 0;
    return [
      `${this.prompt} prompt tokens`,
      `${this.generated} generated`,
      speed ? `${speed.toFixed(speed < 10 ? 1 : 0)} tokens/s` : "",
      this.first ? `first after ${duration(this.first)}` : "",
      this.end,
    ]
      .filter(Boolean)
      .join(" · ");
  }
}

/** @param {string} text */
function send(text) {
  if (!text.trim() || running) return;
  chat.messages.push({ role: "user", content: text.trim() });
  store.keep(chat);
  draft.value = "";
  grow();
  show();
  showChats();
  toEnd();
  void answer();
}

/** @param {number} index @param {string} text */
async function edit(index, text) {
  running?.abort();
  await over;
  chat.messages.splice(index, Infinity, { role: "user", content: text });
  store.keep(chat);
  show();
  void answer();
}

/** Another answer to the last message, or the one it lacks. */
function again() {
  if (running || chat.messages.length === 0) return;
  void answer();
}

/** @param {Chat} other */
async function open(other) {
  running?.abort();
  await over;
  chat = other;
  hideError();
  byId("status").hidden = true;
  show();
  showChats();
  measure();
  toEnd();
}

// --- wiring --------------------------------------------------------------------------------------

function grow() {
  draft.style.height = "auto";
  draft.style.height = `${draft.scrollHeight + 2}px`;
}

draft.addEventListener("input", () => {
  grow();
  measure();
  work.inProgress = running !== null || draft.value.trim() !== "";
});
draft.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send(draft.value);
});
byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send(draft.value);
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("load").addEventListener("click", () => void load());
byId("new").addEventListener("click", async () => {
  await open(store.newChat());
  draft.focus();
});
byId("clear").addEventListener("click", async () => {
  if (!confirm("Remove all conversations from this browser?")) return;
  store.removeAll();
  await open(store.newChat());
});
for (const words of SUGGESTIONS) {
  const button = make("button", { type: "button", class: "small" }, words);
  button.addEventListener("click", () => send(words));
  byId("suggestions").append(button);
}
if (narrow.matches) pick("panel-chats", HTMLDetailsElement).open = false;
settings.start(measure);
chat = store.chats()[0] ?? chat;
show();
showChats();
busy(false);
byId("main").inert = false; // until here nobody would have listened
void chosen.start(hideError, () => model && load(), {
  types: ["llama"],
  url: "For example HuggingFaceTB/SmolLM2-135M-Instruct, or the address of a .gguf file.",
  files: "Choose a .gguf file, or the folder of a llama-like model.",
});
