// drawing.js: what was found, drawn on a canvas in the picture's own pixels: masks, boxes, poses.

/**
 * @typedef {{ xmin: number, ymin: number, xmax: number, ymax: number }} Box
 * @typedef {{ label: string, score: number, box?: Box, mask?: Uint8Array,
 *   keypoints?: { x: number, y: number, score: number }[] }} Thing
 */

const TURN = 0.61803399; // of the color wheel between classes, as in Python's drawings
const SURE = 0.5; // the least score of a key point that is drawn
const OPACITY = 128;
const LETTERS = 14; // pixels on the screen
// What the 17 key points of COCO's people are joined by.
const LIMBS = [
  [0, 1], [0, 2], [1, 3], [2, 4], [5, 6], [5, 7], [7, 9], [6, 8], [8, 10], [5, 11], [6, 12],
  [11, 12], [11, 13], [13, 15], [12, 14], [14, 16],
]; // prettier-ignore

/** @type {Map<string, number>} */
const numbers = new Map();

/** The color of a class, which it keeps. @param {string} label
 *  @returns {[number, number, number]} */
export function colorOf(label) {
  const number = numbers.get(label) ?? numbers.size;
  numbers.set(label, number);
  const hue = ((number * TURN) % 1) * 6;
  const [value, low] = [0.95, 0.95 * 0.15];
  const at = (/** @type {number} */ from) => {
    const k = (from + hue) % 6;
    return Math.round(255 * (value - (value - low) * Math.max(0, Math.min(k, 4 - k, 1))));
  };
  return [at(5), at(3), at(1)];
}

/** @param {number[]} color */
export const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

/** @param {number} score */
export const percent = (score) => `${Math.round(100 * score)} %`;

/** Draws things over a picture of the canvas's size.
 *  @param {HTMLCanvasElement} canvas @param {Thing[]} things
 *  @param {Thing | null} marked  stands out from the others */
export function draw(canvas, things, marked) {
  const pen = canvas.getContext("2d");
  if (!pen) throw new Error("This browser cannot draw pictures.");
  const { width, height } = canvas;
  const scale = width / (canvas.clientWidth || width); // the picture's pixels per screen's pixel
  pen.clearRect(0, 0, width, height);
  const masks = things.filter(({ mask }) => mask);
  if (masks.length) pen.putImageData(tinted(masks, width, height, marked), 0, 0);
  pen.lineJoin = "round";
  for (const thing of things) {
    pen.globalAlpha = marked && thing !== marked ? 0.35 : 1;
    pen.strokeStyle = pen.fillStyle = css(colorOf(thing.label));
    pen.lineWidth = (thing === marked ? 4 : 2.5) * scale;
    if (thing.box) {
      const { xmin, ymin, xmax, ymax } = thing.box;
      pen.strokeRect(xmin, ymin, xmax - xmin, ymax - ymin);
    }
    if (thing.keypoints) pose(pen, thing.keypoints, scale);
  }
  // Labels come last, so that no box crosses one.
  pen.font = `600 ${LETTERS * scale}px system-ui, sans-serif`;
  pen.textBaseline = "middle";
  for (const thing of things) {
    pen.globalAlpha = marked && thing !== marked ? 0.35 : 1;
    label(pen, thing, scale);
  }
  pen.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} pen @param {NonNullable<Thing["keypoints"]>} points
 *  @param {number} scale */
function pose(pen, points, scale) {
  const seen = points.map(({ score }) => score >= SURE);
  for (const [a, b] of points.length === 17 ? LIMBS : []) {
    if (!seen[a] || !seen[b]) continue;
    pen.beginPath();
    pen.moveTo(points[a].x, points[a].y);
    pen.lineTo(points[b].x, points[b].y);
    pen.stroke();
  }
  points.forEach(({ x, y }, i) => {
    if (!seen[i]) return;
    pen.beginPath();
    pen.arc(x, y, 4 * scale, 0, 2 * Math.PI);
    pen.fill();
  });
}

/** @param {CanvasRenderingContext2D} pen @param {Thing} thing @param {number} scale */
function label(pen, thing, scale) {
  const { width, height } = pen.canvas;
  const words = `${thing.label} ${percent(thing.score)}`;
  const [wide, tall] = [pen.measureText(words).width + 10 * scale, (LETTERS + 7) * scale];
  const [left, above] = thing.box
    ? [thing.box.xmin, thing.box.ymin - tall]
    : centerOf(/** @type {Uint8Array} */ (thing.mask), width);
  // Above the box, or within it where there is no room.
  const top = above < 0 && thing.box ? thing.box.ymin : above;
  const x = Math.max(0, Math.min(left, width - wide));
  const y = Math.max(0, Math.min(top, height - tall));
  const color = colorOf(thing.label);
  pen.fillStyle = css(color);
  pen.fillRect(x, y, wide, tall);
  const bright = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2];
  pen.fillStyle = bright > 140 ? "black" : "white";
  pen.fillText(words, x + 5 * scale, y + tall / 2);
}

/** The middle of a mask. @param {Uint8Array} mask @param {number} width @returns {number[]} */
function centerOf(mask, width) {
  let [x, y, count] = [0, 0, 0];
  for (let i = 0; i < mask.length; i += 1) {
    if (!mask[i]) continue;
    x += i % width;
    y += Math.floor(i / width);
    count += 1;
  }
  return count ? [x / count, y / count] : [0, 0];
}

/** The colors of masks, half transparent.
 *  @param {Thing[]} things @param {number} width @param {number} height
 *  @param {Thing | null} marked */
function tinted(things, width, height, marked) {
  const made = new ImageData(width, height);
  for (const thing of things) {
    const [red, green, blue] = colorOf(thing.label);
    const mask = /** @type {Uint8Array} */ (thing.mask);
    const opacity = marked && thing !== marked ? OPACITY / 4 : OPACITY;
    for (let i = 0; i < mask.length; i += 1) {
      if (mask[i]) made.data.set([red, green, blue, opacity], 4 * i);
    }
  }
  return made;
}
