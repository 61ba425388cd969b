// The contenders of wasm_ops.py in one page, each in WebAssembly on one thread: twenty ops on about
// a million float32 elements.
//
// Each gives its ops by name. `run` calls one and waits for it; `read` gives a result's elements in
// row-major order, images as (n, c, h, w).

import { MODULES, numbers, pyodide, script } from "./tab.js";

/**
 * @typedef {{ run: (op: string, times: number) => Promise<number>,
 *   read: (op: string) => Promise<ArrayLike<number>> }} Contender  run: seconds of a call
 */

const [N, C, H, W] = [4, 16, 125, 125];
const IMAGES = ["max_pool2d", "conv2d", "depthwise conv2d"];

/** @param {number} count @param {number} seed */
const wide = (count, seed) => numbers(count, seed).map((x) => 4 * x);
const a = wide(1_000_000, 1);
const b = wide(1_000_000, 2);
const rows = Int32Array.from(numbers(1000, 3), (x) => Math.floor((x + 1) * 500) % 1000);
const image = wide(N * C * H * W, 4);
const kernel = wide(32 * C * 9, 5);
const each = wide(C * 9, 6);

/** The elements of `data`, of `shape`, with its dims in the order `dims`.
 * @param {ArrayLike<number>} data @param {number[]} shape @param {number[]} dims */
function permuted(data, shape, dims) {
  const strides = shape.map((_, d) => shape.slice(d + 1).reduce((x, y) => x * y, 1));
  const found = new Float32Array(data.length);
  const [s, t] = [dims.map((d) => shape[d]), dims.map((d) => strides[d])];
  let at = 0;
  for (let i = 0; i < s[0]; i += 1)
    for (let j = 0; j < s[1]; j += 1)
      for (let k = 0; k < s[2]; k += 1)
        for (let l = 0; l < s[3]; l += 1, at += 1)
          found[at] = data[i * t[0] + j * t[1] + k * t[2] + l * t[3]];
  return found;
}

const PYTHON = `
import json, time
import numpy as np
import rushlight as rl
import rushlight.nn.functional as F
from pyodide.ffi import to_js

def start(*given):
    shapes = (1000, 1000), (1000, 1000), (1000,), image_shape, (32, image_shape[1], 3, 3), (
        image_shape[1], 1, 3, 3)
    kinds = "f4", "f4", "i4", "f4", "f4", "f4"
    a, b, rows, image, kernel, each = (
        rl.from_numpy(np.frombuffer(v.to_bytes(), kind).reshape(shape))
        for v, kind, shape in zip(given, kinds, shapes)
    )
    rows, mask = rows.long(), b > 0
    global ops
    ops = {
        "add": lambda: a + b, "mul": lambda: a * b, "exp": a.exp, "tanh": a.tanh,
        "sigmoid": a.sigmoid, "clamp": lambda: a.clamp(-1, 1), "a > b": lambda: a > b,
        "where": lambda: rl.where(mask, a, b), "sum": a.sum, "sum, dim 0": lambda: a.sum(0),
        "sum, dim 1": lambda: a.sum(1), "max, dim 1": lambda: a.amax(1),
        "argmax, dim 1": lambda: a.argmax(1), "cumsum, dim 1": lambda: a.cumsum(1),
        "softmax": lambda: a.softmax(1), "transposed copy": lambda: a.T.contiguous(),
        "index_select": lambda: a.index_select(0, rows),
        "max_pool2d": lambda: F.max_pool2d(image, 2),
        "conv2d": lambda: F.conv2d(image, kernel, padding=1),
        "depthwise conv2d": lambda: F.conv2d(image, each, padding=1, groups=image_shape[1]),
    }

def run(op, times):
    fn = ops[op]
    began = time.perf_counter()
    for _ in range(times):
        fn()
    return (time.perf_counter() - began) / times

def read(op):
    return to_js(ops[op]().float().numpy().reshape(-1))

about = json.dumps({"rushlight": rl.__version__, "numpy": np.__version__,
                    "kernels": rl.device("cpu").info["kernels"]})
`;

