// draw.js: the draw page: a prompt becomes a picture, step by step, of nothing or of another one.

import { byId, duration, offerUndo, pick, save, size, turns, work } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { choose } from "../shared/model.js";
import { hideError, phase, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { shutter } from "../shared/opening/camera.js";
import { openable } from "../shared/opening/dropping.js";
import { bitmapOf, drawn, sample } from "../shared/opening/picture.js";
import * as brush from "./brush.js";
import * as history from "./history.js";
import { encoded } from "./png.js";

/** @typedef {import("./history.js").Drawing} Drawing */
/** @typedef {{ width: number, height: number, image: Uint8Array }} Pixels  three bytes of each */

const SIDE = 768; // the most pixels of a side of a picture to begin with
const LARGE = 2e9; // bytes of a model of which one part at a time stays in memory
const NUMBERS = ["steps", "guidance", "width", "height", "seed"];

const prompt = pick("prompt", HTMLTextAreaElement);
const easel = pick("drawn", HTMLCanvasElement);
const strength = pick("strength", HTMLInputElement);
const turn = turns();
const { press } = shutter(pick("video", HTMLVideoElement), () => {}, begin);
/** The picture that is shown. @type {Drawing | null} */
let shown = null;
let bytes = 0; // of the chosen model

// --- what is shown -------------------------------------------------------------------------------

/** @param {Pixels} pixels @param {number} width @param {number} height  to show them in */
async function paint(pixels, width, height) {
  const picture = new ImageData(pixels.width, pixels.height);
  for (let i = 0, j = 0; i < picture.data.length; i += 4, j += 3) {
    picture.data.set([pixels.image[j], pixels.image[j + 1], pixels.image[j + 2], 255], i);
  }
  const bitmap = await createImageBitmap(picture);
  put(bitmap, width, height);
  bitmap.close();
}

/** @param {ImageBitmap} bitmap @param {number} width @param {number} height */
function put(bitmap, width, height) {
  [easel.width, easel.height] = [width, height];
  easel.getContext("2d")?.drawImage(bitmap, 0, 0, width, height);
  byId("nothing").hidden = true;
}

/** Shows which picture there is. @param {Drawing | null} drawing */
function show(drawing) {
  shown = drawing;
  for (const id of ["save", "onward"]) pick(id, HTMLButtonElement).disabled = shown === null;
  const words = shown ? `The picture: ${shown.settings.prompt}` : "The picture";
  easel.setAttribute("aria-label", words);
}

/** Shows one of the history, and its settings in the fields. @param {Drawing} drawing */
async function reopen(drawing) {
  if (job.busy()) return;
  const bitmap = await createImageBitmap(drawing.file);
  put(bitmap, bitmap.width, bitmap.height);
  bitmap.close();
  const { settings } = drawing;
  prompt.value = settings.prompt ?? "";
  pick("negative", HTMLInputElement).value = settings.negative_prompt ?? "";
  const values = { steps: settings.num_inference_steps, guidance: settings.guidance_scale };
  for (const [id, value] of Object.entries({ ...settings, ...values })) {
    if (NUMBERS.includes(id)) pick(id, HTMLInputElement).value = String(value);
  }
  byId("says").textContent = `Drawn with seed ${settings.seed}; its settings are in the fields.`;
  show(drawing);
}

// --- drawing -------------------------------------------------------------------------------------

/** The options as the fields say; an empty one is the model's own. */
function options() {
  /** @type {Record<string, unknown>} */
  const asked = { keep: bytes > LARGE ? "one" : "all" };
  for (const id of NUMBERS) {
    const { value } = pick(id, HTMLInputElement);
    if (value.trim() !== "") asked[id] = Number(value);
  }
  const negative = pick("negative", HTMLInputElement).value.trim();
  return negative ? { ...asked, negativePrompt: negative } : asked;
}

/** The settings of a result under the names that a file has. @param {Record<string, any>} result */
function named(result) {
  const spelled = (/** @type {string} */ name) =>
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(result).map(([name, value]) => [spelled(name), value]));
}

/** @param {{ stage: string, done: number, total: number }} progress */
function follow({ stage, done, total }) {
  const partName = /^load (.+)/.exec(stage)?.[1];
  if (partName) phase(`Loading ${partName}`, done / total, `${size(done)} of ${size(total)}`);
  else phase(`Step ${done} of ${total}`, done / total);
}

