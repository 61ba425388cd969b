// tree.js: the nodes of a graph in groups by their name scopes, and what connects the items of a
// group: each group is laid out by itself.

/**
 * A row of a node: operator, domain, name, names of its inputs and of its outputs.
 * @typedef {[op: string, domain: string, name: string, inputs: string[], outputs: string[]]} Row
 * @typedef {{ kind: "leaf", key: string, title: string, node: number, nodes: number[],
 *   parent: Group }} Leaf
 * @typedef {{ kind: "group", key: string, title: string, path: string, nodes: number[],
 *   items: Item[], open: boolean, parent: Group | null }} Group
 * @typedef {Leaf | Group} Item
 * @typedef {{ kind: "value", key: string, title: string, values: string[], incoming: boolean,
 *   nodes: number[] }} Pill  a value that comes from outside of a group, or leaves it
 * @typedef {{ from: string, to: string, values: string[] }} Wire
 */

const MOST = 90; // items of a group; what has more is cut into pieces in the file's order
const PIECE = 48;
const SHOWN = 70; // items that are shown at first
const FEW = 160; // of a graph that is shown whole
const LITTLE = 12; // items that are too few to begin with
const PILLS = 9;

export class Tree {
  /** @param {Row[]} rows @param {Set<number>} hidden  nodes that are left out
   *  @param {{ inputs: string[], outputs: string[] }} ends */
  constructor(rows, hidden, ends) {
    this.rows = rows;
    this.hidden = hidden;
    this.inputs = new Set(ends.inputs);
    this.outputs = new Set(ends.outputs);
    /** @type {Map<string, number>} value -> the shown node that computes it */
    this.producer = new Map();
    /** @type {Map<string, number[]>} value -> the shown nodes that read it */
    this.readers = new Map();
    const shown = rows.map((_, i) => i).filter((i) => !hidden.has(i));
    for (const i of shown) for (const name of rows[i][4]) if (name) this.producer.set(name, i);
    for (const i of shown) {
      for (const name of new Set(rows[i][3])) {
        if (!name) continue;
        const list = this.readers.get(name);
        if (list) list.push(i);
        else this.readers.set(name, [i]);
      }
    }
    /** @type {Group} */
    this.root = group("", "", null);
    this.#place(shown);
    simplify(this.root);
    this.#cut(this.root);
    /** @type {Map<number, Leaf>} */
    this.leaves = new Map();
    this.#count(this.root);
    this.root.open = true;
    this.#openFirst(shown.length);
  }

