// charts.js: the chart library, loaded when a page draws its first chart, and the page's colours.

/** @type {any} */
let Chart = null;

/** The chart library. @returns {Promise<any>} */
export async function library() {
  if (!Chart) {
    await import("./chart.js");
    Chart = /** @type {any} */ (globalThis).Chart;
    Chart.defaults.animation = false;
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  }
  return Chart;
}

/** @param {string} token  one of style.css */
export const colour = (token) =>
  getComputedStyle(document.documentElement).getPropertyValue(token).trim();

/** An axis with a title. @param {string} words */
export function axis(words) {
  return {
    title: { display: true, text: words, color: colour("--ink-soft") },
    ticks: { color: colour("--ink-soft") },
    grid: { color: colour("--line") },
    beginAtZero: true,
  };
}

/** Calls `draw` when the theme changes. @param {() => void} draw */
export function onTheme(draw) {
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}
