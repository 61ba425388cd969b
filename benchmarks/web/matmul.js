// The contenders of matmul_web.py and matmul_cpu.py in one page, each on a WebGPU device of its
// own, or each in WebAssembly on one thread.
//
// make(n, k, m, a, b) returns three functions: `once` multiplies operands on the device and waits
// for the product, `output` reads the last product, and `free` frees all.

import { MODULES, numbers, pyodide, script } from "./tab.js";

/**
 * @typedef {{ once: () => Promise<unknown>, output: () => Promise<Float32Array>,
 *   free: () => unknown }} Task
 * @typedef {(n: number, k: number, m: number, a: Float32Array<ArrayBuffer>,
 *   b: Float32Array<ArrayBuffer>) => Promise<Task>} Make
 */

/** @type {Record<string, string>} */
let versions = {};
/** "webgpu" or "cpu". */
let kind = "webgpu";

const PYTHON = `
import json, platform
import numpy as np
import rushlight as rl
from pyodide.ffi import to_js

device = rl.device(kind)

def start(n, k, m, a, b):
    global x, y
    x, y = (
        rl.from_numpy(np.frombuffer(v.to_bytes(), np.float32).reshape(shape)).to(kind)
        for v, shape in ((a, (n, k)), (b, (k, m)))
    )

def step():
    global z
    z = x @ y
    device.synchronize()

def read():
    return to_js(z.numpy().reshape(-1))

def drop():
    global x, y, z
    del x, y, z

kernels = rl.device("cpu").info["kernels"]
about = json.dumps({"python": platform.python_version(), "numpy": np.__version__,
                    "rushlight": rl.version.rushlight, "kernels": kernels,
                    "adapter": "" if kind == "cpu" else device.info["device"]})
`;

/** onnxruntime-web on the CPU, which copies operands and product. @returns {Promise<Make>} */
async function onnxOnCpu() {
  const ort = await import(`${MODULES}onnxruntime-web/dist/ort.wasm.bundle.min.mjs`);
  ort.env.wasm.wasmPaths = `${MODULES}onnxruntime-web/dist/`;
  ort.env.wasm.numThreads = 1;
  return async (n, k, m, a, b) => {
    const session = await ort.InferenceSession.create(`./models/${n}x${k}x${m}.onnx`, {
      executionProviders: ["wasm"],
      graphOptimizationLevel: "all",
    });
    const given = {
      a: new ort.Tensor("float32", a, [n, k]),
      b: new ort.Tensor("float32", b, [k, m]),
    };
    /** @type {any} */
    let found = null;
    return {
      once: async () => {
        found = await session.run(given);
      },
      output: async () => found.c.data,
      free: () => session.release(),
    };
  };
}

