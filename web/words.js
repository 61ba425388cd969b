/** Text for the tab's tokenizers: character classes, normalizers and splits into words.
 *
 * Everything works on arrays of code points that each remember the character of the input that
 * they come from, and gives what the `tokenizers` package gives. The module imports nothing, so
 * that it can be loaded from a Blob; the classes of unicode.js are given to `classTable`.
 */

/** @typedef {typeof import("./unicode.js")} Unicode */
/** @typedef {{ [key: string]: any }} Json */

/**
 * Code points, and for each the index of the input's code point that it comes from.
 * @typedef {{ codes: number[], source: number[] }} Text
 */
/** @typedef {(text: Text) => Text} Normalizer */
/** @typedef {(from: number, to: number) => void} Emit */
/**
 * Calls `emit` for every word of codes[from:to], in order.
 * @typedef {(codes: number[], from: number, to: number, emit: Emit) => void} Split
 */

const CONTROL = 1;
const CJK = 2;
const MARK = 4;
const COMPOSE = 8;
const PUNCTUATION = 16;
export const SPACE = 32;
const LETTER = 64;
const NUMBER = 128;

const BLANK = 0x20;
const APOSTROPHE = 0x27;

/**
 * Throws: the browser's tokenizer does not have this part of a tokenizer.json.
 * @param {string} part @param {unknown} value @returns {never}
 */
export function refuse(part, value) {
  throw new Error(
    `tokenizer.json: ${part} ${JSON.stringify(value)} is not supported in the browser; supported ` +
      "are WordPiece after BertPreTokenizer and byte-level BPE",
  );
}

/** @type {Uint8Array | null} */
let classes = null;

/** One byte of class bits per code point. @param {Unicode} unicode */
export function classTable(unicode) {
  if (classes) return classes;
  const table = new Uint8Array(0x110000);
  const names = /** @type {const} */ ([
    "control", "cjk", "mark", "compose", "punctuation", "space", "letter", "number",
  ]);
  names.forEach((name, bit) => {
    const numbers = unicode[name].trim().split(/\s+/).map((digits) => parseInt(digits, 36));
    for (let i = 0, at = 0; i < numbers.length; i += 2) {
      at += numbers[i];
      for (const end = at + numbers[i + 1]; at < end; at++) table[at] |= 1 << bit;
    }
  });
  return (classes = table);
}

/**
 * The code points of a string; throws when it has a lone surrogate.
 * @param {string} string @returns {number[]}
 */
export function codePoints(string) {
  const codes = [];
  for (let i = 0; i < string.length; i++) {
    const code = /** @type {number} */ (string.codePointAt(i));
    if (code > 0xffff) i++;
    else if (code >= 0xd800 && code < 0xe000) {
      throw new Error(`the text has a lone surrogate U+${code.toString(16).toUpperCase()}`);
    }
    codes.push(code);
  }
  return codes;
}

/**
 * codes[from:to] as a string.
 * @param {number[]} codes @param {number} [from] @param {number} [to]
 */
export function toText(codes, from = 0, to = codes.length) {
  let string = "";
  // In slices, because the arguments of one call are limited.
  for (; from < to; from += 4096) {
    string += String.fromCodePoint(...codes.slice(from, Math.min(to, from + 4096)));
  }
  return string;
}

// Normalizers: each makes a new Text, and what it inserts points at the character it stands by.

/** @param {Uint8Array} table @param {boolean} clean @param {boolean} cjk @returns {Normalizer} */
function cleaner(table, clean, cjk) {
  return (text) => {
    /** @type {Text} */
    const out = { codes: [], source: [] };
    text.codes.forEach((code, i) => {
      const bits = table[code], from = text.source[i];
      // Tab and line ends are controls too, but clean_text reads them as spaces.
      if (clean && (bits & CONTROL || code === 0xfffd)) return;
      const shown = clean && bits & SPACE ? BLANK : code;
      for (const c of cjk && bits & CJK ? [BLANK, shown, BLANK] : [shown]) {
        out.codes.push(c);
        out.source.push(from);
      }
    });
    return out;
  };
}

