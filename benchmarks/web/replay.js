// Replays and small reads of replay.py: Rushlight's, and the shortest JavaScript that reads, in a
// loop of its own and while Python is suspended for it.

import { pyodide } from "./tab.js";

/** @type {any} */
let py = null;
/** @type {GPUDevice} */
let device;
/** @type {any} */
let plain; // waits as Rushlight does, for reads by plain JavaScript
/** @type {Record<number, { source: GPUBuffer, staging: GPUBuffer }>} */
const buffers = {};

/** @param {number[]} sizes */
async function open(sizes) {
  py = await pyodide();
  py.FS.writeFile("/replaying.py", await (await fetch("./replaying.py")).text());
  await py.runPythonAsync(`
import sys
sys.path.insert(0, "/")
import replaying
replaying.check()
`);
  const adapter = /** @type {GPUAdapter} */ (await navigator.gpu.requestAdapter());
  device = await adapter.requestDevice();
  const { STORAGE, COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage;
  for (const size of sizes) {
    const source = device.createBuffer({ size, usage: STORAGE | COPY_DST | COPY_SRC });
    const staging = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
    device.queue.writeBuffer(source, 0, new Float32Array(size / 4).map((_, i) => i));
    buffers[size] = { source, staging };
  }
  const port = py.runPython("replaying._port.js");
  plain = new port.readings.constructor(port);
  Object.assign(plain, { read: () => 1, take() {}, release() {} });
  return py.runPython("import numpy; numpy.__version__");
}

/** @param {number} count */
async function replays(count) {
  const found = await py.globals.get("replaying").replays.callPromising(count);
  return found.toJs({ dict_converter: Object.fromEntries });
}

/** Reads in JavaScript. @param {number} nbytes */
async function read(nbytes) {
  const { source, staging } = buffers[nbytes];
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(source, 0, staging, 0, nbytes);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const found = new Float32Array(staging.getMappedRange().slice(0));
  if (found.length !== nbytes / 4) throw new Error("too little was read");
  staging.unmap();
}

/** @param {string} name @param {number} nbytes @param {number} count */
async function reads(name, nbytes, count) {
  const replaying = py.globals.get("replaying");
  if (name === "rushlight") return replaying.reads.callPromising(nbytes, count);
  if (name === "awaited") return replaying.awaited(nbytes, count);
  if (name === "stopped") {
    plain.wait = () => read(nbytes);
    return replaying.stopped.callPromising(plain, count);
  }
  const began = performance.now();
  for (let i = 0; i < count; i += 1) await read(nbytes);
  return (performance.now() - began) / count;
}

Object.assign(window, { bench: { open, replays, reads } });
