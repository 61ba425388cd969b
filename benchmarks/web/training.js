// The contenders of training_web.py in one page: steps of gradient descent of a CNN on batches of
// 64 pictures of 28 by 28. tfjs has no kernel for the gradient of a convolution's filter in
// WebAssembly, so it computes in JavaScript ("cpu").

import { MODULES, numbers, pyodide, script } from "./tab.js";

const [N, LR] = [64, 0.05];
/** Shapes of the weights; a bias follows each. */
const SHAPES = [[16, 1, 3, 3], [32, 16, 3, 3], [128, 1568], [10, 128]]; // prettier-ignore
const size = (/** @type {number[]} */ shape) => shape.reduce((a, b) => a * b, 1);
const weights = SHAPES.map((shape, i) => {
  const scale = Math.sqrt(3 / size(shape.slice(1)));
  return numbers(size(shape), i + 1).map((v) => v * scale);
});
const pictures = numbers(N * 784, 9);
const labels = Int32Array.from(numbers(N, 10), (v) => Math.floor((v + 1) * 5) % 10);

/** @typedef {(count: number) => Promise<[seconds: number, loss: number]>} Steps */

const PYTHON = `
import json, time
import numpy as np
import rushlight as rl
from rushlight import nn

def start(pictures, labels, shapes, weights):
    global x, y, step
    x = rl.from_numpy(np.frombuffer(pictures.to_bytes(), "f4").reshape(-1, 1, 28, 28))
    y = rl.from_numpy(np.frombuffer(labels.to_bytes(), "i4")).long()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10),
    )
    with rl.no_grad():
        layers = [m for m in model if hasattr(m, "weight")]
        for layer, shape, values in zip(layers, shapes.to_py(), weights):
            given = np.frombuffer(values.to_bytes(), "f4").reshape(shape)
            layer.weight.copy_(rl.from_numpy(given))
            layer.bias.zero_()
    optimizer = rl.optim.SGD(model.parameters(), lr=LR)

    def own(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = rl.jit(own)

def steps(count):
    began = time.perf_counter()
    for _ in range(count):
        loss = step(x, y)
    value = float(loss.item())
    return [(time.perf_counter() - began) / count, value]

about = json.dumps({"rushlight": rl.version.rushlight, "kernels": rl.device("cpu").info["kernels"]})
`;

/** @type {Record<string, string>} */
let versions = {};

/** @type {Record<string, () => Promise<Steps>>} */
const contenders = {
  async rushlight() {
    const py = await pyodide();
    py.globals.set("LR", LR);
    await py.runPythonAsync(PYTHON);
    py.globals.get("start")(pictures, labels, SHAPES, weights);
    versions = JSON.parse(py.globals.get("about"));
    return async (count) => py.globals.get("steps")(count).toJs();
  },

  async "jax-js"() {
    const jax = await import(`${MODULES}@jax-js/jax/dist/index.js`);
    await jax.init("wasm");
    jax.defaultDevice("wasm");
    const { numpy: np, lax, nn } = jax;
    let params = SHAPES.flatMap((shape, i) => [
      np.array(weights[i]).reshape(shape),
      np.zeros([shape[0]]),
    ]);
    const x = np.array(pictures).reshape([N, 1, 28, 28]);
    const hot = new Float32Array(N * 10);
    labels.forEach((label, i) => (hot[i * 10 + label] = 1));
    const y = np.array(hot).reshape([N, 10]);
    /** @param {any} given @param {any} kernel @param {any} bias */
    const layer = (given, kernel, bias) => {
      const found = lax.convGeneralDilated(given, kernel, [1, 1], "SAME");
      const positive = nn.relu(found.add(bias.reshape([1, -1, 1, 1])));
      return lax.reduceWindow(positive, np.max, [2, 2], [2, 2]);
    };
    /** @param {any[]} p @param {any} images @param {any} wanted */
    const loss = (p, images, wanted) => {
      const seen = layer(layer(images, p[0], p[1]), p[2], p[3]).reshape([N, -1]);
      const hidden = nn.relu(np.dot(seen, np.transpose(p[4])).add(p[5]));
      const scores = np.dot(hidden, np.transpose(p[6])).add(p[7]);
      return np.sum(nn.logSoftmax(scores, -1).mul(wanted)).mul(-1 / N);
    };
    const step = jax.jit((/** @type {any[]} */ p, /** @type {any} */ im, /** @type {any} */ w) => {
      const [value, grads] = jax.valueAndGrad(loss)(p.map((v) => v.ref), im, w); // prettier-ignore
      return [value, p.map((v, i) => v.sub(grads[i].mul(LR)))];
    });
    return async (count) => {
      const began = performance.now();
      let value = NaN;
      for (let i = 0; i < count; i += 1) {
        const [found, next] = step(params, x.ref, y.ref);
        params = next;
        if (i < count - 1) found.dispose();
        else [value] = await found.data();
      }
      return [(performance.now() - began) / count / 1000, value];
    };
  },

  async tfjs() {
    await script("@tensorflow/tfjs/dist/tf.min.js");
    const tf = /** @type {any} */ (globalThis).tf;
    await tf.setBackend("cpu");
    await tf.ready();
    const images = tf.tensor4d(pictures, [N, 28, 28, 1]);
    const hot = tf.oneHot(tf.tensor1d(labels, "int32"), 10).toFloat();
    /** Channels last: filters, and the order of what the first layer reads. */
    const orders = [[2, 3, 1, 0], [2, 3, 1, 0], null, [1, 0]]; // prettier-ignore
    const kernels = SHAPES.map((shape, i) => {
      if (i !== 2) return tf.tensor(weights[i], shape).transpose(orders[i]);
      const apart = tf.tensor(weights[i], [128, 32, 7, 7]);
      return apart.transpose([2, 3, 1, 0]).reshape([1568, 128]);
    });
    const params = kernels.flatMap((k, i) => [
      tf.variable(k),
      tf.variable(tf.zeros([SHAPES[i][0]])),
    ]);
    const optimizer = tf.train.sgd(LR);
    const loss = () => {
      let seen = images;
      for (const i of [0, 2]) {
        seen = tf.relu(tf.add(tf.conv2d(seen, params[i], 1, "same"), params[i + 1]));
        seen = tf.maxPool(seen, 2, 2, "valid");
      }
      const hidden = tf.relu(tf.add(tf.matMul(seen.reshape([N, -1]), params[4]), params[5]));
      const scores = tf.add(tf.matMul(hidden, params[6]), params[7]);
      return tf.neg(tf.mean(tf.sum(tf.mul(tf.logSoftmax(scores), hot), 1)));
    };
    return async (count) => {
      const began = performance.now();
      let value = NaN;
      for (let i = 0; i < count; i += 1) {
        const found = optimizer.minimize(loss, true);
        if (i === count - 1) [value] = await found.data();
        found.dispose();
      }
      return [(performance.now() - began) / count / 1000, value];
    };
  },
};

/** @type {Record<string, Steps>} */
const ready = {};

/** @param {string[]} names */
async function open(names) {
  for (const name of names) ready[name] = await contenders[name]();
  return versions;
}

/** Seconds of a step, and the last loss. @param {string} name @param {number} count */
const steps = (name, count) => ready[name](count);

Object.assign(window, { bench: { open, steps } });
