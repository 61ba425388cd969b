// output.js: what a program shows, in order: text, pictures and charts. Text is never markup.

import { axis, colour, library, onTheme } from "../shared/charts.js";
import { byId, make } from "../shared/page.js";

/** @typedef {import("../rushlight/client.js").PythonOutput} PythonOutput */

const SMALLEST = 160; // CSS pixels of a picture's longer side
const COLOURS = ["--flame", "--good", "--bad", "--ink-soft"];
// What is kept of the output, the last of it.
const LINES = 2000;
const CHARACTERS = 200_000;
const DRAWN = 40; // pictures and charts
const BLOCK = 8000; // characters of a piece of text that is laid out by itself
const place = byId("output");

/** @typedef {{ value: any, canvas: HTMLCanvasElement, chart: any }} Chart */
/** @typedef {{ element: HTMLElement, lines: number, characters: number, chart?: Chart }} Block */

/** @type {Chart[]} */
let charts = [];
/** What is shown, in order. @type {Block[]} */
let blocks = [];
/** What the next frame shows. @type {PythonOutput[]} */
let coming = [];
let characters = 0; // of the texts in `coming`
let frame = 0;

export function clear() {
  for (const one of charts) one.chart?.destroy();
  [charts, blocks, coming, characters] = [[], [], [], 0];
  place.replaceChildren();
}

/** Shows output with the next frame; of more than is kept, the last.
 *  @param {PythonOutput} output */
export function show(output) {
  coming.push(output);
  if (typeof output.value === "string") characters += output.value.length;
  while (coming.length > 1 && (characters > CHARACTERS || coming.length > LINES)) {
    const { value } = /** @type {PythonOutput} */ (coming.shift());
    if (typeof value === "string") characters -= value.length;
    earlier();
  }
  frame ||= requestAnimationFrame(draw);
}

/** Shows what is still to come. */
export function draw() {
  cancelAnimationFrame(frame);
  frame = 0;
  const now = coming;
  [coming, characters] = [[], 0];
  const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 4;
  for (const output of now) {
    if (output.kind === "image") picture(output.value, output.data);
    else if (output.kind === "plot") plot(output.value);
    else if (output.kind !== "input") text(output.value, output.kind === "error");
  }
  bound();
  if (atEnd) place.scrollTop = place.scrollHeight;
}

/** @param {string} words @param {boolean} wrong */
export const write = (words, wrong) => show({ kind: wrong ? "error" : "text", value: words });

/** @param {string} words @param {boolean} wrong */
function text(words, wrong) {
  const kind = wrong ? "wrong" : "said";
  for (let at = 0; at < words.length; ) {
    let last = blocks.at(-1);
    const full = !last || last.element.className !== kind || last.characters >= BLOCK;
    if (full) last = added(make("pre", { class: kind }));
    // A block ends with a line where it can, so that the next one begins one.
    const most = words.slice(at, at + BLOCK);
    const end = at + BLOCK < words.length ? most.lastIndexOf("\n") + 1 || BLOCK : BLOCK;
    const some = most.slice(0, end);
    const block = /** @type {Block} */ (last);
    block.element.append(some);
    block.characters += some.length;
    block.lines += some.split("\n").length - 1;
    at += some.length;
  }
}

/** @param {HTMLElement} element @param {Chart} [chart] @returns {Block} */
function added(element, chart) {
  const block = { element, lines: 0, characters: 0, chart };
  blocks.push(block);
  place.append(element);
  return block;
}

/** Drops the beginning of more than is kept. */
function bound() {
  const room = { lines: LINES, characters: CHARACTERS, drawn: DRAWN };
  let from = blocks.length;
  for (; from > 0; from -= 1) {
    const block = blocks[from - 1];
    const isText = block.element.tagName === "PRE";
    if (isText ? room.lines < 1 || room.characters < 1 : room.drawn < 1) break;
    if (block.lines > room.lines || block.characters > room.characters) shorten(block, room);
    room.lines -= block.lines;
    room.characters -= block.characters;
    room.drawn -= isText ? 0 : 1;
  }
  if (from === 0) return;
  for (const { element, chart } of blocks.splice(0, from)) {
    element.remove();
    chart?.chart?.destroy();
    charts = charts.filter((one) => one !== chart);
  }
  earlier();
}

/** Keeps the last of a text. @param {Block} block
 *  @param {{ lines: number, characters: number }} room */
function shorten(block, { lines, characters }) {
  const all = block.element.textContent ?? "";
  const kept = all.slice(-characters).split("\n").slice(-lines - 1).join("\n");
  block.element.textContent = kept;
  block.characters = kept.length;
  block.lines = Math.min(block.lines, lines);
  earlier();
}

/** Says that the beginning of the output is gone. */
function earlier() {
  if (place.firstElementChild?.className === "hint") return;
  place.prepend(make("p", { class: "hint" }, "… the last of the output is kept"));
}

/** A field for what the program asks; `answer` is called once.
 *  @param {string} question @param {(text: string) => void} answer */
export function ask(question, answer) {
  draw();
  const field = make("input", {
    type: "text", autocomplete: "off", spellcheck: "false",
    "aria-label": question.trim() || "The program waits for a line",
  }); // prettier-ignore
  const button = make("button", { class: "small primary", type: "submit" }, "Enter");
  const form = make("form", { class: "row asking" }, field, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    form.remove();
    place.focus();
    answer(field.value);
  });
  place.append(form);
  place.scrollTop = place.scrollHeight;
  field.focus();
}

/** Takes a field away that nobody waits for. */
export function unask() {
  place.querySelector(".asking")?.remove();
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
  added(canvas);
}

/** @param {any} value */
function plot(value) {
  const names = value.lines.map((/** @type {any} */ line) => line.label).filter(Boolean);
  const label = `A chart${value.title ? `: ${value.title}` : ""}. ${names.join(", ")}`;
  const canvas = make("canvas", { role: "img", "aria-label": label });
  const one = { value, canvas, chart: null };
  charts.push(one);
  added(make("div", { class: "chart" }, canvas), one);
  void library().then((Chart) => drawChart(Chart, one));
}

/** @param {any} Chart @param {Chart} one */
function drawChart(Chart, one) {
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
  if (charts.length) void library().then((Chart) => charts.forEach((one) => drawChart(Chart, one)));
});
