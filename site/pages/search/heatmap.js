// heatmap.js: a heat map of similarities, usable by mouse, touch and keyboard.

import { scaled } from "../shared/scale.js";

/**
 * @typedef {{ values: Float32Array, rows: string[], columns: string[], square: boolean }} Table
 */

export class HeatMap {
  /** @param {HTMLCanvasElement} canvas
   *  @param {{ left: HTMLElement, below: HTMLElement }} sides  for the labels
   *  @param {HTMLElement} tip  follows the pointer @param {HTMLElement} readout  describes the cell
   *  @param {(row: number, column: number) => void} choose */
  constructor(canvas, sides, tip, readout, choose) {
    this.canvas = canvas;
    this.sides = sides;
    this.tip = tip;
    this.readout = readout;
    this.choose = choose;
    /** @type {Table | null} */
    this.table = null;
    this.cell = { row: 0, column: 0 };
    canvas.addEventListener("pointermove", (event) => this.#hover(event));
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
    canvas.addEventListener("click", (event) => {
      if (this.#hover(event)) this.choose(this.cell.row, this.cell.column);
    });
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => this.draw());
    canvas.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("themechange", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(/** @type {Element} */ (canvas.parentElement));
  }

  /** @param {Table | null} table */
  show(table) {
    this.table = table;
    this.cell = { row: 0, column: 0 };
    this.tip.hidden = true;
    this.readout.textContent = "";
    this.draw();
  }

  /** Lowest and highest value, without the diagonal of a square table, whose values are all 1. */
  range() {
    const { values, columns, square } = /** @type {Table} */ (this.table);
    let [low, high] = [Infinity, -Infinity];
    for (let i = 0; i < values.length; i += 1) {
      if (square && Math.floor(i / columns.length) === i % columns.length) continue;
      low = Math.min(low, values[i]);
      high = Math.max(high, values[i]);
    }
    return low < high ? { low, high } : { low: 0, high: 1 };
  }

  draw() {
    const { canvas, table } = this;
    const all = canvas.parentElement?.clientWidth ?? 0;
    if (!table || table.values.length === 0 || all === 0) return;
    const [rows, columns] = [table.rows.length, table.columns.length];
    // Rows of questions are labelled with their text, passages with their number.
    const gutter = table.square ? 30 : Math.min(200, all * 0.34);
    const width = all - gutter;
    const side = width / columns;
    const height = table.square ? width : Math.max(32, Math.min(40, side)) * rows;
    canvas.style.width = `${width}px`;
    this.#label(gutter, height / rows, side);
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const dark = document.documentElement.dataset.theme === "dark";
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const { low, high } = this.range();
    // One pixel per cell, scaled without smoothing, draws thousands of cells quickly.
    const pixels = new ImageData(columns, rows);
    for (let i = 0; i < table.values.length; i += 1) {
      pixels.data.set([...scaled((table.values[i] - low) / (high - low), dark), 255], i * 4);
    }
    const small = new OffscreenCanvas(columns, rows);
    small.getContext("2d")?.putImageData(pixels, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    this.#frame(context, rows, columns, dark);
  }

  /** Names of rows and numbers of columns, as elements around the canvas.
   *  @param {number} gutter @param {number} rowHeight @param {number} columnWidth */
  #label(gutter, rowHeight, columnWidth) {
    const { rows, columns, square } = /** @type {Table} */ (this.table);
    const number = (/** @type {number} */ i, /** @type {number} */ step) => {
      const every = step >= 20 ? 1 : Math.ceil(30 / step / 5) * 5;
      return i === 0 || (i + 1) % every === 0 ? String(i + 1) : "";
    };
    const label = (/** @type {string} */ text, /** @type {string} */ size) => {
      const element = document.createElement("span");
      element.append(document.createElement("span"));
      element.children[0].textContent = text;
      element.style.flexBasis = size;
      return element;
    };
    this.sides.left.style.width = `${gutter}px`;
    this.sides.left.replaceChildren(
      ...rows.map((text, i) => label(square ? number(i, rowHeight) : text, `${rowHeight}px`)),
    );
    this.sides.below.style.marginLeft = `${gutter}px`;
    this.sides.below.replaceChildren(
      ...columns.map((_, i) => label(number(i, columnWidth), `${columnWidth}px`)),
    );
  }

  /** @param {CanvasRenderingContext2D} context @param {number} rows @param {number} columns
   *  @param {boolean} dark */
  #frame(context, rows, columns, dark) {
    if (document.activeElement !== this.canvas && this.tip.hidden) return;
    const [w, h] = [this.canvas.width / columns, this.canvas.height / rows];
    context.strokeStyle = dark ? "#ffffff" : "#26211a";
    context.lineWidth = 2 * (devicePixelRatio || 1);
    context.strokeRect(this.cell.column * w, this.cell.row * h, w, h);
  }

  /** @param {PointerEvent | MouseEvent} event @returns {boolean} */
  #hover(event) {
    if (!this.table) return false;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.table.columns.length);
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.table.rows.length);
    if (!(row in this.table.rows) || !(column in this.table.columns)) return false;
    this.cell = { row, column };
    this.tip.replaceChildren(...this.#describe());
    this.tip.hidden = false;
    const around = /** @type {Element} */ (this.tip.parentElement).getBoundingClientRect();
    const left = event.clientX - around.left + 12;
    this.tip.style.left = `${Math.max(0, Math.min(left, around.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${event.clientY - around.top + 18}px`;
    this.draw();
    return true;
  }

  #describe() {
    const { values, rows, columns } = /** @type {Table} */ (this.table);
    const { row, column } = this.cell;
    const score = document.createElement("strong");
    score.textContent = values[row * columns.length + column].toFixed(3);
    const lines = [rows[row], columns[column]].map((text) => {
      const line = document.createElement("span");
      line.textContent = text.length > 140 ? `${text.slice(0, 140)}…` : text;
      return line;
    });
    return [score, ...lines];
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (!this.table) return;
    if (event.key === "Enter") this.choose(this.cell.row, this.cell.column);
    if (!move) return;
    event.preventDefault();
    const clamp = (/** @type {number} */ x, /** @type {number} */ n) =>
      Math.max(0, Math.min(n - 1, x));
    this.cell = {
      row: clamp(this.cell.row + move[0], this.table.rows.length),
      column: clamp(this.cell.column + move[1], this.table.columns.length),
    };
    const words = this.#describe().map((part) => part.textContent);
    this.readout.textContent = words.join(" · ");
    this.draw();
  }
}
