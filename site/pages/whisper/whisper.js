// whisper.js: the whisper page: a recording is heard part by part, and played with its words lit.

import { byId, duration, make, pick, save, work } from "../shared/page.js";
import * as chosen from "../shared/model.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { hideError, phase, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { Heard, hear } from "./hearing.js";
import { listen } from "./microphone.js";
import { SILENCE } from "./peaks.js";
import * as player from "./player.js";
import { openFile, readPeaks } from "./recording.js";
import * as transcript from "./transcript.js";
import * as wave from "./wave.js";
import { WRITERS, written } from "./writers.js";

/** @typedef {import("./recording.js").Recording} Recording */

const SAMPLE = new URL("../shared/jfk.wav", import.meta.url);
const QUIET = 4; // seconds of a silent microphone after which the page says so
const BEHIND = 30; // seconds
// The languages of Whisper, by how much of each it was trained on.
const LANGUAGES = `en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da
  hu ta no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw
  gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt
  haw ln ha ba jw su yue`.split(/\s+/);

const language = pick("language", HTMLSelectElement);
const title = document.title;

/** @type {Recording | null} */
let recording = null;
let heard = new Heard();
/** @type {{ stop: () => Promise<void> } | null} */
let microphone = null;
let asking = false; // for the microphone
let heardWith = ""; // the choices that what was heard so far was heard with
/** @type {AbortController | null} the reading of the waveform */
let reading = null;
/** Wakes who waits for a recording to grow. @type {() => void} */
let wake = () => {};

// --- showing -------------------------------------------------------------------------------------

/** @param {string} words */
const say = (words) => {
  if (byId("says").textContent !== words) byId("says").textContent = words;
};

const done = () => Boolean(recording) && !recording?.live && heard.until >= left();
const left = () => (recording?.seconds ?? 0) - 0.05;
const choice = () => JSON.stringify([options(), String(chosen.key())]);
/** Whether something else was chosen since. */
const stale = () => heardWith !== "" && heardWith !== choice();

function showControls() {
  const record = byId("record");
  const on = microphone !== null;
  record.setAttribute("aria-pressed", String(on));
  byId("record-says").textContent = on ? "Stop recording" : "Record";
  for (const id of ["browse", "sample"]) pick(id, HTMLButtonElement).disabled = on;
  byId("go").hidden = !recording || on || job.busy() || (done() && !stale());
  byId("go").textContent = stale() ? "Transcribe again" : heard.until ? "Resume" : "Transcribe";
  const some = heard.segments.length > 0;
  for (const button of document.querySelectorAll("#edit, #copy, .save")) {
    /** @type {HTMLButtonElement} */ (button).disabled = !some;
  }
  if (on) pick("edit", HTMLButtonElement).disabled = true; // the last line may still change
  work.inProgress = some || on;
}

function showText() {
  transcript.show(heard.segments, heard.tentative);
  wave.show({ segments: heard.segments });
  document.documentElement.dataset.heard = heard.text;
  showControls();
}

/** What the model's name says of its languages. */
function showLanguages() {
  const where = chosen.source();
  const name = Array.isArray(where) ? (job.model?.name ?? "") : String(where ?? "");
  const english = /\.en(?=$|[-_./])/.test(name);
  language.disabled = english;
  for (const input of document.querySelectorAll('[name="task"]')) {
    /** @type {HTMLInputElement} */ (input).disabled = english;
  }
  byId("languages-say").textContent = english
    ? "This model knows English only. One without “.en” in its name knows 99 languages."
    : "";
  // What the buttons download is said beside them, too.
  if (!recording && !job.model) {
    say(`The model: ${byId("model-note").textContent}`);
  }
}

/** How far it is, and how long it will take. @param {number} through  the second heard to
 *  @param {number} began  @param {number} from  the second at which this run began */
