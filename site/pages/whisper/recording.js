// recording.js: a recording that is read piece by piece: a file, or what the microphone hears.

import { headOf, kindOf, readable, unlike } from "../shared/opening/kinds.js";
import { Peaks } from "./peaks.js";

const MOST_DECODED = 500e6; // bytes of samples of a file that is decoded as a whole
const GRAIN = 60; // seconds of a file that are read for the waveform at a time

/**
 * @typedef {object} Recording
 * @property {string} name  a file name
 * @property {number} rate  samples a second
 * @property {number} seconds  the duration so far
 * @property {Peaks} peaks
 * @property {boolean} live  whether it still grows
 * @property {() => Blob} blob  what a player plays
 * @property {(from: number, to: number) => Promise<Float32Array<ArrayBuffer>>} read  the samples
 *   of a span in seconds, channels mixed to one; fewer where the recording ends
 */

/** An error with what to do about it. @param {string} message @param {string} hint */
export function trouble(message, hint) {
  return Object.assign(new Error(message), { hint });
}

/** @param {AudioBuffer} buffer @returns {Float32Array<ArrayBuffer>} the mean of the channels */
function mixed(buffer) {
  const made = buffer.getChannelData(0).slice();
  const count = buffer.numberOfChannels;
  for (let c = 1; c < count; c += 1) {
    const other = buffer.getChannelData(c);
    for (let i = 0; i < made.length; i += 1) made[i] += other[i];
  }
  if (count > 1) for (let i = 0; i < made.length; i += 1) made[i] /= count;
  return made;
}

// --- files ---------------------------------------------------------------------------------------

/** Reads a file's audio from the file as it is asked for, so hours of it fit in memory.
 *  @param {Blob} blob @returns {Promise<Pick<Recording, "rate" | "seconds" | "read"> | null>}
 *  null if the container or its codec is not known */
async function streamed(blob) {
  const { ALL_FORMATS, AudioBufferSink, BlobSource, Input } = await import(
    "../shared/mediabunny.js"
  );
  const input = new Input({ source: new BlobSource(blob), formats: ALL_FORMATS });
  if (!(await input.canRead())) return null;
  const track = await input.getPrimaryAudioTrack();
  if (!track) throw trouble("This file has no sound.", "Choose a recording or a film with sound.");
  if (!(await track.canDecode())) return null;
  const rate = await track.getSampleRate();
  const seconds = await track.computeDuration();
  const sink = new AudioBufferSink(track);
  return {
    rate,
    seconds,
    async read(from, to) {
      const end = Math.min(to, seconds);
      const samples = new Float32Array(Math.max(0, Math.round((end - from) * rate)));
      for await (const { buffer, timestamp } of sink.buffers(from, end)) {
        const part = mixed(buffer);
        const at = Math.round((timestamp - from) * rate);
        const skip = Math.max(0, -at);
        if (at + skip >= samples.length) break;
        samples.set(part.subarray(skip, samples.length - at), at + skip);
      }
      return samples;
    },
  };
}

/** How long a file is, as the browser's player says; NaN if it cannot play it. @param {Blob} blob
 *  @returns {Promise<number>} */
function lengthOf(blob) {
  const player = document.createElement("audio");
  const url = URL.createObjectURL(blob);
  return new Promise((resolve) => {
    player.preload = "metadata";
    player.onloadedmetadata = () => resolve(player.duration);
    player.onerror = () => resolve(NaN);
    player.src = url;
  }).finally(() => {
    player.removeAttribute("src");
    URL.revokeObjectURL(url);
  });
}

/** Decodes a file as a whole, by the browser's own list of formats. It is refused where the samples
 *  would not fit: a browser decodes at the file's own rate, say 48000 a second in two channels.
 *  @param {Blob} blob @param {string} name
 *  @returns {Promise<Pick<Recording, "rate" | "seconds" | "read"> | null>} */
async function decoded(blob, name) {
  const seconds = await lengthOf(blob);
  if (Number.isNaN(seconds)) return null;
  const bytes = seconds * 48000 * 2 * 4;
  if (bytes > MOST_DECODED) {
    const length = Number.isFinite(seconds) ? `${Math.round(seconds / 60)} minutes` : "endless";
    throw trouble(
      `${name} (${length}) does not fit: this browser reads its format only as a whole.`,
      "Save it as WAV, MP3, M4A, Ogg or FLAC, which are read part by part; or cut it.",
    );
  }
  try {
    const rate = 16000;
    const context = new OfflineAudioContext(1, 1, rate);
    const samples = mixed(await context.decodeAudioData(await blob.arrayBuffer()));
    return {
      rate,
      seconds: samples.length / rate,
      read: async (from, to) => samples.slice(Math.round(from * rate), Math.round(to * rate)),
    };
  } catch {
    return null;
  }
}

