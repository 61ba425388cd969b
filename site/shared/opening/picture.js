// picture.js: the pixels of pictures: of files, of what the camera or a video shows, of a sample.

import { filesOf } from "./dropping.js";

/** The longest side that is read; larger pictures are made smaller. */
export const MOST = 2048;

/** The pixels of a picture's file, turned as it says. Throws an error in words for another file.
 *  @param {Blob} file @returns {Promise<ImageData>} */
export async function pixelsOf(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Error(
      "This file is no picture that the browser can read, or too large a one. Open a PNG or JPEG.",
    );
  }
  try {
    return drawn(bitmap, bitmap.width, bitmap.height);
  } finally {
    bitmap.close();
  }
}

/** The pixels of what can be drawn, at most `most` on a side, on white.
 *  @param {CanvasImageSource} source @param {number} width @param {number} height
 *  @param {number} [most] */
export function drawn(source, width, height, most = MOST) {
  const share = Math.min(1, most / Math.max(width, height));
  const canvas = new OffscreenCanvas(
    Math.max(1, Math.round(width * share)),
    Math.max(1, Math.round(height * share)),
  );
  const pen = context(canvas);
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(source, 0, 0, canvas.width, canvas.height);
  return pen.getImageData(0, 0, canvas.width, canvas.height);
}

/** The size of a picture, and whether it was made smaller, in words. @param {ImageData} pixels */
export const sizeOf = ({ width, height }) =>
  `${Math.max(width, height) === MOST ? "Read at " : ""}${width} × ${height} pixels`;

/** @param {OffscreenCanvas} canvas */
function context(canvas) {
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  if (!pen) throw new Error("This browser cannot draw pictures.");
  return pen;
}

/** A candle in its holder before a wall: the sample, which the page draws itself. */
export function sample() {
  const [width, height] = [640, 480];
  const canvas = new OffscreenCanvas(width, height);
  const pen = context(canvas);
  const wall = pen.createLinearGradient(0, 0, 0, height);
  wall.addColorStop(0, "#5c7387");
  wall.addColorStop(0.72, "#8fa3b3");
  wall.addColorStop(0.73, "#6b4f3a");
  wall.addColorStop(1, "#54402f");
  pen.fillStyle = wall;
  pen.fillRect(0, 0, width, height);
  /** @param {string} color @param {(() => void)} path */
  const fill = (color, path) => {
    pen.fillStyle = color;
    pen.beginPath();
    path();
    pen.fill();
  };
  fill("#b08a3e", () => pen.ellipse(320, 400, 120, 28, 0, 0, 2 * Math.PI));
  fill("#8c6a2a", () => pen.rect(270, 330, 100, 66));
  const wax = pen.createLinearGradient(285, 0, 355, 0);
  wax.addColorStop(0, "#d8ceb8");
  wax.addColorStop(0.45, "#fbf5e6");
  wax.addColorStop(1, "#c2b69c");
  pen.fillStyle = wax;
  pen.fillRect(285, 150, 70, 190);
  fill("#efe6d0", () => pen.ellipse(320, 150, 35, 9, 0, 0, 2 * Math.PI));
  fill("#2b2420", () => pen.rect(318, 126, 4, 24));
  fill("#f08a24", () => {
    pen.moveTo(320, 52);
    pen.bezierCurveTo(352, 96, 346, 136, 320, 138);
    pen.bezierCurveTo(294, 136, 288, 96, 320, 52);
  });
  fill("#ffe08a", () => {
    pen.moveTo(320, 84);
    pen.bezierCurveTo(336, 108, 334, 132, 320, 134);
    pen.bezierCurveTo(306, 132, 304, 108, 320, 84);
  });
  return pen.getImageData(0, 0, width, height);
}

/** Lets a visitor choose files, with a button that opens the input, or drop them on an element.
 *  @param {{ drop?: HTMLElement, button: HTMLElement, input: HTMLInputElement }} parts
 *  @param {(files: File[]) => unknown} take  called with one file or more */
export function openable({ drop, button, input }, take) {
  const given = (/** @type {File[]} */ files) => void (files.length && take(files));
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    given([...(input.files ?? [])]);
    input.value = ""; // the same file may be chosen again
  });
  for (const name of /** @type {const} */ (["dragover", "dragleave", "drop"])) {
    drop?.addEventListener(name, async (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer) given(await filesOf(event.dataTransfer));
    });
  }
}
