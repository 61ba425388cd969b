// spans.js: reads ranges of a weight file, of a server or of a Blob, and nothing else of it.

import { keptSpan } from "./kept.js";
import { WeightsError, offline, sizeOf, startOf } from "./ranges.js";

/** @typedef {import("./ranges.js").FileSpec} FileSpec */

const FIRST = 1 << 16;
const DROP = "Download the file, and drop it here instead.";

/** A file of which ranges are read. `size` is known once it is opened. */
export class Spans {
  /** @param {FileSpec} file
   *  @param {import("./weights.js").WeightStore} [store]  what it keeps is not asked for again */
  constructor(file, store) {
    this.store = store;
    this.path = file.path;
    this.parts = file.parts ?? [file];
    this.size = NaN;
    this.bytes = 0; // that were read
    this.requests = 0; // to a server
  }

  /** The first bytes, which also tell the size. @param {AbortSignal} [signal] */
  async open(signal) {
    const [first] = this.parts;
    if (this.parts.length > 1 || first.blob) {
      this.size = this.parts.reduce((sum, part) => sum + (part.size ?? part.blob?.size ?? NaN), 0);
      if (Number.isNaN(this.size)) throw unknownSize(first);
      return this.read(0, FIRST, signal);
    }
    const kept = await keptSpan(this.store, first, 0, FIRST);
    if (kept) {
      this.size = kept.size;
      return kept.bytes;
    }
    const { bytes, size } = await this.#request(first, 0, FIRST, signal);
    this.size = size ?? (await this.#ask(first, signal));
    return bytes;
  }

  /** The bytes from `offset` on, at most `length`.
   *  @param {number} offset @param {number} length @param {AbortSignal} [signal] */
  async read(offset, length, signal) {
    const end = Math.min(offset + length, this.size);
    const found = new Uint8Array(Math.max(0, end - offset));
    let base = 0;
    for (const part of this.parts) {
      const size = this.parts.length > 1 ? Number(part.size) : this.size;
      const [from, to] = [Math.max(offset, base), Math.min(end, base + size)];
      if (from < to) {
        const bytes = await this.#part(part, from - base, to - base, signal);
        found.set(bytes, from - offset);
      }
      base += size;
    }
    return found;
  }

  /** @param {FileSpec} part @param {number} from @param {number} to
   *  @param {AbortSignal} [signal] */
  async #part(part, from, to, signal) {
    signal?.throwIfAborted();
    if (part.blob) {
      this.bytes += to - from;
      return new Uint8Array(await part.blob.slice(from, to).arrayBuffer());
    }
    const kept = await keptSpan(this.store, part, from, to);
    if (kept) return kept.bytes;
    const { bytes } = await this.#request(part, from, to, signal);
    if (bytes.length === to - from) return bytes;
    const message = `${part.path}: the server sent ${bytes.length} bytes of ${to - from}`;
    throw new WeightsError(message, { hint: "The file may have changed; inspect it again." });
  }

  /** @param {FileSpec} part @param {number} from @param {number} to @param {AbortSignal} [signal]
   *  @returns {Promise<{ bytes: Uint8Array<ArrayBuffer>, size: number | undefined }>} */
  async #request(part, from, to, signal) {
    const headers = { Range: `bytes=${from}-${to - 1}` };
    this.requests += 1;
    const response = await reach(part, { headers, signal, cache: "no-store" });
    const { status } = response;
    // A short file may come whole, and an empty one has no ranges.
    if (status === 416 && from === 0) return { bytes: new Uint8Array(), size: 0 };
    const all = status === 200 ? sizeOf(response) : undefined;
    const fits = all !== undefined && from === 0 && all <= to;
    const told = response.headers.has("content-range"); // hidden from other sites, if not allowed
    const other = status === 206 && told && startOf(response) !== from;
    if ((status !== 206 && !fits) || other) {
      await response.body?.cancel();
      if (status !== 200 && status !== 206) throw refused(part, status);
      const message = `${part.path}: the server does not support ranges`;
      throw new WeightsError(message, { hint: DROP, retry: false });
    }
    const bytes = new Uint8Array(await whole(part, response, signal));
    this.bytes += bytes.length;
    return { bytes, size: status === 206 && !told ? undefined : sizeOf(response) };
  }

  /** The size, for a server that hides it in the answer to a range from other sites.
   *  @param {FileSpec} part @param {AbortSignal} [signal] */
  async #ask(part, signal) {
    this.requests += 1;
    const response = await reach(part, { method: "HEAD", signal });
    const size = response.ok ? sizeOf(response) : undefined;
    if (size === undefined) throw unknownSize(part);
    return size;
  }
}

/** @param {FileSpec} part */
function unknownSize({ path }) {
  const message = `${path}: the server does not state the size of the file`;
  return new WeightsError(message, { hint: DROP, retry: false });
}

/** The bytes of an answer. @param {FileSpec} part @param {Response} response
 *  @param {AbortSignal} [signal] */
async function whole(part, response, signal) {
  try {
    return await response.arrayBuffer();
  } catch (error) {
    signal?.throwIfAborted();
    throw offline(part.path, error);
  }
}

/** @param {FileSpec} part @param {RequestInit} options */
async function reach(part, options) {
  const url = /** @type {string} */ (part.url);
  try {
    return await fetch(url, options);
  } catch (error) {
    options.signal?.throwIfAborted();
    const away = new URL(url).origin !== globalThis.location?.origin;
    const reason = error instanceof Error ? error.message : String(error);
    const hint = away
      ? `Another site must allow pages to read its files (CORS). Check the address. ${DROP}`
      : "Check the connection, then retry.";
    throw new WeightsError(`${part.path}: the server did not answer (${reason})`, { hint, url });
  }
}

/** @param {FileSpec} part @param {number} status */
function refused(part, status) {
  const hint =
    status === 401 || status === 403
      ? `The page has no access to this file. ${DROP}`
      : status === 404
        ? "Check the address: it must be that of a file of weights."
        : "Retry in a moment.";
  return new WeightsError(`${part.path}: the server answered ${status}`, { hint, status });
}
