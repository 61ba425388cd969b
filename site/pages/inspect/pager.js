// pager.js: a long list a page at a time, so that no length of it slows the browser.

import { make } from "../shared/page.js";

/**
 * Draws the buttons before and after a page of a list.
 * @param {HTMLElement} place @param {string} what  what is listed, for the buttons' names
 * @param {{ start: number, shown: number, total: number }} where
 * @param {(start: number) => void} go @param {number} step
 */
export function pager(place, what, { start, shown, total }, go, step) {
  if (total <= step) return void place.replaceChildren();
  /** @param {string} words @param {number} to @param {boolean} on */
  const button = (words, to, on) => {
    const label = { type: "button", class: "small", "aria-label": `${words} ${what}` };
    const made = make("button", label, words);
    made.disabled = !on;
    made.addEventListener("click", () => {
      go(to);
      // The buttons were made anew: the focus stays where it was, or goes to the other one.
      const again = [...place.querySelectorAll("button")];
      const same = again.find((one) => one.textContent === words && !one.disabled);
      (same ?? again.find((one) => !one.disabled))?.focus();
    });
    return made;
  };
  const count = (/** @type {number} */ n) => n.toLocaleString("en");
  const last = count(start + shown);
  place.replaceChildren(
    button("Previous", Math.max(0, start - step), start > 0),
    button("Next", start + step, start + shown < total),
    make("span", { class: "hint" }, `${count(start + 1)} to ${last} of ${count(total)}`),
  );
}
