/** Finds the matches of a pattern in steps that its length and the text's bound.
 *
 * A browser's RegExp goes back and forth, so `(a+)+b` from a file would never end, and its classes
 * of thousands of ranges take microseconds a character. Here a pattern becomes an automaton over
 * classes of code points. Its states are lists of places in the pattern, the preferred first, and
 * are made when a text first needs them (Thompson, 1968; Cox, 2007). What a lookaround says of each
 * place is found by a pass of its own before (Mamouras and Chattopadhyay, 2024).
 */

/** Ascending ranges of code points, each with its first and last. @typedef {number[][]} Ranges */
/**
 * A part of a pattern. `look` holds where `node` matches after (`ahead`) or before a place.
 * @typedef {{ kind: "class", ranges: Ranges }
 *   | { kind: "all" | "any", parts: Node[] }
 *   | { kind: "repeat", node: Node, least: number, most: number, lazy: boolean }
 *   | { kind: "look", node: Node, ahead: boolean, negated: boolean }} Node
 */

const STEP = 0; // takes a character of the set a, goes on at b
const FORK = 1; // goes on at a, or else at b
const NEXT = 2; // goes on at b if the next character is in the set a
const LOOK = 3; // goes on at b if the lookaround a holds here
const DONE = 4;

const MOST_PLACES = 4096;
const MOST_STATES = 1024;
const MOST_SYMBOLS = 4096;
const DEAD = 0;

/** @param {string} what @returns {never} */
function tooLarge(what) {
  throw new Error(`tokenizer.json: a pattern with ${what} is not supported in the browser`);
}

/** The classes of code points that the sets of a pattern tell apart. */
class Classes {
  /** @param {Ranges[]} sets */
  constructor(sets) {
    const edges = new Set([0]);
    for (const [first, last] of sets.flat()) edges.add(first).add(last + 1);
    const starts = [...edges].filter((code) => code <= 0x10ffff).sort((a, b) => a - b);
    const reader = sets.map(() => 0);
    /** @type {Map<string, number>} */
    const numbers = new Map();
    /** Whether a class is in a set. @type {boolean[][]} */
    this.members = sets.map(() => []);
    /** Code points by their upper bits, then their lower 8. */
    this.index = new Uint16Array(0x1100);
    /** @type {number[]} */
    const pages = [];
    /** @type {number[]} */
    const uniform = [];
    starts.forEach((first, i) => {
      const inside = sets.map((ranges, k) => {
        while (reader[k] < ranges.length && ranges[reader[k]][1] < first) reader[k]++;
        return reader[k] < ranges.length && ranges[reader[k]][0] <= first;
      });
      const key = inside.map(Number).join("");
      const number = numbers.get(key) ?? numbers.size;
      if (!numbers.has(key)) {
        numbers.set(key, number);
        inside.forEach((is, k) => (this.members[k][number] = is));
      }
      const last = (starts[i + 1] ?? 0x110000) - 1;
      for (let page = first >> 8; page <= last >> 8; page++) {
        const from = Math.max(first, page << 8), to = Math.min(last, (page << 8) + 255);
        const whole = to - from === 255;
        if (from > page << 8) {
          const base = this.index[page] << 8;
          for (let code = from; code <= to; code++) pages[base | (code & 255)] = number;
        } else if (whole && uniform[number] !== undefined) {
          this.index[page] = uniform[number];
        } else {
          this.index[page] = pages.length >> 8;
          for (let k = 0; k < 256; k++) pages.push(number);
          if (whole) uniform[number] = this.index[page];
        }
      }
    });
    this.count = numbers.size;
    if (this.count > 255) tooLarge("that many classes");
    this.pages = Uint8Array.from(pages);
  }
}

