// camera.js: the camera in a <video>, with what went wrong in words.

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
