// onnx.js: an ONNX file on the page: its graph, what a node is, and what runs of it cost. The work
// is done by graphs.py in the worker.

import { byId, make, pick, size } from "../shared/page.js";
import { count, fill, short, showHead, showTypes, table } from "./facts.js";
import { Layouts } from "./graph/scene.js";
import { Tree, short as ending } from "./graph/tree.js";
import { View } from "./graph/view.js";

/**
 * @typedef {import("./graph/scene.js").Box} Box
 * @typedef {import("./graph/tree.js").Item} Item
 * @typedef {import("./graph/tree.js").Pill} Pill
 * @typedef {import("./graph/tree.js").Row} Row
 * @typedef {{ name: string, type: string, dense: boolean, kind: string,
 *   shape: (number | string | null)[] | null }} Info
 * @typedef {{ inputs: Info[], outputs: Info[], nodes: Row[],
 *   weights: Record<string, [tensor: number, kind: string, shape: number[]]>,
 *   values: Record<string, string>,
 *   operators: [op: string, domain: string, count: number, known: boolean][] }} Graph
 * @typedef {{ failure: string, refused: string[], sizes: Record<string, number>,
 *   operations: number, peak: number, late: string[],
 *   shapes: Record<string, [shape: number[], known: boolean]>,
 *   nodes: Record<string, [operations: number, bytes: number]>, runs: number }} Costs
 * @typedef {{ call(name: string, args?: unknown[], options?: object): Promise<any> }} Modules
 * @typedef {{ signal?: AbortSignal, onProgress?: (value: any) => void }} Options
 */

const FOUND = 40; // of a search
const MADE = new URL("./graphs.py", import.meta.url);