  /** @param {number[]} shown */
  #place(shown) {
    /** @type {Map<string, Group>} */
    const groups = new Map([["", this.root]]);
    for (const node of shown) {
      const [op, , name] = this.rows[node];
      let parent = this.root;
      let path = "";
      for (const part of name.split("/").filter(Boolean).slice(0, -1)) {
        path += `/${part}`;
        let next = groups.get(path);
        if (!next) {
          next = group(path, part, parent);
          groups.set(path, next);
          parent.items.push(next);
        }
        parent = next;
      }
      parent.items.push({ kind: "leaf", key: `n${node}`, title: op, node, nodes: [node], parent });
    }
  }

  /** Cuts what has too many items. @param {Group} all */
  #cut(all) {
    for (const item of all.items) if (item.kind === "group") this.#cut(item);
    const first = (/** @type {Item} */ item) => firstOf(item);
    if (all.items.length <= MOST) return;
    all.items.sort((a, b) => first(a) - first(b));
    const items = all.items.splice(0);
    const pieces = Math.ceil(items.length / PIECE);
    for (let i = 0; i < pieces; i += 1) {
      const [from, to] = [i, i + 1].map((n) => Math.round((n * items.length) / pieces));
      const part = items.slice(from, to);
      const piece = group(`${all.path}#${i}`, `part ${i + 1} of ${pieces}`, all);
      for (const item of part) item.parent = piece;
      piece.items = part;
      all.items.push(piece);
    }
  }

  /** @param {Group} all @returns {number[]} */
  #count(all) {
    for (const item of all.items) {
      if (item.kind === "leaf") this.leaves.set(item.node, item);
      const nodes = item.kind === "leaf" ? item.nodes : this.#count(item);
      for (const node of nodes) all.nodes.push(node);
    }
    return all.nodes;
  }

  /** Opens groups level by level, those beside each other together, while they are few.
   *  @param {number} count */
  #openFirst(count) {
    let shown = this.root.items.length;
    const todo = [this.root];
    for (let at = todo.shift(); at; at = todo.shift()) {
      const groups = at.items.filter(isGroup);
      const more = groups.reduce((sum, { items }) => sum + items.length, 0);
      if (count > FEW && shown + more > SHOWN) continue;
      for (const next of groups) next.open = true;
      shown += more;
      todo.push(...groups);
    }
    const first = this.root.items.find(isGroup);
    if (shown <= LITTLE && first) first.open = true;
  }

  /** Opens or closes every group. @param {boolean} open */
  openAll(open) {
    const walk = (/** @type {Group} */ all) => {
      for (const item of all.items) {
        if (item.kind !== "group") continue;
        item.open = open;
        walk(item);
      }
    };
    walk(this.root);
  }

  /** Opens the groups around a node. @param {number} node @returns {Leaf | undefined} */
  reveal(node) {
    const leaf = this.leaves.get(node);
    for (let at = leaf?.parent ?? null; at; at = at.parent) at.open = true;
    return leaf;
  }

  /** What lies in a group: its items, values at its border, and what connects them.
   *  @param {Group} all @returns {{ items: (Item | Pill)[], wires: Wire[] }} */
  inside(all) {
    /** @type {Map<number, Item>} */
    const local = new Map();
    for (const item of all.items) for (const node of item.nodes) local.set(node, item);
    /** @type {Map<string, Wire>} */
    const wires = new Map();
    const wire = (
      /** @type {string} */ from,
      /** @type {string} */ to,
      /** @type {string} */ v,
    ) => {
      const key = `${from}|${to}`;
      const known = wires.get(key);
      if (!known) wires.set(key, { from, to, values: [v] });
      else if (!known.values.includes(v)) known.values.push(v);
    };
    /** @type {Map<string, Set<string>>} value -> items */
    const incoming = new Map();
    /** @type {typeof incoming} */
    const leaving = new Map();
    /** @param {typeof incoming} of @param {string} v @param {string} to */
    const note = (of, v, to) => {
      const known = of.get(v);
      if (known) known.add(to);
      else of.set(v, new Set([to]));
    };
    for (const node of all.nodes) {
      const here = /** @type {Item} */ (local.get(node));
      const [, , , inputs, outputs] = this.rows[node];
      for (const name of inputs) {
        const from = this.producer.get(name);
        const other = from === undefined ? undefined : local.get(from);
        if (other && other !== here) wire(other.key, here.key, name);
        if (!other && (from !== undefined || this.inputs.has(name))) note(incoming, name, here.key);
      }
      for (const name of outputs) {
        const away = (this.readers.get(name) ?? []).some((reader) => !local.has(reader));
        if (away || this.outputs.has(name)) note(leaving, name, here.key);
      }
    }
    /** @type {Pill[]} */
    const pills = [];
    for (const [ends, into] of /** @type {const} */ ([
      [incoming, true],
      [leaving, false],
    ])) {
      const side = into ? "in" : "out";
      /** @type {Map<string, { values: string[], to: Set<string> }>} */
      const merged = new Map();
      for (const [value, to] of ends) {
        const key = ends.size > PILLS ? [...to].sort().join() : value;
        const known = merged.get(key);
        if (known) known.values.push(value);
        else merged.set(key, { values: [value], to });
      }
      for (const [name, { values, to }] of merged) {
        const key = `${side}:${all.key}:${name}`;
        const title = values.length > 1 ? `${values.length} values` : short(values[0]);
        pills.push({ kind: "value", key, title, values, incoming: into, nodes: [] });
        for (const item of to) {
          for (const v of values) into ? wire(key, item, v) : wire(item, key, v);
        }
      }
    }
    return { items: [...all.items, ...pills], wires: [...wires.values()] };
  }
}

/** @param {string} path @param {string} title @param {Group | null} parent @returns {Group} */
const group = (path, title, parent) => ({
  kind: "group", key: `g${path}`, title, path, nodes: [], items: [], open: false, parent,
}); // prettier-ignore

/** @param {Item} item @returns {item is Group} */
export const isGroup = (item) => item.kind === "group";

/** @param {Item} item @returns {number} */
const firstOf = (item) => (item.kind === "leaf" ? item.node : Math.min(...item.items.map(firstOf)));

/** Puts a group of one item in place of both. @param {Group} all */
function simplify(all) {
  all.items = all.items.map((item) => {
    if (item.kind === "leaf") return item;
    simplify(item);
    if (item.items.length !== 1) return item;
    const [only] = item.items;
    only.parent = all;
    if (only.kind === "group") only.title = `${item.title}/${only.title}`;
    return only;
  });
}

/** The end of a long name. @param {string} name */
export function short(name) {
  const last = name.split("/").filter(Boolean).pop() ?? name;
  return last.length > 26 ? `…${last.slice(-25)}` : last;
}
