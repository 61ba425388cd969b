// projection.js: places on a map for vectors: their two principal components (Pearson, 1901).

const ROUNDS = 200; // of the power iteration; few are needed where a direction stands out

/** The coordinates (x, y) of each vector, from 0 to 1, by the two directions in which the vectors
 *  differ most. @param {Float32Array[]} vectors @returns {[number, number][]} */
export function project(vectors) {
  const size = vectors[0]?.length ?? 0;
  const mean = new Float64Array(size);
  for (const vector of vectors) vector.forEach((value, i) => (mean[i] += value / vectors.length));
  const rows = vectors.map((vector) => Float64Array.from(vector, (value, i) => value - mean[i]));
  const first = direction(rows, []);
  const second = direction(rows, [first]);
  const [x, y] = [first, second].map((axis) => spread(rows.map((row) => dot(row, axis))));
  return x.map((across, i) => [across, y[i]]);
}

/** The unit vector along which rows differ most, at right angles to others.
 *  @param {Float64Array[]} rows @param {Float64Array[]} others */
function direction(rows, others) {
  const size = rows[0]?.length ?? 0;
  // Any start does that is at right angles to nothing in particular.
  let axis = Float64Array.from({ length: size }, (_, i) => Math.sin(1 + i * 0.7));
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = new Float64Array(size);
    for (const row of rows) {
      const along = dot(row, axis);
      for (let i = 0; i < size; i += 1) next[i] += along * row[i];
    }
    for (const other of others) {
      const along = dot(next, other);
      for (let i = 0; i < size; i += 1) next[i] -= along * other[i];
    }
    const length = Math.sqrt(dot(next, next));
    if (length < 1e-12) return next; // the rows do not differ any more
    const before = axis;
    axis = next.map((value) => value / length);
    if (1 - Math.abs(dot(axis, before)) < 1e-12) break;
  }
  // Of the two ends, one is always chosen in the same way.
  const larger = (/** @type {number} */ a, /** @type {number} */ b) =>
    Math.abs(b) > Math.abs(a) ? b : a;
  const largest = axis.reduce(larger, 0);
  return largest < 0 ? axis.map((value) => -value) : axis;
}

/** @param {Float64Array} a @param {Float64Array} b */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

/** Values from 0 to 1; the middle where they are all the same. @param {number[]} values */
function spread(values) {
  const low = Math.min(...values);
  const range = Math.max(...values) - low;
  return values.map((value) => (range > 1e-9 ? (value - low) / range : 0.5));
}
