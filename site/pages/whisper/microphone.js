// microphone.js: listens to the microphone and fills a tape; what goes wrong is said in words.

import { captureAudio } from "../rushlight/client.js";
import { Tape, trouble } from "./recording.js";

export const LONGEST = 2 * 3600; // seconds of one recording

/** The trouble that the browser's error names. @param {any} error */
function worded(error) {
  if (error?.hint) return error;
  const { name, message } = error ?? {};
  if (name === "NotAllowedError" || name === "SecurityError") {
    return trouble(
      "The microphone is not allowed on this page.",
      "Allow it by the sign beside the address, then try again. A file or the sample works too.",
    );
  }
  if (name === "NotFoundError" || name === "OverconstrainedError") {
    return trouble(
      "No microphone was found.",
      "Plug one in, then try again. A file or the sample works without one.",
    );
  }
  if (name === "NotReadableError" || name === "AbortError") {
    return trouble(
      "The microphone does not answer.",
      "Another program may be using it. Close that one, then try again.",
    );
  }
  return trouble(`The microphone did not start: ${message ?? error}`, "Try again, or open a file.");
}

/**
 * Starts to listen. The tape grows until `stop` is called, or the microphone or the time ends.
 * @param {{ grown: () => void, ended: (why: string) => void }} tell  `ended`: why it stopped by
 *   itself
 * @returns {Promise<{ tape: Tape, stop: () => Promise<void> }>}
 */
export async function listen({ grown, ended }) {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw trouble(
      "This page may not use a microphone.",
      "Browsers give it to addresses that begin with https:// and to localhost only.",
    );
  }
  /** @type {MediaStream | undefined} */
  let stream;
  try {
    // As it sounds: the models learned from plain recordings, and nothing here plays beside it.
    const plain = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, ...plain } });
    /** @type {Tape | null} */
    let tape = null;
    const capture = await captureAudio(stream, (samples) => {
      if (!tape?.live) return;
      tape.add(samples);
      grown();
      if (tape.seconds < LONGEST) return;
      void stop();
      ended("A recording ends after two hours. This one is complete; begin another to go on.");
    });
    const made = (tape = new Tape(capture.rate));
    const [track] = stream.getTracks();
    const stop = async () => {
      if (!made.live) return;
      made.live = false;
      track.onended = null;
      track.stop();
      await capture.stop();
      grown();
    };
    track.onended = () => {
      void stop();
      ended("The microphone was unplugged or taken back. What it heard until then is here.");
    };
    return { tape: made, stop };
  } catch (error) {
    for (const track of stream?.getTracks() ?? []) track.stop();
    throw worded(error);
  }
}
