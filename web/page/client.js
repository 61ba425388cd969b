// client.js: Rushlight for a page. Starts the worker, and offers its jobs as promises, async
// generators and errors with hints. See client.d.ts for the types.

import { ask } from "../gpu/adapter.js";
import { Inspection } from "./inspection.js";
import { languageModel } from "./languagemodel.js";
import { Link, until } from "./link.js";
import { Live } from "./live.js";
import { openai } from "./openai.js";
import { pipe, rowsOf, run, stream } from "./tasks.js";
import { sourceOf } from "../loading/listing.js";

/**
 * @typedef {import("./client.d.ts").ModelSource} ModelSource
 * @typedef {import("./client.d.ts").CreateOptions} CreateOptions
 */

const BATCH_SIZE = 8;
const DEVICES = ["cpu", "webgpu", "auto"];
// How products with quantized weights may be computed.
const LINEAR = ["exact", "fast", "float16", "int8"];

export { RushlightError } from "./link.js";
export { captureAudio } from "./live.js";

/** @implements {import("./client.d.ts").Model} */
class Model {
  #link;
  #id;
  #base;

  /** @param {Link} link @param {any} made @param {URL} base */
  constructor(link, { id, name, modelType, tasks, parameters, device, seconds, ...more }, base) {
    this.#link = link;
    this.#id = id;
    this.#base = base;
    this.name = name;
    this.modelType = modelType;
    this.tasks = tasks;
    this.parameters = parameters;
    this.device = device;
    this.adapter = more.adapter;
    this.kernels = more.kernels;
    this.linear = more.linear;
    this.why = more.why;
    this.seconds = seconds;
    this.contextLength = more.contextLength;
    this.chatTemplate = more.chatTemplate;
    this.thinkingSwitch = more.thinkingSwitch;
    this.toolsInTemplate = more.toolsInTemplate;
  }

