// weights.js: streamed, resumable, hash-checked downloads of model files, kept in the browser.
//
// Files are kept in the Cache API in pieces of a few megabytes. A piece is named by URL, hash,
// offset and length, so two tabs may write at the same time. The Cache API works in pages and in
// workers, under any path. If the browser refuses storage, downloads work but nothing is kept.

import {
  WeightsError,
  ask,
  concatenate,
  offline,
  readBlob,
  readBody,
  refusedByServer,
  sizeOf,
  startOf,
  validatorOf,
} from "./ranges.js";

export const CACHE = "rushlight-weights-1";
const PIECE_BYTES = 8 * 1024 * 1024;

/**
 * @typedef {import("./ranges.js").FileSpec} FileSpec
 * @typedef {import("./ranges.js").ReadOptions} ReadOptions
 * @typedef {{ init(): unknown, update(data: Uint8Array): unknown, digest(): string }} Hash
 * @typedef {{ at: number, bytes: number, request: Request }} Piece
 * @typedef {{ complete: boolean, size?: number, validator?: string, savedAt: number }} Meta
 * @typedef {{ url: string, bytes: number, size: number | null, complete: boolean,
 *   savedAt: number | null }} Listed
 * @typedef {{ size: number | undefined, body: AsyncGenerator<Uint8Array, void, void> }} Opened
 */

/** Downloads files and keeps them. One instance handles many files, also concurrently. */
export class WeightStore {
  /** @param {{ createHash?: () => Promise<Hash>, cacheName?: string, pieceBytes?: number }}
   *  [options]  without `createHash` (an incremental SHA-256) no hash is checked */
  constructor({ createHash, cacheName = CACHE, pieceBytes = PIECE_BYTES } = {}) {
    this.createHash = createHash;
    this.cacheName = cacheName;
    this.pieceBytes = pieceBytes;
    /** The reason why nothing is kept, or "" while storage works. */
    this.refused = "";
  }

  /** The cache, or null if the browser refuses storage. @returns {Promise<Cache | null>} */
  async cache() {
    if (this.refused) return null;
    try {
      if (!globalThis.caches) throw new Error("this page has no storage (it needs https)");
      return await caches.open(this.cacheName);
    } catch (error) {
      this.refused = error instanceof Error ? error.message : String(error);
      return null;
    }
  }

  /**
   * Starts reading a file. Cached bytes come first, the rest from the network. If the file has a
   * SHA-256, the last step of `body` checks it, and drops the cached bytes if the check fails.
   * @param {FileSpec} file @param {ReadOptions} [options] @returns {Promise<Opened>}
   */
  async open(file, options = {}) {
    if (file.blob) return { size: file.blob.size, body: readBlob(file.blob, options) };
    if (file.parts) {
      const size = file.parts.reduce((sum, part) => sum + (part.size ?? NaN), 0);
      const known = Number.isFinite(size) ? size : undefined;
      return { size: file.size ?? known, body: this.#readParts(file.parts, options) };
    }
    return this.#openUrl(file, options);
  }

  /** The content of a (small) file. @param {FileSpec} file @param {ReadOptions} [options] */
  async bytes(file, options = {}) {
    const { body } = await this.open(file, options);
    const pieces = [];
    for await (const bytes of body) pieces.push(bytes);
    return concatenate(pieces);
  }

  /**
   * A document that may change (a manifest), from the network, or the cached copy when offline.
   * @param {string} url @param {AbortSignal} [signal]
   * @returns {Promise<string | null>} null if the server has no such file
   */
  async document(url, signal) {
    const cache = await this.cache();
    const request = new Request(keyUrl(url, { document: "1" }));
    let response, text;
    try {
      response = await fetch(url, { cache: "no-cache", signal });
      if (response.ok) text = await response.text();
    } catch (error) {
      signal?.throwIfAborted();
      const kept = await cache?.match(request);
      if (kept) return kept.text();
      throw offline(url, error);
    }
    if (response.status === 404 || response.status === 410) return null;
    if (text === undefined) throw refusedByServer(url, response);
    await this.#put(cache, request, new Response(text));
    return text;
  }

  /** The kept files, a row each. @returns {Promise<Listed[]>} */
  async list() {
    const cache = await this.cache();
    /** @type {Map<string, Listed>} */
    const rows = new Map();
    for (const request of cache ? await cache.keys() : []) {
      const key = parseKey(request.url);
      if (!key || key.document) continue;
      const blank = { url: key.url, bytes: 0, size: null, complete: false, savedAt: null };
      const row = rows.get(key.url + key.tag) ?? blank;
      rows.set(key.url + key.tag, row);
      if (key.meta) {
        const meta = /** @type {Meta} */ (await (await cache?.match(request))?.json());
        Object.assign(row, {
          size: meta?.size ?? null,
          complete: Boolean(meta?.complete),
          savedAt: meta?.savedAt ?? null,
        });
      } else {
        row.bytes += key.bytes;
      }
    }
    return [...rows.values()].filter((row) => row.bytes > 0 || row.complete);
  }

  /** Deletes every kept file whose URL starts with `prefix` (all files without one).
   *  @param {string} [prefix] @returns {Promise<number>} bytes freed */
  async clear(prefix = "") {
    const cache = await this.cache();
    let freed = 0;
    for (const request of cache ? await cache.keys() : []) {
      const key = parseKey(request.url);
      if (!key?.url.startsWith(prefix)) continue;
      await cache?.delete(request);
      freed += key.bytes;
    }
    return freed;
  }

  /** Deletes one kept file. @param {FileSpec} file */
  async drop(file) {
    for (const { url } of file.parts ?? [file]) {
      if (url) await this.#forget(plain(url), () => true);
    }
  }

  /** @param {FileSpec[]} parts @param {ReadOptions} options */
  async *#readParts(parts, options) {
    for (const part of parts) yield* (await this.open(part, options)).body;
  }