/** A file as a recording; an error in words if it is none. @param {Blob} blob
 *  @param {string} name @returns {Promise<Recording>} */
export async function openFile(blob, name) {
  const file = Object.assign(blob.slice(), { name });
  if (blob.size === 0) throw trouble(`${name} is empty.`, "Choose a file with sound in it.");
  const head = await headOf(file);
  const kind = kindOf(head);
  const kinds = "WAV, MP3, M4A, Ogg, Opus, FLAC, WebM and MP4 are read by most browsers.";
  if (kind ? !/recording$|film$/.test(kind) : readable(head)) {
    throw trouble(unlike(file, kind, "recording"), kinds);
  }
  const found = (await streamed(blob).catch(passOwn)) ?? (await decoded(blob, name));
  if (!found) {
    throw trouble(`${name} is damaged, or no recording that this browser can read.`, kinds);
  }
  if (!(found.seconds > 0)) throw trouble(`${name} holds no sound.`, "Choose another file.");
  return { ...found, name, peaks: new Peaks(), live: false, blob: () => blob };
}

/** Lets the page's own errors through; those of the reader mean that it cannot read the file.
 *  @param {any} error @returns {null} */
function passOwn(error) {
  if (error.hint) throw error;
  return null;
}

/** Reads a file from end to end for its waveform. @param {Recording} recording
 *  @param {AbortSignal} signal @param {() => void} grown  called as the peaks grow */
export async function readPeaks(recording, signal, grown) {
  for (let at = 0; at < recording.seconds; at += GRAIN) {
    const samples = await recording.read(at, at + GRAIN);
    if (signal.aborted) return;
    recording.peaks.add(samples, recording.rate);
    grown();
  }
}

// --- the microphone's ----------------------------------------------------------------------------

/** What the microphone hears, kept as 16-bit samples: 115 MB an hour at 16 kHz.
 *  @implements {Recording} */
export class Tape {
  /** @param {number} rate  samples a second */
  constructor(rate) {
    this.rate = rate;
    this.name = "recording.wav";
    this.peaks = new Peaks();
    this.live = true;
    /** @type {Int16Array<ArrayBuffer>[]} */
    this.blocks = [];
    /** @type {number[]} where each block begins */
    this.starts = [];
    this.count = 0;
  }

  get seconds() {
    return this.count / this.rate;
  }

  /** @param {Float32Array} samples */
  add(samples) {
    this.peaks.add(samples, this.rate);
    this.blocks.push(Int16Array.from(samples, (v) => Math.max(-1, Math.min(1, v)) * 32767));
    this.starts.push(this.count);
    this.count += samples.length;
  }

  /** @param {number} from @param {number} to */
  async read(from, to) {
    const begin = Math.max(0, Math.round(from * this.rate));
    const end = Math.min(this.count, Math.round(to * this.rate));
    const samples = new Float32Array(Math.max(0, end - begin));
    let i = this.starts.findLastIndex((start) => start <= begin);
    for (; i >= 0 && i < this.blocks.length && this.starts[i] < end; i += 1) {
      const block = this.blocks[i];
      const last = Math.min(block.length, end - this.starts[i]);
      for (let k = Math.max(0, begin - this.starts[i]); k < last; k += 1) {
        samples[this.starts[i] + k - begin] = block[k] / 32767;
      }
    }
    return samples;
  }

  /** The recording as a WAV file. */
  blob() {
    const bytes = this.count * 2;
    const head = new DataView(new ArrayBuffer(44));
    const text = (/** @type {number} */ at, /** @type {string} */ letters) =>
      [...letters].forEach((letter, i) => head.setUint8(at + i, letter.charCodeAt(0)));
    text(0, "RIFF");
    head.setUint32(4, 36 + bytes, true);
    text(8, "WAVEfmt ");
    head.setUint32(16, 16, true);
    head.setUint16(20, 1, true); // PCM
    head.setUint16(22, 1, true); // one channel
    head.setUint32(24, this.rate, true);
    head.setUint32(28, this.rate * 2, true);
    head.setUint16(32, 2, true);
    head.setUint16(34, 16, true);
    text(36, "data");
    head.setUint32(40, bytes, true);
    return new Blob([head, ...this.blocks], { type: "audio/wav" });
  }
}
