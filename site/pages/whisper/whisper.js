// whisper.js: the whisper page: a recording is heard part by part, and played with its words lit.

import { byId, duration, make, pick, save, size, turns, work } from "../shared/page.js";
import * as chosen from "../shared/model.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { hideError, phase, showError, showLoading } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { Heard, hearFile, hearLive } from "./hearing.js";
import { listen } from "./microphone.js";
import { SILENCE } from "./peaks.js";
import * as player from "./player.js";
import { openFile, readPeaks } from "./recording.js";
import * as transcript from "./transcript.js";
import * as wave from "./wave.js";

/** @typedef {import("./recording.js").Recording} Recording */

/** By ending: the media type of what is saved. */
const TYPES = {
  txt: "text/plain", srt: "application/x-subrip", vtt: "text/vtt", tsv: "text/tab-separated-values",
  json: "application/json",
}; // prettier-ignore
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
const turn = turns();

/** @type {Recording | null} */
let recording = null;
let heard = new Heard();
/** @type {{ stop: () => Promise<void> } | null} */
let microphone = null;
let asking = false; // for the microphone
let heardWith = ""; // the choices that what was heard so far was heard with
/** @type {AbortController | null} the reading of the waveform */
let reading = null;
/** The site's model of voices, if it has one. @type {{ url: URL, bytes: number } | null} */
let finder = null;
/** It, loaded into a runtime. @type {{ runtime: unknown, model: chosen.Model } | null} */
let voices = null;
/** The options that the loaded model follows; null before. @type {Set<string> | null} */
let follows = null;
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
  wave.show({ segments: heard.segments, speech: heard.speech });
  document.documentElement.dataset.heard = heard.text;
  showControls();
}

/** What the model's name says of its languages. */
function showLanguages() {
  const where = chosen.source();
  const name = Array.isArray(where) ? (job.model?.name ?? "") : String(where ?? "");
  const named = /\.en(?=$|[-_./])/.test(name);
  const english = follows && job.model ? !follows.has("language") : named;
  language.disabled = english;
  for (const input of document.querySelectorAll('[name="task"]')) {
    /** @type {HTMLInputElement} */ (input).disabled = english;
  }
  byId("languages-say").textContent = !english
    ? ""
    : named
      ? "This model knows English only. One without “.en” in its name knows 99 languages."
      : "This model writes the language that it was made for, as it is spoken.";
  // What the buttons download is said beside them, too.
  if (!recording && !job.model) {
    const also = finder
      ? ` To find speech in recordings, silero-vad: ${size(finder.bytes)} more.`
      : " This site has no silero-vad: recordings are cut where they are quietest.";
    say(`The model: ${byId("model-note").textContent}${also}`);
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
  if (speed > 0) byId("speed").textContent = `${speed.toFixed(1)} times as fast as speech.`;
  if (document.hidden) document.title = `${Math.floor((100 * through) / total)} % – ${title}`;
}

// --- hearing -------------------------------------------------------------------------------------

function options() {
  const task = /** @type {HTMLInputElement} */ (document.querySelector('[name="task"]:checked'));
  if (language.disabled) return {};
  return { task: task.value, language: language.value || undefined };
}

/** What finds speech in files, loaded once. @param {AbortSignal} signal */
async function finding(signal) {
  if (!finder) return null;
  const runtime = chosen.rushlight();
  if (voices?.runtime !== runtime) {
    const model = await runtime.load(finder.url, { signal, onProgress: showLoading });
    voices = { runtime, model };
  }
  return voices.model.pipeline("voice-activity-detection");
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
    follows = new Set(Object.keys(pipe.task.options.properties));
    showLanguages();
    const finds = mine.live ? null : await finding(signal);
    const began = performance.now();
    const from = heard.until;
    const changed = (/** @type {number} */ through) => {
      showText();
      showProgress(through, began, from);
    };
    changed(from);
    const grown = () => new Promise((resolve) => (wake = () => resolve(undefined)));
    signal.addEventListener("abort", () => wake());
    await watch(model, () =>
      mine.live
        ? hearLive(model, pipe, mine, heard, asked, signal, { changed, grown })
        : hearFile(pipe, finds, mine, heard, asked, signal, changed),
    );
    showText();
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
  wave.show({ recording: next, segments: [], speech: [], at: 0 });
  showText();
  hideError();
}

/** @param {Blob | undefined} blob @param {string} name */
async function open(blob, name) {
  if (!blob) return;
  const last = turn();
  await job.stop();
  try {
    const found = await openFile(blob, name);
    if (!last()) return;
    take(found, name);
    player.load(blob);
    if (found.seconds > 600) say(`${wave.clock(found.seconds)} long. You may read from the start.`);
    reading?.abort();
    const { signal } = (reading = new AbortController());
    readPeaks(found, signal, () => wave.show({})).catch(() => {}); // hearing tells what is wrong
    await transcribe();
  } catch (error) {
    if (last()) showError(error, () => void open(blob, name));
  }
}

/** Begins to record, or ends it. */
async function record() {
  if (microphone) return microphone.stop().then(over);
  if (asking) return;
  asking = true;
  turn();
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

/** The text in a form, by the formatter of the command line. @param {keyof typeof TYPES} form */
function written(form) {
  const segments = heard.segments.filter(({ text }) => text.trim() !== "");
  const text = segments.map((segment) => segment.text.trim()).join(" ");
  const about = { text, language: heard.language, duration: recording?.seconds ?? 0 };
  return chosen.rushlight().subtitles({ ...about, segments }, form);
}

/** @param {keyof typeof TYPES} form */
async function saveText(form) {
  const stem = (recording?.name ?? "text").replace(/\.[^.]*$/, "");
  try {
    save(`${stem}.${form}`, TYPES[form], await written(form));
  } catch (error) {
    showError(error, () => void saveText(form));
  }
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
    await navigator.clipboard.writeText(await written("txt"));
    say("Copied.");
  },
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
for (const button of document.querySelectorAll(".save")) {
  const { ending } = /** @type {HTMLElement} */ (button).dataset;
  button.addEventListener("click", () => void saveText(/** @type {keyof typeof TYPES} */ (ending)));
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
  follows = null;
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
void chosen.onSite("voice-activity-detection").then((found) => {
  finder = found;
  showLanguages();
});
new MutationObserver(showLanguages).observe(byId("model-note"), { childList: true });
