// job.js: runs a page's jobs on its model, one at a time, with progress, errors with a retry, and a
// stop. For pages with the elements `model_choice` and `progress` of elements.html.

import * as device from "./device.js";
import * as chosen from "./model.js";
import { byId } from "./page.js";
import { hideError, showError, showLoading } from "./status.js";

/** @typedef {import("../rushlight/client.js").Model} Model */

/** The page's own hooks. All are optional. */
const page = {
  /** Shows that a job runs, or that it has ended. @param {boolean} on */
  busy: (on) => {},
  /** The page's data-state while no job runs. */
  state: () => "ready",
  /** Called with a loaded model, or null if loading failed. May throw if the model does not fit.
   *  @param {Model | null} model */
  loaded: (model) => {},
  /** Shows that the visitor stopped the job. */
  stopped: () => {
    byId("status").hidden = true;
  },
  /** Called before a model is loaded; throws an error if it cannot be.
   *  @returns {void | Promise<void>} */
  check: () => {},
  /** What the page asks of the model that is loaded. @returns {chosen.Options} */
  options: () => ({}),
  /** Called with the chosen model when its size is known.
   *  @param {chosen.ModelSource | null} where @param {chosen.Description | null} found */
  described: (where, found) => {},
  /** An error in the page's own words. @param {any} error */
  words: (error) => error,
};

/** The loaded model; null if there is none or another is being loaded. @type {Model | null} */
export let model = null;
/** The source and the device of the loaded model. @type {unknown[]} */
let loadedFor = [];
/** @type {AbortController | null} */
let running = null;
/** @type {Promise<unknown>} the current job */
let over = Promise.resolve();
let round = 0; // the number of jobs that have ended

/** Whether a job runs. */
export const busy = () => running !== null;

/** @param {boolean} on */
function show(on) {
  if (!on) round += 1;
  byId("stop").hidden = !on;
  page.busy(on);
  document.documentElement.dataset.round = String(round);
  document.documentElement.dataset.state = on ? "busy" : page.state();
}

/** Stops the current job and runs another; true if it completed.
 *  @param {(signal: AbortSignal) => Promise<void>} act
 *  @param {() => unknown} retry  what the Retry button does @returns {Promise<boolean>} */
export function run(act, retry) {
  running?.abort();
  const before = over;
  const control = (running = new AbortController());
  const go = async () => {
    await before;
    if (control.signal.aborted) return false;
    hideError();
    show(true);
    try {
      await act(control.signal);
      return true;
    } catch (error) {
      await failed(error, control.signal, retry);
      return false;
    } finally {
      if (running === control) running = null;
      show(false);
    }
  };
  const mine = go();
  over = mine;
  return mine;
}

/** Stops the current job, and waits for its end. */
export function stop() {
  running?.abort();
  return over;
}

/** Shows an error. A lost device also loses the model.
 *  @param {unknown} error @param {AbortSignal} signal @param {() => unknown} retry */
export async function failed(error, signal, retry) {
  if (error === signal.reason) return page.stopped();
  byId("status").hidden = true;
  loadedFor = []; // the model may be lost
  if (/** @type {Error} */ (error).name === "DeviceLostError") await chosen.forget();
  showError(page.words(error), retry);
}

/** What the visitor chose, to be compared. */
function choice() {
  const where = chosen.source();
  return [where instanceof URL ? where.href : where, device.chosen()];
}

/** The chosen model on the chosen device, within `run`. It is loaded once, as loading asks the
 *  server again what it has. @param {AbortSignal} signal */
export async function loaded(signal) {
  const asked = choice();
  return model && asked.every((part, i) => part === loadedFor[i]) ? model : load(signal);
}

/** Loads the chosen model on the chosen device, within `run`. @param {AbortSignal} signal */
export async function load(signal) {
  const asked = choice();
  [model, loadedFor] = [null, []];
  try {
    await page.check();
    signal.throwIfAborted();
    model = await chosen.load(signal, showLoading, page.options());
  } catch (error) {
    byId("device").textContent = "";
    page.loaded(null);
    throw error;
  } finally {
    void chosen.describe();
  }
  byId("status").hidden = true;
  byId("device").textContent = chosen.words(model);
  page.loaded(model);
  loadedFor = asked;
  return model;
}

/** Loads the chosen model, as a job of its own. */
export function reload() {
  return run(async (signal) => {
    await load(signal);
    byId("said").textContent = "The model is ready.";
  }, reload);
}

/** Prepares the page and enables it. @param {Partial<typeof page>} [own] */
export function start(own) {
  Object.assign(page, own);
  byId("stop").addEventListener("click", stop);
  show(false);
  byId("main").inert = false; // every listener is attached now
  const described = (/** @type {any} */ where, /** @type {any} */ found) =>
    page.described(where, found);
  void chosen.start(hideError, () => void (model && reload()), described);
}
