// segment.js: the segment page: the foreground of a picture, or what points in it point at.

import { byId, duration, pick, save, turns, work } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { hideError, phase, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { shutter } from "../shared/opening/camera.js";
import { openable } from "../shared/opening/dropping.js";
import { pixelsOf, sample, sizeOf } from "../shared/opening/picture.js";
import { cut, shaded } from "./cut.js";

/** @typedef {{ x: number, y: number, sign: number }} Point  in the picture's pixels */

const STEP = 0.02; // of the picture's sides, for an arrow key
const picture = pick("picture", HTMLCanvasElement);
const cutout = pick("cutout", HTMLCanvasElement);
const video = pick("video", HTMLVideoElement);

/** @type {ImageData | null} */
let image = null;
/** @type {Uint8Array | null} */
let mask = null;
/** @type {Point[]} */
let points = [];
/** Where the arrow keys have moved. @type {{ x: number, y: number } | null} */
let aim = null;
const { press } = shutter(video, show, take);
const turn = turns();

/** Whether the model takes points. */
const pointed = () => job.model?.tasks.includes("mask-generation") ?? false;

// --- drawing -------------------------------------------------------------------------------------

/** @param {HTMLCanvasElement} canvas */
function pen(canvas) {
  const found = canvas.getContext("2d");
  if (!found) throw new Error("This browser cannot draw pictures.");
  return found;
}

/** Shows the picture with its mask and points, and the cutout. */
function show() {
  byId("empty").hidden = image !== null || !video.hidden;
  byId("pointing").hidden = !pointed();
  document.body.classList.toggle("pointed", pointed());
  pick("save", HTMLButtonElement).disabled = mask === null;
  work.inProgress = points.length > 0;
  if (!image) return;
  for (const canvas of [picture, cutout]) {
    [canvas.width, canvas.height] = [image.width, image.height];
  }
  const at = pen(picture);
  at.putImageData(mask && pointed() ? shaded(image, mask) : image, 0, 0);
  const radius = Math.max(3, Math.max(image.width, image.height) / 120);
  for (const { x, y, sign } of points) {
    at.beginPath();
    at.arc(x, y, radius, 0, 2 * Math.PI);
    at.fillStyle = sign ? "#1f9d55" : "#d64545";
    at.fill();
    at.lineWidth = radius / 3;
    at.strokeStyle = "white";
    at.stroke();
  }
  if (aim) {
    at.strokeStyle = "white";
    at.lineWidth = radius / 2;
    at.strokeRect(aim.x - radius, aim.y - radius, 2 * radius, 2 * radius);
  }
  if (mask) pen(cutout).putImageData(cut(image, mask), 0, 0);
}

/** Shows another picture. @param {ImageData} pixels */
async function take(pixels) {
  turn();
  hideError();
  await job.stop();
  [image, mask, points, aim] = [pixels, null, [], null];
  byId("speed").textContent = "";
  byId("tells").textContent = sizeOf(pixels);
  pen(cutout).clearRect(0, 0, cutout.width, cutout.height);
  show();
  if (pointed()) byId("tells").textContent += ". Click on a thing in the picture.";
  else if (job.model) void segment();
}

/** @param {File[]} files */
async function open([file]) {
  const last = turn();
  try {
    const pixels = await pixelsOf(file);
    if (last()) await take(pixels);
  } catch (error) {
    if (last()) showError(error, () => byId("file").click());
  }
}

// --- the model -----------------------------------------------------------------------------------

/** Asks the model for the mask of the picture, or of the points in it. */
function segment() {
  if (!image) {
    showError(new Error("There is no picture yet. Open one, or take the sample."), segment);
    return Promise.resolve(false);
  }
  const seen = image;
  return job.run(async (signal) => {
    phase("Beginning…", null);
    const model = await job.loaded(signal);
    if (pointed() && points.length === 0) {
      byId("tells").textContent = "Click on a thing in the picture.";
      byId("status").hidden = true;
      return;
    }
    phase(pointed() ? "Looking where you pointed…" : "Cutting out…", null);
    const began = performance.now();
    await watch(model, async () => {
      if (pointed()) {
        const pipe = await model.pipeline("mask-generation");
        const asked = {
          points: points.map(({ x, y }) => [x, y]),
          labels: points.map(({ sign }) => sign),
        };
        const [found] = await pipe(seen, { ...asked, signal });
        signal.throwIfAborted();
        mask = found.mask;
      } else {
        const pipe = await model.pipeline("background-removal");
        const found = await pipe(seen, { signal });
        signal.throwIfAborted();
        mask = found.mask;
      }
    });
    byId("status").hidden = true;
    byId("speed").textContent = duration((performance.now() - began) / 1000);
    byId("said").textContent = "The cutout is ready.";
    show();
  }, segment);
}

// --- points --------------------------------------------------------------------------------------

/** Adds a point, and asks for its mask. @param {number} x @param {number} y */
function point(x, y) {
  if (!image || !pointed()) return;
  const sign = document.querySelector("input[name=sign]:checked");
  points.push({ x, y, sign: Number(/** @type {HTMLInputElement} */ (sign).value) });
  show();
  void segment();
}

/** @param {KeyboardEvent} event */
function key(event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (!image || !pointed()) return;
  const move = moves[/** @type {keyof typeof moves} */ (event.key)];
  if (move) {
    event.preventDefault();
    const { x, y } = aim ?? { x: image.width / 2, y: image.height / 2 };
    const [right, below] = [image.width - 1, image.height - 1];
    aim = {
      x: Math.min(right, Math.max(0, x + move[0] * STEP * image.width)),
      y: Math.min(below, Math.max(0, y + move[1] * STEP * image.height)),
    };
    show();
  } else if (event.key === "Enter" && aim) {
    event.preventDefault();
    point(aim.x, aim.y);
  }
}

function forget() {
  void job.stop();
  mask = null;
  pen(cutout).clearRect(0, 0, cutout.width, cutout.height);
  show();
}

function saveCutout() {
  cutout.toBlob((blob) => {
    if (blob) save("cutout.png", blob.type, blob);
  }, "image/png");
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  go: segment,
  camera: press,
  sample: () => take(sample()),
  save: saveCutout,
  undo() {
    points.pop();
    if (points.length) return void segment();
    forget();
  },
  clear() {
    points = [];
    forget();
  },
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
picture.addEventListener("click", (event) => {
  const box = picture.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * picture.width;
  const y = ((event.clientY - box.top) / box.height) * picture.height;
  point(x, y);
});
picture.addEventListener("keydown", key);
const parts = { drop: byId("drop"), button: byId("browse"), input: pick("file", HTMLInputElement) };
openable(parts, open);

job.start({
  busy(on) {
    byId("cutout").setAttribute("aria-busy", String(on));
    pick("go", HTMLButtonElement).disabled = on;
    device.allow(!on);
  },
  loaded(model) {
    const known = ["background-removal", "mask-generation"];
    if (model && !model.tasks.some((task) => known.includes(task))) {
      throw new Error(`${model.name} does not make masks. Choose U2-Net or Segment Anything.`);
    }
    show();
  },
});
show();
