// translate.js: the translate page: sentences are translated as they are typed, each once.

import { byId, duration, make, offerUndo, pick, save, turns, work } from "../shared/page.js";
import * as chosen from "../shared/model.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { hideError, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { openable } from "../shared/opening/dropping.js";
import { boundField, textOf } from "../shared/opening/text.js";
import { pieces } from "./shape.js";

/** @typedef {import("./shape.js").Piece} Piece */

const PAUSE = 250; // milliseconds without a key before a translation begins
const BATCH = 8; // sentences; a stop waits for one step of one batch
const MOST_KEPT = 100_000;
const MOST = 200_000; // characters of a text
const SAMPLE = {
  en: `# A rushlight

A rushlight is a candle made of a rush and a little fat. It was a light that anybody could afford.

- The rush is cut in summer and dried.
- The fat is warmed in a pan.

It burns for half an hour. Then the room is dark again.`,
  pt: `# Uma vela de junco

Uma vela de junco é feita de um junco e um pouco de gordura. Era uma luz que todos podiam pagar.

- O junco é cortado no verão e seco.
- A gordura é aquecida em uma panela.

Ela queima por meia hora. Depois a sala fica escura de novo.`,
};

const source = pick("source", HTMLTextAreaElement);
const target = byId("target");
const site = pick("model-site", HTMLSelectElement);
const codes = {
  source: pick("source-code", HTMLInputElement),
  target: pick("target-code", HTMLInputElement),
};

/** Translations by what they depend on: model, languages, sentence. @type {Map<string, string>} */
const kept = new Map();
const turn = turns();
let fileName = "translation.txt";

// --- languages -----------------------------------------------------------------------------------

/** The languages in a model's name, such as bergamot-en-pt. @param {string} name */
function pairIn(name) {
  const found = /(?:^|[-_.])([a-z]{2,3})-([a-z]{2,3})(?:[-_.]|$)/.exec(name);
  return found ? { source: found[1], target: found[2] } : null;
}

/** The name of the model that is chosen, as far as its place tells it. */
function chosenName() {
  const where = chosen.source();
  if (where instanceof URL || typeof where === "string") {
    return String(where).split("/").filter(Boolean).pop() ?? "";
  }
  return job.model?.name ?? "";
}

/** Source and target as they are chosen; "" where nothing says. */
function languages() {
  return pairIn(chosenName()) ?? { source: codes.source.value, target: codes.target.value };
}

/** A language's name. @param {string} code @param {string} otherwise */
function named(code, otherwise) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code) ?? otherwise;
  } catch {
    return otherwise; // a spelling of the model's own
  }
}

/** The option of this site's models that translates the other way. */
function reverse() {
  const pair = pairIn(chosenName());
  if (!pair || byId("kind-site").hidden) return null;
  const name = chosenName().replace(
    `${pair.source}-${pair.target}`,
    `${pair.target}-${pair.source}`,
  );
  return [...site.options].find((option) => option.value.endsWith(`/${name}/`)) ?? null;
}

function showLanguages() {
  const pair = pairIn(chosenName());
  const { source: from, target: to } = languages();
  byId("languages").hidden = pair !== null || !chosenName();
  byId("from").textContent = named(from, "Text");
  byId("to").textContent = named(to, "Translation");
  source.lang = from;
  target.lang = to;
  pick("swap", HTMLButtonElement).disabled = pair ? !reverse() : !from || !to;
}

async function swap() {
  const text = target.querySelector(".waiting") ? "" : target.textContent;
  const other = reverse();
  if (other) {
    site.value = other.value;
    site.dispatchEvent(new Event("change"));
  } else {
    [codes.source.value, codes.target.value] = [codes.target.value, codes.source.value];
  }
  if (text) source.value = text;
  changed();
  // Another model is downloaded by the button only.
  const where = chosen.source();
  const { bytes, cachedBytes } = where
    ? await chosen.rushlight().describe(where)
    : { bytes: null, cachedBytes: 0 };
  if (job.model && (!other || (bytes !== null && cachedBytes >= bytes))) await translate();
}

// --- translating ---------------------------------------------------------------------------------

/** What a sentence's translation depends on. @param {string} sentence */
function keyOf(sentence) {
  const { source: from, target: to } = languages();
  return JSON.stringify([String(chosen.source()), from, to, sentence]);
}

/** Shows the document with the translations that are there. */
function show() {
  const parts = pieces(source.value, languages().source).map(({ text, keep }) => {
    const said = keep ? text : kept.get(keyOf(text));
    return said === undefined ? make("span", { class: "waiting" }, text) : said;
  });
  target.replaceChildren(...parts);
  const waiting = target.querySelectorAll(".waiting").length;
  const whole = waiting === 0 && source.value.trim() !== "";
  for (const id of ["copy", "save"]) pick(id, HTMLButtonElement).disabled = !whole;
  document.documentElement.dataset.shown = whole ? source.value : "";
  return waiting;
}

