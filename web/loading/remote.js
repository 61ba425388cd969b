// remote.js: one file of a server or of a visitor, read by ranges first and then streamed to the
// places of its tensors.

import { flat } from "./loader.js";
import { Scatter } from "./places.js";
import { WeightsError } from "./ranges.js";
import { Spans } from "./spans.js";
import { WeightStore } from "./weights.js";

/**
 * @typedef {import("./ranges.js").FileSpec} FileSpec
 * @typedef {FileSpec & import("./ranges.js").ReadOptions & { store?: WeightStore }} Given
 * @typedef {{ file: Given, size: number, spans: Spans, store: WeightStore }} Remote
 */

const SHORT = 1 << 22; // bytes of a file that is read whole: less than many requests take
const own = new WeightStore();

/**
 * Opens a file: an address, relative to the page's, a Blob, or a file of a listing.
 * @param {string | Blob | Given} where @param {string} path  its name for messages
 * @returns {Promise<Remote>}
 */
export async function open(where, path) {
  /** @type {Given} */
  const file =
    typeof where === "string"
      ? { path, url: absolute(where) }
      : where instanceof Blob
        ? { path, blob: where }
        : where;
  const { store = own, signal } = file;
  const spans = new Spans(file, store);
  try {
    await spans.open(signal);
  } catch (error) {
    // A server without ranges, or one that hides the size: the file is brought whole, not into the
    // memory of WebAssembly.
    if (!(error instanceof WeightsError) || error.retry || error.status !== null) throw error;
    return whole(file);
  }
  if (file.url && spans.size <= SHORT) return whole(file);
  return { file, size: spans.size, spans, store };
}

/** @param {string} where */
export function absolute(where) {
  return new URL(where, globalThis.document?.baseURI ?? globalThis.location.href).href;
}

/** @param {Given} file @returns {Promise<Remote>} */
async function whole(file) {
  const { store = own } = file;
  const blob = new Blob([await store.bytes(file, file)]);
  const spans = new Spans({ path: file.path, blob }, store);
  await spans.open();
  // Its bytes were told of.
  return { file: { ...file, blob, onBytes: undefined }, size: blob.size, spans, store };
}

/** Bytes of it. @param {Remote} remote @param {number} offset @param {number} length */
export const read = ({ spans, file }, offset, length) => spans.read(offset, length, file.signal);

/**
 * Streams the file once, into `rows` (file offset, bytes, kind, place).
 * @param {Remote} remote @param {number[]} rows
 * @param {import("../types.d.ts").PyBuilder} proxy @param {import("../types.d.ts").Pyodide} py
 * @param {(count: number) => void} tell  told of bytes that came
 */
export async function stream({ file, size, store }, rows, proxy, py, tell) {
  const builder = flat(proxy);
  const scatter = new Scatter(rows, () => py._module.HEAPU8, builder);
  /** @param {number} count @param {"cache" | "network" | "local"} from */
  const onBytes = (count, from) => {
    tell(count);
    file.onBytes?.(count, from);
  };
  const { body } = await store.open(file, { onBytes, signal: file.signal });
  let offset = 0;
  for await (const bytes of body) {
    scatter.write(offset, /** @type {Uint8Array<ArrayBuffer>} */ (bytes));
    await scatter.settle();
    offset += bytes.length;
  }
  await scatter.settle(0);
  if (offset === size) return;
  if (file.url) await store.drop(file);
  const message = `${file.path} has ${offset} bytes; ${size} were expected`;
  throw new WeightsError(message, { url: file.url, hint: "It has changed; load it again." });
}
