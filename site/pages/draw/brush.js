// brush.js: the picture to begin with, and the mask that is painted over it.

import { byId, pick } from "../shared/page.js";

const STEP = 0.02; // of the picture's sides, for an arrow key
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const picture = pick("picture", HTMLCanvasElement);
const mask = pick("mask", HTMLCanvasElement);
const brush = pick("brush", HTMLInputElement);

/** @type {ImageData | null} */
let image = null;
/** Where the pointer or the keys are, in the picture's pixels. @type {[number, number] | null} */
let place = null;
/** What is painted, on a canvas that is not shown. @type {OffscreenCanvas | null} */
let painted = null;
let some = false; // whether something is painted

/** @param {HTMLCanvasElement | OffscreenCanvas} canvas */
function pen(canvas) {
  const found = canvas.getContext("2d");
  if (!found) throw new Error("This browser cannot draw pictures.");
  return /** @type {CanvasRenderingContext2D} */ (found);
}

const radius = () => (Number(brush.value) * Math.min(mask.width, mask.height)) / 2;

function show() {
  const at = pen(mask);
  at.clearRect(0, 0, mask.width, mask.height);
  if (painted) at.drawImage(painted, 0, 0);
  if (place && document.activeElement === mask) {
    at.beginPath();
    at.arc(...place, radius(), 0, 2 * Math.PI);
    at.lineWidth = Math.max(1, mask.width / 300);
    at.strokeStyle = "white";
    at.stroke();
  }
  pick("clear", HTMLButtonElement).disabled = !some;
  pick("remove", HTMLButtonElement).disabled = image === null;
  byId("empty").hidden = image !== null;
}

/** Paints from where the brush was. @param {[number, number]} to @param {[number, number]} from */
function paint(to, from) {
  if (!image || !painted) return;
  const at = pen(painted);
  at.lineCap = "round";
  at.lineWidth = 2 * radius();
  at.strokeStyle = at.fillStyle = "#e08a1e";
  at.beginPath();
  at.moveTo(...from);
  at.lineTo(...to);
  at.stroke();
  at.beginPath();
  at.arc(...to, radius(), 0, 2 * Math.PI);
  at.fill();
  some = true;
  show();
}

/** The picture to begin with. */
export const begun = () => image;

/** The mask, white where the picture is drawn anew; null if nothing is painted. */
export function masked() {
  if (!image || !painted || !some) return null;
  const { width, height } = image;
  const found = pen(painted).getImageData(0, 0, width, height);
  for (let i = 0; i < found.data.length; i += 4) {
    const white = found.data[i + 3] > 127 ? 255 : 0;
    found.data.set([white, white, white, 255], i);
  }
  return found;
}

/** Takes another picture, or none. @param {ImageData | null} pixels */
export function take(pixels) {
  [image, place] = [pixels, null];
  const { width, height } = pixels ?? { width: 640, height: 240 };
  for (const canvas of [picture, mask]) [canvas.width, canvas.height] = [width, height];
  if (pixels) pen(picture).putImageData(pixels, 0, 0);
  clear();
}

export function clear() {
  painted = image && new OffscreenCanvas(image.width, image.height);
  some = false;
  show();
}

/** Where an event is, in the picture's pixels. @param {PointerEvent} event
 *  @returns {[number, number]} */
function at({ clientX, clientY }) {
  const box = mask.getBoundingClientRect();
  return [
    ((clientX - box.left) * mask.width) / box.width,
    ((clientY - box.top) * mask.height) / box.height,
  ];
}

mask.addEventListener("pointerdown", (event) => {
  if (!image) return;
  mask.setPointerCapture(event.pointerId);
  place = at(event);
  paint(place, place);
});
mask.addEventListener("pointermove", (event) => {
  if (!mask.hasPointerCapture(event.pointerId) || !place) return;
  const to = at(event);
  paint(to, place);
  place = to;
});
mask.addEventListener("keydown", (event) => {
  const step = KEYS[/** @type {keyof typeof KEYS} */ (event.key)];
  if (!image || (!step && event.key !== " ")) return;
  event.preventDefault();
  const before = place ?? [mask.width / 2, mask.height / 2];
  const [x, y] = step ?? [0, 0];
  place = [
    Math.max(0, Math.min(mask.width, before[0] + x * STEP * mask.width)),
    Math.max(0, Math.min(mask.height, before[1] + y * STEP * mask.height)),
  ];
  if (!step) paint(place, place);
  else if (event.shiftKey) paint(place, /** @type {[number, number]} */ (before));
  show();
});
for (const name of ["focus", "blur"]) mask.addEventListener(name, show);
