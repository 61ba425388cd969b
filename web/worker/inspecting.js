// inspecting.js: the worker's calls that look into weight files by ranges, without loading them.

import { find, nameOf } from "../gpu/adapter.js";
import { SMALL_FILES, encoded, list, nameAt, shardsOf } from "../loading/listing.js";
import { WeightsError } from "../loading/ranges.js";
import { Spans } from "../loading/spans.js";

/**
 * @typedef {import("../types.d.ts").Pyodide} Pyodide
 * @typedef {import("../types.d.ts").PyInspection} PyInspection
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {import("../loading/listing.js").Source} Source
 * @typedef {import("../loading/ranges.js").FileSpec} FileSpec
 * @typedef {import("../loading/weights.js").WeightStore} WeightStore
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void }} Job
 * @typedef {(port: MessagePort, work: (job: Job) => Promise<Reply>) => Promise<Reply>} Perform
 * @typedef {{ inspection: PyInspection, spans: Spans[] }} Opened
 */

const WEIGHTS = /\.(gguf|safetensors|bin|pt|pth|npz|npy)$/i;
const INDEX = /\.index\.json$/i;
const PART = /^(.*-)(\d{5})(-of-)(\d{5})(\.\w+)$/;
const MOST_PARTS = 1000;
// A list of words beside Marian's weights, by its name.
const isWeights = (/** @type {string} */ path) => WEIGHTS.test(path) && !/(^|\/)lex\./.test(path);
// For a .safetensors file that is named alone: what may lie beside it.
const BESIDE = [
  "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json",
]; // prettier-ignore

/** The files to look into. @param {WeightStore} store @param {Source} source
 *  @param {AbortSignal} signal
 *  @returns {Promise<{ name: string, small: FileSpec[], weights: FileSpec[], leftOut: number }>} */
async function filesOf(store, source, signal) {
  if (source.kind === "local") return chosen(source.files);
  const path = source.kind === "url" ? new URL(source.url).pathname : "";
  if (source.kind === "url" && WEIGHTS.test(path)) {
    // The address may be the hub's page about a file, not the file.
    const hub = /^(https:\/\/huggingface\.co\/[^/]+\/[^/]+)\/blob\//;
    const url = source.url.replace(hub, "$1/resolve/");
    const name = nameAt(source.url);
    const small = /\.gguf$/i.test(name) ? [] : await beside(store, url, signal);
    const parts = partsOf(name);
    const at = (/** @type {string} */ path) => ({ path, url: new URL(encoded(path), url).href });
    const weights = parts.length > 1 ? parts.map(at) : [{ path: name, url }];
    return { name, small, weights, leftOut: 0 };
  }
  if (source.kind === "url" && INDEX.test(path)) {
    const name = nameAt(source.url);
    const text = await store.document(source.url, signal);
    if (text === null) throw new WeightsError(`there is no ${source.url}`, { retry: false });
    const at = (/** @type {string} */ path) => ({
      path,
      url: new URL(encoded(path), source.url).href,
    });
    const small = await beside(store, source.url, signal);
    return { name, small, weights: shardsOf(text, source.url).map(at), leftOut: 0 };
  }
  const { name, files } = await list(store, source, signal);
  const weights = files.filter((file) => isWeights(file.path));
  const small = files.filter(({ path }) => !WEIGHTS.test(path) && !path.endsWith(".index.json"));
  return { name, small, weights, leftOut: 0 };
}

/** The names of all parts of a split file, by the name of one. @param {string} name */
function partsOf(name) {
  const [, start, number, of, count, end] = PART.exec(name) ?? [];
  const all = Number(count);
  if (!start || !(Number(number) >= 1 && Number(number) <= all && all <= MOST_PARTS)) return [name];
  const digits = (/** @type {number} */ n) => String(n).padStart(5, "0");
  return Array.from({ length: all }, (_, i) => `${start}${digits(i + 1)}${of}${count}${end}`);
}

