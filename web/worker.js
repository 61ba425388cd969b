// worker.js: Pyodide with NumPy and Rushlight in a dedicated module worker, one job at a time.
//
// The page calls `api` through Comlink. Each call that takes time comes with a MessagePort of its
// own: progress goes out on it, and "stop" comes in on it, past the queue of jobs.

import * as Comlink from "./comlink.js";
import { ask } from "./adapter.js";
import { flat, list, measure, read } from "./loader.js";
import { forget, keepFiles, keepMemory, recall, restore } from "./snapshot.js";
import * as tables from "./tables.js";
import { WeightStore } from "./weights.js";

/**
 * @typedef {import("./types.d.ts").Pyodide} Pyodide
 * @typedef {import("./types.d.ts").Session} Session
 * @typedef {import("./types.d.ts").Runtime} Runtime
 * @typedef {import("./types.d.ts").Reply} Reply
 * @typedef {import("./loader.js").Source} Source
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void }} Job
 */

const BASE = new URL("./", import.meta.url);

/** @type {Pyodide | null} */
let py = null;
/** @type {Session | null} */
let session = null;
/** @type {Runtime | null} */
let runtime = null;
let startedIn = 0;
let store = new WeightStore();

/** What is left to do for the next start, once a job has shown what is imported. */
let keepLater = () => {};

/** @param {(message: unknown) => void} report */
async function boot(report) {
  const began = performance.now();
  report({ stage: "start", step: "runtime" });
  const about = get("runtime.json").then((response) => response.text());
  const module = import(new URL("pyodide/pyodide.mjs", BASE).href);
  await import(new URL("sha256.js", BASE).href); // a classic script: it leaves a global
  store = new WeightStore({ createHash: () => globalThis.hashwasm.createSHA256() });
  const key = about.then(async (text) => {
    const hash = await globalThis.hashwasm.createSHA256();
    hash.init();
    hash.update(new TextEncoder().encode(`${text}${navigator.userAgent}`));
    return hash.digest();
  });
  const kept = await recall(BASE, key);
  /** @type {Runtime} */
  const description = JSON.parse(await about);
  const { loadPyodide } = await module;
  const settings = { indexURL: new URL("pyodide/", BASE).href };
  const opened = () => report({ stage: "start", step: "library" });
  if (kept) {
    try {
      py = /** @type {Pyodide} */ (await loadPyodide({ ...settings, _loadSnapshot: kept.memory }));
      opened();
      restore(py, kept.files);
      session = py.pyimport("rushlight.web.session");
    } catch (error) {
      console.warn("the kept start does not serve:", error);
      await forget();
    }
  }
  if (!session) {
    const wheel = get(description.wheel).then((response) => response.arrayBuffer());
    wheel.catch(() => {}); // reported where it is awaited
    py = /** @type {Pyodide} */ (await loadPyodide({ ...settings, _makeSnapshot: true }));
    opened();
    const started = py;
    const name = await key;
    if (keepMemory(py, BASE, name)) {
      keepLater = () => void setTimeout(() => keepFiles(started, BASE, name), 1000);
    }
    await py.loadPackage("numpy");
    py.unpackArchive(await wheel, "wheel");
    session = py.pyimport("rushlight.web.session");
  }
  runtime = description;
  startedIn = (performance.now() - began) / 1000;
}

/** Python has imported what it computes with. */
function served() {
  keepLater();
  keepLater = () => {};
}

/** @param {string} name */
async function get(name) {
  const response = await fetch(new URL(name, BASE), { cache: "no-cache" });
  if (!response.ok) throw new Error(`${name} of the Rushlight runtime: status ${response.status}`);
  return response;
}

/** @type {Promise<unknown>} */
let tail = Promise.resolve();

/**
 * Runs `work` after all earlier jobs, and packs what comes of it (Comlink would lose a hint).
 * @param {MessagePort} port @param {(job: Job) => Promise<Reply>} work
 * @param {{ queue?: boolean }} [options] @returns {Promise<Reply>}
 */
