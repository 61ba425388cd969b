// remote.js: one file of a server or of a visitor, read by ranges first and then streamed to the
// places of its tensors.

import { flat } from "./loader.js";
import { Scatter } from "./places.js";
import { WeightsError } from "./ranges.js";
import { Spans } from "./spans.js";
import { WeightStore } from "./weights.js";

/**
 * @typedef {import("./ranges.js").FileSpec} FileSpec
 * @typedef {{ file: FileSpec, size: number, spans: Spans, store: WeightStore }} Remote
 */

const SHORT = 1 << 22; // bytes of a file that is read whole: less than many requests take
const store = new WeightStore();

/**
 * Opens a file: an address, relative to the page's, or a Blob.
 * @param {string | Blob} where @param {string} path  its name for messages
 * @returns {Promise<Remote>}
 */
export async function open(where, path) {
  /** @type {FileSpec} */
  const file = typeof where === "string" ? { path, url: absolute(where) } : { path, blob: where };
  const spans = new Spans(file, store);
  try {
    await spans.open();
  } catch (error) {
    // A server without ranges, or one that hides the size: the file is brought whole, not into the
    // memory of WebAssembly.
    if (!(error instanceof WeightsError) || error.retry || error.status !== null) throw error;
    return whole(file);
  }
  if (!file.blob && spans.size <= SHORT) return whole(file);
  return { file, size: spans.size, spans, store };
}

/** @param {string} where */
export function absolute(where) {
  return new URL(where, globalThis.document?.baseURI ?? globalThis.location.href).href;
}

/** @param {FileSpec} file @returns {Promise<Remote>} */
async function whole(file) {
  const blob = new Blob([await store.bytes(file)]);
  const spans = new Spans({ path: file.path, blob }, store);
  await spans.open();
  return { file: { ...file, blob }, size: blob.size, spans, store };
}

/** Bytes of it. @param {Remote} remote @param {number} offset @param {number} length */
export const read = ({ spans }, offset, length) => spans.read(offset, length);

/**
 * Streams the file once, into `rows` (file offset, bytes, kind, place).
 * @param {Remote} remote @param {number[]} rows
 * @param {import("../types.d.ts").PyBuilder} proxy @param {import("../types.d.ts").Pyodide} py
 * @param {(count: number) => void} tell  told of bytes that came
 */
export async function stream({ file, size, store }, rows, proxy, py, tell) {
  const builder = flat(proxy);
  const scatter = new Scatter(rows, () => py._module.HEAPU8, builder);
  const { body } = await store.open(file, { onBytes: tell });
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
