// readings.js: reads for gpu.js. A read begins at once. Python awaits it, or is suspended inside a
// call until it completes.

/**
 * @typedef {{ buffer: GPUBuffer, size: number, mapped: boolean, done: Promise<unknown> }} Reading
 * @typedef {{ _JsvPromise_Syncify?: Function, wasmTable?: WebAssembly.Table,
 *   validSuspender?: { value: boolean } }} Module
 */

const ARENA = 1 << 16;
const KEPT = 1 << 20; // staging buffers up to this size are kept
const EVERYTHING = 2 ** 32 - 1; // a request to wait for all submitted work instead of a read

// A C function that CPython calls. It suspends Python by Pyodide's own means and continues when a
// promise has resolved:
//   (func (export "wait") (param i32 i32) (result i32)
//     (call $finish (call $sync (call $start))))
// Pyodide's run_sync accepts any awaitable. It runs several turns of asyncio's event loop, which
// takes half as long as a read. JavaScript cannot do this job: a stack with a JavaScript frame
// between WebAssembly frames cannot be suspended.
const WAIT =
  "AGFzbQEAAAABFQRgAAFvYAFvAW9gAW8Bf2ACf38BfwIfAwFlBXN0YXJ0AAABZQRzeW5jAAEBZQZmaW5pc2gAAgMCAQMH" +
  "CAEEd2FpdAADCgoBCAAQABABEAIL";

export class Readings {
  /** @param {import("./gpu.js").Port} port */
  constructor(port) {
    this.port = port;
    this.next = 0;
    /** @type {Map<number, Reading>} */
    this.begun = new Map();
    /** @type {GPUBuffer[]} */
    this.staging = [];
  }

  /**
   * Starts to read ranges as they are after all submitted work. The result joins them in order.
   * @param {number} address  of one (buffer, offset, size) per range @param {number} count
   * @param {number} total  bytes @returns {number}
   */
  read(address, count, total) {
    const { device, queue, buffers } = this.port;
    const words = this.port.words(address, 3 * count);
    const kept = this.staging.findIndex(({ size }) => size >= total);
    const buffer = kept < 0 ? this.#stage(total) : this.staging.splice(kept, 1)[0];
    // There is no error scope here, because it takes a third of the time of a small read. An error
    // here means that the buffer or the device is bad. That is known already, or the mapping fails.
    const encoder = device.createCommandEncoder();
    let at = 0;
    for (let i = 0; i < words.length; i += 3) {
      const source = /** @type {GPUBuffer} */ (buffers.get(words[i]));
      if (words[i + 2]) {
        encoder.copyBufferToBuffer(source, words[i + 1], buffer, at, words[i + 2]);
      }
      at += words[i + 2];
    }
    queue.submit([encoder.finish()]);
    const done = buffer.mapAsync(GPUMapMode.READ, 0, total);
    /** @type {Reading} */
    const reading = { buffer, size: total, mapped: false, done };
    done.then(
      () => {
        reading.mapped = true;
      },
      () => {}, // `wait` reports the failure
    );
    this.begun.set(++this.next, reading);
    return this.next;
  }

  /** @param {number} total */
  #stage(total) {
    const size = Math.max(ARENA, Math.ceil(total / 4) * 4);
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    return this.port.device.createBuffer({ size, usage });
  }

  /** Resolves when a read is complete and every earlier error is known. @param {number} handle */
  async wait(handle) {
    const { port } = this;
    const { done } = /** @type {Reading} */ (this.begun.get(handle));
    try {
      await done;
    } catch (error) {
      // A lost device rejects this promise first and reports the loss a little later.
      const second = new Promise((resolve) => setTimeout(resolve, 1000));
      await Promise.race([port.device.lost, second]);
      if (!port.lost && !port.problems.length) this.#failed(error);
    }
    if (port.scopes.size) await Promise.all(port.scopes);
  }

  /** @param {unknown} error */
  #failed(error) {
    const message = `a read: ${/** @type {Error} */ (error).message}`;
    this.port.problems.push({ kind: "error", message, batch: -1 });
  }

  /** Copies the data of a read to an address. @param {number} handle @param {number} address */
  take(handle, address) {
    const { buffer, size } = /** @type {Reading} */ (this.begun.get(handle));
    try {
      this.port.heap.set(new Uint8Array(buffer.getMappedRange(0, size)), address);
    } catch (error) {
      // Only a lost device unmaps a buffer that was mapped. It reports the loss a little later.
      this.port.lost ||= "it went away during a read";
      throw error;
    }
  }

  /** Ends a read, complete or not. @param {number} handle */
  release(handle) {
    const { buffer, mapped } = /** @type {Reading} */ (this.begun.get(handle));
    this.begun.delete(handle);
    if (mapped && buffer.size <= KEPT && this.staging.length < 4) {
      buffer.unmap();
      this.staging.push(buffer);
    } else {
      buffer.destroy();
    }
  }

  /**
   * The table index of a C function that waits for a request; 0 if this Pyodide cannot suspend
   * Python. The C function returns one of three Python objects, given by their addresses.
   * @param {number} request  address of the handle of a started read (or 0, or EVERYTHING), the
   *   arguments of `read`, and the address for the data
   * @param {number} fine  returned on success @param {number} problem  returned on an error
   * @param {number} cannot  returned where Python cannot be suspended
   */
  waiter(request, fine, problem, cannot) {
    const { port } = this;
    const module = /** @type {Module} */ (port.py._module);
    const { _JsvPromise_Syncify: sync, wasmTable, validSuspender: valid } = module;
    if (!sync || !wasmTable || !valid) return 0;
    // Neither function throws, because an exception must not unwind CPython's frames.
    const start = () => (valid.value ? this.#asked(request) : null);
    const finish = (/** @type {{ handle: number, to: number } | null | undefined} */ found) => {
      if (found?.handle === undefined) return cannot;
      try {
        if (found.handle) this.#end(found.handle, found.to);
      } catch (error) {
        this.#failed(error);
      }
      return port.lost || port.problems.length ? problem : fine;
    };
    const bytes = Uint8Array.from(atob(WAIT), (letter) => letter.charCodeAt(0));
    const e = /** @type {WebAssembly.ModuleImports} */ ({ start, sync, finish });
    const made = new WebAssembly.Instance(new WebAssembly.Module(bytes), { e });
    const place = wasmTable.grow(1);
    wasmTable.set(place, made.exports.wait);
    return place;
  }

  /** @param {number} request */
  async #asked(request) {
    const words = this.port.words(request, 5); // the next request may overwrite these
    let handle = words[0];
    const to = words[4];
    try {
      if (handle === EVERYTHING) {
        handle = 0;
        await this.port.finished();
      } else {
        handle ||= this.read(words[1], words[2], words[3]);
        await this.wait(handle);
      }
    } catch (error) {
      this.#failed(error);
    }
    return { handle, to };
  }

  /** @param {number} handle @param {number} to  address */
  #end(handle, to) {
    try {
      if (!this.port.lost && !this.port.problems.length) this.take(handle, to);
    } finally {
      this.release(handle);
    }
  }
}
