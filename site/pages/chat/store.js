// store.js: conversations and settings in the browser's storage, one entry per conversation.

/**
 * @typedef {{ role: "user" | "assistant", content: string, note?: string }} Message
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

/** All conversations, the latest first. @returns {Chat[]} */
export function chats() {
  return guarded(() => {
    const found = [];
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(PREFIX) || key === SETTINGS) continue;
      const chat = parse(localStorage.getItem(key));
      if (isChat(chat) && key === PREFIX + chat.id) found.push(chat);
    }
    return found.sort((a, b) => b.at - a.at);
  }, []);
}

/** Whether a stored value is a conversation. @param {any} value @returns {value is Chat} */
function isChat(value) {
  const { at, messages } = value ?? {};
  return Number.isFinite(at) && Array.isArray(messages) && messages.every(isMessage);
}

/** @param {any} value */
function isMessage(value) {
  return (
    ["user", "assistant"].includes(value?.role) &&
    typeof value.content === "string" &&
    ["string", "undefined"].includes(typeof value.note)
  );
}

/** @returns {Chat} */
export function newChat() {
  const random = crypto.getRandomValues(new Uint32Array(2)).join("");
  return { id: random, at: Date.now(), messages: [] };
}

/** @param {Chat} chat */
export function keep(chat) {
  chat.at = Date.now();
  guarded(() => localStorage.setItem(PREFIX + chat.id, JSON.stringify(chat)), undefined);
}

/** @param {string} id */
export function remove(id) {
  guarded(() => localStorage.removeItem(PREFIX + id), undefined);
}

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

/** @param {Record<string, string>} values */
export function keepSettings(values) {
  guarded(() => localStorage.setItem(SETTINGS, JSON.stringify(values)), undefined);
}

/** @param {string | null} text @returns {any} */
function parse(text) {
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return null; // written by another page, or damaged
  }
}