/** Draws what the fields say; an earlier run that is still at work is dropped. */
function draw() {
  return job.run(async (signal) => {
    const said = prompt.value.trim();
    phase("Beginning…", null);
    const model = await job.loaded(signal);
    const image = brush.begun();
    const maskImage = brush.masked();
    const task = image ? (maskImage ? "inpainting" : "image-to-image") : "text-to-image";
    const pipe = await model.pipeline(task);
    phase("Reading the prompt…", null);
    const began = performance.now();
    let steps = 0;
    const onPreview = (/** @type {any} */ { step, pictures: [small] }) => {
      document.documentElement.dataset.step = String((steps = step));
      const scale = 512 / Math.max(small.width, small.height);
      void paint(small, small.width * scale, small.height * scale);
    };
    const asked = { ...options(), signal, onProgress: follow, onPreview };
    const more = image ? { prompt: said, strength: Number(strength.value) } : {};
    const mask = maskImage ? { maskImage } : {};
    let drawn = /** @type {any} */ (null);
    await watch(model, async () => {
      drawn = await pipe(/** @type {any} */ (image ?? said), { ...asked, ...more, ...mask });
    });
    byId("status").hidden = true;
    const settings = { ...named(drawn.settings), model: model.name };
    await paint(drawn, drawn.width, drawn.height);
    const drawing = await history.keep(await encoded(easel, settings), settings);
    show(drawing);
    const seconds = (performance.now() - began) / 1000;
    byId("says").textContent =
      `${drawn.width} × ${drawn.height}, seed ${drawn.settings.seed}, ` +
      `${steps} steps in ${duration(seconds)}`;
    byId("said").textContent = "The picture is ready.";
    document.documentElement.dataset.drawn = said;
  }, draw);
}

/** Asks for a picture by the button. */
function go() {
  if (prompt.value.trim() || brush.begun()) return void draw();
  showError(new Error("There is no prompt yet. Say what is to be seen."), go);
}

// --- the picture to begin with -------------------------------------------------------------------

/** @param {ImageData | null} pixels */
function begin(pixels) {
  hideError();
  brush.take(pixels);
  if (pixels) pick("begin", HTMLDetailsElement).open = true;
}

/** @param {Blob} [file] */
async function open(file) {
  if (!file) return;
  const last = turn();
  try {
    const bitmap = await bitmapOf(file);
    if (last()) begin(drawn(bitmap, bitmap.width, bitmap.height, SIDE));
    bitmap.close();
  } catch (error) {
    if (last()) showError(error, () => byId("file").click());
  }
}

/** The files of a folder that is dropped, with those of the folders in it, as a model has them.
 *  @param {FileSystemDirectoryEntry} folder @param {string} prefix
 *  @returns {Promise<{ path: string, blob: File }[]>} */
async function within(folder, prefix = "") {
  const reader = folder.createReader();
  const files = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return files;
    for (const entry of some) {
      const path = prefix + entry.name;
      if (entry.isDirectory) {
        const inner = /** @type {FileSystemDirectoryEntry} */ (entry);
        if (!prefix) files.push(...(await within(inner, `${path}/`)));
        continue;
      }
      const file = /** @type {FileSystemFileEntry} */ (entry);
      /** @type {File} */
      const blob = await new Promise((resolve, reject) => file.file(resolve, reject));
      files.push({ path, blob });
    }
  }
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  go,
  camera: press,
  sample: () => begin(sample()),
  remove: () => begin(null),
  clear: brush.clear,
  onward: () => void open(shown?.file),
  save: () => shown && save(`drawing-${shown.settings.seed}.png`, "image/png", shown.file),
  async forget() {
    const back = await history.clear();
    offerUndo("The history was cleared.", back);
  },
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
prompt.addEventListener("input", () => (work.inProgress = prompt.value.trim() !== ""));
for (const id of ["prompt", "negative", ...NUMBERS]) {
  byId(id).addEventListener("keydown", (event) => {
    const plain = id !== "prompt" || event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && plain) go();
  });
}
strength.addEventListener("input", () => {
  byId("strength-says").textContent = `${Math.round(100 * Number(strength.value))}%`;
});
openable(
  { drop: byId("drop"), button: byId("browse"), input: pick("file", HTMLInputElement) },
  ([file]) => open(file),
);
document.addEventListener("paste", ({ clipboardData }) => {
  const file = [...(clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
  if (file) void open(file);
});
const modelDrop = byId("model-drop");
for (const name of /** @type {const} */ (["dragover", "dragleave", "drop"])) {
  modelDrop.addEventListener(name, async (event) => {
    event.preventDefault();
    modelDrop.classList.toggle("over", name === "dragover");
    const [item] = name === "drop" ? (event.dataTransfer?.items ?? []) : [];
    const entry = item?.webkitGetAsEntry();
    if (!entry?.isDirectory) return;
    const folder = /** @type {FileSystemDirectoryEntry} */ (entry);
    choose(/** @type {any} */ (await within(folder)));
  });
}

job.start({
  busy(on) {
    byId("easel").setAttribute("aria-busy", String(on));
    device.allow(!on);
  },
  described: (_, description) => void (bytes = description?.bytes ?? 0),
  loaded(model) {
    byId("cost").textContent = "";
    if (model && !model.tasks.includes("text-to-image")) {
      throw new Error(`${model.name} does not draw. Choose a pipeline of diffusers.`);
    }
  },
});
// What the button downloads is said beside it, too.
new MutationObserver(() => {
  byId("cost").textContent = job.model ? "" : byId("model-note").textContent;
}).observe(byId("model-note"), { childList: true });
brush.take(null);
show(null);
void history.start(reopen);