  /** @param {FileSpec} file @param {ReadOptions} options @returns {Promise<Opened>} */
  async #openUrl(file, options) {
    const url = plain(file.url);
    options.signal?.throwIfAborted();
    const cache = await this.cache();
    const state = await readState(cache, url, file.sha256 ?? "");
    const size = file.size ?? state.meta?.size;
    if (state.meta?.complete && state.have === size && (await stillCurrent(file, state.meta))) {
      return { size, body: this.#readKept(cache, state.pieces, options) };
    }
    if (file.sha256 && size !== undefined && state.have === size) {
      // All bytes arrived, but the check did not run, because the tab was closed just before.
      return { size, body: this.#readAll(cache, file, state, null, options) };
    }
    const response = await ask(file, state.have, state.meta?.validator ?? "", options.signal);
    const validator = validatorOf(response);
    const total = file.size ?? sizeOf(response);
    const skipped = response.status === 206 ? startOf(response) : 0;
    const sameFile = validator !== "" && validator === state.meta?.validator;
    const same = file.sha256 !== undefined || sameFile;
    if (state.have > 0 && (!same || skipped > state.have)) {
      // The server has another version than the cached part: start again.
      await this.#forget(url, () => true);
      const fresh = { pieces: [], have: 0, meta: null };
      if (skipped === 0) return this.#fromNetwork(cache, file, fresh, response, total, options);
      await response.body?.cancel();
      return this.#openUrl(file, options);
    }
    return this.#fromNetwork(cache, file, state, response, total, options);
  }

  /** @param {Cache | null} cache @param {FileSpec} file @param {State} state
   *  @param {Response} response @param {number | undefined} total @param {ReadOptions} options */
  async #fromNetwork(cache, file, state, response, total, options) {
    const validator = validatorOf(response);
    const url = plain(file.url);
    const meta = { complete: false, size: total, validator, savedAt: Date.now() };
    await this.#putMeta(cache, url, file.sha256 ?? "", meta);
    return { size: total, body: this.#readAll(cache, file, state, response, options, meta) };
  }

  /** @param {Cache | null} cache @param {Piece[]} pieces @param {ReadOptions} options */
  async *#readKept(cache, pieces, options) {
    let have = 0;
    for (const piece of pieces) {
      const kept = await cache?.match(piece.request);
      if (!kept) throw new WeightsError("the browser has cleared its storage", retryHint);
      const bytes = new Uint8Array(await kept.arrayBuffer()).subarray(have - piece.at);
      options.signal?.throwIfAborted();
      have += bytes.length;
      options.onBytes?.(bytes.length, "cache");
      yield bytes;
    }
  }

