// modules.js: the jobs of the worker that open a page's own Python modules and call their functions.

/**
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void }} Job
 */

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
export function modules({ perform, ready, afterJob }) {
  const python = () => ready().py.pyimport("rushlight.web.worker.modules");
  return {
    /** Runs modules. @param {MessagePort} port @param {Record<string, string>} sources */
    modules: (port, sources) =>
      perform(port, async () => ({ value: python().open_modules(sources) })),

    /** Calls a function of these modules. @param {MessagePort} port @param {string} name
     *  @param {unknown[]} args @param {boolean} now  not after the jobs before, but between two
     *  steps of the one that runs */
    call: (port, name, args, now) =>
      perform(
        port,
        async ({ signal, report }) => {
          const tell = (/** @type {unknown} */ value) => report(copied(value));
          const stopped = () => signal.aborted;
          const found = await python().call(name, args, tell, stopped).finally(afterJob);
          const value = copied(found);
          found?.destroy?.();
          return { value };
        },
        { queue: !now },
      ),
  };
}
