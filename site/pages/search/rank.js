// rank.js: similarities of unit vectors, rankings, and their export.

/** @typedef {import("./split.js").Passage} Passage */

/** The cosine of two unit vectors. @param {Float32Array} a @param {Float32Array} b */
export function similarity(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

/** Indices and scores, best first; passages without a vector yet are left out.
 *  @param {(Float32Array | undefined)[]} vectors @param {Float32Array} query */
export function rank(vectors, query) {
  const rows = [];
  for (const [index, vector] of vectors.entries()) {
    if (vector) rows.push({ index, score: similarity(vector, query) });
  }
  return rows.sort((a, b) => b.score - a.score || a.index - b.index);
}

/** Every row of `a` against every row of `b`, row by row.
 *  @param {Float32Array[]} a @param {Float32Array[]} b */
export function table(a, b) {
  const out = new Float32Array(a.length * b.length);
  for (let i = 0; i < a.length; i += 1) {
    for (let j = 0; j < b.length; j += 1) out[i * b.length + j] = similarity(a[i], b[j]);
  }
  return out;
}

/** @param {string} text */
function quoted(text) {
  // A spreadsheet would read a leading = + - @ as a formula.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** @param {Passage[]} passages @param {{ index: number, score: number }[]} ranking
 *  @param {string} query */
export function toCsv(passages, ranking, query) {
  const rows = ranking.map(({ index, score }, i) =>
    [
      i + 1,
      score.toFixed(6),
      index + 1,
      quoted(passages[index].source),
      quoted(passages[index].text),
    ].join(","),
  );
  return [`rank,score,passage,source,${quoted(query ? `text (query: ${query})` : "text")}`, ...rows]
    .join("\r\n")
    .concat("\r\n");
}

/** @param {object} about @param {Passage[]} passages
 *  @param {(Float32Array | undefined)[]} vectors
 *  @param {{ query: string, ranking: { index: number, score: number }[] }[]} queries */
export function toJson(about, passages, vectors, queries) {
  const rows = passages.map((passage, i) => ({
    ...passage,
    embedding: vectors[i] ? Array.from(/** @type {Float32Array} */ (vectors[i])) : null,
  }));
  return JSON.stringify({ ...about, passages: rows, queries }, null, 1);
}
