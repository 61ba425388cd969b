// The contenders of minilm_cpu.py and minilm_webgpu.py in one page: Rushlight in its worker, and
// onnxruntime-web.

export {};

const MODULES = new URL("./node_modules/", location.href).href;

/** @typedef {(given: any[]) => Promise<number[][]>} Encode */

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

/** @type {Record<string, (device: string) => Promise<Encode>>} */
const contenders = {
  async rushlight(device) {
    const { createRushlight } = await import(new URL("./rushlight/client.js", location.href).href);
    rl = await createRushlight();
    const model = await rl.load("./models/all-minilm-l6-v2/", { device });
    return (texts) => model.encode(texts);
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
    return async (encoded) => {
      const order = encoded.map((_, i) => i).sort((i, j) => encoded[j].length - encoded[i].length);
      /** @type {number[][]} */
      const found = [];
      for (let start = 0; start < order.length; start += 32) {
        const rows = order.slice(start, start + 32);
        const length = encoded[rows[0]].length;
        const [ids, mask] = [0, 1].map(() => new Int32Array(rows.length * length));
        rows.forEach((row, place) => {
          ids.set(encoded[row], place * length);
          mask.fill(1, place * length, place * length + encoded[row].length);
        });
        const shape = [rows.length, length];
        const { vectors } = await session.run({
          ids: new ort.Tensor("int32", ids, shape),
          mask: new ort.Tensor("int32", mask, shape),
        });
        rows.forEach((row, place) => {
          found[row] = vectors.data.subarray(place * 384, (place + 1) * 384);
        });
      }
      return found;
    };
  },
};

/** @type {Record<string, Encode>} */
const ready = {};

/** @param {string[]} names @param {string} device */
async function open(names, device = "cpu") {
  for (const name of names) ready[name] = await contenders[name](device);
  return rl ? rl.info() : {};
}

/** Seconds and vectors. @param {string} name @param {any[]} given  texts for us, ids for others */
async function encode(name, given) {
  const began = performance.now();
  const vectors = await ready[name](given);
  return { seconds: (performance.now() - began) / 1000, vectors: vectors.map((v) => [...v]) };
}

/** MB of WebAssembly memory. */
async function memory() {
  const bytes = [...memories].reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  return ((rl ? (await rl.info()).heapBytes : 0) + bytes) / 2 ** 20;
}

Object.assign(window, { bench: { open, encode, memory } });
