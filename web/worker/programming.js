// programming.js: the jobs of the worker that run Python which is not the library's: a visitor's
// programs, with completion of names, and a page's own modules.

/**
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void,
 *   hear: () => Promise<unknown> }} Job  hear: waits for what the page sends to the job
 */

/** What the page sends to a job, in order. */
export class Told {
  /** @type {unknown[]} */
  #values = [];
  /** @type {((value: unknown) => void)[]} */
  #waiting = [];

  /** @param {unknown} value */
  put(value) {
    const wake = this.#waiting.shift();
    if (wake) wake(value);
    else this.#values.push(value);
  }

  /** @returns {Promise<unknown>} */
  next() {
    if (this.#values.length) return Promise.resolve(this.#values.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** A value of Python as one of JavaScript. Bytes and arrays become typed arrays.
 *  @param {any} value */
function copied(value) {
  const own = typeof value?.toJs === "function";
  return own ? value.toJs({ dict_converter: Object.fromEntries }) : value;
}

/** The jobs. The worker lends its own parts.
 *  @param {{ perform: (port: MessagePort, work: (job: Job) => Promise<Reply>,
 *    how?: { queue?: boolean }) => Promise<Reply>,
 *    ready: () => { py: import("../types.d.ts").Pyodide }, afterJob: () => void }} worker */
export function programming({ perform, ready, afterJob }) {
  const programs = () => ready().py.pyimport("rushlight.web.worker.programs");
  const own = () => ready().py.pyimport("rushlight.web.worker.modules");
  return {
    /** Runs a program. @param {MessagePort} port @param {string} code @param {string} device */
    python: (port, code, device) =>
      perform(port, async ({ report, hear }) => {
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
        const error = await programs().run_program(code, device, tell, hear).finally(afterJob);
        return { value: error ? JSON.parse(error) : null };
      }),

    /** The names that may stand at a place of a program. @param {MessagePort} port
     *  @param {string} code @param {number} position */
    complete: (port, code, position) =>
      perform(port, async () => ({ value: JSON.parse(programs().complete(code, position)) })),

    /** Runs modules. @param {MessagePort} port @param {Record<string, string>} sources */
    modules: (port, sources) =>
      perform(port, async () => ({ value: own().open_modules(sources) })),

    /** Calls a function of these modules. @param {MessagePort} port @param {string} name
     *  @param {unknown[]} args @param {boolean} now  not after the jobs before, but between two
     *  steps of the one that runs */
    call: (port, name, args, now) =>
      perform(
        port,
        async ({ signal, report }) => {
          const tell = (/** @type {unknown} */ value) => report(copied(value));
          const stopped = () => signal.aborted;
          const found = await own().call(name, args, tell, stopped).finally(afterJob);
          const value = copied(found);
          found?.destroy?.();
          return { value };
        },
        { queue: !now },
      ),
  };
}
