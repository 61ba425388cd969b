// link.js: the page's connection to its worker, and the errors that come over it.

import * as Comlink from "./comlink.js";

/**
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {{ signal?: AbortSignal, onProgress?: (progress: any,
 *   tell: (value: unknown) => void) => void }} CallOptions  tell: sends a value to the job
 */

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

/** The connection to the worker: its calls, and what happens when it ends. */
export class Link {
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
      this.die(`the worker failed${why}`);
    });
    this.worker.addEventListener("messageerror", () => this.die("a message is unreadable"));
    void this.#watch();
  }

  /** A worker that crashed or closed itself sends no event, but it releases the lock it held. */
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
   * Runs one job of the worker. Aborting the signal rejects at once, and stops the worker at its
   * next step.
   * @param {string} name  of the worker's api @param {unknown[]} [given]
   * @param {CallOptions} [options] @returns {Promise<any>}
   */
  async call(name, given = [], { signal, onProgress } = {}) {
    signal?.throwIfAborted();
    if (this.dead) throw this.dead;
    const { port1, port2 } = new MessageChannel();
    let over = () => {};
    const reported = new Promise((resolve) => (over = () => resolve(undefined)));
    port1.onmessage = ({ data }) => {
      if (data === "over") over();
      else if (!signal?.aborted) onProgress?.(data, (told) => port1.postMessage({ told }));
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
      const started = this.remote[name](Comlink.transfer(port2, [port2]), ...given);
      started.catch(() => {}); // the race below may be over before this fails
      const reply = /** @type {Reply} */ (await Promise.race([interrupted, started]));
      if (reply.error) throw this.#failure(reply.error);
      if (reply.reported) await Promise.race([interrupted, reported]);
      return reply.value;
    } finally {
      signal?.removeEventListener("abort", stop);
      this.pending.delete(reject);
      if (!signal?.aborted) port1.close();
      else setTimeout(() => port1.close(), 0); // the "stop" message must be sent first
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
  // A worker's script must have the page's origin; the modules that it imports need not.
  const code = new Blob([`import ${JSON.stringify(url.href)};`], { type: "text/javascript" });
  return new Worker(URL.createObjectURL(code), { type: "module" });
}

/** Waits for `promise`, or rejects as soon as the signal aborts.
 *  @template T @param {Promise<T>} promise @param {AbortSignal} [signal] @returns {Promise<T>} */
export function until(promise, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}
