// The contenders of onnx_web.py in one page: Rushlight in Pyodide, and onnxruntime-web.

import { MODULES, pyodide } from "./tab.js";

/** @typedef {{ dtype: string, shape: number[], file: string }} Input */
/** @typedef {{ run: (count: number) => Promise<void>, values: () => Promise<number[][]> }} Job */

const PROGRAM = `
import time
import numpy as np
import rushlight as rl

async def load(address, device):
    global module
    module = await rl.onnx.load_async(address, device=device)

def give(name, data, dtype, shape):
    given[name] = np.frombuffer(data.to_bytes(), dtype).reshape(shape.to_py())

async def run(count):
    global results
    for _ in range(count):
        found = await module.call_async(**given)
        found = found if isinstance(found, tuple) else [found]
        results = [await t.numpy_async() for t in found]

def values():
    return [np.asarray(x, np.float32).reshape(-1).tolist() for x in results]

given = {}
`;
/** @type {any} */
let py = null;

/** @param {Input} input */
async function bytesOf({ file }) {
  return (await fetch(`./${file}`)).arrayBuffer();
}

/** @type {Record<string, (file: string, inputs: Record<string, Input>, device: string) =>
 *   Promise<Job>>} */
const contenders = {
  async rushlight(file, inputs, device) {
    if (!py) {
      py = await pyodide();
      py.runPython(PROGRAM);
    }
    const at = (/** @type {string} */ name) => py.globals.get(name);
    at("given").clear();
    for (const [name, input] of Object.entries(inputs)) {
      at("give")(name, await bytesOf(input), input.dtype, input.shape);
    }
    await at("load")(new URL(file, location.href).href, device);
    return {
      run: (count) => at("run")(count),
      values: async () => at("values")().toJs(),
    };
  },

  async "onnxruntime-web"(file, inputs, device) {
    const kind = device === "cpu" ? "wasm" : device;
    const ort = await import(`${MODULES}onnxruntime-web/dist/ort.${kind}.bundle.min.mjs`);
    ort.env.wasm.wasmPaths = `${MODULES}onnxruntime-web/dist/`;
    ort.env.wasm.numThreads = 1;
    const session = await ort.InferenceSession.create(`./${file}`, {
      executionProviders: [kind],
      graphOptimizationLevel: "all",
    });
    /** @type {Record<string, any>} */
    const feeds = {};
    /** @type {Record<string, any>} */
    const arrays = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array };
    for (const [name, input] of Object.entries(inputs)) {
      const data = new arrays[input.dtype](await bytesOf(input));
      feeds[name] = new ort.Tensor(input.dtype, data, input.shape);
    }
    /** @type {any} */
    let last = null;
    return {
      run: async (count) => {
        for (let i = 0; i < count; i += 1) last = await session.run(feeds);
      },
      values: async () =>
        session.outputNames.map((/** @type {string} */ name) =>
          Array.from(last[name].data, Number),
        ),
    };
  },
};

/** @type {Record<string, Job>} */
const ready = {};

/** Loads a file and runs it once: the seconds until then.
 *  @param {string} name @param {string} file @param {Record<string, Input>} inputs
 *  @param {string} device */
async function load(name, file, inputs, device) {
  const began = performance.now();
  ready[name] = await contenders[name](file, inputs, device);
  await ready[name].run(1);
  return (performance.now() - began) / 1000;
}

/** @param {string} name @param {number} count */
async function sample(name, count) {
  const began = performance.now();
  await ready[name].run(count);
  return { seconds: (performance.now() - began) / 1000 };
}

const values = (/** @type {string} */ name) => ready[name].values();
Object.assign(window, { bench: { load, sample, values } });
