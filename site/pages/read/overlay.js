// overlay.js: the words of a page over its picture, to be selected and found.

import { make } from "../shared/page.js";

/** @typedef {{ x: number, y: number }} Point */
/** @typedef {{ text: string, score: number, corners: Point[] }} Word */
/** @typedef {{ text: string, score: number, corners: Point[], words: Word[] }} Line */
/** @typedef {{ text: string, lines: Line[], rotation: number, width: number, height: number }}
 *    Page */

const SIZE = 100; // pixels at which a word is measured
const pen = new OffscreenCanvas(1, 1).getContext("2d");

/** Fills an element with the words of a page, each as large and turned as it is in the picture.
 *  @param {HTMLElement} place @param {Page | null} page */
export function lay(place, page) {
  place.replaceChildren();
  if (!page) return;
  place.style.width = `${page.width}px`;
  place.style.height = `${page.height}px`;
  const family = getComputedStyle(place).fontFamily;
  if (pen) pen.font = `${SIZE}px ${family}`;
  for (const line of page.lines) {
    line.words.forEach((word, i) => {
      const [a, b, , d] = word.corners;
      const wide = Math.hypot(b.x - a.x, b.y - a.y);
      const high = Math.max(1, Math.hypot(d.x - a.x, d.y - a.y));
      const plain = ((pen?.measureText(word.text).width || SIZE) * high) / SIZE;
      const turn = Math.atan2(b.y - a.y, b.x - a.x);
      const last = i + 1 === line.words.length;
      const span = make("span", {}, word.text + (last ? "" : " "));
      span.style.left = `${a.x}px`;
      span.style.top = `${a.y}px`;
      span.style.fontSize = `${high}px`;
      span.style.transform = `rotate(${turn}rad) scaleX(${wide / plain})`;
      place.append(span);
    });
    place.append(make("br"));
  }
}

/** Marks the words that hold a text; returns how often it is there. The first comes into view.
 *  @param {HTMLElement} place @param {string} query */
export function find(place, query) {
  const wanted = query.trim().toLowerCase();
  const spans = [...place.querySelectorAll("span")];
  for (const span of spans) span.classList.remove("hit");
  if (!wanted) return 0;
  // Letters of all words in a row, each with the word that it is of.
  let text = "";
  /** @type {number[]} */
  const owners = [];
  spans.forEach((span, i) => {
    const words = `${(span.textContent ?? "").trimEnd().toLowerCase()} `;
    text += words;
    owners.push(...Array.from({ length: words.length }, () => i));
  });
  const spaced = wanted.split(/\s+/).join(" ");
  let count = 0;
  for (let at = text.indexOf(spaced); at >= 0; at = text.indexOf(spaced, at + spaced.length)) {
    count += 1;
    const last = owners[at + spaced.length - 1];
    for (let i = owners[at]; i <= last; i += 1) spans[i].classList.add("hit");
  }
  place.querySelector(".hit")?.scrollIntoView({ block: "nearest" });
  return count;
}