/** @type {Record<string, string>} */
let versions = {};

/** @type {Record<string, () => Promise<Contender>>} */
const contenders = {
  async rushlight() {
    const py = await pyodide();
    py.globals.set("image_shape", py.toPy([N, C, H, W]));
    await py.runPythonAsync(PYTHON);
    py.globals.get("start")(a, b, rows, image, kernel, each);
    const [run, read] = ["run", "read"].map((n) => py.globals.get(n));
    versions = JSON.parse(py.globals.get("about"));
    return { run: async (op, times) => run(op, times), read: async (op) => read(op) };
  },

  async "jax-js"() {
    const jax = await import(`${MODULES}@jax-js/jax/dist/index.js`);
    await jax.init("wasm");
    jax.defaultDevice("wasm");
    const { numpy: np, lax, nn } = jax;
    const x = np.array(a).reshape([1000, 1000]);
    const y = np.array(b).reshape([1000, 1000]);
    const at = np.array(rows);
    const mask = np.greater(y.ref, 0);
    const [im, ke, ea] = [
      np.array(image).reshape([N, C, H, W]),
      np.array(kernel).reshape([32, C, 3, 3]),
      np.array(each).reshape([C, 1, 3, 3]),
    ];
    await jax.blockUntilReady([x.ref, y.ref, at.ref, mask.ref, im.ref, ke.ref, ea.ref]);
    /** @type {Record<string, [(...given: any[]) => any, any[]]>} */
    const ops = {
      add: [(p, q) => np.add(p, q), [x, y]],
      mul: [(p, q) => np.multiply(p, q), [x, y]],
      exp: [(p) => np.exp(p), [x]],
      tanh: [(p) => np.tanh(p), [x]],
      sigmoid: [(p) => nn.sigmoid(p), [x]],
      clamp: [(p) => np.clip(p, -1, 1), [x]],
      "a > b": [(p, q) => np.greater(p, q), [x, y]],
      where: [(m, p, q) => np.where(m, p, q), [mask, x, y]],
      sum: [(p) => np.sum(p), [x]],
      "sum, dim 0": [(p) => np.sum(p, 0), [x]],
      "sum, dim 1": [(p) => np.sum(p, 1), [x]],
      "max, dim 1": [(p) => np.max(p, 1), [x]],
      "argmax, dim 1": [(p) => np.argmax(p, 1), [x]],
      "cumsum, dim 1": [(p) => np.cumsum(p, 1), [x]],
      softmax: [(p) => nn.softmax(p, 1), [x]],
      "transposed copy": [(p) => np.transpose(p), [x]],
      index_select: [(p, i) => np.take(p, i, 0), [x, at]],
      max_pool2d: [(p) => lax.reduceWindow(p, np.max, [2, 2], [2, 2]), [im]],
      conv2d: [(p, k) => lax.convGeneralDilated(p, k, [1, 1], "SAME"), [im, ke]],
      "depthwise conv2d": [
        (p, k) => lax.convGeneralDilated(p, k, [1, 1], "SAME", { featureGroupCount: C }),
        [im, ea],
      ],
    };
    const compiled = Object.fromEntries(Object.entries(ops).map(([n, [f]]) => [n, jax.jit(f)]));
    /** @param {string} op */
    const call = (op) => compiled[op](...ops[op][1].map((v) => v.ref));
    return {
      run: async (op, times) => {
        const began = performance.now();
        for (let i = 0; i < times; i += 1) (await call(op).blockUntilReady()).dispose();
        return (performance.now() - began) / times / 1000;
      },
      read: async (op) => Float32Array.from(await call(op).data(), Number),
    };
  },

  async tfjs() {
    await script("@tensorflow/tfjs-core/dist/tf-core.min.js");
    await script("@tensorflow/tfjs-backend-wasm/dist/tf-backend-wasm.min.js");
    const tf = /** @type {any} */ (globalThis).tf;
    tf.wasm.setWasmPaths(`${MODULES}@tensorflow/tfjs-backend-wasm/dist/`);
    await tf.setBackend("wasm");
    await tf.ready();
    const [x, y] = [tf.tensor2d(a, [1000, 1000]), tf.tensor2d(b, [1000, 1000])];
    const [at, mask] = [tf.tensor1d(rows, "int32"), tf.greater(y, 0)];
    // Its images have their channels last.
    const im = tf.tensor4d(permuted(image, [N, C, H, W], [0, 2, 3, 1]), [N, H, W, C]);
    const ke = tf.tensor4d(permuted(kernel, [32, C, 3, 3], [2, 3, 1, 0]), [3, 3, C, 32]);
    const ea = tf.tensor4d(permuted(each, [C, 1, 3, 3], [2, 3, 0, 1]), [3, 3, C, 1]);
    /** @type {Record<string, () => any>} */
    const ops = {
      add: () => tf.add(x, y),
      mul: () => tf.mul(x, y),
      exp: () => tf.exp(x),
      tanh: () => tf.tanh(x),
      sigmoid: () => tf.sigmoid(x),
      clamp: () => tf.clipByValue(x, -1, 1),
      "a > b": () => tf.greater(x, y),
      where: () => tf.where(mask, x, y),
      sum: () => tf.sum(x),
      "sum, dim 0": () => tf.sum(x, 0),
      "sum, dim 1": () => tf.sum(x, 1),
      "max, dim 1": () => tf.max(x, 1),
      "argmax, dim 1": () => tf.argMax(x, 1),
      "cumsum, dim 1": () => tf.cumsum(x, 1),
      softmax: () => tf.softmax(x),
      "transposed copy": () => tf.transpose(x),
      index_select: () => tf.gather(x, at),
      max_pool2d: () => tf.maxPool(im, 2, 2, "valid"),
      conv2d: () => tf.conv2d(im, ke, 1, "same"),
      "depthwise conv2d": () => tf.depthwiseConv2d(im, ea, 1, "same"),
    };
    return {
      run: async (op, times) => {
        const began = performance.now();
        for (let i = 0; i < times; i += 1) ops[op]().dispose();
        return (performance.now() - began) / times / 1000;
      },
      read: async (op) => {
        const found = ops[op]();
        const data = Float32Array.from(await found.data(), Number);
        return IMAGES.includes(op) ? permuted(data, found.shape, [0, 3, 1, 2]) : data;
      },
    };
  },
};

