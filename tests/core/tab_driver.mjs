/** Runs the tab's tokenizers and chat templates under Node for the tests: one JSON request a line
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
const jinja = await load("build/jinja.js");
const { createTemplate } = await load("template/template.js");

/** @type {any[]} */
const templates = [];
/** @type {Map<string, any>} */
const tokenizers = new Map();

/** @type {Record<string, (...args: any[]) => unknown>} */
const methods = {
  load(name, json) {
    const made = createTokenizer(library, new TextEncoder().encode(json));
    tokenizers.set(name, made);
    return { vocabSize: made.vocabSize, padId: made.padId ?? null, parts: made.parts };
  },
  encode(name, texts, addSpecial) {
    return [...tokenizers.get(name).encodeBatch(texts, addSpecial)];
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
  template(source) {
    const made = createTemplate(jinja, source);
    return { error: made.error, index: templates.push(made) - 1 };
  },
  render(index, packed) {
    return templates[index].render(packed);
  },
  /** What a part of the whole library gives. */
  async library(path, name, config, method, input) {
    const parts = await import(path);
    return new parts[name](config)[method](input);
  },
  encodeAll(name, texts) {
    tokenizers.get(name).encodeBatch(texts, true);
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
