// hearing.js: turns a recording into segments of words: a file part by part, the microphone live.
//
// A part is at most one window of Whisper, so memory does not depend on the length, what was done
// stays when it is stopped, and progress is the share of the audio that is done.

import { quietest, sounding } from "./peaks.js";

/**
 * @typedef {import("./recording.js").Recording} Recording
 * @typedef {import("../rushlight/client.js").Model} Model
 * @typedef {{ word: string, start: number, end: number, probability: number }} Word
 * @typedef {{ start: number, end: number, text: string, probability: number,
 *   words: Word[] }} Segment
 * @typedef {{ start: number, end: number }} Span
 * @typedef {{ task?: string, language?: string }} Options
 * @typedef {(audio: { samples: Float32Array, rate: number }, options: object) => Promise<any>} Pipe
 * @typedef {Pipe & { task: { options: { properties: Record<string, object> } } }} Transcribe
 */

const WINDOW = 29.5; // seconds of a part; Whisper's window is 30
const GRAIN = 60; // seconds in which speech is looked for at a time
const EDGE = 0.3; // seconds: speech that ends nearer to the end of a grain may go on
const LEAD = 1; // seconds before a grain that the model of voices hears too

/** What was heard of a recording. */
export class Heard {
  constructor() {
    /** @type {Segment[]} */
    this.segments = [];
    /** @type {Word[]} the words after the segments that may yet change */
    this.tentative = [];
    this.until = 0; // seconds: the audio before it is done
    /** @type {Span[]} where somebody speaks, as far as it was looked for */
    this.speech = [];
    this.searched = 0; // seconds
    /** @type {string | null} */
    this.language = null;
  }

  /** The text of the segments. */
  get text() {
    return this.segments.map(({ text }) => text.trim()).join(" ");
  }
}

/** The words of a segment; those of a model without times of words lie evenly in its span.
 *  @param {Segment} segment @returns {Word[]} */
function wordsOf({ words, text, start, end, probability }) {
  if (words.length) return words;
  const found = text.trim().split(/\s+/).filter(Boolean);
  const step = (end - start) / (found.length || 1);
  return found.map((word, i) => ({
    word: ` ${word}`,
    start: start + i * step,
    end: start + (i + 1) * step,
    probability,
  }));
}

/** Options that the model follows. @param {Transcribe} pipe @param {Options} options */
function followed(pipe, options) {
  const known = pipe.task.options.properties;
  return Object.fromEntries(
    Object.entries({ ...options, words: true }).filter(([name, value]) => value && name in known),
  );
}

/**
 * Hears what is left of a file.
 * @param {Transcribe} pipe
 * @param {Pipe | null} voices  finds speech; without it parts are cut where it is quietest
 * @param {Recording} recording @param {Heard} heard  which it fills
 * @param {Options} options @param {AbortSignal} signal
 * @param {(through: number) => void} changed  called after each call of a model, with the second
 *   that was heard to
 */
export async function hearFile(pipe, voices, recording, heard, options, signal, changed) {
  const { rate } = recording;
  while (heard.until < recording.seconds - 0.05) {
    signal.throwIfAborted();
    const part = voices ? await spoken(voices, recording, heard, signal) : await loud();
    if (!part) break;
    if (part.end > part.start) {
      const samples = await recording.read(part.start, part.end);
      if (samples.length) heard.segments.push(...(await segments(samples, part.start)));
      else heard.until = recording.seconds; // the file is shorter than it says
    }
    heard.until = Math.max(heard.until, part.end);
    changed(heard.until);
  }
  heard.until = recording.seconds;
  changed(heard.until);

  /** @param {Float32Array} samples @param {number} from @returns {Promise<Segment[]>} */
  async function segments(samples, from) {
    const language = options.language ?? heard.language ?? undefined;
    const given = { ...followed(pipe, { ...options, language }), signal };
    const result = await pipe({ samples, rate }, given);
    signal.throwIfAborted();
    heard.language ??= result.language;
    return /** @type {Segment[]} */ (result.segments).map((segment) => ({
      ...segment,
      start: segment.start + from,
      end: segment.end + from,
      words: wordsOf(segment).map((word) => ({
        ...word,
        start: word.start + from,
        end: word.end + from,
      })),
    }));
  }

  /** The next part where no model finds speech: up to a quiet place, without silence at its ends.
   *  @returns {Promise<Span>} */
  async function loud() {
    const from = heard.until;
    const samples = await recording.read(from, from + WINDOW);
    const last = from + WINDOW >= recording.seconds;
    const cut = last ? samples.length : quietest(samples, rate);
    const { begin, end } = sounding(samples.subarray(0, cut), rate);
    if (begin === end) {
      heard.until = last ? recording.seconds : from + cut / rate;
      return { start: heard.until, end: heard.until };
    }
    heard.until = last ? recording.seconds : from + cut / rate;
    return { start: from + begin / rate, end: from + end / rate };
  }
}

