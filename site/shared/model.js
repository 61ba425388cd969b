// model.js: the choice of a model, its size before it is loaded, and its loading. For pages with
// the element `model_choice` of elements.html.

import * as device from "./device.js";
import { afterPress, byId, duration, make, pick, size } from "./page.js";
import { openPython, pythonBytes } from "./runtime/python.js";

/** @typedef {import("../rushlight/client.js").Model} Model */
/** @typedef {import("../rushlight/client.js").ModelSource} ModelSource */
/** @typedef {import("../rushlight/client.js").Description} Description */

/** @type {import("./runtime/python.js").Runtime | null} */
let runtime = null;

/** The runtime; a new one if the last has ended. */
export function rushlight() {
  if (!runtime?.alive) {
    runtime = openPython();
    loaded = null;
  }
  return runtime;
}

/** @typedef {{ context?: number }} Options  of `load`, the page's own */
/** @type {{ key: unknown, device: string, context?: number, model: Model } | null} */
let loaded = null;

const kinds = /** @type {NodeListOf<HTMLInputElement>} */ (
  document.querySelectorAll('input[name="kind"]')
);
const site = pick("model-site", HTMLSelectElement);
const address = pick("model-url", HTMLInputElement);
const files = pick("model-files", HTMLInputElement);
const folder = pick("model-folder", HTMLInputElement);
const note = byId("model-note");
const page = byId("model-choice").dataset;

/** @type {File[]} */
let chosenFiles = [];
/** @type {() => void} */
let settle = () => {};
/** Resolves when the models of this site are listed. */
const listed = new Promise((resolve) => (settle = () => resolve(undefined)));

/** The models of this site. @type {{ name: string, tasks: string[], bytes: number }[]} */
let rows = [];

/** The first model of this site for a task, if there is one. @param {string} task
 *  @returns {Promise<{ url: URL, bytes: number } | null>} */
export async function onSite(task) {
  await listed;
  const row = rows.find(({ tasks }) => tasks.includes(task));
  if (!row) return null;
  return { url: new URL(`../models/${row.name}/`, location.href), bytes: row.bytes };
}

// The note while nothing is chosen.
const notes = {
  site: "This site was built without such a model; give an address or files.",
  url: page.address ?? "",
  files: page.files ?? "",
};

function kind() {
  return [...kinds].find((input) => input.checked)?.value ?? "site";
}

/** The source of the chosen model, or null without a choice. @returns {ModelSource | null} */
export function source() {
  if (kind() === "site") return site.value ? new URL(site.value, location.href) : null;
  if (kind() === "url") return address.value.trim() || null;
  return chosenFiles.length ? chosenFiles : null;
}

/** What stands for the choice: equal for an equal one. */
export const key = () => (kind() === "files" ? chosenFiles : `${kind()} ${source()}`);

/** Chooses files, which may have been dropped. @param {File[]} given */
export function choose(given) {
  chosenFiles = given;
  for (const input of kinds) input.checked = input.value === "files";
  kinds[0].dispatchEvent(new Event("change"));
}

/** Called when the choice has changed or was loaded: its source, and what `describe` found.
 *  @type {(where: ModelSource | null, found: Description | null) => unknown} */
let described = () => {};

/** What loading a model downloads, in words. @param {Description} found */
async function noteOf({ bytes, cachedBytes, origin, name, notKept }) {
  const python = await pythonBytes();
  const missing = bytes === null ? null : origin === "local" ? 0 : bytes - cachedBytes;
  const sum = missing ? `: ${size(missing + python)} in all` : "";
  const also = python ? `, and ${size(python)} of Python${sum}` : "";
  const then = notKept ? `not kept: ${notKept}` : "kept for the next visit";
  if (bytes === null) return `of a size the server does not say to download${also}; ${then}.`;
  const first = python ? ` Python, ${size(python)}, is still to download.` : "";
  if (origin === "local") return `${name}: ${size(bytes)} from this device.${first}`;
  if (cachedBytes >= bytes) return `${size(bytes)}, in this browser already.${first}`;
  if (cachedBytes > 0) {
    return `${size(bytes)}; ${size(bytes - cachedBytes)} still to download${also}.`;
  }
  return `${size(bytes)} to download${also}; ${then}.`;
}

