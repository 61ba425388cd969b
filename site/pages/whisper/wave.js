// wave.js: draws a recording: its loudness, speech, words, and where the player is.

import { byId, pick } from "../shared/page.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./hearing.js").Segment} Segment */

const BAR = 3; // pixels from one bar to the next

const canvas = pick("wave", HTMLCanvasElement);
const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
/** @typedef {import("./hearing.js").Span} Span */
/** What is drawn. @type {{ recording: Recording | null, segments: Segment[], speech: Span[],
 *    at: number }} */
const shown = { recording: null, segments: [], speech: [], at: 0 };
let asked = 0;

/** Seconds as 1:02:03 or 2:03. @param {number} seconds */
export function clock(seconds) {
  const whole = Math.floor(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** Which bars of a row lie within spans. @param {number} count @param {number} seconds
 *  @param {Span[]} spans */
function within(count, seconds, spans) {
  const marked = new Uint8Array(count);
  for (const { start, end } of spans) {
    const from = Math.max(0, Math.floor((start / seconds) * count));
    marked.fill(1, from, Math.max(from + 1, Math.ceil((end / seconds) * count)));
  }
  return marked;
}

function draw() {
  asked = 0;
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== width * ratio) canvas.width = width * ratio;
  if (canvas.height !== height * ratio) canvas.height = height * ratio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const { recording, at } = shown;
  if (!recording?.seconds) return;
  const style = getComputedStyle(canvas);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name);
  const count = Math.floor(width / BAR);
  const each = recording.seconds / count;
  const words = within(count, recording.seconds, shown.segments.flatMap((one) => one.words));
  const speech = within(count, recording.seconds, shown.speech);
  const bars = Array.from({ length: count }, (_, i) =>
    recording.peaks.between(i * each, (i + 1) * each),
  );
  // Quiet recordings are drawn larger, up to ten times.
  const scale = Math.min(10, 1 / (bars.reduce((a, b) => Math.max(a, b), 0) || 1));
  const middle = (height - 8) / 2;
  bars.forEach((value, i) => {
    // The root lets quiet speech be seen beside loud.
    const half = Math.max(0.75, Math.sqrt(Math.min(1, value * scale)) * (middle - 4));
    const played = i * each < at;
    const spoken = speech[i] || words[i];
    context.fillStyle = colour(played ? "--flame" : spoken ? "--ink-soft" : "--line-strong");
    context.fillRect(i * BAR, middle - half, BAR - 1, 2 * half);
    if (!spoken) return;
    // Below: speech that is still to be written is a thin line, words are a thick one.
    context.fillStyle = colour(words[i] ? "--flame" : "--ink-soft");
    context.fillRect(i * BAR, height - (words[i] ? 4 : 3), BAR, words[i] ? 3 : 1);
  });
  const place = Math.min(width - 2, (at / recording.seconds) * width);
  context.fillStyle = colour("--ink");
  if (at > 0) context.fillRect(place, 0, 2, height);
}

/** Draws at the next frame; a tab in the background has none. */
function redraw() {
  asked ||= requestAnimationFrame(draw);
}

/** @param {Partial<typeof shown>} what */
export function show(what) {
  Object.assign(shown, what);
  const { recording, at } = shown;
  const seconds = recording?.seconds ?? 0;
  canvas.setAttribute("aria-valuemax", String(Math.round(seconds)));
  canvas.setAttribute("aria-valuenow", String(Math.round(at)));
  canvas.setAttribute("aria-valuetext", `${clock(at)} of ${clock(seconds)}`);
  byId("clock").textContent = seconds ? `${clock(at)} / ${clock(seconds)}` : "";
  redraw();
}

/** Lets pointer and keys move the player. @param {(seconds: number) => void} seek
 *  @param {() => void} toggle */
export function start(seek, toggle) {
  const place = (/** @type {PointerEvent} */ event) => {
    const { left, width } = canvas.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (event.clientX - left) / width));
    seek(share * (shown.recording?.seconds ?? 0));
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    place(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (canvas.hasPointerCapture(event.pointerId)) place(event);
  });
  canvas.addEventListener("keydown", (event) => {
    const end = shown.recording?.seconds ?? 0;
    const jump = Math.max(30, end / 20);
    /** @type {Record<string, number>} */
    const places = {
      ArrowLeft: shown.at - 5, ArrowDown: shown.at - 5, ArrowRight: shown.at + 5,
      ArrowUp: shown.at + 5, PageDown: shown.at - jump, PageUp: shown.at + jump, Home: 0, End: end,
    }; // prettier-ignore
    if (event.key === " " || event.key === "Enter") toggle();
    else if (event.key in places) seek(Math.max(0, Math.min(end, places[event.key])));
    else return;
    event.preventDefault();
  });
  new ResizeObserver(redraw).observe(canvas);
  document.addEventListener("themechange", redraw);
}
