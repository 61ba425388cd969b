// tensors.js: the list of tensors, and the figures of the one that is chosen.

import { axis, colour, library, onTheme } from "../shared/charts.js";
import { byId, make, pick, size } from "../shared/page.js";
import { count, fill, table } from "./facts.js";
import { Heat } from "./heat.js";
import { pager } from "./pager.js";

/**
 * @typedef {import("../rushlight/client.js").Facts} Facts
 * @typedef {import("../rushlight/client.js").Figures} Figures
 * @typedef {{ row: import("../rushlight/client.js").TensorRow, number: number, low: string }} Item
 */

const PAGE = 40; // rows of the list that are shown at a time
const TYPING = 150; // milliseconds

const search = pick("tensor-search", HTMLInputElement);
const kind = pick("tensor-type", HTMLSelectElement);
const order = pick("tensor-order", HTMLSelectElement);
const names = new Intl.Collator("en", { numeric: true }); // layer 2 before layer 10

/** @type {Item[]} */
let all = [];
/** @type {Item[]} */
let found = [];
let chosen = -1;
/** @type {(number: number) => void} */
let choose = () => {};
/** @type {any} */
let chart = null;
/** @type {Figures | null} */
let shown = null;

// --- the list ------------------------------------------------------------------------------------

/** @param {Facts} facts @param {(number: number) => void} act  called with the chosen number */
export function list(facts, act) {
  all = facts.tensors.map((row, number) => ({ row, number, low: row[0].toLowerCase() }));
  choose = act;
  chosen = -1;
  search.value = "";
  order.value = "file";
  const types = facts.types.map(([name]) => make("option", { value: name }, name));
  kind.replaceChildren(make("option", { value: "" }, "All types"), ...types);
  byId("tensor-none").hidden = false;
  byId("tensor-found").hidden = true;
  filter();
}

function filter() {
  const words = search.value.trim().toLowerCase();
  const fits = (/** @type {string} */ dtype) => !kind.value || kind.value === dtype;
  found = all.filter(({ low, row }) => low.includes(words) && fits(row[1]));
  if (order.value === "name") found.sort((a, b) => names.compare(a.row[0], b.row[0]));
  if (order.value === "bytes") found.sort((a, b) => b.row[3] - a.row[3]);
  const of = found.length < all.length ? ` of ${count(all.length)}` : "";
  byId("tensors-says").textContent = `${count(found.length)}${of}`;
  page(0);
}

/** @param {number} start */
function page(start) {
  const items = found.slice(start, start + PAGE);
  const rows = items.map(({ row: [name, dtype, shape, bytes], number }) => {
    const button = make("button", { type: "button", class: "name" }, name);
    button.dataset.number = String(number);
    if (number === chosen) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => choose(number));
    return [button, dtype, shape.join(" × ") || "one number", size(bytes)];
  });
  table("tensors", "Tensors", ["Name", "Type", "Shape", "Bytes"], rows, [3]);
  const where = { start, shown: items.length, total: found.length };
  pager(byId("tensor-pages"), "tensors", where, page, PAGE);
}

