// train.js: the page that trains: a network learns in the worker, and this shows it.

import * as device from "../shared/device.js";
import { byId, duration, pick, save, work } from "../shared/page.js";
import { openPython, pythonWords } from "../shared/runtime/python.js";
import { hideError, phase, showError } from "../shared/status.js";
import * as curves from "./curves.js";
import * as data from "./data.js";
import * as figures from "./figures.js";
import { claim, forget, keep, kept, trouble } from "./kept.js";
import { describe, middleOf, sources, weightsOf } from "./opened.js";
import { makePad } from "./pad.js";
import { guesses, show } from "./views.js";

const ROWS = { rows: 26_000, held: 1_000, bits: 4 }; // of Fashion-MNIST, as the site has them
const { dataset } = document.documentElement;
const rate = pick("rate", HTMLInputElement);
const epochs = pick("epochs", HTMLInputElement);

/** @type {import("../shared/runtime/python.js").Runtime | null} */
let runtime = null;
/** @type {import("../rushlight/client.js").PythonModules | null} */
let lab = null;
/** What is trained, if the worker has it. @type {any} */
let training = null;
/** The training in the browser's storage. @type {import("./kept.js").Meta | null} */
let meta = null;
let running = false;
let moved = false; // the rate, while the worker had no training
let round = 0; // the number of runs that have ended
/** @type {Promise<unknown>} the last writing to the storage */
let writing = Promise.resolve();

const tryPad = makePad(pick("try", HTMLCanvasElement), "A pad to draw for the network", () =>
  void tryIt(),
);

function rushlight() {
  if (!runtime?.alive) {
    runtime = openPython();
    [lab, training] = [null, null];
  }
  return runtime;
}

/** The page's own Python, in the worker. */
async function opened() {
  const here = rushlight();
  if (lab) return lab;
  phase("Starting Python…", null);
  lab = await here.modules(await sources());
  byId("needs").textContent = "";
  return lab;
}

// --- settings ------------------------------------------------------------------------------------

/** @param {string} name */
function checked(name) {
  const found = document.querySelector(`input[name="${name}"]:checked`);
  return /** @type {HTMLInputElement} */ (found).value;
}

/** @param {string} kind */
function settings(kind) {
  return {
    data: kind,
    model: checked("model"),
    size: checked("size"),
    batch: Number(pick("batch", HTMLSelectElement).value),
    epochs: wanted(),
    seed: 0,
    rates: [[0, learningRate()]],
    ...(kind === "fashion-mnist" ? ROWS : {}),
    device: device.chosen(),
  };
}

const wanted = () => Math.min(1000, Math.max(1, Math.round(Number(epochs.value)) || 1));

const learningRate = () => Number((10 ** Number(rate.value)).toPrecision(2));

const showRate = () => (byId("rate-words").textContent = String(learningRate()));

/** Sets the controls as a training has them. @param {any} given @param {string} source */
function fill(given, source) {
  data.choose(source);
  data.pickInput("model", given.model);
  data.pickInput("size", given.size);
  pick("batch", HTMLSelectElement).value = String(given.batch);
  epochs.value = String(given.epochs);
  rate.value = String(Math.log10(given.rates.at(-1)[1]));
  showRate();
}

// --- training ------------------------------------------------------------------------------------

/** @param {boolean} on */
function showRunning(on) {
  running = work.inProgress = on;
  if (!on) round += 1;
  byId("go").hidden = on;
  byId("pause").hidden = !on;
  byId("again").hidden = on || !meta;
  byId("taking").hidden = !meta;
  byId("go").textContent = !meta ? "Train" : over() ? "Train more" : "Continue";
  byId("kept").hidden = true;
  const fixed = on || meta !== null;
  for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (
    document.querySelectorAll('input[name="model"], input[name="size"]')
  )) {
    input.disabled = fixed;
  }
  data.fixed(fixed);
  pick("batch", HTMLSelectElement).disabled = fixed;
  epochs.disabled = on;
  device.allow(!on);
  if (!fixed) data.choose(data.source());
  dataset.round = String(round);
  dataset.state = on ? "busy" : "ready";
}

let ownEpochs = false; // the visitor has typed how many

/** Offers as many epochs as learn enough of what is chosen. */
function suggest() {
  if (ownEpochs || meta || running) return;
  epochs.value = String(data.epochs(Number(pick("batch", HTMLSelectElement).value)));
}

/** Asks before a training is lost. */
const mayForget = () =>
  !meta?.step || confirm(`What was learned in ${meta.step} steps is lost. Go on?`);

const over = () => meta !== null && meta.step > 0 && meta.about.epoch >= meta.settings.epochs;