function showCount() {
  const found = pieces(source.value, languages().source).filter(({ keep }) => !keep).length;
  const count = found ? `${found} sentence${found === 1 ? "" : "s"}` : "";
  // What the button downloads is said beside it, too.
  byId("count").textContent = job.model ? count : byId("model-note").textContent;
}

/** Translates what is not translated yet; an earlier run that is still at work is dropped. */
function translate() {
  return job.run(async (signal) => {
    const model = await job.loaded(signal);
    const { source: from, target: to } = languages();
    const several = pairIn(chosenName()) ? {} : { source: from || null, target: to || null };
    const pipe = await model.pipeline("translation", several);
    const left = pieces(source.value, from).filter(({ keep }) => !keep);
    const sentences = [...new Set(left.map(({ text }) => text))].filter(
      (text) => !kept.has(keyOf(text)),
    );
    const began = performance.now();
    show();
    await watch(model, async () => {
      for (let at = 0; at < sentences.length; at += BATCH) {
        const some = sentences.slice(at, at + BATCH);
        const said = await pipe(some, { signal, truncate: true });
        signal.throwIfAborted();
        some.forEach((sentence, i) => kept.set(keyOf(sentence), said[i]));
        const done = Math.min(at + BATCH, sentences.length);
        byId("speed").textContent = `${done} of ${sentences.length}`;
        show();
      }
    });
    for (const key of kept.keys()) {
      if (kept.size <= MOST_KEPT) break;
      kept.delete(key);
    }
    const seconds = (performance.now() - began) / 1000;
    const count = `${sentences.length} sentence${sentences.length === 1 ? "" : "s"}`;
    byId("speed").textContent = sentences.length ? `${count} in ${duration(seconds)}` : "";
    show();
  }, translate);
}

/** Asks for a translation by the button. */
function begin() {
  if (source.value.trim()) return void translate();
  showError(new Error("There is no text yet. Type one, open a file, or use the sample."), begin);
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;

/** Follows a change of the text. */
function changed() {
  clearTimeout(typing);
  showLanguages();
  showCount();
  work.inProgress = source.value.trim() !== "";
  const waiting = show();
  byId("speed").textContent = "";
  if (job.model && waiting) typing = setTimeout(() => void translate(), PAUSE);
  else if (job.busy() && job.model) void job.stop();
}

// --- documents -----------------------------------------------------------------------------------

/** @param {File[]} files */
async function open([file]) {
  if (!file) return;
  const last = turn();
  try {
    const { text, note } = await textOf(file, MOST);
    if (!last()) return;
    replaceText(text, file.name);
    byId("note").textContent = note;
  } catch (error) {
    if (last()) showError(error, () => byId("file").click());
  }
}

/** Takes another text; the one before can be had back. @param {string} text @param {string} name */
function replaceText(text, name) {
  const before = { text: source.value, name: fileName };
  const own = before.text.trim() !== "" && !Object.values(SAMPLE).includes(before.text);
  put(text, name);
  if (own && before.text !== text) {
    offerUndo("The text was replaced.", () => put(before.text, before.name));
  }
}

/** @param {string} text @param {string} name */
function put(text, name) {
  [source.value, fileName] = [text, name];
  byId("note").textContent = "";
  hideError();
  changed();
}

function saveTranslation() {
  const [, stem, ending = ".txt"] = /^(.*?)(\.[^.]*)?$/.exec(fileName) ?? ["", "translation"];
  const { target: to } = languages();
  save(`${stem}${to ? `.${to}` : ""}${ending}`, "text/plain", target.textContent ?? "");
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  go: begin,
  swap,
  sample() {
    replaceText(languages().source === "pt" ? SAMPLE.pt : SAMPLE.en, "rushlight.md");
  },
  async copy() {
    await navigator.clipboard.writeText(target.textContent ?? "");
    byId("speed").textContent = "Copied.";
  },
  save: saveTranslation,
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
source.addEventListener("input", changed);
for (const code of Object.values(codes)) code.addEventListener("change", changed);
const input = pick("file", HTMLInputElement);
openable({ drop: byId("drop"), button: byId("browse"), input }, open);
boundField(source, MOST, (note) => (byId("note").textContent = note));
byId("model-choice").addEventListener("change", showLanguages);

job.start({
  busy(on) {
    target.setAttribute("aria-busy", String(on));
    device.allow(!on);
  },
  loaded(model) {
    if (!model) return;
    if (Array.isArray(chosen.source())) kept.clear(); // the key does not tell files apart
    showLanguages();
  },
});
new MutationObserver(() => {
  showLanguages();
  showCount();
}).observe(byId("model-note"), { childList: true });
