// player.js: plays the recording, and lights its words.

import { pick } from "../shared/page.js";
import * as transcript from "./transcript.js";
import * as wave from "./wave.js";

const audio = pick("audio", HTMLAudioElement);
const button = pick("play", HTMLButtonElement);

/** Gives the player what it plays; null while there is nothing. @param {Blob | null} blob */
export function load(blob) {
  audio.pause();
  if (audio.src) URL.revokeObjectURL(audio.src);
  audio.removeAttribute("src");
  button.disabled = !blob;
  if (blob) audio.src = URL.createObjectURL(blob);
}

/** Shows where the player is; a tab in the background has no frames, and shows it later. */
function follow() {
  if (!audio.src) return;
  wave.show({ at: audio.currentTime });
  transcript.light(audio.currentTime, !audio.paused);
  if (!audio.paused) requestAnimationFrame(follow);
}

function changed() {
  button.classList.toggle("on", !audio.paused);
  button.setAttribute("aria-label", audio.paused ? "Play" : "Pause");
  follow();
}

/** Plays from a place. @param {number} seconds */
export function jump(seconds) {
  if (!audio.src) return;
  audio.currentTime = seconds;
  void audio.play().catch(() => {});
}

/** Goes to a place, and plays if it was playing. @param {number} seconds */
function seek(seconds) {
  if (!audio.src) return;
  audio.currentTime = seconds;
  wave.show({ at: seconds }); // keys that follow quickly go on from here
}

function toggle() {
  if (!audio.src) return;
  if (audio.paused) void audio.play().catch(() => {});
  else audio.pause();
}

/** @param {() => void} unplayable  called if the browser cannot play what it was given */
export function start(unplayable) {
  wave.start(seek, toggle);
  button.addEventListener("click", toggle);
  for (const kind of ["play", "pause", "ended", "seeked"]) audio.addEventListener(kind, changed);
  audio.addEventListener("error", () => {
    if (!audio.src) return;
    button.disabled = true;
    unplayable();
  });
}
