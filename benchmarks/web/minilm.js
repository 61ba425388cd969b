// The contenders of minilm_cpu.py, minilm_webgpu.py and reranking.py in one page: Rushlight in its
// worker, and onnxruntime-web.

export {};

const MODULES = new URL("./node_modules/", location.href).href;

/**
 * Rushlight gets texts and, to rank them, a query; others get rows of token ids, and of segments
 * where pairs are ranked. Gives a vector or a score of each.
 * @typedef {(given: any[], query: any) => Promise<ArrayLike<number>[]>} Job
 */

/** The memories of this page's WebAssembly modules. @type {Set<WebAssembly.Memory>} */
const memories = new Set();
const instantiate = WebAssembly.instantiate;
/** @param {any[]} given */
WebAssembly.instantiate = async (...given) => {
  const found = await /** @type {any} */ (instantiate)(...given);
  for (const value of Object.values((found.instance ?? found).exports)) {
    if (value instanceof WebAssembly.Memory) memories.add(value);
  }
  return found;
};
/** @type {any} */
let rl = null;

/** @type {Record<string, (device: string, folder: string) => Promise<Job>>} */
const contenders = {
  async rushlight(device, folder) {
    const { createRushlight } = await import(new URL("./rushlight/client.js", location.href).href);
    rl = await createRushlight();
    const model = await rl.load(folder, { device });
    const ranks = model.tasks.includes("text-ranking");
    const pipe = ranks && (await model.pipeline("text-ranking", { functionToApply: "none" }));
    return async (texts, query) => {
      if (!pipe) return model.encode(texts);
      const scores = [];
      for (const row of await pipe(texts, { query })) scores[row.corpusId] = [row.score];
      return scores;
    };
  },

  async "onnxruntime-web"(device) {
    const kind = device === "cpu" ? "wasm" : device;
    const ort = await import(`${MODULES}onnxruntime-web/dist/ort.${kind}.bundle.min.mjs`);
    ort.env.wasm.wasmPaths = `${MODULES}onnxruntime-web/dist/`;
    ort.env.wasm.numThreads = 1;
    const session = await ort.InferenceSession.create("./minilm.onnx", {
      executionProviders: [kind],
      graphOptimizationLevel: "all",
    });
    return async (encoded, segments) => {
      const order = encoded.map((_, i) => i).sort((i, j) => encoded[j].length - encoded[i].length);
      /** @type {number[][]} */
      const found = [];
      for (let start = 0; start < order.length; start += 32) {
        const rows = order.slice(start, start + 32);
        const length = encoded[rows[0]].length;
        const [ids, mask, kinds] = [0, 1, 2].map(() => new Int32Array(rows.length * length));
        rows.forEach((row, place) => {
          ids.set(encoded[row], place * length);
          mask.fill(1, place * length, place * length + encoded[row].length);
          if (segments) kinds.set(segments[row], place * length);
        });
        /** @param {Int32Array} values */
        const tensor = (values) => new ort.Tensor("int32", values, [rows.length, length]);
        const more = segments ? { segments: tensor(kinds) } : {};
        const made = await session.run({ ids: tensor(ids), mask: tensor(mask), ...more });
        const { data } = made.vectors ?? made.logits;
        const width = data.length / rows.length;
        rows.forEach((row, place) => {
          found[row] = data.subarray(place * width, (place + 1) * width);
        });
      }
      return found;
    };
  },
};

/** @type {Record<string, Job>} */
const ready = {};
/** What the last sample of each gave. @type {Record<string, ArrayLike<number>[]>} */
const last = {};

/** @param {string[]} names @param {string} device @param {string} folder */
async function open(names, device = "cpu", folder = "./models/all-minilm-l6-v2/") {
  for (const name of names) ready[name] = await contenders[name](device, folder);
  return rl ? rl.info() : {};
}

/** Seconds. @param {string} name @param {any[]} given @param {any} query  a query or segments */
async function sample(name, given, query = null) {
  const began = performance.now();
  last[name] = await ready[name](given, query);
  return { seconds: (performance.now() - began) / 1000 };
}

/** What the last sample gave. @param {string} name */
const values = (name) => last[name].map((row) => Array.from(row));

/** MB of WebAssembly memory. */
async function memory() {
  const bytes = [...memories].reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  return ((rl ? (await rl.info()).heapBytes : 0) + bytes) / 2 ** 20;
}

Object.assign(window, { bench: { open, sample, values, memory } });
