// chat.js: the server's own chat page: a conversation with a model that the server runs, by the
// route /v1/chat/completions. The conversation is kept in this tab until it is closed.

/**
 * @typedef {{ type: "text", text: string }} Words
 * @typedef {{ type: "image_url", image_url: { url: string } }} Picture
 * @typedef {{ role: "user" | "assistant", text: string, thoughts?: string, picture?: string,
 *   note?: string }} Message
 */

export {}; // a module: its names are its own

const STORE = "rushlight-server-chat";
const FRAME = 40; // milliseconds between two looks of a growing answer
const ENDS = /** @type {Record<string, string>} */ ({ length: "cut at the longest answer" });

/** @template {HTMLElement} T @param {string} id @param {new () => T} kind @returns {T} */
function pick(id, kind) {
  const element = document.getElementById(id);
  if (element instanceof kind) return element;
  throw new Error(`the page has no ${kind.name} #${id}`);
}

const models = pick("model", HTMLSelectElement);
const list = pick("messages", HTMLOListElement);
const draft = pick("draft", HTMLTextAreaElement);
const options = pick("options", HTMLFormElement);
const picture = pick("picture", HTMLInputElement);
const failure = pick("error", HTMLParagraphElement);
const says = pick("says", HTMLSpanElement);
const stop = pick("stop", HTMLButtonElement);
const send = pick("send", HTMLButtonElement);
const again = pick("again", HTMLButtonElement);

/** The tasks of each model. @type {Map<string, string[]>} */
const tasks = new Map();
/** @type {Message[]} */
let messages = [];
/** @type {AbortController | null} */
let running = null;
/** The picture of the next message, as a data: address. */
let attached = "";

/** @param {string} name */
const setting = (name) =>
  /** @type {HTMLInputElement} */ (options.elements.namedItem(name)).value.trim();

/** A request to the server; throws its error's words.
 *  @param {string} path @param {RequestInit} init */
