/** The normalizers of the tab's tokenizers, which change a text before it is split.
 *
 * None of the library's is used: they do not tell where a character comes from, and but for the
 * four forms, which are one call of the browser, they change texts that the package does not.
 */

/** @typedef {typeof import("./words.js")} Words */
/** @typedef {import("./words.js").Json} Json */
/** @typedef {import("./words.js").Table} Table */
/** @typedef {import("./words.js").Text} Text */
/** @typedef {import("./words.js").Normalizer} Normalizer */
/** @typedef {import("./automaton.js").Matcher} Matcher */

import { BLANK, CJK, COMBINING, COMPAT, COMPOSE, CONTROL, MARK, SPACE } from "./words.js";
import { codePoints, refuse, toText } from "./words.js";
import { CharsMap } from "./charsmap.js";
import { compile, exactly } from "./patterns.js";

const NO_PARTS = 0xe000;

// Each normalizer makes a new Text. An inserted character points at the input character beside it.

/** @param {Table} table @param {boolean} clean @param {boolean} cjk @returns {Normalizer} */
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
 * Decompose (Unicode Standard Annex 15, form D or KD), and leave out characters of a class.
 *
 * The package counts places. A character that starts a decomposition takes the next place of the
 * input. A character that continues it shares the place before.
 * @param {Table} table @param {Form} form @param {number} dropped @returns {Normalizer}
 */
function decomposer(table, form, dropped) {
  return (text) => {
    if (!text.codes.some((code) => table[code] & (form.changes | dropped))) return text;
    /** @type {Text} */
    const out = { codes: [], source: [] };
    const { codes, source } = text;
    for (let i = 0; i < codes.length; ) {
      let end = i;
      while (end < codes.length && table[codes[end]] & form.changes) end++;
      /** @type {Atom[]} */
      let atoms = [];
      if (end > i) {
        for (let k = i; k < end; k++) decompose(codes[k], atoms, form.decomposed);
        // If marks are dropped, their order matters only if a spacing mark stays.
        const moves = ({ code = 0 }) => table[code] & COMPOSE && !(table[code] & dropped);
        if (atoms.some(moves)) atoms = reorder(atoms);
      } else {
        atoms = [{ code: codes[end++], first: true }];
      }
      for (const { code, first } of atoms) {
        if (first) i++;
        if (table[code] & dropped) continue;
        out.codes.push(code);
        out.source.push(source[i - 1]);
      }
      i = end;
    }
    return out;
  };
}

/** What decomposing does: its name, and the class of what it changes or moves.
 * @typedef {{ decomposed: "NFD" | "NFKD", changes: number }} Form */
/** @type {Form} */
const CANONICAL = { decomposed: "NFD", changes: COMPOSE };
/** @type {Form} */
const COMPATIBLE = { decomposed: "NFKD", changes: COMPOSE | COMPAT };

/** A character of a decomposition. @typedef {{ code: number, first: boolean }} Atom */

/** Append a code point's decomposition.
 * @param {number} code @param {Atom[]} atoms @param {"NFD" | "NFKD"} form */
function decompose(code, atoms, form) {
  codePoints(String.fromCodePoint(code).normalize(form)).forEach((part, k) => {
    atoms.push({ code: part, first: k === 0 });
  });
}

