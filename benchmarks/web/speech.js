// The contenders of speech.py in one page: Rushlight in its worker, and whisper.cpp's build for
// WebAssembly, with one thread.

import { MODULES } from "./tab.js";

/** @typedef {(samples: Float32Array) => Promise<string>} Transcribe */

/** @type {any} */
let rl = null;

/** @type {Record<string, () => Promise<Transcribe>>} */
const contenders = {
  async rushlight() {
    const { createRushlight } = await import(new URL("./rushlight/client.js", location.href).href);
    rl = await createRushlight();
    const address = "./models/whisper-tiny.en/";
    const pipe = await rl.pipeline("automatic-speech-recognition", address, { device: "cpu" });
    return async (samples) => (await pipe({ samples, rate: 16000 })).text;
  },

  async "whisper.cpp"() {
    const { default: create } = await import(`${MODULES}@transcribe/shout/src/shout/shout.wasm.js`);
    /** @type {(text: string) => void} */
    let told = () => {};
    /** @type {string[]} */
    let parts = [];
    const module = await create({
      print: () => {},
      printErr: () => {},
      onProgress: () => {},
      onCanceled: () => {},
      onNewSegment: (/** @type {any} */ found) => void parts.push(found.segment.text),
      onTranscribed: () => told(parts.join(" ")),
    });
    const weights = new Uint8Array(await (await fetch("./ggml.bin")).arrayBuffer());
    module.FS_createDataFile("/", "model.bin", weights, true, true);
    module.init("model.bin", "");
    return (samples) =>
      new Promise((resolve) => {
        parts = [];
        told = resolve;
        module.transcribe(samples, "en", 1, false, 0, false, false, false);
      });
  },
};

/** @type {Record<string, Transcribe>} */
const ready = {};
let samples = new Float32Array();

/** @param {string[]} names */
async function open(names) {
  for (const name of names) ready[name] = await contenders[name]();
  return rl.info();
}

/** Takes the samples of a recording at 16 kHz. @param {string} packed  base64 */
function give(packed) {
  samples = new Float32Array(Uint8Array.from(atob(packed), (c) => c.charCodeAt(0)).buffer);
}

/** @param {string} name */
async function transcribe(name) {
  const began = performance.now();
  const text = await ready[name](samples);
  return { seconds: (performance.now() - began) / 1000, text };
}

Object.assign(window, { bench: { open, give, transcribe } });
