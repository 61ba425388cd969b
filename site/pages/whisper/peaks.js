// peaks.js: how loud a recording is, 20 values a second, for the waveform and for finding silence.

export const STEP = 0.05; // seconds of one value
const MARGIN = 0.3; // seconds of silence that are kept around a sound
/** What stays below it, -48 dB, is silence. */
export const SILENCE = 0.004;

/** The loudness of a recording, which grows: half the distance of the least and largest sample of
 *  each step, so that an offset of the microphone is no sound. */
export class Peaks {
  constructor() {
    this.values = new Float32Array(1024);
    this.count = 0;
    this.filled = 0; // samples of the last value
    this.low = 0;
    this.high = 0;
  }

  /** @param {Float32Array} samples @param {number} rate */
  add(samples, rate) {
    const size = Math.round(rate * STEP);
    for (let at = 0; at < samples.length; ) {
      if (this.filled === 0) {
        this.#grow();
        this.low = Infinity;
        this.high = -Infinity;
      }
      const end = Math.min(samples.length, at + size - this.filled);
      this.filled = (this.filled + end - at) % size;
      for (; at < end; at += 1) {
        const value = samples[at];
        if (value < this.low) this.low = value;
        if (value > this.high) this.high = value;
      }
      // A file may hold values that are no numbers, which are neither low nor high.
      this.values[this.count - 1] = Math.max(0, (this.high - this.low) / 2);
    }
  }

  #grow() {
    if (this.count === this.values.length) {
      const more = new Float32Array(this.count * 2);
      more.set(this.values);
      this.values = more;
    }
    this.count += 1;
  }

  /** The loudest between two times in seconds. @param {number} from @param {number} to */
  between(from, to) {
    const end = Math.min(this.count, Math.ceil(to / STEP));
    let most = 0;
    for (let i = Math.max(0, Math.floor(from / STEP)); i < end; i += 1) {
      most = Math.max(most, this.values[i]);
    }
    return most;
  }
}

/** Samples without the silence at their ends, but for a moment of it: from begin to end; nothing of
 *  silent ones. @param {Float32Array} samples @param {number} rate */
export function sounding(samples, rate) {
  const peaks = new Peaks();
  peaks.add(samples, rate);
  const loud = peaks.values.subarray(0, peaks.count);
  const first = loud.findIndex((value) => value >= SILENCE);
  if (first < 0) return { begin: 0, end: 0 };
  const last = loud.findLastIndex((value) => value >= SILENCE) + 1;
  return {
    begin: Math.max(0, Math.round((first * STEP - MARGIN) * rate)),
    end: Math.min(samples.length, Math.round((last * STEP + MARGIN) * rate)),
  };
}

/**
 * Where to cut samples so that no word is cut: the middle of the quietest 0.3 s of the last third.
 * @param {Float32Array} samples @param {number} rate @returns {number} a number of samples
 */
export function quietest(samples, rate) {
  const size = Math.round(rate * STEP);
  const sums = [];
  for (let at = Math.floor((samples.length * 2) / 3); at + size <= samples.length; at += size) {
    let sum = 0;
    for (let i = at; i < at + size; i += 1) sum += samples[i] * samples[i];
    sums.push({ at, sum });
  }
  const span = 6;
  let best = samples.length;
  let least = Infinity;
  for (let i = 0; i + span <= sums.length; i += 1) {
    const sum = sums.slice(i, i + span).reduce((total, one) => total + one.sum, 0);
    if (sum > least) continue;
    least = sum;
    best = sums[i].at + (size * span) / 2;
  }
  return best;
}
