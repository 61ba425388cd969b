// markdown.js: renders a model's text as Markdown. HTML in it is shown as text. The result is
// sanitised: no images (they would be fetched), no scripts, only links to the web and to mail. A
// text that the parser fails on, such as thousands of nested quotes, is shown as it is.

import { Marked } from "../shared/marked.js";
import DOMPurify from "../shared/purify.js";

const TAGS = `a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre strong table tbody td th
  thead tr ul`.split(/\s+/);
const ADDRESS = /^(https?|mailto):/i;

/** @param {string} text */
const escape = (text) =>
  text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text, block }) => (block ? `<p>${escape(text.trim())}</p>` : escape(text)),
    image: ({ text, href }) => escape(text || href),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

/** @param {string} text @returns {Node} */
export function rendered(text) {
  try {
    return formatted(text);
  } catch {
    const plain = document.createElement("div");
    plain.className = "unformatted";
    plain.textContent = text;
    return plain;
  }
}

/** An answer as elements: each of its `<think>` parts folds away; those that are open stay so.
 *  @param {string} text @param {HTMLElement} [before]  where an earlier state of it is shown
 *  @returns {Node[]} */
export function inParts(text, before) {
  const open = [...(before?.querySelectorAll("details.thought") ?? [])].map(
    (one) => one instanceof HTMLDetailsElement && one.open,
  );
  // Some templates end the prompt with the first tag, so that an answer begins within the part.
  const begun = text.includes("</think>") && !text.split("</think>", 1)[0].includes("<think>");
  const [start, ...parts] = (begun ? `<think>${text}` : text).split("<think>");
  const made = start.trim() ? [rendered(start)] : [];
  for (const [i, part] of parts.entries()) {
    const [thought, ...rest] = part.split("</think>");
    if (thought.trim()) made.push(folded(thought, rest.length > 0, open[i] ?? false));
    if (rest.join("").trim()) made.push(rendered(rest.join("")));
  }
  return made;
}

/** @param {string} thought @param {boolean} ended @param {boolean} open */
function folded(thought, ended, open) {
  const made = document.createElement("details");
  made.className = "thought";
  made.open = open;
  const summary = document.createElement("summary");
  summary.textContent = ended ? "Thoughts" : "Thinking …";
  const inside = document.createElement("div");
  inside.append(rendered(thought));
  made.append(summary, inside);
  return made;
}

/** @param {string} text */
function formatted(text) {
  const clean = DOMPurify.sanitize(marked.parse(text, { async: false }), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "start"],
    ALLOWED_URI_REGEXP: ADDRESS,
    ALLOW_DATA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const link of clean.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const code of clean.querySelectorAll("pre")) {
    code.tabIndex = 0; // what is wide is scrolled by keys, too
    code.setAttribute("role", "group");
    code.setAttribute("aria-label", "Code");
  }
  for (const table of clean.querySelectorAll("table")) {
    table.className = "plain";
    const frame = document.createElement("div");
    frame.className = "scroll";
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "A table");
    table.replaceWith(frame);
    frame.append(table);
  }
  return clean;
}
