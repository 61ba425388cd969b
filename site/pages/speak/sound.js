// sound.js: plays pieces of speech one after the other, from the first on, while others are made.

/** @typedef {{ audio: Float32Array<ArrayBuffer>, rate: number }} Piece */

const AHEAD = 0.05; // seconds before the first sample, so that none is late

/** Plays what `add` brings, without a gap. Times are seconds of the speech. */
export class Sound {
  /** @type {Piece[]} */
  #pieces = [];
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {AudioBufferSourceNode[]} */
  #sources = [];
  #begun = 0; // the context's time at which the speech's time was 0
  #place = 0; // the speech's time while nothing plays
  #playing = false;
  #ended = true; // whether no more pieces come
  #changed;

  /** @param {() => void} changed  called when it begins or ends to play */
  constructor(changed) {
    this.#changed = changed;
  }

  get playing() {
    return this.#playing;
  }

  /** The length of what was made. */
  get length() {
    return this.#pieces.reduce((sum, { audio, rate }) => sum + audio.length / rate, 0);
  }

  /** The place that is heard. */
  get place() {
    if (!this.#playing || !this.#context) return this.#place;
    const now = this.#context.currentTime - this.#begun;
    return Math.min(Math.max(now, 0), this.length);
  }

  /** Forgets what was made. More is coming: what is added plays as soon as it may. */
  begin() {
    this.#silence();
    this.#pieces = [];
    this.#place = 0;
    this.#ended = false;
    this.#context ??= new AudioContext();
    void this.#context.resume();
    this.#playing = true;
    this.#begun = Infinity;
    this.#changed();
  }

  /** @param {Piece} piece */
  add(piece) {
    const at = this.length;
    this.#pieces.push(piece);
    if (!this.#playing || !this.#context) return;
    // What came too late moves the rest: nothing is cut.
    const now = this.#context.currentTime + AHEAD;
    if (!(this.#begun + at >= now) || this.#begun === Infinity) this.#begun = now - at;
    this.#schedule(piece, this.#begun + at, 0);
  }

  /** No more pieces come. */
  end() {
    this.#ended = true;
    if (this.#playing && this.place >= this.length) this.pause();
  }

  /** Another sound for one of the pieces. @param {number} index @param {Piece} piece */
  replace(index, piece) {
    this.pause();
    this.#pieces[index] = piece;
    this.#place = this.startOf(index);
  }

  /** Where a piece begins. @param {number} index */
  startOf(index) {
    return this.#pieces
      .slice(0, index)
      .reduce((sum, { audio, rate }) => sum + audio.length / rate, 0);
  }

  /** Plays from a place on. @param {number} [from] */
  play(from = this.#place) {
    if (!this.#pieces.length) return;
    this.#silence();
    this.#context ??= new AudioContext();
    void this.#context.resume();
    const start = from >= this.length - 0.01 && this.#ended ? 0 : from;
    this.#begun = this.#context.currentTime + AHEAD - start;
    this.#playing = true;
    let at = 0;
    for (const piece of this.#pieces) {
      const length = piece.audio.length / piece.rate;
      const skip = Math.max(start - at, 0);
      if (skip < length) this.#schedule(piece, this.#begun + at + skip, skip);
      at += length;
    }
    this.#changed();
  }

  pause() {
    this.#place = this.place;
    this.#silence();
    this.#changed();
  }

  /** Goes to a place, and plays on if it was playing. @param {number} place */
  seek(place) {
    if (this.#playing) this.play(place);
    else this.#place = place;
  }

  /** All samples as a WAV file of 16 bits. */
  wav() {
    const rate = this.#pieces[0].rate;
    const count = this.#pieces.reduce((sum, { audio }) => sum + audio.length, 0);
    const view = new DataView(new ArrayBuffer(44 + 2 * count));
    const text = (/** @type {number} */ at, /** @type {string} */ word) =>
      [...word].forEach((char, i) => view.setUint8(at + i, char.charCodeAt(0)));
    text(0, "RIFF");
    view.setUint32(4, 36 + 2 * count, true);
    text(8, "WAVEfmt ");
    view.setUint32(16, 16, true);
    view.setUint16(20, 1, true);
    view.setUint16(22, 1, true);
    view.setUint32(24, rate, true);
    view.setUint32(28, 2 * rate, true);
    view.setUint16(32, 2, true);
    view.setUint16(34, 16, true);
    text(36, "data");
    view.setUint32(40, 2 * count, true);
    let at = 44;
    for (const { audio } of this.#pieces) {
      for (const sample of audio) {
        view.setInt16(at, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
        at += 2;
      }
    }
    return view.buffer;
  }

  /** @param {Piece} piece @param {number} when  of the context @param {number} skip  seconds */
  #schedule({ audio, rate }, when, skip) {
    const context = /** @type {AudioContext} */ (this.#context);
    const buffer = context.createBuffer(1, audio.length, rate);
    buffer.copyToChannel(audio, 0);
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    source.onended = () => {
      this.#sources = this.#sources.filter((other) => other !== source);
      if (this.#playing && this.#ended && !this.#sources.length) {
        this.#place = this.length;
        this.#silence();
        this.#changed();
      }
    };
    source.start(when, skip);
    this.#sources.push(source);
  }

  #silence() {
    this.#playing = false;
    for (const source of this.#sources) {
      source.onended = null;
      source.stop();
    }
    this.#sources = [];
  }
}