/**
 * Decompose canonically (Unicode Standard Annex 15, form D) and drop nonspacing marks.
 *
 * The package counts places: a character that starts a decomposition takes the next place of the
 * input, one that continues it shares the place before.
 * @param {Uint8Array} table @returns {Normalizer}
 */
function accentStripper(table) {
  return (text) => {
    if (!text.codes.some((code) => table[code] & (COMPOSE | MARK))) return text;
    /** @type {Text} */
    const out = { codes: [], source: [] };
    const { codes, source } = text;
    for (let i = 0; i < codes.length; ) {
      let end = i;
      while (end < codes.length && table[codes[end]] & COMPOSE) end++;
      /** @type {Atom[]} */
      let atoms = [];
      if (end > i) {
        for (let k = i; k < end; k++) decompose(codes[k], atoms);
        // Marks are dropped, so their order matters only where one stays that is not nonspacing.
        const moves = atoms.some(({ code }) => table[code] & COMPOSE && !(table[code] & MARK));
        if (moves) atoms = reorder(atoms);
      } else {
        atoms = [{ code: codes[end++], first: true }];
      }
      for (const { code, first } of atoms) {
        if (first) i++;
        if (table[code] & MARK) continue;
        out.codes.push(code);
        out.source.push(source[i - 1]);
      }
      i = end;
    }
    return out;
  };
}

/** A character of a decomposition. @typedef {{ code: number, first: boolean }} Atom */

/** Append a code point's canonical decomposition. @param {number} code @param {Atom[]} atoms */
function decompose(code, atoms) {
  codePoints(String.fromCodePoint(code).normalize("NFD")).forEach((part, k) => {
    atoms.push({ code: part, first: k === 0 });
  });
}

/** The decomposed characters in canonical order. @param {Atom[]} atoms @returns {Atom[]} */
function reorder(atoms) {
  /** @type {Map<number, Atom[]>} */
  const left = new Map();
  for (const atom of [...atoms].reverse()) {
    const same = left.get(atom.code);
    if (same) same.push(atom);
    else left.set(atom.code, [atom]);
  }
  const ordered = codePoints(toText(atoms.map(({ code }) => code)).normalize("NFD"));
  // Equal characters have equal classes, so they keep their order.
  return ordered.map((code) => /** @type {Atom} */ (left.get(code)?.pop()));
}

/** Lower case by character, so without the rule for a final sigma. @type {Normalizer} */
function lowercase(text) {
  /** @type {Text} */
  const out = { codes: [], source: [] };
  text.codes.forEach((code, i) => {
    const lower = code < 0x80
      ? [code >= 0x41 && code <= 0x5a ? code + 0x20 : code]
      : codePoints(String.fromCodePoint(code).toLowerCase());
    for (const c of lower) {
      out.codes.push(c);
      out.source.push(text.source[i]);
    }
  });
  return out;
}

/**
 * The steps of tokenizer.json's normalizer.
 * @param {Json | null} config @param {Uint8Array} table @returns {Normalizer[]}
 */
export function normalizers(config, table) {
  if (!config) return [];
  if (config.type === "Lowercase") return [lowercase];
  if (config.type === "Sequence") {
    return config.normalizers.flatMap((/** @type {Json} */ part) => normalizers(part, table));
  }
  if (config.type !== "BertNormalizer") return refuse("normalizer", config.type);
  const steps = [cleaner(table, config.clean_text ?? true, config.handle_chinese_chars ?? true)];
  const lower = config.lowercase ?? true;
  if (config.strip_accents ?? lower) steps.push(accentStripper(table));
  return lower ? [...steps, lowercase] : steps;
}

/**
 * BertPreTokenizer: words between white space, and every punctuation mark alone.
 * @param {Uint8Array} table @returns {Split}
 */
export function bertSplit(table) {
  return (codes, from, to, emit) => {
    let start = from;
    for (let i = from; i < to; i++) {
      const bits = table[codes[i]];
      if (!(bits & (SPACE | PUNCTUATION))) continue;
      if (i > start) emit(start, i);
      if (!(bits & SPACE)) emit(i, i + 1);
      start = i + 1;
    }
    if (to > start) emit(start, to);
  };
}

