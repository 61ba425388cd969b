// adapting.js: the jobs of the worker on adapters: from files, trained here, chosen, given out.

import { ADAPTER, list } from "../loading/listing.js";

/**
 * @typedef {import("../types.d.ts").Reply} Reply
 * @typedef {import("../loading/listing.js").Source} Source
 * @typedef {{ signal: AbortSignal, report: (message: unknown) => void }} Job
 */

/** The jobs. The worker lends its own parts.
 *  @param {{ perform: (port: MessagePort, work: (job: Job) => Promise<Reply>) => Promise<Reply>,
 *    ready: () => { py: import("../types.d.ts").Pyodide },
 *    store: () => import("../loading/weights.js").WeightStore,
 *    plain: (proxy: import("../types.d.ts").PyProxy) => any,
 *    pauseFor: (signal: AbortSignal) => () => Promise<boolean>,
 *    bring: (listing: import("../loading/listing.js").Listing, device: string,
 *      job: Job) => Promise<import("../types.d.ts").PyBuilder> }} worker */
export function adapting({ perform, ready, store, plain, pauseFor, bring }) {
  const python = () => ready().py.pyimport("rushlight.web.worker.adapters");
  return {
    /** Puts an adapter on a model. @param {MessagePort} port @param {number} id
     *  @param {Source} source @param {string} name */
    addAdapter: (port, id, source, name) =>
      perform(port, async ({ signal, report }) => {
        const device = python().device_of(id);
        const listing = await list(store(), source, signal, ADAPTER);
        const builder = await bring(listing, device, { signal, report });
        try {
          await python().add_adapter(id, builder, name);
          return { value: undefined };
        } finally {
          builder.destroy();
        }
      }),

    /** @param {MessagePort} port @param {number} id @param {string[]} names */
    setAdapters: (port, id, names) =>
      perform(port, async () => ({ value: python().set_adapters(id, names) })),

    /** Trains an adapter. @param {MessagePort} port @param {number} id @param {object[]} rows
     *  @param {Record<string, unknown>} options */
    finetune: (port, id, rows, options) =>
      perform(port, async ({ signal, report }) => {
        /** @param {number} done @param {number} total @param {number} loss */
        const tell = (done, total, loss) => report({ stage: "finetune", done, total, loss });
        const losses = await python().finetune(id, rows, options, pauseFor(signal), tell);
        return { value: plain(losses) };
      }),

    /** The files of an adapter. @param {MessagePort} port @param {number} id
     *  @param {string} name */
    adapterFiles: (port, id, name) =>
      perform(port, async () => ({ value: plain(await python().adapter_files(id, name)) })),
  };
}
