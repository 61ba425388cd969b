// Writes and reads of transfers.py: Rushlight's, and the shortest JavaScript that does the same.

import { pyodide } from "./tab.js";

const PYTHON = `
import numpy as np
import rushlight as rl

device = rl.device("webgpu")

def start(n):
    global values, tensor
    values = np.random.default_rng(0).random(n // 4, dtype=np.float32)

def write():
    global tensor
    tensor = rl.from_numpy(values).to("webgpu")
    device.synchronize()

def read():
    global found
    found = tensor.numpy()

def check():
    return bool(np.array_equal(found, values))

about = {"adapter": device.info["device"], "numpy": np.__version__}
`;

/** @type {Record<string, () => Promise<unknown>>} */
const jobs = {};
/** @type {() => boolean} */
let check = () => false;

/** @param {number} size */
async function open(size) {
  const py = await pyodide();
  await py.runPythonAsync(PYTHON);
  const [start, write, read, same] = ["start", "write", "read", "check"].map((n) =>
    py.globals.get(n),
  );
  await start.callPromising(size);
  jobs.write = () => write.callPromising();
  jobs.read = () => read.callPromising();

  const adapter = /** @type {GPUAdapter} */ (await navigator.gpu.requestAdapter());
  const device = await adapter.requestDevice();
  const { queue } = device;
  const values = new Float32Array(size / 4).map((_, i) => i);
  const { STORAGE, COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage;
  const buffer = device.createBuffer({ size, usage: STORAGE | COPY_DST | COPY_SRC });
  let found = new Float32Array(0);
  jobs.plain_write = async () => {
    queue.writeBuffer(buffer, 0, values);
    await queue.onSubmittedWorkDone();
  };
  jobs.plain_read = async () => {
    const staging = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
    queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    found = new Float32Array(staging.getMappedRange().slice(0));
    staging.destroy();
  };
  check = () => same() && found.every((v, i) => v === values[i]);
  return py.globals.get("about").toJs({ dict_converter: Object.fromEntries });
}

/** Milliseconds of a job. @param {string} job */
async function sample(job) {
  const began = performance.now();
  await jobs[job]();
  return performance.now() - began;
}

Object.assign(window, { bench: { open, sample, check: () => check() } });
