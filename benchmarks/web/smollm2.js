// The contenders of smollm2_cpu.py and billion.py in one page, each in a worker of its own:
// Rushlight, and llama.cpp (wllama's build) on one thread and on two. smollm2_webgpu.py uses
// Rushlight alone.

export {};

const MODULES = new URL("./node_modules/", location.href).href;

/** @typedef {(ids: number[], text: string, count: number, token: (text: string) => void)
 *   => Promise<Record<string, unknown>>} Generate */

/** @type {Record<string, unknown>} */
let about = {};

/** @param {number} threads */
const wllama = (threads) => async () => {
  const { Wllama } = await import(`${MODULES}@wllama/wllama/esm/index.js`);
  const peer = new Wllama(
    { default: `${MODULES}@wllama/wllama/esm/wasm/wllama.wasm` },
    { suppressNativeLog: true },
  );
  const weights = await (await fetch("./model.gguf")).blob();
  const settings = { n_threads: threads, n_gpu_layers: 0, n_ctx: 1024, n_parallel: 1 };
  await peer.loadModel([weights], { ...settings, flash_attn: true });
  if (peer.getNumThreads() !== threads) throw new Error(`wllama runs ${peer.getNumThreads()}`);
  /** @type {Generate} */
  const generate = async (ids, text, count, token) => {
    /** @type {any} */
    let timings = null;
    let used = 0;
    await peer.createCompletion({
      prompt: text,
      max_tokens: count,
      temperature: 0,
      top_k: 1,
      ignore_eos: true,
      cache_prompt: false,
      return_tokens: true,
      stream: true,
      onData: (/** @type {any} */ chunk) => {
        timings = chunk.timings ?? timings;
        used = chunk.usage?.prompt_tokens ?? used;
        if (chunk.choices[0]?.text) token(chunk.choices[0].text);
      },
    });
    const read = timings?.prompt_n ?? used;
    if (read && read !== ids.length) throw new Error(`wllama read ${read} of ${ids.length} tokens`);
    return { timings };
  };
  return generate;
};

/** @type {Record<string, (linear: string, device: string) => Promise<Generate>>} */
const contenders = {
  async rushlight(linear, device) {
    const { createRushlight } = await import(new URL("./rushlight/client.js", location.href).href);
    const rl = await createRushlight();
    const model = await rl.load("./model.gguf", { device, linear });
    about = { ...(await rl.info()), linear: model.linear ?? "exact" };
    return async (ids, _, count, token) => {
      /** @type {unknown} */
      let stats = null;
      /** @type {number[]} */
      const made = [];
      const options = {
        maxNewTokens: count,
        onToken: (/** @type {{ id: number, text: string }} */ { id, text }) => {
          made.push(id);
          token(text);
        },
        onDone: (/** @type {unknown} */ found) => (stats = found),
      };
      for await (const _ of model.generate(ids, options));
      return { stats, heapBytes: (await rl.info()).heapBytes, ids: made };
    };
  },
  "wllama, 1 thread": wllama(1),
  "wllama, 2 threads": wllama(2),
};

/** @type {Record<string, Generate>} */
const ready = {};

/** @param {string[]} names @param {string} linear @param {string} device */
async function open(names, linear, device = "cpu") {
  for (const name of names) ready[name] = await contenders[name](linear, device);
  return about;
}

/**
 * Greedy tokens: the seconds to the first, and of each later one.
 * @param {string} name @param {number[]} ids @param {string} text @param {number} count
 */
async function generate(name, ids, text, count) {
  /** @type {unknown[]} */
  const tokens = [];
  const mark = /** @type {any} */ (window).mark ?? (() => {});
  await mark();
  const began = performance.now();
  let [first, last] = [began, began];
  const more = await ready[name](ids, text, count, (token) => {
    last = performance.now();
    if (!tokens.length) {
      first = last;
      mark();
    }
    tokens.push(token);
  });
  await mark();
  return {
    prefill_seconds: (first - began) / 1000,
    decode_seconds: (last - first) / 1000 / Math.max(tokens.length - 1, 1),
    tokens,
    ...more,
  };
}

Object.assign(window, { bench: { open, generate } });
