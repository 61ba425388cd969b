// run.js: runs an ONNX graph with inputs that are made up or given, and shows what comes out.

import { chosen } from "../shared/device.js";
import { bitmapOf } from "../shared/opening/picture.js";
import { byId, duration, make, pick, size } from "../shared/page.js";
import { count, fill, table } from "./facts.js";
import { colourByTime, goTo } from "./onnx.js";
import { pager } from "./pager.js";

/**
 * @typedef {import("./onnx.js").Info} Info
 * @typedef {import("./onnx.js").OnnxFile} OnnxFile
 * @typedef {{ info: Info, shape: () => number[], mode: HTMLSelectElement, low: HTMLInputElement,
 *   high: HTMLInputElement, text: HTMLTextAreaElement, range: HTMLSelectElement,
 *   picture: File | null }} Field
 * @typedef {{ name: string, type: string, shape: number[] | null, first?: (number | string)[],
 *   min?: number, max?: number, mean?: number, std?: number, odd?: number,
 *   best?: [place: number, value: number][],
 *   picture?: { width: number, height: number, data: Uint8Array } }} Output
 */

const PAGE = 15;
/** What the numbers of a picture mean: mean and deviation per channel, of 0 to 1. */
const RANGES = /** @type {Record<string, [words: string, mean: number[], std: number[]]>} */ ({
  unit: ["0 to 1", [0], [1]],
  signed: ["−1 to 1", [0.5], [0.5]],
  imagenet: ["as ImageNet's", [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]],
  bytes: ["0 to 255", [0], [1 / 255]],
});

/** @type {Field[]} */
let fields = [];

/** The size that is asked for each free one. @returns {Record<string, number>} */
export function sizes() {
  /** @type {Record<string, number>} */
  const found = {};
  for (const input of byId("sizes").querySelectorAll("input")) {
    const value = Number(input.value);
    if (Number.isInteger(value) && value > 0) found[input.name] = value;
  }
  return found;
}

/** Shows a field per free size. @param {Record<string, number>} taken
 *  @param {() => void} changed */
export function showSizes(taken, changed) {
  const made = Object.entries(taken).map(([name, value]) => {
    const input = make("input", { type: "number", min: "1", step: "1", value: String(value) });
    input.name = name;
    input.addEventListener("change", changed);
    return make("label", { class: "size" }, make("span", {}, name), input);
  });
  byId("sizes").replaceChildren(...(made.length ? ["Free sizes", ...made] : []));
  byId("sizes").hidden = made.length === 0;
}

/** The sizes of an input. @param {Info} info */
function shapeOf(info) {
  const taken = sizes();
  return (info.shape ?? []).map((size, i) =>
    typeof size === "number"
      ? size
      : (taken[size ?? `${info.name}.${i}`] ?? taken[`${info.name}.${i}`] ?? 1),
  );
}

/** Where the channels of pictures are: 1 or 3; 0 if an input is no picture. @param {Info} info */
function channelsAt({ kind, shape }) {
  if (!/float|uint8|half/.test(kind) || shape?.length !== 4) return 0;
  const fits = (/** @type {number | string | null} */ n) => [1, 3, 4].includes(Number(n));
  return fits(shape[1])
    ? 1
    : fits(shape[3])
      ? 3
      : typeof shape[1] === "string" || shape[1] === null
        ? 1
        : 0;
}

/** Shows a part per input. @param {OnnxFile} file */
export function showInputs(file) {
  byId("run-found").hidden = true;
  byId("run-says").textContent = "";
  const weights = file.facts.tensorBytes;
  byId("run-needs").textContent = `It reads ${size(weights)} of weights.`;
  fields = file.graph.inputs.map(fieldOf);
  pick("run", HTMLButtonElement).disabled = false;
}

