/** Runs the tab's tokenizers and chat templates under Node for the tests: one JSON request a line
 * on stdin, one JSON answer a line on stdout. A request is [method, ...arguments]; an answer
 * {result} or {error}.
 */

import { createInterface } from "node:readline";

const web = new URL("../../web/", import.meta.url);
const load = (/** @type {string} */ name) => import(new URL(name, web).href);
const { createTokenizer } = await load("tokenizer.js");
const library = await load("build/tokenizers.js");
const jinja = await load("build/jinja.js");
const { createTemplate } = await load("template.js");

/** @type {any[]} */
const templates = [];
/** @type {Map<string, any>} */
const tokenizers = new Map();

/** @type {Record<string, (...args: any[]) => unknown>} */
const methods = {
  load(name, json) {
    const made = createTokenizer(library, new TextEncoder().encode(json));
    tokenizers.set(name, made);
    return { vocabSize: made.vocabSize, padId: made.padId ?? null };
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
  encodeAll(name, texts) {
    tokenizers.get(name).encodeBatch(texts, true);
  },
  /** Seconds of the processor so far. */
  spent() {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [method, ...args] = JSON.parse(line);
  /** @type {{ result?: unknown, error?: string }} */
  let answer;
  try {
    answer = { result: methods[method](...args) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
