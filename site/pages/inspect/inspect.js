// inspect.js: the inspect page: a file is opened by its header, and shown part by part.

import { adapter } from "../rushlight/client.js";
import { start } from "../shared/device.js";
import { headOf, kindOf, readable, refused, unlike } from "../shared/opening/kinds.js";
import { byId, make, pick, size } from "../shared/page.js";
import { openPython, pythonWords } from "../shared/runtime/python.js";
import { hideError, phase, showError } from "../shared/status.js";
import { count, showFacts, showMemory } from "./facts.js";
import * as onnx from "./onnx.js";
import { pager } from "./pager.js";
import * as runs from "./run.js";
import * as tensors from "./tensors.js";

/**
 * @typedef {import("../rushlight/client.js").Inspection} Inspection
 * @typedef {import("../rushlight/client.js").InspectProgress} Progress
 * @typedef {string | URL | File[]} Given
 */

const FORMATS =
  "Give a .gguf, .safetensors, .onnx, .pt, .bin, .npz or .npy file, or one of Marian or " +
  "CTranslate2.";
const TOKENS = 60; // of a page of the vocabulary
/** Tasks with the page that serves each, the one to offer first. */
const PLACES = /** @type {[task: string, page: string, words: string][]} */ ([
  ["text-generation", "chat", "Chat with it"],
  ["translation", "translate", "Translate with it"],
  ["automatic-speech-recognition", "whisper", "Transcribe with it"],
  ["mask-generation", "segment", "Cut out with it"],
  ["background-removal", "segment", "Cut out with it"],
  ["pose-estimation", "detect", "Detect with it"],
  ["object-detection", "detect", "Detect with it"],
  ["zero-shot-object-detection", "detect", "Detect with it"],
  ["zero-shot-image-classification", "images", "Look at pictures with it"],
  ["image-classification", "images", "Look at pictures with it"],
  ["image-segmentation", "detect", "Detect with it"],
  ["image-feature-extraction", "images", "Look at pictures with it"],
  ["feature-extraction", "search", "Search with it"],
  ["voice-activity-detection", "whisper", "Whisper finds speech with it"],
]);
const SAMPLE = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "What is a rushlight?" },
  { role: "assistant", content: "A rush dipped in fat, that burns like a candle." },
  { role: "user", content: "Who used it?" },
];
const address = pick("address", HTMLInputElement);
const tokenSearch = pick("token-search", HTMLInputElement);

/** @type {import("../shared/runtime/python.js").Runtime | null} */
let runtime = null;
/** @type {{ inspection: Inspection, given: Given, graph?: onnx.OnnxFile } | null} */
let current = null;
/** @type {AbortController | null} */
let running = null;
/** The opening of the file; a tensor that is chosen before its end waits for it. */
let opening = Promise.resolve();
let round = 0; // the number of jobs that have ended

function rushlight() {
  if (!runtime?.alive) {
    runtime = openPython({
      onProgress: () => running && phase("Starting Python…", null),
    });
    current = null;
  }
  return runtime;
}

/** Runs a job in place of the one before; an error is shown with a way to try again.
 *  @param {(signal: AbortSignal) => Promise<void>} work */
async function run(work) {
  running?.abort();
  const control = (running = new AbortController());
  const { dataset } = document.documentElement;
  hideError();
  dataset.state = "busy";
  byId("stop").hidden = false;
  try {
    await work(control.signal);
    if (running === control) byId("status").hidden = true;
  } catch (error) {
    if (running !== control) return; // another job took its place
    byId("status").hidden = true;
    if (error !== control.signal.reason) showError(error, () => void run(work));
  } finally {
    if (running === control) {
      running = null;
      byId("stop").hidden = true;
      dataset.state = current ? "ready" : "empty";
      dataset.round = String((round += 1));
    }
  }
}

// --- the file ------------------------------------------------------------------------------------

/** @param {Given} given */
const open = (given) =>
  (opening = run(async (signal) => {
    const before = current;
    current = null;
    byId("found").hidden = true;
    delete document.documentElement.dataset.tensor;
    await before?.inspection.close();
    await check(given);
    byId("needs").textContent = "";
    phase("Starting Python…", null);
    onnx.showParts(onnx.isOnnx(given));
    if (onnx.isOnnx(given)) return openGraph(given, signal);
    const inspection = await rushlight().inspect(given, { signal, onProgress: tell });
    current = { inspection, given };
    const { facts } = inspection;
    showFacts(facts);
    tensors.list(facts, (number) => void choose(number));
    showTemplate();
    byId("vocabulary").hidden = facts.vocabulary === 0;
    byId("here-says").textContent = "";
    byId("use").replaceChildren();
    byId("memory").replaceChildren();
    byId("context-row").hidden = true;
    byId("found").hidden = false;
    byId("said").textContent = `${facts.source} is open.`;
    tokenSearch.value = "";
    if (facts.vocabulary) await showTokens(0);
    phase("Checking whether it runs here…", null);
    const fit = await inspection.fit({ signal });
    showMemory(facts, fit);
    showUse(given, fit);
  }));

