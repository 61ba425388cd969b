// source.js: what is looked at: a picture, the camera or a video, frame by frame.

import { Camera } from "../shared/opening/camera.js";
import { drawn, pixelsOf } from "../shared/opening/picture.js";
import { turns } from "../shared/page.js";

const MOST_LIVE = 1280; // pixels on a side of a frame: models take fewer

export class Source {
  /** @type {"nothing" | "picture" | "camera" | "video"} */
  kind = "nothing";
  /** @type {ImageData | null} */
  #picture = null;
  #video;
  #camera;
  #address = "";
  #turn = turns();
  #time = NaN; // of the video's last frame

  /** @param {HTMLVideoElement} video
   *  @param {() => void} ended  called when the camera ends by itself */
  constructor(video, ended) {
    this.#video = video;
    this.#camera = new Camera(video, () => {
      this.close();
      ended();
    });
  }

  get live() {
    return this.kind === "camera" || this.kind === "video";
  }

  /** Leaves what is looked at. */
  close() {
    this.#turn();
    this.#camera.close();
    if (this.#address) {
      URL.revokeObjectURL(this.#address);
      this.#address = "";
      this.#video.removeAttribute("src");
      this.#video.load();
    }
    this.#video.hidden = true;
    this.#picture = null;
    this.kind = "nothing";
  }

  /** @param {ImageData} pixels */
  take(pixels) {
    this.close();
    [this.#picture, this.kind] = [pixels, "picture"];
  }

  /** Opens a picture's or a video's file. Throws an error in words for another.
   *  @param {File} file */
  async open(file) {
    if (file.type.startsWith("video/")) return this.#open(file);
    const last = this.#turn();
    const pixels = await pixelsOf(file);
    if (last()) this.take(pixels);
  }

  /** @param {File} file */
  async #open(file) {
    this.close();
    const video = this.#video;
    this.#address = URL.createObjectURL(file);
    video.src = this.#address;
    try {
      await new Promise((resolve, reject) => {
        video.onloadeddata = resolve;
        video.onerror = reject;
      });
    } catch {
      this.close();
      throw new Error("This file is no video that the browser can play. Open an MP4 or WebM.");
    }
    [video.hidden, this.kind] = [false, "video"];
    await video.play().catch(() => {}); // a browser may want a click first
  }

  async openCamera() {
    this.close();
    await this.#camera.open();
    this.kind = "camera";
  }

  /** What there is to see now; null before the camera's first frame. */
  frame() {
    if (!this.live) return this.#picture;
    const { videoWidth, videoHeight, currentTime } = this.#video;
    this.#time = currentTime;
    return videoWidth ? drawn(this.#video, videoWidth, videoHeight, MOST_LIVE) : null;
  }

  /** Waits for another frame than the last. @param {AbortSignal} signal
   *  @returns {Promise<void>} */
  moved(signal) {
    const video = this.#video;
    return new Promise((resolve, reject) => {
      const stop = () => reject(signal.reason);
      const done = () => {
        signal.removeEventListener("abort", stop);
        resolve();
      };
      signal.addEventListener("abort", stop);
      if (video.currentTime !== this.#time) setTimeout(done);
      else if ("requestVideoFrameCallback" in video) video.requestVideoFrameCallback(done);
      else requestAnimationFrame(done);
    });
  }
}
