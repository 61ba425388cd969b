// view.js: messages and the list of conversations as elements.

import { make } from "../shared/page.js";
import { inParts } from "./markdown.js";
import { pictureOf } from "./pictures.js";
import { title } from "./store.js";
import { callsOf } from "./tools.js";

/**
 * @typedef {import("./store.js").Chat} Chat
 * @typedef {import("./store.js").Message} Message
 * @typedef {{ edit: (message: Message, text: string) => void, again: () => void }} Acts
 */

/** @param {string} words @param {() => void} act @param {string} [label] */
function button(words, act, label) {
  const made = make("button", { type: "button", class: "quiet small" }, words);
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

/** One message with its buttons.
 *  @param {Message} message @param {boolean} last @param {Acts} acts */
export function item(message, last, acts) {
  const { role, content, note } = message;
  const body = make("div", { class: "body" });
  const under = make("div", { class: "under" });
  const who = make("span", { class: "unseen" }, role === "user" ? "You: " : "The model: ");
  const made = make("li", { class: `message ${role}` }, who, body, under);
  if (role === "user") {
    body.replaceChildren(...pictureOf(message), content);
    if (note) under.append(make("span", {}, note));
    const edit = () => made.replaceChildren(editor(message, made, [who, body, under], acts));
    under.append(button("Edit", edit, "Edit this message"));
    if (last) under.append(button("Answer", acts.again)); // stopped before its first word
    return made;
  }
  body.replaceChildren(...callsOf(message.calls ?? []), ...inParts(content));
  if (note) under.append(make("span", {}, note));
  under.append(copier(message));
  if (last) under.append(button("Regenerate", acts.again));
  return made;
}

/** @param {Message} message */
function copier(message) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(message.content);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Not allowed";
    }
  });
  return copy;
}

/** @param {Message} message @param {HTMLElement} place @param {HTMLElement[]} before
 *  @param {Acts} acts */
function editor(message, place, before, acts) {
  const field = make("textarea", { "aria-label": "Edit this message", rows: "3" });
  field.value = message.content;
  const back = () => {
    place.replaceChildren(...before);
    /** @type {HTMLElement | null} */ (place.querySelector("button"))?.focus();
  };
  const send = () => (field.value.trim() ? acts.edit(message, field.value.trim()) : back());
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") back();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  const save = make("button", { type: "button", class: "primary small" }, "Send");
  save.addEventListener("click", send);
  queueMicrotask(() => field.focus());
  const buttons = make("div", { class: "row" }, save, button("Cancel", back));
  return make("div", { class: "stack tight" }, field, buttons);
}

/** The conversations to choose from.
 *  @param {Chat[]} chats @param {string} current  the open one's id
 *  @param {{ open: (chat: Chat) => void, remove: (chat: Chat) => void }} acts */
export function listing(chats, current, acts) {
  return chats.map((chat) => {
    const name = title(chat);
    const open = make("button", { type: "button", class: "open small" }, name);
    if (chat.id === current) open.setAttribute("aria-current", "true");
    open.addEventListener("click", () => acts.open(chat));
    return make("li", {}, open, button("×", () => acts.remove(chat), `Remove ${name}`));
  });
}