/** The same of an ONNX file. @param {Given} given @param {AbortSignal} signal */
async function openGraph(given, signal) {
  const file = await onnx.OnnxFile.open(rushlight(), given, { signal, onProgress: tell });
  current = { inspection: /** @type {any} */ (file), given, graph: file };
  tensors.list(file.facts, (number) => void choose(number));
  byId("vocabulary").hidden = byId("template").hidden = true;
  byId("found").hidden = false;
  byId("said").textContent = `${file.facts.source} is open.`;
  runs.showSizes({}, () => {});
  runs.showInputs(file);
  phase("Finding the shapes…", null);
  const { sizes } = await file.measure({}, { signal });
  runs.showSizes(sizes, () => void resize());
  await onnx.show(file, (number) => void choose(number));
}

/** Shapes and costs for other sizes. */
async function resize() {
  const file = current?.graph;
  if (!file) return;
  await run(async (signal) => {
    phase("Finding the shapes…", null);
    await file.measure(runs.sizes(), { signal });
    onnx.showCosts();
    await onnx.plant();
  });
}

/** Runs the graph. */
async function runGraph() {
  const file = current?.graph;
  if (!file) return;
  await run(async (signal) => {
    phase("Reading the weights…", null);
    await runs.run(file, { signal, onProgress: tell });
  });
}

/** Refuses what cannot be a file of weights, in words. @param {Given} given */
async function check(given) {
  if (!Array.isArray(given) || given.length !== 1 || onnx.isOnnx(given)) return;
  const [file] = given;
  const head = await headOf(file);
  const kind = kindOf(head);
  const index = /\.json$/i.test(file.name);
  const other = kind ? !/model$|weights|PyTorch|NumPy|pickle|zip|tar/.test(kind) : readable(head);
  if (other && !index) throw refused(unlike(file, kind, "weight file"), FORMATS);
}

/** @param {Progress & { loaded?: number }} progress */
function tell({ stage, file, bytes = 0, size: all = 0, done = 0, total = 0, loaded }) {
  if (loaded !== undefined) {
    return phase(
      "Reading the weights",
      all ? loaded / all : null,
      `${size(loaded)} of ${size(all)}`,
    );
  }
  if (!stage && total) return phase("Running", done / total, `${done} of ${total} nodes`);
  if (stage === "tensor") {
    phase("Reading the tensor", total ? done / total : null, `${size(done)} of ${size(total)}`);
  } else phase(`Reading the header of ${file}`, null, `${size(bytes)} of ${size(all)}`);
}

/** What can be done with the file. @param {Given} given
 *  @param {import("../rushlight/client.js").Fit} fit */
function showUse(given, { supported, why, hint, tasks, webgpu }) {
  const gpu = webgpu
    ? ` Of WebGPU (${webgpu.name}) a browser does not tell how much memory is free.`
    : "";
  if (!supported) {
    byId("here-says").textContent = `Rushlight cannot run it: ${why}${hint ? ` (${hint})` : ""}.`;
    return;
  }
  const [page, words] = PLACES.find(([task]) => tasks.includes(task))?.slice(1) ?? [];
  if (!page) {
    const names = tasks.map((task) => `“${task}”`).join(", ");
    byId("here-says").textContent =
      `Rushlight runs it, for ${names}. No page here serves that: use the command or the library.`;
    return;
  }
  const there = new URL(`../${page}/`, location.href);
  const beside = tasks.includes("voice-activity-detection"); // the page takes the site's by itself
  if (beside) there.search = "";
  else if (Array.isArray(given)) there.searchParams.set("files", "");
  else there.searchParams.set("model", addressOf(given));
  byId("use").replaceChildren(make("a", { class: "button primary", href: there.href }, words));
  const again = Array.isArray(given)
    ? " The file is on your device, and a page cannot hand it to another: choose it again there."
    : "";
  byId("here-says").textContent = `Rushlight runs it.${gpu}${again}`;
}

/** What another page needs to load the same model: a folder for a file of a folder.
 *  @param {string | URL} given */
