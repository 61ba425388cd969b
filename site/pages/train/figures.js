// figures.js: the numbers beside the charts: losses, accuracies, the speed.

import { byId, duration, make } from "../shared/page.js";
import { points } from "./curves.js";

/** Steps and seconds of the last reports, for the speed. @type {number[][]} */
let marks = [];

/** Begins to measure the speed anew. */
export const begin = () => void (marks = []);

/** Takes what a report says of the time; returns steps per second, NaN at first.
 *  @param {number} step @param {number} seconds */
export function speedAt(step, seconds) {
  marks.push([step, seconds]);
  if (marks.length > 8) marks.shift();
  const [[a, from], [b, to]] = [marks[0], marks[marks.length - 1]];
  return to > from ? (b - a) / (to - from) : NaN;
}

/** @param {number | undefined} share */
const percent = (share) => (share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);

/** @param {{ step: number, epoch: number }} at @param {{ batch: number, epochs: number }} settings
 *  @param {number} speed @param {number} seconds */
export function show({ step, epoch }, { batch, epochs }, speed, seconds) {
  const last = (/** @type {"loss" | "accuracy" | "val_loss" | "val_accuracy"} */ name) =>
    points.findLast((point) => point[name] !== undefined)?.[name];
  const rows = {
    Step: `${step}, epoch ${Math.min(epoch + 1, epochs)}`,
    Loss: last("loss")?.toFixed(4) ?? "–",
    Accuracy: percent(last("accuracy")),
    "Held-out loss": last("val_loss")?.toFixed(4) ?? "–",
    "Held-out accuracy": percent(last("val_accuracy")),
    "Steps per second": speed ? speed.toPrecision(3) : "–",
    "Examples per second": speed ? Math.round(speed * batch).toLocaleString("en") : "–",
    "Time learning": duration(seconds),
  };
  const parts = Object.entries(rows).map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value)),
  );
  byId("figures").replaceChildren(...parts);
}