/** @param {{ path: string, blob: Blob }[]} files */
async function chosen(files) {
  const named = new Map(files.map((file) => [file.path.replace(/.*\//, ""), file]));
  const all = [...named.keys()].filter((name) => isWeights(name)).sort();
  const index = named.get([...named.keys()].find((name) => INDEX.test(name)) ?? "");
  const shards = index ? shardsOf(await index.blob.text(), index.path) : [];
  const [first = [...named.keys()][0]] = [...shards, ...all];
  if (!first) throw new WeightsError("no file was chosen", { retry: false });
  const parts = shards.length ? shards : partsOf(first);
  const missing = parts.find((part) => !named.has(part));
  if (missing) {
    throw new WeightsError(`${first} is a part of a split file, and ${missing} is missing`, {
      hint: `Choose all ${parts.length} parts together.`,
      retry: false,
    });
  }
  const pick = (/** @type {string} */ path) => ({ path, blob: named.get(path)?.blob });
  const vocabularies = [...named.keys()].filter((name) => /\.spm$/.test(name));
  const small = [...SMALL_FILES, ...vocabularies].filter((name) => named.has(name)).map(pick);
  const leftOut = all.length - parts.length;
  return { name: first, small, weights: parts.map(pick), leftOut: Math.max(0, leftOut) };
}

/** The small files beside a file of weights; none if there is no config.json.
 *  @param {WeightStore} store @param {string} url @param {AbortSignal} signal */
async function beside(store, url, signal) {
  /** @type {FileSpec[]} */
  const files = [];
  for (const path of ["config.json", ...BESIDE]) {
    const text = await store.document(new URL(path, url).href, signal).catch(() => null);
    signal.throwIfAborted();
    if (text !== null && !/^\s*</.test(text)) files.push({ path, blob: new Blob([text]) });
    if (files.length === 0) break;
  }
  return files;
}

/**
 * The calls, for the worker's api.
 * @param {{ perform: Perform, plain: (proxy: import("../types.d.ts").PyProxy) => any,
 *   ready: () => { py: Pyodide }, store: () => WeightStore, idle: () => number }} worker
 */
export function inspecting({ perform, plain, ready, store, idle }) {
  /** @type {Map<number, Opened>} */
  const opened = new Map();
  let last = 0;

  /** @param {number} id */
  const known = (id) => {
    const entry = opened.get(id);
    if (!entry) throw new WeightsError("this inspection was closed; inspect the file again");
    return entry;
  };
  /** @param {import("../types.d.ts").PyProxy | undefined} proxy @returns {number[]} */
  const numbers = (proxy) => (proxy ? plain(proxy) : []);

  return {
    /** Reads the headers. @param {MessagePort} port @param {Source} source
     *  @param {boolean} vocabulary  whether to read the small files besides config.json */
    inspect: (port, source, vocabulary) =>
      perform(port, async ({ signal, report }) => {
        const module = ready().py.pyimport("rushlight.web.worker.inspecting.inspection");
        const { name, small, weights, leftOut } = await filesOf(store(), source, signal);
        const inspection = module.Inspection();
        try {
          for (const file of small) {
            if (!vocabulary && file.path !== "config.json") continue;
            inspection.add_file(file.path, await store().bytes(file, { signal }));
          }
          const spans = weights.map((file) => new Spans(file, store()));
          for (const span of spans) {
            let [offset, bytes] = [0, await span.open(signal)];
            inspection.begin(span.path, span.size);
            for (;;) {
              const read = spans.reduce((sum, { bytes }) => sum + bytes, 0);
              report({ stage: "header", file: span.path, bytes: read, size: span.size });
              const next = numbers(inspection.give(offset, bytes));
              if (next.length === 0) break;
              offset = next[0];
              bytes = await span.read(offset, next[1], signal);
            }
          }
          const facts = JSON.parse(inspection.facts());
          opened.set((last += 1), { inspection, spans });
          return { value: { ...facts, ...traffic(spans), id: last, source: name, leftOut } };
        } catch (error) {
          inspection.destroy();
          throw error;
        }
      }),

    /** Whether the file is a model, and what it takes. @param {MessagePort} port
     *  @param {number} id */
    inspectFit: (port, id) =>
      perform(port, async ({ signal }) => {
        const { inspection, spans } = known(id);
        const [part, offset, length] = numbers(inspection.frequencies());
        const values = length ? await spans[part].read(offset, length, signal) : undefined;
        const fits = JSON.parse(inspection.fit(values));
        const adapter = await find().catch(() => null);
        const { maxBufferSize = 0, maxStorageBufferBindingSize = 0 } = adapter?.limits ?? {};
        const webgpu = adapter && {
          name: nameOf(adapter.info),
          largest: Math.min(maxBufferSize, maxStorageBufferBindingSize),
        };
        return { value: { ...fits, webgpu, heapBytes: idle() } };
      }),

    /** The figures of a tensor. @param {MessagePort} port @param {number} id
     *  @param {number} number */
    inspectTensor: (port, id, number) =>
      perform(port, async ({ signal, report }) => {
        const { inspection, spans } = known(id);
        const [file, place, length] = numbers(inspection.record(number));
        const record = length ? await spans[file].read(place, length, signal) : undefined;
        const [part, ...ranges] = numbers(inspection.choose(number, record));
        const before = spans[part].bytes;
        const total = ranges.reduce((sum, n, i) => sum + (i % 2 ? n : 0), 0);
        const bytes = new Uint8Array(total);
        let at = 0;
        for (let i = 0; i < ranges.length; i += 2) {
          bytes.set(await spans[part].read(ranges[i], ranges[i + 1], signal), at);
          at += ranges[i + 1];
          report({ stage: "tensor", done: at, total });
        }
        const bytesRead = spans[part].bytes - before;
        return { value: { ...plain(inspection.figures(bytes)), bytesRead } };
      }),

    /** Tokens of the vocabulary. @param {MessagePort} port @param {number} id
     *  @param {string} search @param {number} start @param {number} count */
    inspectTokens: (port, id, search, start, count) =>
      perform(port, async () => {
        return { value: JSON.parse(known(id).inspection.tokens(search, start, count)) };
      }),

    /** The prompt that the chat template makes. @param {MessagePort} port @param {number} id
     *  @param {object[]} messages */
    inspectPrompt: (port, id, messages) =>
      perform(port, async () => ({ value: await known(id).inspection.prompt(messages) })),

    /** Forgets a file. @param {MessagePort} port @param {number} id */
    inspectClose: (port, id) =>
      perform(port, async () => {
        opened.get(id)?.inspection.destroy();
        opened.delete(id);
        return { value: true };
      }),
  };
}

/** What was read so far. @param {Spans[]} spans */
function traffic(spans) {
  return {
    bytesRead: spans.reduce((sum, { bytes }) => sum + bytes, 0),
    requests: spans.reduce((sum, { requests }) => sum + requests, 0),
  };
}
