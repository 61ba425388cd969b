// memory.js: the memory that a model needs on each device, and whether this tab has it.

import { size } from "./page.js";

/**
 * @typedef {import("../rushlight/client.js").Facts} Facts
 * @typedef {import("../rushlight/client.js").Fit} Fit
 * @typedef {{ fits: boolean, words: string, most: number }} Room  most: tokens of a context; -1 if
 *   not even the weights fit
 */

const HEAP = 2 ** 32; // the most memory that WebAssembly has in a tab

/** Bytes of the cache of a conversation. @param {NonNullable<Fit["cache"]>} cache
 *  @param {number} tokens */
export const cacheBytes = ({ fixed, perToken, windows }, tokens) =>
  fixed +
  perToken * tokens +
  windows.reduce((sum, [window, bytes]) => sum + bytes * Math.min(window, tokens), 0);

/** What the weights and a context of so many tokens need, and whether each device has it.
 *  @param {Facts} facts @param {Fit} fit @param {number} tokens */
export function needs({ tensorBytes, largest }, { cache, webgpu, heapBytes }, tokens) {
  const kept = cache ? cacheBytes(cache, tokens) : 0;
  const room = HEAP - heapBytes;
  /** The longest context of which `fits` holds. @param {(tokens: number) => boolean} fits */
  const longest = (fits) => {
    if (!fits(0)) return -1;
    let [low, high] = [0, 2 ** 30];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (fits(middle)) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  /** @type {Room} */
  const cpu = {
    fits: tensorBytes + kept <= room,
    words: `${tensorBytes + kept <= room ? "fits in" : "more than the"} ${size(room)} of a tab`,
    most: longest((n) => tensorBytes + (cache ? cacheBytes(cache, n) : 0) <= room),
  };
  const buffer = webgpu?.largest ?? 0;
  const row = cache?.largestRow ?? 0;
  const tensor = Math.max(largest, row * tokens);
  const holds = webgpu !== null && tensor <= buffer;
  const named = `its largest tensor, ${size(tensor)},`;
  /** @type {Room} */
  const gpu = {
    fits: holds,
    words: !webgpu
      ? "no WebGPU adapter"
      : holds
        ? `${named} fits in a buffer of ${size(buffer)}`
        : `${named} is more than a buffer of ${size(buffer)}`,
    most: longest((n) => webgpu !== null && largest <= buffer && row * n <= buffer),
  };
  return { kept, together: tensorBytes + kept, cpu, webgpu: gpu };
}
