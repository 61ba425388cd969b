// stored.js: reads files of PyTorch and NumPy, zips mostly: what they hold by ranges, and then each
// byte once, into the memory of the device.

import { Scatter } from "./places.js";
import { WeightsError, megabytes } from "./ranges.js";
import { Spans } from "./spans.js";

/**
 * @typedef {import("./ranges.js").FileSpec} FileSpec
 * @typedef {import("./ranges.js").ReadOptions} ReadOptions
 * @typedef {import("./weights.js").WeightStore} WeightStore
 * @typedef {import("./places.js").Builder} Builder
 */

export const STORED = /\.(bin|pth?|npz)$/i;
const MOST = 2 ** 29; // bytes of a file that is read whole: it is in the heap twice for a moment
const RECORD = 30; // bytes of the record before a member of a zip
const SIGN = [0x50, 0x4b, 3, 4]; // which begins such a record

/** Finds in a zip's stream where its members begin: behind a record, and a name and more, whose
 *  lengths stand in it. */
class Records {
  /** @param {number[]} places  of the records @param {Scatter} scatter */
  constructor(places, scatter) {
    this.places = places;
    this.scatter = scatter;
    this.next = 0;
    /** @type {number[]} */
    this.record = [];
  }

  /** Moves the tensors behind the records that end in `bytes`. @param {FileSpec} file
   *  @param {number} offset  of `bytes` in the file @param {Uint8Array} bytes */
  pass(file, offset, bytes) {
    while (this.next < this.places.length) {
      const { record } = this;
      const place = this.places[this.next];
      const at = place + record.length - offset;
      if (at >= bytes.length) return;
      record.push(...bytes.subarray(at, at + RECORD - record.length));
      if (record.length < RECORD) return;
      const length = (/** @type {number} */ i) => record[i] + 256 * record[i + 1];
      const end = this.places[this.next + 1] ?? Infinity;
      const fits = this.scatter.shift(place, end, length(26) + length(28));
      if (!fits || SIGN.some((byte, i) => record[i] !== byte)) throw damaged(file);
      this.record = [];
      this.next += 1;
    }
  }
}

/** @param {FileSpec} file */
function damaged({ path, url }) {
  const hint = "Download the file again.";
  return new WeightsError(`${path} is not the zip that its directory describes`, { hint, url });
}

/**
 * Reads a file tensor by tensor into the places that `builder` returns. False if it has to be read
 * whole; throws an error if it is too large for that.
 * @param {WeightStore} store @param {FileSpec} file @param {Builder} builder
 * @param {() => Uint8Array} heap @param {ReadOptions} options
 */
export async function readStored(store, file, builder, heap, options) {
  const spans = new Spans(file, store);
  if (!(await looked(store, file, spans, builder, options.signal))) {
    const size = spans.size || file.size || 0;
    if (size <= MOST) return false;
    const message = `${file.path} (${megabytes(size)}) can only be read whole`;
    const hint = `A tab does that up to ${megabytes(MOST)}; save it as .safetensors.`;
    throw new WeightsError(message, { hint, retry: false });
  }
  const [count, ...numbers] = builder.beginStored();
  const scatter = new Scatter(numbers.slice(count), heap, builder);
  const records = new Records(numbers.slice(0, count), scatter);
  const { body } = await store.open(file, options);
  let offset = 0;
  for await (const bytes of body) {
    records.pass(file, offset, bytes);
    scatter.write(offset, /** @type {Uint8Array<ArrayBuffer>} */ (bytes));
    await scatter.settle();
    offset += bytes.length;
  }
  await scatter.settle(0);
  if (offset !== spans.size) throw damaged(file);
  return true;
}

/** Whether Python knows now what the file holds, from ranges of it.
 *  @param {WeightStore} store @param {FileSpec} file @param {Spans} spans
 *  @param {Builder} builder @param {AbortSignal} [signal] */
async function looked(store, file, spans, builder, signal) {
  try {
    let [offset, bytes] = [0, await spans.open(signal)];
    for (;;) {
      const next = builder.look(spans.path, spans.size, offset, bytes);
      if (next === null) return false;
      if (next.length === 0) return true;
      offset = next[0];
      bytes = await spans.read(offset, next[1], signal);
    }
  } catch (error) {
    // A server without ranges, or one that hides the size.
    if (!(error instanceof WeightsError)) await store.drop(file); // what is kept may be damaged
    else if (!error.retry && error.status === null) return false;
    throw error;
  }
}
