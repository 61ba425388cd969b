/** The pre-tokenizers of the tab's tokenizers, which split a text into words. */

import { compile, exactly, splitBy } from "./patterns.js";
import { BLANK, LETTER, NUMBER, PUNCTUATION, SPACE } from "./words.js";
import * as words from "./words.js";

/** @typedef {import("./words.js").Json} Json */
/** @typedef {import("./words.js").Split} Split */

const APOSTROPHE = 0x27;

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
        // A blank belongs to the run of letters, digits or others that follows it.
        const leads = codes[i] === BLANK && i + 1 < to && !(table[codes[i + 1]] & SPACE);
        const first = leads ? i + 1 : i;
        const kind = table[codes[first]] & kinds;
        end = first + 1;
        while (end < to && (table[codes[end]] & kinds) === kind) end++;
        // White space leaves its last character to the next run, unless it has only one.
        if (kind === SPACE && end < to && end > i + 1) end--;
      }
      emit(i, end);
      i = end;
    }
  };
}

/** Characters with this bit, each alone or (joined) in runs. @param {Uint8Array} table
 * @param {number} bit @param {boolean} joined @returns {Split} */
function runs(table, bit, joined) {
  return (codes, from, to, emit) => {
    let start = from;
    for (let i = from; i < to; i++) {
      const is = (table[codes[i]] & bit) !== 0;
      const was = i > from && (table[codes[i - 1]] & bit) !== 0;
      if (i > start && (is !== was || (is && !joined))) {
        emit(start, i);
        start = i;
      }
    }
    if (to > start) emit(start, to);
  };
}

/** @type {Split} */
const whole = (_codes, from, to, emit) => {
  if (to > from) emit(from, to);
};

/** Applies splits one after the other. @param {Split[]} splits @returns {Split} */
function chain(splits) {
  if (splits.length === 1) return splits[0];
  return splits.reduceRight(
    (next, split) => (codes, from, to, emit) =>
      split(codes, from, to, (a, b) => next(codes, a, b, emit)),
    whole,
  );
}

/**
 * A pre-tokenizer: its split, whether the model reads words as bytes, and whether a space is put
 * before a text.
 * @typedef {{ split: Split, bytes: boolean, prefixed: boolean }} PreTokenizer
 */

/** @param {Json | null} config @param {Uint8Array} table @returns {PreTokenizer} */
export function preTokenizer(config, table) {
  const plain = { bytes: false, prefixed: false };
  switch (config?.type) {
    case undefined:
      return { split: whole, ...plain };
    case "BertPreTokenizer":
      return { split: bertSplit(table), ...plain };
    case "Digits":
      return { split: runs(table, NUMBER, !config.individual_digits), ...plain };
    case "Punctuation": {
      const joined = config.behavior === "Contiguous";
      if (!joined && (config.behavior ?? "Isolated") !== "Isolated") {
        return words.refuse("Punctuation behavior", config.behavior);
      }
      return { split: runs(table, PUNCTUATION, joined), ...plain };
    }
    case "Split": {
      const { Regex: pattern, String: exact } = config.pattern;
      const expression = pattern ? compile(pattern) : exactly(exact);
      return {
        split: splitBy(words, expression, config.behavior, config.invert ?? false),
        ...plain,
      };
    }
    case "ByteLevel": {
      const split = config.use_regex === false ? whole : byteLevelSplit(table);
      return { split, bytes: true, prefixed: config.add_prefix_space ?? true };
    }
    case "Sequence": {
      const parts = config.pretokenizers.map((/** @type {Json} */ part) =>
        preTokenizer(part, table),
      );
      const others = parts.slice(0, -1);
      if (others.some((/** @type {PreTokenizer} */ part) => part.bytes)) {
        return words.refuse("pre_tokenizer after ByteLevel", config.pretokenizers);
      }
      const bytes = parts.at(-1)?.bytes ?? false;
      const prefixed = parts.at(-1)?.prefixed ?? false;
      if (prefixed && others.length) {
        return words.refuse("ByteLevel with add_prefix_space after", config.pretokenizers[0].type);
      }
      const split = chain(parts.map((/** @type {PreTokenizer} */ part) => part.split));
      return { split, bytes, prefixed };
    }
    default:
      return words.refuse("pre_tokenizer", config?.type);
  }
}