/** Marks a tensor of the list. @param {number} number */
export function mark(number) {
  chosen = number;
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (
    byId("tensors").querySelectorAll("button.name")
  )) {
    if (button.dataset.number === String(number)) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

// --- the chosen one ------------------------------------------------------------------------------

const heat = new Heat(
  pick("map", HTMLCanvasElement),
  (words) => (byId("readout").textContent = words || "Point at a cell, or use the arrow keys."),
  (low, high) => {
    byId("low").textContent = number(low);
    byId("high").textContent = number(high);
  },
);

/** @param {number | undefined} x */
const number = (x) => {
  if (x === undefined) return "";
  if (!Number.isFinite(x)) return String(x);
  return x !== 0 && (Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3)
    ? x.toExponential(3)
    : String(Number(x.toPrecision(5)));
};

/** Shows the figures of a tensor. @param {Facts} facts @param {number} place
 *  @param {Figures} figures */
export async function show(facts, place, figures) {
  const [name, dtype, shape, bytes] = facts.tensors[place];
  shown = figures;
  byId("tensor-none").hidden = true;
  byId("tensor-found").hidden = false;
  byId("tensor-name").textContent = name;
  const { whole, rows, columns, sampledRows, sampledColumns } = figures;
  const part =
    sampledColumns < columns
      ? `The first ${count(sampledColumns)} of ${count(columns)} numbers of a row were read.`
      : `Of ${count(rows)} rows, ${count(sampledRows)} at even distances were read.`;
  const read = whole ? "" : ` ${part} The figures below are those of this sample.`;
  byId("tensor-says").textContent =
    `${dtype}, ${shape.join(" × ") || "one number"}, ${size(bytes)}.${read}`;
  const share = figures.count ? `${((figures.zeros / figures.count) * 100).toFixed(2)} %` : "";
  const odd = figures.nan + figures.infinite;
  fill(byId("tensor-facts"), [
    ["Mean", number(figures.mean)],
    ["Standard deviation", number(figures.std)],
    ["Minimum", number(figures.min)],
    ["Maximum", number(figures.max)],
    ["Zeros", share, figures.zeros ? `${count(figures.zeros)} of ${count(figures.count)}` : ""],
    ["Not finite", odd ? `${count(figures.nan)} NaN, ${count(figures.infinite)} ∞` : "none"],
    ["First values", figures.first.slice(0, 4).map(number).join(", ")],
  ]);
  byId("map-part").hidden = !figures.map;
  byId("histogram-part").hidden = !figures.histogram;
  drawMap();
  await draw();
  document.documentElement.dataset.tensor = name;
}

function drawMap() {
  const cell = pick("map", HTMLCanvasElement).ownerDocument.querySelector('[name="cell"]:checked');
  const shows = /** @type {HTMLInputElement} */ (cell).value === "mean" ? "mean" : "largest";
  heat.show(shown?.map ?? null, shows);
}

/** Draws the histogram. */
async function draw() {
  if (!shown?.histogram) return;
  const Chart = await library();
  if (!shown?.histogram) return;
  const { counts, edges } = shown.histogram;
  const canvas = pick("histogram", HTMLCanvasElement);
  const most = counts.indexOf(Math.max(...counts));
  const [from, to] = [number(edges[most]), number(edges[most + 1])];
  const words = `Histogram; most numbers, ${count(counts[most])}, are ${from} to ${to}`;
  canvas.setAttribute("aria-label", words);
  const log = pick("log", HTMLInputElement).checked;
  const plain = axis("numbers");
  const ticks = { ...plain.ticks, callback: tick };
  const powers = { ...plain, beginAtZero: false, type: "logarithmic", min: 0.8, ticks };
  chart?.destroy();
  chart = new Chart(canvas, {
    type: "bar",
    data: {
      labels: counts.map((_, i) => Number(((edges[i] + edges[i + 1]) / 2).toPrecision(3))),
      datasets: [
        {
          data: log ? counts.map((n) => n || null) : counts,
          backgroundColor: colour("--flame"),
          barPercentage: 1,
          categoryPercentage: 0.94,
        },
      ],
    },
    options: {
      maintainAspectRatio: false,
      plugins: {
        legend: { display: false },
        tooltip: {
          callbacks: {
            title: (/** @type {{ dataIndex: number }[]} */ [{ dataIndex: i }]) =>
              `${number(edges[i])} to ${number(edges[i + 1])}`,
            label: (/** @type {{ dataIndex: number }} */ { dataIndex: i }) => count(counts[i]),
          },
        },
      },
      scales: {
        x: {
          ticks: { color: colour("--ink-soft"), maxTicksLimit: 7, maxRotation: 0 },
          grid: { display: false },
        },
        y: log ? powers : plain,
      },
    },
  });
}

/** Powers of ten only. @param {number} value */
const tick = (value) => (Number.isInteger(Math.log10(value)) ? count(value) : "");

/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(filter, TYPING);
});
for (const select of [kind, order]) select.addEventListener("change", filter);
pick("log", HTMLInputElement).addEventListener("change", () => void draw());
for (const input of document.querySelectorAll('[name="cell"]')) {
  input.addEventListener("change", drawMap);
}
onTheme(() => void draw());