/** The next part in which somebody speaks: as many spans as a window takes; null after the last.
 *  @param {Pipe} voices @param {Recording} recording @param {Heard} heard
 *  @param {AbortSignal} signal @returns {Promise<Span | null>} */
async function spoken(voices, recording, heard, signal) {
  const left = () => heard.speech.filter(({ end }) => end > heard.until + 0.05);
  const wanted = () => (left()[0]?.start ?? Infinity) + WINDOW;
  while (heard.searched < Math.min(recording.seconds, wanted())) {
    await search(voices, recording, heard, signal);
    if (!left().length) heard.until = heard.searched;
  }
  const [first, ...others] = left();
  if (!first) return null;
  const start = Math.max(first.start, heard.until);
  let { end } = first;
  for (const span of others) {
    if (span.end - start > WINDOW) break;
    end = span.end;
  }
  return { start, end: Math.min(end, start + WINDOW) };
}

/** Looks for speech in the next minute. @param {Pipe} voices @param {Recording} recording
 *  @param {Heard} heard @param {AbortSignal} signal */
async function search(voices, recording, heard, signal) {
  const from = heard.searched;
  const lead = Math.min(from, LEAD);
  const samples = await recording.read(from - lead, from + GRAIN);
  const { rate } = recording;
  const end = from - lead + samples.length / rate;
  if (end <= from) {
    heard.searched = recording.seconds; // the file is shorter than it says
    return;
  }
  const options = { padding: 0.2, maxSpeech: WINDOW - 1, signal };
  const found = await voices({ samples, rate }, options);
  signal.throwIfAborted();
  const spans = /** @type {Span[]} */ (found.segments)
    .map((span) => ({ start: span.start + from - lead, end: span.end + from - lead }))
    .filter((span) => span.end > from)
    .map((span) => ({ ...span, start: Math.max(span.start, from) }));
  const last = spans.at(-1);
  const more = from + GRAIN < recording.seconds;
  heard.searched = more ? from + GRAIN : recording.seconds;
  // Speech that reaches the end of the minute is looked at again with what follows.
  if (more && last && last.end > end - EDGE && last.start > from + EDGE) {
    spans.pop();
    heard.searched = last.start;
  }
  heard.speech.push(...spans);
}

/**
 * Hears a recording that grows, until it has ended.
 * @param {Model} model @param {Transcribe} pipe  its task @param {Recording} tape
 * @param {Heard} heard  which it fills @param {Options} options @param {AbortSignal} signal
 * @param {{ changed: (through: number) => void, grown: () => Promise<unknown> }} tell
 *   grown: resolves when the recording may have grown
 */
export async function hearLive(model, pipe, tape, heard, options, signal, { changed, grown }) {
  const { words: _, ...given } = followed(pipe, options);
  /** @param {import("../rushlight/client.js").LiveText} now */
  const onText = ({ segments, tentative, seconds, language }) => {
    if (signal.aborted) return;
    Object.assign(heard, { segments, tentative, language });
    heard.until = segments.at(-1)?.end ?? 0;
    changed(seconds);
  };
  const live = model.transcribeLive({ ...given, rate: tape.rate, signal, onText });
  let at = 0;
  for (;;) {
    signal.throwIfAborted();
    const on = tape.live;
    const samples = await tape.read(at, tape.seconds);
    if (samples.length) live.push(samples);
    at += samples.length / tape.rate;
    if (!on) break;
    await grown();
  }
  onText(await live.end());
  heard.until = tape.seconds;
}
