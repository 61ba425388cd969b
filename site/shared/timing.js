// timing.js: the Timing panel for developers: a chart and a table of the kernels of the last job.
// Nothing is timed, and no chart library is loaded, until the panel is open. For pages with an
// element panel-timing that holds timing-says; this file makes the rest of the panel.

import { axis, colour, library, onTheme } from "./charts.js";
import { byId, duration, make, pick, save } from "./page.js";

/**
 * @typedef {import("../rushlight/client.js").Model} Model
 * @typedef {import("../rushlight/client.js").Timing} Timing
 * @typedef {import("../rushlight/client.js").TimingRow} Row
 */

const SHOWN = 8; // bars of the chart; the table has all kernels
const ROWS = 20;
const panel = pick("panel-timing", HTMLDetailsElement);
const plot = (/** @type {string} */ id) =>
  make("div", { class: "plot" }, make("canvas", { id, role: "img" }));
const scroll = { class: "scroll", tabindex: "0", role: "group", "aria-label": "Time per kernel" };
const speeds = make(
  "div",
  { id: "timing-speed" },
  make("p", { class: "hint", id: "timing-mean" }),
  plot("timing-line"),
);
const traced = make("button", { class: "small", id: "trace", type: "button" }, "Save a trace");
const found = make(
  "div",
  { class: "stack", id: "timing-found", hidden: "" },
  plot("timing-bars"),
  speeds,
  make("div", scroll, make("table", { id: "timing-table" })),
  traced,
);
panel.append(found);
/** @type {any} the chart library */
let Chart = null;
/** @type {any[]} */
let charts = [];
/** @type {(() => void) | null} draws the last timing again */
let redraw = null;
/** @type {number[]} the time of each token of the job */
let marks = [];

/** Records the time of a token. */
export function mark() {
  marks.push(performance.now());
}

/** Runs a job. If the panel is open, its kernels are timed and shown afterwards.
 *  @template T @param {Model} model @param {() => Promise<T>} work @returns {Promise<T>} */
export async function watch(model, work) {
  marks = [];
  if (!panel.open) return work();
  byId("timing-says").textContent = "Timing…";
  try {
    const { value, timing } = await model.profile(work);
    await show(timing, [...marks]);
    return value;
  } catch (error) {
    byId("timing-says").textContent = "The job did not complete, so there is no timing.";
    throw error;
  }
}

/** @param {Timing} timing @param {number[]} times */
async function show(timing, times) {
  Chart = await library();
  const { rows } = timing;
  byId("timing-says").textContent = summary(timing);
  byId("timing-table").replaceChildren(...table(rows));
  found.hidden = false;
  speeds.hidden = times.length < 3;
  traced.onclick = async () =>
    save("rushlight-trace.json", "application/json", await timing.trace());
  redraw = () => {
    for (const chart of charts) chart.destroy();
    charts = [bars(rows), ...(times.length < 3 ? [] : [speed(times)])];
  };
  redraw();
  document.documentElement.dataset.timed = String(timing.calls);
}

/** @param {Timing} timing */
function summary({ seconds, kernelSeconds, calls, host, timing, resolution }) {
  const { preparing, submitting, waiting, other } = host;
  const parts = { preparing, submitting, waiting, other };
  const told = Object.entries(parts).map(([name, spent]) => `${name} ${duration(spent)}`);
  const rounded = resolution
    ? ` The browser rounds timestamps to ${Math.round(resolution * 1e6)} µs: sums are right, single
       kernels are not.`
    : "";
  return (
    `${duration(seconds)} in all, ${duration(kernelSeconds)} in ${calls.toLocaleString("en")} ` +
    `kernels (by ${timing}). Python: ${told.join(", ")}.${rounded}`
  );
}

/** @param {Row} row */
const name = ({ op, kernel }) => (kernel && kernel !== op ? `${op} · ${kernel}` : op);

/** @param {string} words */
const cut = (words) => (words.length > 18 ? `${words.slice(0, 17)}…` : words);

/** A short name for a bar: the first that no other bar has. @param {Row} row
 *  @param {Row[]} rows */