function addressOf(given) {
  const text = given instanceof URL ? given.href : given.trim();
  const url = /^([a-z]+:|\.{0,2}\/)/i.test(text) ? new URL(text, document.baseURI).href : "";
  if (!url) return text; // a hub id
  return /\.safetensors$/i.test(new URL(url).pathname) ? new URL("./", url).href : url;
}

// --- a tensor ------------------------------------------------------------------------------------

/** @param {number} number */
async function choose(number) {
  const mine = current;
  tensors.mark(number);
  await opening;
  if (!mine || current !== mine) return;
  await run(async (signal) => {
    phase("Reading the tensor", null);
    const figures = await mine.inspection.tensor(number, { signal, onProgress: tell });
    if (current !== mine) return;
    await tensors.show(mine.inspection.facts, number, figures);
    byId("tensor").scrollIntoView({ block: "nearest" });
  });
}

// --- vocabulary and template ---------------------------------------------------------------------

let asked = 0;

/** @param {number} start */
async function showTokens(start) {
  const mine = current;
  const number = (asked += 1);
  const words = tokenSearch.value;
  if (!mine) return;
  const { total, rows } = await mine.inspection.tokens(words, start, TOKENS);
  if (current !== mine || number !== asked) return; // the visitor went on
  const all = mine.inspection.facts.vocabulary;
  byId("tokens-says").textContent =
    total < all ? `${count(total)} of ${count(all)} tokens` : `${count(all)} tokens`;
  const items = rows.map(([id, token, kind]) => {
    const more = kind ? [make("small", {}, kind)] : [];
    const number = make("span", { class: "id" }, String(id));
    return make("li", {}, number, make("code", {}, token), ...more);
  });
  byId("tokens").replaceChildren(...items);
  const where = { start, shown: rows.length, total };
  pager(byId("token-pages"), "tokens", where, (to) => void showTokens(to).catch(failed), TOKENS);
}

/** @param {unknown} error */
const failed = (error) => showError(error, () => void showTokens(0).catch(failed));

function showTemplate() {
  const template = current?.inspection.facts.template ?? null;
  byId("template").hidden = template === null;
  byId("template-text").textContent = template ?? "";
  byId("rendered-part").hidden = true;
}

async function render() {
  const mine = current;
  await opening;
  if (!mine || current !== mine) return;
  await run(async () => {
    phase("Rendering the template…", null);
    const text = await mine.inspection.prompt(SAMPLE);
    if (current !== mine) return;
    byId("rendered").textContent = text;
    byId("rendered-part").hidden = false;
  });
}

// --- wiring --------------------------------------------------------------------------------------

async function offerSamples() {
  const index = new URL("../models/index.json", location.href);
  try {
    const rows = await (await fetch(index, { cache: "no-cache" })).json();
    for (const { name } of rows) {
      const button = make("button", { type: "button", class: "small" }, name);
      button.addEventListener("click", () => {
        address.value = name;
        void open(new URL(`./${name}/`, index));
      });
      byId("samples").append(button);
    }
    byId("samples").hidden = rows.length === 0;
  } catch {
    // The site has no list of models; an address or a file still works.
  }
}

byId("open").addEventListener("submit", (event) => {
  event.preventDefault();
  if (address.value.trim()) void open(address.value.trim());
  else address.focus();
});
pick("files", HTMLInputElement).addEventListener("change", (event) => {
  const input = /** @type {HTMLInputElement} */ (event.target);
  const files = [...(input.files ?? [])];
  input.value = ""; // so that the same file can be chosen again
  if (files.length) void open(files);
});
for (const kind of /** @type {const} */ (["dragover", "dragleave", "drop"])) {
  document.addEventListener(kind, (event) => {
    event.preventDefault(); // a file that misses the zone would replace the page
    byId("drop").classList.toggle("over", kind === "dragover");
    const files = kind === "drop" ? [...(event.dataTransfer?.files ?? [])] : [];
    if (files.length) void open(files);
  });
}
byId("stop").addEventListener("click", () => running?.abort());
byId("run").addEventListener("click", () => void runGraph());
byId("render").addEventListener("click", () => void render());
/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;
tokenSearch.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => void showTokens(0).catch(failed), 200);
});
document.documentElement.dataset.state = "empty";
void pythonWords("The first file").then((words) => (byId("needs").textContent = words));
void offerSamples();
void start(adapter, () => {});
const named = new URLSearchParams(location.search).get("model");
if (named) {
  address.value = named;
  void open(named);
}
