// worker.js: Pyodide with NumPy and Rushlight in a dedicated module worker, one job at a time.
//
// The page calls `api` through Comlink. Each call that takes time brings a MessagePort. The worker
// sends progress on it, and the page sends "stop" on it, which does not wait in the queue of jobs.

import * as Comlink from "../page/comlink.js";
import { ask } from "../gpu/adapter.js";
import { adapting } from "./adapting.js";
import { inspecting } from "./inspecting.js";
import { listening } from "./listening.js";
import { Told, programming } from "./programming.js";
import { orGraphs } from "../loading/graphs.js";
import { list, modelOf } from "../loading/listing.js";
import { checkRoom, flat, measure, read } from "../loading/loader.js";
import { forget, keepFiles, keepMemory, recall, restore } from "./snapshot.js";
import * as tables from "./tables.js";
import { WeightStore } from "../loading/weights.js";

/**
 * @typedef {import("../types.d.ts").Pyodide} Pyodide
 * @typedef {import("../types.d.ts").Session} Session
 * @typedef {import("../types.d.ts").Runtime} Runtime
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {import("../loading/listing.js").Source} Source
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void,
 *   hear: () => Promise<unknown> }} Job  hear: waits for what the page sends to the job
 */

const BASE = new URL("./", import.meta.url);

/** @type {Pyodide | null} */
let py = null;
/** @type {Session | null} */
let session = null;
/** @type {Runtime | null} */
let runtime = null;
let startedIn = 0;
let idle = 0; // bytes of the heap that the runtime takes without a model
let store = new WeightStore();

/** Keeps the files for the next start; runs after the first job, when every import is done. */
let keepLater = () => {};
/** What keeps them, if Python's memory is kept. */
let keepNow = () => {};

/** @param {(message: unknown) => void} report */
async function boot(report) {
  const began = performance.now();
  report({ stage: "start", step: "runtime" });
  const about = get("runtime.json").then((response) => response.text());
  const module = import(new URL("pyodide/pyodide.mjs", BASE).href);
  await import(new URL("sha256.js", BASE).href); // a classic script, which defines a global
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
      keepNow = keeper(py, await key);
      session = py.pyimport("rushlight.web.worker.session");
    } catch (error) {
      console.warn("the snapshot of an earlier start cannot be used:", error);
      await forget();
    }
  }
  if (!session) {
    const wheel = get(description.wheel).then((response) => response.arrayBuffer());
    wheel.catch(() => {}); // reported by the await below
    py = /** @type {Pyodide} */ (await loadPyodide({ ...settings, _makeSnapshot: true }));
    opened();
    const name = await key;
    if (keepMemory(py, BASE, name)) keepLater = keepNow = keeper(py, name);
    await py.loadPackage("numpy");
    py.unpackArchive(await wheel, "wheel");
    session = py.pyimport("rushlight.web.worker.session");
  }
  session.bring_jinja(async (/** @type {string} */ name) => {
    const content = new Uint8Array(await (await get(name)).arrayBuffer());
    keepLater = keepNow; // after this job there are more files to keep
    return content;
  });
  runtime = description;
  idle = ready().py._module.HEAPU8.length;
  startedIn = (performance.now() - began) / 1000;
}

/** @param {Pyodide} py @param {string} key */
const keeper = (py, key) => () => void setTimeout(() => keepFiles(py, BASE, key), 1000);