/** Trains until the epochs are done or the visitor pauses. @param {Uint8Array} [weights] */
async function train(weights) {
  if (running) return;
  hideError();
  showRunning(true);
  try {
    if (training && training.device !== device.chosen()) training = null;
    if (!training) await begin(weights);
    if (meta && over()) {
      meta.settings.epochs = Math.max(wanted(), meta.settings.epochs + 1);
      epochs.value = String(meta.settings.epochs);
    } else if (meta) meta.settings.epochs = wanted();
    figures.begin();
    phase("Training", null);
    byId("learning").scrollIntoView({ block: "nearest" }); // the curves are drawn there
    const python = /** @type {NonNullable<typeof lab>} */ (lab);
    const ended = await python.call("lab.run", [wanted()], { onProgress: told });
    if (meta) Object.assign(meta.about, { epoch: ended.epoch });
    await writing;
    if (meta) await keep({ meta });
    byId("status").hidden = true;
    byId("losses").scrollIntoView({ block: "nearest" });
    byId("said").textContent = ended.over ? "The training is complete." : "Paused.";
  } catch (error) {
    training = null; // the next run begins with what is kept
    failed(error);
  } finally {
    showRunning(false);
  }
}

/** Makes the network in the worker: a new one, or the one that is kept.
 *  @param {Uint8Array} [weights] */
async function begin(weights) {
  const python = await opened();
  const before = meta;
  /** @type {any} */
  let found;
  if (before && before.source !== "fashion") found = { given: await kept("data") };
  else found = await data.given(rushlight(), phase);
  const chosen = before
    ? { ...before.settings, device: device.chosen() }
    : settings(/** @type {any} */ (found).kind);
  if (before && moved) chosen.rates.push([before.step, learningRate()]);
  moved = false;
  const checkpoint = before?.step ? await kept("checkpoint") : null;
  phase("Making the network…", null);
  const from = weights
    ? { weights }
    : checkpoint && before
      ? { bytes: checkpoint, spent: before.spent }
      : null;
  training = await python.call("lab.start", [chosen, found.given, from]);
  const source = before?.source ?? data.source();
  const { pictures, labels, ...numbers } = training;
  const points = before ? curves.points.filter(({ step }) => step <= training.step) : [];
  meta = {
    settings: chosen, source, points, step: training.step, spent: before?.spent ?? 0,
    about: training, words: "", look: before?.look ?? null,
  }; // prettier-ignore
  curves.set(points);
  byId("taking").hidden = false;
  if (source !== "fashion" && !before) await keep({ data: found.given });
  meta.words = await describe(rushlight(), numbers);
  byId("about").textContent = meta.words;
}

/** What the worker reports. @param {any} event */
function told(event) {
  if (!meta) return;
  if (event.kind === "checkpoint") {
    meta = { ...meta, settings: JSON.parse(event.settings), step: event.step, spent: event.spent };
    meta.points = [...curves.points];
    writing = keep({ meta, checkpoint: event.bytes }).then(showTrouble);
    return;
  }
  if (event.kind === "look") {
    meta.look = event;
    show(meta.about, event);
    return;
  }
  const { kind, seconds, steps, ...point } = event;
  curves.add(point);
  meta.about.epoch = event.epoch;
  const speed = figures.speedAt(event.step, seconds);
  const left = speed ? `, ${duration((steps - event.step) / speed)} left` : "";
  phase("Training", event.step / steps, `step ${event.step} of ${steps}${left}`);
  figures.show(event, meta.settings, speed, seconds);
  dataset.step = String(event.step);
}

/** @param {any} error */
function failed(error) {
  byId("status").hidden = true;
  const { name, message, hint } = error;
  const lost = name === "DeviceLostError";
  if (lost) training = null;
  const at = meta?.step ? `The training is kept up to step ${meta.step}.` : "";
  const then = lost ? "Go on from there, or on the CPU." : hint;
  const words = [at, then].filter(Boolean).join(" ");
  const said = lost ? "The GPU was lost." : message;
  showError({ name, message: said, hint: words }, () => void train());
  if (lost) byId("retry").textContent = "Go on";
}

function showTrouble() {
  byId("trouble").textContent = trouble.why ? `Nothing is kept for a reload: ${trouble.why}.` : "";
}

async function startOver() {
  await forget();
  [meta, training] = [null, null];
  curves.set([]);
  byId("results").hidden = true;
  byId("figures").replaceChildren();
  byId("about").textContent = "Nothing has been learned yet.";
  hideError();
  delete dataset.step;
  ownEpochs = false;
  showRunning(false);
  suggest();
}

// --- what was learned ----------------------------------------------------------------------------

/** Calls the worker on the network, which is brought back first if need be.
 *  @param {string} name @param {unknown[]} [args] */
async function ask(name, args = []) {
  if (running && lab) return lab.call(`lab.${name}`, args, { now: true });
  if (!training) await begin();
  byId("status").hidden = true;
  return /** @type {NonNullable<typeof lab>} */ (lab).call(`lab.${name}`, args);
}

