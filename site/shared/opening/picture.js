// picture.js: the pixels of pictures: of files, of what the camera or a video shows, of a sample.

import { size } from "../page.js";
import { headOf, isPicture, kindOf, readable, refused, unlike } from "./kinds.js";

/** The longest side that is read; larger pictures are made smaller. */
export const MOST = 2048;
const PIXELS = 150e6; // of a picture that is opened: the browser holds four bytes of each
const HEADER = 1 << 18; // bytes in which a JPEG's size stands, behind its notes and thumbnail
const OTHER = "Open a PNG, JPEG, WebP, GIF or AVIF.";

/** A picture's file as a bitmap, turned as it says, which the caller closes. Throws an error in
 *  words for another file, and for a picture whose header says that it is too large.
 *  @param {Blob & { name?: string }} file */
export async function bitmapOf(file) {
  const head = await headOf(file, HEADER);
  const kind = kindOf(head);
  const name = file.name ?? "The picture";
  const svg = /^\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<svg/s.test(new TextDecoder().decode(head));
  if (svg || (!isPicture(head) && (kind || readable(head)))) {
    throw refused(unlike(file, svg ? "a drawing (SVG)" : kind, "picture"), OTHER);
  }
  const [width, height] = sidesOf(head);
  if (width * height > PIXELS) {
    const [is, most] = [width * height, PIXELS].map((n) => `${Math.round(n / 1e6)} million`);
    throw refused(
      `${name} is ${width} × ${height}, ${is} pixels; at most ${most} are opened here.`,
      "Make it smaller first: a model sees less than a million of them.",
    );
  }
  try {
    return await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    const what = kind ? `${kind} that is damaged, or that this browser cannot read` : "no picture";
    throw refused(`${name} (${size(file.size)}) is ${what}.`, OTHER);
  }
}

/** The pixels of a picture's file. @param {Blob & { name?: string }} file
 *  @returns {Promise<ImageData>} */
export async function pixelsOf(file) {
  const bitmap = await bitmapOf(file);
  try {
    return drawn(bitmap, bitmap.width, bitmap.height);
  } finally {
    bitmap.close();
  }
}

/** Width and height as a picture's header has them; [0, 0] where it is of another kind.
 *  @param {Uint8Array} head */
function sidesOf(head) {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const text = (/** @type {number} */ at, /** @type {number} */ count) =>
    String.fromCharCode(...head.subarray(at, at + count));
  if (head.length < 30) return [0, 0];
  if (text(1, 3) === "PNG") return [view.getUint32(16), view.getUint32(20)];
  if (text(0, 3) === "GIF") return [view.getUint16(6, true), view.getUint16(8, true)];
  if (text(0, 2) === "BM") {
    return [Math.abs(view.getInt32(18, true)), Math.abs(view.getInt32(22, true))];
  }
  if (text(8, 8) === "WEBPVP8X") {
    const three = (/** @type {number} */ at) => 1 + (view.getUint32(at - 1, true) >>> 8);
    return [three(24), three(27)];
  }
  if (view.getUint16(0) !== 0xffd8) return [0, 0];
  // JPEG: segments with their lengths, up to the one of a frame (SOF0 to SOF15).
  for (let at = 2; at + 9 < head.length; at += 2 + view.getUint16(at + 2)) {
    const mark = view.getUint16(at);
    if (mark >> 8 !== 0xff) break;
    const frame = mark >= 0xffc0 && mark <= 0xffcf && ![0xffc4, 0xffc8, 0xffcc].includes(mark);
    if (frame) return [view.getUint16(at + 7), view.getUint16(at + 5)];
  }
  return [0, 0];
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
