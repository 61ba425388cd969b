// timer.js: timestamps for commands.js. Each dispatch runs in a pass of its own, which records its
// begin and end.

/** @typedef {import("./commands.js").Kept} Kept */

const TIMED = 512; // dispatches per resolve of timestamps
const ROOM = 1 << 20; // bytes of timestamps per buffer
const STRIDE = 6;

export class Timer {
  /** @param {import("./gpu.js").Port} port */
  constructor(port) {
    this.port = port;
    this.queries = port.device.createQuerySet({ type: "timestamp", count: 2 * TIMED });
    /** @type {number[]} of (buffer, offset, size) */
    this.ranges = [];
    this.handle = 0;
    this.used = ROOM;
  }

  /** Dispatches `first` to `last` of a command list. @param {Kept} list
   *  @param {number} first @param {number} last */
  encode(list, first, last) {
    /** @type {[GPUComputePipeline | null, GPUBindGroup | null]} */
    const state = [null, null];
    for (let at = first; at < last; at += TIMED) {
      this.#part(list, at, Math.min(at + TIMED, last), state);
    }
  }

  /** @param {Kept} list @param {number} first @param {number} last
   *  @param {[GPUComputePipeline | null, GPUBindGroup | null]} state */
  #part({ words, pipelines, groups, arena }, first, last, state) {
    const { device, queue } = this.port;
    const encoder = device.createCommandEncoder();
    for (let k = first, i = first * STRIDE; k < last; k += 1, i += STRIDE) {
      state[0] = pipelines[k] ?? state[0]; // null: as before
      state[1] = groups[k] ?? state[1];
      const at = 2 * (k - first);
      const pass = encoder.beginComputePass({
        timestampWrites: {
          querySet: this.queries,
          beginningOfPassWriteIndex: at,
          endOfPassWriteIndex: at + 1,
        },
      });
      this.port.checkPipeline(words[i]);
      pass.setPipeline(/** @type {GPUComputePipeline} */ (state[0]));
      pass.setBindGroup(0, state[1]);
      pass.setBindGroup(1, arena.group, words, i + 2, 1);
      pass.dispatchWorkgroups(words[i + 3], words[i + 4], words[i + 5]);
      pass.end();
    }
    const count = last - first;
    const buffer = this.#room(16 * count);
    encoder.resolveQuerySet(this.queries, 0, 2 * count, buffer, this.used);
    this.ranges.push(this.handle, this.used, 16 * count);
    this.used += Math.ceil(count / 16) * 256;
    queue.submit([encoder.finish()]);
  }

  /** @param {number} size */
  #room(size) {
    if (this.used + size > ROOM) {
      const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
      const made = this.port.device.createBuffer({ size: ROOM, usage });
      this.handle = this.port.adopt(made);
      this.used = 0;
    }
    return /** @type {GPUBuffer} */ (this.port.buffers.get(this.handle));
  }

  /** Stops timing and frees the buffers. */
  free() {
    const { ranges } = this;
    for (let i = 0; i < ranges.length; i += 3) this.port.free(ranges[i]);
    this.queries.destroy();
  }
}
