/** The normalizers of the tab's tokenizers, which change a text before it is split. */

/** @typedef {typeof import("./words.js")} Words */
/** @typedef {import("./words.js").Json} Json */
/** @typedef {import("./words.js").Text} Text */
/** @typedef {import("./words.js").Normalizer} Normalizer */

import { BLANK, CJK, COMPOSE, CONTROL, MARK, SPACE, codePoints, refuse, toText } from "./words.js";
import { compile, exactly } from "./patterns.js";

// Each normalizer makes a new Text. An inserted character points at the input character beside it.

/** @param {Uint8Array} table @param {boolean} clean @param {boolean} cjk @returns {Normalizer} */
function cleaner(table, clean, cjk) {
  return (text) => {
    /** @type {Text} */
    const out = { codes: [], source: [] };
    text.codes.forEach((code, i) => {
      const bits = table[code], from = text.source[i];
      // Tab and line ends are controls too, but clean_text treats them as spaces.
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
 * The package counts places. A character that starts a decomposition takes the next place of the
 * input. A character that continues it shares the place before.
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
        // Marks are dropped, so their order matters only if a spacing mark stays.
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

/** Lower case character by character, without the rule for a final sigma. @type {Normalizer} */
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
 * Compose canonically (Unicode Standard Annex 15, form C).
 *
 * A composed character stands for the places of all its parts. A character beyond the input's
 * places shares the place before.
 * @param {Uint8Array} table @returns {Normalizer}
 */
function composer(table) {
  return (text) => {
    const whole = toText(text.codes);
    if (whole.normalize("NFC") === whole) return text;
    /** @type {Text} */
    const out = { codes: [], source: [] };
    const { codes, source } = text;
    for (let i = 0; i < codes.length; ) {
      let end = i + 1;
      // A mark that the package's Unicode version does not know keeps its place.
      const stays = !(table[codes[i]] & COMPOSE) && !isStarter(codes[i]);
      const goesOn = (/** @type {number} */ code) => table[code] & COMPOSE || joins(code);
      while (!stays && end < codes.length && goesOn(codes[end])) end++;
      const part = codes.slice(i, end);
      const string = toText(part);
      if (string.normalize("NFC") === string) {
        for (let k = i; k < end; k++) {
          out.codes.push(codes[k]);
          out.source.push(source[k]);
        }
      } else {
        let at = i;
        for (const { code, change } of composed(part)) {
          if (change <= 0) at += 1;
          out.codes.push(code);
          out.source.push(source[Math.max(at - 1, 0)]);
          if (change < 0) at -= change;
        }
      }
      i = end;
    }
    return out;
  };
}

/** Whether a starter may compose with the one before: vowel signs, and Hangul's later letters.
 * A mark that only the browser's Unicode version knows does not count.
 * @param {number} code */
function joins(code) {
  return /[\p{Mc}\p{Mn}\u1160-\u11ff]/u.test(String.fromCodePoint(code)) && isStarter(code);
}

/**
 * The characters of a text in form C. `change` is the number of places that each adds, less one.
 * @param {number[]} codes
 */
function composed(codes) {
  /** @type {Atom[]} */
  let atoms = [];
  for (const code of codes) decompose(code, atoms);
  atoms = reorder(atoms);
  const found = atoms.map(({ code, first }) => ({ code, change: first ? 0 : 1, gone: false }));
  let starter = -1;
  /** The mark that stands between it and the next character. @type {number | null} */
  let between = null;
  found.forEach((atom, i) => {
    const starts = isStarter(atom.code);
    const free = between === null || (!starts && !sameClass(between, atom.code));
    if (starter >= 0 && free) {
      const pair = String.fromCodePoint(found[starter].code, atom.code);
      const one = codePoints(pair.normalize("NFC"));
      if (one.length === 1) {
        found[starter].code = one[0];
        found[starter].change += atom.change - 1;
        atom.gone = true;
        return;
      }
    }
    if (starts) starter = i;
    between = starts ? null : atom.code;
  });
  return found.filter((atom) => !atom.gone);
}

/** @param {string} text */
const isOrdered = (text) => text === text.normalize("NFD");

/** Whether marks keep their order around this one. @param {number} code */
function isStarter(code) {
  // U+0345 has the highest combining class and U+0334 the lowest.
  const own = String.fromCodePoint(code).normalize("NFD");
  return isOrdered(`\u0345${own}`) && isOrdered(`${own}\u0334`);
}

/** Whether two marks have the same combining class. @param {number} a @param {number} b */
function sameClass(a, b) {
  return isOrdered(String.fromCodePoint(a, b)) && isOrdered(String.fromCodePoint(b, a));
}

/** @param {string} added @returns {Normalizer} puts `added`, which points at the start, in front */
function prepender(added) {
  const codes = codePoints(added);
  return (text) =>
    text.codes.length
      ? {
          codes: [...codes, ...text.codes],
          source: [...codes.map(() => text.source[0]), ...text.source],
        }
      : text;
}

/** @param {RegExp} expression @param {string} content @returns {Normalizer} */
function replacer(expression, content) {
  const added = codePoints(content);
  return (text) => {
    const string = toText(text.codes);
    /** @type {Text} */
    const out = { codes: [], source: [] };
    let at = 0;
    let unit = 0;
    /** @param {number} place @param {boolean} copies */
    const advance = (place, copies) => {
      for (; unit < place; at++) {
        unit += text.codes[at] > 0xffff ? 2 : 1;
        if (!copies) continue;
        out.codes.push(text.codes[at]);
        out.source.push(text.source[at]);
      }
    };
    for (const found of string.matchAll(expression)) {
      advance(found.index, true);
      advance(found.index + found[0].length, false);
      for (const code of added) {
        out.codes.push(code);
        out.source.push(text.source[Math.max(at - 1, 0)]); // the last replaced character
      }
    }
    advance(string.length, true);
    return out;
  };
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
  if (config.type === "NFC") return [composer(table)];
  if (config.type === "Prepend") return [prepender(config.prepend)];
  if (config.type === "Replace") {
    const { Regex: pattern, String: exact } = config.pattern;
    if (!pattern && !exact) return refuse("normalizer pattern", config.pattern);
    return [replacer(pattern ? compile(pattern) : exactly(exact), config.content)];
  }
  if (config.type !== "BertNormalizer") return refuse("normalizer", config.type);
  const steps = [cleaner(table, config.clean_text ?? true, config.handle_chinese_chars ?? true)];
  const lower = config.lowercase ?? true;
  if (config.strip_accents ?? lower) steps.push(accentStripper(table));
  return lower ? [...steps, lowercase] : steps;
}

