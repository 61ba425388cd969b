// samples.js: a dozen small pictures that the page draws itself: three motifs in four moods.

const SIDE = 240;
const MOODS = [
  ["dawn", "#f7d9c4", "#d98e73"],
  ["day", "#bfe0f2", "#5f9ea0"],
  ["dusk", "#8d7ba8", "#4c3b63"],
  ["night", "#25304a", "#10151f"],
];

/** @typedef {(pen: OffscreenCanvasRenderingContext2D, shift: number) => void} Motif */
/** @type {Record<string, Motif>} */
const MOTIFS = {
  candle(pen, shift) {
    const x = 105 + shift;
    pen.fillStyle = "#f4ead2";
    pen.fillRect(x, 110, 36, 100);
    pen.fillStyle = "#f08a24";
    ellipse(pen, x + 18, 84, 13, 26);
    pen.fillStyle = "#ffe08a";
    ellipse(pen, x + 18, 92, 6, 13);
  },
  boat(pen, shift) {
    pen.fillStyle = "#f8f4ea";
    shape(pen, [120 + shift, 50, 178 + shift, 160, 120 + shift, 160]);
    pen.fillStyle = "#c8553d";
    shape(pen, [112 + shift, 70, 112 + shift, 160, 66 + shift, 160]);
    pen.fillStyle = "#5b3a29";
    shape(pen, [52 + shift, 168, 190 + shift, 168, 166 + shift, 196, 78 + shift, 196]);
  },
  tree(pen, shift) {
    pen.fillStyle = "#5b3a29";
    pen.fillRect(108 + shift, 150, 22, 60);
    pen.fillStyle = "#3f7d4e";
    for (const [x, y, r] of [[92, 116, 40], [146, 112, 42], [120, 78, 44]]) {
      ellipse(pen, x + shift, y, r, r);
    }
  },
};

/** @param {OffscreenCanvasRenderingContext2D} pen @param {number} x @param {number} y
 *  @param {number} a @param {number} b */
function ellipse(pen, x, y, a, b) {
  pen.beginPath();
  pen.ellipse(x, y, a, b, 0, 0, 2 * Math.PI);
  pen.fill();
}

/** @param {OffscreenCanvasRenderingContext2D} pen @param {number[]} corners  x and y in turn */
function shape(pen, corners) {
  pen.beginPath();
  for (let i = 0; i < corners.length; i += 2) pen.lineTo(corners[i], corners[i + 1]);
  pen.fill();
}

/** The pictures as files. @returns {Promise<File[]>} */
export async function samples() {
  const files = [];
  for (const [name, motif] of Object.entries(MOTIFS)) {
    for (const [i, [mood, above, below]] of MOODS.entries()) {
      const canvas = new OffscreenCanvas(SIDE, SIDE);
      const pen = canvas.getContext("2d");
      if (!pen) throw new Error("This browser cannot draw pictures.");
      pen.fillStyle = above;
      pen.fillRect(0, 0, SIDE, SIDE);
      pen.fillStyle = below;
      pen.fillRect(0, 180, SIDE, SIDE - 180);
      motif(pen, 12 * i - 18);
      const blob = await canvas.convertToBlob();
      files.push(new File([blob], `${name}-${mood}.png`, { type: blob.type }));
    }
  }
  return files;
}