/** @param {Info} info @param {number} i @returns {Field} */
function fieldOf(info, i) {
  if (i === 0) byId("run-inputs").replaceChildren();
  const id = `input-${i}`;
  const ids = /int/.test(info.kind);
  const mode = make("select", { id });
  const options = [
    ["random", "Random numbers"],
    ["numbers", "Numbers as JSON"],
  ];
  if (channelsAt(info)) options.push(["picture", "A picture"]);
  for (const [value, words] of options) mode.append(make("option", { value }, words));
  const ones = /mask/i.test(info.name);
  const number = (/** @type {string} */ words, /** @type {string} */ value) =>
    make("input", {
      type: "number",
      step: ids ? "1" : "any",
      value,
      "aria-label": `${words}, ${info.name}`,
    });
  const long = ids && /len|size/i.test(info.name);
  const low = number("From", ones ? "1" : long ? "16" : ids || channelsAt(info) ? "0" : "-1");
  const high = number("To", ones ? "1" : long ? "16" : ids ? "99" : "1");
  const text = make("textarea", {
    rows: "3",
    "aria-label": `Numbers of ${info.name}`,
    placeholder: "[[0.1, 0.2], …]",
  });
  const range = make("select", { "aria-label": `Range of the pixels of ${info.name}` });
  for (const [value, [words]] of Object.entries(RANGES))
    range.append(make("option", { value }, words));
  const file = make("input", {
    type: "file",
    accept: "image/*",
    "aria-label": `Picture for ${info.name}`,
  });
  /** @type {Field} */
  const field = { info, shape: () => shapeOf(info), mode, low, high, text, range, picture: null };
  file.addEventListener("change", () => (field.picture = file.files?.[0] ?? null));
  const parts = {
    random: make("span", { class: "row" }, "between ", low, " and ", high),
    numbers: text,
    picture: make("span", { class: "row" }, file, " numbers ", range),
  };
  const follow = () => {
    for (const [name, part] of Object.entries(parts)) part.hidden = name !== mode.value;
  };
  mode.addEventListener("change", follow);
  follow();
  const label = make(
    "label",
    { for: id },
    make("code", {}, info.name),
    make("span", { class: "hint" }, ` ${info.type}`),
  );
  byId("run-inputs").append(
    make(
      "div",
      { class: "field" },
      label,
      make("div", { class: "row" }, mode, parts.random, parts.picture),
      parts.numbers,
    ),
  );
  return field;
}

/** What Python gets of a field. @param {Field} field */
async function given(field) {
  const { info, mode } = field;
  const row = { name: info.name, mode: mode.value, shape: field.shape() };
  if (mode.value === "numbers") return { ...row, text: field.text.value };
  if (mode.value === "picture") {
    if (!field.picture)
      throw Object.assign(new Error(`choose a picture for ${info.name}`), { hint: "" });
    return { ...row, mode: "array", data: await pixels(field, field.picture, row.shape) };
  }
  const low = Number(field.low.value);
  return { ...row, low, high: Math.max(low, Number(field.high.value)), seed: 0 };
}

/** The numbers of a picture, stretched to the sizes of an input.
 *  @param {Field} field @param {File} file @param {number[]} shape */
async function pixels({ info, range }, file, shape) {
  const first = channelsAt(info) === 1;
  const [batch, a, b, c] = shape;
  const [channels, height, width] = first ? [a, b, c] : [c, a, b];
  const bitmap = await bitmapOf(file);
  const canvas = new OffscreenCanvas(width, height);
  const paper = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  paper.imageSmoothingQuality = "high";
  paper.drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  const { data } = paper.getImageData(0, 0, width, height);
  const [, mean, std] = RANGES[range.value];
  const all = width * height;
  const numbers = new Float32Array(batch * channels * all);
  for (let i = 0; i < all; i += 1) {
    const grey = 0.299 * data[i * 4] + 0.587 * data[i * 4 + 1] + 0.114 * data[i * 4 + 2];
    for (let channel = 0; channel < channels; channel += 1) {
      const value = (channels === 1 ? grey : data[i * 4 + channel]) / 255;
      const scaled = (value - mean[channel % mean.length]) / std[channel % std.length];
      numbers[first ? channel * all + i : i * channels + channel] = scaled;
    }
  }
  for (let n = 1; n < batch; n += 1) numbers.copyWithin(n * channels * all, 0, channels * all);
  return numbers;
}

/** Runs the graph, and shows what came of it. @param {OnnxFile} file
 *  @param {{ signal: AbortSignal, onProgress: (value: any) => void }} options */
export async function run(file, options) {
  const inputs = await Promise.all(fields.map(given));
  const found = await file.modules.call("graphs.run", [chosen(), inputs], options);
  /** @type {[node: number, title: string, op: string, shape: number[], seconds: number][]} */
  const times = JSON.parse(found.times);
  showOutputs(found.outputs);
  showTimes(times, found.replayed, found.device, file.costs?.late.length ?? 0);
  byId("run-found").hidden = false;
}

// --- results -------------------------------------------------------------------------------------

/** @param {number | undefined} x */
const figure = (x) =>
  x === undefined
    ? ""
    : Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3)
      ? x.toExponential(3)
      : String(Number(x.toPrecision(5)));