function showProgress(through, began, from) {
  if (!recording) return;
  const spent = (performance.now() - began) / 1000;
  const speed = (through - from) / spent;
  if (recording.live) {
    const behind = Math.max(0, recording.seconds - through);
    phase("Listening", null, `${duration(behind)} behind`);
    if (recording.peaks.between(0, recording.seconds) < SILENCE) return;
    say(
      behind > BEHIND
        ? "This device writes slower than you speak. Nothing is lost: the text follows."
        : "Grey words may still change.",
    );
    return;
  }
  const total = recording.seconds;
  const rest = (total - through) / speed;
  const wait = through < total && speed > 0 ? `, about ${duration(rest)} left` : "";
  const details = `${wave.clock(through)} of ${wave.clock(total)}${wait}`;
  phase("Transcribing", through / total, details);
  byId("speed").textContent = `${speed.toFixed(1)} times as fast as speech.`;
  if (document.hidden) document.title = `${Math.floor((100 * through) / total)} % – ${title}`;
}

// --- hearing -------------------------------------------------------------------------------------

function options() {
  const task = /** @type {HTMLInputElement} */ (document.querySelector('[name="task"]:checked'));
  return {
    task: language.disabled ? "transcribe" : task.value,
    language: language.disabled ? null : language.value || null,
  };
}

/** Hears the rest of the recording, with the model that is chosen. */
function transcribe() {
  return job.run(async (signal) => {
    if (!recording) return;
    const asked = options();
    if (stale() && !recording.live) heard = new Heard(); // from the beginning
    heardWith = choice();
    if (heard.segments.length === 0) byId("speed").textContent = "";
    const mine = recording;
    const model = await job.load(signal);
    const pipe = await model.pipeline("automatic-speech-recognition");
    const began = performance.now();
    const from = heard.until;
    const changed = (/** @type {number} */ through) => {
      showText();
      showProgress(through, began, from);
    };
    changed(from);
    const grown = () => new Promise((resolve) => (wake = () => resolve(undefined)));
    signal.addEventListener("abort", () => wake());
    await watch(model, () => hear(pipe, mine, heard, asked, signal, { changed, grown }));
    byId("status").hidden = true;
    const seconds = (performance.now() - began) / 1000;
    const words = heard.segments.reduce((sum, segment) => sum + segment.words.length, 0);
    byId("speed").textContent =
      `${words} words in ${duration(mine.seconds)} of sound, heard in ${duration(seconds)}.`;
    byId("said").textContent = "The text is complete.";
    say(words ? "" : nothing(mine));
  }, transcribe);
}

/** Why there is no text. @param {Recording} from */
function nothing(from) {
  const most = from.peaks.between(0, from.seconds);
  if (most >= SILENCE) return "No speech was found in this recording.";
  const told = "This recording is silent from beginning to end.";
  return from.name === "recording.wav"
    ? `${told} Is the microphone muted, or is another one chosen?`
    : told;
}

/** Begins with another recording. @param {Recording} next @param {string} name */
function take(next, name) {
  recording = next;
  heard = new Heard();
  heardWith = "";
  if (byId("edit").getAttribute("aria-pressed") === "true") toggleEdit();
  byId("player").hidden = false;
  byId("source-name").textContent = name;
  byId("speed").textContent = "";
  say("");
  wave.show({ recording: next, segments: [], at: 0 });
  showText();
  hideError();
}

/** @param {Blob | undefined} blob @param {string} name */
async function open(blob, name) {
  if (!blob) return;
  await job.stop();
  try {
    const found = await openFile(blob, name);
    take(found, name);
    player.load(blob);
    if (found.seconds > 600) say(`${wave.clock(found.seconds)} long. You may read from the start.`);
    reading?.abort();
    const { signal } = (reading = new AbortController());
    readPeaks(found, signal, () => wave.show({})).catch(() => {}); // hearing tells what is wrong
    await transcribe();
  } catch (error) {
    showError(error, () => void open(blob, name));
  }
}

