// client.js: Rushlight for a page. Starts the worker, and turns its jobs into promises, async
// generators and errors with hints. See client.d.ts for the types.

import { ask } from "./adapter.js";
import * as Comlink from "./comlink.js";
import { countTokens, stream } from "./generation.js";
import { sourceOf } from "./loader.js";

/**
 * @typedef {import("./client.d.ts").ModelSource} ModelSource
 * @typedef {import("./client.d.ts").CreateOptions} CreateOptions
 * @typedef {import("./types.d.ts").Reply} Reply
 * @typedef {{ signal?: AbortSignal, onProgress?: (progress: any) => void }} CallOptions
 */

const BATCH_SIZE = 8;

/** @implements {Error} */
export class RushlightError extends Error {
  /** @param {string} message
   *  @param {{ name?: string, hint?: string, retry?: boolean }} [details] */
  constructor(message, { name = "RushlightError", hint = "", retry = true } = {}) {
    super(message);
    this.name = name;
    this.hint = hint;
    this.retry = retry;
  }
}

/** The worker, its calls, and its death. */
class Link {
  /** @param {URL} base  the runtime folder */
  constructor(base) {
    this.worker = startWorker(new URL("worker.js", base));
    this.remote = /** @type {any} */ (Comlink.wrap(this.worker));
    /** @type {Set<(error: Error) => void>} */
    this.pending = new Set();
    /** @type {Error | null} */
    this.dead = null;
    this.worker.addEventListener("error", (event) => {
      event.preventDefault?.();
      const why = event.message ? `: ${event.message}` : ` (is ${base.href} complete?)`;
      this.die(`the worker could not go on${why}`);
    });
    this.worker.addEventListener("messageerror", () => this.die("a message could not be read"));
    void this.#watch();
  }

