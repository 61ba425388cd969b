// scene.js: the open groups of a tree as boxes and lines with places; a group's are kept.

import { isGroup, short } from "./tree.js";

/**
 * @typedef {import("./tree.js").Group} Group
 * @typedef {import("./tree.js").Item} Item
 * @typedef {import("./tree.js").Pill} Pill
 * @typedef {import("./tree.js").Tree} Tree
 * @typedef {import("./layout.js").Placed} Placed
 * @typedef {{ item: Item | Pill, x: number, y: number, width: number, height: number,
 *   open: boolean, words: string, depth: number }} Box
 * @typedef {{ points: [number, number][], values: string[], from: string, to: string,
 *   label: string }} Line
 * @typedef {{ boxes: Box[], lines: Line[], width: number, height: number }} Scene
 * @typedef {{ key: string, placed: Placed, items: (Item | Pill)[],
 *   wires: import("./tree.js").Wire[], labels: string[] }} Kept
 */

export const HEAD = 30; // of an open group
const PAD = 14;
export const FONT = '"Liberation Sans", system-ui, sans-serif';
const TALL = { leaf: 42, group: 46, value: 24 };

const paper = new OffscreenCanvas(8, 8).getContext("2d");

/** @param {string} words @param {string} font */
function widthOf(words, font) {
  if (!paper) return words.length * 7;
  paper.font = font;
  return paper.measureText(words).width;
}

export class Layouts {
  constructor() {
    this.worker = new Worker(new URL("./layout.js", import.meta.url), { type: "module" });
    /** @type {Map<number, (placed: Placed) => void>} */
    this.waiting = new Map();
    this.last = 0;
    this.worker.addEventListener("message", ({ data }) => {
      this.waiting.get(data.id)?.(data);
      this.waiting.delete(data.id);
    });
    /** @type {Map<Group, Kept>} */
    this.kept = new Map();
  }

  /** @param {Omit<import("./layout.js").Asked, "id">} asked @returns {Promise<Placed>} */
  #ask(asked) {
    return new Promise((resolve) => {
      this.waiting.set((this.last += 1), resolve);
      this.worker.postMessage({ id: this.last, ...asked });
    });
  }

  /** Forgets what was placed: another graph, or other words in it. */
  clear() {
    this.kept.clear();
  }

  /** Everything that is open, with places.
   *  @param {Tree} tree @param {(item: Item | Pill) => string} words  the second line of an item
   *  @param {(value: string) => string} shape  of a value; "" if it is not known
   *  @returns {Promise<Scene>} */
  async scene(tree, words, shape) {
    const kept = await this.#group(tree, tree.root, words, shape);
    /** @type {Scene} */
    const scene = { boxes: [], lines: [], width: kept.placed.width, height: kept.placed.height };
    this.#lay(tree.root, kept, 0, 0, 0, words, scene);
    return scene;
  }

  /** @param {Tree} tree @param {Group} group @param {(item: Item | Pill) => string} words
   *  @param {(value: string) => string} shape @returns {Promise<Kept>} */
  async #group(tree, group, words, shape) {
    const open = group.items.filter(isGroup).filter((item) => item.open);
    const below = await Promise.all(open.map((item) => this.#group(tree, item, words, shape)));
    const key = open
      .map((item, i) => `${item.key}:${below[i].placed.width | 0}x${below[i].placed.height | 0}`)
      .join();
    const before = this.kept.get(group);
    if (before?.key === key) return before;
    const { items, wires } = before ?? tree.inside(group);
    const labels = wires.map(({ values }) =>
      values.length > 1 ? `${values.length} values` : shape(values[0]),
    );
    const inner = new Map(open.map((item, i) => [item.key, below[i].placed]));
    const nodes = items.map((item) => {
      const placed = inner.get(item.key);
      if (placed) return [item.key, outer(item, placed), placed.height + HEAD + PAD];
      return [item.key, breadth(item, words(item)), TALL[item.kind]];
    });
    const edges = wires.map(({ from, to }, i) => [
      from,
      to,
      labels[i] ? widthOf(labels[i], `11px ${FONT}`) + 8 : 0,
    ]);
    const placed = await this.#ask({
      nodes: /** @type {[string, number, number][]} */ (nodes),
      edges: /** @type {[string, string, number][]} */ (edges),
    });
    const kept = { key, placed, items, wires, labels };
    this.kept.set(group, kept);
    return kept;
  }

  /** @param {Group} group @param {Kept} kept @param {number} x @param {number} y
   *  @param {number} depth @param {(item: Item | Pill) => string} words @param {Scene} scene */
  #lay(group, { placed, items, wires, labels }, x, y, depth, words, scene) {
    wires.forEach(({ from, to, values }, i) => {
      const points = /** @type {[number, number][]} */ (
        placed.edges[i].map(([px, py]) => [px + x, py + y])
      );
      scene.lines.push({ points, values, from, to, label: labels[i] });
    });
    for (const item of items) {
      const [cx, cy] = placed.nodes[item.key];
      const inner = item.kind === "group" && item.open ? this.kept.get(item) : undefined;
      const told = words(item);
      const width = inner ? outer(item, inner.placed) : breadth(item, told);
      const height = inner ? inner.placed.height + HEAD + PAD : TALL[item.kind];
      const [left, top] = [x + cx - width / 2, y + cy - height / 2];
      scene.boxes.push({
        item, x: left, y: top, width, height, open: Boolean(inner), words: told, depth,
      }); // prettier-ignore
      if (inner && item.kind === "group") {
        const room = (width - inner.placed.width) / 2;
        this.#lay(item, inner, left + room, top + HEAD, depth + 1, words, scene);
      }
    }
  }
}

/** The width of an open group. @param {Item | Pill} item @param {Placed} placed */
const outer = (item, placed) =>
  Math.max(placed.width + 2 * PAD, widthOf(titleOf(item), `600 13px ${FONT}`) + 44);

/** @param {Item | Pill} item @param {string} words */
function breadth(item, words) {
  const title = widthOf(titleOf(item), `600 13px ${FONT}`);
  const more = words ? widthOf(words, `11px ${FONT}`) : 0;
  const room = item.kind === "group" ? 48 : 24;
  return Math.max(item.kind === "value" ? 40 : 84, Math.min(300, Math.max(title, more) + room));
}

/** @param {Item | Pill} item */
export function titleOf(item) {
  if (item.kind !== "group") return item.title;
  return item.title.length > 34 ? short(item.title) : item.title;
}
