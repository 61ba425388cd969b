// output.js: what a program shows, in order: text, pictures and charts. Text is never markup.

import { axis, colour, library, onTheme } from "../shared/charts.js";
import { byId, make } from "../shared/page.js";

/** @typedef {import("../rushlight/client.js").PythonOutput} PythonOutput */

const SMALLEST = 160; // CSS pixels of a picture's longer side
const COLOURS = ["--flame", "--good", "--bad", "--ink-soft"];
const place = byId("output");

/** @type {{ value: any, canvas: HTMLCanvasElement, chart: any }[]} */
let charts = [];

export function clear() {
  for (const one of charts) one.chart?.destroy();
  charts = [];
  place.replaceChildren();
}

/** @param {PythonOutput} output */
export function show(output) {
  const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 4;
  if (output.kind === "image") picture(output.value, output.data);
  else if (output.kind === "plot") plot(output.value);
  else write(output.value, output.kind === "error");
  if (atEnd) place.scrollTop = place.scrollHeight;
}

/** @param {string} text @param {boolean} wrong */
export function write(text, wrong) {
  const last = place.lastElementChild;
  const kind = wrong ? "wrong" : "said";
  if (last instanceof HTMLPreElement && last.className === kind) last.append(text);
  else place.append(make("pre", { class: kind }, text));
}

/** @param {{ width: number, height: number }} size @param {Uint8Array<ArrayBuffer>} data */
function picture({ width, height }, data) {
  const label = `A picture of ${width} by ${height} pixels`;
  const canvas = make("canvas", { class: "shown", role: "img", "aria-label": label });
  [canvas.width, canvas.height] = [width, height];
  const pixels = new ImageData(new Uint8ClampedArray(data.buffer), width, height);
  canvas.getContext("2d")?.putImageData(pixels, 0, 0);
  const scale = Math.max(1, Math.ceil(SMALLEST / Math.max(width, height)));
  canvas.style.width = `${width * scale}px`;
  place.append(canvas);
}

/** @param {any} value */
function plot(value) {
  const names = value.lines.map((/** @type {any} */ line) => line.label).filter(Boolean);
  const label = `A chart${value.title ? `: ${value.title}` : ""}. ${names.join(", ")}`;
  const canvas = make("canvas", { role: "img", "aria-label": label });
  place.append(make("div", { class: "chart" }, canvas));
  const one = { value, canvas, chart: null };
  charts.push(one);
  void library().then((Chart) => draw(Chart, one));
}

/** @param {any} Chart @param {typeof charts[0]} one */
function draw(Chart, one) {
  if (!one.canvas.isConnected) return;
  one.chart?.destroy();
  const { x, lines, title, kind } = one.value;
  const points = (/** @type {(number | null)[]} */ y) => y.map((v, i) => ({ x: x[i], y: v }));
  const datasets = lines.map((/** @type {any} */ { label, y }, /** @type {number} */ i) => {
    const tone = colour(COLOURS[i % COLOURS.length]);
    const dots = kind === "scatter" ? 2.5 : 0;
    return {
      label, data: kind === "bar" ? y : points(y), borderColor: tone, backgroundColor: tone,
      borderWidth: 2, pointRadius: dots, parsing: kind === "bar" ? undefined : false,
    }; // prettier-ignore
  });
  const named = lines.some((/** @type {any} */ line) => line.label);
  const plain = { ...axis(""), beginAtZero: kind === "bar" };
  one.chart = new Chart(one.canvas, {
    type: kind,
    data: { labels: kind === "bar" ? x : undefined, datasets },
    options: {
      maintainAspectRatio: false,
      scales: { x: { ...plain, type: kind === "bar" ? "category" : "linear" }, y: plain },
      plugins: {
        legend: { display: named, labels: { color: colour("--ink-soft") } },
        title: { display: Boolean(title), text: title, color: colour("--ink") },
      },
    },
  });
}

onTheme(() => {
  if (charts.length) void library().then((Chart) => charts.forEach((one) => draw(Chart, one)));
});