  /** A worker that crashed or closed itself sends no event, but it loses the lock it held. */
  async #watch() {
    const name = `rushlight-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
    if (!(await this.remote.hold(name)) || this.dead) return;
    await navigator.locks.request(name, () => this.die("the worker has ended"));
  }

  /** @param {string} why @param {string} [hint] */
  die(why, hint = "Start again. If it ends again, the tab may be out of memory.") {
    if (this.dead) return;
    this.dead = new RushlightError(why, { name: "WorkerError", hint });
    this.worker.terminate();
    for (const reject of this.pending) reject(this.dead);
    this.pending.clear();
  }

  /**
   * One job of the worker. The signal rejects at once, and stops the worker at its next step.
   * @param {(remote: any, port: MessagePort) => Promise<Reply>} start
   * @param {CallOptions} [options] @returns {Promise<any>}
   */
  async call(start, { signal, onProgress } = {}) {
    signal?.throwIfAborted();
    if (this.dead) throw this.dead;
    const { port1, port2 } = new MessageChannel();
    let over = () => {};
    const reported = new Promise((resolve) => (over = () => resolve(undefined)));
    port1.onmessage = ({ data }) => {
      if (data === "over") over();
      else if (!signal?.aborted) onProgress?.(data);
    };
    /** @type {(error: Error) => void} */
    let reject = () => {};
    const stop = () => {
      port1.postMessage("stop");
      reject(signal?.reason);
    };
    try {
      const interrupted = new Promise((_, no) => {
        reject = no;
        this.pending.add(no);
      });
      signal?.addEventListener("abort", stop, { once: true });
      const started = start(this.remote, port2);
      started.catch(() => {}); // the race below may have been decided before
      const reply = /** @type {Reply} */ (await Promise.race([interrupted, started]));
      if (reply.error) throw this.#failure(reply.error);
      if (reply.reported) await Promise.race([interrupted, reported]);
      return reply.value;
    } finally {
      signal?.removeEventListener("abort", stop);
      this.pending.delete(reject);
      if (!signal?.aborted) port1.close();
      else setTimeout(() => port1.close(), 0); // the stop must be on its way first
    }
  }

  /** @param {NonNullable<Reply["error"]>} error */
  #failure({ name, message, hint, stack, fatal, retry }) {
    if (name === "AbortError") return new DOMException(message, "AbortError");
    if (fatal) {
      this.die(`Python stopped working: ${message}`);
      return /** @type {Error} */ (this.dead);
    }
    const error = new RushlightError(message, { name, hint, retry });
    if (stack) error.stack = `${error.stack ?? message}\n--- in the worker ---\n${stack}`;
    return error;
  }
}

/** @param {URL} url */
function startWorker(url) {
  if (url.origin === location.origin) return new Worker(url, { type: "module" });
  // A worker must come from the page's own origin; its modules need not.
  const code = new Blob([`import ${JSON.stringify(url.href)};`], { type: "text/javascript" });
  return new Worker(URL.createObjectURL(code), { type: "module" });
}

/** @implements {import("./client.d.ts").Model} */
class Model {
  #link;
  #id;

  /** @param {Link} link @param {any} made */
  constructor(link, { id, name, modelType, parameters, device, seconds, ...more }) {
    this.#link = link;
    this.#id = id;
    this.name = name;
    this.modelType = modelType;
    this.parameters = parameters;
    this.device = device;
    this.adapter = more.adapter;
    this.kernels = more.kernels;
    this.linear = more.linear;
    this.why = more.why;
    this.seconds = seconds;
    this.contextLength = more.contextLength;
    this.chatTemplate = more.chatTemplate;
  }

  /** @param {string | number[]} prompt
   *  @param {import("./client.d.ts").GenerateOptions} [options] */
  generate(prompt, options) {
    return stream(this.#link, this.#id, "generate", prompt, options);
  }

  /** @param {import("./client.d.ts").ChatMessage[]} messages
   *  @param {import("./client.d.ts").GenerateOptions} [options] */
  chat(messages, options) {
    return stream(this.#link, this.#id, "chat", messages, options);
  }

  /** @param {string | import("./client.d.ts").ChatMessage[]} prompt */
  tokenCount(prompt) {
    return countTokens(this.#link, this.#id, prompt);
  }

  /** @param {string | string[]} texts @param {import("./client.d.ts").EncodeOptions} [options] */
  async encode(texts, { batchSize = BATCH_SIZE, ...options } = {}) {
    const list = typeof texts === "string" ? [texts] : [...texts];
    for (const text of list) {
      if (typeof text !== "string") throw new TypeError(`encode: ${text} is not a string`);
    }
    if (!(Number.isInteger(batchSize) && batchSize > 0)) {
      throw new RangeError(`encode: batchSize is ${batchSize}, not a whole number from 1 up`);
    }
    const { vectors, dim } = await this.#link.call(
      (remote, port) =>
        remote.encode(Comlink.transfer(port, [port]), this.#id, list, { batchSize }),
      options,
    );
    return list.map((_, i) => /** @type {Float32Array} */ (vectors.slice(i * dim, (i + 1) * dim)));
  }

  /** @param {Iterable<string> | AsyncIterable<string>} texts
   *  @param {import("./client.d.ts").EncodeOptions} [options]
   *  @returns {AsyncGenerator<Float32Array, void, void>} */
  async *encodeStream(texts, { batchSize = BATCH_SIZE, onProgress, signal } = {}) {
    const control = new AbortController();
    const both = signal ? AbortSignal.any([signal, control.signal]) : control.signal;
    let done = 0;
    try {
      /** @type {string[]} */
      let batch = [];
      for await (const text of texts) {
        batch.push(text);
        if (batch.length < batchSize) continue;
        yield* await this.encode(batch, { batchSize, signal: both });
        onProgress?.({ stage: "encode", done: (done += batch.length), total: NaN });
        batch = [];
      }
      if (batch.length) yield* await this.encode(batch, { batchSize, signal: both });
    } finally {
      control.abort(); // a consumer that left: nothing goes on behind its back
    }
  }

  /** @param {import("./client.d.ts").TuneOptions} [options] */
  tune(options) {
    return tune(this.#link, this.#id, options);
  }

  /** @template T @param {() => Promise<T>} work */
  async profile(work) {
    const call = (/** @type {string} */ what) =>
      this.#link.call((remote, port) =>
        remote.profile(Comlink.transfer(port, [port]), this.#id, what),
      );
    await call("begin");
    let value;
    try {
      value = await work();
    } catch (error) {
      await call("end").catch(() => {}); // what went wrong first counts
      throw error;
    }
    return { value, timing: { ...(await call("end")), trace: () => call("trace") } };
  }

  async dispose() {
    if (!this.#link.dead) await this.#link.remote.dispose(this.#id);
  }
}

/** @implements {import("./client.d.ts").Rushlight} */
class Runtime {
  #link;
  #base;

  /** @param {CreateOptions} options */
  constructor({ onProgress, signal, runtimeUrl }) {
    const given = runtimeUrl === undefined ? "./" : String(runtimeUrl).replace(/\/?$/, "/");
    this.#base = new URL(given, runtimeUrl === undefined ? import.meta.url : document.baseURI);
    this.#link = new Link(this.#base);
    /** @type {Promise<void>} */
    this.ready = this.#link
      .call((remote, port) => remote.start(Comlink.transfer(port, [port])), { signal, onProgress })
      .catch((error) => {
        this.#link.die(error.message);
        throw error;
      });
    this.ready.catch(() => {}); // whoever awaits it, or any call, is told
    const call = (/** @type {any} */ start) => this.#link.call(start);
    this.cache = {
      /** @returns {Promise<import("./client.d.ts").CachedFile[]>} */
      list: () =>
        call((/** @type {any} */ remote, /** @type {MessagePort} */ port) =>
          remote.cacheList(Comlink.transfer(port, [port])),
        ),
      /** @param {string} [prefix] @returns {Promise<number>} */
      clear: (prefix = "") =>
        call((/** @type {any} */ remote, /** @type {MessagePort} */ port) =>
          remote.cacheClear(Comlink.transfer(port, [port]), prefix),
        ),
    };
  }

  /** @param {ModelSource} source @param {{ hubUrl?: string, signal?: AbortSignal }} [options] */
  async describe(source, { hubUrl, signal } = {}) {
    const where = await resolve(source, hubUrl, this.#base);
    return this.#link.call(
      (remote, port) => remote.describe(Comlink.transfer(port, [port]), where),
      { signal },
    );
  }

  /** @param {ModelSource} source @param {import("./client.d.ts").LoadOptions} [options] */
  async load(source, { hubUrl, signal, onProgress, ...given } = {}) {
    const { device = "cpu", linear = "fast", dtype, memoryBudget } = given;
    if (!["cpu", "webgpu", "auto"].includes(device)) {
      throw new RangeError(`load: there is no device "${device}"; there are cpu, webgpu, auto`);
    }
    if (!["exact", "fast"].includes(linear)) {
      throw new RangeError(`load: linear is "${linear}"; it may be "exact" or "fast"`);
    }
    const options = { device, dtype, memoryBudget, linear };
    const where = await resolve(source, hubUrl, this.#base);
    await until(this.ready, signal);
    const made = await this.#link.call(
      (remote, port) => remote.load(Comlink.transfer(port, [port]), where, options),
      { signal, onProgress },
    );
    return new Model(this.#link, made);
  }

  /** @returns {Promise<import("./client.d.ts").Adapter>} */
  adapter() {
    return this.#link.call(async (remote) => ({ value: await remote.adapter() }));
  }

  async info() {
    await this.ready;
    const [facts, webgpu] = await Promise.all([
      this.#link.call((remote, port) => remote.info(Comlink.transfer(port, [port]))),
      this.adapter(),
    ]);
    const cores = navigator.hardwareConcurrency ?? 1;
    return { ...facts, webgpu: webgpu.name, cores, device: `CPU, ${facts.kernels}` };
  }

  async measure() {
    await this.ready;
    return this.#link.call((remote, port) => remote.measure(Comlink.transfer(port, [port])));
  }

  /** @param {import("./client.d.ts").TuneOptions} [options] */
  async tune(options) {
    await until(this.ready, options?.signal);
    return tune(this.#link, 0, options);
  }

  get alive() {
    return this.#link.dead === null;
  }

  close() {
    this.#link.die("Rushlight was closed", "Call createRushlight() to start it again.");
  }
}

/** @param {Link} link @param {number} id @param {import("./client.d.ts").TuneOptions} [options]
 *  @returns {Promise<import("./client.d.ts").Tuned[]>} */
function tune(link, id, options) {
  return link.call((remote, port) => remote.tune(Comlink.transfer(port, [port]), id), options);
}

/** `promise`, or the signal's rejection if that comes first.
 *  @template T @param {Promise<T>} promise @param {AbortSignal} [signal] @returns {Promise<T>} */
function until(promise, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}

/** @param {ModelSource} source @param {string | undefined} hubUrl @param {URL} base */
async function resolve(source, hubUrl, base) {
  if (source instanceof URL) return { kind: "url", url: source.href };
  if (typeof source === "string") {
    const models = new URL("../models/", base).href; // for the bare name of one of this site's
    return sourceOf(source, { base: document.baseURI, models, hubUrl });
  }
  if (Symbol.iterator in source) {
    const files = [...source].map((file) =>
      "blob" in file ? file : { path: file.webkitRelativePath || file.name, blob: file },
    );
    return { kind: "local", files };
  }
  return { kind: "local", files: await walk(source, "") };
}

/** @param {FileSystemDirectoryHandle} folder @param {string} prefix
 *  @returns {Promise<{ path: string, blob: Blob }[]>} */
async function walk(folder, prefix) {
  const files = [];
  for await (const [name, handle] of /** @type {any} */ (folder).entries()) {
    if (handle.kind === "file") files.push({ path: prefix + name, blob: await handle.getFile() });
    else if (prefix === "") files.push(...(await walk(handle, `${name}/`)));
  }
  return files;
}

/** What the page itself sees of WebGPU; `adapter` of a runtime asks its worker. */
export const adapter = ask;

/** @param {CreateOptions} [options] */
export function openRushlight(options = {}) {
  return new Runtime(options);
}

/** @param {CreateOptions} [options] @returns {Promise<import("./client.d.ts").Rushlight>} */
export async function createRushlight(options = {}) {
  const runtime = new Runtime(options);
  await runtime.ready;
  return runtime;
}
