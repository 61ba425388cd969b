/** Translates the patterns of tokenizer.json, Oniguruma's expressions, into JavaScript's.
 *
 * Character classes are spelled out from unicode.js. So they follow the Unicode version of the
 * `tokenizers` package, not the browser's.
 */

import * as unicode from "./unicode.js";

/** The white space of the package's \s. */
const SPACES = [
  [0x9, 0xd], [0x20, 0x20], [0x85, 0x85], [0xa0, 0xa0], [0x1680, 0x1680], [0x2000, 0x200a],
  [0x2028, 0x2029], [0x202f, 0x202f], [0x205f, 0x205f], [0x3000, 0x3000],
]; // prettier-ignore
/** @type {Record<string, string>} */
const PACKED = {
  L: unicode.letter, N: unicode.number, P: unicode.categoryP, S: unicode.categoryS,
  M: unicode.categoryM, Lu: unicode.categoryLu, Ll: unicode.categoryLl, Lt: unicode.categoryLt,
  Lm: unicode.categoryLm, Lo: unicode.categoryLo, Nd: unicode.categoryNd,
}; // prettier-ignore
/** Characters that equal a letter without case, besides its other case.
 * @type {Record<string, string>} */
const FOLDED = { s: "\u017f", k: "\u212a" };
/** @type {Record<string, string>} */
const CONTROLS = { n: "\n", r: "\r", t: "\t", f: "\f", v: "\v", a: "\x07", e: "\x1b" };
const SYNTAX = /[\^$\\.*+?()[\]{}|/]/;

/** @typedef {number[][]} Ranges */
/** @type {Map<string, string>} */
const spelled = new Map();

/** @param {string} packed @returns {Ranges} */
function unpack(packed) {
  const numbers = packed.trim().split(/\s+/).map((digits) => parseInt(digits, 36));
  const ranges = [];
  for (let i = 0, at = 0; i < numbers.length; i += 2) {
    ranges.push([at + numbers[i], at + numbers[i] + numbers[i + 1] - 1]);
    at += numbers[i] + numbers[i + 1];
  }
  return ranges;
}

/** @param {Ranges} ranges @returns {Ranges} */
function inverse(ranges) {
  const found = [];
  let at = 0;
  for (const [first, last] of ranges) {
    if (first > at) found.push([at, first - 1]);
    at = last + 1;
  }
  return at > 0x10ffff ? found : [...found, [at, 0x10ffff]];
}

/** The inside of a class for \s, \p{L} and so on. @param {string} name @param {boolean} negated */
function members(name, negated) {
  const known = `${negated ? "not " : ""}${name}`;
  let text = spelled.get(known);
  if (text === undefined) {
    const packed = Object.hasOwn(PACKED, name) ? PACKED[name] : undefined;
    if (packed === undefined && name !== "space") return refuse(`\\p{${name}}`);
    const ranges = packed === undefined ? SPACES : unpack(packed);
    const hex = (/** @type {number} */ code) => `\\u{${code.toString(16)}}`;
    text = (negated ? inverse(ranges) : ranges)
      .map(([first, last]) => (first === last ? hex(first) : `${hex(first)}-${hex(last)}`))
      .join("");
    spelled.set(known, text);
  }
  return text;
}

/** @param {string} what @returns {never} */
function refuse(what) {
  throw new Error(
    `tokenizer.json: ${what} in a pattern is not supported in the browser; supported: groups, ` +
      "classes, \\s, \\d, general categories, repetition (also possessive) and lookaround",
  );
}

/** Reads one pattern; `at` is the place in its source. */
class Reader {
  /** @param {string} source */
  constructor(source) {
    this.chars = Array.from(source);
    this.at = 0;
  }

  /** @param {string} text */
  takes(text) {
    const found = this.chars.slice(this.at, this.at + text.length).join("") === text;
    if (found) this.at += text.length;
    return found;
  }

  /** @returns {string} */
  next() {
    return this.chars[this.at++] ?? refuse("its end");
  }