/** The automaton of one node, forwards or (for what lies ahead) backwards. */
class Automaton {
  /**
   * @param {Matcher} matcher @param {Node} node @param {boolean} backwards
   * @param {boolean} everywhere whether a match may start at every place, not only at the first
   */
  constructor(matcher, node, backwards, everywhere) {
    this.matcher = matcher;
    this.backwards = backwards;
    /** @type {number[]} */ this.ops = [];
    /** @type {number[]} */ this.a = [];
    /** @type {number[]} */ this.b = [];
    /** @type {boolean[]} */ this.negated = [];
    this.start = this.place(node, this.add(DONE, 0, 0));
    this.everywhere = everywhere;
    this.seen = new Uint32Array(this.ops.length);
    this.round = 0;
    this.clear();
  }

  clear() {
    /** @type {Map<string, number>} */
    this.known = new Map();
    /** The places of each state; the first state has none, and the second those of a start.
     * @type {number[][]} */
    this.states = [];
    /** By symbol twice the next state, and 1 if the pattern matches here; -1 if not yet known.
     * @type {Int32Array[]} */
    this.rows = [];
    this.state([]);
    this.state([this.start]);
  }

  /** @param {number} op @param {number} a @param {number} b */
  add(op, a, b, negated = false) {
    if (this.ops.length >= MOST_PLACES) tooLarge(`more than ${MOST_PLACES} places`);
    this.ops.push(op);
    this.a.push(a);
    this.b.push(b);
    this.negated.push(negated);
    return this.ops.length - 1;
  }

  /** The place where a node starts that goes on at `next`.
   * @param {Node} node @param {number} next @returns {number} */
  place(node, next) {
    switch (node.kind) {
      case "class":
        return this.add(STEP, this.matcher.set(node.ranges), next);
      case "all": {
        const parts = this.backwards ? node.parts : [...node.parts].reverse();
        for (const part of parts) next = this.place(part, next);
        return next;
      }
      case "any": {
        let found = -1;
        for (const part of [...node.parts].reverse()) {
          const place = this.place(part, next);
          found = found < 0 ? place : this.add(FORK, place, found);
        }
        return found;
      }
      case "repeat": {
        let found = next;
        /** @param {number} fork @param {number} again */
        const choose = (fork, again) => {
          [this.a[fork], this.b[fork]] = node.lazy ? [next, again] : [again, next];
          return fork;
        };
        if (node.most === Infinity) {
          found = this.add(FORK, 0, 0);
          choose(found, this.place(node.node, found));
        } else {
          for (let k = node.least; k < node.most; k++) {
            const again = this.place(node.node, found);
            found = choose(this.add(FORK, 0, 0), again);
          }
        }
        for (let k = 0; k < node.least; k++) found = this.place(node.node, found);
        return found;
      }
      case "look": {
        // What one character says of itself needs no pass of its own.
        if (node.ahead && node.node.kind === "class" && !this.backwards) {
          return this.add(NEXT, this.matcher.set(node.node.ranges), next, node.negated);
        }
        return this.add(LOOK, this.matcher.look(node), next, node.negated);
      }
    }
  }

  /** @param {number[]} places */
  state(places) {
    const key = places.join();
    let number = this.known.get(key);
    if (number === undefined) {
      number = this.states.push(places) - 1;
      this.known.set(key, number);
      this.rows.push(new Int32Array(this.matcher.symbols).fill(-1));
    }
    return number;
  }

  /** What follows a state at a symbol. @param {number} state @param {number} symbol */
  follow(state, symbol) {
    const { count, members } = this.matcher.classes;
    const kind = symbol % (count + 1), looks = Math.floor(symbol / (count + 1));
    /** @type {number[]} */
    const next = [];
    let matches = 0;
    this.round++;
    const waiting = [...this.states[state]].reverse();
    while (waiting.length) {
      const place = /** @type {number} */ (waiting.pop());
      if (this.seen[place] === this.round) continue;
      this.seen[place] = this.round;
      const a = this.a[place], b = this.b[place];
      switch (this.ops[place]) {
        case STEP:
          if (members[a][kind]) next.push(b);
          break;
        case FORK:
          waiting.push(b, a);
          break;
        case NEXT:
          if ((members[a][kind] ?? false) !== this.negated[place]) waiting.push(b);
          break;
        case LOOK:
          if (((looks >> a) & 1) !== Number(this.negated[place])) waiting.push(b);
          break;
        case DONE:
          matches = 1;
          if (!this.everywhere) waiting.length = 0; // the rest is less preferred
      }
    }
    if (this.everywhere && kind < count) next.push(this.start);
    const row = this.rows[state];
    if (this.states.length >= MOST_STATES) this.clear();
    return (row[symbol] = 2 * this.state([...new Set(next)]) + matches);
  }
}

