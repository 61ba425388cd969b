// costs.js: what the chosen model needs on each device, from its header, before it is loaded; and
// what to do if that is more than there is.

import * as device from "../shared/device.js";
import * as choice from "../shared/model.js";
import { byId, make, pick, size } from "../shared/page.js";
import { pythonBytes } from "../shared/runtime/python.js";

/**
 * @typedef {import("../rushlight/client.js").Facts} Facts
 * @typedef {import("../rushlight/client.js").Fit} Fit
 * @typedef {import("../shared/model.js").ModelSource} ModelSource
 * @typedef {import("../shared/model.js").Description} Description
 * @typedef {{ title: string, hint: string, stops: boolean }} Trouble  stops: loading cannot succeed
 */

const FEWEST = 256; // tokens of a context that a conversation can do with
const Q4 = 4.5; // bits per weight of q4_0 and Q4_K
const limit = pick("context-limit", HTMLSelectElement);
const says = byId("costs-say");

/** @type {{ key: unknown, facts: Facts, fit: Fit, free: number } | null} */
let known = null;
/** The key of the model whose header is known or being read. @type {unknown} */
let asked = null;
/** What was last found of it. @type {Description | null} */
let latest = null;
/** The header that is being read. @type {Promise<void>} */
let reading = Promise.resolve();
let number = 0;

/** The context that is asked for; undefined for the model's own. */
export const context = () => Number(limit.value) || undefined;

/** Reads the header of the chosen model, if it is another than before.
 *  @param {ModelSource | null} where @param {Description | null} found */
export function described(where, found) {
  const key = choice.key();
  if (asked !== key) {
    number += 1;
    known = asked = null;
    begin = () => {};
  }
  latest = found ?? latest;
  if (known || asked === null) show();
  if (asked !== null || !where || !found) return;
  begin = () => {
    begin = () => {};
    asked = key;
    reading = read(where, number);
  };
  void offer(key);
}

/** Reads the header of the model that is described. */
let begin = () => {};

/** Reads the header at once where that downloads no Python, else when the button is pressed.
 *  @param {unknown} key */
async function offer(key) {
  const free = choice.rushlight().started || (await pythonBytes()) === 0;
  if (choice.key() !== key) return;
  byId("costs-read").hidden = free;
  if (free) begin();
}

/** @param {ModelSource} where @param {number} mine */
async function read(where, mine) {
  const key = choice.key();
  byId("costs-read").hidden = true;
  byId("costs-parts").textContent = "Reading the header…";
  byId("costs-rows").replaceChildren();
  says.textContent = "";
  says.classList.remove("warning");
  byId("costs").hidden = false;
  try {
    const inspection = await choice.rushlight().inspect(where, { vocabulary: false });
    const fit = await inspection.fit();
    await inspection.close();
    const { quota = Infinity, usage = 0 } = (await navigator.storage?.estimate?.()) ?? {};
    if (mine !== number) return;
    known = { key, facts: inspection.facts, fit, free: quota - usage };
  } catch {
    // Loading reports what is wrong with the file, or the header cannot be read by ranges.
    if (mine !== number) return;
    asked = null;
  }
  show();
}

/** The context that is counted with, in tokens. @param {Fit} fit */
const tokensOf = ({ contextLength = 0 }) => Math.min(context() ?? Infinity, contextLength);

/** @param {number} tokens */
const words = (tokens) => `${tokens.toLocaleString("en")} tokens`;

/** What is wrong with the chosen model on a device; null if nothing is.
 *  @param {"cpu" | "webgpu"} on @returns {Trouble | null} */
function trouble(on) {
  if (!known) return null;
  const { facts, fit } = known;
  const { cpu, webgpu } = device.needs(facts, fit, tokensOf(fit));
  const here = { cpu, webgpu }[on];
  if (here.fits) return null;
  const other = on === "cpu" ? webgpu : cpu;
  const name = { cpu: "the CPU", webgpu: "WebGPU" };
  const ways = [];
  const enough = Math.min(FEWEST, fit.contextLength ?? 0);
  const stops = here.most < enough;
  if (!stops) ways.push(`choose a context of at most ${words(here.most)}`);
  if (other.fits) ways.push(`choose ${name[on === "cpu" ? "webgpu" : "cpu"]}`);
  const smaller = (facts.parameters * Q4) / 8;
  if (facts.bitsPerWeight > Q4 + 1) {
    ways.push(`take a file with fewer bits per weight: with ${Q4} it has ${size(smaller)}`);
  } else if (stops && !other.fits) ways.push("take a model with fewer parameters");
  const what = stops ? "the model" : `the model with a context of ${words(tokensOf(fit))}`;
  const why = on === "cpu" ? `it needs ${here.words}` : here.words;
  const hint = `${ways.join(", or ")}.`;
  return {
    title: `On ${name[on]} ${what} does not fit: ${why}.`,
    hint: hint[0].toUpperCase() + hint.slice(1),
    stops,
  };
}

/** Shows what the chosen model needs on the device that is chosen now. */
export function show() {
  byId("costs").hidden = !known;
  if (!known) return;
  const { facts, fit, free } = known;
  const tokens = tokensOf(fit);
  const { kept, together, cpu, webgpu } = device.needs(facts, fit, tokens);
  const sign = (/** @type {typeof cpu} */ { fits }) => (fits ? "yes" : "no");
  const row = (/** @type {string} */ name, /** @type {typeof cpu} */ room) =>
    make(
      "div",
      {},
      make("dt", {}, name),
      make("dd", {}, size(together), make("small", { class: sign(room) }, room.words)),
    );
  const parts = fit.cache
    ? `${size(facts.tensorBytes)} of weights and ${size(kept)} for ${words(tokens)}`
    : `${size(facts.tensorBytes)} of weights`;
  byId("costs-parts").textContent = `Memory: ${parts}.`;
  byId("costs-rows").replaceChildren(row("CPU", cpu), row("WebGPU", webgpu));
  const wrong = trouble(device.chosen());
  const download = (latest?.bytes ?? 0) - (latest?.cachedBytes ?? 0);
  const unkept = latest?.origin !== "local" && download > free;
  const lines = [
    fit.supported ? "" : `Rushlight cannot run it: ${fit.why}${fit.hint ? ` (${fit.hint})` : ""}.`,
    wrong ? `${wrong.title} ${wrong.hint}` : "",
    unkept ? `The browser has room for ${size(free)}: it will not keep the download.` : "",
  ];
  says.textContent = lines.filter(Boolean).join(" ");
  says.classList.toggle("warning", Boolean(says.textContent));
}

/** Throws an error if the memory of the chosen device cannot hold the chosen model. */
export async function check() {
  await device.known;
  begin(); // Python is started anyway
  await reading;
  const wrong = known?.key === choice.key() ? trouble(device.chosen()) : null;
  if (!wrong?.stops) return;
  const name = device.chosen() === "webgpu" ? "DeviceMemoryError" : "MemoryError";
  throw Object.assign(new Error(wrong.title), { name, hint: wrong.hint });
}

/** Follows the context and the device. @param {() => void} changed  called for another context */
export function start(changed) {
  limit.addEventListener("change", () => {
    show();
    changed();
  });
  document.addEventListener("devicechange", show);
  byId("costs-read").addEventListener("click", () => begin());
}
