// device.js: the choice of the device, WebGPU or CPU. It is made before a model is loaded, and kept
// for the next visit. For pages with the element `model_choice` of elements.html.

import { byId } from "./page.js";

/** @typedef {import("../rushlight/client.js").Adapter} Adapter */

const KEY = "rushlight-device";
const inputs = /** @type {NodeListOf<HTMLInputElement>} */ (
  document.querySelectorAll('input[name="device"]')
);

/** @type {Adapter} */
let adapter = { name: null, why: "", hint: "", software: false };
/** @type {() => void} */
let settle = () => {};
/** Resolves when the adapter is known. */
export const known = new Promise((resolve) => (settle = () => resolve(undefined)));

/** The device of ?device= in the address, else the last choice, else null: WebGPU, except for an
 *  adapter in software. */
function wanted() {
  const asked = new URLSearchParams(location.search).get("device");
  if (asked) return asked;
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is refused
  }
}

/** "webgpu" or "cpu". @returns {"webgpu" | "cpu"} */
export const chosen = () =>
  [...inputs].find((input) => input.checked)?.value === "webgpu" ? "webgpu" : "cpu";

/** Makes a choice and keeps it. @param {"webgpu" | "cpu"} device */
export function choose(device) {
  show(device);
  try {
    localStorage.setItem(KEY, device);
  } catch {
    // Storage is refused, so the choice is not kept.
  }
  const address = new URL(location.href);
  if (!address.searchParams.has("device")) return;
  address.searchParams.set("device", device);
  history.replaceState(history.state, "", address);
}

/** @param {"webgpu" | "cpu"} device */
function show(device) {
  for (const input of inputs) input.checked = input.value === device;
  const { name, why, hint, software } = adapter;
  const slow = software ? ", in software: the CPU is faster" : "";
  const better = software ? `; the WebGPU adapter (${name}) computes in software: slower` : "";
  const none = name ? better : `: ${why}${hint ? `; ${hint}` : ""}`;
  byId("adapter").textContent =
    device === "webgpu" ? `WebGPU: ${name}${slow}.` : `CPU${none}.`;
  document.dispatchEvent(new CustomEvent("devicechange"));
}

/** The device of a loaded model, in words. @param {import("../rushlight/client.js").Model} model */
export const wordsFor = ({ device, adapter, kernels, linear }) =>
  device === "webgpu"
    ? `WebGPU (${adapter})`
    : `the CPU, ${kernels}${linear === "fast" ? ", integer products" : ""}`;

let allowed = true;

/** @param {boolean} on  whether the visitor may change the choice now */
export function allow(on) {
  allowed = on;
  for (const input of inputs) {
    input.disabled = !on || (input.value === "webgpu" && adapter.name === null);
  }
}

/** Asks for the adapter, and follows the choice. @param {() => Promise<Adapter>} ask
 *  @param {() => void} switched  called when the visitor changes the choice */
export async function start(ask, switched) {
  for (const input of inputs) {
    input.addEventListener("change", () => {
      choose(chosen());
      switched();
    });
  }
  try {
    adapter = await ask();
  } catch (error) {
    adapter = { ...adapter, why: /** @type {Error} */ (error).message };
  }
  const asked = wanted();
  const usable = adapter.name !== null && (!adapter.software || asked === "webgpu");
  show(usable && asked !== "cpu" ? "webgpu" : "cpu");
  allow(allowed);
  settle();
}