  /** The meaning of a backslash and its letter: the inside of a class, or one character. */
  escape() {
    const char = this.next();
    if (char === "s" || char === "S") return { inside: members("space", char === "S") };
    if (char === "d" || char === "D") return { inside: members("Nd", char === "D") };
    if (char === "p" || char === "P") {
      const own = this.chars.slice(this.at).join("");
      const match = /^\{(\^?)(\w+)\}/.exec(own) ?? refuse(`\\${char}`);
      this.at += match[0].length;
      return { inside: members(match[2], (char === "P") !== (match[1] === "^")) };
    }
    if (char === "u" || char === "x") {
      const own = this.chars.slice(this.at, this.at + 10).join("");
      const match = (char === "u" ? /^([0-9a-fA-F]{4})/ : /^\{?([0-9a-fA-F]{2,6})\}?/).exec(own);
      if (!match) return refuse(`\\${char}`);
      this.at += match[0].length;
      return { char: String.fromCodePoint(parseInt(match[1], 16)) };
    }
    if (Object.hasOwn(CONTROLS, char)) return { char: CONTROLS[char] };
    return /[\w]/.test(char) ? refuse(`\\${char}`) : { char };
  }

  /** The class after "[", up to its "]". @param {boolean} folds */
  class(folds) {
    let text = this.takes("^") ? "[^" : "[";
    for (let first = true; !this.takes("]") || first; first = false) {
      if (this.takes("]")) {
        if (!first) break;
        text += "\\]";
        continue;
      }
      const char = this.next();
      if (char === "[" || this.chars.slice(this.at - 1, this.at + 1).join("") === "&&") {
        return refuse("a class in a class");
      }
      if (char === "\\") {
        const { inside, char: own } = this.escape();
        text += inside ?? quoted(/** @type {string} */ (own), true);
      } else if (folds && /[a-zA-Z]/.test(char)) {
        text += this.letters(char);
      } else {
        text += char === "-" ? "-" : quoted(char, true);
      }
    }
    return `${text}]`;
  }

  /** A letter of a class, or a range that starts with it, in either case. @param {string} first */
  letters(first) {
    const range = /^-([a-zA-Z])$/.exec(this.chars.slice(this.at, this.at + 2).join(""));
    if (range) this.at += 2;
    const [from, to] = [first, range ? range[1] : first].map((char) => char.toLowerCase());
    if (range && /[a-z]/.test(first) !== /[a-z]/.test(range[1])) return refuse("a mixed range");
    const more = Object.keys(FOLDED).filter((letter) => from <= letter && letter <= to);
    const both = `${from}-${to}${from.toUpperCase()}-${to.toUpperCase()}`;
    return both + more.map((letter) => FOLDED[letter]).join("");
  }

  /** Alternatives up to a closing bracket or the end. @param {boolean} folds @returns {string} */
  alternatives(folds) {
    let text = "";
    for (;;) {
      if (this.at >= this.chars.length || this.chars[this.at] === ")") return text;
      if (this.takes("|")) text += "|";
      else text += this.repeated(this.atom(folds));
    }
  }

  /** @param {boolean} folds @returns {string} */
  atom(folds) {
    const char = this.next();
    if (char === "[") return this.class(folds);
    if (char === ".") return "[^\\n]";
    if (char === "^") return "(?<![^\\n])";
    if (char === "$") return "(?=\\n|$)";
    if (char === "\\") {
      const { inside, char: own } = this.escape();
      return inside === undefined ? literal(/** @type {string} */ (own), folds) : `[${inside}]`;
    }
    if (char !== "(") return "*+?".includes(char) ? refuse(char) : literal(char, folds);
    let open = "(?:";
    if (this.takes("?")) {
      const kind = ["i:", ":", "=", "!", "<=", "<!"].find((one) => this.takes(one));
      if (!kind) return refuse(`(?${this.chars[this.at] ?? ""}`);
      if (kind === "i:") folds = true;
      else open = `(?${kind}`;
    }
    const inside = this.alternatives(folds);
    if (!this.takes(")")) refuse("a missing closing bracket");
    return `${open}${inside})`;
  }

