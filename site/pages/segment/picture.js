// picture.js: pictures of the segment page: opened, taken by the camera, drawn, and cut out.

/** The longest side that is read; larger pictures are made smaller. */
export const MOST = 2048;

/** The pixels of a picture's file, turned as it says. Throws an error in words for another file.
 *  @param {Blob} file @returns {Promise<ImageData>} */
export async function pixelsOf(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Error("This file is no picture that the browser can read. Open a PNG or JPEG.");
  }
  try {
    return drawn(bitmap, bitmap.width, bitmap.height);
  } finally {
    bitmap.close();
  }
}

/** The pixels of what can be drawn, at most `MOST` on a side, on white.
 *  @param {CanvasImageSource} source @param {number} width @param {number} height */
export function drawn(source, width, height) {
  const share = Math.min(1, MOST / Math.max(width, height));
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

/** The picture with a mask as its opacity. @param {ImageData} image @param {Uint8Array} mask */
export function cut(image, mask) {
  const made = new ImageData(new Uint8ClampedArray(image.data), image.width, image.height);
  for (let i = 0; i < mask.length; i += 1) made.data[4 * i + 3] = mask[i];
  return made;
}

/** The picture with what is masked in a color. @param {ImageData} image @param {Uint8Array} mask */
export function shaded(image, mask) {
  const made = new ImageData(new Uint8ClampedArray(image.data), image.width, image.height);
  const color = [240, 138, 36];
  for (let i = 0; i < mask.length; i += 1) {
    const share = (mask[i] / 255) * 0.5;
    for (let j = 0; j < 3; j += 1) {
      made.data[4 * i + j] = made.data[4 * i + j] * (1 - share) + color[j] * share;
    }
  }
  return made;
}
