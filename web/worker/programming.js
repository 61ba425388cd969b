// programming.js: the jobs of the worker that run a visitor's programs and complete their names.

/**
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void }} Job
 */

/** The jobs. The worker lends its own parts.
 *  @param {{ perform: (port: MessagePort, work: (job: Job) => Promise<Reply>) => Promise<Reply>,
 *    ready: () => { py: import("../types.d.ts").Pyodide }, afterJob: () => void }} worker */
export function programming({ perform, ready, afterJob }) {
  const programs = () => ready().py.pyimport("rushlight.web.worker.programs");
  return {
    /** Runs a program. @param {MessagePort} port @param {string} code @param {string} device */
    python: (port, code, device) =>
      perform(port, async ({ report }) => {
        const tell = (
          /** @type {string} */ kind,
          /** @type {string} */ value,
          /** @type {import("../types.d.ts").PyProxy | null} */ pixels,
        ) => {
          const view = pixels?.getBuffer("u8");
          const data = view?.data.slice(); // a copy: the view is the wasm memory itself
          view?.release();
          report({ kind, value: JSON.parse(value), data });
        };
        const error = await programs().run_program(code, device, tell).finally(afterJob);
        return { value: error ? JSON.parse(error) : null };
      }),

    /** The names that may stand at a place of a program. @param {MessagePort} port
     *  @param {string} code @param {number} position */
    complete: (port, code, position) =>
      perform(port, async () => ({ value: JSON.parse(programs().complete(code, position)) })),
  };
}
