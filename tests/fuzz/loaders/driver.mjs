/** The page's loaders under Node for worker.py: one JSON request a line on stdin, one
 * JSON answer a line on stdout. A request is [method, ...arguments]; an answer {result}, {error}
 * with the error's class, message and stack, or {call} where the loader calls Python: the next line
 * of stdin is what Python says to that, {result} or {error}.
 */

import { readSync, writeSync } from "node:fs";

const web = new URL("../../../web/", import.meta.url);
const shared = new URL("../../../site/shared/", import.meta.url);
const { ADAPTER, list, shardsOf, sourceOf } = await import(new URL("loading/listing.js", web).href);
const { checkRoom, measure, read } = await import(new URL("loading/loader.js", web).href);
const { WeightStore } = await import(new URL("loading/weights.js", web).href);
const { Spans } = await import(new URL("loading/spans.js", web).href);
const { createTokenizer } = await import(new URL("tokenizer/tokenizer.js", web).href);
const library = await import(new URL("build/tokenizers.js", web).href);
const BASE = "https://a.example/m/";
// Of a page, which the modules below expect.
const nothing = () => null;
/** @type {any} */
const page = globalThis;
page.addEventListener = nothing;
page.matchMedia = () => ({ matches: false, addEventListener: nothing });
page.location = { href: BASE, origin: "https://a.example" };
page.document = {
  addEventListener: nothing, dispatchEvent: nothing, documentElement: { dataset: {} },
  getElementById: nothing, querySelector: nothing, querySelectorAll: () => [],
}; // prettier-ignore
const { bitmapOf } = await import(new URL("opening/picture.js", shared).href);
const { textOf } = await import(new URL("opening/text.js", shared).href);

const input = Buffer.alloc(1 << 16);
let rest = Buffer.alloc(0);

/** The next line of stdin; null at its end. Nothing else runs while it waits, as in a worker. */
function line() {
  for (;;) {
    const at = rest.indexOf(10);
    if (at >= 0) {
      const text = rest.toString("utf8", 0, at);
      rest = rest.subarray(at + 1);
      return text;
    }
    const count = readSync(0, input);
    if (!count) return null;
    rest = Buffer.concat([rest, input.subarray(0, count)]);
  }
}

/** @param {unknown} value */
const say = (value) => void writeSync(1, JSON.stringify(value) + "\n");

class PythonError extends Error {}

/** What Python gives for a call. @param {string} name @param {...unknown} given */
function python(name, ...given) {
  const plain = given.map((one) =>
    one instanceof Uint8Array ? { bytes: Buffer.from(one).toString("base64") } : one,
  );
  say({ call: [name, ...plain] });
  const { result, error } = JSON.parse(line() ?? '{"error":["Ended",""]}');
  if (error) throw Object.assign(new PythonError(error[1]), { type: error[0] });
  return result;
}

/** A server that has one file and, as `how` says, does not keep to what it should.
 *  @param {Buffer} content @param {any} how */
function serve(content, how) {
  page.fetch = async (/** @type {unknown} */ _, /** @type {any} */ options = {}) => {
    const { method = "GET", headers = {} } = options;
    const asked = /bytes=(\d+)-(\d*)/.exec(headers.Range ?? "");
    let [from, to] = [Number(asked?.[1] ?? 0), content.length];
    if (asked?.[2]) to = Math.min(to, Number(asked[2]) + 1);
    const partial = asked && how.ranges !== false;
    if (partial && from >= content.length) return new Response(null, { status: 416 });
    if (!partial) [from, to] = [0, content.length];
    let body = content.subarray(from, to);
    if (how.cut) body = body.subarray(0, Math.floor(body.length * how.cut));
    if (how.more) body = Buffer.concat([body, Buffer.alloc(how.more, 7)]);
    /** @type {Record<string, string>} */
    const told = { etag: how.etag ?? '"1"' };
    if (how.length !== null) told["content-length"] = String(how.length ?? to - from);
    if (how.encoding) told["content-encoding"] = how.encoding;
    if (partial && how.range !== null) {
      told["content-range"] = how.range ?? `bytes ${from}-${to - 1}/${content.length}`;
    }
    const step = how.step ?? 1 << 16;
    /** @type {Buffer[]} */
    const pieces = [];
    for (let at = 0; at < body.length; at += step) pieces.push(body.subarray(at, at + step));
    let sent = 0; // a shift of a long array moves all of it
    const stream = new ReadableStream({
      pull(control) {
        const next = pieces[sent++];
        if (next) control.enqueue(new Uint8Array(next));
        else if (how.breaks) control.error(new TypeError("network error"));
        else control.close();
      },
    });
    return new Response(method === "HEAD" ? null : stream, {
      status: partial ? 206 : (how.status ?? 200),
      headers: told,
    });
  };
}

