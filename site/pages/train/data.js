// data.js: what is learned: Fashion-MNIST, drawings, folders of pictures, or text.

import { bitmapOf } from "../shared/opening/picture.js";
import { boundField, textOf } from "../shared/opening/text.js";
import { byId, make, pick, size } from "../shared/page.js";
import { keep, kept } from "./kept.js";
import { makePad, pixelsOf } from "./pad.js";
import { sampleText } from "./sample.js";
import { drawn } from "./views.js";

/** @typedef {import("../rushlight/client.js").Rushlight} Rushlight */
/** @typedef {{ name: string, pictures: Uint8Array[] }} Class */

const SIDE = 28; // pixels of a drawing
const LARGER = 32; // and of a picture
/** How many epochs to begin with; of examples of one's own as many as give so many steps. */
const EPOCHS = { fashion: 3, drawings: 20, folders: 10, text: 20 };
const STEPS = 150;
const MOST_PICTURES = 20_000;
const MOST_TEXT = 2_000_000; // characters

/** The drawings. @type {Class[]} */
let classes = [
  { name: "circle", pictures: [] },
  { name: "cross", pictures: [] },
];
/** The classes of the last addition. @type {Class[]} */
const added = [];
/** The pictures of a folder. @type {Class[]} */
let folder = [];
/** The manifest of Fashion-MNIST; without files the site was built where the package is missing.
 *  @type {{ files: { path: string, size: number, sha256: string }[], package: string }} */
let fashion = { files: [], package: "" };
const text = pick("text", HTMLTextAreaElement);
const place = new URL("./fashion-mnist/", location.href);
const pad = makePad(pick("draw", HTMLCanvasElement), "A pad to draw an example on");

/** What is chosen. @returns {"fashion" | "drawings" | "folders" | "text"} */
export function source() {
  const inputs = /** @type {NodeListOf<HTMLInputElement>} */ (
    document.querySelectorAll('input[name="source"]')
  );
  return /** @type {any} */ ([...inputs].find((input) => input.checked)?.value ?? "fashion");
}

/** @param {string} name */
export function choose(name) {
  pickInput("source", name);
  showChoice();
}

/** Epochs that learn enough of what is chosen now: few examples are seen often.
 *  @param {number} batch */
export function epochs(batch) {
  const now = source();
  const all = now === "drawings" ? classes : now === "folders" ? folder : [];
  const count = all.reduce((sum, { pictures }) => sum + pictures.length, 0);
  // Four of five examples are learned, in whole batches.
  const steps = Math.max(1, Math.floor((0.8 * count) / batch));
  return count ? Math.max(EPOCHS[now], Math.ceil(STEPS / steps)) : EPOCHS[now];
}

/** Called when there are other examples. */
let told = () => {};

/** @param {string} name @param {string} value */
export function pickInput(name, value) {
  const inputs = /** @type {NodeListOf<HTMLInputElement>} */ (
    document.querySelectorAll(`input[name="${name}"]`)
  );
  for (const input of inputs) input.checked = input.value === value;
}

function showChoice() {
  const now = source();
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (
    document.querySelectorAll("[data-of]")
  )) {
    part.hidden = part.dataset.of !== now;
  }
  const kinds = /** @type {NodeListOf<HTMLInputElement>} */ (
    document.querySelectorAll('input[name="model"]')
  );
  for (const kind of kinds) kind.disabled = now === "text" && kind.value !== "transformer";
  if (now === "text") pickInput("model", "transformer");
}

/** The data for the worker, and which of the recipe's kinds they are.
 *  @param {Rushlight} rushlight @param {(words: string, share: number | null) => void} tell
 *  @returns {Promise<{ kind: string, given: any }>} */
