// python.js: the runtime of a page. Nothing of Python is downloaded before something is asked of
// it; how much that is; and its keeping for offline use.

import { openRushlight } from "../../rushlight/client.js";
import { keepOffline, size } from "../page.js";

/** @typedef {ReturnType<typeof openRushlight>} Runtime */

const HOME = new URL("../../rushlight/", import.meta.url);
/** Bytes that a start of Python downloads, once. */
const BYTES = Number(document.documentElement.dataset.python);

let started = false;

/** A runtime, which starts Python with the first call that needs it.
 *  @param {{ onProgress?: () => void }} [page] @returns {Runtime} */
export function openPython({ onProgress } = {}) {
  const runtime = openRushlight({
    lazy: true,
    onProgress() {
      onProgress?.();
      if (started) return;
      started = true;
      // Who called it tells why it did not start.
      void runtime.ready.then(() => keepOffline([HOME.href]), () => (started = false));
    },
  });
  return runtime;
}

/** Whether Python is in this browser already. */
export async function pythonKept() {
  if (started) return true;
  try {
    return Boolean(await caches.match(new URL("pyodide/pyodide.asm.wasm", HOME)));
  } catch {
    return false; // the browser keeps nothing
  }
}

/** Bytes of Python that are still to be downloaded. */
export const pythonBytes = async () => ((await pythonKept()) ? 0 : BYTES);

/** What a first use downloads, in words; "" if it is here.
 *  @param {string} act  such as "Running a program" */
export async function pythonWords(act) {
  const bytes = await pythonBytes();
  return bytes ? `${act} downloads Python (${size(bytes)}), once.` : "";
}
