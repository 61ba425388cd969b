// writers.js: what was heard as text, subtitles and JSON, with the edits of the page. The same
// formats as those of `rushlight transcribe`, which has them in Python; here nothing needs to run.

/** @typedef {import("./hearing.js").Segment} Segment */

/** @param {number} seconds @param {string} mark  before the milliseconds */
function clock(seconds, mark) {
  const ms = Math.max(0, Math.round(seconds * 1000));
  const pad = (/** @type {number} */ value, digits = 2) => String(value).padStart(digits, "0");
  const [h, m, s] = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60].map(Math.floor);
  return `${pad(h)}:${pad(m)}:${pad(s)}${mark}${pad(ms % 1000, 3)}`;
}

/** A cue's text: one line, and no arrow, which would end the cue. @param {string} text */
const line = (text) => text.trim().replace(/\s+/g, " ").replaceAll("-->", "->");

/** @param {Segment[]} segments */
const txt = (segments) => segments.map(({ text }) => `${line(text)}\n`).join("");

/** SubRip subtitles. @param {Segment[]} segments */
function srt(segments) {
  const cue = (/** @type {Segment} */ { start, end, text }, /** @type {number} */ i) =>
    `${i + 1}\n${clock(start, ",")} --> ${clock(end, ",")}\n${line(text)}\n`;
  return segments.map(cue).join("\n");
}

/** WebVTT (W3C, 2019). @param {Segment[]} segments */
function vtt(segments) {
  const safe = (/** @type {string} */ text) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const cue = (/** @type {Segment} */ { start, end, text }) =>
    `${clock(start, ".")} --> ${clock(end, ".")}\n${safe(line(text))}\n`;
  return `WEBVTT\n\n${segments.map(cue).join("\n")}`;
}

/** Everything, words too. @param {Segment[]} segments
 *  @param {{ language: string | null, duration: number }} about */
function json(segments, about) {
  const text = segments.map((segment) => line(segment.text)).join(" ");
  return `${JSON.stringify({ text, ...about, segments }, null, 2)}\n`;
}

/** Segments whose text was not deleted. @param {Segment[]} segments */
export const written = (segments) => segments.filter(({ text }) => text.trim() !== "");

/** By ending: the media type, and what writes the file. */
export const WRITERS = {
  txt: { type: "text/plain", write: txt },
  srt: { type: "application/x-subrip", write: srt },
  vtt: { type: "text/vtt", write: vtt },
  json: { type: "application/json", write: json },
};
