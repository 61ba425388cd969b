// split.js: cuts texts into passages at paragraphs and sentences.

/** @typedef {{ text: string, source: string }} Passage */

const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" });
const words = new Intl.Segmenter(undefined, { granularity: "word" });

/** Whether a paragraph is a heading: short, without an end mark. @param {string} paragraph */
function isHeading(paragraph) {
  const ends = /[.!?:;…。！？]["”»)]*$/.test(paragraph);
  return paragraph.length < 80 && !paragraph.includes("\n") && !ends;
}

/** Cuts a text into pieces of at most `limit` characters, at sentences, then at words.
 *  @param {string} text @param {number} limit @returns {string[]} */
function cut(text, limit) {
  const pieces = [...sentences.segment(text)].flatMap(({ segment }) =>
    segment.length <= limit ? [segment] : [...words.segment(segment)].map((word) => word.segment),
  );
  /** @type {string[]} */
  const passages = [];
  let current = "";
  for (const piece of pieces) {
    if (current && (current + piece).trim().length > limit) {
      passages.push(current.trim());
      current = "";
    }
    current += piece;
  }
  passages.push(current.trim());
  return passages.filter(Boolean);
}

/**
 * The passages of a text. A blank line ends a passage; a paragraph longer than `limit` characters
 * is cut between sentences (a longer sentence between words); a heading goes with its paragraph.
 * @param {string} text @param {string} source  a name shown with each passage
 * @param {number} limit @returns {Passage[]}
 */
export function split(text, source, limit) {
  const paragraphs = text
    .replace(/\r\n?/g, "\n")
    .split(/\n[\s]*\n/)
    .map((paragraph) => paragraph.replace(/^#{1,6}\s+/, "").trim())
    .filter(Boolean);
  /** @type {string[]} */
  const joined = [];
  let heading = "";
  for (const [i, paragraph] of paragraphs.entries()) {
    if (isHeading(paragraph) && i + 1 < paragraphs.length) {
      heading = heading ? `${heading}\n${paragraph}` : paragraph;
      continue;
    }
    joined.push(heading ? `${heading}\n${paragraph}` : paragraph);
    heading = "";
  }
  return joined
    .flatMap((paragraph) => (paragraph.length <= limit ? [paragraph] : cut(paragraph, limit)))
    .map((passage) => ({ text: passage, source }));
}

const COMMON = new Set(
  (
    "about and are but can did does for from had has have her his how its not our that the " +
    "their them they this was were what when where which who why will with would you your"
  ).split(" "),
);

/** The words of a query that are worth marking. @param {string} query */
export function termsOf(query) {
  return [...words.segment(query.toLowerCase())]
    .filter(({ isWordLike, segment }) => isWordLike && segment.length > 2 && !COMMON.has(segment))
    .map((word) => word.segment.replace(/(ing|ed|es|s)$/, ""))
    .filter((term) => term.length > 2);
}

/** The runs of `text`; a run is marked if its word begins with one of `terms`.
 *  @param {string} text @param {string[]} terms @returns {{ text: string, marked: boolean }[]} */
export function runs(text, terms) {
  /** @type {{ text: string, marked: boolean }[]} */
  const found = [];
  for (const { segment, isWordLike } of words.segment(text)) {
    const lower = segment.toLowerCase();
    const marked = Boolean(isWordLike) && terms.some((term) => lower.startsWith(term));
    const last = found.at(-1);
    if (last && last.marked === marked && !marked) last.text += segment;
    else found.push({ text: segment, marked });
  }
  return found;
}
