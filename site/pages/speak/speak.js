// speak.js: the speak page: a text is spoken sentence by sentence, and heard as it is made.

import { byId, duration, offerUndo, pick, save, turns, work } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { hideError, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { openable } from "../shared/opening/dropping.js";
import { boundField, textOf } from "../shared/opening/text.js";
import * as reading from "./reading.js";
import { Sound } from "./sound.js";

const MOST = 200_000; // characters of a text
const SAMPLE = `A rushlight is a candle made of a rush and a little fat. It was a light that \
anybody could afford: in 1790, a pound of them cost 3 pence. It burns for half an hour. Then the \
room is dark again.`;

const text = pick("text", HTMLTextAreaElement);
const speed = pick("speed", HTMLInputElement);
const speaker = pick("speaker", HTMLInputElement);
const place = pick("place", HTMLInputElement);
const play = pick("play", HTMLButtonElement);
const turn = turns();
const sound = new Sound(changed);
let fileName = "speech";

/** @param {number} seconds */
function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Shows where the player is. */
function follow() {
  place.value = String(sound.place);
  byId("clock").textContent = `${clock(sound.place)} / ${clock(sound.length)}`;
  reading.light(sound.place, sound.playing);
  document.documentElement.dataset.place = sound.place.toFixed(2);
  if (sound.playing) requestAnimationFrame(follow);
}

function changed() {
  play.classList.toggle("on", sound.playing);
  play.setAttribute("aria-label", sound.playing ? "Pause" : "Play");
  follow();
}

/** What follows a piece that was made. */
function longer() {
  const some = sound.length > 0;
  place.max = String(sound.length);
  place.disabled = play.disabled = !some;
  pick("save", HTMLButtonElement).disabled = !some;
}

/** The options of the task, as they are chosen. */
function options() {
  const chosen = byId("speaker-choice").hidden ? {} : { speaker: Number(speaker.value) };
  return { speed: Number(speed.value), ...chosen };
}

/** Speaks the text; an earlier run that is still at work is dropped. */
function speak() {
  return job.run(async (signal) => {
    const said = text.value;
    sound.begin(); // within the press: browsers allow sound there
    longer();
    reading.begin(said);
    try {
      const model = await job.loaded(signal);
      const pipe = await model.pipeline("text-to-speech");
      const began = performance.now();
      let first = 0;
      await watch(model, async () => {
        for await (const piece of pipe.stream(said, { ...options(), signal })) {
          first ||= (performance.now() - began) / 1000;
          const { audio, samplingRate: rate, words, phonemes, start, end } = piece;
          const own = words.map((word) => ({
            ...word,
            start: word.start - start,
            end: word.end - start,
          }));
          reading.add({ words: own, phonemes, length: audio.length / rate }, resay);
          sound.add({ audio, rate });
          longer();
          byId("says").textContent = `${end.toFixed(1)} s of speech`;
        }
      });
      const seconds = (performance.now() - began) / 1000;
      const times = (sound.length / seconds).toFixed(1);
      byId("says").textContent =
        `${sound.length.toFixed(1)} s of speech in ${duration(seconds)}, ` +
        `${times} times real time; first sound after ${duration(first)}`;
      document.documentElement.dataset.spoken = said;
    } finally {
      sound.end();
      reading.end();
      follow();
    }
  }, begin);
}

/** Says a sentence by other phonemes. @param {string} phonemes @param {number} index */
function resay(phonemes, index) {
  void job.run(
    async (signal) => {
      const model = await job.loaded(signal);
      const pipe = await model.pipeline("text-to-speech");
      const words = phonemes.split(/\s+/).map((word) => `[[${word}]]`);
      const made = await pipe(words.join(" "), { ...options(), signal });
      const { audio, samplingRate: rate } = made;
      reading.replace(index, { words: made.words, phonemes, length: audio.length / rate });
      sound.replace(index, { audio, rate });
      longer();
      byId("says").textContent = `Sentence ${index + 1} was made anew.`;
      document.documentElement.dataset.resaid = phonemes;
      sound.play(sound.startOf(index));
    },
    () => resay(phonemes, index),
  );
}

/** Asks for speech by the button. */
function begin() {
  if (text.value.trim()) return void speak();
  showError(new Error("There is no text yet. Type one, open a file, or use the sample."), begin);
}

// --- documents -----------------------------------------------------------------------------------

/** @param {File[]} files */
async function open([file]) {
  if (!file) return;
  const last = turn();
  try {
    const opened = await textOf(file, MOST);
    if (!last()) return;
    replaceText(opened.text, file.name.replace(/\.[^.]*$/, ""));
    byId("note").textContent = opened.note;
  } catch (error) {
    if (last()) showError(error, () => byId("file").click());
  }
}

/** Takes another text; the one before can be had back. @param {string} another
 *  @param {string} name */
function replaceText(another, name) {
  const before = { text: text.value, name: fileName };
  put(another, name);
  if (before.text.trim() && before.text !== SAMPLE && before.text !== another) {
    offerUndo("The text was replaced.", () => put(before.text, before.name));
  }
}

/** @param {string} another @param {string} name */
function put(another, name) {
  [text.value, fileName] = [another, name];
  byId("note").textContent = "";
  hideError();
  work.inProgress = text.value.trim() !== "";
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  go: begin,
  sample: () => replaceText(SAMPLE, "rushlight"),
  play: () => (sound.playing ? sound.pause() : sound.play()),
  save: () => save(`${fileName}.wav`, "audio/wav", new Blob([sound.wav()])),
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
text.addEventListener("input", () => (work.inProgress = text.value.trim() !== ""));
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin();
});
speed.addEventListener("input", () => (byId("speed-says").textContent = `${Number(speed.value)}×`));
place.addEventListener("input", () => {
  sound.seek(Number(place.value));
  follow();
});
reading.start((seconds) => sound.play(seconds));
openable(
  { drop: byId("drop"), button: byId("browse"), input: pick("file", HTMLInputElement) },
  open,
);
boundField(text, MOST, (note) => (byId("note").textContent = note));

job.start({
  busy(on) {
    byId("reading").setAttribute("aria-busy", String(on));
    device.allow(!on);
  },
  async loaded(model) {
    byId("cost").textContent = "";
    if (!model) return;
    const { task } = await model.pipeline("text-to-speech");
    byId("speaker-choice").hidden = !("speaker" in task.options.properties);
  },
});
// What the button downloads is said beside it, too.
new MutationObserver(() => {
  byId("cost").textContent = job.model ? "" : byId("model-note").textContent;
}).observe(byId("model-note"), { childList: true });
