// scale.js: the colour scale of heat maps.

/** Stops of the colour scale, low to high: [light theme, dark theme]. */
const SCALE = [
  ["#f6f1e6", "#1f1b15"],
  ["#fbe3ae", "#463310"],
  ["#f3b23f", "#8f5a10"],
  ["#cf6a12", "#e08a1e"],
  ["#7c2d12", "#ffdf9e"],
];

/** @param {string} hex */
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** @param {number} t  from 0 to 1 @param {boolean} dark */
export function scaled(t, dark) {
  const x = Math.min(0.9999, Math.max(0, t)) * (SCALE.length - 1);
  const low = channels(SCALE[Math.floor(x)][dark ? 1 : 0]);
  const high = channels(SCALE[Math.floor(x) + 1][dark ? 1 : 0]);
  return low.map((c, i) => Math.round(c + (high[i] - c) * (x % 1)));
}
