// shape.js: cuts a document into sentences to translate and what stays as it is between them.

/** @typedef {{ text: string, keep: boolean }} Piece */

const LONGEST = 400; // characters of a piece; a longer sentence is cut between words

// What begins a line of a list, heading or quotation, with its indentation.
const MARKER = /^\s*(?:(?:#{1,6}|[-*+•]|\d{1,3}[.)]|>+)\s+)*/;
const FENCE = /^\s*(```|~~~)/;

/** @param {string} language */
function segmenters(language) {
  const known = Intl.Segmenter.supportedLocalesOf(language || []).length ? language : undefined;
  return {
    sentences: new Intl.Segmenter(known, { granularity: "sentence" }),
    words: new Intl.Segmenter(known, { granularity: "word" }),
  };
}

/** The parts of a sentence that are short enough.
 *  @param {string} sentence @param {Intl.Segmenter} words */
function cut(sentence, words) {
  if (sentence.length <= LONGEST) return [sentence];
  const parts = [""];
  for (const { segment } of words.segment(sentence)) {
    // A word without an end is cut anywhere.
    for (let at = 0; at < segment.length; at += LONGEST) {
      const piece = segment.slice(at, at + LONGEST);
      if ((parts[parts.length - 1] + piece).length > LONGEST) parts.push("");
      parts[parts.length - 1] += piece;
    }
  }
  return parts;
}

/**
 * The pieces of a text in order; joined they are the text. Line ends, blank lines, indentation,
 * the marks of Markdown before a line's words, code between fences and lines without letters are
 * kept.
 * @param {string} text @param {string} [language]  of the text, for the ends of sentences
 * @returns {Piece[]}
 */
export function pieces(text, language = "") {
  const { sentences, words } = segmenters(language);
  /** @type {Piece[]} */
  const found = [];
  const put = (/** @type {string} */ text, /** @type {boolean} */ keep) => {
    const last = found.at(-1);
    if (!text) return;
    if (keep && last?.keep) last.text += text;
    else found.push({ text, keep });
  };
  let fenced = false;
  for (const line of text.split(/(\r\n|\n|\r)/)) {
    const fence = FENCE.test(line);
    if (fence) fenced = !fenced;
    if (fence || fenced || !/\p{L}/u.test(line)) {
      put(line, true);
      continue;
    }
    const marker = MARKER.exec(line)?.[0] ?? "";
    put(marker, true);
    for (const { segment } of sentences.segment(line.slice(marker.length))) {
      for (const part of cut(segment, words)) {
        const words = part.trim();
        const begin = part.indexOf(words);
        put(part.slice(0, begin), true);
        put(words, !/\p{L}/u.test(words));
        put(part.slice(begin + words.length), true);
      }
    }
  }
  return found;
}
