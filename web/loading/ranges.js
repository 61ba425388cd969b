// ranges.js: requests a file from a given byte on, and turns failures into readable errors.

const BLOB_STEP = 8 * 1024 * 1024;

/**
 * One file to read: from `url`, from a local `blob`, or from `parts` that are joined in order.
 * Python reads a file that is for `later` when it needs it.
 * @typedef {{ path: string, url?: string, blob?: Blob, size?: number, sha256?: string,
 *   parts?: FileSpec[], later?: boolean }} FileSpec
 * @typedef {{ signal?: AbortSignal, onBytes?: (count: number, from: "cache" | "network" | "local")
 *   => void }} ReadOptions
 */

/** A failed download or file. `hint` says what to do, `retry` whether trying again may help. */
export class WeightsError extends Error {
  /** @param {string} message
   *  @param {{ hint?: string, url?: string, status?: number, retry?: boolean }} [details] */
  constructor(message, details = {}) {
    super(message);
    this.name = "WeightsError";
    this.hint = details.hint ?? "";
    this.url = details.url ?? "";
    this.status = details.status ?? null;
    this.retry = details.retry ?? true;
  }
}

/** @param {number} bytes */
export function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(bytes < 1e5 ? 3 : 1)} MB`;
}

/** Requests a file from byte `have` on. @param {FileSpec} file @param {number} have
 *  @param {string} validator  of the cached bytes @param {AbortSignal} [signal] */
export async function ask(file, have, validator, signal) {
  const url = /** @type {string} */ (file.url);
  /** @type {Record<string, string>} */
  const headers = {};
  if (have > 0) {
    headers["Range"] = `bytes=${have}-`;
    // If-Range takes strong validators only, and costs a preflight on other origins.
    const local = new URL(url).origin === globalThis.location?.origin;
    if (validator && !validator.startsWith("W/") && local) headers["If-Range"] = validator;
  }
  let response;
  try {
    response = await fetch(url, { headers, signal, cache: "no-store" });
  } catch (error) {
    signal?.throwIfAborted();
    throw offline(file.path, error);
  }
  // 416: the file on the server is now shorter than the cached part.
  if (response.status === 416 && have > 0) return ask(file, 0, "", signal);
  if (!response.ok) throw refusedByServer(file.path, response);
  return response;
}

/** The body from byte `at` on. A server that ignored the range sends the earlier bytes again.
 *  @param {Response} response @param {number} at @param {FileSpec} file
 *  @param {number | undefined} size @param {ReadOptions} options
 *  @returns {AsyncGenerator<Uint8Array, void, void>} */
export async function* readBody(response, at, file, size, options) {
  let position = response.status === 206 ? startOf(response) : 0;
  const reader = response.body?.getReader();
  try {
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      const bytes = value.subarray(Math.max(0, Math.min(value.length, at - position)));
      position += value.length;
      if (bytes.length === 0) continue;
      options.onBytes?.(bytes.length, "network");
      yield bytes;
    }
  } catch (error) {
    options.signal?.throwIfAborted();
    throw broken(file, position, size, error);
  } finally {
    reader?.cancel().catch(() => {});
  }
  if (size !== undefined && position < size) throw broken(file, position, size, null);
}

/** @param {Blob} blob @param {ReadOptions} options
 *  @returns {AsyncGenerator<Uint8Array, void, void>} */
export async function* readBlob(blob, options) {
  for (let at = 0; at < blob.size; at += BLOB_STEP) {
    options.signal?.throwIfAborted();
    const bytes = new Uint8Array(await blob.slice(at, at + BLOB_STEP).arrayBuffer());
    options.onBytes?.(bytes.length, "local");
    yield bytes;
  }
}

/** The header that identifies the version of a file, or "". @param {Response} response */
export function validatorOf(response) {
  return response.headers.get("etag") ?? response.headers.get("last-modified") ?? "";
}

/** The size of the whole file if the server states it. @param {Response} response */
export function sizeOf(response) {
  const range = /\/(\d{1,15})$/.exec(response.headers.get("content-range") ?? "");
  if (range) return Number(range[1]);
  const length = response.headers.get("content-length") ?? "";
  // With a content encoding the stated length is that of the compressed bytes.
  const states = /^\d{1,15}$/.test(length) && !response.headers.get("content-encoding");
  return states ? Number(length) : undefined;
}

/** The first byte of a 206. @param {Response} response */
export function startOf(response) {
  const match = /bytes (\d{1,15})-/.exec(response.headers.get("content-range") ?? "");
  return match ? Number(match[1]) : 0;
}

/** @param {string} what @param {unknown} error */
export function offline(what, error) {
  const reason = error instanceof Error ? error.message : String(error);
  const hint = "Check the connection (another site must allow reading from this one), then retry.";
  return new WeightsError(`${what}: the server did not answer (${reason})`, { hint });
}

/** @param {string} what @param {Response} response */
export function refusedByServer(what, response) {
  const hint =
    response.status === 401 || response.status === 403
      ? "The page has no access to this file."
      : response.status === 404
        ? "Check the address: a model is a .gguf file, or the folder that holds config.json."
        : "Retry in a moment.";
  const details = { hint, url: response.url, status: response.status };
  return new WeightsError(`${what}: the server answered ${response.status}`, details);
}

/** @param {FileSpec} file @param {number} at @param {number | undefined} size
 *  @param {unknown} error */
function broken(file, at, size, error) {
  const of = size === undefined ? megabytes(at) : `${megabytes(at)} of ${megabytes(size)}`;
  const reason = error instanceof Error ? ` (${error.message})` : "";
  return new WeightsError(`${file.path}: the connection broke after ${of}${reason}`, {
    url: file.url,
    hint: "The bytes that arrived are kept. Retry downloads only the rest.",
  });
}

/** @param {Uint8Array[]} pieces */
export function concatenate(pieces) {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
