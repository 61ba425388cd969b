// gpu.js: WebGPU in the tab for core/backends/webgpu/runtime/browser.py. Objects are named by small
// integers (handles).
//
// Python passes addresses in the WebAssembly memory. Each call makes a new view of that memory,
// because growing the memory detaches older views.

import { find, isSoftware, nameOf } from "./adapter.js";
import { CommandLists, SEEN } from "./commands.js";
import { Readings } from "./readings.js";
import { Timer } from "./timer.js";

/**
 * @typedef {{ kind: "lost" | "memory" | "error", message: string, batch: number }} Problem
 * @typedef {import("./commands.js").Kept} Kept
 */

// A feature of the language, listed among the adapter's.
const PACKED = /** @type {GPUFeatureName} */ ("packed-4x8-integer-dot-product");
const FEATURES = /** @type {GPUFeatureName[]} */ (["shader-f16", "subgroups", "timestamp-query"]);

/**
 * The device of this tab's adapter. Throws an error with a `hint` if the browser offers none.
 * @param {{ _module: { HEAPU8: Uint8Array } }} py
 */
export async function open(py) {
  const adapter = await find();
  const features = FEATURES.filter((name) => adapter.features.has(name));
  /** @type {Record<string, number>} */
  const limits = {};
  for (const name in adapter.limits) limits[name] = /** @type {any} */ (adapter.limits)[name];
  const requiredLimits = limits;
  const device = await adapter.requestDevice({ requiredFeatures: features, requiredLimits });
  if (navigator.gpu.wgslLanguageFeatures?.has(PACKED.replaceAll("-", "_"))) features.push(PACKED);
  return new Port(py, adapter, device, features);
}

export class Port {
  /** @param {{ _module: { HEAPU8: Uint8Array } }} py @param {GPUAdapter} adapter
   *  @param {GPUDevice} device @param {string[]} features */
  constructor(py, adapter, device, features) {
    this.py = py;
    this.device = device;
    this.queue = device.queue;
    this.features = features.join(" ");
    const { vendor, architecture, description } = adapter.info;
    const name = nameOf(adapter.info);
    const type = isSoftware(adapter.info) ? "CPU" : "";
    this.info = JSON.stringify({ vendor, architecture, device: name, description, type });
    /** @type {Record<string, number>} */
    const limits = {};
    for (const key in device.limits) limits[key] = /** @type {any} */ (device.limits)[key];
    this.limits = JSON.stringify(limits);
    this.lost = ""; // the reason, once the device is lost
    /** @type {Problem[]} */
    this.problems = [];
    /** @type {Set<Promise<unknown>>} error scopes that are still open */
    this.scopes = new Set();
    this.batch = 0;
    this.next = 0;
    /** @type {Map<number, GPUBuffer>} */
    this.buffers = new Map();
    /** @type {Map<number, GPUBindGroup>} */
    this.groups = new Map();
    /** @type {Map<number, GPUComputePipeline>} */
    this.pipelines = new Map();
    /** @type {Map<number, string>} pipelines that failed to compile, with the reason */
    this.broken = new Map();
    /** @type {Map<string, GPUBindGroupLayout>} */
    this.layouts = new Map();
    this.readings = new Readings(this);
    this.commandLists = new CommandLists(this);
    /** @type {Timer | null} the timer of the last profile */
    this.timer = null;
    /** @type {Map<number, Kept>} */
    this.kept = new Map();
    device.lost.then(({ reason, message }) => {
      this.lost ||= message || reason;
    });
    device.onuncapturederror = ({ error }) => {
      this.#note(error, "");
    };
  }

