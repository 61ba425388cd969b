// device.js: the choice of the device, WebGPU or CPU. It is made before a model is loaded, and kept
// for the next visit. For pages with the element `model_choice` of elements.html. And whether a
// device has the memory that a model needs.

import { byId, size } from "./page.js";

/**
 * @typedef {import("../rushlight/client.js").Adapter} Adapter
 * @typedef {import("../rushlight/client.js").Facts} Facts
 * @typedef {import("../rushlight/client.js").Fit} Fit
 * @typedef {{ fits: boolean, words: string, most: number }} Room  most: tokens of a context; -1 if
 *   not even the weights fit
 */

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

// --- memory ------------------------------------------------------------------------------------

const HEAP = 2 ** 32; // the most memory that WebAssembly has in a tab

/** Bytes of the cache of a conversation. @param {NonNullable<Fit["cache"]>} cache
 *  @param {number} tokens */
export const cacheBytes = ({ fixed, perToken, windows }, tokens) =>
  fixed +
  perToken * tokens +
  windows.reduce((sum, [window, bytes]) => sum + bytes * Math.min(window, tokens), 0);

/** What the weights and a context of so many tokens need, and whether each device has it.
 *  @param {Facts} facts @param {Fit} fit @param {number} tokens */
export function needs({ tensorBytes, largest }, { cache, webgpu, heapBytes }, tokens) {
  const kept = cache ? cacheBytes(cache, tokens) : 0;
  const room = HEAP - heapBytes;
  /** The longest context of which `fits` holds. @param {(tokens: number) => boolean} fits */
  const longest = (fits) => {
    if (!fits(0)) return -1;
    let [low, high] = [0, 2 ** 30];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (fits(middle)) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  /** @type {Room} */
  const cpu = {
    fits: tensorBytes + kept <= room,
    words: `${tensorBytes + kept <= room ? "fits in" : "more than the"} ${size(room)} of a tab`,
    most: longest((n) => tensorBytes + (cache ? cacheBytes(cache, n) : 0) <= room),
  };
  const buffer = webgpu?.largest ?? 0;
  const row = cache?.largestRow ?? 0;
  const tensor = Math.max(largest, row * tokens);
  const holds = webgpu !== null && tensor <= buffer;
  const named = `its largest tensor, ${size(tensor)},`;
  /** @type {Room} */
  const gpu = {
    fits: holds,
    words: !webgpu
      ? "no WebGPU adapter"
      : holds
        ? `${named} fits in a buffer of ${size(buffer)}`
        : `${named} is more than a buffer of ${size(buffer)}`,
    most: longest((n) => webgpu !== null && largest <= buffer && row * n <= buffer),
  };
  return { kept, together: tensorBytes + kept, cpu, webgpu: gpu };
}
