// chat.js: the chat page: messages to the model, its answer as it streams, and their storage.

import * as job from "../shared/job.js";
import * as choice from "../shared/model.js";
import { byId, duration, make, offerUndo, paced, pick, work } from "../shared/page.js";
import { hideError } from "../shared/status.js";
import { mark, watch } from "../shared/timing.js";
import * as costs from "./costs.js";
import { filesOf } from "../shared/opening/dropping.js";
import { inParts } from "./markdown.js";
import * as pictures from "./pictures.js";
import * as settings from "./settings.js";
import * as store from "./store.js";
import * as tools from "./tools.js";
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
const ENDS = {
  eos: "",
  stop: "at the stop text",
  length: "cut at the longest answer",
  repetition: "",
};

const narrow = matchMedia("(max-width: 56rem)");
const draft = pick("draft", HTMLTextAreaElement);
const list = byId("messages");

/** @type {Chat} */
let chat = store.newChat();

// --- what is shown -------------------------------------------------------------------------------

function show() {
  const { messages } = chat;
  const acts = { edit, again };
  list.replaceChildren(
    ...messages.map((message, i) => item(message, i === messages.length - 1, acts)),
  );
  byId("empty").hidden = messages.length > 0;
  work.inProgress = job.busy() || draft.value.trim() !== "";
}

function showChats() {
  const all = store.chats();
  const acts = {
    open: (/** @type {Chat} */ other) => void open(other),
    remove: (/** @type {Chat} */ other) => void remove(other),
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

/** Removes a conversation, which can be had back. @param {Chat} other */
async function remove(other) {
  const here = other.id === chat.id;
  if (here) await open(store.newChat());
  const gone = [...other.messages];
  store.drop(other, ...gone);
  showChats();
  offerUndo("The conversation was removed.", async () => {
    store.add(other, ...gone);
    if (here) await open(other);
    else showChats();
  });
}

/** Follows what another tab has done. @param {string | null} key  of an entry of the storage */
function elsewhere(key) {
  if (store.ofSettings(key)) return;
  const mine = store.follow(chat, key);
  showChats();
  if (!mine || job.busy()) return; // what is being written is shown at its end
  show();
  measure();
}

/** @param {boolean} on */
function busy(on) {
  byId("send").hidden = on;
  byId("keys").textContent = on ? "Esc stops" : "Enter sends, Shift+Enter breaks the line";
  pick("load", HTMLButtonElement).disabled = on;
  list.setAttribute("aria-busy", String(on));
  if (on) return;
  show();
  showChats();
  measure();
}

/** Whether the reader is at the end, so that the view follows the answer. */
const atEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight });

