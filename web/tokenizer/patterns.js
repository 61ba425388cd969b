/** Reads the patterns of tokenizer.json, which are Oniguruma's expressions.
 *
 * Character classes are those of unicode.js. So they follow the Unicode version of the `tokenizers`
 * package, not the browser's.
 */

import { Matcher } from "./automaton.js";
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
  Han: unicode.scriptHan, Hiragana: unicode.scriptHiragana, Katakana: unicode.scriptKatakana,
  Hangul: unicode.scriptHangul, Bopomofo: unicode.scriptBopomofo, Latin: unicode.scriptLatin,
  Cyrillic: unicode.scriptCyrillic, Greek: unicode.scriptGreek, Arabic: unicode.scriptArabic,
  Hebrew: unicode.scriptHebrew, Thai: unicode.scriptThai, Devanagari: unicode.scriptDevanagari,
  Bengali: unicode.scriptBengali, Tamil: unicode.scriptTamil, Telugu: unicode.scriptTelugu,
  Georgian: unicode.scriptGeorgian, Armenian: unicode.scriptArmenian, Khmer: unicode.scriptKhmer,
  Lao: unicode.scriptLao, Myanmar: unicode.scriptMyanmar, Ethiopic: unicode.scriptEthiopic,
}; // prettier-ignore
/** Characters that equal a letter without case, besides its other case.
 * @type {Record<string, string>} */
const FOLDED = { s: "\u017f", k: "\u212a" };
/** @type {Record<string, string>} */
const CONTROLS = { n: "\n", r: "\r", t: "\t", f: "\f", v: "\v", a: "\x07", e: "\x1b" };
const DEEPEST = 64;
const MOST_TIMES = 1000;

/** @typedef {import("./automaton.js").Ranges} Ranges */
/** @typedef {import("./automaton.js").Node} Node */
/** @type {Map<string, Ranges>} */
const known = new Map();

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

/** Ranges in any order, made ascending and apart. @param {Ranges} ranges @returns {Ranges} */
function union(ranges) {
  /** @type {Ranges} */
  const found = [];
  for (const [first, last] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const before = found.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else found.push([first, last]);
  }
  return found;
}

/** The code points of \s, \p{L} and so on. @param {string} name @param {boolean} negated */
function members(name, negated) {
  const key = `${negated ? "not " : ""}${name}`;
  let ranges = known.get(key);
  if (ranges === undefined) {
    const packed = Object.hasOwn(PACKED, name) ? PACKED[name] : undefined;
    if (packed === undefined && name !== "space") return refuse(`\\p{${name}}`);
    ranges = packed === undefined ? SPACES : unpack(packed);
    if (negated) ranges = inverse(ranges);
    known.set(key, ranges);
  }
  return ranges;
}

/** The code points of words: letters, marks and decimal digits, and `more`.
 * @param {string} more @param {boolean} negated */
function wordChars(more, negated) {
  const ranges = [unicode.letter, unicode.categoryM, unicode.categoryNd, more].flatMap(unpack);
  const all = union(ranges);
  return negated ? inverse(all) : all;
}

/** @param {string} what @returns {never} */
function refuse(what) {
  throw new Error(
    `tokenizer.json: ${what} in a pattern is not supported in the browser; supported: groups, ` +
      "classes, \\s, \\d, \\w, \\b, general categories, scripts, repetition (also possessive) " +
      "and lookaround",
  );
}

/** @param {Ranges} ranges @returns {Node} */
const set = (ranges) => ({ kind: "class", ranges });
/** @param {Node} node @param {boolean} ahead @param {boolean} negated @returns {Node} */
const look = (node, ahead, negated) => ({ kind: "look", node, ahead, negated });

/** \b: of the characters before and after a place, one is of a word; or \B: both or none.
 * @param {boolean} negated @returns {Node} */
function border(negated) {
  const word = set(wordChars(unicode.wordOfPatterns, false));
  /** @param {boolean} before @param {boolean} after @returns {Node} */
  const sides = (before, after) => ({
    kind: "all",
    parts: [look(word, false, !before), look(word, true, !after)],
  });
  return { kind: "any", parts: [sides(true, negated), sides(false, !negated)] };
}