  /** An atom with its quantifier. @param {string} atom */
  repeated(atom) {
    const rest = this.chars.slice(this.at, this.at + 24).join("");
    const times = /^(?:[?*+]|\{\d+\}|\{\d+,\d*\}|\{,\d+\})/.exec(rest)?.[0];
    if (!times) return atom;
    this.at += times.length;
    const often = atom + times.replace("{,", "{0,");
    if (this.takes("?")) return `${often}?`;
    if (!this.takes("+")) return often;
    if (times.startsWith("{")) return refuse(`${times}+`);
    // A lookahead is never backtracked into, which makes the group possessive.
    const name = `p${this.at}`;
    return `(?:(?=(?<${name}>${often}))\\k<${name}>)`;
  }
}

/** @param {string} char @param {boolean} [inClass] */
function quoted(char, inClass = false) {
  return SYNTAX.test(char) || (inClass && char === "-") ? `\\${char}` : char;
}

/** @param {string} char @param {boolean} folds whether case is ignored */
function literal(char, folds) {
  if (!folds || !/[a-zA-Z]/.test(char)) return quoted(char);
  const lower = char.toLowerCase();
  return `[${lower}${char.toUpperCase()}${FOLDED[lower] ?? ""}]`;
}

/**
 * The expression of a pattern, which finds all matches. Throws if it cannot be translated.
 * @param {string} source
 */
export function compile(source) {
  const reader = new Reader(source);
  const text = reader.alternatives(false);
  if (reader.at < reader.chars.length) refuse("an unmatched closing bracket");
  return new RegExp(text, "gu");
}

/** An expression that matches a text literally. @param {string} text */
export function exactly(text) {
  return new RegExp(Array.from(text, (char) => quoted(char)).join(""), "gu");
}

/** @typedef {{ from: number, to: number, match: boolean }} Piece */

/** The pieces of a split, by its behavior.
 * @type {Record<string, (all: Piece[]) => Piece[]>} */
const BEHAVIORS = {
  Isolated: (all) => all,
  Removed: (all) => all.filter((piece) => !piece.match),
  Contiguous: (all) => merged(all, (piece, last) => piece.match === last.match),
  MergedWithPrevious: (all) => merged(all, (piece, last) => piece.match && !last.match),
  MergedWithNext: (all) => merged(all, (piece, last) => last.match && !piece.match),
};

/**
 * Joins a piece to the one before if `joins` returns true.
 * @param {Piece[]} all @param {(piece: Piece, last: Piece) => boolean} joins
 */
function merged(all, joins) {
  /** @type {Piece[]} */
  const found = [];
  /** @type {Piece | undefined} */
  let last;
  for (const piece of all) {
    if (last && joins(piece, last)) found[found.length - 1].to = piece.to;
    else found.push({ ...piece });
    last = piece;
  }
  return found;
}

/**
 * A split of code points by an expression.
 * @param {typeof import("./words.js")} words @param {RegExp} expression @param {string} behavior
 * @param {boolean} inverted @returns {import("./words.js").Split}
 */
export function splitBy(words, expression, behavior, inverted) {
  const kept = Object.hasOwn(BEHAVIORS, behavior)
    ? BEHAVIORS[behavior]
    : words.refuse("split behavior", behavior);
  return (codes, from, to, emit) => {
    const text = words.toText(codes, from, to);
    /** @type {Piece[]} */
    const all = [];
    let at = from;
    let unit = 0;
    /** The code point at a place in UTF-16. @param {number} place */
    const advance = (place) => {
      for (; unit < place; at++) unit += codes[at] > 0xffff ? 2 : 1;
      return at;
    };
    let end = from;
    for (const found of text.matchAll(expression)) {
      const start = advance(found.index);
      if (start > end) all.push({ from: end, to: start, match: inverted });
      end = advance(found.index + found[0].length);
      if (end > start) all.push({ from: start, to: end, match: !inverted });
    }
    if (end < to) all.push({ from: end, to, match: inverted });
    for (const piece of kept(all)) emit(piece.from, piece.to);
  };
}
