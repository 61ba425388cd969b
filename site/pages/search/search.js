// search.js: the search page: text to passages, passages to vectors, queries to a ranking.

import { openable } from "../shared/opening/dropping.js";
import { boundField, textOf } from "../shared/opening/text.js";
import { byId, duration, make, offerUndo, pick, save, work } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { hideError, phase, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { HeatMap } from "./heatmap.js";
import { rank, table, toCsv, toJson } from "./rank.js";
import { item, reveal } from "./results.js";
import { split, termsOf } from "./split.js";

/**
 * @typedef {import("./split.js").Passage} Passage
 * @typedef {{ text: string, vector: Float32Array }} Query
 */

const SHOWN = 10;
const MAP_LIMIT = 600; // more cells would be smaller than a pixel
// Passages per batch. NumPy gains nothing from more, and a stop or a query waits for one batch.
const BATCH = { cpu: 2, webgpu: 8 };
const MOST = 1_000_000; // characters of all texts
const MOST_FILES = 500;
const SUGGESTIONS = [
  "trouble falling asleep",
  "insects that glow",
  "danger of explosions underground",
  "guiding sailors at night",
];

const text = pick("text", HTMLTextAreaElement);
const query = pick("query", HTMLInputElement);
const length = pick("length", HTMLInputElement);

/** @typedef {{ name: string, text: string, cut?: { limit: number, passages: Passage[] } }} Document
 *    cut: what it was cut into, so that no text is cut twice alike */
/** @type {Document[]} */
let documents = [];
/** @type {Document} */
let typed = { name: "text", text: "" };
/** @type {Passage[]} */
let passages = [];
/** @type {(Float32Array | undefined)[]} */
let vectors = [];
/** @type {{ index: number, score: number }[]} */
let ranking = [];
/** @type {Query[]} */
let asked = [];
let shownQuery = "";
let visible = SHOWN;
/** @type {AbortController | null} */
let asking = null;

// --- the text ------------------------------------------------------------------------------------

function cutText() {
  const limit = Number(length.value);
  if (typed.text !== text.value) typed = { name: "text", text: text.value };
  return [typed, ...documents].flatMap((one) => {
    if (one.cut?.limit !== limit) {
      one.cut = { limit, passages: split(one.text, one.name, limit) };
    }
    return one.cut.passages;
  });
}

/** @param {number} n */
const count = (n) => `${n} passage${n === 1 ? "" : "s"}`;

function showLength() {
  const letters = Number(length.value);
  byId("length-says").textContent = `${letters} characters, about ${Math.round(letters / 6)} words`;
}

function showCount() {
  showLength();
  const found = cutText().length;
  byId("count").textContent = found ? `${count(found)}.` : "";
  const chips = documents.map(({ name }, i) => {
    const remove = make("button", { type: "button", "aria-label": `Remove ${name}` }, "×");
    remove.addEventListener("click", () => {
      const [gone] = documents.splice(i, 1);
      showCount();
      offerUndo(`${name} was removed.`, () => {
        documents.splice(i, 0, gone);
        showCount();
      });
    });
    return make("li", {}, name, remove);
  });
  byId("documents").replaceChildren(...chips);
}

/** @param {File[]} files */
async function open(files) {
  const notes = [];
  const wrong = [];
  for (const file of files.slice(0, MOST_FILES)) {
    const room = MOST - [text.value, ...documents.map((one) => one.text)].join("").length;
    try {
      if (room < 1000) throw new Error(`${file.name} was left out: no room for more text.`);
      const { text, note } = await textOf(file, room);
      documents.push({ name: file.name, text });
      if (note) notes.push(note);
    } catch (error) {
      wrong.push(/** @type {Error & { hint?: string }} */ (error));
    }
  }
  if (files.length > MOST_FILES) notes.push(`The first ${MOST_FILES} files were taken.`);
  byId("note").textContent = few(notes);
  showCount();
  if (wrong.length === 0) return hideError();
  const message = few(wrong.map((error) => error.message));
  showError({ message, hint: wrong[0].hint }, () => byId("files").click());
}

/** The first of many notes. @param {string[]} notes */
const few = (notes) =>
  notes.slice(0, 3).join(" ") + (notes.length > 3 ? ` And ${notes.length - 3} more.` : "");

async function useSample() {
  const before = { text: text.value, documents };
  text.value = await (await fetch(new URL("./sample.txt", import.meta.url))).text();
  documents = [];
  byId("note").textContent = "";
  showCount();
  showSuggestions();
  if (!before.documents.length && (!before.text.trim() || before.text === text.value)) return;
  offerUndo("Your text was replaced.", () => {
    [text.value, documents] = [before.text, before.documents];
    showCount();
  });
}

function showSuggestions() {
  const buttons = SUGGESTIONS.map((words) => {
    const button = make("button", { type: "button", class: "small" }, words);
    button.addEventListener("click", () => {
      query.value = words;
      void ask(true);
    });
    return button;
  });
  byId("suggestions").replaceChildren(...buttons);
  byId("suggestions").hidden = false;
}

// --- reading it ----------------------------------------------------------------------------------

async function read() {
  const found = cutText();
  if (found.length === 0) {
    showError(new Error("There is no text yet. Paste some, open a file, or use the sample."), read);
    return;
  }
  const done = await job.run(async (signal) => {
    const model = await job.load(signal);
    passages = found;
    vectors = new Array(passages.length).fill(undefined);
    asked = [];
    ranking = [];
    await watch(model, () => embed(model, signal));
  }, read);
  if (done && query.value.trim()) await ask(true);
}

/** @param {import("../rushlight/client.js").Model} model @param {AbortSignal} signal */
async function embed(model, signal) {
  showResults();
  reveal(byId("ask"));
  const began = performance.now();
  const texts = passages.map((passage) => passage.text);
  const mine = vectors;
  phase("Reading passages", 0, `0 of ${texts.length}`);
  let done = 0;
  const batchSize = BATCH[model.device];
  for await (const vector of model.encodeStream(texts, { batchSize, signal })) {
    mine[done] = vector;
    done += 1;
    const rate = done / ((performance.now() - began) / 1000);
    const left = duration((texts.length - done) / rate);
    phase(
      "Reading passages",
      done / texts.length,
      `${done} of ${texts.length}, ${rate.toFixed(1)} per second, ${left} left`,
    );
    if (done <= visible || done % 50 === 0) showResults();
  }
  const seconds = (performance.now() - began) / 1000;
  const speed = `${(texts.length / seconds).toFixed(1)} per second`;
  phase(`${count(texts.length)} ready`, 1, `${duration(seconds)}, ${speed}`);
  showResults();
}

/** @param {boolean} on */
function busy(on) {
  pick("go", HTMLButtonElement).disabled = on;
  device.allow(!on);
  for (const id of ["csv", "json"]) {
    pick(id, HTMLButtonElement).disabled = on || !vectors.some(Boolean);
  }
  work.inProgress = on || passages.length > 0;
}

// --- asking --------------------------------------------------------------------------------------

/** @param {boolean} keep  whether the query joins the heat map's rows */
async function ask(keep) {
  asking?.abort();
  const words = query.value.trim();
  const { model } = job;
  if (!model || !vectors.some(Boolean)) {
    if (words && keep) byId("summary").textContent = "Have the text read first.";
    return;
  }
  if (!words) {
    ranking = [];
    return showResults();
  }
  const control = (asking = new AbortController());
  try {
    const known = asked.find((one) => one.text === words);
    const vector = known?.vector ?? (await model.encode(words, { signal: control.signal }))[0];
    if (control.signal.aborted) return;
    shownQuery = words;
    visible = SHOWN;
    ranking = rank(vectors, vector);
    if (keep && !known) asked = [...asked.slice(-11), { text: words, vector }];
    hideError();
    showResults();
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") return;
    await job.failed(error, control.signal, async () => {
      if (await job.reload()) await ask(keep);
    });
  }
}

function showResults() {
  document.documentElement.dataset.query = ranking.length ? shownQuery : "";
  const rows = ranking.length ? ranking : passages.map((_, index) => ({ index }));
  const terms = ranking.length ? termsOf(shownQuery) : [];
  const show = (/** @type {{ index: number, score?: number }} */ { index, score }) =>
    item(passages[index], index, score, terms, Boolean(vectors[index]));
  byId("empty").hidden = rows.length > 0;
  byId("list").hidden = rows.length === 0;
  byId("list").replaceChildren(...rows.slice(0, visible).map(show));
  byId("more").hidden = rows.length <= visible;
  const best = ranking[0];
  byId("summary").textContent = best
    ? `${count(ranking.length)}, best first`
    : rows.length
      ? `${count(rows.length)} in their order`
      : "";
  if (!byId("map").hidden) showMap();
}

// --- heat map ------------------------------------------------------------------------------------

let mapOfQueries = true;
const heat = new HeatMap(
  pick("canvas", HTMLCanvasElement),
  { left: byId("map-left"), below: byId("map-below") },
  byId("tip"),
  byId("readout"),
  (row, column) => {
    visible = Infinity;
    if (mapOfQueries) {
      query.value = asked[row].text;
      shownQuery = asked[row].text;
      ranking = rank(vectors, asked[row].vector);
    }
    showTab("results");
    showResults();
    const target = byId(`passage-${known()[column]}`);
    target.scrollIntoView({ block: "center" });
    target.focus();
  },
);

/** The passages that have a vector, as many as a map can show. */
const known = () => [...vectors.keys()].filter((i) => vectors[i]).slice(0, MAP_LIMIT);

function showMap() {
  const columns = known();
  const right = columns.map((i) => /** @type {Float32Array} */ (vectors[i]));
  const left = mapOfQueries ? asked.map((one) => one.vector) : right;
  const says = columns.map((i) => passages[i].text);
  const cut = vectors.length > MAP_LIMIT ? ` The first ${MAP_LIMIT} passages are shown.` : "";
  byId("map-note").textContent = !columns.length
    ? "Have a text read, and its similarities appear here."
    : left.length
      ? `${left.length} × ${right.length} similarities; choose a cell to read the passage.${cut}`
      : "Ask something and press Enter: each question becomes a row.";
  const empty = left.length === 0 || right.length === 0;
  /** @type {HTMLElement} */ (byId("canvas").parentElement).hidden = empty;
  byId("readout").hidden = empty;
  if (empty) return;
  heat.show({
    values: table(left, right),
    rows: mapOfQueries ? asked.map((one) => one.text) : says,
    columns: says,
    square: !mapOfQueries,
  });
  const { low, high } = heat.range();
  byId("low").textContent = low.toFixed(2);
  byId("high").textContent = high.toFixed(2);
}

/** @param {"results" | "map"} name */
function showTab(name) {
  for (const other of ["results", "map"]) {
    const tab = byId(`tab-${other}`);
    tab.setAttribute("aria-selected", String(other === name));
    tab.tabIndex = other === name ? 0 : -1;
    byId(other).hidden = other !== name;
  }
  if (name === "map") showMap();
}

// --- export --------------------------------------------------------------------------------------

function saveJson() {
  const queries = asked.map((one) => ({ query: one.text, ranking: rank(vectors, one.vector) }));
  const about = { model: job.model?.name, dim: vectors.find(Boolean)?.length };
  save("rushlight-search.json", "application/json", toJson(about, passages, vectors, queries));
}

function saveCsv() {
  const all = ranking.length ? ranking : passages.map((_, index) => ({ index, score: NaN }));
  save("rushlight-search.csv", "text/csv", `\ufeff${toCsv(passages, all, shownQuery)}`);
}

// --- wiring --------------------------------------------------------------------------------------

/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;
query.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => void ask(false), 250);
});
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  void ask(true);
});
/** @type {ReturnType<typeof setTimeout> | undefined} */
let counting;
for (const field of [text, length]) {
  field.addEventListener("input", () => {
    clearTimeout(counting);
    const much = documents.reduce((sum, one) => sum + one.text.length, text.value.length);
    if (much < 20_000) return showCount();
    showLength();
    counting = setTimeout(showCount, 400); // cutting a long text takes a while
  });
}
boundField(text, MOST / 2, (note) => (byId("note").textContent = note));
byId("try").addEventListener("click", async () => {
  await useSample();
  query.value ||= SUGGESTIONS[0];
  await read();
});
const clicks = {
  sample: useSample,
  go: read,
  csv: saveCsv,
  json: saveJson,
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
byId("more").addEventListener("click", () => {
  visible += 20;
  showResults();
});
const input = pick("files", HTMLInputElement);
openable({ drop: byId("drop"), button: byId("browse"), input }, open);
for (const name of /** @type {const} */ (["results", "map"])) {
  byId(`tab-${name}`).addEventListener("click", () => showTab(name));
  byId(`tab-${name}`).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    showTab(name === "map" ? "results" : "map");
    byId(name === "map" ? "tab-results" : "tab-map").focus();
  });
}
for (const which of ["queries", "passages"]) {
  byId(`map-${which}`).addEventListener("click", () => {
    mapOfQueries = which === "queries";
    byId("map-queries").setAttribute("aria-pressed", String(mapOfQueries));
    byId("map-passages").setAttribute("aria-pressed", String(!mapOfQueries));
    showMap();
  });
}
showCount();
job.start({
  busy,
  state: () => (passages.length ? "ready" : "empty"),
  stopped: () => phase("Stopped.", 0),
});