/** @type {Record<string, () => Promise<Make>>} */
const contenders = {
  async rushlight() {
    const py = await pyodide();
    py.globals.set("kind", kind);
    await py.runPythonAsync(PYTHON);
    const [start, step, read, drop] = ["start", "step", "read", "drop"].map((n) =>
      py.globals.get(n),
    );
    versions = JSON.parse(py.globals.get("about"));
    return async (...given) => {
      start(...given);
      return {
        once: () => step.callPromising(),
        output: () => read.callPromising(),
        free: () => drop(),
      };
    };
  },

  async "jax-js"() {
    const jax = await import(`${MODULES}@jax-js/jax/dist/index.js`);
    const device = kind === "cpu" ? "wasm" : "webgpu";
    await jax.init(device);
    jax.defaultDevice(device);
    const { numpy: np } = jax;
    const product = jax.jit((/** @type {any} */ x, /** @type {any} */ y) => np.matmul(x, y));
    return async (n, k, m, a, b) => {
      const x = np.array(a).reshape([n, k]);
      const y = np.array(b).reshape([k, m]);
      await jax.blockUntilReady([x.ref, y.ref]);
      /** @type {any} */
      let z = null;
      return {
        once: async () => {
          z?.dispose();
          z = await product(x.ref, y.ref).blockUntilReady();
        },
        output: () => z.ref.data(),
        free: () => [x, y, z].forEach((v) => v.dispose()),
      };
    };
  },

  async "onnxruntime-web"() {
    if (kind === "cpu") return onnxOnCpu();
    const ort = await import(`${MODULES}onnxruntime-web/dist/ort.webgpu.bundle.min.mjs`);
    ort.env.wasm.wasmPaths = `${MODULES}onnxruntime-web/dist/`;
    return async (n, k, m, a, b) => {
      const session = await ort.InferenceSession.create(`./models/${n}x${k}x${m}.onnx`, {
        executionProviders: ["webgpu"],
        graphOptimizationLevel: "all",
      });
      const device = await ort.env.webgpu.device;
      /** @type {(dims: number[], data?: Float32Array<ArrayBuffer>) => any} */
      const tensor = (dims, data) => {
        const buffer = device.createBuffer({
          size: 4 * dims[0] * dims[1],
          usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
        });
        if (data) device.queue.writeBuffer(buffer, 0, data);
        return { buffer, value: ort.Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims }) };
      };
      const [x, y, z] = [tensor([n, k], a), tensor([k, m], b), tensor([n, m])];
      return {
        once: async () => {
          await session.run({ a: x.value, b: y.value }, { c: z.value });
          await device.queue.onSubmittedWorkDone();
        },
        output: async () => {
          const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
          const staging = device.createBuffer({ size: z.buffer.size, usage });
          const encoder = device.createCommandEncoder();
          encoder.copyBufferToBuffer(z.buffer, 0, staging, 0, z.buffer.size);
          device.queue.submit([encoder.finish()]);
          await staging.mapAsync(GPUMapMode.READ);
          const found = new Float32Array(staging.getMappedRange().slice(0));
          staging.destroy();
          return found;
        },
        free: async () => {
          for (const { buffer } of [x, y, z]) buffer.destroy();
          await session.release();
        },
      };
    };
  },

  async tfjs() {
    await script("@tensorflow/tfjs-core/dist/tf-core.min.js");
    await script("@tensorflow/tfjs-backend-webgpu/dist/tf-backend-webgpu.min.js");
    const tf = /** @type {any} */ (globalThis).tf;
    await tf.setBackend("webgpu");
    await tf.ready();
    return async (n, k, m, a, b) => {
      const x = tf.tensor2d(a, [n, k]);
      const y = tf.tensor2d(b, [k, m]);
      const backend = tf.backend();
      /** @type {any} */
      let z = null;
      return {
        once: async () => {
          z?.dispose();
          z = tf.matMul(x, y);
          backend.endComputePassEncoder();
          backend.submitQueue();
          await backend.queue.onSubmittedWorkDone();
        },
        output: () => z.data(),
        free: () => tf.dispose([x, y, z]),
      };
    };
  },
};

/** @type {Record<string, Make>} */
const ready = {};
/** @type {Record<string, Task>} */
let tasks = {};

/** @param {string[]} names @param {string} device */
async function open(names, device) {
  kind = device;
  for (const name of names) ready[name] = await contenders[name]();
  return versions;
}

/** @type {{ n: number, k: number, m: number, a: Float32Array, b: Float32Array }} */
let given;

/** Gives every contender the operands. @param {number} n @param {number} k @param {number} m */
async function prepare(n, k, m) {
  const a = numbers(n * k, 1);
  const b = numbers(k * m, 2);
  given = { n, k, m, a, b };
  tasks = {};
  for (const [name, make] of Object.entries(ready)) tasks[name] = await make(n, k, m, a, b);
}

/** Milliseconds of one product of several. @param {string} name @param {number} times */
async function sample(name, times) {
  const began = performance.now();
  for (let i = 0; i < times; i += 1) await tasks[name].once();
  return (performance.now() - began) / times;
}

/** Frees everything without reading it. */
async function free() {
  for (const task of Object.values(tasks)) await task.free();
  tasks = {};
}

/**
 * The largest differences of each contender's last product: of some rows from sums in float64, and
 * of all elements from the first contender's. Frees everything.
 */
async function check() {
  const { n, k, m, a, b } = given;
  const rows = [0, 1, n >> 1, n - 1];
  const exact = rows.map((row) => {
    const sums = new Float64Array(m);
    for (let p = 0; p < k; p += 1) {
      const factor = a[row * k + p];
      for (let j = 0; j < m; j += 1) sums[j] += factor * b[p * m + j];
    }
    return sums;
  });
  /** @type {Record<string, { exact: number, first: number }>} */
  const found = {};
  /** @type {Float32Array | null} */
  let first = null;
  for (const [name, task] of Object.entries(tasks)) {
    const product = await task.output();
    first ??= product;
    const off = { exact: product.length === n * m ? 0 : Infinity, first: 0 };
    rows.forEach((row, i) => {
      for (let j = 0; j < m; j += 1) {
        off.exact = Math.max(off.exact, Math.abs(product[row * m + j] - exact[i][j]));
      }
    });
    for (let i = 0; i < n * m; i += 1) {
      off.first = Math.max(off.first, Math.abs(product[i] - first[i]));
    }
    found[name] = off;
    await task.free();
  }
  return found;
}

Object.assign(window, { bench: { open, prepare, sample, check, free } });