async function run(port, work, { queue = true } = {}) {
  const control = new AbortController();
  port.onmessage = ({ data }) => {
    if (data === "stop") control.abort(new DOMException("stopped", "AbortError"));
  };
  const job = { signal: control.signal, report: (/** @type {unknown} */ m) => port.postMessage(m) };
  const turn = (queue ? tail : Promise.resolve()).then(() => {
    control.signal.throwIfAborted();
    return work(job);
  });
  if (queue) tail = turn.catch(() => {});
  try {
    const reply = await turn;
    // The reply goes another way and may overtake what was reported: this is the last of it.
    port.postMessage("over");
    reply.reported = true;
    return reply;
  } catch (error) {
    return { error: control.signal.aborted ? stopped : describe(error) };
  } finally {
    port.onmessage = null;
    port.close();
  }
}

const stopped = { name: "AbortError", message: "stopped", hint: "", fatal: false, retry: true };

/** @param {unknown} error @returns {NonNullable<Reply["error"]>} */
function describe(error) {
  const base = { name: "Error", message: String(error), hint: "", fatal: false, retry: true };
  if (!(error instanceof Error)) return base;
  const { name, message, stack } = error;
  const known = /** @type {{ hint?: string, retry?: boolean, type?: string }} */ (error);
  const found = { ...base, name, message, stack, hint: known.hint ?? "" };
  if (known.type && session && py) {
    // An exception of Python: its own words, with the traceback left to the console.
    return { ...found, ...plain(session.explain()), stack: message };
  }
  if (known.type) return { ...found, message: message.trim().split("\n").pop() ?? message };
  const fatal = /fatally failed|unreachable|memory access|out of memory/i.test(message);
  return { ...found, fatal, retry: known.retry ?? true };
}

/** Lets messages in (a stop, a progress display) between two batches of a computation. */
function breathe() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(0);
  });
}

/** What Python awaits between two steps; it says whether to stop. @param {AbortSignal} signal */
function pauseFor(signal) {
  return async () => {
    await breathe();
    return signal.aborted;
  };
}

/** @param {number} interval  milliseconds @param {(message: unknown) => void} report */
function atMostEvery(interval, report) {
  let last = -Infinity;
  return (/** @type {{ loaded: number, total: number | null }} */ message) => {
    if (message.loaded !== message.total && performance.now() - last < interval) return;
    last = performance.now();
    report(message);
  };
}

function ready() {
  if (!py || !session || !runtime) throw new Error("the runtime has not started");
  return { py, session, runtime };
}

/** A dict of Python's as an object. @param {import("./types.d.ts").PyProxy} proxy */
function plain(proxy) {
  const value = proxy.toJs({ dict_converter: Object.fromEntries });
  proxy.destroy();
  return value;
}

