// commands.js: encodes dispatches for gpu.js, to run once or to be replayed.
//
// A command list has six words per dispatch: pipeline, bind group, offset of the parameters, and
// the workgroups along x, y and z.

/**
 * @typedef {{ buffer: GPUBuffer, group: GPUBindGroup }} Arena  parameters on the device
 * @typedef {{ words: Uint32Array, pipelines: (GPUComputePipeline | null)[],
 *   groups: (GPUBindGroup | null)[], arena: Arena, part: number }} Kept  a command list that can be
 *   replayed. null: the same as the dispatch before. part: number of dispatches per submit
 */

const ROOM = 1 << 16;
const STRIDE = 6;
/** Bytes of parameters that a kernel reads, starting at its offset: four slots. */
export const SEEN = 1024;

export class CommandLists {
  /** @param {import("./gpu.js").Port} port */
  constructor(port) {
    this.port = port;
    /** @type {Arena | null} */
    this.arena = null;
    /** @type {import("./timer.js").Timer | null} */
    this.timer = null; // set while a profile runs
  }

  /** Runs a command list once. @param {Uint32Array} words
   *  @param {Uint8Array<ArrayBuffer>} parameters */
  submit(words, parameters) {
    if (!this.arena || this.arena.buffer.size < parameters.length + SEEN) {
      this.arena?.buffer.destroy();
      this.arena = this.#arena(Math.max(ROOM, 2 ** Math.ceil(Math.log2(parameters.length))));
    }
    this.port.queue.writeBuffer(this.arena.buffer, 0, parameters);
    const count = words.length / STRIDE;
    this.#encode(this.#resolved(words, this.arena, count), 0, count);
  }

  /** @param {number} size  bytes @returns {Arena} */
  #arena(size) {
    const { device } = this.port;
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const buffer = device.createBuffer({ size: size + SEEN, usage });
    const entries = [{ binding: 0, resource: { buffer, size: SEEN } }];
    return { buffer, group: device.createBindGroup({ layout: this.port.layout("u"), entries }) };
  }

  /** A command list to be replayed. @param {Uint32Array} words
   *  @param {Uint8Array<ArrayBuffer>} parameters @param {number} part @returns {Kept} */
  keep(words, parameters, part) {
    const arena = this.#arena(parameters.length);
    this.port.queue.writeBuffer(arena.buffer, 0, parameters);
    return this.#resolved(words, arena, part);
  }

  /** A command list whose handles are resolved. @param {Uint32Array} words @param {Arena} arena
   *  @param {number} part @returns {Kept} */
  #resolved(words, arena, part) {
    /** @type {Kept} */
    const made = { words, pipelines: [], groups: [], arena, part };
    for (let i = 0; i < words.length; i += STRIDE) {
      const first = i % (part * STRIDE) === 0;
      const same = !first && words[i] === words[i - STRIDE];
      made.pipelines.push(same ? null : (this.port.pipelines.get(words[i]) ?? null));
      const bound = !first && words[i + 1] === words[i + 1 - STRIDE];
      made.groups.push(bound ? null : (this.port.groups.get(words[i + 1]) ?? null));
    }
    return made;
  }

  /** Dispatches `first` to `last` of a command list, in one pass and one submit. @param {Kept} list
   *  @param {number} first @param {number} last */
  #encode(list, first, last) {
    if (this.timer) {
      this.timer.encode(list, first, last);
      return;
    }
    const { words, pipelines, groups, arena } = list;
    const encoder = this.port.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    let slot = -1;
    for (let k = first, i = first * STRIDE; k < last; k += 1, i += STRIDE) {
      const pipeline = pipelines[k];
      if (pipeline) {
        pass.setPipeline(pipeline);
        this.port.checkPipeline(words[i]);
      }
      const group = groups[k];
      if (group) pass.setBindGroup(0, group);
      if (words[i + 2] !== slot) {
        slot = words[i + 2];
        pass.setBindGroup(1, arena.group, words, i + 2, 1);
      }
      pass.dispatchWorkgroups(words[i + 3], words[i + 4], words[i + 5]);
    }
    pass.end();
    this.port.queue.submit([encoder.finish()]);
  }

  /** Runs a kept command list part by part. One part runs while the next is encoded.
   *  @param {Kept} list */
  replay(list) {
    const { part, words } = list;
    const count = words.length / STRIDE;
    for (let at = 0; at < count; at += part) this.#encode(list, at, Math.min(at + part, count));
  }

  /** Changes the bind group of one dispatch of a kept command list. @param {Kept} list
   *  @param {number} dispatch @param {number} group */
  patch({ words, groups }, dispatch, group) {
    const next = dispatch + 1;
    if (next < groups.length && !groups[next]) {
      groups[next] = this.port.groups.get(words[next * STRIDE + 1]) ?? null;
    }
    words[dispatch * STRIDE + 1] = group;
    groups[dispatch] = this.port.groups.get(group) ?? null;
  }
}
