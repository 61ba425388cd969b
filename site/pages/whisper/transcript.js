// transcript.js: the text on the page: words that light and can be chosen, and its editing.

import { byId, make } from "../shared/page.js";
import { clock } from "./wave.js";

/** @typedef {import("./hearing.js").Segment} Segment */
/** @typedef {import("./hearing.js").Word} Word */

const box = byId("transcript");
/** The rows of the shown segments. @type {Map<Segment, HTMLElement>} */
const rows = new Map();
/** @type {Segment[]} */
let segments = [];
/** @type {Word[]} the words of all segments in order, and their elements */
let words = [];
/** @type {HTMLElement[]} */
let spans = [];
/** @type {HTMLElement | null} */
let lit = null;
let editing = false;
/** @type {(seconds: number) => void} */
let jump = () => {};
/** @type {() => void} */
let edited = () => {};

/** The text of a segment, as words or as a field. @param {Segment} segment */
function body(segment) {
  if (editing) {
    const field = make("p", {
      class: "field",
      contenteditable: "plaintext-only",
      role: "textbox",
      "aria-multiline": "false",
      "aria-label": `Text at ${clock(segment.start)}`,
    });
    field.textContent = segment.text.trim();
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault(); // a segment is one line
    });
    field.addEventListener("input", () => {
      retime(segment, field.textContent ?? "");
      edited();
    });
    return field;
  }
  const line = make("p");
  for (const word of segment.words) {
    const text = word.word.trim();
    const span = make("span", { class: "word", role: "button", tabindex: "-1" }, text);
    span.dataset.start = String(word.start);
    if (word.probability < 0.5) span.classList.add("unsure");
    if (word.word.startsWith(" ")) line.append(" "); // outside of what lights
    line.append(span);
  }
  return line;
}

/** @param {Segment} segment */
function row(segment) {
  const time = make("button", { class: "time", type: "button" }, clock(segment.start));
  time.setAttribute("aria-label", `Play from ${clock(segment.start)}`);
  time.dataset.start = String(segment.start);
  return make("div", { class: "segment" }, time, body(segment));
}

/** Gives a changed text times: words at both ends that stay keep theirs, those between share what
 *  is left. @param {Segment} segment @param {string} text */
export function retime(segment, text) {
  const before = segment.words;
  const now = text.trim().split(/\s+/).filter(Boolean);
  const old = before.map(({ word }) => word.trim());
  let head = 0;
  while (head < Math.min(now.length, old.length) && now[head] === old[head]) head += 1;
  let tail = 0;
  const most = Math.min(now.length, old.length) - head;
  while (tail < most && now.at(-1 - tail) === old.at(-1 - tail)) tail += 1;
  const gone = before.slice(head, before.length - tail);
  const from = gone[0]?.start ?? before[head - 1]?.end ?? segment.start;
  const to = gone.at(-1)?.end ?? before[before.length - tail]?.start ?? segment.end;
  const fresh = now.slice(head, now.length - tail);
  const step = (to - from) / (fresh.length || 1);
  segment.text = text.trim().replace(/\s+/g, " ");
  segment.words = [
    ...before.slice(0, head),
    ...fresh.map((word, i) => ({
      word: ` ${word}`,
      start: from + i * step,
      end: from + (i + 1) * step,
      probability: 1, // somebody has written it
    })),
    ...before.slice(before.length - tail),
  ];
}

/** Shows segments, and words that may yet change. @param {Segment[]} found
 *  @param {Word[]} [tentative] */
export function show(found, tentative = []) {
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  segments = found;
  const there = new Set(found);
  for (const [segment, element] of rows) {
    if (there.has(segment)) continue;
    element.remove();
    rows.delete(segment);
  }
  document.getElementById("tentative")?.remove();
  for (const segment of found) {
    if (rows.has(segment)) continue;
    const made = row(segment);
    rows.set(segment, made);
    box.append(made);
  }
  const later = tentative.map(({ word }) => word).join("");
  box.append(make("p", { id: "tentative" }, later));
  index();
  if (atEnd && !lit) box.scrollTop = box.scrollHeight;
}

/** Finds the words again after a change. */
function index() {
  words = segments.flatMap((segment) => segment.words);
  spans = /** @type {HTMLElement[]} */ ([...box.querySelectorAll(".word")]);
  if (spans.length && !box.querySelector('.word[tabindex="0"]')) spans[0].tabIndex = 0;
  lit = null;
}

/** Turns editing on or off. @param {boolean} on */
export function edit(on) {
  editing = on;
  box.classList.toggle("editing", on);
  const kept = segments;
  rows.clear();
  box.replaceChildren();
  show(kept);
}

/** Lights the word at a time, and keeps it in view while the player runs. @param {number} seconds
 *  @param {boolean} follow */
export function light(seconds, follow) {
  if (editing) return;
  let low = 0;
  let high = words.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (words[middle].start <= seconds + 0.02) low = middle + 1;
    else high = middle;
  }
  const word = words[low - 1];
  // A pause belongs to no word.
  const found = word && seconds < word.end + 0.15 ? spans[low - 1] : null;
  if (found === lit) return;
  lit?.classList.remove("lit");
  found?.classList.add("lit");
  lit = found;
  if (!found || !follow) return;
  const { top, bottom } = box.getBoundingClientRect();
  const place = found.getBoundingClientRect();
  if (place.top < top || place.bottom > bottom - 8) {
    box.scrollTop += place.top - top - (bottom - top) / 3;
  }
}

/** Moves the focus among words, which are one stop of the Tab key. @param {KeyboardEvent} event */
function move(event) {
  const here = /** @type {HTMLElement} */ (event.target);
  if (!here.classList.contains("word")) return;
  const i = spans.indexOf(here);
  const line = here.closest(".segment");
  /** @type {Record<string, HTMLElement | null | undefined>} */
  const places = {
    ArrowLeft: spans[i - 1],
    ArrowRight: spans[i + 1],
    ArrowUp: line?.previousElementSibling?.querySelector(".word"),
    ArrowDown: line?.nextElementSibling?.querySelector(".word"),
    Home: spans[0],
    End: spans.at(-1),
  };
  if (event.key === "Enter" || event.key === " ") jump(Number(here.dataset.start));
  else if (!(event.key in places)) return;
  event.preventDefault();
  const there = places[event.key];
  if (!there) return;
  here.tabIndex = -1;
  there.tabIndex = 0;
  there.focus();
}

/** @param {(seconds: number) => void} onJump  plays from there
 *  @param {() => void} onEdited  called when a text was changed */
export function start(onJump, onEdited) {
  jump = onJump;
  edited = onEdited;
  box.addEventListener("click", (event) => {
    const found = /** @type {HTMLElement} */ (event.target).closest("[data-start]");
    if (found instanceof HTMLElement) jump(Number(found.dataset.start));
  });
  box.addEventListener("keydown", move);
}
