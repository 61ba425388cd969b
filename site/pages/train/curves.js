// curves.js: the charts of losses and accuracies, drawn while they grow.

import { axis, colour, library, onTheme } from "../shared/charts.js";
import { byId, pick } from "../shared/page.js";

/**
 * @typedef {{ step: number, loss?: number, accuracy?: number, val_loss?: number,
 *   val_accuracy?: number }} Point
 */

const MOST = 2000; // points of a chart; older ones are thinned out
const KINDS = /** @type {const} */ ([
  ["losses", "loss", "val_loss", "Loss"],
  ["accuracies", "accuracy", "val_accuracy", "Accuracy"],
]);

/** @type {Point[]} */
export let points = [];
/** @type {any[]} */
let charts = [];
/** @type {Promise<void> | null} */
let drawing = null;

/** Shows other points. @param {Point[]} given */
export function set(given) {
  points = given;
  byId("curves").hidden = !given.length;
  if (given.length) void draw(true);
}

/** @param {Point} point */
export function add(point) {
  points.push(point);
  byId("curves").hidden = false;
  if (points.length > MOST) {
    points = points.filter((p, i) => i % 2 === 0 || i > MOST / 2 || p.val_loss !== undefined);
  }
  void draw();
}

/** @param {boolean} [afresh] */
function draw(afresh = false) {
  drawing ??= library().then((Chart) => {
    drawing = null;
    if (afresh || !charts.length) {
      for (const chart of charts) chart.destroy();
      charts = KINDS.map(([id, , , title]) => make(Chart, id, title));
    }
    KINDS.forEach(([id, own, held, title], i) => {
      const rows = [own, held].map((name) =>
        points.filter((p) => p[name] !== undefined).map((p) => ({ x: p.step, y: p[name] })),
      );
      charts[i].data.datasets.forEach((/** @type {any} */ set, /** @type {number} */ n) => {
        set.data = rows[n];
      });
      charts[i].update();
      const last = rows.map((row) => row.at(-1)?.y?.toFixed(3) ?? "none yet");
      byId(id).setAttribute(
        "aria-label", `${title}: ${last[0]} in training, ${last[1]} of what is held out`,
      ); // prettier-ignore
    });
  });
  return drawing;
}

/** @param {any} Chart @param {string} id @param {string} title */
function make(Chart, id, title) {
  const line = (/** @type {string} */ label, /** @type {string} */ tone, dots = 0) => ({
    label, data: [], borderColor: colour(tone), backgroundColor: colour(tone), borderWidth: 2,
    pointRadius: dots, clip: 8,
  }); // prettier-ignore
  return new Chart(pick(id, HTMLCanvasElement), {
    type: "line",
    data: { datasets: [line("training", "--flame"), line("held out", "--good", 3)] },
    options: {
      parsing: false,
      maintainAspectRatio: false,
      scales: {
        x: { type: "linear", ...axis("step") },
        y: { ...axis(title), ...(id === "accuracies" ? { max: 1 } : {}) },
      },
      plugins: { legend: { labels: { color: colour("--ink-soft"), boxWidth: 14 } } },
    },
  });
}

onTheme(() => void (points.length && draw(true)));
