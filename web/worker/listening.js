// listening.js: the jobs of the worker that hear speech while it is spoken, and write subtitles.

/**
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void }} Job
 */

/** The jobs. The worker lends its own parts.
 *  @param {{ perform: (port: MessagePort, work: (job: Job) => Promise<Reply>,
 *      options?: { queue?: boolean }) => Promise<Reply>,
 *    pauseFor: (signal: AbortSignal) => () => Promise<boolean>,
 *    ready: () => { py: import("../types.d.ts").Pyodide }, afterJob: () => void }} worker */
export function listening({ perform, pauseFor, ready, afterJob }) {
  const python = () => ready().py.pyimport("rushlight.web.worker.listening");
  return {
    /** @param {MessagePort} port @param {number} id  the model's @param {number} rate
     *  @param {number} every  seconds @param {Record<string, unknown>} options */
    liveBegin: (port, id, rate, every, options) =>
      perform(port, async () => ({ value: python().begin(id, rate, every, options) })),

    /** @param {MessagePort} port @param {number} number @param {Float32Array} samples
     *  @param {boolean} ended */
    liveHear: (port, number, samples, ended) =>
      perform(port, async ({ signal }) => {
        const pause = pauseFor(signal);
        const found = await python().hear(number, samples, ended, pause, () => {});
        afterJob();
        return { value: JSON.parse(found) };
      }),

    /** @param {MessagePort} port @param {number} number */
    liveClose: (port, number) =>
      perform(port, async () => ({ value: python().close(number) }), { queue: false }),

    /** @param {MessagePort} port @param {string} form @param {object} result */
    subtitles: (port, form, result) =>
      perform(port, async () => ({ value: python().subtitles(form, JSON.stringify(result)) }), {
        queue: false,
      }),
  };
}