/** @param {Output[]} outputs */
function showOutputs(outputs) {
  byId("run-outputs").replaceChildren(
    ...outputs.map((output) => {
      const list = make("dl", { class: "facts small-facts" });
      const first = (output.first ?? []).slice(0, 8);
      fill(list, [
        ["Minimum", figure(output.min)],
        ["Maximum", figure(output.max)],
        ["Mean", figure(output.mean)],
        ["Deviation", figure(output.std)],
        ["Not finite", output.odd ? count(output.odd) : ""],
        [
          "Largest at",
          (output.best ?? [])
            .slice(0, 3)
            .map(([i, v]) => `${count(i)}: ${figure(v)}`)
            .join(", "),
        ],
        ["First values", first.map((v) => (typeof v === "number" ? figure(v) : v)).join(", ")],
      ]);
      const shape = output.shape ? `${output.type}[${output.shape.join(", ")}]` : output.type;
      const title = make(
        "p",
        {},
        make("code", {}, output.name),
        make("span", { class: "hint" }, ` ${shape}`),
      );
      const block = make("div", { class: "stack tight output" }, title);
      if (output.picture) block.append(drawn(output.name, output.picture));
      block.append(list);
      return block;
    }),
  );
}

/** @param {string} name @param {NonNullable<Output["picture"]>} picture */
function drawn(name, { width, height, data }) {
  const label = `Output ${name} as a picture`;
  const canvas = make("canvas", { role: "img", "aria-label": label, class: "output-picture" });
  canvas.width = width;
  canvas.height = height;
  const pixels = new ImageData(new Uint8ClampedArray(data), width, height);
  canvas.getContext("2d")?.putImageData(pixels, 0, 0);
  return canvas;
}

/** @param {[node: number, title: string, op: string, shape: number[], seconds: number][]} times
 *  @param {number} replayed @param {string} device
 *  @param {number} late  nodes that are not timed */
function showTimes(times, replayed, device, late) {
  const total = times.reduce((sum, row) => sum + row[4], 0);
  fill(byId("run-facts"), [
    ["Node by node", duration(total), `${count(times.length)} operators, on ${device}`],
    ["Not timed", late ? count(late) : "", "whose shapes depend on values"],
    ["A captured call", replayed ? duration(replayed) : "", "as calls run from the third on"],
  ]);
  /** @type {Map<string, [count: number, seconds: number]>} */
  const kinds = new Map();
  /** @type {Map<number, number>} */
  const nodes = new Map();
  for (const [node, , op, , seconds] of times) {
    const [n, sum] = kinds.get(op) ?? [0, 0];
    kinds.set(op, [n + 1, sum + seconds]);
    if (node >= 0) nodes.set(node, (nodes.get(node) ?? 0) + seconds);
  }
  const ms = (/** @type {number} */ seconds) =>
    seconds < 1
      ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 2 : 1)} ms`
      : `${seconds.toFixed(2)} s`;
  const share = (/** @type {number} */ seconds) => {
    const part = total ? seconds / total : 0;
    const bar = make("span", { class: "meter", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(part));
    return make("span", { class: "share" }, bar, `${(part * 100).toFixed(1)} %`);
  };
  const rows = [...kinds]
    .sort(([, a], [, b]) => b[1] - a[1])
    .map(([op, [n, sum]]) => [op, count(n), ms(sum), share(sum)]);
  table("run-operators", "Time by operator", ["Operator", "Runs", "Time", "Share"], rows, [1, 2]);
  const slow = [...times].sort((a, b) => b[4] - a[4]);
  const page = (/** @type {number} */ start) => {
    const shown = slow.slice(start, start + PAGE).map(([node, title, , shape, seconds]) => {
      const button = make(
        "button",
        { type: "button", class: "name" },
        title.replace(/^(\S+) \('(.*)'\)$/, "$1 $2"),
      );
      if (node < 0) button.disabled = true;
      button.addEventListener("click", () => {
        void goTo(node);
        byId("graph-card").scrollIntoView();
      });
      return [button, shape.join(" × "), ms(seconds)];
    });
    table("run-nodes", "The slowest nodes", ["Node", "Shape", "Time"], shown, [2]);
    const where = { start, shown: shown.length, total: slow.length };
    pager(byId("run-pages"), "nodes", where, page, PAGE);
  };
  page(0);
  colourByTime(nodes);
  byId("run-says").textContent = `It ran on ${device} in ${duration(total)}.`;
}
