/** Runs the tab's tokenizers under Node for the tests: one JSON request a line
 * on stdin, one JSON answer a line on stdout. A request is [method, ...arguments]; an answer
 * {result} or {error}.
 */

import { Session } from "node:inspector/promises";
import { createInterface } from "node:readline";

// With "count" every block of the modules below counts how often it runs, from the start on.
const session = process.argv[2] === "count" ? new Session() : null;
if (session) {
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
}

const web = new URL("../../web/", import.meta.url);
const load = (/** @type {string} */ name) => import(new URL(name, web).href);
const { createTokenizer } = await load("tokenizer/tokenizer.js");
const library = await load("build/tokenizers.js");
const { splitParts } = await load("loading/ggufs.js");
const { ADAPTER, list, sourceOf } = await load("loading/listing.js");
const { read } = await load("loading/loader.js");

/** @type {Map<string, any>} */
const tokenizers = new Map();

/** @type {Record<string, (...args: any[]) => unknown>} */
const methods = {
  load(name, json) {
    const made = createTokenizer(library, new TextEncoder().encode(json));
    tokenizers.set(name, made);
    return { vocabSize: made.vocabSize, padId: made.padId ?? null, parts: made.parts };
  },
  encode(name, texts, addSpecial, words) {
    return [...tokenizers.get(name).encodeBatch(texts, addSpecial, words)];
  },
  join(name, tokens) {
    return tokenizers.get(name).join(tokens);
  },
  decode(name, ids, skipSpecial) {
    return tokenizers.get(name).decode(ids, skipSpecial);
  },
  tokenToId(name, token) {
    return tokenizers.get(name).tokenToId(token) ?? null;
  },
  idToToken(name, id) {
    return tokenizers.get(name).idToToken(id) ?? null;
  },
  /** What a part of the whole library gives. */
  async library(path, name, config, method, input) {
    const parts = await import(path);
    return new parts[name](config)[method](input);
  },
  encodeAll(name, texts) {
    tokenizers.get(name).encodeBatch(texts, true);
  },
  /** What the address of a model (or an adapter) stands for, on servers that have these documents
   *  only: the paths of its files, or the error's name, message and hint. */
  async listing(where, documents, adapter = false) {
    const store = {
      document: async (/** @type {string} */ url) => documents[url] ?? null,
      list: async () => [],
    };
    const base = "https://a.example/";
    globalThis.fetch = async (url) => {
      const there = documents[String(url)] !== undefined;
      return new Response(null, { status: there ? 200 : 404, headers: { "content-length": "3" } });
    };
    const source = () => sourceOf(where, { base, models: base });
    return told(async () => list(store, source(), undefined, adapter ? ADAPTER : undefined));
  },
  /** The same of files that a visitor chose. */
  async chosen(paths) {
    const files = paths.map((/** @type {string} */ path) => ({ path, blob: new Blob(["abc"]) }));
    return told(async () => list({}, { kind: "local", files }));
  },
  splitParts,
  /** Streams a file of `size` bytes that begins with `head` in chunks. Python's side gives `rows`
   *  (offset, bytes, kind, place); a write to the heap is an error. What it saw. */
  async stream(path, head, size, rows, chunk) {
    const seen = { given: 0, pulled: 0, heap: 0, checks: 0, handles: /** @type {any} */ ({}) };
    const first = new Uint8Array(chunk);
    first.set(head);
    const zeros = new Uint8Array(chunk);
    async function* body() {
      for (let at = 0; at < size; at += chunk) {
        seen.pulled = Math.min(size, at + chunk);
        yield (at ? zeros : first).subarray(0, Math.min(chunk, size - at));
      }
    }
    const builder = {
      begin(/** @type {string} */ _, /** @type {Uint8Array} */ bytes, /** @type {number} */ all) {
        Object.assign(seen, { given: bytes.length, atBegin: seen.pulled, all });
        return rows;
      },
      check: async () => void (seen.checks += 1),
      port: {
        writeBytes(/** @type {number} */ handle, /** @type {number} */ at, /** @type {any} */ b) {
          const row = (seen.handles[handle] ??= { bytes: 0, end: 0 });
          if (at !== row.end) throw new Error(`${handle}: ${at} after ${row.end}`);
          row.bytes += b.length;
          row.end = at + b.length;
        },
      },
    };
    const heap = () => void (seen.heap += 1);
    const store = { open: async () => ({ size, body: body() }), list: async () => [] };
    await read(store, { files: [{ path, size }] }, builder, heap, {});
    return seen;
  },
  /** How often the blocks of all modules ran in another method: the same on any machine. */
  async steps(method, ...args) {
    if (!session) throw new Error('start the driver with "count"');
    await session.post("Profiler.takePreciseCoverage"); // which begins at zero again
    methods[method](...args);
    const { result } = await session.post("Profiler.takePreciseCoverage");
    let steps = 0;
    for (const { url, functions } of result)
      if (url.includes("/web/"))
        for (const { ranges } of functions) for (const { count } of ranges) steps += count;
    return steps;
  },
};

/** The paths of a listing, or an error's name, message and hint.
 *  @param {() => Promise<any>} listing */
async function told(listing) {
  try {
    const { files } = await listing();
    return files.map((/** @type {{ path: string }} */ file) => file.path);
  } catch (error) {
    const { name, message, hint } = /** @type {Error & { hint?: string }} */ (error);
    return { name, message, hint };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [method, ...args] = JSON.parse(line);
  /** @type {{ result?: unknown, error?: string }} */
  let answer;
  try {
    answer = { result: (await methods[method](...args)) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