/** Shows the size of the chosen model, before anything is downloaded. */
export async function describe() {
  const where = source();
  const asked = key();
  described(null, null);
  if (!where) {
    note.textContent = notes[/** @type {keyof typeof notes} */ (kind())];
    return;
  }
  note.textContent = "Looking…";
  try {
    const found = await rushlight().describe(where);
    if (key() !== asked) return;
    note.textContent = await noteOf(found);
    if (key() !== asked) return;
    described(where, found);
  } catch (error) {
    if (key() !== asked) return;
    const { message, hint } = /** @type {Error & { hint?: string }} */ (error);
    note.textContent = `${message}${hint ? ` — ${hint}` : ""}`;
  }
}

/** The chosen model, loaded on the chosen device. @param {AbortSignal} signal
 *  @param {(progress: any) => void} onProgress @param {Options} [options]
 *  @returns {Promise<Model>} */
export async function load(signal, onProgress, { context } = {}) {
  if (kind() === "site") await listed;
  await device.known;
  const where = source();
  if (!where) throw new Error("No model is chosen yet.");
  const current = rushlight();
  const on = device.chosen();
  const asked = key();
  const same = loaded?.key === asked && loaded.device === on && loaded.context === context;
  if (loaded && same) return loaded.model;
  await forget();
  onProgress({ stage: "start" });
  const model = await current.load(where, { device: on, context, signal, onProgress });
  loaded = { key: asked, device: on, context, model };
  return model;
}

/** Forgets the loaded model, so that the next `load` loads it again. */
export async function forget() {
  const before = loaded;
  loaded = null;
  await before?.model.dispose();
}

/** A description of the loaded model. @param {Model} model */
export const words = (model) =>
  `${model.name}: ${(model.parameters / 1e6).toFixed(1)} M parameters on ` +
  `${device.wordsFor(model)}; loaded in ${duration(model.seconds)}.`;

/** Makes the choice that the page's address asks for: ?model=ADDRESS, or ?files. */
function followAddress() {
  const query = new URLSearchParams(location.search);
  const named = query.get("model") ?? "";
  if (!named && !query.has("files")) return;
  const here = [...site.options].some((option) => option.value === named);
  const wanted = query.has("files") ? "files" : named && !here ? "url" : "site";
  if (here) site.value = named;
  if (wanted === "url") address.value = named;
  for (const input of kinds) input.checked = input.value === wanted;
}

/** Fills the lists and follows the choices. @param {() => void} changed
 *  @param {() => void} switched  called when the visitor chooses the other device
 *  @param {typeof described} [told]  called with the chosen model when its size is known */
export async function start(changed, switched, told) {
  if (told) described = told;
  void device.start(() => rushlight().adapter(), switched);
  const update = () => {
    for (const name of ["site", "url", "files"]) byId(`kind-${name}`).hidden = kind() !== name;
    changed();
    void describe();
  };
  for (const input of kinds) input.addEventListener("change", update);
  site.addEventListener("change", update);
  // While one types, so that the page has settled when the button is pressed; and not during the
  // press that leaves the field.
  let seen = "";
  const follow = () => {
    if (address.value.trim() === seen) return;
    seen = address.value.trim();
    update();
  };
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  address.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => afterPress(follow), 600);
  });
  address.addEventListener("change", () => {
    clearTimeout(typing);
    afterPress(follow);
  });
  for (const chip of /** @type {NodeListOf<HTMLElement>} */ (
    document.querySelectorAll(".hub button")
  )) {
    chip.addEventListener("click", () => {
      address.value = chip.dataset.id ?? "";
      follow();
    });
  }
  for (const input of [files, folder]) {
    input.addEventListener("change", () => {
      chosenFiles = [...(input.files ?? [])];
      update();
    });
  }
  const index = new URL("../models/index.json", location.href);
  try {
    rows = await (await fetch(index, { cache: "no-cache" })).json();
    for (const { name, tasks } of rows) {
      if (!tasks.includes(page.task ?? "")) continue;
      site.append(make("option", { value: new URL(`./${name}/`, index).href }, name));
    }
  } catch {
    // The site has no list of models; an address or files still work.
  }
  if (site.options.length === 0) {
    site.append(make("option", { value: "" }, "none on this site"));
    site.disabled = true;
  }
  followAddress();
  settle();
  update();
}