/** Python's Builder, a call at a time, as `flat` in loader.js wraps it. @type {any} */
const builder = {
  begin: (/** @type {unknown[]} */ ...given) => python("begin", ...given),
  look: (/** @type {unknown[]} */ ...given) => python("look", ...given),
  beginStored: () => python("begin_stored"),
  open: () => python("open"),
  commit: () => python("commit"),
  check: async () => {},
  port: null,
};
/** The memory of the tab: Python checks every address. */
const heap = () => ({
  set: (/** @type {Uint8Array} */ bytes, /** @type {number} */ at) => python("write", bytes, at),
});

/** @type {Record<string, (...args: any[]) => unknown>} */
const methods = {
  /** Loads files; `how` tells what a server does, and null that they are chosen by the visitor. */
  async load(files, how) {
    const listed = [];
    for (const { path, bytes, ...more } of files) {
      const content = Buffer.from(bytes, "base64");
      if (how) serve(content, how);
      const place = how ? { url: BASE + path } : { blob: new Blob([content]) };
      listed.push({ path, ...place, ...more });
    }
    const store = new WeightStore();
    const listing = { name: "m", origin: "local", files: listed };
    await measure(store, listing);
    checkRoom(listing, 1 << 25);
    for (const [path, bytes] of await read(store, listing, builder, heap, {})) {
      python("add_file", path, bytes);
    }
    return true;
  },
  /** Reads ranges, as the page Inspect. */
  async spans(bytes, how, size, ranges) {
    const content = Buffer.from(bytes, "base64");
    serve(content, how);
    const spans = new Spans({ path: "m.gguf", url: `${BASE}m.gguf`, size });
    await spans.open();
    for (const [from, count] of ranges) await spans.read(from, count);
    return spans.size;
  },
  /** What an address or a name stands for, on servers that have these documents only. */
  async listing(where, documents, adapter) {
    page.fetch = async (/** @type {unknown} */ url, { method = "GET" } = {}) => {
      const text = documents[String(url)];
      if (text === undefined) return new Response(null, { status: 404 });
      return new Response(method === "HEAD" ? null : text, { headers: { "content-length": "3" } });
    };
    const source = sourceOf(where, { base: BASE, models: BASE });
    const what = adapter ? ADAPTER : undefined;
    return checkedFiles(await list(new WeightStore(), source, undefined, what));
  },
  async chosen(paths) {
    const files = paths.map((/** @type {string} */ path) => ({ path, blob: new Blob(["abc"]) }));
    return checkedFiles(await list(new WeightStore(), { kind: "local", files }));
  },
  index: (text) => shardsOf(text, `${BASE}model.safetensors.index.json`),
  tokenizer(text, texts, ids) {
    const made = createTokenizer(library, Buffer.from(text, "base64"));
    python("check", made.parts);
    const rows = [...made.encodeBatch(texts, true)];
    made.decode(ids, false);
    made.decode(rows.slice(1, 1 + rows[0]), true);
    return rows;
  },
  async picture(bytes) {
    page.createImageBitmap = async () => ({ width: 1, height: 1, close() {} });
    return (await bitmapOf(new File([Buffer.from(bytes, "base64")], "a file"))).width;
  },
  async text(bytes) {
    return (await textOf(new File([Buffer.from(bytes, "base64")], "a file"), 1000)).text.length;
  },
  /** Bytes that this process has in memory. */
  memory: () => process.memoryUsage().rss,
};

/** @param {any} listing */
function checkedFiles({ name, files }) {
  if (typeof name !== "string") throw new TypeError(`the name is a ${typeof name}`);
  for (const { path, size, url, blob, parts } of files) {
    if (typeof path !== "string") throw new TypeError(`a path is a ${typeof path}`);
    if (size !== undefined && !(Number.isSafeInteger(size) && size >= 0)) {
      throw new RangeError(`${path} has ${size} bytes`);
    }
    if (!blob && !url && !parts) throw new TypeError(`${path} is nowhere`);
  }
  return files.map((/** @type {{ path: string }} */ file) => file.path);
}

for (let text = line(); text !== null; text = line()) {
  const [method, ...args] = JSON.parse(text);
  try {
    say({ result: (await methods[method](...args)) ?? null });
  } catch (error) {
    const { constructor, message, stack, type, hint } = /** @type {any} */ (error);
    say({ error: { kind: constructor.name, message, stack, type, hint: hint ?? null } });
  }
}