function short(row, rows) {
  /** @type {((row: Row) => string)[]} */
  const names = [
    (r) => cut(r.op),
    (r) => cut(r.kernel),
    (r) => cut(name(r)),
    (r) => `…${name(r).slice(-17)}`,
  ];
  const alone = names.find((of) => rows.filter((other) => of(other) === of(row)).length === 1);
  return (alone ?? name)(row);
}

/** A name that may break after an underscore. @param {string} words */
const breakable = (words) =>
  words.split(/(?<=_)/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));

/** @param {number} perSecond @param {number} [share] */
const rate = (perSecond, share = NaN) =>
  isNaN(share) ? "" : `${(perSecond / 1e9).toPrecision(2)} (${Math.round(share * 100)}\u00a0%)`;

/** @param {Row[]} rows */
function table(rows) {
  const heads = ["Kernel", "Runs", "ms (share)", "GB/s (of top)", "GFLOP/s (of top)"];
  const head = make("tr", {}, ...heads.map((words) => make("th", { scope: "col" }, words)));
  const body = rows.slice(0, ROWS).map((row) => {
    const spent = (row.seconds * 1e3).toFixed(row.seconds < 0.1 ? 1 : 0);
    const cells = [
      row.calls.toLocaleString("en"),
      `${spent} (${(row.share * 100).toFixed(1)}\u00a0%)`,
      rate(row.bytesPerSecond, row.ofCopy),
      rate(row.operationsPerSecond, row.ofFma),
    ];
    const first = make("th", { scope: "row" }, ...breakable(name(row)));
    return make("tr", {}, first, ...cells.map((words) => make("td", {}, words)));
  });
  const caption = make("caption", { class: "unseen" }, "Time per kernel, the longest first");
  return [caption, make("thead", {}, head), make("tbody", {}, ...body)];
}

/** Milliseconds of the longest kernels. @param {Row[]} rows */
function bars(rows) {
  const others = rows.slice(SHOWN).reduce((sum, { seconds }) => sum + seconds, 0);
  const labels = rows.slice(0, SHOWN).map((row, i, shown) => short(row, shown));
  const values = rows.slice(0, SHOWN).map(({ seconds }) => seconds * 1e3);
  const more = others ? [others * 1e3] : [];
  const canvas = pick("timing-bars", HTMLCanvasElement);
  const data = [...values, ...more];
  /** @type {HTMLElement} */ (canvas.parentElement).style.height = `${64 + 24 * data.length}px`;
  canvas.setAttribute("aria-label", `Time per kernel, the longest ${rows[0]?.op ?? "none"}`);
  return new Chart(canvas, {
    type: "bar",
    data: {
      labels: [...labels, ...(others ? ["all others"] : [])],
      datasets: [{ data, backgroundColor: colour("--flame"), maxBarThickness: 16 }],
    },
    options: {
      indexAxis: "y",
      maintainAspectRatio: false,
      plugins: { legend: { display: false } },
      scales: {
        x: axis("milliseconds"),
        y: { ticks: { color: colour("--ink"), autoSkip: false }, grid: { display: false } },
      },
    },
  });
}

/** Tokens per second, averaged over four tokens. @param {number[]} times */
function speed(times) {
  const data = times.slice(1).map((time, i) => {
    const from = Math.max(0, i - 3);
    return { x: i + 2, y: ((i + 1 - from) * 1000) / (time - times[from] || 1) };
  });
  const canvas = pick("timing-line", HTMLCanvasElement);
  const mean = ((times.length - 1) * 1000) / (times[times.length - 1] - times[0] || 1);
  const words = `Tokens per second: ${mean.toFixed(1)} on average`;
  byId("timing-mean").textContent = words;
  canvas.setAttribute("aria-label", words);
  return new Chart(canvas, {
    type: "line",
    data: { datasets: [{ data, borderColor: colour("--flame"), borderWidth: 2, pointRadius: 0 }] },
    options: {
      parsing: false,
      maintainAspectRatio: false,
      plugins: { legend: { display: false } },
      scales: { x: { type: "linear", ...axis("token"), min: 2 }, y: axis("tokens per second") },
    },
  });
}

panel.addEventListener("toggle", () => {
  if (panel.open) void library().then(() => redraw?.());
});
onTheme(() => redraw?.());
panel.open = new URLSearchParams(location.search).has("timing");
