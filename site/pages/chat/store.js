// store.js: conversations and settings in the browser's storage, for several tabs at a time.
//
// Each message is an entry of its own, under a key that no other tab writes. So two tabs that go on
// with one conversation never write over each other: a conversation is all messages that are there.

/**
 * @typedef {import("./tools.js").Called} Called
 * @typedef {{ id: string, role: "user" | "assistant", content: string, note?: string, at: number,
 *   made: number, calls?: Called[] }} Message  at: its place in the conversation, an answer's that
 *   of its question. made: when it was written. calls: what the answer called, in order
 * @typedef {{ id: string, at: number, messages: Message[] }} Chat
 */

const PREFIX = "rushlight-chat-";
const SETTINGS = "rushlight-chat-settings";

/** The reason why nothing is kept, or "". */
export const trouble = { why: "" };

/** @template T @param {() => T} act @param {T} otherwise @returns {T} */
function guarded(act, otherwise) {
  try {
    const result = act();
    trouble.why = "";
    return result;
  } catch (error) {
    trouble.why = error instanceof Error ? error.message : String(error);
    return otherwise;
  }
}

/** @param {string} chat @param {string} message */
const keyOf = (chat, message) => `${PREFIX}${chat}-${message}`;

const random = () => crypto.getRandomValues(new Uint32Array(2)).join("");

/** All conversations, the latest first. @returns {Chat[]} */
export function chats() {
  return guarded(() => {
    moveOld();
    /** @type {Map<string, Message[]>} */
    const found = new Map();
    for (const key of Object.keys(localStorage)) {
      const [, chat, id] = /^rushlight-chat-(\d+)-(\w+)$/.exec(key) ?? [];
      const message = chat ? parse(localStorage.getItem(key)) : null;
      if (!isMessage(message) || message.id !== id) continue;
      found.set(chat, [...(found.get(chat) ?? []), message]);
    }
    const all = [...found].map(([id, messages]) => ({
      id,
      at: Math.max(...messages.map(({ made }) => made)),
      messages: ordered(messages),
    }));
    return all.sort((a, b) => b.at - a.at);
  }, []);
}

/** Messages in their order: an answer follows its question.
 *  @param {Message[]} messages */
export function ordered(messages) {
  const late = (/** @type {Message} */ { role }) => Number(role === "assistant");
  return [...messages].sort((a, b) => a.at - b.at || late(a) - late(b) || a.made - b.made);
}

/** Makes an entry per message of conversations of an earlier version, which had one together. */
function moveOld() {
  for (const key of Object.keys(localStorage)) {
    const [, id] = /^rushlight-chat-(\d+)$/.exec(key) ?? [];
    const old = id ? parse(localStorage.getItem(key)) : null;
    if (!old || old.id !== id || !Number.isFinite(old.at) || !Array.isArray(old.messages)) continue;
    let at = old.at - old.messages.length;
    const messages = old.messages.map((/** @type {any} */ message, /** @type {number} */ i) => {
      if (message?.role === "user") at += 1;
      return { ...message, id: String(i), at, made: old.at };
    });
    if (!messages.every(isMessage)) continue;
    for (const message of messages) put(id, message);
    localStorage.removeItem(key);
  }
}

/** @param {any} value @returns {value is Called} */
const isCalled = (value) =>
  typeof value?.name === "string" &&
  typeof value.result === "string" &&
  typeof value.arguments === "object" &&
  value.arguments !== null;

/** @param {any} value @returns {value is Message} */
function isMessage(value) {
  return (
    ["user", "assistant"].includes(value?.role) &&
    typeof value.content === "string" &&
    ["string", "undefined"].includes(typeof value.note) &&
    typeof value.id === "string" &&
    (value.calls === undefined || (Array.isArray(value.calls) && value.calls.every(isCalled))) &&
    Number.isFinite(value.at) &&
    Number.isFinite(value.made)
  );
}

/** @returns {Chat} */
export function newChat() {
  return { id: random(), at: Date.now(), messages: [] };
}

/** A message of now. An answer gives its question.
 *  @param {Message["role"]} role @param {string} content @param {Message} [question]
 *  @returns {Message} */
export function newMessage(role, content, question) {
  const made = Date.now();
  // Two tabs may ask within a millisecond.
  return { id: random(), role, content, at: question?.at ?? made + Math.random(), made };
}

/** @param {string} chat @param {Message} message */
function put(chat, message) {
  localStorage.setItem(keyOf(chat, message.id), JSON.stringify(message));
}

/** Adds messages to a conversation, and keeps them. @param {Chat} chat
 *  @param {...Message} messages */
export function add(chat, ...messages) {
  const known = new Set(chat.messages.map(({ id }) => id));
  const fresh = messages.filter(({ id }) => !known.has(id));
  chat.messages = ordered([...chat.messages, ...fresh]);
  guarded(() => messages.forEach((message) => put(chat.id, message)), undefined);
}

/** Takes messages out of a conversation, and of the storage. @param {Chat} chat
 *  @param {...Message} messages */
export function drop(chat, ...messages) {
  const gone = new Set(messages.map(({ id }) => id));
  chat.messages = chat.messages.filter(({ id }) => !gone.has(id));
  guarded(() => {
    for (const { id } of messages) localStorage.removeItem(keyOf(chat.id, id));
  }, undefined);
}

/** Follows what other tabs have done to a conversation; false if they did nothing.
 *  @param {Chat} chat @param {string | null} key  of the entry that changed; null for all */
export function follow(chat, key) {
  if (key !== null && !key.startsWith(`${PREFIX}${chat.id}-`)) return false;
  const stored = chats().find(({ id }) => id === chat.id);
  chat.messages = stored?.messages ?? [];
  return true;
}

/** Calls `changed` with the key when another tab has changed the storage; null if all is gone.
 *  @param {(key: string | null) => void} changed */
export function onChange(changed) {
  addEventListener("storage", ({ key, storageArea }) => {
    if (storageArea === localStorage && (key === null || key.startsWith(PREFIX))) changed(key);
  });
}

/** Whether an entry is that of the settings. @param {string | null} key */
export const ofSettings = (key) => key === SETTINGS;

/** Removes all conversations, and what is kept among them without being one. */
export function removeAll() {
  guarded(() => {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(PREFIX) && key !== SETTINGS) localStorage.removeItem(key);
    }
  }, undefined);
}

/** The title of a conversation: its first words. @param {Chat} chat */
export function title(chat) {
  const words = chat.messages[0]?.content.trim().replace(/\s+/g, " ") ?? "";
  return words.length > 60 ? `${words.slice(0, 57)}…` : words || "Nothing yet";
}

/** @returns {Record<string, string>} */
export function settings() {
  return guarded(() => parse(localStorage.getItem(SETTINGS)) ?? {}, {});
}

/** Keeps changed settings beside the others. @param {Record<string, string>} values */
export function keepSettings(values) {
  const all = { ...settings(), ...values };
  guarded(() => localStorage.setItem(SETTINGS, JSON.stringify(all)), undefined);
}

/** @param {string | null} text @returns {any} */
function parse(text) {
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return null; // written by another page, or damaged
  }
}
