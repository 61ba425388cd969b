// hearing.js: turns a recording into segments of words, part by part; of one that still grows also
// the words that may yet change.
//
// A part is at most one window of Whisper, so memory does not depend on the length, what was done
// stays when it is stopped, and progress is the share of the audio that is done.

import { SILENCE, quietest, sounding } from "./peaks.js";

/**
 * @typedef {import("./recording.js").Recording} Recording
 * @typedef {{ word: string, start: number, end: number, probability: number }} Word
 * @typedef {{ start: number, end: number, text: string, probability: number,
 *   words: Word[] }} Segment
 * @typedef {{ task: string, language: string | null }} Options
 * @typedef {(audio: { samples: Float32Array, rate: number }, options: object) => Promise<any>} Pipe
 */

const WINDOW = 29.5; // seconds of a part; Whisper's window is 30
const FRESH = 1; // seconds of new audio that are worth another look at a growing recording
const SETTLED = 12; // seconds after which a growing window moves to the end of a sentence
const PAUSE = 1; // seconds between words that part two segments
const LONG = 8; // seconds of a segment that end it at the next comma
const FAINT = 0.1; // of the loudest of a window: what stays below it for a second is a pause

/** What was heard of a recording. */
export class Heard {
  constructor() {
    /** @type {Segment[]} */
    this.segments = [];
    /** @type {Word[]} the words after the segments that may yet change */
    this.tentative = [];
    this.until = 0; // seconds: the audio before it is done
    this.said = 0; // seconds: words before it are in the segments already
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

/** Words as segments: cut at ends of sentences, at pauses, and at commas of long ones.
 *  @param {Word[]} words @returns {Segment[]} */
export function grouped(words) {
  /** @type {Word[][]} */
  const groups = [];
  for (const word of words) {
    const group = groups.at(-1);
    const last = group?.at(-1);
    const ends =
      last &&
      (/[.?!。？！]["'”’)]*$/.test(last.word) ||
        word.start - last.end > PAUSE ||
        (last.end - (group?.[0].start ?? 0) > LONG && /[,;:]$/.test(last.word)));
    if (group && !ends) group.push(word);
    else groups.push([word]);
  }
  return groups.map(segmentOf);
}

/** @param {Word[]} words @returns {Segment} */
export function segmentOf(words) {
  const sum = words.reduce((total, { probability }) => total + probability, 0);
  return {
    start: words[0].start,
    end: words[words.length - 1].end,
    text: words.map(({ word }) => word).join(""),
    probability: sum / words.length,
    words,
  };
}

/** A word as it is compared. @param {Word} word */
const bare = ({ word }) => word.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

/** How many words two lists begin with in common. @param {Word[]} a @param {Word[]} b */
export function agreed(a, b) {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && bare(a[n]) === bare(b[n])) n += 1;
  return n;
}

/**
 * Hears what is left of a recording; returns when it has ended and all of it is done.
 * @param {Pipe} pipe @param {Recording} recording @param {Heard} heard  which it fills
 * @param {Options} options @param {AbortSignal} signal
 * @param {{ changed: (through: number) => void, grown: () => Promise<unknown> }} tell
 *   changed: after each call of the model, with the second that it has heard to; grown: resolves
 *   when the recording may have grown
 */
export async function hear(pipe, recording, heard, options, signal, { changed, grown }) {
  let asked = heard.until; // seconds that the last look at a growing window saw
  for (;;) {
    signal.throwIfAborted();
    const left = recording.seconds - heard.until;
    if (!recording.live && left < 0.05) break;
    if (!recording.live || left > WINDOW) {
      await part();
      asked = heard.until;
    } else if (recording.seconds - asked >= FRESH) {
      asked = recording.seconds;
      await look(asked);
    } else await grown();
  }
  heard.tentative = [];
  changed(recording.seconds);

  /** The words of a span, without those that are in the segments already. Silence at its ends is
   *  cut off: models write words there, or give it to the first word. Earlier text is not told, as
   *  small models then leave out what comes next.
   *  @param {Float32Array} samples @param {number} from @returns {Promise<Word[][]>} by segment */
  async function words(samples, from) {
    const { rate } = recording;
    const { begin, end } = sounding(samples, rate);
    if (begin === end) return [];
    const language = options.language ?? heard.language;
    const given = { words: true, language, task: options.task, signal };
    const result = await pipe({ samples: samples.slice(begin, end), rate }, given);
    signal.throwIfAborted();
    heard.language ??= result.language;
    const shift = from + begin / rate;
    return /** @type {Segment[]} */ (result.segments)
      .map((segment) =>
        wordsOf(segment)
          .map((word) => ({ ...word, start: word.start + shift, end: word.end + shift }))
          .filter((word) => (word.start + word.end) / 2 > heard.said),
      )
      .filter((list) => list.length);
  }

  /** Adds segments that will not change. @param {Segment[]} segments */
  function add(segments) {
    heard.segments.push(...segments);
    heard.said = Math.max(heard.said, ...segments.map(({ end }) => end));
  }

  /** Hears the next part, cut where nobody speaks. */
  async function part() {
    const from = heard.until;
    let samples = await recording.read(from, from + WINDOW);
    if (!samples.length) {
      heard.until = recording.seconds; // the file is shorter than it says
      return;
    }
    const last = !recording.live && from + WINDOW >= recording.seconds;
    if (!last) samples = samples.slice(0, quietest(samples, recording.rate));
    add((await words(samples, from)).map(segmentOf));
    heard.tentative = [];
    heard.until = last ? recording.seconds : from + samples.length / recording.rate;
    changed(heard.until);
  }

  /** Looks at a growing window: words on which two looks agree will not change (LocalAgreement-2 of
   *  Macháček et al., 2023). @param {number} to */
  async function look(to) {
    const from = heard.until;
    const samples = await recording.read(from, to);
    const found = (await words(samples, from)).flat();
    const count = agreed(heard.tentative, found);
    const segments = grouped([...open(), ...found.slice(0, count)]);
    add(segments);
    heard.tentative = found.slice(count);
    const { peaks } = recording;
    const hush = Math.max(SILENCE, FAINT * peaks.between(from, to));
    if (!heard.tentative.length && peaks.between(to - 1, to) < hush) heard.until = to - 0.5;
    else settle(to - from);
    changed(to);
  }

  /** Takes the last segment back if its sentence goes on, so that new words can join it. */
  function open() {
    const last = heard.segments.at(-1);
    if (!last || last.start < heard.until || /[.?!]["'”’)]*$/.test(last.text)) return [];
    heard.segments.pop();
    return last.words;
  }

  /** Moves the beginning of a growing window to the end of a sentence, or of a word if it is long.
   *  @param {number} length  of the window, in seconds */
  function settle(length) {
    if (length < SETTLED) return;
    const ends = heard.segments.filter(({ text }) => /[.?!]["'”’)]*$/.test(text));
    const end = length < 2 * SETTLED ? (ends.at(-1)?.end ?? 0) : heard.said;
    if (end > heard.until) heard.until = end;
  }
}
