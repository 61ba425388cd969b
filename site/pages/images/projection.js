// projection.js: places on a map for vectors: their two principal components (Pearson, 1901).

const PUSHES = 30;
const HEIGHT = 0.5; // of the map, in its widths
const ROUNDS = 300; // of the power iteration; few are needed where a direction stands out

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
  return apart(x.map((across, i) => [across, y[i]]));
}

/** Places a little apart from one another, so that each can be seen and pointed at.
 *  @param {[number, number][]} places */
function apart(places) {
  const least = Math.min(0.08, 0.6 / Math.sqrt(places.length));
  for (let round = 0; round < PUSHES; round += 1) {
    for (let i = 0; i < places.length; i += 1) {
      for (let j = 0; j < i; j += 1) push(places[i], places[j], least);
    }
  }
  return places;
}

/** Moves two places away from each other, within the map, if they are nearer than `least`.
 *  @param {[number, number]} a @param {[number, number]} b @param {number} least */
function push(a, b, least) {
  let [across, down] = [a[0] - b[0], a[1] - b[1]];
  let far = Math.hypot(across, HEIGHT * down);
  if (far >= least) return;
  if (far < 1e-6) [across, down, far] = [1e-6, 1e-6, Math.SQRT2 * 1e-6]; // equal pictures
  const share = (least - far) / far / 2;
  for (const [place, sign] of /** @type {const} */ ([[a, share], [b, -share]])) {
    place[0] = Math.min(1, Math.max(0, place[0] + sign * across));
    place[1] = Math.min(1, Math.max(0, place[1] + sign * down));
  }
}

/** The unit vector along which rows differ most, at right angles to others; zeros if they do not.
 *  @param {Float64Array[]} rows @param {Float64Array[]} others */
function direction(rows, others) {
  const size = rows[0]?.length ?? 0;
  // A start that is most likely at right angles to nothing.
  let axis = unit(Float64Array.from({ length: size }, (_, i) => Math.sin(1 + i * 0.7)));
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = new Float64Array(size);
    for (const row of rows) add(next, row, dot(row, axis));
    for (const other of others) add(next, other, -dot(next, other));
    const before = axis;
    axis = unit(next);
    if (Math.abs(dot(axis, before)) > 1 - 1e-13) break;
  }
  // Of the two ends, one is always chosen in the same way.
  const larger = (/** @type {number} */ a, /** @type {number} */ b) =>
    Math.abs(b) > Math.abs(a) ? b : a;
  return axis.reduce(larger, 0) < 0 ? axis.map((value) => -value) : axis;
}

/** @param {Float64Array} vector */
function unit(vector) {
  const length = Math.sqrt(dot(vector, vector));
  return vector.map((value) => (length > 1e-12 ? value / length : 0));
}

/** @param {Float64Array} sum @param {Float64Array} row @param {number} times */
function add(sum, row, times) {
  for (let i = 0; i < sum.length; i += 1) sum[i] += times * row[i];
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
