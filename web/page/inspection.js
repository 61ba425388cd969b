// inspection.js: a weight file that a page looks into; see inspection.d.ts.

/**
 * @typedef {{ call(name: string, given: unknown[], options?: object): Promise<any>,
 *   dead: Error | null }} Link
 */

/** @implements {import("./inspection.d.ts").Inspection} */
export class Inspection {
  #link;
  #id;

  /** @param {Link} link @param {any} made  what the worker's `inspect` returned */
  constructor(link, { id, ...facts }) {
    this.#link = link;
    this.#id = id;
    /** @type {import("./inspection.d.ts").Facts} */
    this.facts = facts;
  }

  /** @param {{ signal?: AbortSignal }} [options] */
  fit(options) {
    return this.#link.call("inspectFit", [this.#id], options);
  }

  /** @param {number} number @param {import("./inspection.d.ts").InspectOptions} [options] */
  tensor(number, options) {
    if (!this.facts.tensors[number]) throw new RangeError(`there is no tensor number ${number}`);
    return this.#link.call("inspectTensor", [this.#id, number], options);
  }

  /** @param {string} [search] @param {number} [start] @param {number} [count] */
  tokens(search = "", start = 0, count = 100) {
    return this.#link.call("inspectTokens", [this.#id, search, start, count]);
  }

  /** @param {import("./client.d.ts").ChatMessage[]} messages */
  prompt(messages) {
    return this.#link.call("inspectPrompt", [this.#id, messages]);
  }

  async close() {
    if (!this.#link.dead) await this.#link.call("inspectClose", [this.#id]);
  }
}