/** Reads one pattern; `at` is the place in its source. */
class Reader {
  /** @param {string} source */
  constructor(source) {
    this.chars = Array.from(source);
    this.at = 0;
    this.depth = 0;
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

  /** The next characters, as far as an escape or a quantifier may go. */
  ahead() {
    return this.chars.slice(this.at, this.at + 24).join("");
  }

  /** What a backslash and its letter stand for: a class, or one character. */
  escape() {
    const char = this.next();
    if (char === "s" || char === "S") return { ranges: members("space", char === "S") };
    if (char === "d" || char === "D") return { ranges: members("Nd", char === "D") };
    if (char === "w" || char === "W") {
      return { ranges: wordChars(unicode.wordOfPatterns, char === "W") };
    }
    if (char === "p" || char === "P") {
      const match = /^\{(\^?)(\w+)\}/.exec(this.ahead()) ?? refuse(`\\${char}`);
      this.at += match[0].length;
      return { ranges: members(match[2], (char === "P") !== (match[1] === "^")) };
    }
    if (char === "u" || char === "x") {
      const form = char === "u" ? /^([0-9a-fA-F]{4})/ : /^\{?([0-9a-fA-F]{2,6})\}?/;
      const match = form.exec(this.ahead());
      const code = match ? parseInt(match[1], 16) : Infinity;
      if (!match || code > 0x10ffff) return refuse(`\\${char}`);
      this.at += match[0].length;
      return { char: String.fromCodePoint(code) };
    }
    if (Object.hasOwn(CONTROLS, char)) return { char: CONTROLS[char] };
    return /[\w]/.test(char) ? refuse(`\\${char}`) : { char };
  }

  /** The class after "[", up to its "]". @param {boolean} folds @returns {Node} */
  class(folds) {
    const negated = this.takes("^");
    /** @type {Ranges} */
    const ranges = [];
    /** The last character, and whether a range goes on from it. */
    let last = -1, goesOn = false;
    for (let first = true; first || !this.takes("]"); first = false) {
      const char = this.next();
      if (char === "[" || (char === "&" && this.chars[this.at] === "&")) {
        return refuse("a class in a class");
      }
      const found = char === "\\" ? this.escape() : { char };
      if (found.ranges) {
        if (goesOn) refuse("a range to a class");
        ranges.push(...found.ranges);
        last = -1;
        continue;
      }
      const own = /** @type {string} */ (found.char);
      if (char === "-" && last >= 0 && !goesOn && this.chars[this.at] !== "]") {
        goesOn = true;
        continue;
      }
      const code = /** @type {number} */ (own.codePointAt(0));
      if (goesOn) {
        ranges.pop();
        if (code < last) refuse("an empty range");
        if (folds && isLetter(last) !== isLetter(code)) refuse("a mixed range");
        ranges.push(...folded(last, code, folds));
      } else {
        ranges.push(...folded(code, code, folds));
      }
      last = goesOn ? -1 : code;
      goesOn = false;
    }
    const all = union(ranges);
    return set(negated ? inverse(all) : all);
  }

  /** Alternatives up to a closing bracket or the end. @param {boolean} folds @returns {Node} */
  alternatives(folds) {
    if (++this.depth > DEEPEST) refuse(`groups more than ${DEEPEST} deep`);
    /** @type {Node[]} */
    const options = [];
    /** @type {Node[]} */
    let parts = [];
    while (this.at < this.chars.length && this.chars[this.at] !== ")") {
      if (this.takes("|")) {
        options.push({ kind: "all", parts });
        parts = [];
      } else {
        parts.push(this.repeated(this.atom(folds)));
      }
    }
    this.depth--;
    options.push({ kind: "all", parts });
    return options.length > 1 ? { kind: "any", parts: options } : options[0];
  }

  /** @param {boolean} folds @returns {Node} */
  atom(folds) {
    const char = this.next();
    if (char === "[") return this.class(folds);
    if (char === ".") return set(inverse([[10, 10]]));
    if (char === "^" || char === "$") return look(set(inverse([[10, 10]])), char === "$", true);
    if (char === "\\") {
      if (this.takes("b")) return border(false);
      if (this.takes("B")) return border(true);
      const { ranges, char: own } = this.escape();
      return ranges ? set(ranges) : letter(/** @type {string} */ (own), folds);
    }
    if (char !== "(") return "*+?".includes(char) ? refuse(char) : letter(char, folds);
    let kind = ":";
    if (this.takes("?")) {
      const own = ["i:", ":", "=", "!", "<=", "<!"].find((one) => this.takes(one));
      if (!own) return refuse(`(?${this.chars[this.at] ?? ""}`);
      kind = own;
    }
    const inside = this.alternatives(folds || kind === "i:");
    if (!this.takes(")")) refuse("a missing closing bracket");
    return kind.endsWith(":") ? inside : look(inside, kind.length === 1, kind.endsWith("!"));
  }

  /** An atom with its quantifier. @param {Node} node @returns {Node} */
  repeated(node) {
    const match = /^(?:([?*+])|\{(\d+)\}|\{(\d*),(\d*)\})/.exec(this.ahead());
    if (!match || match[0] === "{,}") return node;
    this.at += match[0].length;
    const [times, sign, exact, from, to] = match;
    const least = Number(exact ?? (from || (sign === "+" ? 1 : 0)));
    const most = exact ? least : sign === "?" ? 1 : to ? Number(to) : Infinity;
    if (least > most || Math.max(least, most < Infinity ? most : 0) > MOST_TIMES) refuse(times);
    const lazy = this.takes("?");
    if (lazy && exact) refuse(`${times}?`);
    /** @type {Node} */
    const often = { kind: "repeat", node, least, most, lazy };
    if (lazy || !this.takes("+")) return often;
    if (times.startsWith("{") || node.kind !== "class") return refuse(`a possessive ${times}`);
    // A run that gives nothing back ends where no such character follows, or at its limit.
    const ends = look(node, true, true);
    if (most === Infinity) return { kind: "all", parts: [often, ends] };
    return { kind: "any", parts: [node, ends] };
  }
}

/** @param {number} code */
const isLetter = (code) => /[a-zA-Z]/.test(String.fromCodePoint(code));

/** A range, with the other case of its letters if case is ignored.
 * @param {number} first @param {number} last @param {boolean} folds @returns {Ranges} */
function folded(first, last, folds) {
  if (!folds || !isLetter(first)) return [[first, last]];
  const [from, to] = [first | 0x20, last | 0x20];
  if ((first ^ last) & 0x20) refuse("a mixed range");
  const more = Object.keys(FOLDED)
    .filter((own) => from <= own.charCodeAt(0) && own.charCodeAt(0) <= to)
    .map((own) => FOLDED[own].charCodeAt(0));
  return [[from, to], [from - 0x20, to - 0x20], ...more.map((code) => [code, code])];
}

/** @param {string} char @param {boolean} folds whether case is ignored @returns {Node} */
function letter(char, folds) {
  const code = /** @type {number} */ (char.codePointAt(0));
  return set(union(folded(code, code, folds)));
}

/**
 * What finds the matches of a pattern. Throws if it cannot be translated.
 * @param {string} source
 */
export function compile(source) {
  const reader = new Reader(source);
  const node = reader.alternatives(false);
  if (reader.at < reader.chars.length) refuse("an unmatched closing bracket");
  return new Matcher(node);
}

/** What finds a text literally. @param {string} text */
export function exactly(text) {
  return new Matcher({ kind: "all", parts: Array.from(text, (char) => letter(char, false)) });
}

/** What finds the words of the pre-tokenizer Whitespace: \w+|[^\w\s]+. */
export function wordsAndOthers() {
  const word = wordChars(unicode.wordOfWhitespace, false);
  const others = inverse(union([...word, ...members("space", false)].map(([a, b]) => [a, b])));
  /** @param {Ranges} ranges @returns {Node} */
  const run = (ranges) => ({
    kind: "repeat", node: set(ranges), least: 1, most: Infinity, lazy: false,
  }); // prettier-ignore
  return new Matcher({ kind: "any", parts: [run(word), run(others)] });
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
 * A split of code points by a pattern.
 * @param {typeof import("./words.js")} words @param {Matcher} pattern @param {string} behavior
 * @param {boolean} inverted @returns {import("./words.js").Split}
 */
export function splitBy(words, pattern, behavior, inverted) {
  const kept = Object.hasOwn(BEHAVIORS, behavior)
    ? BEHAVIORS[behavior]
    : words.refuse("split behavior", behavior);
  return (text, from, to, emit) => {
    /** @type {Piece[]} */
    const all = [];
    let done = from;
    pattern.each(text.codes, from, to, (start, end) => {
      if (start > done) all.push({ from: done, to: start, match: inverted });
      all.push({ from: start, to: end, match: !inverted }); // an empty one keeps others apart
      done = end;
    });
    if (done < to) all.push({ from: done, to, match: inverted });
    for (const { from: start, to: end } of kept(all)) if (end > start) emit(text, start, end);
  };
}
