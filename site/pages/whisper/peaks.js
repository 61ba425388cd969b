// peaks.js: how loud a recording is, 20 values a second, for the waveform and for finding silence.

export const STEP = 0.05; // seconds of one value
/** What stays below it, -48 dB, is silence. */
export const SILENCE = 0.004;

/** The largest magnitudes of a recording, which grows. */
export class Peaks {
  constructor() {
    this.values = new Float32Array(1024);
    this.count = 0;
    this.filled = 0; // samples of the last value
  }

  /** @param {Float32Array} samples @param {number} rate */
  add(samples, rate) {
    const size = Math.round(rate * STEP);
    for (let at = 0; at < samples.length; ) {
      if (this.filled === 0) this.#grow();
      const end = Math.min(samples.length, at + size - this.filled);
      this.filled = (this.filled + end - at) % size;
      let most = this.values[this.count - 1];
      for (; at < end; at += 1) most = Math.max(most, Math.abs(samples[at]) || 0);
      this.values[this.count - 1] = most;
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

  /** The largest magnitude between two times in seconds. @param {number} from @param {number} to */
  between(from, to) {
    const end = Math.min(this.count, Math.ceil(to / STEP));
    let most = 0;
    for (let i = Math.max(0, Math.floor(from / STEP)); i < end; i += 1) {
      most = Math.max(most, this.values[i]);
    }
    return most;
  }
}

/** Whether samples are silent from end to end. @param {Float32Array} samples */
export const silent = (samples) => samples.every((value) => !(Math.abs(value) >= SILENCE));

/**
 * Where to cut samples so that no word is cut: the middle of the quietest 0.3 s of their last third.
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