/**
 * Length of the contraction ('s 't 're 've 'm 'll 'd) whose apostrophe is codes[i], or 0.
 * @param {number[]} codes @param {number} i @param {number} to
 */
function contraction(codes, i, to) {
  const one = String.fromCodePoint(i + 1 < to ? codes[i + 1] : 0);
  if ("stmd".includes(one)) return 2;
  const two = one + String.fromCodePoint(i + 2 < to ? codes[i + 2] : 0);
  return two === "re" || two === "ve" || two === "ll" ? 3 : 0;
}

/**
 * GPT-2's pattern (Radford et al., 2019), by hand over the package's own classes:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * @param {Uint8Array} table @returns {Split}
 */
export function byteLevelSplit(table) {
  const kinds = SPACE | LETTER | NUMBER;
  return (codes, from, to, emit) => {
    for (let i = from; i < to; ) {
      let end = i + (codes[i] === APOSTROPHE ? contraction(codes, i, to) : 0);
      if (end === i) {
        // A blank belongs to the run of letters, digits or others that it stands before.
        const leads = codes[i] === BLANK && i + 1 < to && !(table[codes[i + 1]] & SPACE);
        const first = leads ? i + 1 : i;
        const kind = table[codes[first]] & kinds;
        end = first + 1;
        while (end < to && (table[codes[end]] & kinds) === kind) end++;
        // White space leaves its last character to what follows, unless it is the only one.
        if (kind === SPACE && end < to && end > i + 1) end--;
      }
      emit(i, end);
      i = end;
    }
  };
}

/**
 * Splits by patterns, one after the other: matches, and what lies between them, become words.
 * @param {string[]} patterns  regular expressions in the package's spelling @returns {Split}
 */
export function patternSplit(patterns) {
  const steps = patterns.map((pattern) => {
    // White space as Unicode has it, and no needless escapes: JavaScript refuses those.
    const spelled = pattern.replace(/\\(.)/gs, (all, char) => {
      if (char === "s") return "\\p{White_Space}";
      if (char === "S") return "\\P{White_Space}";
      return /["'#%&,:;<=>@_`~!]/.test(char) ? char : all;
    });
    try {
      return new RegExp(spelled, "gu");
    } catch {
      return refuse("pre_tokenizer pattern", pattern);
    }
  });
  return (codes, from, to, emit) => {
    let words = [toText(codes, from, to)];
    for (const step of steps) words = words.flatMap((word) => isolated(word, step));
    for (const word of words) {
      const end = from + [...word].length;
      emit(from, end);
      from = end;
    }
  };
}

/** @param {string} text @param {RegExp} pattern */
function isolated(text, pattern) {
  const parts = [];
  let done = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    parts.push(text.slice(done, index), match);
    done = index + match.length;
  }
  return [...parts, text.slice(done)].filter(Boolean);
}

/** GPT-2's printable character for each byte. */
export const BYTE_CHARS = (() => {
  const shown = (/** @type {number} */ b) =>
    (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode(shown(b) ? b : next++));
})();
export const CHAR_BYTES = new Map(BYTE_CHARS.map((char, byte) => [char, byte]));

/**
 * The UTF-8 bytes of codes[from:to], each as GPT-2's character.
 * @param {number[]} codes @param {number} from @param {number} to
 */
export function byteChars(codes, from, to) {
  let word = "";
  for (let i = from; i < to; i++) {
    const c = codes[i];
    if (c < 0x80) word += BYTE_CHARS[c];
    else {
      if (c < 0x800) word += BYTE_CHARS[0xc0 | (c >> 6)];
      else {
        if (c < 0x10000) word += BYTE_CHARS[0xe0 | (c >> 12)];
        else word += BYTE_CHARS[0xf0 | (c >> 18)] + BYTE_CHARS[0x80 | ((c >> 12) & 63)];
        word += BYTE_CHARS[0x80 | ((c >> 6) & 63)];
      }
      word += BYTE_CHARS[0x80 | (c & 63)];
    }
  }
  return word;
}

/** Number of bytes of a code point in UTF-8. @param {number} code */
export function utf8Length(code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}
