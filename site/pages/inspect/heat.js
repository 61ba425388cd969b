// heat.js: a heat map of a tensor on a canvas, read by pointer and keyboard.

import { onTheme } from "../shared/charts.js";
import { scaled } from "../shared/scale.js";

/** @typedef {NonNullable<import("../rushlight/client.js").Figures["map"]>} Map */

const TALLEST = 360;
const SIDE = 18; // the most pixels of a cell

export class Heat {
  /** @param {HTMLCanvasElement} canvas
   *  @param {(words: string) => void} tell  describes the chosen cell
   *  @param {(low: number, high: number) => void} legend */
  constructor(canvas, tell, legend) {
    this.canvas = canvas;
    this.tell = tell;
    this.legend = legend;
    /** @type {Map | null} */
    this.map = null;
    /** @type {"largest" | "mean"} */
    this.shows = "largest";
    this.cell = { row: 0, column: 0 };
    this.pointed = false;
    canvas.addEventListener("pointermove", (event) => this.#hover(event));
    canvas.addEventListener("pointerdown", (event) => this.#hover(event));
    canvas.addEventListener("pointerleave", () => {
      this.pointed = false;
      this.draw();
    });
    canvas.addEventListener("keydown", (event) => this.#key(event));
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => this.draw());
    onTheme(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(/** @type {Element} */ (canvas.parentElement));
  }

  /** @param {Map | null} map @param {"largest" | "mean"} shows */
  show(map, shows) {
    if (map !== this.map) this.cell = { row: 0, column: 0 };
    this.map = map;
    this.shows = shows;
    this.tell("");
    this.draw();
  }

  draw() {
    const { canvas, map } = this;
    const width = canvas.parentElement?.clientWidth ?? 0;
    if (!map || width === 0) return;
    const [rows, columns] = [map.rowEdges.length, map.columnEdges.length];
    const values = map[this.shows];
    const finite = values.filter(Number.isFinite);
    const low = this.shows === "largest" ? 0 : Math.min(...finite);
    const high = Math.max(...finite);
    this.legend(finite.length ? low : NaN, finite.length ? high : NaN);
    const across = Math.min(width, columns * SIDE);
    const down = Math.max(Math.min(TALLEST, rows * (across / columns)), Math.min(rows * 4, 24));
    const ratio = devicePixelRatio || 1;
    canvas.style.width = `${across}px`;
    canvas.style.height = `${down}px`;
    canvas.width = Math.round(across * ratio);
    canvas.height = Math.round(down * ratio);
    const dark = document.documentElement.dataset.theme === "dark";
    const pixels = new ImageData(columns, rows);
    const none = dark ? [90, 130, 200] : [60, 110, 200]; // no finite value: a colour of its own
    values.forEach((value, i) => {
      const t = high > low ? (value - low) / (high - low) : 0.5;
      pixels.data.set([...(Number.isFinite(value) ? scaled(t, dark) : none), 255], i * 4);
    });
    const small = new OffscreenCanvas(columns, rows);
    small.getContext("2d")?.putImageData(pixels, 0, 0);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    if (document.activeElement !== canvas && !this.pointed) return;
    const [w, h] = [canvas.width / columns, canvas.height / rows];
    context.strokeStyle = dark ? "#ffffff" : "#26211a";
    context.lineWidth = 2 * ratio;
    context.strokeRect(this.cell.column * w, this.cell.row * h, w, h);
  }

  #describe() {
    const map = /** @type {Map} */ (this.map);
    const { row, column } = this.cell;
    const [top, bottom] = map.rowEdges[row];
    const [left, right] = map.columnEdges[column];
    const span = (/** @type {string} */ word, /** @type {number} */ a, /** @type {number} */ b) =>
      a === b ? `${word} ${a}` : `${word}s ${a} to ${b}`;
    const i = row * map.columnEdges.length + column;
    const number = (/** @type {number} */ x) => (Number.isFinite(x) ? x.toPrecision(4) : "none");
    const found = `largest magnitude ${number(map.largest[i])}, mean ${number(map.mean[i])}`;
    this.tell(`${span("Row", top, bottom)}, ${span("column", left, right)}: ${found}`);
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    const { map } = this;
    if (!map) return;
    const box = this.canvas.getBoundingClientRect();
    const at = (/** @type {number} */ x, /** @type {number} */ size, /** @type {number} */ n) =>
      Math.max(0, Math.min(n - 1, Math.floor((x / size) * n)));
    this.cell = {
      row: at(event.clientY - box.top, box.height, map.rowEdges.length),
      column: at(event.clientX - box.left, box.width, map.columnEdges.length),
    };
    this.pointed = true;
    this.#describe();
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    const { map, cell } = this;
    if (!map || !move) return;
    event.preventDefault();
    const within = (/** @type {number} */ x, /** @type {number} */ n) =>
      Math.max(0, Math.min(n - 1, x));
    this.cell = {
      row: within(cell.row + move[0], map.rowEdges.length),
      column: within(cell.column + move[1], map.columnEdges.length),
    };
    this.#describe();
    this.draw();
  }
}
