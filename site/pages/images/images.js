// images.js: the images page: classes of a picture, labels of the visitor's own, pictures alike.

import { byId, duration, make, offerUndo, pick, turns, work } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { onSite } from "../shared/model.js";
import { shutter } from "../shared/opening/camera.js";
import { openable } from "../shared/opening/dropping.js";
import { pixelsOf, sample, sizeOf } from "../shared/opening/picture.js";
import { hideError, phase, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { Album } from "./album.js";
import { samples } from "./samples.js";

/** @typedef {import("../rushlight/client.js").Model} Model */
/** @typedef {{ label: string, score: number }} Row */

const TOP = 5;
const CLASSES = "image-classification";
const LABELS = "zero-shot-image-classification";
const VECTORS = "image-feature-extraction";
// Pictures per step. NumPy gains nothing from more, and a stop waits for one step.
const BATCH = { cpu: 2, webgpu: 8 };

const picture = pick("picture", HTMLCanvasElement);
const video = pick("video", HTMLVideoElement);
const { camera, press } = shutter(video, show, take);
const album = new Album();
const turn = turns();

/** @type {ImageData | null} */
let image = null;
/** The model that has said what a picture shows. @type {Model | null} */
let classifier = null;

// --- the picture ---------------------------------------------------------------------------------

function show() {
  byId("nothing").hidden = image !== null || camera.on;
  pick("like", HTMLButtonElement).disabled = image === null || album.model === null || job.busy();
  if (!image) return;
  [picture.width, picture.height] = [image.width, image.height];
  picture.getContext("2d")?.putImageData(image, 0, 0);
}

/** Shows another picture, and says what it is if the model has done so before.
 *  @param {ImageData} pixels */
async function take(pixels) {
  turn();
  hideError();
  image = pixels;
  byId("classes").replaceChildren();
  byId("speed").textContent = "";
  byId("tells").textContent = sizeOf(pixels);
  await job.stop();
  show();
  if (job.model && job.model === classifier) void classify();
}

/** @param {File[]} files */
async function open([file]) {
  const last = turn();
  try {
    const pixels = await pixelsOf(file);
    if (last()) void take(pixels);
  } catch (error) {
    if (last()) showError(error, () => byId("file").click());
  }
}

// --- what it shows -------------------------------------------------------------------------------

/** Runs a task on the picture and shows its rows. @param {string} task
 *  @param {Record<string, unknown>} options @param {() => unknown} again */
function ask(task, options, again) {
  if (!image) {
    showError(new Error("There is no picture yet. Open one, or take the sample."), again);
    return;
  }
  const seen = image;
  return job.run(async (signal) => {
    const model = await job.loaded(signal);
    if (!model.tasks.includes(task)) throw unserved(model, task);
    phase("Looking at the picture…", null);
    const began = performance.now();
    /** @type {Row[]} */
    const rows = await watch(model, async () => {
      const pipe = await model.pipeline(task);
      return pipe(seen, { ...options, signal });
    });
    signal.throwIfAborted();
    byId("status").hidden = true;
    if (task === CLASSES) classifier = model;
    byId("classes").replaceChildren(...rows.map(bar));
    byId("speed").textContent = duration((performance.now() - began) / 1000);
  }, again);
}

/** @returns {Promise<boolean> | void} */
const classify = () => ask(CLASSES, { topK: TOP }, classify);

/** @returns {Promise<boolean> | void} */
function compare() {
  const labels = pick("labels", HTMLInputElement).value;
  const candidateLabels = labels.split(",").map((label) => label.trim()).filter(Boolean);
  if (candidateLabels.length === 0) {
    showError(new Error("There are no labels yet. Type some, with commas between."), compare);
    return;
  }
  return ask(LABELS, { candidateLabels }, compare);
}

/** @param {Row} row */
function bar({ label, score }) {
  const item = make("li", {}, make("span", {}, label), make("output", {}, percent(score)));
  item.style.setProperty("--score", String(score));
  return item;
}

/** @param {number} score */
const percent = (score) => `${(100 * score).toFixed(score > 0.0995 ? 0 : 1)} %`;

/** @param {Model} model @param {string} task */
function unserved(model, task) {
  /** @type {Record<string, string>} */
  const hints = {
    [CLASSES]: "Choose one with classes, such as mobilenet-v2, or compare with labels of your own.",
    [LABELS]: "Choose one that reads words too, such as openai/clip-vit-base-patch32.",
    [VECTORS]: "Choose one that turns pictures into vectors, such as dinov2-small.",
  };
  const error = new Error(`${model.name} does not serve ${task}.`);
  return Object.assign(error, { hint: hints[task] });
}

// --- pictures alike ------------------------------------------------------------------------------

/** Adds pictures. @param {File[]} files */
function add(files) {
  hideError();
  album.add(files);
  busy(job.busy());
}

/** Reads the pictures that have no vector yet, and shows them on the map.
 *  @returns {Promise<boolean>} */
function read() {
  return job.run(async (signal) => {
    const model = await job.loaded(signal);
    if (!model.tasks.includes(VECTORS)) throw unserved(model, VECTORS);
    await watch(model, () => vectors(model, signal));
  }, read);
}

/** @param {Model} model @param {AbortSignal} signal */
async function vectors(model, signal) {
  const pipe = await model.pipeline(VECTORS);
  const todo = album.unread(model);
  const [began, batchSize] = [performance.now(), BATCH[model.device]];
  let done = 0;
  phase("Reading pictures", 0, `0 of ${todo.length}`);
  try {
    for (let at = 0; at < todo.length; at += batchSize) {
      const some = todo.slice(at, at + batchSize);
      const opened = await Promise.all(some.map((entry) => album.open(entry)));
      const good = some.filter((_, i) => opened[i]);
      const pixels = opened.filter(Boolean);
      const found = pixels.length ? await pipe(pixels, { batchSize, signal }) : [];
      signal.throwIfAborted();
      good.forEach((entry, i) => (entry.vector = found[i]));
      done += some.length;
      const rate = done / ((performance.now() - began) / 1000);
      const left = duration((todo.length - done) / rate);
      phase("Reading pictures", done / todo.length, `${done} of ${todo.length}, ${left} left`);
      album.show(false);
    }
  } finally {
    album.show();
  }
  phase("The pictures are compared.", 1, duration((performance.now() - began) / 1000));
}

/** Orders the pictures by their likeness to the one above. @returns {Promise<boolean> | void} */
function like() {
  if (!image) return;
  const seen = image;
  return job.run(async (signal) => {
    const model = await job.loaded(signal);
    if (album.model !== model) throw new Error("Compare your pictures with this model first.");
    const pipe = await model.pipeline(VECTORS);
    const vector = await pipe(seen, { signal });
    signal.throwIfAborted();
    album.compare(-1, vector);
    byId("map-says").textContent = "The pictures most like the one above are bright.";
  }, like);
}

/** @param {boolean} on */
function busy(on) {
  device.allow(!on);
  pick("read", HTMLButtonElement).disabled = on || album.entries.length === 0;
  pick("clear", HTMLButtonElement).disabled = on || album.entries.length === 0;
  byId("classes").setAttribute("aria-busy", String(on));
  work.inProgress = album.entries.length > 0;
  show();
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  go: classify,
  camera: press,
  sample: () => take(sample()),
  samples: async () => add(await samples()),
  read,
  like,
  more: () => album.more(),
  clear() {
    const before = album.clear();
    busy(false);
    if (before.entries.length === 0) return;
    offerUndo("The pictures were removed.", () => {
      album.restore(before);
      busy(false);
    });
  },
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  void compare();
});
const input = (/** @type {string} */ id) => pick(id, HTMLInputElement);
openable({ drop: byId("drop"), button: byId("browse"), input: input("file") }, open);
openable({ drop: byId("drop-many"), button: byId("choose"), input: input("files") }, add);
openable({ button: byId("choose-folder"), input: input("folder") }, add);
album.show();

job.start({
  busy,
  stopped() {
    byId("status").hidden = true;
    byId("said").textContent = "Stopped.";
  },
  loaded(model) {
    if (model && ![CLASSES, LABELS, VECTORS].some((task) => model.tasks.includes(task))) {
      throw unserved(model, VECTORS);
    }
    const reads = model?.tasks.includes(LABELS) ?? false;
    byId("own-says").hidden = reads;
    if (reads) pick("own", HTMLDetailsElement).open = true;
    show();
  },
  words: (error) =>
    /no head with classes/.test(error.message)
      ? Object.assign(new Error("This model knows no classes."), {
          hint: "It can compare your pictures. For classes choose another, such as mobilenet-v2.",
        })
      : error,
});
show();
// Folded, unless the site has a model that reads words.
void onSite(LABELS).then((row) => {
  if (row) pick("own", HTMLDetailsElement).open = true;
});