  /** @param {string | number[]} prompt
   *  @param {import("./client.d.ts").GenerateOptions} [options] */
  generate(prompt, options) {
    return stream(this.#link, this.#id, "text-generation", prompt, { ...options });
  }

  /** @param {import("./client.d.ts").ChatMessage[]} messages
   *  @param {import("./client.d.ts").ChatOptions} [options] */
  chat(messages, options) {
    return stream(this.#link, this.#id, "chat", messages, { ...options });
  }

  /** @param {string | string[]} texts @param {import("./client.d.ts").EncodeOptions} [options]
   *  @returns {Promise<Float32Array[]>} */
  async encode(texts, options) {
    const list = typeof texts === "string" ? [texts] : [...texts];
    const given = { batchSize: BATCH_SIZE, ...options };
    return rowsOf(await run(this.#link, this.#id, "feature-extraction", list, given));
  }

  /** @param {string} task @param {Record<string, unknown>} [defaults] @returns {Promise<any>} */
  async pipeline(task, defaults = {}) {
    const found = await this.#link.call("task", [this.#id, task]);
    return pipe(this.#link, this.#id, found, this, defaults);
  }

  /** @param {string | import("./client.d.ts").ChatMessage[]} prompt
   *  @param {import("./client.d.ts").TemplateOptions} [options] @returns {Promise<number>} */
  tokenCount(prompt, options = {}) {
    return this.#link.call("tokenCount", [this.#id, prompt, options]);
  }

  /** @param {Iterable<string> | AsyncIterable<string>} texts
   *  @param {import("./client.d.ts").EncodeOptions} [options]
   *  @returns {AsyncGenerator<Float32Array, void, void>} */
  async *encodeStream(texts, { batchSize = BATCH_SIZE, onProgress, signal, ...others } = {}) {
    const control = new AbortController();
    const both = signal ? AbortSignal.any([signal, control.signal]) : control.signal;
    let done = 0;
    try {
      /** @type {string[]} */
      let batch = [];
      for await (const text of texts) {
        batch.push(text);
        if (batch.length < batchSize) continue;
        yield* await this.encode(batch, { ...others, batchSize, signal: both });
        onProgress?.({ stage: "encode", done: (done += batch.length), total: NaN });
        batch = [];
      }
      if (batch.length) yield* await this.encode(batch, { ...others, batchSize, signal: both });
    } finally {
      control.abort(); // a consumer that left: nothing goes on behind its back
    }
  }

  /** @param {ModelSource} source @param {import("./client.d.ts").AdapterOptions} [options] */
  async addAdapter(source, { name = "default", hubUrl, signal, onProgress } = {}) {
    const where = await resolve(source, hubUrl, this.#base);
    await this.#link.call("addAdapter", [this.#id, where, name], { signal, onProgress });
  }

  /** @param {import("./live.d.ts").LiveOptions} [options] */
  transcribeLive(options) {
    return new Live(this.#link, this.#id, options);
  }

  /** @param {string | string[]} names @returns {Promise<void>} */
  setAdapters(names) {
    return this.#link.call("setAdapters", [this.#id, [names].flat()]);
  }

  /** @param {object[]} rows @param {import("./client.d.ts").FinetuneOptions} [options]
   *  @returns {Promise<number[]>} */
  finetune(rows, { name = "default", signal, onProgress, ...given } = {}) {
    const chosen = { name, ...given };
    return this.#link.call("finetune", [this.#id, rows, chosen], { signal, onProgress });
  }

  /** @param {string} [name] @returns {Promise<Record<string, Uint8Array<ArrayBuffer>>>} */
  adapterFiles(name = "default") {
    return this.#link.call("adapterFiles", [this.#id, name]);
  }

  /** @param {import("./client.d.ts").AutotuneOptions} [options]
   *  @returns {Promise<import("./client.d.ts").Tuned[]>} */
  autotune(options) {
    return this.#link.call("autotune", [this.#id], options);
  }

  /** @template T @param {() => Promise<T>} work */
  async profile(work) {
    const call = (/** @type {string} */ what) => this.#link.call("profile", [this.#id, what]);
    await call("begin");
    let value;
    try {
      value = await work();
    } catch (error) {
      await call("end").catch(() => {}); // the first error is the one to report
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
  #begin;
  /** @type {Promise<void> | null} */
  #ready = null;

  /** @param {CreateOptions} options */
  constructor({ onProgress, signal, runtimeUrl, lazy = false }) {
    const given = runtimeUrl === undefined ? "./" : String(runtimeUrl).replace(/\/?$/, "/");
    this.#base = new URL(given, runtimeUrl === undefined ? import.meta.url : document.baseURI);
    this.#link = new Link(this.#base);
    this.#begin = () => this.#link.call("start", [], { signal, onProgress });
    if (!lazy) void this.ready;
    this.cache = {
      /** @returns {Promise<import("./client.d.ts").CachedFile[]>} */
      list: () => this.#link.call("cacheList"),
      /** @param {string} [prefix] @returns {Promise<number>} */
      clear: (prefix = "") => this.#link.call("cacheClear", [prefix]),
    };
  }

  /** @param {ModelSource} source @param {{ hubUrl?: string, signal?: AbortSignal }} [options] */
  async describe(source, { hubUrl, signal } = {}) {
    const where = await resolve(source, hubUrl, this.#base);
    return this.#link.call("describe", [where], { signal });
  }

  /** @param {ModelSource} source @param {import("./inspection.d.ts").InspectOptions} [options] */
  async inspect(source, { hubUrl, signal, onProgress, vocabulary = true } = {}) {
    const where = await resolve(source, hubUrl, this.#base);
    await until(this.ready, signal);
    const facts = await this.#link.call("inspect", [where, vocabulary], { signal, onProgress });
    return new Inspection(this.#link, facts);
  }

  /** @param {ModelSource} source @param {import("./client.d.ts").LoadOptions} [options] */
  async load(source, { hubUrl, signal, onProgress, ...given } = {}) {
    const { device = "cpu", linear = "fast", dtype, format, memoryBudget, context } = given;
    const { prefixCache } = given;
    if (!DEVICES.includes(device)) {
      const known = DEVICES.join(", ");
      throw new RangeError(`load: device "${device}" is not supported; supported: ${known}`);
    }
    if (!LINEAR.includes(linear)) {
      const known = LINEAR.join(", ");
      throw new RangeError(`load: linear "${linear}" is not supported; supported: ${known}`);
    }
    if (context !== undefined && !(Number.isInteger(context) && context > 0)) {
      throw new RangeError(`load: context is ${context}; it must be a whole number of tokens`);
    }
    if (prefixCache !== undefined && !(Number.isInteger(prefixCache) && prefixCache > 0)) {
      throw new RangeError(`load: prefixCache is ${prefixCache}; it must be a number of bytes`);
    }
    if (![undefined, "onnx"].includes(format)) {
      throw new RangeError(`load: format "${format}" is not supported; supported: onnx`);
    }
    const options = { device, dtype, format, memoryBudget, linear, context, prefixCache };
    const where = await resolve(source, hubUrl, this.#base);
    await until(this.ready, signal);
    const made = await this.#link.call("load", [where, options], { signal, onProgress });
    return new Model(this.#link, made, this.#base);
  }

  /** @param {string} task @param {ModelSource | Model} source
   *  @param {import("./client.d.ts").LoadOptions & Record<string, unknown>} [options]
   *  @returns {Promise<any>} */
  async pipeline(task, source, options = {}) {
    const { device, linear, dtype, format, memoryBudget, context, hubUrl, ...rest } = options;
    const { signal, onProgress, prefixCache, ...given } = rest;
    if (source instanceof Model) return source.pipeline(task, given);
    await until(this.ready, signal);
    await this.#link.call("task", [0, task]); // refuses an unknown task before anything is loaded
    const model = await this.load(source, options);
    return model.pipeline(task, given).catch(async (error) => {
      await model.dispose();
      throw error;
    });
  }

  /** @param {Model} model @returns {import("./openai.d.ts").OpenAI} */
  openai(model) {
    return /** @type {any} */ (openai(model));
  }

  /** @param {Model} model @returns {import("./openai.d.ts").LanguageModel} */
  languageModel(model) {
    return languageModel(model);
  }

  /** @param {Model} model @param {import("./live.d.ts").LiveOptions} [options] */
  transcribeLive(model, options) {
    return model.transcribeLive(options);
  }

  /** @param {import("./live.d.ts").Transcript} result @param {string} form
   *  @returns {Promise<string>} */
  async subtitles(result, form) {
    await this.ready;
    return this.#link.call("subtitles", [form, result]);
  }

  /** @param {string} code @param {import("./client.d.ts").PythonOptions} [options]
   *  @returns {Promise<import("./client.d.ts").PythonError | null>} */
  async python(code, { device = "cpu", onOutput } = {}) {
    await this.ready;
    return this.#link.call("python", [code, device], { onProgress: onOutput });
  }

  /** @param {string} code @param {number} position
   *  @returns {Promise<import("./client.d.ts").Completions>} */
  async complete(code, position) {
    await this.ready;
    return this.#link.call("complete", [code, position]);
  }

  /** @param {Record<string, string>} sources
   *  @returns {Promise<import("./client.d.ts").PythonModules>} */
  async modules(sources) {
    await this.ready;
    await this.#link.call("modules", [sources]);
    return {
      call: (name, args = [], { now = false, signal, onProgress } = {}) =>
        this.#link.call("call", [name, args, now], { signal, onProgress }),
    };
  }

  /** @param {string | URL} url @param {import("./client.d.ts").FileOptions} [options]
   *  @returns {Promise<Uint8Array<ArrayBuffer>>} */
  async file(url, { sha256, size, signal, onProgress } = {}) {
    await until(this.ready, signal);
    const full = new URL(url, document.baseURI);
    const file = { path: full.pathname.split("/").pop() ?? "", url: full.href, sha256, size };
    return this.#link.call("file", [file], { signal, onProgress });
  }

  /** @returns {Promise<import("./client.d.ts").TaskInfo[]>} */
  async tasks() {
    await this.ready;
    return this.#link.call("tasks");
  }

  /** @returns {Promise<import("./client.d.ts").Adapter>} */
  adapter() {
    return this.#link.call("adapter");
  }

  async info() {
    await this.ready;
    const [facts, webgpu] = await Promise.all([
      this.#link.call("info"),
      this.adapter(),
    ]);
    const cores = navigator.hardwareConcurrency ?? 1;
    return { ...facts, webgpu: webgpu.name, cores, device: `CPU, ${facts.kernels}` };
  }

  async measure() {
    await this.ready;
    return this.#link.call("measure");
  }

  /** @param {import("./client.d.ts").AutotuneOptions} [options] */
  async autotune(options) {
    await until(this.ready, options?.signal);
    return this.#link.call("autotune", [0], options);
  }

  /** Starts Python, if it was not started. @returns {Promise<void>} */
  get ready() {
    if (!this.#ready) {
      this.#ready = this.#begin().catch((error) => {
        this.#link.die(error.message);
        throw error;
      });
      this.#ready.catch(() => {}); // reported by whoever awaits it, and by every call
    }
    return this.#ready;
  }

  /** Whether Python was started. */
  get started() {
    return this.#ready !== null;
  }

  get alive() {
    return this.#link.dead === null;
  }

  close() {
    this.#link.die("Rushlight was closed", "Call createRushlight() to start it again.");
  }
}

/** @param {ModelSource} source @param {string | undefined} hubUrl @param {URL} base */
async function resolve(source, hubUrl, base) {
  if (source instanceof URL) return { kind: "url", url: source.href };
  if (typeof source === "string") {
    const models = new URL("../models/", base).href; // where the bare name of a site's model is
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

/** The adapter that the page sees. `adapter` of a runtime asks its worker. */
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
