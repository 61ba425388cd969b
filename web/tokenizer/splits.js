/** The pre-tokenizers of the tab's tokenizers, which split a text into words. */

import { compile, exactly, splitBy, wordsAndOthers } from "./patterns.js";
import { BLANK, LETTER, NUMBER, PUNCTUATION, SPACE } from "./words.js";
import * as words from "./words.js";

/** @typedef {import("./words.js").Json} Json */
/** @typedef {import("./words.js").Split} Split */
/** @typedef {import("./words.js").Table} Table */
/** @typedef {import("./words.js").Text} Text */

const APOSTROPHE = 0x27;

/**
 * Words between white space, which is left out, and of `alone` every character by itself.
 * @param {Table} table @param {number} alone @returns {Split}
 */
function spaceSplit(table, alone) {
  return (text, from, to, emit) => {
    let start = from;
    for (let i = from; i < to; i++) {
      const bits = table[text.codes[i]];
      if (!(bits & alone)) continue;
      if (i > start) emit(text, start, i);
      if (!(bits & SPACE)) emit(text, i, i + 1);
      start = i + 1;
    }
    if (to > start) emit(text, start, to);
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
 * @param {Table} table @returns {Split}
 */
function byteLevelSplit(table) {
  const kinds = SPACE | LETTER | NUMBER;
  return (text, from, to, emit) => {
    const { codes } = text;
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
      emit(text, i, end);
      i = end;
    }
  };
}

/** Characters with this bit, each alone or (joined) in runs. @param {Table} table
 * @param {number} bit @param {boolean} joined @returns {Split} */
function runs(table, bit, joined) {
  return (text, from, to, emit) => {
    const { codes } = text;
    let start = from;
    for (let i = from; i < to; i++) {
      const is = (table[codes[i]] & bit) !== 0;
      const was = i > from && (table[codes[i - 1]] & bit) !== 0;
      if (i > start && (is !== was || (is && !joined))) {
        emit(text, start, i);
        start = i;
      }
    }
    if (to > start) emit(text, start, to);
  };
}

/** Words of `size` characters each. @param {number} size @returns {Split} */
function fixedLength(size = 5) {
  if (size < 1) words.refuse("FixedLength length", size);
  return (text, from, to, emit) => {
    for (let i = from; i < to; i += size) emit(text, i, Math.min(i + size, to));
  };
}

/** @type {Split} */
const whole = (text, from, to, emit) => {
  if (to > from) emit(text, from, to);
};

/**
 * text[from:to] with a character in front, which has the offset of the one after it.
 * @param {Text} text @param {number} from @param {number} to @param {number} code @returns {Text}
 */
function withPrefix({ codes, source }, from, to, code) {
  return {
    codes: [code, ...codes.slice(from, to)],
    source: [source[from], ...source.slice(from, to)],
  };
}

/**
 * Metaspace: spaces become a visible character, which starts a word and may be put in front.
 * @param {Json} config @returns {Split}
 */
function metaspace(config) {
  const [mark, more] = words.codePoints(config.replacement ?? "\u2581");
  if (mark === undefined || more !== undefined) words.refuse("replacement", config.replacement);
  const scheme = config.prepend_scheme ?? (config.add_prefix_space === false ? "never" : "always");
  if (!["always", "first", "never"].includes(scheme)) words.refuse("prepend_scheme", scheme);
  return (text, from, to, emit) => {
    if (from === to) return;
    const shown = {
      codes: text.codes.slice(from, to).map((code) => (code === BLANK ? mark : code)),
      source: text.source.slice(from, to),
    };
    const prefixed = scheme === "always" || (scheme === "first" && shown.source[0] === 0);
    const whole =
      prefixed && shown.codes[0] !== mark ? withPrefix(shown, 0, to - from, mark) : shown;
    let start = 0;
    for (let i = 1; i < whole.codes.length && (config.split ?? true); i++) {
      if (whole.codes[i] !== mark) continue;
      emit(whole, start, i);
      start = i;
    }
    emit(whole, start, whole.codes.length);
  };
}

/** Applies splits one after the other. @param {Split[]} splits @returns {Split} */
function chain(splits) {
  if (splits.length === 1) return splits[0];
  return splits.reduceRight(
    (next, split) => (text, from, to, emit) =>
      split(text, from, to, (part, a, b) => next(part, a, b, emit)),
    whole,
  );
}

/** A pre-tokenizer: its split, and whether the model reads words as bytes.
 * @typedef {{ split: Split, bytes: boolean }} PreTokenizer */

/** @param {Json | null} config @param {Table} table @returns {PreTokenizer} */
export function preTokenizer(config, table) {
  const bytes = false;
  switch (config?.type) {
    case undefined:
      return { split: whole, bytes };
    case "BertPreTokenizer":
      return { split: spaceSplit(table, SPACE | PUNCTUATION), bytes };
    case "WhitespaceSplit":
      return { split: spaceSplit(table, SPACE), bytes };
    case "Whitespace":
      return { split: splitBy(words, wordsAndOthers(), "Removed", true), bytes };
    case "CharDelimiterSplit":
      return { split: splitBy(words, exactly(config.delimiter), "Removed", false), bytes };
    case "FixedLength":
      return { split: fixedLength(config.length), bytes };
    case "Metaspace":
      return { split: metaspace(/** @type {Json} */ (config)), bytes };
    case "Digits":
      return { split: runs(table, NUMBER, !config.individual_digits), bytes };
    case "Punctuation": {
      const joined = config.behavior === "Contiguous";
      if (!joined && (config.behavior ?? "Isolated") !== "Isolated") {
        return words.refuse("Punctuation behavior", config.behavior);
      }
      return { split: runs(table, PUNCTUATION, joined), bytes };
    }
    case "Split": {
      const { Regex: pattern, String: exact } = config.pattern;
      const matcher = exact === undefined ? compile(pattern) : exactly(exact);
      return { split: splitBy(words, matcher, config.behavior, config.invert ?? false), bytes };
    }
    case "ByteLevel": {
      const split = config.use_regex === false ? whole : byteLevelSplit(table);
      if (!(config.add_prefix_space ?? true)) return { split, bytes: true };
      /** @type {Split} */
      const prefixed = (text, from, to, emit) => {
        if (from === to || text.codes[from] === BLANK) return split(text, from, to, emit);
        split(withPrefix(text, from, to, BLANK), 0, to - from + 1, emit);
      };
      return { split: prefixed, bytes: true };
    }
    case "Sequence": {
      const parts = config.pretokenizers.map((/** @type {Json} */ part) =>
        preTokenizer(part, table),
      );
      if (parts.slice(0, -1).some((/** @type {PreTokenizer} */ part) => part.bytes)) {
        return words.refuse("pre_tokenizer after ByteLevel", config.pretokenizers);
      }
      const split = chain(parts.map((/** @type {PreTokenizer} */ part) => part.split));
      return { split, bytes: parts.at(-1)?.bytes ?? false };
    }
    default:
      return words.refuse("pre_tokenizer", config?.type);
  }
}