  /**
   * Yields the cached bytes, then those of the network, which it keeps. Checks the whole file.
   * @param {Cache | null} cache @param {FileSpec} file @param {State} state
   * @param {Response | null} response @param {ReadOptions} options @param {Meta} [meta]
   */
  async *#readAll(cache, file, state, response, options, meta) {
    const url = plain(file.url);
    const tag = file.sha256 ?? "";
    const hash = file.sha256 && this.createHash ? await this.createHash() : null;
    hash?.init();
    let at = 0;
    for await (const bytes of this.#readKept(cache, state.pieces, options)) {
      hash?.update(bytes);
      at += bytes.length;
      yield bytes;
    }
    const size = file.size ?? meta?.size ?? state.meta?.size;
    const source = response ? readBody(response, at, file, size, options) : null;
    /** @type {Uint8Array[]} */
    let pending = [];
    let pendingBytes = 0;
    const flush = async () => {
      if (pendingBytes === 0) return;
      const request = new Request(
        keyUrl(url, { tag, at: String(at - pendingBytes), bytes: String(pendingBytes) }),
      );
      const body = new Blob(/** @type {BlobPart[]} */ (pending));
      pending = [];
      pendingBytes = 0;
      const kept = await this.#put(cache, request, new Response(body));
      if (!kept) await this.#forget(url, () => true);
    };
    try {
      for await (const bytes of source ?? []) {
        hash?.update(bytes);
        at += bytes.length;
        if (cache && !this.refused) {
          pending.push(bytes);
          pendingBytes += bytes.length;
        }
        if (pendingBytes >= this.pieceBytes) await flush();
        yield bytes;
      }
    } finally {
      // This also runs if the reader stops or the connection breaks: a retry then resumes here.
      await flush();
    }
    if (file.size !== undefined && at !== file.size) {
      await this.#forget(url, () => true);
      throw new WeightsError(
        `${file.path}: the server sent ${at} bytes; ${file.size} were expected`,
        { url, hint: "The file on the server is not the one the site was built with." },
      );
    }
    const digest = hash?.digest();
    if (digest !== undefined && digest !== file.sha256) {
      await this.#forget(url, () => true);
      throw new WeightsError(
        `${file.path}: the downloaded bytes are not the published ones ` +
          `(SHA-256 ${digest.slice(0, 12)}…, expected ${file.sha256?.slice(0, 12)}…)`,
        { url, hint: "The bytes were discarded. Retry downloads the file again from the start." },
      );
    }
    await this.#putMeta(cache, url, tag, { ...(meta ?? state.meta), complete: true, size: at });
    await this.#forget(url, (key) => !key.document && key.tag !== tag); // other versions
  }

  /** @param {Cache | null} cache @param {string} url @param {string} tag
   *  @param {Partial<Meta>} meta */
  async #putMeta(cache, url, tag, meta) {
    const body = JSON.stringify({ savedAt: Date.now(), ...meta });
    await this.#put(cache, new Request(keyUrl(url, { tag, meta: "1" })), new Response(body));
  }

  /** @param {Cache | null} cache @param {Request} request @param {Response} response */
  async #put(cache, request, response) {
    if (!cache || this.refused) return false;
    try {
      await cache.put(request, response);
      return true;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.refused = `the browser has no room to keep files (${reason})`;
      return false;
    }
  }

  /** @param {string} url @param {(key: Key) => boolean} which */
  async #forget(url, which) {
    try {
      // This runs also when storage is full, so that useless pieces make room.
      const cache = await caches.open(this.cacheName);
      for (const request of await cache.keys(new Request(url), { ignoreSearch: true })) {
        const key = parseKey(request.url);
        if (key?.url === url && which(key)) await cache.delete(request);
      }
    } catch {
      // Storage is refused, so there is nothing to delete.
    }
  }
}

const retryHint = { hint: "Retry downloads what is missing.", retry: true };

/**
 * @typedef {{ pieces: Piece[], have: number, meta: Meta | null }} State
 * @typedef {{ url: string, tag: string, at: number, bytes: number, meta: boolean,
 *   document: boolean }} Key
 */

/** The kept pieces of a file that are contiguous from its start.
 *  @param {Cache | null} cache @param {string} url @param {string} tag @returns {Promise<State>} */
export async function readState(cache, url, tag) {
  /** @type {Piece[]} */
  const found = [];
  let meta = null;
  for (const request of (await cache?.keys(new Request(url), { ignoreSearch: true })) ?? []) {
    const key = parseKey(request.url);
    if (key?.url !== url || key.tag !== tag || key.document) continue;
    if (key.meta) meta = /** @type {Meta} */ (await (await cache?.match(request))?.json());
    else found.push({ at: key.at, bytes: key.bytes, request });
  }
  found.sort((a, b) => a.at - b.at || b.bytes - a.bytes);
  const pieces = [];
  let have = 0;
  for (const piece of found) {
    if (piece.at > have || piece.at + piece.bytes <= have) continue;
    pieces.push(piece);
    have = piece.at + piece.bytes;
  }
  return { pieces, have, meta: meta ?? null };
}

/** Whether a kept file is current: by its hash, or else by the server's headers.
 *  @param {FileSpec} file @param {Meta} meta */
async function stillCurrent(file, meta) {
  if (file.sha256 !== undefined || !meta.validator) return true;
  try {
    const url = /** @type {string} */ (file.url);
    const response = await fetch(url, { method: "HEAD", cache: "no-store" });
    return !response.ok || ["", meta.validator].includes(validatorOf(response));
  } catch {
    return true; // offline: use the kept copy
  }
}

/** A URL in the form that `parseKey` returns: without a fragment, the query normalized.
 *  @param {string} [url] */
export function plain(url) {
  const address = new URL(url ?? "", globalThis.location?.href);
  address.hash = "";
  address.searchParams.delete("rushlight-tag");
  return address.href;
}

/** @param {string} url @param {Record<string, string>} fields */
function keyUrl(url, fields) {
  const key = new URL(url);
  key.hash = "";
  for (const name of Object.keys(fields)) key.searchParams.set(`rushlight-${name}`, fields[name]);
  return key.href;
}

/** @param {string} address @returns {Key | null} */
function parseKey(address) {
  const key = new URL(address);
  const take = (/** @type {string} */ name) => {
    const value = key.searchParams.get(`rushlight-${name}`);
    key.searchParams.delete(`rushlight-${name}`);
    return value;
  };
  const [tag, at, bytes] = [take("tag"), take("at"), take("bytes")];
  const [meta, document] = [take("meta"), take("document")];
  if (tag === null && document === null) return null;
  return {
    url: key.href,
    tag: tag ?? "",
    at: Number(at ?? 0),
    bytes: Number(bytes ?? 0),
    meta: meta !== null,
    document: document !== null,
  };
}