/** Keeps the files once, after the first job. */
function afterJob() {
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
 * Runs `work` after all earlier jobs, and returns its value or its error. An error is returned as a
 * plain object, because Comlink drops its hint.
 * @param {MessagePort} port @param {(job: Job) => Promise<Reply>} work
 * @param {{ queue?: boolean }} [options] @returns {Promise<Reply>}
 */
async function perform(port, work, { queue = true } = {}) {
  const control = new AbortController();
  const told = new Told();
  port.onmessage = ({ data }) => {
    if (data === "stop") control.abort(new DOMException("stopped", "AbortError"));
    else told.put(data.told);
  };
  const report = (/** @type {unknown} */ message) => port.postMessage(message);
  const job = { signal: control.signal, report, hear: () => told.next() };
  const running = (queue ? tail : Promise.resolve()).then(() => {
    control.signal.throwIfAborted();
    return work(job);
  });
  if (queue) tail = running.catch(() => {});
  try {
    const reply = await running;
    // The reply takes another channel and may overtake the reports. "over" marks the last report.
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
    // A Python exception: `explain` gives its words, and the traceback goes to the console.
    return { ...found, ...plain(session.explain()), stack: message };
  }
  if (known.type) return { ...found, message: message.trim().split("\n").pop() ?? message };
  const fatal = /fatally failed|unreachable|memory access|out of memory/i.test(message);
  return { ...found, fatal, retry: known.retry ?? true };
}

/** Lets the event loop handle messages, such as a stop, between two batches of a computation. */
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

/** A function that Python awaits between two steps. It returns whether to stop.
 *  @param {AbortSignal} signal */
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

/** A Python dict as an object. @param {import("../types.d.ts").PyProxy} proxy */
function plain(proxy) {
  const value = proxy.toJs({ dict_converter: Object.fromEntries });
  proxy.destroy();
  return value;
}

/** Reads the files of a listing. The caller destroys the builder that holds them.
 *  @param {import("../loading/listing.js").Listing} listing @param {string} device
 *  @param {Omit<Job, "hear">} job */
async function bring(listing, device, { signal, report }) {
  const { py, session } = ready();
  const builder = session.Builder(device);
  try {
    const options = { signal, report: atMostEvery(50, report) };
    const small = await read(store, listing, flat(builder), () => py._module.HEAPU8, options);
    for (const [path, bytes] of small) builder.add_file(path, bytes);
    report({ stage: "build" });
    signal.throwIfAborted();
    return builder;
  } catch (error) {
    builder.destroy();
    throw error;
  }
}

const api = {
  /** @param {MessagePort} port */
  start: (port) =>
    perform(port, async ({ report }) => {
      await boot(report);
      return { value: true };
    }),

  /** The adapter that the worker sees. @param {MessagePort} port */
  adapter: (port) => perform(port, async () => ({ value: await ask() }), { queue: false }),

  /** @param {MessagePort} port @param {Source} source */
  describe: (port, source) =>
    perform(
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
   *  @param {{ device: string, dtype?: string | Record<string, string>, format?: string,
   *    memoryBudget?: number, linear: string, context?: number, prefixCache?: number }} options */
  load: (port, source, { device, dtype, format, memoryBudget, linear, context, prefixCache }) =>
    perform(port, async ({ signal, report }) => {
      const { session } = ready();
      const began = performance.now();
      const place = plain(await session.place(device, memoryBudget));
      const [listing, builder] = await orGraphs({ dtype, format }, async (asked) => {
        const listing = await list(store, source, signal, modelOf(asked));
        if (place.device === "cpu") checkRoom(listing, idle);
        return [listing, await bring(listing, place.device, { signal, report })];
      });
      try {
        const made = plain(await session.build(builder, dtype, linear, context, prefixCache));
        const seconds = (performance.now() - began) / 1000;
        return { value: { ...made, ...place, name: listing.name, seconds } };
      } finally {
        builder.destroy();
      }
    }),

  /** Runs a task. Reports progress and tokens, and transfers a tensor's numbers.
   *  @param {MessagePort} port @param {number} id @param {string} task @param {unknown} input
   *  @param {Record<string, unknown>} options */
  run: (port, id, task, input, options) =>
    perform(port, async ({ signal, report }) => {
      const { session } = ready();
      const tell = (/** @type {string} */ stage, /** @type {any[]} */ ...facts) => {
        if (stage === "token") report({ stage, token: facts });
        else if (stage === "piece") report({ stage, piece: plain(facts[0]) });
        else if (stage === "preview") report({ stage, preview: plain(facts[0]) });
        else report({ stage, done: facts[0], total: facts[1] });
      };
      const pause = pauseFor(signal);
      const result = await session.run(id, task, input, options, pause, tell).finally(afterJob);
      const [value, numbers] = result;
      result.destroy();
      if (!numbers) return { value: typeof value === "object" && value ? plain(value) : value };
      const view = numbers.getBuffer("f32");
      const data = view.data.slice(); // a copy: the view is the wasm memory itself
      view.release();
      numbers.destroy();
      return Comlink.transfer({ value: { data, shape: plain(value) } }, [data.buffer]);
    }),

  /** All supported tasks. @param {MessagePort} port */
  tasks: (port) => perform(port, async () => ({ value: plain(ready().session.tasks()) })),

  /** A task that a model supports. @param {MessagePort} port @param {number} id
   *  @param {string} name */
  task: (port, id, name) =>
    perform(port, async () => ({ value: plain(ready().session.task(id, name)) })),

  /** @param {MessagePort} port @param {number} id @param {string | object[]} prompt
   *  @param {object} [options] */
  tokenCount: (port, id, prompt, options) =>
    perform(port, async () => ({ value: await ready().session.token_count(id, prompt, options) })),

  /** @param {MessagePort} port @param {number} id  0 without a model */
  autotune: (port, id) =>
    perform(port, async ({ signal, report }) => {
      /** @param {number} done @param {number} total @param {string} what */
      const tell = (done, total, what) => report({ stage: "autotune", done, total, what });
      return { value: plain(await ready().session.autotune(id, pauseFor(signal), tell)) };
    }),

  /** @param {MessagePort} port @param {number} id @param {"begin" | "end" | "trace"} what */
  profile: (port, id, what) =>
    perform(port, async () => {
      const { session } = ready();
      if (what === "begin") return { value: await session.profile_begin(id) };
      if (what === "trace") return { value: session.profile_trace() };
      return { value: plain(await session.profile_end()) };
    }),

  ...listening({ perform, pauseFor, ready, afterJob }),
  ...adapting({ perform, ready, store: () => store, plain, pauseFor, bring }),

  ...programming({ perform, ready, afterJob }),

  ...inspecting({ perform, plain, ready, store: () => store, idle: () => idle }),

  /** @param {number} id */
  dispose: (id) => void session?.dispose(id),

  /** @param {MessagePort} port */
  info: (port) =>
    perform(port, async () => {
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

  /** A file, which is kept as those of models are. @param {MessagePort} port
   *  @param {import("../loading/ranges.js").FileSpec} file */
  file: (port, file) =>
    perform(
      port,
      async ({ signal, report }) => {
        const tell = atMostEvery(50, report);
        let loaded = 0;
        const onBytes = (/** @type {number} */ count) =>
          tell({ loaded: (loaded += count), total: file.size ?? null });
        const bytes = await store.bytes(file, { signal, onBytes });
        return Comlink.transfer({ value: bytes }, [bytes.buffer]);
      },
      { queue: false },
    ),

  /** @param {MessagePort} port */
  measure: (port) =>
    perform(port, async () => ({ value: { size: 384, gflops: ready().session.measure(384) } })),

  /** @param {MessagePort} port */
  cacheList: (port) => perform(port, async () => ({ value: await store.list() }), { queue: false }),

  /** @param {MessagePort} port @param {string} prefix */
  cacheClear: (port, prefix) =>
    perform(
      port,
      async () => {
        if (!prefix) await Promise.all([forget(), tables.forget()]);
        return { value: await store.clear(prefix) };
      },
      { queue: false },
    ),

  /** Holds a lock while the worker lives. Whoever acquires the lock knows that the worker ended.
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