/** The decomposed characters in canonical order. @param {Atom[]} atoms @returns {Atom[]} */
function reorder(atoms) {
  // A character that only the browser's Unicode version takes apart stays, as one without parts.
  const shown = atoms.map(({ code }) => {
    const char = String.fromCodePoint(code);
    return char.normalize("NFD") === char ? code : NO_PARTS;
  });
  /** @type {Map<number, Atom[]>} */
  const left = new Map();
  for (let i = atoms.length - 1; i >= 0; i--) {
    const same = left.get(shown[i]);
    if (same) same.push(atoms[i]);
    else left.set(shown[i], [atoms[i]]);
  }
  const ordered = codePoints(toText(shown).normalize("NFD"));
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
 * Append characters that replace those from the place `at` of a text on. `change` is the number of
 * places that each adds, less one: a character beyond the text's places shares the place before.
 * @param {Text} out @param {number[]} source @param {number} at
 * @param {{ code: number, change: number }[]} changes
 */
function replace(out, source, at, changes) {
  for (const { code, change } of changes) {
    if (change <= 0) at += 1;
    out.codes.push(code);
    out.source.push(source[Math.max(at - 1, 0)]);
    if (change < 0) at -= change;
  }
}

/**
 * Compose (Unicode Standard Annex 15, form C or KC).
 * @param {Table} table @param {Form} form @returns {Normalizer}
 */
function composer(table, form) {
  const name = form === CANONICAL ? "NFC" : "NFKC";
  return (text) => {
    const whole = toText(text.codes);
    if (whole.normalize(name) === whole) return text;
    /** @type {Text} */
    const out = { codes: [], source: [] };
    const { codes, source } = text;
    for (let i = 0; i < codes.length; ) {
      let end = i + 1;
      // A mark that the package's Unicode version does not know keeps its place.
      const stays = !(table[codes[i]] & form.changes) && !isStarter(codes[i]);
      const goesOn = (/** @type {number} */ code) => table[code] & form.changes || joins(code);
      while (!stays && end < codes.length && goesOn(codes[end])) end++;
      const part = codes.slice(i, end);
      const string = toText(part);
      if (string.normalize(name) === string) {
        for (let k = i; k < end; k++) {
          out.codes.push(codes[k]);
          out.source.push(source[k]);
        }
      } else {
        replace(out, source, i, composed(part, table, form));
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
 * @param {number[]} codes @param {Table} table @param {Form} form
 */
function composed(codes, table, form) {
  /** @type {Atom[]} */
  let atoms = [];
  for (const code of codes) {
    if (table[code] & form.changes) decompose(code, atoms, form.decomposed);
    else atoms.push({ code, first: true });
  }
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
      if (one.length === 1 && table[one[0]] & COMPOSE) {
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

/** @param {Matcher} pattern @param {string} content @returns {Normalizer} */
function replacer(pattern, content) {
  const added = codePoints(content);
  return ({ codes, source }) => {
    /** @type {Text} */
    const out = { codes: [], source: [] };
    let done = 0;
    /** @param {number} end */
    const copy = (end) => {
      for (; done < end; done++) {
        out.codes.push(codes[done]);
        out.source.push(source[done]);
      }
    };
    pattern.each(codes, 0, codes.length, (start, end) => {
      copy(start);
      done = end;
      for (const code of added) {
        out.codes.push(code);
        out.source.push(source[Math.max(end - 1, 0)]); // the last replaced character
      }
    });
    copy(codes.length);
    return out;
  };
}

/** Leaves characters out. @param {(codes: number[]) => (i: number) => unknown} choose gives whether
 * the character at a place stays @returns {Normalizer} */
function filter(choose) {
  return ({ codes, source }) => {
    const stays = choose(codes);
    const kept = codes.map((_, i) => i).filter(stays);
    return { codes: kept.map((i) => codes[i]), source: kept.map((i) => source[i]) };
  };
}

/** @param {Table} table @param {Json} config @returns {Normalizer} */
function stripper(table, config) {
  return filter((codes) => {
    const isInk = (/** @type {number} */ code) => !(table[code] & SPACE);
    const first = config.strip_left ? codes.findIndex(isInk) : 0;
    const last = config.strip_right ? codes.findLastIndex(isInk) : codes.length - 1;
    return (i) => first >= 0 && i >= first && i <= last;
  });
}

/** @param {string} packed @returns {Normalizer} */
function mapper(packed) {
  const map = new CharsMap(packed);
  return (text) => {
    const changes = map.apply(text.codes);
    if (!changes) return text;
    /** @type {Text} */
    const out = { codes: [], source: [] };
    replace(out, text.source, 0, changes);
    return out;
  };
}

/**
 * The steps of tokenizer.json's normalizer.
 * @param {Json | null} config @param {Table} table @returns {Normalizer[]}
 */
export function normalizers(config, table) {
  switch (config?.type) {
    case undefined:
      return [];
    case "Sequence":
      return config.normalizers.flatMap((/** @type {Json} */ part) => normalizers(part, table));
    case "Lowercase":
      return [lowercase];
    case "NFC":
      return [composer(table, CANONICAL)];
    case "NFKC":
      return [composer(table, COMPATIBLE)];
    case "NFD":
      return [decomposer(table, CANONICAL, 0)];
    case "NFKD":
      return [decomposer(table, COMPATIBLE, 0)];
    case "StripAccents":
      return [filter((codes) => (i) => !(table[codes[i]] & COMBINING))];
    case "Strip":
      return [stripper(table, config)];
    case "Prepend":
      return [prepender(config.prepend)];
    case "Precompiled":
      return [mapper(config.precompiled_charsmap)];
    case "Replace": {
      const { Regex: pattern, String: exact } = config.pattern;
      return [replacer(exact === undefined ? compile(pattern) : exactly(exact), config.content)];
    }
    case "BertNormalizer": {
      const clean = config.clean_text ?? true, cjk = config.handle_chinese_chars ?? true;
      const lower = config.lowercase ?? true;
      const steps = [cleaner(table, clean, cjk)];
      if (config.strip_accents ?? lower) steps.push(decomposer(table, CANONICAL, MARK));
      return lower ? [...steps, lowercase] : steps;
    }
    default:
      return refuse("normalizer", config?.type);
  }
}