const api = {
  /** @param {MessagePort} port */
  start: (port) =>
    run(port, async ({ report }) => {
      await boot(report);
      return { value: true };
    }),

  /** The adapter as the worker sees it. */
  adapter: () => ask(),

  /** @param {MessagePort} port @param {Source} source */
  describe: (port, source) =>
    run(
      port,
      async ({ signal }) => {
        const listing = await list(store, source, signal);
        const { name, origin, files } = listing;
        const rows = files.map(({ path, size, blob }) => ({ path, size: size ?? blob?.size }));
        const sizes = await measure(store, listing);
        return { value: { name, origin, files: rows, ...sizes, notKept: store.refused } };
      },
      { queue: false },
    ),

  /** @param {MessagePort} port @param {Source} source
   *  @param {{ device: string, dtype?: string, memoryBudget?: number, linear: string }} options */
  load: (port, source, { device, dtype, memoryBudget, linear }) =>
    run(port, async ({ signal, report }) => {
      const { py, session } = ready();
      const began = performance.now();
      const place = plain(await session.place(device, memoryBudget));
      const listing = await list(store, source, signal);
      const builder = session.Builder(place.device);
      try {
        const options = { signal, report: atMostEvery(50, report) };
        const small = await read(store, listing, flat(builder), () => py._module.HEAPU8, options);
        for (const [path, bytes] of small) builder.add_file(path, bytes);
        report({ stage: "build" });
        signal.throwIfAborted();
        const made = plain(await session.build(builder, dtype, linear));
        const seconds = (performance.now() - began) / 1000;
        return { value: { ...made, ...place, name: listing.name, seconds } };
      } finally {
        builder.destroy();
      }
    }),

  /** @param {MessagePort} port @param {number} id @param {string[]} texts
   *  @param {{ batchSize: number }} options */
  encode: (port, id, texts, { batchSize }) =>
    run(port, async ({ signal, report }) => {
      const { session } = ready();
      const pause = pauseFor(signal);
      const progress = (/** @type {number} */ done, /** @type {number} */ total) =>
        report({ stage: "encode", done, total });
      const result = await session.encode(id, texts, batchSize, pause, progress).finally(served);
      const [array, dim] = result;
      const view = array.getBuffer("f32");
      const vectors = view.data.slice(); // a copy: the view is the wasm memory itself
      view.release();
      array.destroy();
      result.destroy();
      return Comlink.transfer({ value: { vectors, dim } }, [vectors.buffer]);
    }),

  /** @param {MessagePort} port @param {number} id @param {"generate" | "chat"} call
   *  @param {string | number[] | object[]} prompt @param {Record<string, unknown>} options */
  generate: (port, id, call, prompt, options) =>
    run(port, async ({ signal, report }) => {
      const { session } = ready();
      let index = 0;
      const tell = (/** @type {string} */ stage, /** @type {any[]} */ ...facts) => {
        if (stage === "prefill") report({ stage, done: facts[0], total: facts[1] });
        else report({ stage, index: index++, token: facts });
      };
      const pause = pauseFor(signal);
      const answer = session.generate(id, prompt, call, options, pause, tell);
      return { value: plain(await answer.finally(served)) };
    }),

  /** @param {MessagePort} port @param {number} id @param {"generate" | "chat"} call
   *  @param {string | object[]} prompt */
  tokenCount: (port, id, call, prompt) =>
    run(port, async () => {
      const ids = ready().session.prompt_ids(id, prompt, call);
      const value = ids.length;
      ids.destroy();
      return { value };
    }),

  /** @param {MessagePort} port @param {number} id  0 without a model */
  tune: (port, id) =>
    run(port, async ({ signal, report }) => {
      /** @param {number} done @param {number} total @param {string} what */
      const tell = (done, total, what) => report({ stage: "tune", done, total, what });
      return { value: plain(await ready().session.tune(id, pauseFor(signal), tell)) };
    }),

  /** @param {MessagePort} port @param {number} id @param {"begin" | "end" | "trace"} what */
  profile: (port, id, what) =>
    run(port, async () => {
      const { session } = ready();
      if (what === "begin") return { value: await session.profile_begin(id) };
      if (what === "trace") return { value: session.profile_trace() };
      return { value: plain(await session.profile_end()) };
    }),

  /** @param {number} id */
  dispose: (id) => void session?.dispose(id),

  /** @param {MessagePort} port */
  info: (port) =>
    run(port, async () => {
      const { py, session } = ready();
      const value = {
        ...plain(session.info()),
        pyodide: py.version,
        jspi: "Suspending" in WebAssembly,
        heapBytes: py._module.HEAPU8.length,
        startedIn,
        notKept: store.refused,
      };
      return { value };
    }),

  /** @param {MessagePort} port */
  measure: (port) =>
    run(port, async () => ({ value: { size: 384, gflops: ready().session.measure(384) } })),

  /** @param {MessagePort} port */
  cacheList: (port) => run(port, async () => ({ value: await store.list() }), { queue: false }),

  /** @param {MessagePort} port @param {string} prefix */
  cacheClear: (port, prefix) =>
    run(
      port,
      async () => {
        if (!prefix) await Promise.all([forget(), tables.forget()]);
        return { value: await store.clear(prefix) };
      },
      { queue: false },
    ),

  /** Holds a lock for as long as the worker lives: whoever gets it knows that the worker is gone.
   *  @param {string} name */
  async hold(name) {
    if (!navigator.locks) return false;
    await new Promise((held) => {
      navigator.locks.request(name, () => {
        held(undefined);
        return new Promise(() => {});
      });
    });
    return true;
  },
};

Comlink.expose(api);