export async function given(rushlight, tell) {
  const now = source();
  if (now === "text") {
    return { kind: "text", given: { files: { "text.txt": new TextEncoder().encode(text.value) } } };
  }
  if (now === "drawings") return { kind: "pictures", given: packed(classes, [1, SIDE, SIDE]) };
  if (now === "folders") return { kind: "pictures", given: packed(folder, [3, LARGER, LARGER]) };
  if (!fashion.files.length) {
    throw new Error("This site has no Fashion-MNIST. Draw, or choose pictures or a text.");
  }
  /** @type {Record<string, Uint8Array>} */
  const files = {};
  const all = total();
  let before = 0;
  for (const { path, size: bytes, sha256 } of fashion.files) {
    files[path] = await rushlight.file(new URL(path, place), {
      sha256,
      size: bytes,
      onProgress: ({ loaded }) => tell("Fetching Fashion-MNIST", (before + loaded) / all),
    });
    before += bytes;
  }
  return { kind: "fashion-mnist", given: { files } };
}

const total = () => fashion.files.reduce((sum, file) => sum + file.size, 0);

/** @param {Class[]} all @param {number[]} shape */
function packed(all, shape) {
  const used = all.filter(({ pictures }) => pictures.length);
  if (used.length < 2) throw new Error("Give examples of two classes at least.");
  const count = used.reduce((sum, { pictures }) => sum + pictures.length, 0);
  const pixels = new Uint8Array(count * shape[0] * shape[1] * shape[2]);
  const labels = new Int32Array(count);
  let at = 0;
  used.forEach(({ pictures }, label) => {
    for (const picture of pictures) {
      pixels.set(picture, at * picture.length);
      labels[at++] = label;
    }
  });
  return { pixels, labels, shape, classes: used.map(({ name }) => name) };
}

// --- drawings ------------------------------------------------------------------------------------

function showClasses() {
  const rows = classes.map((one) => {
    const button = make("button", { class: "small", type: "button" }, `It is: ${one.name}`);
    button.addEventListener("click", () => addDrawing(one));
    const few = one.pictures.slice(-6).map((picture) => drawn(picture, [1, SIDE, SIDE]));
    const thumbs = make("span", { class: "thumbs" }, ...few);
    const count = make("span", { class: "hint push" }, String(one.pictures.length));
    return make("div", { class: "class-row" }, button, thumbs, count);
  });
  byId("classes").replaceChildren(...rows);
  pick("draw-undo", HTMLButtonElement).disabled = !added.length;
}

/** @param {Class} one */
function addDrawing(one) {
  if (pad.empty()) return byId("draw").focus();
  one.pictures.push(pad.pixels(1, SIDE));
  added.push(one);
  pad.clear();
  changed();
}

function changed() {
  showClasses();
  told();
  void keep({ drawings: classes });
}

function addClass() {
  const input = pick("class-name", HTMLInputElement);
  const name = input.value.trim();
  if (!name || classes.some((one) => one.name === name)) return input.focus();
  classes.push({ name, pictures: [] });
  input.value = "";
  changed();
}

// --- folders of pictures -------------------------------------------------------------------------

/** @param {File[]} files */
async function readFolder(files) {
  /** @type {Map<string, Uint8Array[]>} */
  const found = new Map();
  let unread = 0;
  const note = byId("folder-note");
  const pictures = files.filter(({ type }) => type.startsWith("image/"));
  const images = pictures.slice(0, MOST_PICTURES);
  for (const [i, file] of images.entries()) {
    const parts = file.webkitRelativePath.split("/");
    const name = parts.at(-2) ?? "";
    try {
      const bitmap = await bitmapOf(file);
      const pixels = pixelsOf(bitmap, 3, LARGER, LARGER);
      bitmap.close();
      found.set(name, [...(found.get(name) ?? []), pixels]);
    } catch {
      unread += 1;
    }
    if (i % 20 === 0) note.textContent = `Reading ${i + 1} of ${images.length} pictures…`;
  }
  folder = [...found].map(([name, pictures]) => ({ name, pictures }));
  folder.sort((a, b) => a.name.localeCompare(b.name));
  const counts = folder.map(({ name, pictures }) => `${name} (${pictures.length})`).join(", ");
  const count = (/** @type {number} */ n, /** @type {string} */ words) =>
    n ? ` ${n} ${words}.` : "";
  const few = folder.length === 1 ? " Two classes at least are needed: a folder for each." : "";
  told();
  note.textContent =
    (folder.length
      ? `${folder.length} class${folder.length > 1 ? "es" : ""}: ${counts}.${few}`
      : "There are no pictures in this folder. Choose one with a folder for each class.") +
    count(unread, "could not be read") +
    count(files.length - pictures.length, "files are no pictures") +
    count(pictures.length - images.length, "pictures more are left out");
}

