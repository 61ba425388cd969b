// status.js: the progress of long work: a bar with words, and an error with a retry.

import { choose } from "./device.js";
import { byId, pick, size } from "./page.js";

/** @type {() => void} */
let again = () => {};

/** Shows a step of the work. @param {string} words
 *  @param {number | null} fraction  null while unknown @param {string} [detail] */
export function phase(words, fraction, detail = "") {
  const bar = pick("bar", HTMLProgressElement);
  byId("status").hidden = false;
  if (byId("phase").textContent !== words) byId("said").textContent = words;
  byId("phase").textContent = words;
  byId("detail").textContent = detail;
  if (fraction === null) bar.removeAttribute("value");
  else bar.value = fraction;
}

/** Shows the progress of starting Python and loading a model. @param {any} progress */
export function showLoading(progress) {
  if (progress.stage === "start") phase("Starting Python…", null);
  if (progress.stage === "build") phase("Building the model…", null);
  if (progress.stage !== "download") return;
  const { loaded, total, notKept } = progress;
  const how = progress.fromNetwork > 0 ? "Downloading the model" : "Opening the model";
  const of = total === null ? size(loaded) : `${size(loaded)} of ${size(total)}`;
  phase(notKept ? `${how} (not kept: ${notKept})` : how, total ? loaded / total : null, of);
}

/** @param {any} error @param {() => void} retry  what the Retry button does */
export function showError(error, retry) {
  const { name, message, hint } = error;
  byId("error").hidden = false;
  byId("retry").textContent = name === "DeviceLostError" ? "Reload the model" : "Retry";
  byId("use-cpu").hidden = !/^Device/.test(name);
  byId("error-title").textContent = message || String(error);
  byId("error-hint").textContent = hint ?? "";
  again = retry;
}

export function hideError() {
  byId("error").hidden = true;
}

byId("retry").addEventListener("click", () => again());
byId("use-cpu").addEventListener("click", () => {
  choose("cpu");
  again();
});
