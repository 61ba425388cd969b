// tasks.js: runs tasks in the worker, for a result or for text or values piece by piece.

/**
 * @typedef {import("./client.d.ts").GeneratedToken} GeneratedToken
 * @typedef {[id: number, text: string, logprob: number, ...likely: number[]]} Row
 * @typedef {{ call(name: string, given: unknown[], options: Listeners): Promise<any> }} Link
 * @typedef {{ signal?: AbortSignal, onProgress?: (progress: any) => void,
 *   onToken?: (token: GeneratedToken) => void, onDone?: (stats: any) => void,
 *   onPreview?: (preview: any) => void }} Listeners
 */

/**
 * Runs a task and returns its result. A tensor is returned as { data, shape }.
 * @param {Link} link @param {number} id  the model's number
 * @param {string} task @param {unknown} input
 * @param {Listeners & Record<string, unknown>} [options] @returns {Promise<any>}
 */
export function run(link, id, task, input, options = {}) {
  const { signal, onProgress, onToken, onDone, onPreview, ...given } = options;
  const chosen = Object.fromEntries(Object.entries(given).filter(([, value]) => value != null));
  if (onPreview) chosen.previews = true;
  const told = (/** @type {any} */ message) => {
    if (message.stage === "preview") onPreview?.(message.preview);
    else onProgress?.(message);
  };
  return link.call("run", [id, task, input, chosen], { signal, onProgress: told });
}

/**
 * Runs a task and yields its text piece by piece, or the values that it is made of. Leaving the
 * loop, `return()` and the signal stop the worker within one token.
 * @param {Link} link @param {number} id  the model's number
 * @param {string} task @param {unknown} input
 * @param {Listeners & Record<string, unknown>} [options]
 * @returns {AsyncGenerator<any, void, void>}
 */
export async function* stream(link, id, task, input, options = {}) {
  const { signal, onToken, onProgress, onDone } = options;
  const control = new AbortController();
  /** @type {(Row | { value: unknown })[]} */
  const rows = [];
  let wake = () => {};
  let ended = false;
  const answer = run(link, id, task, input, {
    ...options,
    signal: signal ? AbortSignal.any([signal, control.signal]) : control.signal,
    onProgress: (message) => {
      if (message.stage === "token") rows.push(message.token);
      else if (message.stage === "piece") rows.push({ value: message.piece });
      else onProgress?.(message);
      wake();
    },
  });
  const over = () => {
    ended = true;
    wake();
  };
  answer.then(over, over);
  try {
    for (let next = 0; next < rows.length || !ended; ) {
      signal?.throwIfAborted();
      if (next === rows.length) {
        await new Promise((resolve) => (wake = () => resolve(undefined)));
        continue;
      }
      const row = rows[next++];
      if (!Array.isArray(row)) {
        yield row.value;
        continue;
      }
      const [token, text, logprob, ...likely] = row;
      onToken?.({ id: token, text, logprob, ...(likely.length && { top: pairs(likely) }) });
      if (text) yield text;
    }
    // Every report arrived before the result.
    const { promptIds, ids, text, linear, ...more } = await answer;
    const generatedTokens = ids?.flat().length;
    if (ids) onDone?.({ promptTokens: promptIds.length, generatedTokens, ...more });
    else onDone?.(more);
  } finally {
    control.abort(); // the consumer left the loop: stop the worker
  }
}

/** Numbers two by two. @param {number[]} numbers @returns {[number, number][]} */
function pairs(numbers) {
  return Array.from({ length: numbers.length / 2 }, (_, i) => [numbers[2 * i], numbers[2 * i + 1]]);
}

/** The rows of a tensor, or the numbers of a tensor with one dim.
 *  @param {{ data: Float32Array<ArrayBuffer>, shape: number[] }} tensor */
export function rowsOf({ data, shape }) {
  if (shape.length < 2) return data;
  const width = data.length / (shape[0] || 1);
  return Array.from({ length: shape[0] }, (_, i) => data.slice(i * width, (i + 1) * width));
}

/**
 * A task of a model, ready to be called.
 * @param {Link} link @param {number} id  the model's number
 * @param {import("./client.d.ts").TaskInfo} task @param {import("./client.d.ts").Model} model
 * @param {Record<string, unknown>} defaults
 */
export function pipe(link, id, task, model, defaults) {
  const call = async (/** @type {unknown} */ input, options = {}) => {
    const found = await run(link, id, task.name, input, { ...defaults, ...options });
    if (task.output === "text") return found.text;
    return task.output === "vectors" ? rowsOf(found) : found;
  };
  const pieces = (/** @type {unknown} */ input, options = {}) => {
    if (!task.streams) throw new TypeError(`${task.name} does not stream; call the pipeline`);
    return stream(link, id, task.name, input, { ...defaults, ...options });
  };
  return Object.assign(call, { stream: pieces, task, model });
}
