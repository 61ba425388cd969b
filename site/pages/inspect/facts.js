// facts.js: the summary of a file: facts, types, metadata, and the memory that it needs here.

import { cacheBytes, needs } from "../shared/device.js";
import { byId, make, pick, size } from "../shared/page.js";

/**
 * @typedef {import("../rushlight/client.js").Facts} Facts
 * @typedef {import("../rushlight/client.js").Fit} Fit
 */

const STEP = 256; // tokens of a step of the context's slider
const LONGEST = 1 << 20; // tokens

/** @param {number} n */
export const count = (n) => n.toLocaleString("en");

/** A number of parameters, short. @param {number} n */
export const short = (n) => {
  if (n < 1e4) return count(n);
  const [unit, by] = n < 1e6 ? ["k", 1e3] : n < 1e9 ? ["M", 1e6] : ["B", 1e9];
  return `${(n / Number(by)).toPrecision(3)} ${unit}`;
};

/** Fills a list of facts; those without a value are left out.
 *  @param {HTMLElement} list @param {[name: string, value: string, more?: string][]} rows */
export function fill(list, rows) {
  const made = rows.flatMap(([name, value, more = ""]) => {
    if (!value) return [];
    const says = make("dd", {}, value, ...(more ? [make("small", {}, more)] : []));
    return [make("div", {}, make("dt", {}, name), says)];
  });
  list.replaceChildren(...made);
}

/** A table of texts. The first column names the row; `right` columns are numbers.
 *  @param {string} id @param {string} caption @param {string[]} heads
 *  @param {(string | Node)[][]} rows @param {number[]} [right] */
export function table(id, caption, heads, rows, right = []) {
  const kind = (/** @type {number} */ i) => ({ class: right.includes(i) ? "number" : "" });
  const head = heads.map((words, i) => make("th", { scope: "col", ...kind(i) }, words));
  const body = rows.map((row) => {
    const cells = row.map((cell, i) =>
      i ? make("td", kind(i), cell) : make("th", { scope: "row" }, cell),
    );
    return make("tr", {}, ...cells);
  });
  byId(id).replaceChildren(
    make("caption", { class: "unseen" }, caption),
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...body),
  );
}

/** Shows what the header says. @param {Facts} facts */
export function showFacts(facts) {
  const { parameters, layers, heads, kvHeads, width, contextLength, experts } = facts;
  showHead(facts);
  const number = (/** @type {number | null} */ n) => (n === null ? "" : count(n));
  const shared =
    kvHeads === null || kvHeads === heads ? "" : `${count(kvHeads)} of keys and values`;
  const parts = facts.files.length > 1 ? `${facts.files.length} files` : facts.files[0][0];
  fill(byId("facts"), [
    ["Format", facts.format, parts],
    ["Size", size(facts.bytes), `${size(facts.tensorBytes)} of tensors`],
    ["Architecture", facts.architecture || "not in the file"],
    ["Parameters", short(parameters), `in ${count(facts.tensors.length)} tensors`],
    ["Bits per weight", facts.bitsPerWeight.toFixed(2)],
    ["Context", number(contextLength), "tokens"],
    ["Layers", number(layers), width === null ? "" : `${count(width)} wide`],
    ["Heads", number(heads), shared],
    ["Experts", number(experts)],
    ["Vocabulary", facts.vocabulary ? count(facts.vocabulary) : "", "tokens"],
  ]);
  showTypes(facts);
}

/** What was read, and the name. @param {Pick<Facts, "name" | "source" | "requests" | "bytesRead" |
 *  "bytes" | "leftOut">} facts */
export function showHead(facts) {
  byId("file-title").textContent = facts.name || facts.source;
  const { requests } = facts;
  const asked = requests ? `, in ${requests} request${requests === 1 ? "" : "s"}` : "";
  byId("read-says").textContent = `${size(facts.bytesRead)} of ${size(facts.bytes)} read${asked}`;
  byId("note").textContent = `Left out: ${count(facts.leftOut)} more files of weights.`;
  byId("note").hidden = !facts.leftOut;
}

/** The tables of types and of metadata. @param {Pick<Facts, "types" | "tensorBytes" | "keys" |
 *  "metadata">} facts */
export function showTypes(facts) {
  const rows = facts.types.map(([name, tensors, bytes, numbers]) => {
    const share = facts.tensorBytes ? bytes / facts.tensorBytes : 0;
    const bar = make("span", { class: "meter", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(share));
    const cell = make("span", { class: "share" }, bar, `${(share * 100).toFixed(1)} %`);
    const bits = numbers ? ((bytes * 8) / numbers).toFixed(2) : "";
    return [name, count(tensors), bits, size(bytes), cell];
  });
  table("types", "Tensors by type", ["Type", "Tensors", "Bits", "Bytes", "Share"], rows, [1, 2, 3]);
  byId("metadata").hidden = facts.keys === 0;
  byId("metadata-says").textContent = facts.keys === 1 ? "1 key" : `${count(facts.keys)} keys`;
  table("metadata-table", "Metadata", ["Key", "Value"], facts.metadata);
}

/** Shows the memory that the file needs on the CPU and on the GPU, and follows the context.
 *  @param {Facts} facts @param {Fit} fit */
export function showMemory(facts, fit) {
  const slider = pick("context", HTMLInputElement);
  const longest = Math.min(facts.contextLength ?? 4096, LONGEST);
  const { cache } = fit;
  const grows = cache !== null && cacheBytes(cache, 1) > 0; // encoders keep nothing
  byId("context-row").hidden = !grows;
  slider.min = String(Math.min(STEP, longest));
  slider.max = String(longest);
  slider.step = String(Math.min(STEP, longest) || 1);
  slider.value = String(Math.min(2048, longest));
  const show = () => {
    const tokens = cache ? Number(slider.value) : 0;
    byId("context-says").textContent = `${count(tokens)} tokens`;
    const { kept, together, cpu, webgpu } = needs(facts, fit, tokens);
    const row = (/** @type {string} */ name, /** @type {typeof cpu} */ { fits, words }) => [
      name,
      size(facts.tensorBytes),
      grows ? size(kept) : cache ? "none" : "unknown",
      size(together),
      make("span", { class: fits ? "yes" : "no" }, words),
    ];
    const names = ["Device", "Weights", "Cache", "Together", "Room"];
    const rows = [row("CPU", cpu), row("WebGPU", webgpu)];
    table("memory", "Memory by device", names, rows, [1, 2, 3]);
  };
  slider.oninput = show;
  show();
}