/** Whether what was given is a file of ONNX. @param {string | URL | File[]} given */
export function isOnnx(given) {
  if (Array.isArray(given)) return given.some(({ name }) => /\.onnx$/i.test(name));
  const text = given instanceof URL ? given.pathname : given.trim().replace(/[?#].*$/, "");
  return /\.onnx$/i.test(text);
}

/** An opened file, with the calls of an Inspection. */
export class OnnxFile {
  /** @param {Modules} modules @param {{ facts: any, graph: Graph }} read */
  constructor(modules, { facts, graph }) {
    this.modules = modules;
    this.facts = facts;
    this.graph = graph;
    /** @type {Costs | null} */
    this.costs = null;
    /** @type {Map<number, number> | null} seconds of the nodes of a run */
    this.seconds = null;
  }

  /** @param {{ modules(sources: Record<string, string>): Promise<Modules> }} runtime
   *  @param {string | URL | File[]} given @param {Options} options */
  static async open(runtime, given, options) {
    const source = await (await fetch(MADE)).text();
    const modules = await runtime.modules({ graphs: source });
    const address = given instanceof URL ? given.href : given;
    const where = typeof address === "string" ? new URL(address, document.baseURI).href : address;
    const text = await modules.call("graphs.open_file", [where], options);
    return new OnnxFile(modules, JSON.parse(text));
  }

  /** @param {Record<string, number>} sizes @param {Options} [options] */
  async measure(sizes, options) {
    this.costs = /** @type {Costs} */ (
      JSON.parse(await this.modules.call("graphs.costs", [sizes], options))
    );
    return this.costs;
  }

  /** @param {number} number @param {Options} [options] */
  async tensor(number, options) {
    return this.modules.call("graphs.tensor", [number], options);
  }

  /** @param {number} node @returns {Promise<[name: string, kind: string, value: string][]>} */
  async attributes(node) {
    return JSON.parse(await this.modules.call("graphs.attributes", [node]));
  }

  async close() {
    await this.modules.call("graphs.forget").catch(() => {});
  }
}

// --- the page's parts ----------------------------------------------------------------------------

/** @type {OnnxFile | null} */
let file = null;
/** @type {Tree | null} */
let tree = null;
/** @type {(number: number) => void} */
let openTensor = () => {};
let turn = 0;
const layouts = new Layouts();
const search = pick("node-search", HTMLInputElement);
const colours = pick("graph-colour", HTMLSelectElement);
const constants = pick("graph-known", HTMLInputElement);
const view = new View(pick("graph", HTMLCanvasElement), {
  choose: (box) => void describe(box),
  toggle: (box) => {
    if (box.item.kind !== "group") return;
    box.item.open = !box.item.open;
    void redraw(box.item.key);
  },
});

/** Hides what belongs to ONNX, or to the other formats. @param {boolean} on */
export function showParts(on) {
  for (const id of ["operators-card", "graph-card", "run-card"]) byId(id).hidden = !on;
  byId("here").hidden = on;
}

/** Shows a file: facts, operators and its graph. @param {OnnxFile} opened
 *  @param {(number: number) => void} tensor  opens a weight in the list of tensors */
export async function show(opened, tensor) {
  file = opened;
  openTensor = tensor;
  search.value = "";
  colours.value = "";
  /** @type {HTMLOptionElement} */ (colours.querySelector('[value="time"]')).disabled = true;
  constants.checked = false;
  view.touched = false;
  view.chosen = "";
  view.heat = null;
  showHead(opened.facts);
  showTypes(opened.facts);
  showOperators();
  showCosts();
  void describe(null);
  await plant();
}

function showFacts() {
  if (!file) return;
  const { facts, graph, costs } = file;
  const shown = facts.parameters ? short(facts.parameters) : "none";
  const millions = (/** @type {number} */ n) => (n ? short(n) : "");
  fill(byId("facts"), [
    ["Format", facts.format, facts.opsets && `opset ${facts.opsets}`],
    ["Size", size(facts.bytes), `${size(facts.tensorBytes)} of tensors`],
    ["Written by", facts.producer],
    ["Parameters", shown, `in ${count(facts.tensors.length)} tensors`],
    ["Nodes", count(graph.nodes.length), costs?.runs ? `${count(costs.runs)} run in a call` : ""],
    ["Operations", millions(costs?.operations ?? 0), "of a call"],
    ["Memory", costs?.peak ? size(costs.peak) : "", "of values at a time, besides weights"],
    ["Inputs", graph.inputs.map(({ name }) => name).join(", "), said(graph.inputs)],
    ["Outputs", graph.outputs.map(({ name }) => name).join(", "), said(graph.outputs)],
  ]);
}

/** @param {Info[]} infos */
const said = (infos) => {
  const words = infos.map(({ type }) => type).join("; ");
  return words.length > 120 ? `${words.slice(0, 119)}…` : words;
};

function showOperators() {
  if (!file) return;
  const rows = file.graph.operators.map(([op, domain, number, known]) => {
    const name = domain ? `${domain}: ${op}` : op;
    return [
      name,
      count(number),
      make("span", { class: known ? "yes" : "no" }, known ? "runs" : "refused"),
    ];
  });
  byId("operators-says").textContent = `${count(rows.length)} kinds`;
  table("operators", "Operators", ["Operator", "Nodes", "Here"], rows, [1]);
}

/** What the last costs say. */
export function showCosts() {
  if (!file) return;
  const { costs } = file;
  showFacts();
  const late = costs?.late.length ?? 0;
  const words = costs?.refused.length
    ? `It would be refused: ${costs.refused.slice(0, 4).join("; ")}.`
    : costs?.failure
      ? `With these sizes it cannot run: ${costs.failure}.`
      : late
        ? `${count(late)} nodes have shapes that depend on values: they run after the others.`
        : costs
          ? "Rushlight runs it."
          : "";
  byId("refused").textContent = words;
}

// --- the graph -----------------------------------------------------------------------------------

/** Makes the tree anew: which nodes are shown depends on what is known. */
export async function plant() {
  if (!file) return;
  const { graph, costs } = file;
  /** @type {Set<number>} */
  const hidden = new Set();
  if (!constants.checked) {
    graph.nodes.forEach(([op, , , , outputs], i) => {
      const known = outputs.every((name) => !name || costs?.shapes[name]?.[1]);
      if (op === "Constant" || (costs && outputs.length && known)) hidden.add(i);
    });
    // What is left of the graph must show something.
    if (hidden.size === graph.nodes.length) hidden.clear();
  }
  const names = (/** @type {Info[]} */ infos) => infos.map(({ name }) => name);
  tree = new Tree(graph.nodes, hidden, {
    inputs: names(graph.inputs),
    outputs: names(graph.outputs),
  });
  const left = hidden.size ? ` ${count(hidden.size)} constant ones are left out.` : "";
  byId("graph-says").textContent = `${count(graph.nodes.length)} nodes.${left}`;
  layouts.clear();
  await redraw();
}

/** @param {string} [keep]  the key of the item that stays where it is */
export async function redraw(keep) {
  if (!tree) return;
  const mine = (turn += 1);
  byId("graph").dataset.state = "busy";
  const scene = await layouts.scene(tree, wordsOf, shapeOf);
  if (mine !== turn) return;
  view.show(scene, keep);
  mark();
  byId("graph").dataset.state = "ready";
}

/** The shape of a value, short. @param {string} value */
function shapeOf(value) {
  const known = file?.costs?.shapes[value];
  if (known) return known[0].length ? known[0].join(" × ") : "";
  const type = file?.graph.values[value] ?? infoOf(value)?.type ?? "";
  return /\[(.*)\]/.exec(type)?.[1].replaceAll(", ", " × ") ?? "";
}

/** @param {string} value */
const infoOf = (value) =>
  [...(file?.graph.inputs ?? []), ...(file?.graph.outputs ?? [])].find(
    ({ name }) => name === value,
  );

/** The second line of an item. @param {Item | Pill} item */
function wordsOf(item) {
  if (item.kind === "group") return `${count(item.nodes.length)} nodes`;
  if (item.kind === "value" || !file) return "";
  const [op, , name, , outputs] = file.graph.nodes[item.node];
  const last = ending(name || outputs[0] || "");
  const scope = name.split("/").slice(0, -1).pop();
  return last === op && scope ? scope : last; // what the first line does not say
}

// --- colours -------------------------------------------------------------------------------------

/** A number per node. @returns {((node: number) => number) | null} */
function measured() {
  const { costs, seconds } = file ?? {};
  if (colours.value === "time") return seconds ? (node) => seconds.get(node) ?? 0 : null;
  const place = colours.value === "operations" ? 0 : 1;
  if (!colours.value || !costs) return null;
  return (node) => costs.nodes[node]?.[place] ?? 0;
}

function paint() {
  const number = measured();
  if (!number || !tree) view.heat = null;
  else {
    /** @type {Map<string, number>} */
    const sums = new Map();
    const sum = (/** @type {Box} */ { item }) => {
      const known = sums.get(item.key);
      if (known !== undefined) return known;
      const total = item.nodes.reduce((all, node) => all + number(node), 0);
      sums.set(item.key, total);
      return total;
    };
    const most = Math.max(1e-12, ...view.scene.boxes.filter(({ open }) => !open).map(sum));
    view.heat = (box) => (box.item.kind === "value" ? null : Math.sqrt(sum(box) / most));
  }
  view.draw();
}

/** @param {Map<number, number>} seconds  of the nodes of a run */
export function colourByTime(seconds) {
  if (!file) return;
  file.seconds = seconds;
  /** @type {HTMLOptionElement} */ (colours.querySelector('[value="time"]')).disabled = false;
  colours.value = "time";
  paint();
}

// --- search --------------------------------------------------------------------------------------

/** The nodes that have the words in operator, name or values. */
function matches() {
  const words = search.value.trim().toLowerCase();
  if (!words || !file || !tree) return [];
  const { leaves, producer } = tree;
  return file.graph.nodes
    .map((row, i) => ({ row, i }))
    .filter(
      ({ row: [op, , name, inputs, outputs], i }) =>
        leaves.has(i) &&
        [op, name, ...inputs.filter((v) => !producer.has(v)), ...outputs].some((text) =>
          text.toLowerCase().includes(words),
        ),
    )
    .map(({ i }) => i);
}

function mark() {
  const wanted = new Set(matches());
  const holds = (/** @type {Box} */ { item, open }) =>
    !open && item.nodes.some((n) => wanted.has(n));
  view.found = wanted.size
    ? new Set(view.scene.boxes.filter(holds).map(({ item }) => item.key))
    : new Set();
  paint();
}

function find() {
  mark();
  const all = matches();
  if (!search.value.trim()) return void describe(view.box(view.chosen) ?? null);
  const rows = all.slice(0, FOUND).map((node) => make("li", {}, nodeButton(node)));
  const more = all.length > FOUND ? `, the first ${FOUND} of them below` : "";
  byId("node").replaceChildren(
    make("p", { class: "hint" }, `${count(all.length)} nodes${more}.`),
    make("ul", { class: "links" }, ...rows),
  );
}

/** A button that goes to a node. @param {number} node */
function nodeButton(node) {
  const [op, , name, , outputs] = /** @type {OnnxFile} */ (file).graph.nodes[node];
  const button = make(
    "button",
    { type: "button", class: "name" },
    `${op} ${name || outputs[0] || ""}`,
  );
  button.addEventListener("click", () => void goTo(node));
  return button;
}

/** Opens the groups around a node, and shows it. @param {number} node */
export async function goTo(node) {
  let leaf = tree?.reveal(node);
  if (!leaf && file) {
    constants.checked = true; // a constant one
    await plant();
    leaf = tree?.reveal(node);
  }
  if (!leaf) return;
  await redraw();
  view.choose(leaf.key);
  view.center(leaf.key);
}

// --- what is chosen ------------------------------------------------------------------------------

/** @param {Box | null} box */
async function describe(box) {
  const place = byId("node");
  if (!file) return;
  if (!box) {
    const hint = make(
      "p",
      { class: "hint" },
      "Choose a node: its attributes, inputs and outputs appear.",
    );
    return void place.replaceChildren(hint);
  }
  const { item } = box;
  if (item.kind === "group") return describeGroup(item);
  if (item.kind === "value") {
    const title = make("h3", {}, item.incoming ? "Comes in" : "Goes out");
    const rows = item.values.slice(0, FOUND).map((name) => valueRow(name));
    return void place.replaceChildren(title, make("ul", { class: "links" }, ...rows));
  }
  const mine = file;
  const [op, domain, name, inputs, outputs] = mine.graph.nodes[item.node];
  const rows = await mine.attributes(item.node);
  if (view.chosen !== item.key || file !== mine) return;
  const [operations = 0, bytes = 0] = mine.costs?.nodes[item.node] ?? [];
  const seconds = mine.seconds?.get(item.node);
  const facts = make("dl", { class: "facts small-facts" });
  fill(facts, [
    ["Operations", operations ? short(operations) : ""],
    ["Results", bytes ? size(bytes) : ""],
    ["Time", seconds === undefined ? "" : `${(seconds * 1000).toFixed(2)} ms`],
  ]);
  const list = (/** @type {string} */ words, /** @type {string[]} */ names) =>
    names.length
      ? [make("h4", {}, words), make("ul", { class: "links" }, ...names.map((v) => valueRow(v)))]
      : [];
  const table = rows.map(([key, , value]) =>
    make("tr", {}, make("th", { scope: "row" }, key), make("td", {}, value)),
  );
  place.replaceChildren(
    make("h3", {}, op),
    make("p", { class: "hint" }, [name, domain].filter(Boolean).join(", of ")),
    ...(facts.children.length ? [facts] : []),
    ...(table.length
      ? [
          make("h4", {}, "Attributes"),
          make("table", { class: "plain figures" }, make("tbody", {}, ...table)),
        ]
      : []),
    ...list("Inputs", inputs),
    ...list("Outputs", outputs.filter(Boolean)),
  );
}

/** @param {import("./graph/tree.js").Group} group */
function describeGroup(group) {
  const { graph, costs, seconds } = /** @type {OnnxFile} */ (file);
  /** @type {Map<string, number>} */
  const kinds = new Map();
  let [operations, bytes, time] = [0, 0, 0];
  for (const node of group.nodes) {
    const op = graph.nodes[node][0];
    kinds.set(op, (kinds.get(op) ?? 0) + 1);
    operations += costs?.nodes[node]?.[0] ?? 0;
    bytes += costs?.nodes[node]?.[1] ?? 0;
    time += seconds?.get(node) ?? 0;
  }
  const facts = make("dl", { class: "facts small-facts" });
  fill(facts, [
    ["Nodes", count(group.nodes.length)],
    ["Operations", operations ? short(operations) : ""],
    ["Results", bytes ? size(bytes) : ""],
    ["Time", time ? `${(time * 1000).toFixed(1)} ms` : ""],
  ]);
  const button = make("button", { type: "button", class: "small" }, group.open ? "Close" : "Open");
  button.addEventListener("click", () => {
    group.open = !group.open;
    void redraw(group.key).then(() => describeGroup(group));
  });
  const rows = [...kinds]
    .sort(([, a], [, b]) => b - a)
    .map(([op, n]) => {
      return make(
        "tr",
        {},
        make("th", { scope: "row" }, op),
        make("td", { class: "number" }, count(n)),
      );
    });
  byId("node").replaceChildren(
    make("h3", {}, group.title),
    make("p", { class: "hint" }, group.path),
    facts,
    make("div", { class: "row" }, button),
    make("table", { class: "plain figures" }, make("tbody", {}, ...rows)),
  );
}

/** A value: its type, and where it comes from or who reads it. @param {string} name */
function valueRow(name) {
  if (!name) return make("li", { class: "hint" }, "left out");
  const { graph, costs } = /** @type {OnnxFile} */ (file);
  const weight = Object.hasOwn(graph.weights, name) ? graph.weights[name] : null;
  const told = make("span", { class: "hint" });
  const row = make("li", {}, make("code", {}, name), " ", told);
  if (weight) {
    const [number, kind, shape] = weight;
    told.textContent = `${kind}[${shape.join(", ")}], of the file`;
    if (number >= 0) {
      const button = make("button", { type: "button", class: "name" }, "look at it");
      button.addEventListener("click", () => openTensor(number));
      row.append(" ", button);
    }
    return row;
  }
  const shape = shapeOf(name);
  const known = costs?.shapes[name]?.[1] ? ", constant" : "";
  told.textContent = `${shape || infoOf(name)?.type || ""}${known}`;
  const from = graph.nodes.findIndex((node) => node[4].includes(name));
  const chosen = tree && view.chosen.startsWith("n") ? Number(view.chosen.slice(1)) : -1;
  if (from >= 0 && from !== chosen) row.append(" ", nodeButton(from));
  if (from === chosen || from < 0) {
    const readers = graph.nodes.flatMap((node, i) =>
      node[3].includes(name) && i !== chosen ? [i] : [],
    );
    for (const reader of readers.slice(0, 8)) row.append(" ", nodeButton(reader));
    if (from >= 0 && graph.outputs.some((info) => info.name === name))
      row.append(" an output of the graph");
  }
  if (from < 0 && infoOf(name)) told.textContent += ", an input of the graph";
  return row;
}

// --- wiring --------------------------------------------------------------------------------------

/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(find, 180);
});
let next = 0;
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const all = matches();
  if (all.length) void goTo(all[next++ % all.length]);
});
colours.addEventListener("change", paint);
constants.addEventListener("change", () => void plant());
/** @type {Record<string, () => void>} */
const acts = {
  "open-all": () => {
    tree?.openAll(true);
    view.touched = false;
    void redraw();
  },
  "close-all": () => {
    tree?.openAll(false);
    view.touched = false;
    void redraw();
  },
  "zoom-in": () => view.zoom(1.3),
  "zoom-out": () => view.zoom(1 / 1.3),
  "zoom-fit": () => view.whole(),
};
for (const [id, act] of Object.entries(acts)) byId(id).addEventListener("click", act);
