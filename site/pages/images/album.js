// album.js: the visitor's pictures: their files, vectors, thumbnails, tiles and places on the map.

import { rank } from "../search/rank.js";
import { byId, make } from "../shared/page.js";
import { pixelsOf } from "../shared/opening/picture.js";
import { project } from "./projection.js";

/**
 * @typedef {{ name: string, file: File, thumb: string, vector?: Float32Array,
 *   broken?: boolean }} Entry  broken: it was no picture
 * @typedef {import("../rushlight/client.js").Model} Model
 */

const MOST = 2000; // pictures
const ON_MAP = 300; // more would cover each other
const SHOWN = 24;
const THUMB = 160; // pixels of a side
const NEAREST = 6; // that the map keeps bright
const ORDER = new Intl.Collator("en", { numeric: true });
const PICTURE = /\.(jpe?g|png|webp|gif|avif|bmp)$/i;

export class Album {
  /** @type {Entry[]} */
  entries = [];
  /** The model whose vectors they have. @type {Model | null} */
  model = null;
  /** What the others are compared with; -1: a picture of elsewhere; null: nothing.
   *  @type {number | null} */
  chosen = null;
  /** @type {{ index: number, score: number }[]} */
  ranking = [];
  #visible = SHOWN;
  #others = 0; // files that were no pictures

  /** Adds pictures; other files of a folder are passed over. @param {File[]} files */
  add(files) {
    const known = new Set(this.entries.map(({ file }) => keyOf(file)));
    const sorted = [...files].sort((a, b) => ORDER.compare(nameOf(a), nameOf(b)));
    for (const file of sorted) {
      if (known.has(keyOf(file))) continue;
      const picture = file.type ? file.type.startsWith("image/") : PICTURE.test(file.name);
      if (!picture) this.#others += 1;
      else if (this.entries.length < MOST) {
        this.entries.push({ name: nameOf(file), file, thumb: "" });
      }
    }
    this.show();
  }

  /** Forgets the pictures; `restore` takes what it returns. */
  clear() {
    const before = { entries: this.entries, model: this.model };
    this.entries = [];
    this.#others = 0;
    this.forget();
    this.show();
    return before;
  }

  /** Takes pictures back that were cleared. @param {ReturnType<Album["clear"]>} before */
  restore({ entries, model }) {
    const same = this.entries.length === 0 || this.model === model;
    for (const entry of entries) if (!same) entry.vector = undefined;
    if (this.entries.length === 0) this.model = model;
    this.entries = [...entries, ...this.entries].slice(0, MOST);
    this.forget();
    this.show();
  }

  /** Forgets what is compared, and shows the pictures in their order. */
  forget() {
    [this.chosen, this.ranking, this.#visible] = [null, [], SHOWN];
  }

  /** Those without a vector of a model. @param {Model} model */
  unread(model) {
    if (this.model !== model) {
      for (const entry of this.entries) entry.vector = undefined;
      this.model = model;
      this.forget();
    }
    return this.entries.filter(({ vector, broken }) => !vector && !broken);
  }

  /** The pixels of a picture, with a thumbnail made on the way; null for a broken file.
   *  @param {Entry} entry */
  async open(entry) {
    try {
      const pixels = await pixelsOf(entry.file);
      entry.thumb ||= await thumbnail(pixels);
      return pixels;
    } catch {
      entry.broken = true;
      return null;
    }
  }

  /** Orders the pictures by their likeness to a vector. @param {number} chosen  that of an entry;
   *  -1 for another picture's @param {Float32Array} vector */
  compare(chosen, vector) {
    this.chosen = chosen;
    this.ranking = rank(this.entries.map((entry) => entry.vector), vector);
    this.#visible = SHOWN;
    this.show();
  }

  more() {
    this.#visible += 4 * SHOWN;
    this.show();
  }

  // --- what is seen ------------------------------------------------------------------------------

  /** Draws the tiles, and the map. @param {boolean} map  false while much is added */
  show(map = true) {
    const { entries } = this;
    const read = [...entries.keys()].filter((i) => entries[i].vector);
    byId("count").textContent = this.#words(read.length);
    byId("alike").hidden = read.length === 0;
    const plain = read.map((index) => ({ index, score: NaN }));
    const rows = this.ranking.length ? this.ranking : plain;
    const tiles = rows.slice(0, this.#visible).map(({ index, score }) => this.#tile(index, score));
    byId("tiles").replaceChildren(...tiles);
    byId("more").hidden = rows.length <= this.#visible;
    if (map) this.#map(read.slice(0, ON_MAP), read.length);
  }

  /** @param {number} read */
  #words(read) {
    const { entries } = this;
    if (!entries.length && !this.#others) {
      return "Drop pictures here, or choose some: they are compared with one another.";
    }
    const broken = entries.filter((entry) => entry.broken).map(({ name }) => name);
    const few = broken.slice(0, 3).join(", ") + (broken.length > 3 ? ", …" : "");
    const many = entries.length >= MOST;
    return [
      `${entries.length} picture${entries.length === 1 ? "" : "s"}, ${read} compared.`,
      broken.length ? `${broken.length} could not be read: ${few}.` : "",
      this.#others ? `Files passed over, as they are no pictures: ${this.#others}.` : "",
      many ? `At most ${MOST} are taken.` : "",
    ]
      .filter(Boolean)
      .join(" ");
  }

  /** A button with a picture, which compares the others with it.
   *  @param {number} index @param {string} label @param {...Node} more */
  #button(index, label, ...more) {
    const { thumb, vector } = this.entries[index];
    const picture = make("img", { src: thumb, alt: "", draggable: "false" });
    const button = make("button", { type: "button", "aria-label": label }, picture, ...more);
    button.setAttribute("aria-pressed", String(index === this.chosen));
    button.dataset.index = String(index);
    button.addEventListener("click", () => {
      const place = button.parentElement?.id === "map" ? "map" : "tiles";
      if (vector) this.compare(index, vector);
      /** @type {HTMLElement | null} */
      (byId(place).querySelector(`[data-index="${index}"]`))?.focus();
    });
    return button;
  }

