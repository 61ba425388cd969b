// plans.js: how dispatches are encoded for gpu.js, and the plans that are kept to be replayed.
//
// A plan has six words a dispatch: pipeline, bind group, offset of the parameters, grid x, y, z.

/**
 * @typedef {{ buffer: GPUBuffer, group: GPUBindGroup }} Arena  parameters on the device
 * @typedef {{ words: Uint32Array, pipelines: (GPUComputePipeline | null)[],
 *   groups: (GPUBindGroup | null)[], arena: Arena, part: number }} Kept  null: as for the dispatch
 *   before; part: dispatches that are submitted at once
 */

const ROOM = 1 << 16;
const STRIDE = 6;
/** Bytes of parameters that a kernel sees from its offset on: four slots. */
export const SEEN = 1024;

export class Plans {
  /** @param {import("./gpu.js").Port} port */
  constructor(port) {
    this.port = port;
    /** @type {Arena | null} */
    this.arena = null;
    /** @type {import("./timer.js").Timer | null} */
    this.timer = null; // while a profile goes on
  }

  /** Runs a plan once. @param {Uint32Array} words @param {Uint8Array<ArrayBuffer>} parameters */
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

  /** A plan to be replayed. @param {Uint32Array} words
   *  @param {Uint8Array<ArrayBuffer>} parameters @param {number} part @returns {Kept} */
  keep(words, parameters, part) {
    const arena = this.#arena(parameters.length);
    this.port.queue.writeBuffer(arena.buffer, 0, parameters);
    return this.#resolved(words, arena, part);
  }

  /** A plan with objects for its numbers. @param {Uint32Array} words @param {Arena} arena
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

  /** Dispatches `first` to `last` of a plan, in one pass and one submit. @param {Kept} plan
   *  @param {number} first @param {number} last */
  #encode(plan, first, last) {
    if (this.timer) {
      this.timer.encode(plan, first, last);
      return;
    }
    const { words, pipelines, groups, arena } = plan;
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

  /** Runs a kept plan, part by part: one runs while the next is encoded. @param {Kept} plan */
  replay(plan) {
    const { part, words } = plan;
    const count = words.length / STRIDE;
    for (let at = 0; at < count; at += part) this.#encode(plan, at, Math.min(at + part, count));
  }

  /** Gives one dispatch of a kept plan another bind group. @param {Kept} plan
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