/** @type {Record<string, Contender>} */
const ready = {};

/** @param {string[]} names */
async function open(names) {
  for (const name of names) ready[name] = await contenders[name]();
  return versions;
}

/** How far each other contender's result is from the first's, of its largest element.
 * @param {string} op */
async function apart(op) {
  const [first, ...others] = Object.entries(ready);
  const expected = await first[1].read(op);
  let largest = 1e-30;
  for (let i = 0; i < expected.length; i += 1) largest = Math.max(largest, Math.abs(expected[i]));
  /** @type {Record<string, number>} */
  const found = {};
  for (const [name, other] of others) {
    const got = await other.read(op);
    found[name] = got.length === expected.length ? 0 : Infinity;
    for (let i = 0; i < got.length; i += 1) {
      const off = Math.abs(got[i] - expected[i]) / largest;
      if (!(off <= found[name])) found[name] = off;
    }
  }
  return found;
}

/** Seconds of a call, over about `span` seconds. @param {string} name @param {string} op
 * @param {number} span */
async function sample(name, op, span) {
  const one = await ready[name].run(op, 1);
  return ready[name].run(op, Math.max(1, Math.min(1000, Math.ceil(span / Math.max(one, 1e-4)))));
}

Object.assign(window, { bench: { open, apart, sample } });