  /** @param {number} index @param {number} score */
  #tile(index, score) {
    const { name } = this.entries[index];
    const likeness = Number.isNaN(score) ? "" : score.toFixed(2);
    const label = `${name}${likeness && `, likeness ${likeness}`}: find those most like it`;
    const words = make("span", { title: name }, name.split("/").pop() ?? name);
    const more = likeness ? [make("output", {}, likeness)] : [];
    return make("li", {}, this.#button(index, label, words, ...more));
  }

  /** @param {number[]} indices @param {number} all */
  #map(indices, all) {
    const vectorOf = (/** @type {number} */ i) => this.entries[i].vector ?? new Float32Array();
    const places = project(indices.map(vectorOf));
    const near = new Set(this.ranking.slice(0, NEAREST).map(({ index }) => index));
    const buttons = indices.map((index, i) => {
      const { name } = this.entries[index];
      const button = this.#button(index, `${name}: find those most like it`);
      button.style.setProperty("--x", places[i][0].toFixed(4));
      button.style.setProperty("--y", (1 - places[i][1]).toFixed(4));
      button.tabIndex = (this.chosen ?? -1) < 0 ? (i ? -1 : 0) : index === this.chosen ? 0 : -1;
      button.classList.toggle("far", near.size > 0 && !near.has(index));
      const tell = () => {
        byId("map-says").textContent = `${name}. Choose it to see those most like it.`;
      };
      button.addEventListener("pointerenter", tell);
      button.addEventListener("focus", tell);
      button.addEventListener("keydown", (event) => step(event, buttons));
      return button;
    });
    if (buttons.length && !buttons.some((button) => button.tabIndex === 0)) buttons[0].tabIndex = 0;
    byId("map").replaceChildren(...buttons);
    const cut = all > indices.length ? ` The first ${ON_MAP} are on the map.` : "";
    byId("map-says").textContent =
      `Alike pictures are near one another. Choose one; the arrow keys move.${cut}`;
  }
}

/** Moves the focus to the nearest picture in an arrow key's direction.
 *  @param {KeyboardEvent} event @param {HTMLElement[]} buttons */
function step(event, buttons) {
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const way = ways[/** @type {keyof typeof ways} */ (event.key)];
  if (!way) return;
  event.preventDefault();
  const here = /** @type {HTMLElement} */ (event.currentTarget);
  let [best, least] = [/** @type {HTMLElement | null} */ (null), Infinity];
  for (const other of buttons) {
    const [x, y] = [other.offsetLeft - here.offsetLeft, other.offsetTop - here.offsetTop];
    const along = x * way[0] + y * way[1];
    const aside = Math.abs(x * way[1] + y * way[0]);
    const far = along + 2 * aside;
    if (other !== here && along > 0 && far < least) [best, least] = [other, far];
  }
  if (!best) return;
  here.tabIndex = -1;
  best.tabIndex = 0;
  best.focus();
}

/** @param {File} file */
const nameOf = ({ webkitRelativePath, name }) => webkitRelativePath || name;

/** @param {File} file */
const keyOf = (file) => `${nameOf(file)} ${file.size} ${file.lastModified}`;

/** The address of a small copy. @param {ImageData} pixels */
async function thumbnail(pixels) {
  const share = Math.min(1, THUMB / Math.min(pixels.width, pixels.height));
  const width = Math.max(1, Math.min(4 * THUMB, Math.round(pixels.width * share)));
  const height = Math.max(1, Math.min(4 * THUMB, Math.round(pixels.height * share)));
  const bitmap = await createImageBitmap(pixels, { resizeWidth: width, resizeHeight: height });
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0);
  bitmap.close();
  return URL.createObjectURL(await canvas.convertToBlob({ type: "image/webp" }));
}
