// live.js: transcribes speech while it is spoken, of chunks of samples or a stream of the browser.
// See live.d.ts.

/**
 * @typedef {import("./live.d.ts").LiveText} LiveText
 * @typedef {{ call(name: string, given: unknown[], options?: object): Promise<any> }} Link
 */

const RATE = 16000;

/** The sound of a stream in blocks, its channels mixed. @param {MediaStream} stream
 *  @param {(samples: Float32Array<ArrayBuffer>) => void} take
 *  @returns {Promise<import("./live.d.ts").Capture>} */
export async function captureAudio(stream, take) {
  let context = new AudioContext({ sampleRate: RATE });
  let source;
  try {
    source = context.createMediaStreamSource(stream);
  } catch {
    // Firefox joins a microphone to contexts of its own rate only; the library resamples.
    await context.close();
    context = new AudioContext();
    source = context.createMediaStreamSource(stream);
  }
  const stop = async () => {
    if (context.state !== "closed") await context.close();
  };
  try {
    await context.audioWorklet.addModule(new URL("./capture.js", import.meta.url));
    const node = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0 });
    node.port.onmessage = ({ data }) => take(data);
    source.connect(node);
    await context.resume();
    return { rate: context.sampleRate, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @implements {import("./live.d.ts").Live} */
export class Live {
  #link;
  /** @type {Promise<number>} the number of the transcription in the worker */
  #begun;
  #rate = RATE;
  /** @type {Float32Array[]} */
  #pending = [];
  /** @type {import("./live.d.ts").Capture | null} */
  #capture = null;
  #control = new AbortController();
  #ended = false;
  /** @type {"open" | "done" | "failed"} */
  #state = "open";
  /** @type {unknown} */
  #error = null;
  #pumping = false;
  #looks = 0;
  /** Wakes whoever waits for a change. @type {Set<() => void>} */
  #waiting = new Set();
  #onText;
  /** @type {LiveText} */
  heard = { text: "", segments: [], tentative: [], seconds: 0, language: null };

  /** @param {Link} link @param {number} id  the model's
   *  @param {import("./live.d.ts").LiveOptions} options */
  constructor(link, id, { source, rate = RATE, every = 1, onText, signal, ...options } = {}) {
    this.#link = link;
    this.#onText = onText;
    const chosen = Object.fromEntries(Object.entries(options).filter(([, value]) => value != null));
    this.#begun = (async () => {
      this.#rate = source instanceof MediaStream ? await this.#listen(source) : rate;
      const given = [id, this.#rate, every, chosen];
      return link.call("liveBegin", given, { signal: this.#control.signal });
    })();
    this.#begun.then(() => this.#pump(), (error) => this.#fail(error));
    if (source && !(source instanceof MediaStream)) void this.#follow(source);
    if (signal?.aborted) this.close(signal.reason);
    signal?.addEventListener("abort", () => this.close(signal.reason), { once: true });
  }

  /** @param {MediaStream} stream */
  async #listen(stream) {
    this.#capture = await captureAudio(stream, (samples) => this.#take(samples));
    for (const track of stream.getAudioTracks()) {
      track.addEventListener("ended", () => void this.end().catch(() => {}), { once: true });
    }
    return this.#capture.rate;
  }

  /** @param {Iterable<Float32Array> | AsyncIterable<Float32Array>} chunks */
  async #follow(chunks) {
    try {
      for await (const samples of chunks) {
        if (this.#state !== "open") return;
        this.push(samples);
      }
      await this.end();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {Float32Array} samples */
  push(samples) {
    if (this.#error) throw this.#error;
    if (this.#ended) throw new Error("push: the transcription has ended; begin another");
    if (!(samples instanceof Float32Array)) throw new TypeError("push: pass a Float32Array");
    this.#take(samples.slice()); // the caller may fill the same array again
  }

  /** @param {Float32Array} samples */
  #take(samples) {
    if (this.#ended) return;
    this.#pending.push(samples);
    void this.#pump();
  }

  /** Lets the worker hear what is there; what comes meanwhile is heard next. */
  async #pump() {
    if (this.#pumping || this.#state !== "open") return;
    this.#pumping = true;
    try {
      const number = await this.#begun;
      let more = false;
      while (this.#state === "open" && (this.#pending.length || more || this.#ended)) {
        const ended = this.#ended;
        const given = [number, joined(this.#pending.splice(0)), ended];
        const { signal } = this.#control;
        const found = await this.#link.call("liveHear", given, { signal });
        this.#told(found, ended);
        ({ more } = found);
        if (ended && !more) this.#state = "done";
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#pumping = false;
      if (this.#state !== "open") this.#wake();
    }
  }

  /** @param {{ kept: number, segments: any[], tentative: any[], seconds: number,
   *    language: string | null }} found @param {boolean} ended */
  #told({ kept, segments, tentative, seconds, language }, ended) {
    const before = this.heard;
    const all = [...before.segments.slice(0, kept), ...segments];
    const text = all.map((segment) => segment.text).join("").trim();
    this.heard = { text, segments: all, tentative, seconds, language };
    if (seconds === before.seconds && !ended) return; // too little for a look
    this.#looks += 1;
    this.#onText?.(this.heard);
    this.#wake();
  }

  /** @param {unknown} error */
  #fail(error) {
    if (this.#state !== "open") return;
    this.#state = "failed";
    this.#error = error;
    this.#ended = true;
    this.#pending = [];
    void this.#capture?.stop();
    this.#wake();
  }

  #wake() {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  #change() {
    return new Promise((resolve) => this.#waiting.add(() => resolve(undefined)));
  }

  async end() {
    await this.#begun.catch(() => {}); // a stream may still be opening
    if (!this.#ended) {
      await this.#capture?.stop();
      this.#ended = true;
      void this.#pump();
    }
    while (this.#state === "open") await this.#change();
    if (this.#state === "failed") throw this.#error;
    return this.heard;
  }

  /** @param {unknown} [reason] */
  close(reason = new DOMException("the transcription was closed", "AbortError")) {
    if (this.#state !== "open") return;
    this.#control.abort(reason);
    const drop = (/** @type {number} */ number) => this.#link.call("liveClose", [number]);
    this.#begun.then(drop).catch(() => {});
    this.#fail(reason);
  }

  /** @returns {AsyncGenerator<LiveText, void, void>} */
  async *[Symbol.asyncIterator]() {
    try {
      for (let seen = 0; ; ) {
        if (this.#looks !== seen) {
          seen = this.#looks;
          yield this.heard;
        } else if (this.#state === "failed") throw this.#error;
        else if (this.#state === "done") return;
        else await this.#change();
      }
    } finally {
      this.close(); // a consumer that left: nothing goes on behind its back
    }
  }
}

/** @param {Float32Array[]} parts */
function joined(parts) {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