// --- beginning -----------------------------------------------------------------------------------

/** Prepares the choices. @param {() => void} changed  called when there are other examples */
export async function start(changed) {
  told = changed;
  for (const input of document.querySelectorAll('input[name="source"]')) {
    input.addEventListener("change", () => {
      showChoice();
      told();
    });
  }
  byId("draw-clear").addEventListener("click", () => pad.clear());
  byId("draw-undo").addEventListener("click", () => {
    added.pop()?.pictures.pop();
    changed();
  });
  byId("class-add").addEventListener("click", addClass);
  byId("class-name").addEventListener("keydown", (event) => {
    if (event.key === "Enter") addClass();
  });
  pick("folder", HTMLInputElement).addEventListener("change", (event) => {
    void readFolder([.../** @type {HTMLInputElement} */ (event.target).files ?? []]);
  });
  pick("text-file", HTMLInputElement).addEventListener("change", async (event) => {
    const file = /** @type {HTMLInputElement} */ (event.target).files?.[0];
    if (!file) return;
    try {
      const opened = await textOf(file, MOST_TEXT);
      [text.value, byId("text-note").textContent] = [opened.text, opened.note];
    } catch (error) {
      const { message, hint } = /** @type {Error & { hint?: string }} */ (error);
      byId("text-note").textContent = [message, hint].filter(Boolean).join(" ");
    }
  });
  text.value = sampleText();
  boundField(text, MOST_TEXT, (note) => (byId("text-note").textContent = note));
  const before = await kept("drawings");
  if (Array.isArray(before) && before.length) classes = before;
  showClasses();
  try {
    fashion = await (await fetch(new URL("manifest.json", place))).json();
  } catch {
    // The server is out of reach, and this page was never kept.
  }
  byId("fashion-note").textContent = fashion.files.length
    ? `Fashion-MNIST: 26,000 pictures of clothes to learn and 1,000 to try, ` +
      `${size(total())} to download once.`
    : `This site was built without Fashion-MNIST (the package ${fashion.package}). Draw your own ` +
      `examples, or choose pictures or a text.`;
  byId("missing-note").textContent = fashion.files.length
    ? ""
    : `Clothes cannot be learned here: this site was built without the package ${fashion.package}.`;
  if (!fashion.files.length) choose("drawings");
  else showChoice();
  fixed(false);
  told();
}

/** Lets the visitor choose what is learned, or not. What the site has not is never offered.
 *  @param {boolean} on  whether the choice is fixed */
export function fixed(on) {
  for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (
    document.querySelectorAll('input[name="source"]')
  )) {
    const missing = input.value === "fashion" && !fashion.files.length;
    input.disabled = on || missing;
    const label = /** @type {HTMLElement} */ (input.parentElement);
    label.title = missing ? byId("fashion-note").textContent ?? "" : "";
    label.classList.toggle("missing", missing);
  }
}

/** Shows the text of a kept training. @param {any} given */
export function show(given) {
  const kept = file(given);
  if (kept) text.value = new TextDecoder().decode(kept[1]);
}

/** The data of a kept training, for a download. @param {any} given */
export const file = (given) =>
  given?.files?.["text.txt"] ? ["text.txt", given.files["text.txt"]] : null;
