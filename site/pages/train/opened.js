// opened.js: what the page opens: its own Python, weights, a picture; and a network in words.

import { headOf, refused } from "../shared/opening/kinds.js";
import { bitmapOf } from "../shared/opening/picture.js";
import { size } from "../shared/page.js";

const MOST_WEIGHTS = 100e6; // bytes of a file of weights

/** The sources of the page's Python modules, by name, in their order. */
export async function sources() {
  const read = async (/** @type {string} */ name) => {
    const response = await fetch(new URL(`./${name}.py`, import.meta.url));
    if (!response.ok) throw new Error(`${name}.py of this page: status ${response.status}`);
    return response.text();
  };
  const [recipe, lab] = await Promise.all([read("recipe"), read("lab")]);
  return { recipe, lab };
}

/** A network and its data in words.
 *  @param {import("../shared/runtime/python.js").Runtime} rushlight @param {any} about */
export async function describe(rushlight, { parameters, learned, held, device: on }) {
  const { kernels, webgpu } = await rushlight.info();
  const where = on === "webgpu" ? `WebGPU (${webgpu})` : `the CPU (${kernels})`;
  return (
    `${parameters.toLocaleString("en")} parameters learn ${learned.toLocaleString("en")} ` +
    `examples on ${where}; ${held.toLocaleString("en")} are held out.`
  );
}

/** The bytes of a file of weights. Throws an error in words for what this page never writes.
 *  @param {File} file */
export async function weightsOf(file) {
  await headOf(file); // refuses what is empty or cannot be read
  if (file.size > MOST_WEIGHTS) {
    const words = `${file.name} (${size(file.size)}) is more than this page ever writes.`;
    throw refused(words, "Open a model.safetensors of this page.");
  }
  return new Uint8Array(await file.arrayBuffer());
}

/** The square in the middle of a picture's file. @param {File} file */
export async function middleOf(file) {
  const bitmap = await bitmapOf(file);
  const side = Math.min(bitmap.width, bitmap.height);
  const [x, y] = [(bitmap.width - side) / 2, (bitmap.height - side) / 2];
  return createImageBitmap(bitmap, x, y, side, side);
}
