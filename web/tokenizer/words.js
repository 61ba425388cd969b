/** Text for the tab's tokenizers: character classes, code points and byte characters.
 *
 * Texts are arrays of code points. Each code point has the index of the input character that it
 * comes from. Results equal those of the `tokenizers` package. The module imports nothing, so it
 * can be loaded from a Blob; `classTable` takes the classes of unicode.js as an argument.
 */

/** @typedef {typeof import("./unicode.js")} Unicode */
/** @typedef {{ [key: string]: any }} Json */

/**
 * Code points, and for each the index of the input code point that it comes from.
 * @typedef {{ codes: number[], source: number[] }} Text
 */
/** @typedef {(text: Text) => Text} Normalizer */
/** @typedef {(text: Text, from: number, to: number) => void} Emit */
/**
 * Calls `emit` for every word of text[from:to], in order. A word may lie in another text, which the
 * split has made.
 * @typedef {(text: Text, from: number, to: number, emit: Emit) => void} Split
 */

export const CONTROL = 1;
export const CJK = 2;
export const MARK = 4;
export const COMPOSE = 8;
export const PUNCTUATION = 16;
export const SPACE = 32;
export const LETTER = 64;
export const NUMBER = 128;
export const COMPAT = 256;
export const COMBINING = 512;

export const BLANK = 0x20;

/**
 * Throws an error for an unsupported part of a tokenizer.json.
 * @param {string} part @param {unknown} value @returns {never}
 */
export function refuse(part, value) {
  throw new Error(
    `tokenizer.json: ${part} ${JSON.stringify(value)} is not supported in the browser; ` +
      "supported: WordPiece, byte-level BPE, SentencePiece's BPE, Unigram, and their usual steps",
  );
}

/** Class bits per code point. @typedef {Uint16Array} Table */
/** @type {Table | null} */
let classes = null;

/** The class bits of every code point. @param {Unicode} unicode @returns {Table} */
export function classTable(unicode) {
  if (classes) return classes;
  const table = new Uint16Array(0x110000);
  const names = /** @type {const} */ ([
    "control", "cjk", "mark", "compose", "punctuation", "space", "letter", "number",
    "compat", "combining",
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
  // In slices, because the number of arguments of a call is limited.
  for (; from < to; from += 4096) {
    string += String.fromCodePoint(...codes.slice(from, Math.min(to, from + 4096)));
  }
  return string;
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
 * The UTF-8 bytes of codes[from:to], each as GPT-2's printable character.
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

/** The length of a code point in UTF-8, in bytes. @param {number} code */
export function utf8Length(code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}