/** Runs what a button does, and shows its error. @param {() => Promise<void>} act */
function guarded(act) {
  return () => void act().catch((error) => failed(error));
}

async function tryIt() {
  if (!meta || tryPad.empty()) return;
  const [channels, side] = meta.about.shape;
  guesses(meta.about.classes, await ask("guess", [tryPad.pixels(channels, side)]));
}

async function goOn() {
  const prompt = pick("prompt", HTMLInputElement).value;
  byId("written").textContent = await ask("write", [prompt, 200]);
}

/** @param {File} file */
async function openWeights(file) {
  if (running) return;
  const bytes = await weightsOf(file);
  const python = await opened();
  const found = await python.call("lab.about", [bytes]);
  byId("status").hidden = true;
  if (!mayForget()) return;
  await startOver();
  const source = found.settings.data === "pictures" ? data.source() : found.settings.data;
  fill(found.settings, { "fashion-mnist": "fashion" }[/** @type {string} */ (source)] ?? source);
  showRunning(true);
  try {
    await begin(bytes);
    const look = await python.call("lab.look");
    const current = /** @type {any} */ (meta);
    current.look = look;
    show(current.about, look);
    byId("status").hidden = true;
    byId("said").textContent = "The weights are open.";
  } finally {
    showRunning(false);
  }
}

async function saveData() {
  if (meta?.source === "fashion") {
    throw new Error("The script reads the package dataset-fashion-mnist of Debian.");
  }
  const text = data.file(await kept("data"));
  if (text) save(text[0], "text/plain", new Blob([text[1]]));
  else save("pictures.safetensors", "application/octet-stream", new Blob([await ask("pictures")]));
}

// --- beginning -----------------------------------------------------------------------------------

/** Shows the training that is kept. */
async function recall() {
  if (!(await claim(showTrouble))) showTrouble();
  const found = await kept("meta");
  if (!found?.step) return;
  meta = found;
  fill(found.settings, found.source);
  data.show(await kept("data"));
  byId("about").textContent = found.words;
  byId("continue").textContent = over() ? "Train more" : "Continue";
  curves.set(found.points);
  if (found.look) show(found.about, found.look);
  const last = found.points.at(-1);
  const at = { step: found.step, epoch: found.about.epoch };
  if (last) figures.show(at, found.settings, NaN, found.spent);
  showRunning(false);
  byId("kept").hidden = false;
  byId("kept-words").textContent =
    `A training of an earlier visit is kept: step ${found.step}, ` +
    `${duration(found.spent)} of learning.`;
}

byId("go").addEventListener("click", () => void train());
byId("continue").addEventListener("click", () => void train());
byId("pause").addEventListener("click", () => void lab?.call("lab.halt", [], { now: true }));
for (const id of ["again", "forget"]) {
  byId(id).addEventListener("click", guarded(async () => {
    if (mayForget()) await startOver();
  })); // prettier-ignore
}
epochs.addEventListener("input", () => (ownEpochs = true));
pick("batch", HTMLSelectElement).addEventListener("change", suggest);
for (const input of document.querySelectorAll('input[name="source"]')) {
  input.addEventListener("change", () => {
    ownEpochs = false;
    suggest();
  });
}
rate.addEventListener("input", showRate);
rate.addEventListener("change", () => {
  if (training && lab) void lab.call("lab.rate", [learningRate()], { now: true });
  else moved = true;
});
byId("try-clear").addEventListener("click", () => tryPad.clear());
byId("write").addEventListener("click", guarded(goOn));
pick("try-file", HTMLInputElement).addEventListener("change", (event) => {
  const file = /** @type {HTMLInputElement} */ (event.target).files?.[0];
  if (!file) return;
  guarded(async () => {
    tryPad.clear();
    tryPad.put(await middleOf(file));
    await tryIt();
  })();
});
byId("save-weights").addEventListener("click", guarded(async () => {
  save("model.safetensors", "application/octet-stream", new Blob([await ask("weights")]));
})); // prettier-ignore
byId("save-script").addEventListener("click", guarded(async () => {
  save("train.py", "text/x-python", await ask("script"));
})); // prettier-ignore
byId("save-data").addEventListener("click", guarded(saveData));
pick("open-weights", HTMLInputElement).addEventListener("change", (event) => {
  const input = /** @type {HTMLInputElement} */ (event.target);
  const file = input.files?.[0];
  if (file) guarded(() => openWeights(file))();
  input.value = "";
});

async function prepare() {
  showRate();
  await device.start(() => rushlight().adapter(), () => (training = null));
  await data.start(suggest);
  byId("needs").textContent = await pythonWords("The first training");
  await recall();
  dataset.state = "ready";
}
void prepare();