/** Begins to record, or ends it. */
async function record() {
  if (microphone) return microphone.stop().then(over);
  if (asking) return;
  asking = true;
  await job.stop();
  player.load(null);
  try {
    say("Waiting for the microphone…");
    const made = await listen({ grown, ended });
    microphone = made;
    take(made.tape, "From the microphone");
    say("Speak. What you say is kept while the model loads.");
    void transcribe();
  } catch (error) {
    say("");
    showError(error, () => void record());
  } finally {
    asking = false;
    showControls();
  }
}

/** Follows a recording that grows. */
function grown() {
  wave.show({});
  wake();
  if (!recording?.live || recording.seconds < QUIET) return;
  if (recording.peaks.between(0, recording.seconds) >= SILENCE) return;
  say("The microphone is silent. Is it muted, or is another one chosen?");
}

/** Follows the end of a recording. */
function over() {
  microphone = null;
  player.load(recording?.blob() ?? null);
  wake();
  wave.show({});
  showControls();
}

/** @param {string} why  it ended by itself */
function ended(why) {
  over();
  say(why);
}

// --- text ----------------------------------------------------------------------------------------

function toggleEdit() {
  const button = byId("edit");
  const on = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(on));
  button.textContent = on ? "Done" : "Edit";
  transcript.edit(on);
  showText();
}

/** @param {keyof typeof WRITERS} ending */
function saveText(ending) {
  const { type, write } = WRITERS[ending];
  const about = { language: heard.language, duration: recording?.seconds ?? 0 };
  const stem = (recording?.name ?? "text").replace(/\.[^.]*$/, "");
  save(`${stem}.${ending}`, type, write(written(heard.segments), about));
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  record,
  browse: () => byId("file").click(),
  async sample() {
    const answer = await fetch(SAMPLE).catch(() => null);
    if (answer?.ok) return open(await answer.blob(), "jfk.wav");
    showError(new Error("The sample did not come."), () => void clicks.sample());
  },
  go: () => void transcribe(),
  edit: toggleEdit,
  async copy() {
    await navigator.clipboard.writeText(WRITERS.txt.write(written(heard.segments)));
    say("Copied.");
  },
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
for (const button of document.querySelectorAll(".save")) {
  const { ending } = /** @type {HTMLElement} */ (button).dataset;
  button.addEventListener("click", () => saveText(/** @type {keyof typeof WRITERS} */ (ending)));
}
const input = pick("file", HTMLInputElement);
input.addEventListener("change", () => {
  const file = input.files?.[0];
  input.value = ""; // so that the same file can be chosen again
  void open(file, file?.name ?? "");
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  byId("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    byId("drop").classList.toggle("over", kind === "dragover");
    const dropped = /** @type {DragEvent} */ (event).dataTransfer?.files[0];
    const file = kind === "drop" ? dropped : undefined;
    if (!microphone) void open(file, file?.name ?? "");
  });
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) document.title = title;
  else if (job.busy()) document.title = `Working – ${title}`;
  if (document.hidden || !job.busy()) return;
  wave.show({});
  say(
    microphone
      ? "While this tab was in the background, recording went on; the text may be behind."
      : "While this tab was in the background, the work went on.",
  );
});
language.append(
  ...LANGUAGES.map((code) => {
    const name = new Intl.DisplayNames("en", { type: "language" }).of(code) ?? code;
    return make("option", { value: code }, code === "jw" ? "Javanese" : name);
  }),
);
for (const control of document.querySelectorAll('#language, [name="task"]')) {
  control.addEventListener("change", showControls);
}
byId("model-choice").addEventListener("change", () => {
  showLanguages();
  showControls();
});
player.start(() => say("This browser cannot play the recording, but it can be read."));
transcript.start(player.jump, () => wave.show({ segments: heard.segments }));

job.start({
  busy(on) {
    byId("transcript").setAttribute("aria-busy", String(on));
    device.allow(!on);
    if (!on) document.title = title;
    showControls();
  },
  loaded: showLanguages,
  stopped() {
    byId("status").hidden = true;
    void microphone?.stop().then(over);
    say(recording && !done() ? "Stopped. What was heard stays; Resume goes on." : "");
  },
});
new MutationObserver(showLanguages).observe(byId("model-note"), { childList: true });