/** @param {number} used  tokens */
function showContext(used) {
  const limit = job.model?.contextLength ?? 0;
  byId("context").hidden = limit === 0;
  if (!limit) return;
  pick("used", HTMLMeterElement).value = used / limit;
  const words = `${used.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens`;
  byId("used-says").textContent = words;
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let counting;

/** Counts the tokens of conversation and draft, a moment after their last change. */
function measure() {
  clearTimeout(counting);
  counting = setTimeout(async () => {
    const asked = job.model;
    if (!asked || job.busy() || asked.contextLength === 0) return;
    const text = draft.value.trim();
    const next = text ? [store.newMessage("user", text)] : [];
    const given = messagesFor([...chat.messages, ...next]);
    try {
      const prompt = promptFor(asked, given);
      const used = given.length ? await asked.tokenCount(prompt, shape(asked)) : 0;
      if (job.model === asked && !job.busy()) showContext(used);
    } catch {
      // The error is reported when the message is sent.
    }
  }, 400);
}

// --- the model -----------------------------------------------------------------------------------

/** @param {Model | null} model */
function loaded(model) {
  byId("thinking").hidden = !model?.thinkingSwitch;
  tools.offer(model);
  pictures.offer(model?.tasks.includes("image-text-to-text") ?? false);
  byId("untaught").hidden = !model || model.chatTemplate || model.contextLength === 0;
  if (!model) return void (byId("context").hidden = true);
  if (narrow.matches) pick("panel-model", HTMLDetailsElement).open = false;
  if (model.contextLength === 0) {
    const error = new Error(`${model.name} is a ${model.modelType} model: it does not write text.`);
    throw Object.assign(error, { hint: "Choose a language model, such as SmolLM2." });
  }
}

// --- conversation --------------------------------------------------------------------------------

/** @param {Message[]} messages @returns {import("../rushlight/client.js").ChatMessage[]} */
function messagesFor(messages) {
  const system = settings.system();
  const plain = messages.flatMap((each) => [
    ...tools.asMessages(each.calls ?? []),
    { role: each.role, content: pictures.contentOf(each) },
  ]);
  return system && plain.length ? [{ role: "system", content: system }, ...plain] : plain;
}

/** What shapes a prompt: the settings, and the tools that are on. @param {Model} model
 *  @returns {import("../rushlight/client.js").TemplateOptions} */
function shape(model) {
  const offered = tools.chosen(model);
  return { ...settings.shape(model), ...(offered.length && { tools: offered }) };
}

/** @param {Model} model @param {import("../rushlight/client.js").ChatMessage[]} messages */
function promptFor(model, messages) {
  // Without a chat template the model continues the text.
  return model.chatTemplate ? messages : messages.map(({ content }) => content).join("\n\n");
}

/** What is asked, and what was said before it: of several answers to a question the last.
 *  @param {Chat} of @param {Message} question */
function before(of, question) {
  const all = of.messages.slice(0, of.messages.indexOf(question) + 1);
  return all.filter(({ role }, i) => role === "user" || all[i + 1]?.role !== "assistant");
}

/** Answers the last message. If it has an answer, the new one replaces it unless it is empty. */
function answer() {
  const mine = chat;
  return job.run(async (signal) => {
    const current = await job.load(signal);
    const question = mine.messages.findLast(({ role }) => role === "user");
    if (!question) return;
    const answered = mine.messages.filter(({ role, at }) => role !== "user" && at === question.at);
    mine.messages = mine.messages.filter((message) => !answered.includes(message));
    if (answered.length) show();
    const given = messagesFor(before(mine, question));
    const reply = store.newMessage("assistant", "", question);
    const place = item(reply, false, { edit, again });
    place.classList.add("writing");
    const body = /** @type {HTMLElement} */ (place.querySelector(".body"));
    const under = /** @type {HTMLElement} */ (place.querySelector(".under"));
    list.append(place);
    toEnd();
    const count = new Count();
    const tell = () => (under.textContent = count.says());
    try {
      /** @type {import("../rushlight/client.js").ToolCall[]} */
      let calls = [];
      const options = {
        ...settings.options(),
        ...shape(current),
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
        onDone: (/** @type {GenerateStats & { toolCalls?: typeof calls }} */ stats) => {
          count.done(stats);
          calls = stats.toolCalls ?? [];
        },
      };
      for (let round = 0; ; round += 1) {
        if (round === tools.MOST_ROUNDS) delete options.tools;
        const prompt = promptFor(current, [...given, ...tools.asMessages(reply.calls ?? [])]);
        const pieces =
          typeof prompt === "string"
            ? current.generate(prompt, options)
            : current.chat(/** @type {any} */ (prompt), options);
        const painting = paced(() => {
          const follow = atEnd();
          const called = tools.callsOf(reply.calls ?? []);
          body.replaceChildren(...called, ...inParts(reply.content, body));
          if (follow) toEnd();
        });
        await watch(current, async () => {
          try {
            for await (const piece of pieces) {
              reply.content += piece;
              painting.soon(); // a long answer takes longer to paint than a token to come
            }
          } finally {
            painting.now();
          }
        });
        if (!options.tools || calls.length === 0 || signal.aborted) break;
        reply.calls = [...(reply.calls ?? []), ...(await tools.called(calls))];
        reply.content = ""; // what was written were the calls
        body.replaceChildren(...tools.callsOf(reply.calls));
      }
      byId("said").textContent = "The answer is complete.";
    } finally {
      place.classList.remove("writing");
      if (signal.aborted) count.end = "stopped";
      if (reply.content || count.generated) {
        reply.note = count.says();
        store.drop(mine, ...answered);
        // Another tab may have removed the question meanwhile: an answer does not stay alone.
        store.add(mine, question, reply);
      } else {
        place.remove();
        mine.messages = store.ordered([...mine.messages, ...answered]);
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
  if (!text.trim() || job.busy()) return;
  const message = store.newMessage("user", text.trim());
  pictures.attach(message);
  store.add(chat, message);
  draft.value = "";
  grow();
  show();
  showChats();
  toEnd();
  void answer();
}

/** @param {Message} message @param {string} text */
async function edit(message, text) {
  await job.stop();
  const mine = chat;
  const gone = mine.messages.filter(({ at }) => at >= message.at);
  const fresh = store.newMessage("user", text);
  store.drop(mine, ...gone);
  store.add(mine, fresh);
  show();
  void answer();
  offerUndo("The message, and what followed it, was replaced.", async () => {
    await job.stop();
    store.drop(mine, ...mine.messages.filter(({ at }) => at >= fresh.at));
    store.add(mine, ...gone);
    if (mine === chat) await open(mine);
  });
}

/** Answers the last message, again if it has an answer. */
function again() {
  if (job.busy() || chat.messages.length === 0) return;
  void answer();
}

/** @param {Chat} other */
async function open(other) {
  await job.stop();
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
  work.inProgress = job.busy() || draft.value.trim() !== "";
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
  if (event.key === "Escape") void job.stop();
});
byId("load").addEventListener("click", () => void job.reload());
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
pictures.start();
tools.start();
store.onChange(elsewhere);
chat = store.chats()[0] ?? chat;
costs.start(() => void (job.model && job.reload()));
for (const kind of /** @type {const} */ (["dragover", "dragleave", "drop"])) {
  document.addEventListener(kind, async (event) => {
    event.preventDefault(); // a file would replace the page
    const panel = byId("panel-model");
    panel.classList.toggle("over", kind === "dragover");
    if (kind !== "drop" || !event.dataTransfer) return;
    const files = await filesOf(event.dataTransfer);
    if (files.length === 0 || pictures.take(files)) return;
    pick("panel-model", HTMLDetailsElement).open = true;
    choice.choose(files);
  });
}
job.start({
  busy,
  loaded,
  words: settings.inPageWords,
  check: costs.check,
  options: () => ({ context: costs.context() }),
  described: costs.described,
});
