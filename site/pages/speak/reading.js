// reading.js: shows the text as it is spoken, its words lit while they sound, and its phonemes.

import { byId, make } from "../shared/page.js";

/** @typedef {{ word: string, start: number, end: number, from: number, to: number }} Word */
/** @typedef {{ words: Word[], phonemes: string, length: number }} Sentence */

const place = byId("reading");
const list = byId("phonemes");
/** The words in order, each with its element and the number of its sentence.
 *  @type {{ element: HTMLElement, start: number, end: number, sentence: number }[]} */
let words = [];
/** Where each sentence begins, in seconds. @type {number[]} */
let starts = [];
/** @type {Sentence[]} */
let sentences = [];
let text = "";
let shown = 0; // characters that are there
/** @type {HTMLElement | null} */
let lit = null;

/** Begins with another text. @param {string} another */
export function begin(another) {
  [text, shown, words, starts, sentences, lit] = [another, 0, [], [], [], null];
  place.replaceChildren();
  list.replaceChildren();
}

/** Shows a sentence that was made. @param {Sentence} sentence
 *  @param {(phonemes: string, index: number) => void} say  asked to say it by other phonemes */
export function add(sentence, say) {
  const index = sentences.length;
  sentences.push(sentence);
  const parts = [];
  for (const { from, to } of sentence.words) {
    const element = make("button", { class: "word", type: "button" }, text.slice(from, to));
    element.tabIndex = -1;
    parts.push(text.slice(shown, from), element);
    words.push({ element, start: 0, end: 0, sentence: index });
    shown = to;
  }
  place.append(...parts);
  place.scrollTop = place.scrollHeight;
  const field = make("textarea", {
    rows: "1", spellcheck: "false", autocapitalize: "off",
    "aria-label": `Phonemes of sentence ${index + 1}`,
  }); // prettier-ignore
  field.value = sentence.phonemes;
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    if (field.value.trim()) say(field.value.trim(), index);
  });
  list.append(make("li", {}, field));
  follow();
}

/** Shows what follows the last word. */
export function end() {
  place.append(text.slice(shown));
  shown = text.length;
}

/** A sentence that was made anew. @param {number} index @param {Sentence} sentence */
export function replace(index, sentence) {
  const before = sentences[index];
  const same = sentence.words.length === before.words.length;
  const [first, last] = [sentence.words[0], sentence.words[sentence.words.length - 1]];
  // Where words were put together, each is lit as long as the sentence sounds.
  const times = before.words.map((word, i) => ({
    ...word,
    start: same ? sentence.words[i].start : first.start,
    end: same ? sentence.words[i].end : last.end,
  }));
  sentences[index] = { ...sentence, words: times };
  follow();
}

/** Counts the times of all words from the beginning of the speech. */
function follow() {
  let [at, next] = [0, 0];
  starts = [];
  for (const { words: own, length } of sentences) {
    starts.push(at);
    for (const { start, end: stop } of own) {
      Object.assign(words[next], { start: at + start, end: at + stop });
      next += 1;
    }
    at += length;
  }
}

/** Lights the word that sounds. @param {number} seconds @param {boolean} playing */
export function light(seconds, playing) {
  let found = null;
  for (const word of words) {
    if (word.start > seconds) break;
    if (seconds < word.end + 0.05) found = word.element;
  }
  if (found === lit) return;
  lit?.classList.remove("lit");
  found?.classList.add("lit");
  lit = found;
  if (!found || !playing) return;
  const [box, frame] = [found.getBoundingClientRect(), place.getBoundingClientRect()];
  if (box.bottom > frame.bottom || box.top < frame.top) found.scrollIntoView({ block: "nearest" });
}

/** @param {(seconds: number) => void} hear  asked to play from a word on */
export function start(hear) {
  place.addEventListener("click", ({ target }) => {
    const word = words.find(({ element }) => element === target);
    if (word) hear(word.start);
  });
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !words.length) return;
    event.preventDefault();
    const now = words.findIndex(({ element }) => element === document.activeElement);
    const next = now < 0 ? (step > 0 ? 0 : words.length - 1) : now + step;
    words[Math.max(0, Math.min(words.length - 1, next))].element.focus();
  });
}
