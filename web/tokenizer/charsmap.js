/** SentencePiece's table of replaced characters, as the `tokenizers` package applies it.
 *
 * The library's Precompiled does not read the table; it replaces by rules of its own.
 */

import { codePoints, toText, utf8Length } from "./words.js";

/** @typedef {{ code: number, change: number }} Change */

const LONGEST = 6; // bytes of a group of characters that is looked up as a whole, and one more
const FIRST_MARK = 0x300; // characters before it are groups by themselves, but for a line's end

/**
 * Groups of characters, as Unicode Standard Annex 29 has them: calls `each` with start and end.
 * @param {number[]} codes @param {(from: number, to: number) => void} each
 */
function groups(codes, each) {
  const segmenter = new Intl.Segmenter("und", { granularity: "grapheme" });
  for (let from = 0; from < codes.length; ) {
    let to = from + 1;
    const joins = (/** @type {number} */ i) => {
      const [before, code] = [codes[i - 1], codes[i]];
      return before >= FIRST_MARK || code >= FIRST_MARK || (before === 13 && code === 10);
    };
    while (to < codes.length && joins(to)) to++;
    if (to === from + 1) each(from, to);
    else {
      let at = from;
      for (const { segment } of segmenter.segment(toText(codes, from, to))) {
        const start = at;
        for (let unit = 0; unit < segment.length; at++) unit += codes[at] > 0xffff ? 2 : 1;
        each(start, at);
      }
    }
    from = to;
  }
}

/** @param {string} what @returns {never} */
function broken(what) {
  throw new Error(`tokenizer.json: precompiled_charsmap ${what}`);
}

/** The table: a trie of double arrays (Darts) over UTF-8, and the texts that it leads to. */
export class CharsMap {
  /** @param {string} packed in base64 */
  constructor(packed) {
    let bytes = new Uint8Array();
    try {
      bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
    } catch {
      broken("is not base64");
    }
    const view = new DataView(bytes.buffer);
    const size = bytes.length < 4 ? 0 : view.getUint32(0, true);
    if (!size || size % 4 || size > bytes.length - 4) {
      broken(`has ${bytes.length} bytes and a trie of ${size}`);
    }
    this.trie = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.texts = bytes.subarray(4 + size);
    /** @type {Map<number, number[]>} */
    this.known = new Map();
  }

  /** @param {number} place */
  unit(place) {
    return place < this.trie.length ? this.trie[place] : broken("leads outside of its trie");
  }

  /** The replacement of the shortest part of a text that has one. @param {number[]} bytes */
  find(bytes) {
    const offset = (/** @type {number} */ unit) => (unit >>> 10) << ((unit & 0x200) >>> 6);
    let place = offset(this.unit(0));
    for (const byte of bytes) {
      if (byte === 0) break;
      place ^= byte;
      const unit = this.unit(place >>> 0);
      if (((unit & 0x800000ff) >>> 0) !== byte) break;
      place ^= offset(unit);
      if ((unit >>> 8) & 1) return this.text(this.unit(place >>> 0) & 0x7fffffff);
    }
    return null;
  }

  /** The code points of the text at a place. @param {number} start */
  text(start) {
    let codes = this.known.get(start);
    if (!codes) {
      const end = this.texts.indexOf(0, start);
      if (start > this.texts.length) broken("leads outside of its texts");
      const bytes = this.texts.subarray(start, end < 0 ? undefined : end);
      const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      try {
        codes = codePoints(utf8.decode(bytes));
      } catch {
        return broken("has texts that are not UTF-8");
      }
      this.known.set(start, codes);
    }
    return codes;
  }

  /** A text as changes of it, or null if it stays.
   * @param {number[]} codes @returns {Change[] | null} */
  apply(codes) {
    const encoder = new TextEncoder();
    /** @type {Change[]} */
    const out = [];
    let modified = false;
    /** @param {number} from @param {number} to */
    const replaced = (from, to) => {
      const found = this.find([...encoder.encode(toText(codes, from, to))]);
      if (!found) return false;
      modified = true;
      const more = found.length - (to - from);
      found.forEach((code, i) => out.push({ code, change: +(found.length - i <= more) }));
      // What is left out counts with the character before, as in the package.
      if (more < 0 && out.length) out[out.length - 1].change += more;
      return true;
    };
    groups(codes, (from, to) => {
      if (to > from + 1) {
        let bytes = 0;
        for (let i = from; i < to && bytes < LONGEST; i++) bytes += utf8Length(codes[i]);
        if (bytes < LONGEST && replaced(from, to)) return;
      }
      for (let i = from; i < to; i++) {
        if (!replaced(i, i + 1)) out.push({ code: codes[i], change: 0 });
      }
    });
    return modified ? out : null;
  }
}
