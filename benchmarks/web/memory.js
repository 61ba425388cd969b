// The memory of a model in this page, step by step: the runtime, a model on a device, an answer.

export {};

/** @type {any} */
let rl = null;
/** @type {any} */
let model = null;

const bench = {
  async start() {
    const { createRushlight } = await import(new URL("./rushlight/client.js", location.href).href);
    rl = await createRushlight();
    return bench.heap();
  },
  async heap() {
    return (await rl.info()).heapBytes;
  },
  /** @param {string} device @param {number} context */
  async load(device, context) {
    model = await rl.load("./model.gguf", { device, context });
    return bench.heap();
  },
  /** Greedy tokens after a prompt. @param {number[]} ids @param {number} count */
  async answer(ids, count) {
    for await (const _ of model.generate(ids, { maxNewTokens: count }));
    return bench.heap();
  },
};

Object.assign(window, { bench });
