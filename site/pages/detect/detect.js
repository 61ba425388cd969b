// detect.js: the detect page: finds things in what is looked at, and draws and lists them.

import { byId, duration, make, pick, save, turns, work } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { onSite } from "../shared/model.js";
import { openable } from "../shared/opening/dropping.js";
import { sizeOf } from "../shared/opening/picture.js";
import { hideError, phase, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { colorOf, css, draw, percent } from "./drawing.js";
import { Source } from "./source.js";

/** @typedef {import("../rushlight/client.js").Model} Model */
/** @typedef {import("./drawing.js").Thing} Thing */
/** @typedef {{ size: string, least: number, things: Thing[] }} Seen  least: the score that was
 *    asked for */

// What can be drawn, the most telling first.
const KINDS = {
  "pose-estimation": "Poses",
  "image-segmentation": "Masks",
  "object-detection": "Boxes",
  "zero-shot-object-detection": "Boxes",
};
const NONE = "Nothing is found from this score on. Try a lower one.";
const MOST = 100; // things that are drawn and listed, the likeliest
const SAMPLE = new URL("../shared/coffee.png", import.meta.url);
const FRAMES = 8; // over which the speed is averaged

const picture = pick("picture", HTMLCanvasElement);
const drawing = pick("drawing", HTMLCanvasElement);
const video = pick("video", HTMLVideoElement);
const threshold = pick("threshold", HTMLInputElement);
const source = new Source(video, () => void leave());
const turn = turns();

/** @type {Seen | null} */
let seen = null;
let opened = ""; // the size of what is looked at, before something is found in it
/** Classes that were found, and whether they are shown. @type {Map<string, boolean>} */
const classes = new Map();
/** The place in the list of the thing that stands out. @type {number | null} */
let marked = null;
/** @type {number[]} the times at which frames were done */
let times = [];
let frames = 0; // that were looked at

// --- what is shown -------------------------------------------------------------------------------

/** The least score. Results of classes per pixel have no threshold. */
const least = () => Number(threshold.value);

/** Those of the things found that are to be seen. */
function shown() {
  const things = seen?.things ?? [];
  return things.filter(({ label, score, box }) => classes.get(label) && (!box || score > least()));
}

function show() {
  byId("nothing").hidden = source.kind !== "nothing";
  byId("camera").textContent = source.kind === "camera" ? "Camera off" : "Camera";
  byId("play").hidden = source.kind !== "video";
  byId("threshold-says").textContent = percent(least());
  pick("save", HTMLButtonElement).disabled = seen === null;
  work.inProgress = source.live;
  const things = shown();
  const mark = marked === null ? null : (things[marked] ?? null);
  draw(drawing, things, mark);
  byId("tells").textContent = seen ? `${seen.size}: ${summary(things)}` : opened;
  picture.setAttribute("aria-label", seen ? `The picture: ${summary(things)}` : "The picture");
  byId("none").textContent = things.length ? "" : seen ? NONE : "What is found is listed here.";
  list(things);
}

/** @param {Thing[]} things */
function summary(things) {
  const counts = new Map();
  for (const { label } of things) counts.set(label, (counts.get(label) ?? 0) + 1);
  const parts = [...counts].map(([label, count]) => (count > 1 ? `${count} × ${label}` : label));
  const few = parts.slice(0, 6).join(", ") + (parts.length > 6 ? ", …" : "");
  return few || "nothing found";
}

/** @param {string} label */
function swatch(label) {
  const made = make("i", { class: "swatch", "aria-hidden": "true" });
  made.style.setProperty("--class", css(colorOf(label)));
  return made;
}

/** Lists the things, and the classes that can be hidden. The focus stays where it was.
 *  @param {Thing[]} things */
function list(things) {
  const rows = things.map(({ label, score, box }, i) => {
    const likely = make("output", {}, percent(score));
    const plain = { type: "button", class: "quiet small", title: placeOf(box) };
    const button = make("button", plain, swatch(label), label, likely);
    const mark = (/** @type {boolean} */ on) => () => {
      marked = on ? i : null;
      draw(drawing, shown(), marked === null ? null : (shown()[marked] ?? null));
    };
    button.addEventListener("focus", mark(true));
    button.addEventListener("pointerenter", mark(true));
    button.addEventListener("blur", mark(false));
    button.addEventListener("pointerleave", mark(false));
    return make("li", {}, button);
  });
  const chips = [...classes].map(([label, on]) => {
    const chip = make("button", { type: "button", class: "small" }, swatch(label), label);
    chip.setAttribute("aria-pressed", String(on));
    chip.addEventListener("click", () => {
      classes.set(label, !on);
      show();
    });
    return chip;
  });
  replace(byId("found"), rows);
  replace(byId("classes"), chips);
}

/** Replaces an element's children, and keeps the place of the focus among their buttons.
 *  @param {HTMLElement} parent @param {HTMLElement[]} children */
function replace(parent, children) {
  const buttons = () => [...parent.querySelectorAll("button")];
  const at = buttons().findIndex((button) => button === document.activeElement);
  parent.replaceChildren(...children);
  buttons()[Math.min(at, buttons().length - 1)]?.focus();
}

/** Where a box is, in the picture's pixels. @param {import("./drawing.js").Box} [box] */
function placeOf(box) {
  if (!box) return "";
  const [left, top, right, below] = [box.xmin, box.ymin, box.xmax, box.ymax].map(Math.round);
  return `From ${left}, ${top} to ${right}, ${below}`;
}

/** @param {ImageData} pixels */
function paint(pixels) {
  for (const canvas of [picture, drawing]) {
    if (canvas.width !== pixels.width || canvas.height !== pixels.height) {
      [canvas.width, canvas.height] = [pixels.width, pixels.height];
    }
  }
  picture.getContext("2d")?.putImageData(pixels, 0, 0);
}

// --- what is looked at ---------------------------------------------------------------------------

function forget() {
  [seen, marked, times, opened] = [null, null, [], ""];
  classes.clear();
  byId("rate").textContent = "";
}

/** Leaves the camera or the video. */
async function leave() {
  await job.stop();
  source.close();
  forget();
  show();
}

/** Looks at something else, and detects in it if a model is there.
 *  @param {() => void | Promise<void>} change @param {() => unknown} again  another try */
async function look(change, again) {
  const last = turn();
  await leave();
  if (!last()) return;
  hideError();
  try {
    await change();
  } catch (error) {
    if (!last()) return;
    show();
    return showError(error, again);
  }
  if (!last()) return;
  const pixels = source.frame();
  if (pixels) {
    paint(pixels);
    opened = sizeOf(pixels);
  }
  show();
  byId("play").textContent = video.paused ? "Play" : "Pause";
  if (job.model) void detect();
}

/** @param {File[]} files */
const open = ([file]) => look(() => source.open(file), () => byId("file").click());

/** A photograph of a cup. @returns {Promise<void>} */
function takeSample() {
  const open = async () => {
    const answer = await fetch(SAMPLE).catch(() => null);
    if (!answer?.ok) throw new Error("The sample did not come.");
    await source.open(new File([await answer.blob()], "coffee.png", { type: "image/png" }));
  };
  return look(open, takeSample);
}

/** @returns {Promise<void>} */
async function camera() {
  if (source.kind === "camera") return leave();
  return look(() => source.openCamera(), camera);
}

// --- detection -----------------------------------------------------------------------------------

/** The task that is chosen of those a model serves. @param {Model} model */
function taskOf(model) {
  const chosen = document.querySelector('input[name="draw"]:checked');
  const task = chosen instanceof HTMLInputElement ? chosen.value : "";
  return model.tasks.includes(task) ? task : tasksOf(model)[0];
}

/** @param {Model} model */
const tasksOf = (model) => Object.keys(KINDS).filter((task) => model.tasks.includes(task));

/** Detects in the picture, or in frame after frame until it is stopped. */
function detect() {
  if (source.kind === "nothing") {
    const words = "There is no picture yet. Open one, use the camera, or take the sample.";
    showError(new Error(words), detect);
    return Promise.resolve(false);
  }
  return job.run(async (signal) => {
    const model = await job.loaded(signal);
    const task = taskOf(model);
    const pipe = await model.pipeline(task);
    times = [performance.now()];
    if (source.live) byId("status").hidden = true;
    do {
      const pixels = source.frame();
      if (!pixels) continue;
      if (!source.live) phase("Looking at the picture…", null);
      const bound = task === "image-segmentation" ? {} : { topK: MOST };
      const asked = { threshold: least(), ...bound, ...labelsFor(task), signal };
      const once = () => pipe(pixels, asked);
      const things = await (source.live ? once() : watch(model, once));
      signal.throwIfAborted();
      found(pixels, asked.threshold, things);
    } while (source.live && (await source.moved(signal), true));
    byId("status").hidden = true;
  }, detect);
}

/** @param {string} task */
function labelsFor(task) {
  if (task !== "zero-shot-object-detection") return {};
  const words = pick("labels", HTMLInputElement).value.split(",").map((label) => label.trim());
  const candidateLabels = words.filter(Boolean);
  if (candidateLabels.length) return { candidateLabels };
  throw new Error("Say what to look for: this model takes labels, with commas between.");
}

/** @param {ImageData} pixels @param {number} asked @param {Thing[]} things */
function found(pixels, asked, things) {
  seen = { size: sizeOf(pixels), least: asked, things };
  for (const { label } of things) if (!classes.has(label)) classes.set(label, true);
  threshold.disabled = things.length > 0 && things.every(({ box }) => !box);
  times = [...times.slice(-FRAMES), performance.now()];
  const each = (times[times.length - 1] - times[0]) / (times.length - 1) / 1000;
  byId("rate").textContent = source.live
    ? `${(1 / each).toFixed(1)} frames per second, ${duration(each)} each`
    : duration(each);
  paint(pixels);
  show();
  frames += 1;
  document.documentElement.dataset.frames = String(frames);
}

/** Offers what a model can draw. @param {Model | null} model */
function offer(model) {
  const tasks = model ? tasksOf(model) : [];
  if (model && tasks.length === 0) {
    throw Object.assign(new Error(`${model.name} finds no things in pictures.`), {
      hint: "Choose a detector, such as hustvl/yolos-tiny, or a .pt file of YOLOv8.",
    });
  }
  byId("asked").hidden = !tasks.includes("zero-shot-object-detection");
  byId("kinds").hidden = tasks.length < 2;
  const choices = tasks.map((task, i) => {
    const input = make("input", { type: "radio", name: "draw", value: task });
    input.checked = i === 0;
    input.addEventListener("change", () => {
      forget();
      void detect();
    });
    return make("label", {}, input, KINDS[/** @type {keyof typeof KINDS} */ (task)]);
  });
  byId("kinds").replaceChildren(...choices);
  forget();
  show();
}

function saveDrawing() {
  const canvas = make("canvas", { width: String(picture.width), height: String(picture.height) });
  const pen = canvas.getContext("2d");
  for (const layer of [picture, drawing]) pen?.drawImage(layer, 0, 0);
  canvas.toBlob((blob) => void (blob && save("found.png", blob.type, blob)), "image/png");
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  go: detect,
  camera,
  sample: takeSample,
  save: saveDrawing,
  async play() {
    await (video.paused ? video.play() : video.pause());
    byId("play").textContent = video.paused ? "Play" : "Pause";
  },
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
threshold.addEventListener("input", show);
threshold.addEventListener("change", () => {
  // What is below the score that was asked for is not known yet. The next frame asks anew.
  if (seen && !source.live && least() < seen.least) void detect();
});
byId("labels").addEventListener("change", () => {
  if (job.model && source.kind !== "nothing") void detect();
});
const parts = { drop: byId("drop"), button: byId("browse"), input: pick("file", HTMLInputElement) };
openable(parts, open);
new ResizeObserver(show).observe(byId("stage"));

job.start({
  busy(on) {
    byId("go").hidden = on;
    device.allow(!on);
  },
  loaded: offer,
  words: (error) =>
    error.message === "No model is chosen yet."
      ? Object.assign(error, { hint: "Give a detector's hub id, address or files below." })
      : error,
});
show();
// The words are of one model of the site, which it may have been built without.
void onSite("object-detection").then((row) => {
  byId("bring").hidden = !row?.url.pathname.endsWith("/yolov3-tiny/");
});