/** Finds a pattern in code points. */
export class Matcher {
  /** @param {Node} node */
  constructor(node) {
    /** @type {Ranges[]} */
    this.sets = [];
    /** @type {Map<Ranges, number>} */
    this.setNumbers = new Map();
    /** The lookarounds, the inner before the outer. @type {Automaton[]} */
    this.looks = [];
    this.symbols = 0;
    this.main = new Automaton(this, node, false, false);
    this.classes = new Classes(this.sets);
    this.symbols = (this.classes.count + 1) << this.looks.length;
    if (this.symbols > MOST_SYMBOLS) tooLarge("that many lookarounds");
    for (const automaton of [...this.looks, this.main]) automaton.clear();
  }

  /** The number of a set of code points. @param {Ranges} ranges */
  set(ranges) {
    let number = this.setNumbers.get(ranges);
    if (number === undefined) {
      number = this.sets.push(ranges) - 1;
      this.setNumbers.set(ranges, number);
    }
    return number;
  }

  /** The number of a lookaround. @param {{ node: Node, ahead: boolean }} look */
  look({ node, ahead }) {
    const automaton = new Automaton(this, node, ahead, true);
    if (this.looks.length >= 8) tooLarge("more than 8 lookarounds");
    return this.looks.push(automaton) - 1;
  }

  /** The symbol of each place from `from` to `to`: its class, and what the lookarounds say.
   * @param {number[]} codes @param {number} from @param {number} to */
  read(codes, from, to) {
    const { index, pages, count } = this.classes;
    const symbols = new Uint16Array(to - from + 1).fill(count);
    for (let i = from; i < to; i++) {
      symbols[i - from] = pages[(index[codes[i] >> 8] << 8) | (codes[i] & 255)];
    }
    const length = to - from, width = count + 1;
    this.looks.forEach((automaton, k) => {
      const { backwards } = automaton, bit = width << k;
      let state = 1;
      for (let i = 0; i <= length; i++) {
        const place = backwards ? length - i : i;
        // Backwards the character before a place is the one that is taken.
        let symbol = symbols[place];
        if (backwards) {
          symbol += (place ? symbols[place - 1] % width : count) - (symbol % width);
        }
        let found = automaton.rows[state][symbol];
        if (found < 0) found = automaton.follow(state, symbol);
        if (found & 1) symbols[place] += bit;
        state = found >> 1;
      }
    });
    return symbols;
  }

  /**
   * Calls `found` with the start and the end of each match in codes[from:to], in order.
   * @param {number[]} codes @param {number} from @param {number} to
   * @param {(start: number, end: number) => void} found
   */
  each(codes, from, to, found) {
    const { main } = this;
    const symbols = this.read(codes, from, to);
    // A match may look far ahead and take little, so the steps are bounded as well.
    let left = 64 * symbols.length + 100_000;
    let last = -1;
    for (let at = from; at <= to; ) {
      let end = -1;
      for (let i = at, state = 1; state !== DEAD; i++) {
        const symbol = symbols[i - from];
        let next = main.rows[state][symbol];
        if (next < 0) next = main.follow(state, symbol);
        if (next & 1) end = i;
        state = next >> 1;
        left--;
      }
      if (left < 0) {
        const length = to - from;
        throw new Error(
          `tokenizer.json: a pattern takes more than 64 steps a character in a text of ${length}`,
        );
      }
      // An empty match does not follow another match immediately.
      if (end < 0 || (end === at && last === at)) {
        at++;
        continue;
      }
      found(at, end);
      at = last = end;
    }
  }
}