async function ask(path, init = {}) {
  const key = setting("key");
  const headers = { ...init.headers, ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const answer = await fetch(path, { ...init, headers });
  if (answer.ok) return answer;
  if (answer.status === 401) {
    pick("key-field", HTMLLabelElement).hidden = false;
    pick("settings", HTMLDetailsElement).open = true;
    throw new Error("This server asks for a key: write it into the settings.");
  }
  const { error } = await answer.json().catch(() => ({ error: null }));
  throw new Error(error?.message ?? `The server answered ${answer.status}.`);
}

/** The values of a stream of server-sent events. @param {ReadableStream<Uint8Array>} body */
async function* events(body) {
  let rest = "";
  const texts = body.pipeThrough(/** @type {any} */ (new TextDecoderStream()));
  for await (const piece of texts) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const data = line.startsWith("data: ") ? line.slice(6) : "";
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

/** @param {Message} message */
function shown({ role, text, thoughts, picture: image, note }) {
  const item = document.createElement("li");
  item.className = role;
  if (image) item.append(Object.assign(document.createElement("img"), { src: image, alt: "" }));
  if (thoughts) {
    const details = document.createElement("details");
    details.append(Object.assign(document.createElement("summary"), { textContent: "Thoughts" }));
    details.append(thoughts);
    item.append(details);
  }
  item.append(text);
  if (note) {
    const under = Object.assign(document.createElement("div"), { textContent: note });
    under.className = "under";
    item.append(under);
  }
  return item;
}

/** Shows a growing reply, the last message. @param {Message} reply */
function draw(reply) {
  if (messages.at(-1) === reply) list.lastElementChild?.replaceWith(shown(reply));
  const below = document.documentElement.scrollHeight - innerHeight - scrollY;
  if (below < 160) scrollTo({ top: document.documentElement.scrollHeight });
}

function show() {
  list.replaceChildren(...messages.map(shown));
  again.hidden = running !== null || messages.length === 0;
  stop.hidden = running === null;
  send.hidden = running !== null;
  document.documentElement.dataset.state = running ? "busy" : "ready";
  try {
    sessionStorage.setItem(STORE, JSON.stringify(messages));
  } catch {
    // Without storage, or with pictures beyond its room, the conversation lasts until a reload.
  }
}

/** @param {Message} message @returns {{ role: string, content: string | (Words | Picture)[] }} */
function sent({ role, text, picture: image }) {
  if (!image) return { role, content: text };
  const pictured = /** @type {Picture} */ ({ type: "image_url", image_url: { url: image } });
  return { role, content: [pictured, { type: "text", text }] };
}

/** The body of a request for an answer to the conversation. */
function request() {
  const system = setting("system");
  const numbers = ["temperature", "top_p", "min_p", "seed", "max_tokens"]
    .filter((name) => setting(name) !== "")
    .map((name) => [name, Number(setting(name))]);
  return {
    model: models.value,
    messages: [...(system ? [{ role: "system", content: system }] : []), ...messages.map(sent)],
    stream: true,
    stream_options: { include_usage: true },
    ...Object.fromEntries(numbers),
  };
}

/** Answers the last message of the visitor, again if it has an answer. */
async function answer() {
  while (messages.at(-1)?.role === "assistant") messages.pop();
  if (running || !messages.length) return;
  const control = (running = new AbortController());
  failure.hidden = true;
  const body = JSON.stringify(request());
  /** @type {Message} */
  const reply = { role: "assistant", text: "" };
  const began = performance.now();
  let ended = "";
  let drawn = 0;
  says.textContent = "Reading";
  messages.push(reply);
  show();
  try {
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body, signal: control.signal };
    const { body: stream } = await ask("./v1/chat/completions", init);
    if (!stream) throw new Error("The server's answer has no body.");
    for await (const event of events(stream)) {
      if (event.error) throw new Error(event.error.message);
      const { delta, finish_reason: reason } = event.choices?.[0] ?? {};
      reply.text += delta?.content ?? "";
      if (delta?.reasoning_content) {
        reply.thoughts = (reply.thoughts ?? "") + delta.reasoning_content;
      }
      ended = reason ?? ended;
      const { usage } = event;
      const seconds = (performance.now() - began) / 1000;
      if (reply.text || reply.thoughts) says.textContent = "Writing";
      if (usage) {
        const rate = (usage.completion_tokens / seconds).toFixed(1);
        const count = `${usage.completion_tokens} tokens in ${seconds.toFixed(1)} s`;
        reply.note = `${count}, ${rate} a second`;
      }
      if (performance.now() - drawn < FRAME) continue;
      drawn = performance.now();
      draw(reply);
      await new Promise((resolve) => setTimeout(resolve)); // the page stays responsive
    }
    reply.note = [ENDS[ended], reply.note].filter(Boolean).join("; ");
  } catch (error) {
    if (control.signal.aborted) reply.note = "stopped";
    else {
      failure.textContent = /** @type {Error} */ (error).message;
      failure.hidden = false;
    }
  } finally {
    if (!reply.text && !reply.thoughts) messages = messages.filter((other) => other !== reply);
    running = null;
    says.textContent = "";
    show();
  }
}

function submit() {
  const text = draft.value.trim();
  if (running || (!text && !attached)) return;
  messages.push({ role: "user", text, ...(attached ? { picture: attached } : {}) });
  draft.value = "";
  attached = picture.value = "";
  void answer();
}

/** Lists the models that write. */
async function listModels() {
  try {
    const { data } = await (await ask("./v1/models")).json();
    tasks.clear();
    models.replaceChildren();
    for (const row of data) {
      tasks.set(row.id, row.tasks);
      if (row.tasks.includes("text-generation")) models.append(new Option(row.id));
    }
    models.disabled = models.options.length < 2;
    failure.hidden = models.options.length > 0;
    if (!models.options.length) failure.textContent = "No model of this server writes text.";
    see();
  } catch (error) {
    failure.textContent = /** @type {Error} */ (error).message;
    failure.hidden = false;
  }
}

/** Offers pictures where the model takes them. */
function see() {
  const takes = tasks.get(models.value)?.includes("image-text-to-text") ?? false;
  pick("picture-field", HTMLLabelElement).hidden = !takes;
}

pick("composer", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
draft.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
addEventListener("keydown", ({ key }) => {
  if (key === "Escape") running?.abort();
});
stop.addEventListener("click", () => running?.abort());
again.addEventListener("click", () => void answer());
models.addEventListener("change", see);
options.addEventListener("submit", (event) => event.preventDefault());
options.addEventListener("change", ({ target }) => {
  if (/** @type {HTMLInputElement} */ (target).name === "key") void listModels();
});
picture.addEventListener("change", () => {
  const file = picture.files?.[0];
  if (!file) return;
  const reader = new FileReader();
  reader.addEventListener("load", () => {
    attached = String(reader.result);
    says.textContent = `with ${file.name}`;
  });
  reader.readAsDataURL(file);
});
pick("new", HTMLButtonElement).addEventListener("click", () => {
  running?.abort();
  messages = [];
  show();
  draft.focus();
});

try {
  messages = JSON.parse(sessionStorage.getItem(STORE) ?? "[]");
} catch {
  messages = [];
}
await listModels();
show();
draft.focus();
