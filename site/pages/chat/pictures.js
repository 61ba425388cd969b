// pictures.js: the pictures of a conversation with a model that sees, as long as the page lasts.

import { openable } from "../shared/opening/dropping.js";
import { pixelsOf } from "../shared/opening/picture.js";
import { byId, make, pick } from "../shared/page.js";
import { hideError, showError } from "../shared/status.js";

const NOTE = "with a picture, which is not kept";
/** By the messages' ids. @type {Map<string, ImageData>} */
const shown = new Map();
/** That of the next message. @type {ImageData | null} */
let next = null;

/** @param {ImageData} pixels @param {string} label */
function thumbnail(pixels, label) {
  const canvas = make("canvas", { class: "thumbnail", role: "img", "aria-label": label });
  [canvas.width, canvas.height] = [pixels.width, pixels.height];
  canvas.getContext("2d")?.putImageData(pixels, 0, 0);
  return canvas;
}

function showNext() {
  byId("attached").replaceChildren(...(next ? [thumbnail(next, "The picture to send")] : []));
  byId("detach").hidden = next === null;
}

/** @param {File[]} files */
async function open([file]) {
  hideError();
  try {
    next = await pixelsOf(file);
    showNext();
  } catch (error) {
    showError(error, () => byId("picture-file").click());
  }
}

/** Takes a dropped picture, if the model sees. @param {File[]} files */
export function take(files) {
  const [file] = files;
  const taken = !byId("seeing").hidden && files.length === 1 && file.type.startsWith("image/");
  if (taken) void open(files);
  return taken;
}

/** Gives the picture that waits to a message. @param {{ id: string, note?: string }} message */
export function attach(message) {
  if (!next) return;
  shown.set(message.id, next);
  message.note = NOTE;
  next = null;
  showNext();
}

/** What a model is given of a message: its text, or the text with its picture.
 *  @param {{ id: string, content: string }} message */
export function contentOf({ id, content }) {
  const image = shown.get(id);
  return image ? [{ type: "image", image }, { type: "text", text: content }] : content;
}

/** The picture of a message as an element, if it has one. @param {{ id: string }} message */
export function pictureOf({ id }) {
  const image = shown.get(id);
  return image ? [thumbnail(image, "The picture of this message")] : [];
}

/** Offers pictures where the model sees. @param {boolean} sees */
export function offer(sees) {
  byId("seeing").hidden = !sees;
  if (sees || !next) return;
  next = null;
  showNext();
}

export function start() {
  const button = byId("attach");
  openable({ button, input: pick("picture-file", HTMLInputElement) }, open);
  byId("detach").addEventListener("click", () => {
    next = null;
    showNext();
  });
}
