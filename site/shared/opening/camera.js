// camera.js: the camera in a <video>, with what went wrong in words.

import { byId } from "../page.js";
import { showError } from "../status.js";
import { drawn } from "./picture.js";

export class Camera {
  /** @type {MediaStream | null} */
  #stream = null;
  #video;
  #ended;

  /** @param {HTMLVideoElement} video
   *  @param {() => void} ended  called when the camera ends by itself */
  constructor(video, ended) {
    this.#video = video;
    this.#ended = ended;
  }

  get on() {
    return this.#stream !== null;
  }

  /** Opens the camera, the one that looks away from the visitor where there are two. */
  async open() {
    const media = navigator.mediaDevices;
    if (!media) throw new Error("The camera needs a secure address (https). Open a picture.");
    try {
      this.#stream = await media.getUserMedia({ video: { facingMode: "environment" } });
    } catch (error) {
      throw new Error(words(/** @type {Error} */ (error).name));
    }
    for (const track of this.#stream.getTracks()) {
      track.addEventListener("ended", () => {
        this.close();
        this.#ended();
      });
    }
    this.#video.srcObject = this.#stream;
    this.#video.hidden = false;
    await this.#video.play();
  }

  /** What it shows; null before its first picture. @param {number} [most] of pixels on a side */
  frame(most) {
    const { videoWidth, videoHeight } = this.#video;
    return videoWidth ? drawn(this.#video, videoWidth, videoHeight, most) : null;
  }

  close() {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    if (this.#stream) this.#video.srcObject = null;
    this.#stream = null;
    this.#video.hidden = true;
  }
}

/** The camera behind the button "camera", which opens it, and takes its picture the next time.
 *  @param {HTMLVideoElement} video @param {() => void} changed  called when it is opened or closed
 *  @param {(seen: ImageData) => unknown} take */
export function shutter(video, changed, take) {
  const camera = new Camera(video, leave);

  /** @param {string} word */
  function show(word) {
    byId("camera").textContent = word;
    changed();
  }

  function leave() {
    camera.close();
    show("Camera");
  }

  /** @returns {Promise<void>} */
  async function press() {
    if (camera.on) {
      const seen = camera.frame();
      if (seen) void take(seen);
      return leave();
    }
    try {
      await camera.open();
    } catch (error) {
      return showError(error, press);
    }
    show("Take it");
  }

  return { camera, press };
}

/** @param {string} name  of the browser's error */
function words(name) {
  if (name === "NotAllowedError") {
    return "The camera was refused. Allow it in the browser's bar, or open a picture.";
  }
  if (name === "NotReadableError") {
    return "The camera is in use by another program. Close that, or open a picture.";
  }
  return "There is no camera here. Open a picture instead.";
}
