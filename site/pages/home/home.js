// home.js: the home page: features of this machine, kept models, and a short measurement.

import { adapter } from "./rushlight/client.js";
import { byId, duration, make, pick, size } from "./shared/page.js";
import { openPython, pythonBytes } from "./shared/runtime/python.js";

// The smallest modules that use one feature each: v128.const, and f32x4.relaxed_madd.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0];
const SIMD_BODY = [65, 0, 253, 15, 253, 98, 11];
const RELAXED = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0];
const RELAXED_BODY = [65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11];

/** @param {number[]} bytes */
const valid = (bytes) => WebAssembly.validate(new Uint8Array(bytes));

/** One row of the list of facts. @param {string} name @param {string} value
 *  @param {{ note?: string, state?: "yes" | "no" }} [more] */
function fact(name, value, { note, state } = {}) {
  const text = make("span", state ? { class: state } : {}, value);
  const detail = make("dd", {}, text, ...(note ? [make("small", {}, note)] : []));
  byId("facts").append(make("div", {}, make("dt", {}, name), detail));
}

/** @param {string} name @param {boolean} there @param {string} note */
const feature = (name, there, note) =>
  fact(name, there ? "Yes" : "No", { note, state: there ? "yes" : "no" });

async function showFacts() {
  const { name, why, software } = await adapter();
  const gpu = name !== null && !software;
  fact("Computes on", gpu ? "WebGPU" : "CPU", {
    note: gpu ? "or on the CPU, as you choose" : "on one core",
  });
  const cores = navigator.hardwareConcurrency;
  fact("Processor cores", cores ? String(cores) : "not said");
  const memory = /** @type {{ deviceMemory?: number }} */ (navigator).deviceMemory;
  if (memory) fact("Memory", `${memory} GB or more`, { note: "a tab can use up to 4 GB" });
  feature("WebAssembly SIMD", valid([...SIMD, ...SIMD_BODY]), "four numbers per instruction");
  feature("Relaxed SIMD", valid([...RELAXED, ...RELAXED_BODY]), "fused multiply and add");
  const jspi = "Suspending" in WebAssembly;
  feature("JSPI", jspi, jspi ? "Python can wait for JavaScript" : "everything works without it");
  const slow = software ? "computes in software, slower than the CPU" : "";
  fact("WebGPU", name ?? "None", { state: name ? "yes" : "no", note: why || slow });
  const estimate = await navigator.storage?.estimate?.().catch(() => null);
  const room = estimate?.quota ? `${size(estimate.quota - (estimate.usage ?? 0))} free` : "None";
  fact("Storage for models", globalThis.caches ? room : "None", {
    note: globalThis.caches ? "for weights and offline use" : "this address is not secure (https)",
  });
}

/** @type {import("./shared/runtime/python.js").Runtime | null} */
let runtime = null;
const open = () => (runtime ??= openPython());

async function measure() {
  const button = pick("measure", HTMLButtonElement);
  const status = byId("measured");
  button.disabled = true;
  status.textContent = "Starting Python…";
  try {
    const info = await open().info();
    const speed = await open().measure();
    status.textContent =
      `Python ${info.python} with NumPy ${info.numpy} started in ${duration(info.startedIn)}. ` +
      `A ${speed.size} × ${speed.size} product runs at ${speed.gflops.toFixed(2)} GFLOP/s.`;
  } catch (error) {
    status.textContent = `This did not work: ${error instanceof Error ? error.message : error}`;
    runtime = null;
  }
  button.disabled = false;
}

async function showKept() {
  const { WeightStore } = await import("./rushlight/weights.js");
  const store = new WeightStore();
  const rows = await store.list();
  /** @type {Map<string, { bytes: number, complete: boolean }>} */
  const folders = new Map();
  for (const row of rows) {
    const folder = row.url.slice(0, row.url.lastIndexOf("/") + 1).replace(/1_Pooling\/$/, "");
    const known = folders.get(folder) ?? { bytes: 0, complete: true };
    known.bytes += row.bytes;
    known.complete &&= row.complete;
    folders.set(folder, known);
  }
  const clear = byId("clear");
  clear.hidden = folders.size === 0;
  clear.onclick = async () => {
    if (!confirm("Remove all models from this browser? They would be downloaded again.")) return;
    await store.clear();
    await showKept();
  };
  if (folders.size === 0) {
    const text = store.refused
      ? `This browser keeps nothing: ${store.refused}.`
      : "No models yet. Those you load are kept here, so that the next visit needs no download.";
    byId("kept").replaceChildren(make("p", { class: "hint" }, text));
    return;
  }
  const body = make("tbody");
  for (const [folder, { bytes, complete }] of folders) {
    const remove = make("button", { type: "button", class: "small" }, "Remove");
    const name = new URL(folder).pathname.split("/").filter(Boolean).pop() ?? folder;
    remove.setAttribute("aria-label", `Remove ${name}`);
    remove.addEventListener("click", async () => {
      if (!confirm(`Remove ${name}? It would be downloaded again: ${size(bytes)}.`)) return;
      await store.clear(folder);
      await showKept();
    });
    const where = make("small", { class: "hint" }, new URL(folder).host);
    body.append(
      make(
        "tr",
        {},
        make("td", {}, make("strong", {}, name), make("br"), where),
        make("td", {}, size(bytes), ...(complete ? [] : [" (part of it)"])),
        make("td", { style: "text-align: right" }, remove),
      ),
    );
  }
  const head = make("tr", {}, make("th", {}, "Model"), make("th", {}, "Size"), make("th"));
  const table = make("table", { class: "plain" }, make("thead", {}, head), body);
  byId("kept").replaceChildren(make("div", { class: "card scroll" }, table));
}

/** Says on each card which models of this site its page downloads when they are asked for. */
async function showNeeds() {
  const answer = await fetch("./models/index.json").catch(() => null);
  /** @type {{ name: string, tasks: string[], bytes: number }[]} */
  const models = answer?.ok ? await answer.json() : [];
  const bytes = await pythonBytes();
  const python = bytes ? ` and Python (${size(bytes)})` : "";
  for (const card of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".needs"))) {
    const found = models.filter(({ tasks }) => tasks.includes(card.dataset.task ?? ""));
    const each = found.map(({ name, bytes }) => `${name} (${size(bytes)})`).join(" or ");
    const alone = python ? ` It downloads Python (${size(bytes)}), once.` : "";
    card.textContent = each
      ? `Downloads ${each}${python}, once.`
      : `Give it a model of your own.${alone}`;
  }
}

byId("measure").addEventListener("click", measure);
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(byId("snippet").textContent ?? "");
    byId("copied").textContent = "Copied.";
  } catch {
    byId("copied").textContent = "This browser did not allow it; select the lines and copy them.";
  }
});
void showFacts().then(() => (document.documentElement.dataset.facts = "shown"));
void showKept();
void showNeeds();
