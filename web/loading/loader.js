// loader.js: reads each byte of a model's files once, into the memory of the device.

import { STORED, readStored } from "./stored.js";
import { isGguf } from "./ggufs.js";
import { isGraphPart, orGraphs } from "./graphs.js";
import { list, modelOf, sourceOf } from "./listing.js";
import { Scatter } from "./places.js";
import { WeightsError, concatenate } from "./ranges.js";

/**
 * @typedef {import("./ranges.js").FileSpec} FileSpec
 * @typedef {import("./weights.js").WeightStore} WeightStore
 * @typedef {import("../page/client.d.ts").LoadProgress} LoadProgress
 * @typedef {import("./listing.js").Listing} Listing
 * @typedef {import("./places.js").Builder} Builder
 */

const HEAP = 2 ** 32; // the most memory that WebAssembly has
const WEIGHTS = /\.(gguf|safetensors|bin|pth?|npz|onnx)$/i;
const LARGEST_HEADER = 100e6;
const GGUF = 0x46554747; // the letters "GGUF"
const GGUF_HEAD = 1 << 20; // bytes to try first; the header holds the vocabulary

/** Bytes in all and bytes already cached. @param {WeightStore} store @param {Listing} listing */
export async function measure(store, listing) {
  const sizes = listing.files.map((file) => file.size ?? file.blob?.size);
  const known = sizes.every((size) => size !== undefined);
  const bytes = known ? sizes.reduce((sum, size) => sum + (size ?? 0), 0) : null;
  const urls = new Set(listing.files.flatMap((f) => (f.parts ?? [f]).map((part) => part.url)));
  const kept = (await store.list()).filter((row) => urls.has(row.url));
  return { bytes, cachedBytes: kept.reduce((sum, row) => sum + row.bytes, 0) };
}

/** Throws an error if the weights are more than WebAssembly has room for, before they are read.
 *  @param {Listing} listing @param {number} idle  bytes of the heap that are taken */
export function checkRoom({ files }, idle) {
  const weights = files.filter(({ path }) => WEIGHTS.test(path) || isGraphPart(path));
  /** @type {Map<string, number>} of the parts of a pipeline, which are in memory in turn */
  const parts = new Map();
  for (const { path, size, blob, later } of weights) {
    const part = later ? path.split("/")[0] : "";
    parts.set(part, (parts.get(part) ?? 0) + (size ?? blob?.size ?? 0));
  }
  const bytes = Math.max(0, ...parts.values());
  const room = HEAP - idle;
  if (bytes <= room) return;
  const gigabytes = (/** @type {number} */ n) => `${(n / 1e9).toFixed(1)} GB`;
  const message = `weights of ${gigabytes(bytes)} do not fit in the ${gigabytes(room)} of a tab`;
  const hint = "Use WebGPU, whose memory lies elsewhere, or a file with fewer bits per weight.";
  throw Object.assign(new WeightsError(message, { hint, retry: false }), { name: "MemoryError" });
}

/**
 * Reads every file of a listing. Small files become bytes. Weights go to the places that
 * `builder.begin` returns for a file's header. Graphs and parts of pipelines are given to the
 * builder as they are: Python reads those that it takes by remote.js.
 * @param {WeightStore} store @param {Listing} listing @param {Builder} builder
 * @param {() => Uint8Array} heap @param {{ signal?: AbortSignal,
 *   report?: (progress: LoadProgress) => void }} options
 * @returns {Promise<Map<string, Uint8Array>>} the small files
 */
export async function read(store, listing, builder, heap, { signal, report }) {
  const now = listing.files.filter((file) => !file.later);
  const sizes = new Map(now.map((file) => [file, file.size ?? file.blob?.size]));
  const totals = { loaded: 0, fromCache: 0, fromNetwork: 0 };
  /** @type {Map<string, Uint8Array>} */
  const small = new Map();
  for (const file of listing.files) {
    const onBytes = (/** @type {number} */ count, /** @type {string} */ from) => {
      totals.loaded += count;
      if (from === "cache") totals.fromCache += count;
      if (from === "network") totals.fromNetwork += count;
      const all = [...sizes.values()];
      const total = all.some((size) => size === undefined)
        ? null
        : all.reduce((/** @type {number} */ sum, size) => sum + (size ?? 0), 0);
      const notKept = store.refused;
      report?.({ stage: "download", file: file.path, ...totals, total, notKept });
    };
    const options = { signal, onBytes };
    if (file.later || isGraphPart(file.path)) {
      builder.addGraph(file.path, { ...file, ...options, store });
      continue;
    }
    const inside = file.path.includes("/"); // a module's files are small
    const stored = !inside && STORED.test(file.path);
    if (stored && (await readStored(store, file, builder, heap, options))) continue;
    const weights = file.path.endsWith(".safetensors") && !inside;
    if (!weights && !isGguf(file.path)) {
      small.set(file.path, await store.bytes(file, options));
      continue;
    }
    const opened = await store.open(file, options);
    sizes.set(file, opened.size);
    await readWeights(store, file, opened, builder, heap);
  }
  return small;
}

