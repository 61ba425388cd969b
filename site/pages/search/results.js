// results.js: a passage as an item of the list of results.

import { make } from "../shared/page.js";
import { runs } from "./split.js";

/** Scrolls to an element on a narrow screen, where it may be out of view.
 *  @param {HTMLElement} element */
export function reveal(element) {
  if (matchMedia("(max-width: 56rem)").matches) element.scrollIntoView({ behavior: "smooth" });
}

/**
 * @param {import("./split.js").Passage} passage @param {number} index
 * @param {number | undefined} score @param {string[]} terms  beginnings of words to mark
 * @param {boolean} read  whether its vector is computed
 */
export function item(passage, index, score, terms, read) {
  const body = make("p", {});
  for (const { text, marked } of runs(passage.text, terms)) {
    body.append(marked ? make("mark", {}, text) : text);
  }
  const where = make("span", { class: "where" }, `${passage.source}, passage ${index + 1}`);
  const head = make("div", { class: "row" }, where);
  if (score !== undefined) {
    const meter = make("span", { class: "meter", "aria-hidden": "true" });
    meter.style.setProperty("--score", String(Math.max(0, score)));
    head.prepend(make("strong", { class: "score" }, score.toFixed(3)), meter);
  } else if (!read) {
    head.append(make("span", { class: "where push" }, "not read yet"));
  }
  return make("li", { id: `passage-${index}`, tabindex: "-1" }, head, body);
}