  /** @param {GPUError} error @param {string} what @param {number} [batch] */
  #note(error, what, batch = -1) {
    const kind = error instanceof GPUOutOfMemoryError ? "memory" : "error";
    if (this.problems.length < 16) {
      this.problems.push({ kind, message: what + error.message, batch });
    }
  }

  /**
   * Runs `work`. An error in it is recorded and raised at the next read.
   * @template T @param {GPUErrorFilter[]} filters @param {string} what @param {() => T} work
   * @param {number} [batch] @param {(message: string) => void} [told] @returns {T}
   */
  #scoped(filters, what, work, batch, told) {
    for (const filter of filters) this.device.pushErrorScope(filter);
    try {
      return work();
    } finally {
      for (let i = 0; i < filters.length; i += 1) {
        const outcome = this.device.popErrorScope().then(
          (error) => {
            if (!error) return;
            this.#note(error, what, batch);
            told?.(what + error.message);
          },
          () => {}, // the device was lost; `lost` holds the reason
        );
        this.scopes.add(outcome);
        outcome.finally(() => this.scopes.delete(outcome));
      }
    }
  }

  /** @returns {Uint8Array<ArrayBuffer>} */
  get heap() {
    return /** @type {any} */ (this.py._module.HEAPU8);
  }

  /** @param {number} address @param {number} count */
  words(address, count) {
    return new Uint32Array(this.heap.buffer, address, count);
  }

  /** The oldest problem as JSON, or "". */
  problem() {
    if (this.lost) {
      return JSON.stringify({ kind: "lost", message: this.lost, batch: -1 });
    }
    const first = this.problems[0];
    this.problems = []; // later problems follow from the first one
    return first ? JSON.stringify(first) : "";
  }

  /** Reports a pipeline that failed to compile. @param {number} handle */
  checkPipeline(handle) {
    const message = this.broken.get(handle);
    if (message) this.problems.push({ kind: "error", message, batch: this.batch });
  }

  /** @param {string} access */
  layout(access) {
    let made = this.layouts.get(access);
    if (!made) {
      const kinds = /** @type {Record<string, GPUBufferBindingLayout>} */ ({
        r: { type: "read-only-storage" },
        w: { type: "storage" },
        u: { type: "uniform", hasDynamicOffset: true, minBindingSize: SEEN },
      });
      const entries = [...access].map((letter, binding) => ({
        binding,
        visibility: GPUShaderStage.COMPUTE,
        buffer: kinds[letter],
      }));
      made = this.device.createBindGroupLayout({ entries });
      this.layouts.set(access, made);
    }
    return made;
  }

  /** @param {number} size */
  buffer(size) {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    const made = this.#scoped(["validation", "out-of-memory"], `a buffer of ${size} bytes: `, () =>
      this.device.createBuffer({ size, usage }),
    );
    return this.adopt(made);
  }

  /** Registers a new buffer and returns its handle. @param {GPUBuffer} made */
  adopt(made) {
    this.buffers.set(++this.next, made);
    return this.next;
  }

  /** @param {number} handle */
  free(handle) {
    this.buffers.get(handle)?.destroy();
    this.buffers.delete(handle);
  }

  /** @param {number} handle @param {number} offset @param {number} address @param {number} size */
  write(handle, offset, address, size) {
    const target = /** @type {GPUBuffer} */ (this.buffers.get(handle));
    this.queue.writeBuffer(target, offset, this.heap, address, size);
  }

  /** Writes whole words from a JavaScript array, for weights that stream in.
   *  @param {number} handle @param {number} offset @param {Uint8Array<ArrayBuffer>} bytes */
  writeBytes(handle, offset, bytes) {
    const target = /** @type {GPUBuffer} */ (this.buffers.get(handle));
    this.queue.writeBuffer(target, offset, bytes);
  }

  /** @param {string} code @param {string} access @param {string} label */
  pipeline(code, access, label) {
    const { device } = this;
    const bindGroupLayouts = [this.layout(access), this.layout("u")];
    const handle = ++this.next;
    const made = this.#scoped(
      ["validation", "internal", "out-of-memory"],
      `${label}: `,
      () =>
        device.createComputePipeline({
          label,
          layout: device.createPipelineLayout({ bindGroupLayouts }),
          compute: { module: device.createShaderModule({ label, code }), entryPoint: "main" },
        }),
      -1,
      (message) => this.broken.set(handle, message),
    );
    this.pipelines.set(handle, made);
    return handle;
  }

  /** @param {string} access @param {number} address  of one (buffer, offset, size) per binding */
  group(access, address) {
    const words = this.words(address, 3 * access.length);
    /** @type {GPUBindGroupEntry[]} */
    const entries = [];
    for (let i = 0; i < access.length; i += 1) {
      const buffer = /** @type {GPUBuffer} */ (this.buffers.get(words[3 * i]));
      const resource = { buffer, offset: words[3 * i + 1], size: words[3 * i + 2] };
      entries.push({ binding: i, resource });
    }
    const made = this.#scoped(["validation"], "", () =>
      this.device.createBindGroup({ layout: this.layout(access), entries }),
    );
    this.groups.set(++this.next, made);
    return this.next;
  }

  /** @param {number} handle */
  freeGroup(handle) {
    this.groups.delete(handle);
  }

  /**
   * Runs a command list in one pass and one submit; returns the batch's number.
   * @param {number} commands  address @param {number} count  words of it
   * @param {number} uniforms  address @param {number} size  bytes of them
   */
  submit(commands, count, uniforms, size) {
    this.batch += 1;
    const words = this.words(commands, count);
    const parameters = this.heap.subarray(uniforms, uniforms + size);
    this.#scoped(["validation"], "", () => this.commandLists.submit(words, parameters), this.batch);
    return this.batch;
  }

  /**
   * Keeps a command list with its parameters; returns its number.
   * @param {number} commands  address @param {number} count  words of it
   * @param {number} uniforms  address @param {number} size  bytes of them
   * @param {number} part  dispatches that are submitted at once
   */
  retain(commands, count, uniforms, size, part) {
    const words = this.words(commands, count).slice();
    const parameters = this.heap.subarray(uniforms, uniforms + size);
    const made = this.#scoped(["validation", "out-of-memory"], "a command list: ", () =>
      this.commandLists.keep(words, parameters, part),
    );
    this.kept.set(++this.next, made);
    return this.next;
  }

  /** Runs a kept command list; returns the batch's number. @param {number} handle */
  replay(handle) {
    const list = /** @type {Kept} */ (this.kept.get(handle));
    this.batch += 1;
    this.#scoped(["validation"], "", () => this.commandLists.replay(list), this.batch);
    return this.batch;
  }

  /** @param {number} handle @param {number} dispatch @param {number} group */
  patch(handle, dispatch, group) {
    this.commandLists.patch(/** @type {Kept} */ (this.kept.get(handle)), dispatch, group);
  }

  /** @param {number} handle @param {number} offset @param {number} address
   *  @param {number} size */
  patchUniforms(handle, offset, address, size) {
    const { buffer } = /** @type {Kept} */ (this.kept.get(handle)).arena;
    this.queue.writeBuffer(buffer, offset, this.heap, address, size);
  }

  /** @param {number} handle */
  forget(handle) {
    this.kept.get(handle)?.arena.buffer.destroy();
    this.kept.delete(handle);
  }

  /** Starts or stops timing dispatches. @param {boolean} on */
  time(on) {
    if (on) {
      this.timer?.free();
      this.timer = new Timer(this);
    }
    this.commandLists.timer = on ? this.timer : null;
  }

  /** The ranges that hold the timestamps, each a (buffer, offset, size). */
  times() {
    return new Uint32Array(this.timer?.ranges ?? []);
  }

  /** Resolves when all submitted work has run. */
  async finished() {
    await this.queue.onSubmittedWorkDone().catch(() => {});
    await Promise.all(this.scopes);
  }

  close() {
    this.lost ||= "it was closed";
    this.device.destroy();
  }
}