/**
 * Lists and reads in one call, for Python in any Pyodide page.
 * @param {typeof import("./weights.js")} weights @param {string} where
 * @param {import("../types.d.ts").PyBuilder} proxy
 * @param {import("../types.d.ts").Pyodide} py
 * @param {(done: number, total: number | null) => void} tell
 * @param {import("./graphs.js").Asked} asked
 */
export async function fetchModel(weights, where, proxy, py, tell, asked) {
  // Parts of a pipeline are read when the builder is gone.
  const hash = /** @type {any} */ (proxy.hash).copy();
  const store = new weights.WeightStore({ createHash: async () => hash() });
  const base = globalThis.document?.baseURI ?? globalThis.location.href;
  const source = sourceOf(where, { base, models: base });
  const builder = flat(proxy);
  const report = (/** @type {LoadProgress} */ { loaded, total }) => tell(loaded, total);
  return orGraphs(asked, async (chosen) => {
    const listing = await list(store, source, undefined, modelOf(chosen));
    return [...(await read(store, listing, builder, () => py._module.HEAPU8, { report }))];
  });
}

/** Python's Builder with arrays instead of Python lists.
 *  @param {import("../types.d.ts").PyBuilder} proxy @returns {Builder} */
export function flat(proxy) {
  const numbers = (/** @type {import("../types.d.ts").PyProxy} */ list) => {
    const found = list.toJs();
    list.destroy();
    return found;
  };
  return {
    begin(path, head, size) {
      const rows = proxy.begin(path, head, size);
      return rows ? numbers(rows) : null; // null: it needs more of the file
    },
    look(path, size, offset, bytes) {
      const next = proxy.look(path, size, offset, bytes);
      return next ? numbers(next) : null;
    },
    addGraph: (path, file) => proxy.add_graph(path, file),
    beginStored: () => numbers(proxy.begin_stored()),
    open: (number) => numbers(proxy.open(number)),
    commit: (bytes) => proxy.commit(bytes),
    check: () => proxy.check(),
    port: proxy.port ?? null,
  };
}

/** @param {WeightStore} store @param {FileSpec} file
 *  @param {import("./weights.js").Opened} opened @param {Builder} builder
 *  @param {() => Uint8Array} heap */
async function readWeights(store, file, { size, body }, builder, heap) {
  /** @type {Uint8Array[]} */
  const head = [];
  let offset = 0;
  let needed = 8;
  let scatter = /** @type {Scatter | null} */ (null);
  /** @type {unknown} */
  let refused = null;
  const begin = (/** @type {boolean} */ ended) => {
    const bytes = concatenate(head.splice(0));
    try {
      const all = ended ? bytes.length : (size ?? Number.MAX_SAFE_INTEGER);
      const rows = builder.begin(file.path, bytes, all);
      if (!rows) {
        head.push(bytes);
        needed = 2 * bytes.length;
        return;
      }
      const places = new Scatter(rows, heap, builder);
      places.write(0, bytes);
      scatter = places;
    } catch (error) {
      // Lack of memory is not an error of the file.
      if (/^(Device|Memory)/.test(/** @type {any} */ (error).type)) throw error;
      refused = error;
    }
  };
  for await (const bytes of body) {
    if (scatter) {
      scatter.write(offset, /** @type {Uint8Array<ArrayBuffer>} */ (bytes));
      await scatter.settle();
    } else if (!refused) {
      head.push(bytes);
      if (needed === 8 && offset + bytes.length >= 8) {
        head.push(concatenate(head.splice(0)));
        const view = new DataView(head[0].buffer, head[0].byteOffset);
        const length = Math.min(Number(view.getBigUint64(0, true)), LARGEST_HEADER);
        needed = view.getUint32(0, true) === GGUF ? GGUF_HEAD : needed + length;
      }
      if (offset + bytes.length >= needed) begin(false);
    }
    offset += bytes.length;
  }
  if (!scatter && !refused) begin(true); // the file is shorter than its header: the reader raises
  const places = /** @type {Scatter | null} */ (scatter);
  await places?.settle(0);
  if (places && offset < places.end) {
    // A server that does not state the size may have sent less; the store then counts it as all.
    await store.drop(file);
    const message = `${file.path} ends at byte ${offset}, its tensors at ${places.end}`;
    throw new WeightsError(message, { url: file.url, hint: "Download the file again." });
  }
  if (refused) {
    // The stream was read to its end, so a damaged download has failed its hash check already.
    await store.drop(file);
    throw refused;
  }
}
