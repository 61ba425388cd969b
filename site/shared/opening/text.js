// text.js: texts of files: in any usual encoding, of any size the first part, and nothing else.

import { size } from "../page.js";
import { headOf, kindOf, readable, refused, unlike } from "./kinds.js";

/** @typedef {{ text: string, note: string }} Opened  note: what is not as the file has it, or "" */

const MARKS = /** @type {[encoding: string, ...bytes: number[]][]} */ ([
  ["utf-8", 0xef, 0xbb, 0xbf],
  ["utf-16le", 0xff, 0xfe],
  ["utf-16be", 0xfe, 0xff],
]);
const NAMES = /** @type {Record<string, string>} */ ({
  "utf-16le": "UTF-16", "utf-16be": "UTF-16", "windows-1252": "Latin-1",
}); // prettier-ignore

/** A text file's text, at most `most` characters of it. Throws an error in words for another file.
 *  @param {File} file @param {number} most @returns {Promise<Opened>} */
export async function textOf(file, most) {
  const head = await headOf(file);
  const kind = kindOf(head);
  const wide = wideOf(head);
  if (kind || (!wide && !readable(head))) {
    const hint = /document|sheet|presentation|book|OpenDocument/.test(kind)
      ? "Save it as plain text there, or copy its text and paste it here."
      : "Open a .txt or .md file, or paste a text.";
    throw refused(unlike(file, kind, "text"), hint);
  }
  // A character has at most four bytes; a character that is cut at the end is left out.
  const bytes = new Uint8Array(await file.slice(0, 4 * most + 4).arrayBuffer());
  const whole = bytes.length === file.size;
  const encoding = wide ?? (isUtf8(bytes, whole) ? "utf-8" : "windows-1252");
  const all = new TextDecoder(encoding).decode(bytes, { stream: !whole });
  const text = first(all, most).replaceAll("\r\n", "\n");
  if (!text.trim()) throw refused(`${file.name} holds no text, only spaces and blank lines.`);
  return { text, note: noteOf(file, encoding, !whole || all.length > most, text) };
}

/** @param {File} file @param {string} encoding @param {boolean} cut @param {string} text */
function noteOf(file, encoding, cut, text) {
  const count = text.length.toLocaleString("en");
  const parts = [
    cut ? `Of ${file.name} (${size(file.size)}) the first ${count} characters were read.` : "",
    NAMES[encoding] ? `${file.name} was read as ${NAMES[encoding]}.` : "",
  ];
  return parts.filter(Boolean).join(" ");
}

/** The first characters of a text, in whole lines or words where there are some.
 *  @param {string} text @param {number} most */
export function first(text, most) {
  if (text.length <= most) return text;
  const cut = text.slice(0, most);
  const at = Math.max(cut.lastIndexOf("\n"), cut.lastIndexOf(" ", most));
  const end = at > most * 0.9 ? at + 1 : most - (/[\ud800-\udbff]$/.test(cut) ? 1 : 0);
  return cut.slice(0, end);
}

/** UTF-16's or UTF-8's name where a mark says so, or every other byte is zero; else null.
 *  @param {Uint8Array} head */
function wideOf(head) {
  for (const [name, ...mark] of MARKS) {
    if (mark.every((byte, i) => head[i] === byte)) return name;
  }
  const pairs = Math.min(head.length >> 1, 2000);
  if (pairs < 2) return null;
  let [even, odd] = [0, 0];
  for (let i = 0; i < pairs; i += 1) {
    even += Number(head[2 * i] === 0);
    odd += Number(head[2 * i + 1] === 0);
  }
  if (odd > 0.7 * pairs && even === 0) return "utf-16le";
  return even > 0.7 * pairs && odd === 0 ? "utf-16be" : null;
}

/** @param {Uint8Array} bytes @param {boolean} whole */
function isUtf8(bytes, whole) {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !whole });
    return true;
  } catch {
    return false;
  }
}

/** Keeps a field within its bound, and says what a paste has lost.
 *  @param {HTMLTextAreaElement} field @param {number} most @param {(note: string) => void} tell */
export function boundField(field, most, tell) {
  // The browser cuts by maxlength without a word, after it has held all of a paste.
  field.addEventListener("paste", (event) => {
    const given = event.clipboardData?.getData("text/plain") ?? "";
    const room = most - (field.value.length - (field.selectionEnd - field.selectionStart));
    if (given.length <= room) return;
    event.preventDefault();
    const some = first(given, Math.max(0, room));
    field.setRangeText(some, field.selectionStart, field.selectionEnd, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
    const count = (/** @type {number} */ n) => n.toLocaleString("en");
    tell(`Of ${count(given.length)} characters pasted the first ${count(some.length)} were taken.`);
  });
  field.maxLength = most;
}
