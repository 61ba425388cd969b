// views.js: what a network makes of examples, its mistakes, and pictures of its inside.

import { onTheme } from "../shared/charts.js";
import { byId, make } from "../shared/page.js";
import { scaled } from "../shared/scale.js";

/**
 * @typedef {{ classes: string[], shape: number[], pictures: Uint8Array, labels: Int32Array }} About
 * @typedef {{ matrix?: Int32Array, guesses?: Int32Array, sure?: Float32Array, written?: string,
 *   tiles: { title: string, shape: number[], values: Float32Array }[] }} Look
 */

/** What is shown. @type {{ about: About, look: Look } | null} */
let shown = null;

const isDark = () => document.documentElement.dataset.theme === "dark";
const percent = (/** @type {number} */ share) => `${Math.round(share * 100)} %`;

/** @param {About} about @param {Look} look */
export function show(about, look) {
  shown = { about, look };
  const text = about.shape.length === 1;
  byId("results").hidden = false;
  for (const card of /** @type {NodeListOf<HTMLElement>} */ (
    document.querySelectorAll("[data-for]")
  )) {
    card.hidden = (card.dataset.for === "text") !== text;
  }
  if (text) byId("written").textContent = look.written ?? "";
  else {
    examples(about, look);
    matrix(about.classes, look.matrix ?? new Int32Array());
  }
  byId("tiles").replaceChildren(...look.tiles.flatMap(group));
}

/** @param {About} about @param {Look} look */
function examples({ classes, shape, pictures, labels }, { guesses, sure }) {
  const rows = [...(guesses ?? [])].map((guess, i) => {
    const right = guess === labels[i];
    const size = shape[0] * shape[1] * shape[2];
    const picture = drawn(pictures.subarray(i * size, (i + 1) * size), shape);
    const share = percent(sure?.[i] ?? 0);
    const words = right ? `${share} sure` : `not ${classes[guess]}, ${share} sure`;
    return make(
      "li",
      { class: right ? "right" : "wrong" },
      picture,
      make("strong", {}, `${right ? "✓" : "✗"} ${classes[labels[i]]}`),
      words,
    );
  });
  byId("examples").replaceChildren(...rows);
}

/** A picture of bytes, one channel after the other. @param {Uint8Array} bytes
 *  @param {number[]} shape */
export function drawn(bytes, [channels, height, width]) {
  const canvas = make("canvas", { role: "presentation" });
  [canvas.width, canvas.height] = [width, height];
  const image = new ImageData(width, height);
  const count = width * height;
  for (let i = 0; i < count; i += 1) {
    for (let c = 0; c < 3; c += 1) {
      image.data[4 * i + c] = bytes[(channels === 1 ? 0 : c) * count + i];
    }
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

/** @param {string[]} classes @param {Int32Array} counts */
function matrix(classes, counts) {
  const n = classes.length;
  const total = counts.reduce((sum, count) => sum + count, 0);
  const right = classes.reduce((sum, _, i) => sum + (counts[i * n + i] ?? 0), 0);
  const told = `${right} of ${total} are right. Rows: what it is. Columns: what it is taken for.`;
  byId("matrix-words").textContent = total ? told : "";
  const named = classes.map((words) => make("th", { scope: "col", title: words }, words));
  const head = make("tr", {}, make("th", {}), ...named);
  const rows = classes.map((words, i) => {
    const row = counts.subarray(i * n, (i + 1) * n);
    const all = row.reduce((sum, count) => sum + count, 0) || 1;
    const cells = [...row].map((count) => {
      const tone = scaled(count / all, isDark());
      const light = tone[0] * 0.299 + tone[1] * 0.587 + tone[2] * 0.114 > 140;
      const cell = make("td", {}, count ? String(count) : "");
      cell.style.background = `rgb(${tone})`;
      cell.style.color = light ? "#26211a" : "#fff";
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row", title: words }, words), ...cells);
  });
  const caption = make("caption", { class: "unseen" }, "Classes, and what they are taken for");
  byId("matrix").replaceChildren(caption, make("thead", {}, head), make("tbody", {}, ...rows));
}

/** A group of small pictures on one canvas. @param {Look["tiles"][0]} group */
function group({ title, shape: [count, height, width], values }) {
  const across = count <= 4 ? count : Math.min(8, count);
  const down = Math.ceil(count / across);
  const [tall, wide] = [height + 1, width + 1];
  const canvas = make("canvas", { role: "img", "aria-label": `${title}: ${count} pictures` });
  [canvas.width, canvas.height] = [across * wide - 1, down * tall - 1];
  const image = new ImageData(canvas.width, canvas.height);
  for (let n = 0; n < count; n += 1) {
    const part = values.subarray(n * height * width, (n + 1) * height * width);
    const [low, high] = part.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [1e9, -1e9]);
    const [left, top] = [(n % across) * wide, Math.floor(n / across) * tall];
    part.forEach((value, i) => {
      const at = (top + Math.floor(i / width)) * canvas.width + left + (i % width);
      image.data.set([...scaled((value - low) / (high - low || 1), isDark()), 255], 4 * at);
    });
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return [make("p", { class: "hint" }, title), canvas];
}

/** The shares of the classes of one picture, the largest first. @param {string[]} classes
 *  @param {Float32Array} shares */
export function guesses(classes, shares) {
  const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, 6);
  const rows = order.map((i) => {
    const row = make("li", {}, `${classes[i]} ${percent(shares[i])}`);
    row.style.setProperty("--share", percent(shares[i]).replace(" ", ""));
    return row;
  });
  byId("guesses").replaceChildren(...rows);
}

onTheme(() => shown && show(shown.about, shown.look));
