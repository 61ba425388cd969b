// generation.js: text piece by piece out of the worker, as an async generator that stops it.

import * as Comlink from "./comlink.js";

/**
 * @typedef {import("./client.d.ts").GenerateOptions} GenerateOptions
 * @typedef {import("./client.d.ts").GeneratedToken} GeneratedToken
 * @typedef {[id: number, text: string, logprob: number]} Row
 * @typedef {{ call(start: (remote: any, port: MessagePort) => Promise<any>,
 *   options: { signal?: AbortSignal, onProgress?: (message: any) => void }): Promise<any> }} Link
 */

// The page's names of the options and Python's.
/** @type {Record<string, string>} */
const NAMES = {
  maxNewTokens: "max_new_tokens",
  temperature: "temperature",
  topK: "top_k",
  topP: "top_p",
  minP: "min_p",
  repetitionPenalty: "repetition_penalty",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  logitBias: "logit_bias",
  tokenMask: "token_mask",
  seed: "seed",
  stop: "stop",
  overflow: "overflow",
};

/** @param {Record<string, unknown>} options  under the page's names */
function forPython(options) {
  /** @type {Record<string, unknown>} */
  const found = {};
  for (const [name, value] of Object.entries(options)) {
    if (!(name in NAMES)) {
      const there = [...Object.keys(NAMES), "signal", "onToken", "onProgress", "onDone"];
      throw new TypeError(`generate: there is no option "${name}"; there are ${there.join(", ")}`);
    }
    if (value !== undefined && value !== null) found[NAMES[name]] = value;
  }
  return found;
}

/**
 * The pieces of text that the model puts behind a prompt. Leaving the loop, `return()` and the
 * signal stop the worker within one token.
 * @param {Link} link @param {number} id  the model's number
 * @param {"generate" | "chat"} call @param {string | object[] | number[]} prompt
 * @param {GenerateOptions} [options] @returns {AsyncGenerator<string, void, void>}
 */
export async function* stream(link, id, call, prompt, options = {}) {
  const { signal, onToken, onProgress, onDone, ...others } = options;
  const chosen = forPython(others);
  const control = new AbortController();
  const both = signal ? AbortSignal.any([signal, control.signal]) : control.signal;
  /** @type {Row[]} */
  const rows = [];
  let wake = () => {};
  let ended = false;
  const answer = link.call(
    (remote, port) =>
      remote.generate(Comlink.transfer(port, [port]), id, call, prompt, chosen),
    {
      signal: both,
      onProgress: (message) => {
        if (message.stage === "token") rows[message.index] = message.token;
        else onProgress?.(message);
        wake();
      },
    },
  );
  const over = () => {
    ended = true;
    wake();
  };
  answer.then(over, over);
  let next = 0;
  const piece = () => {
    const [token, text, logprob] = rows[next++];
    onToken?.({ id: token, text, logprob });
    return text;
  };
  try {
    while (!ended) {
      while (next < rows.length && !ended) {
        const text = piece();
        if (text) yield text;
      }
      if (!ended) await new Promise((resolve) => (wake = () => resolve(undefined)));
      both.throwIfAborted();
    }
    const { tokens, ...stats } = await answer;
    // The answer and its tokens travel on two channels: it may have overtaken the last of them.
    rows.splice(0, Infinity, ...tokens);
    while (next < rows.length) {
      const text = piece();
      if (text) yield text;
    }
    onDone?.(stats);
  } finally {
    control.abort(); // a consumer that left: nothing goes on behind its back
  }
}

/** @param {Link} link @param {number} id @param {string | object[]} prompt
 *  @returns {Promise<number>} */
export function countTokens(link, id, prompt) {
  const call = typeof prompt === "string" ? "generate" : "chat";
  return link.call(
    (remote, port) => remote.tokenCount(Comlink.transfer(port, [port]), id, call, prompt),
    {},
  );
}
