// places.js: writes a file's bytes, as they stream in, to the places of its tensors. A place is an
// address in the WebAssembly memory or a buffer of the GPU.

import { concatenate } from "./ranges.js";

/**
 * Python's Builder as `flat` in loader.js wraps it.
 * @typedef {{ begin(path: string, head: Uint8Array, size: number): number[] | null,
 *   look(path: string, size: number, offset: number, bytes: Uint8Array): number[] | null,
 *   beginStored(): number[], open(number: number): number[], commit(bytes: number): void,
 *   addGraph(path: string, file: import("./remote.js").Given): void,
 *   check(): Promise<void>,
 *   port: import("../gpu/gpu.js").Port | null }} Builder
 * @typedef {{ start: number, end: number, kind: number, place: number }} Row
 */

const FIELDS = 4; // file offset, bytes, kind, place
const [HEAP, BUFFER] = [0, 1]; // kinds; the third is blocks, which Python repacks
const IN_FLIGHT = 64 << 20; // bytes that may be sent to the GPU before it is waited for

/** Writes bytes to a buffer of the GPU in whole words, up to `capacity` before a `commit`. */
class Upload {
  /** @param {import("../gpu/gpu.js").Port} port @param {number} handle @param {number} left  bytes
   *  @param {number} capacity @param {(bytes: number) => void} commit */
  constructor(port, handle, left, capacity, commit) {
    this.port = port;
    this.handle = handle;
    this.left = left;
    this.capacity = capacity;
    this.commit = commit;
    this.at = 0;
    this.rest = new Uint8Array(0);
  }

  /** @param {Uint8Array<ArrayBuffer>} part */
  write(part) {
    this.left -= part.length;
    let bytes = this.rest.length ? concatenate([this.rest, part]) : part;
    while (bytes.length >= 4) {
      const count = Math.min(bytes.length & ~3, this.capacity - this.at);
      this.#send(bytes.subarray(0, count), count);
      bytes = bytes.subarray(count);
    }
    this.rest = bytes.slice();
    if (this.left > 0) return;
    const rest = new Uint8Array(4 - bytes.length);
    if (bytes.length) this.#send(concatenate([bytes, rest]), bytes.length);
    if (this.at) this.commit(this.at);
  }

  /** @param {Uint8Array<ArrayBuffer>} words @param {number} count  bytes without padding */
  #send(words, count) {
    this.port.writeBytes(this.handle, this.at, words);
    this.at += count;
    if (this.at < this.capacity) return;
    this.commit(this.at);
    this.at = 0;
  }
}

/** Copies a file's stream to the places of its tensors. */
export class Scatter {
  /** @param {ArrayLike<number>} fields  (file offset, bytes, kind, place) per tensor, flat
   *  @param {() => Uint8Array} heap  a new view of the memory: growing it detaches older views
   *  @param {Builder} builder */
  constructor(fields, heap, builder) {
    this.heap = heap;
    this.builder = builder;
    /** @type {Row[]} */
    this.rows = [];
    for (let i = 0; i < fields.length; i += FIELDS) {
      const [start, size, kind, place] = [0, 1, 2, 3].map((k) => fields[i + k]);
      this.rows.push({ start, end: start + size, kind, place });
    }
    this.rows.sort((a, b) => a.start - b.start);
    this.end = this.rows.reduce((end, row) => Math.max(end, row.end), 0); // of all tensors
    this.next = 0;
    /** @type {Upload | null} */
    this.upload = null;
    this.sent = 0; // bytes sent to the GPU since the last wait for it
  }

  /** @param {number} offset  of `bytes` in the file; calls come in order
   *  @param {Uint8Array<ArrayBuffer>} bytes */
  write(offset, bytes) {
    const end = offset + bytes.length;
    while (this.next < this.rows.length && this.rows[this.next].end <= offset) this.next += 1;
    for (let i = this.next; i < this.rows.length && this.rows[i].start < end; i += 1) {
      const row = this.rows[i];
      const from = Math.max(row.start, offset);
      const part = bytes.subarray(from - offset, Math.min(row.end, end) - offset);
      if (part.length === 0) continue;
      if (row.kind === HEAP) {
        this.heap().set(part, row.place + (from - row.start));
        continue;
      }
      if (from === row.start) this.upload = this.#open(row);
      this.upload?.write(part);
      this.sent += part.length;
    }
  }

  /** @param {Row} row */
  #open({ start, end, kind, place }) {
    const { builder } = this;
    const port = /** @type {import("../gpu/gpu.js").Port} */ (builder.port);
    const size = end - start;
    if (kind === BUFFER) return new Upload(port, place, size, Infinity, () => {});
    const [handle, capacity] = builder.open(place);
    return new Upload(port, handle, size, capacity, (bytes) => builder.commit(bytes));
  }

  /** Moves the tensors between `from` and `to` back by so many bytes of the file.
   *  @param {number} from @param {number} to @param {number} by
   *  @returns {boolean} whether they still end before `to` */
  shift(from, to, by) {
    const moved = this.rows.filter(({ start }) => start >= from && start < to);
    for (const row of moved) {
      row.start += by;
      row.end += by;
    }
    return moved.every(({ end }) => end <= to);
  }

  /** Waits for the GPU if more than `most` bytes are in flight. Throws the GPU's errors.
   *  @param {number} [most] */
  async settle(most = IN_FLIGHT) {
    if (this.sent <= most) return;
    this.sent = 0;
    await this.builder.check();
  }
}
