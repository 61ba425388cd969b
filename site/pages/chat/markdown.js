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
  for (const table of clean.querySelectorAll("table")) {
    table.className = "plain";
    const frame = document.createElement("div");
    frame.className = "scroll";
    table.replaceWith(frame);
    frame.append(table);
  }
  return clean;
}
