// openai.js: the calls of OpenAI's client for a model of this tab: `chat.completions.create` and
// `embeddings.create`, whose bodies and answers are spelled as there. See openai.d.ts.

/**
 * @typedef {import("./client.d.ts").Model} Model
 * @typedef {import("./client.d.ts").ChatStats} ChatStats
 * @typedef {import("./openai.d.ts").ChatBody} ChatBody
 * @typedef {import("./openai.d.ts").EmbeddingsBody} EmbeddingsBody
 */

/** The options of generation by their names in a body. */
const OPTIONS = /** @type {const} */ ({
  temperature: "temperature",
  top_p: "topP",
  seed: "seed",
  stop: "stop",
  frequency_penalty: "frequencyPenalty",
  presence_penalty: "presencePenalty",
  logit_bias: "logitBias",
  max_tokens: "maxNewTokens",
  max_completion_tokens: "maxNewTokens",
  response_format: "responseFormat",
  tools: "tools",
  tool_choice: "toolChoice",
  parallel_tool_calls: "parallelToolCalls",
  reasoning_effort: "reasoning_effort",
});
const ALSO = ["model", "messages", "stream", "stream_options", "n", "logprobs", "user", "metadata"];
const ENDS = /** @type {Record<string, string>} */ ({ length: "length" });

/** @param {string} what @param {object} body @param {readonly string[]} known */
function checkKeys(what, body, known) {
  const unknown = Object.entries(body).find(([key, v]) => v != null && !known.includes(key));
  if (!unknown) return;
  throw new RangeError(`${what}: ${unknown[0]} is not supported; supported: ${known.join(", ")}`);
}

/** A message as the model's chat template reads it. @param {any} message
 *  @returns {Promise<import("./client.d.ts").ChatMessage>} */
async function messageOf(message) {
  const { content, tool_calls: calls } = message;
  const read = /** @type {any} */ ({ ...message, content: content ?? "" });
  if (Array.isArray(content)) {
    const parts = await Promise.all(content.map(partOf));
    const words = parts.every(({ type }) => type === "text"); // many templates read texts alone
    read.content = words ? parts.map(({ text }) => text).join("") : parts;
  }
  if (calls) {
    read.tool_calls = calls.map((/** @type {any} */ { id, function: called }) => {
      const given = called.arguments;
      const values = typeof given === "string" ? JSON.parse(given || "{}") : given;
      return { id, type: "function", function: { name: called.name, arguments: values } };
    });
  }
  return read;
}

/** @param {any} part */
async function partOf(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type !== "image_url") {
    throw new RangeError(`part ${part.type} is not supported; supported: text, image_url`);
  }
  const { url } = part.image_url;
  if (!/^(data|blob):/.test(url)) {
    throw new RangeError("image_url: a data: or blob: address is read; nothing is fetched");
  }
  const bitmap = await createImageBitmap(await (await fetch(url)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const drawn = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  drawn.drawImage(bitmap, 0, 0);
  return { type: "image", image: drawn.getImageData(0, 0, bitmap.width, bitmap.height) };
}

class Completions {
  #model;

  /** @param {Model} model */
  constructor(model) {
    this.#model = model;
  }

  /** @param {ChatBody} body @param {{ signal?: AbortSignal }} [options] @returns {Promise<any>} */
  async create(body, { signal } = {}) {
    const known = [...ALSO, ...Object.keys(OPTIONS)];
    checkKeys("chat.completions.create", body, known);
    if ((body.n ?? 1) !== 1) throw new RangeError(`n is ${body.n}; one answer is written`);
    const messages = await Promise.all(body.messages.map(messageOf));
    const control = new AbortController();
    const both = signal ? AbortSignal.any([signal, control.signal]) : control.signal;
    const events = this.#events(body, messages, both, control);
    if (body.stream) return Object.assign(events, { controller: control });
    let last;
    for await (const event of events) last = event;
    return last;
  }

  /** The chunks of an answer; where it is not streamed, the answer itself.
   *  @param {ChatBody} body @param {any[]} messages @param {AbortSignal} signal
   *  @param {AbortController} control */
  async *#events(body, messages, signal, control) {
    const model = this.#model;
    const facts = {
      id: `chatcmpl-${crypto.randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
      model: body.model ?? model.name,
    };
    /** The tokens that no chunk has told of yet. @type {any[]} */
    const tokens = [];
    const told = () => (body.logprobs && tokens.length ? { content: tokens.splice(0) } : null);
    const chunk = (/** @type {any} */ delta, /** @type {string | null} */ reason = null) => ({
      ...facts,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, logprobs: told(), finish_reason: reason }],
    });
    /** @type {ChatStats | null} */
    let stats = null;
    const options = /** @type {any} */ ({
      signal,
      onToken: (/** @type {any} */ { text, logprob }) => {
        const bytes = [...new TextEncoder().encode(text)];
        tokens.push({ token: text, logprob, bytes, top_logprobs: [] });
      },
      onDone: (/** @type {ChatStats} */ done) => (stats = done),
    });
    for (const [name, option] of Object.entries(OPTIONS)) {
      const value = /** @type {any} */ (body)[name];
      if (value != null) options[option] = value;
    }
    // What is a thought or a call is known when it is complete.
    const plain = !body.tools?.length && !model.thinkingSwitch;
    const pictured = messages.some(({ content }) => Array.isArray(content));
    const pieces =
      pictured && model.tasks.includes("image-text-to-text")
        ? (await model.pipeline("image-text-to-text")).stream(messages, options)
        : model.chat(messages, options);
    try {
      if (body.stream) yield chunk({ role: "assistant", content: "" });
      let raw = "";
      for await (const piece of pieces) {
        raw += piece;
        if (body.stream && plain) yield chunk({ content: piece });
      }
      const done = /** @type {ChatStats} */ (/** @type {unknown} */ (stats));
      const { content = raw, thinking = "", toolCalls = [] } = done;
      const calls = toolCalls.map(({ name, arguments: values }, index) => ({
        index,
        id: `call_${crypto.randomUUID()}`,
        type: "function",
        function: { name, arguments: JSON.stringify(values) },
      }));
      const reason = calls.length ? "tool_calls" : (ENDS[done.stopped] ?? "stop");
      const usage = {
        prompt_tokens: done.promptTokens,
        completion_tokens: done.generatedTokens,
        total_tokens: done.promptTokens + done.generatedTokens,
      };
      if (!body.stream) {
        const message = {
          role: "assistant",
          content: content || (calls.length ? null : ""),
          ...(thinking && { reasoning_content: thinking }),
          ...(calls.length && { tool_calls: calls.map(({ index, ...call }) => call) }),
        };
        const choices = [{ index: 0, message, logprobs: told(), finish_reason: reason }];
        yield { ...facts, object: "chat.completion", choices, usage };
        return;
      }
      if (!plain) {
        if (thinking) yield chunk({ reasoning_content: thinking });
        if (content) yield chunk({ content });
        if (calls.length) yield chunk({ tool_calls: calls });
      }
      yield chunk({}, reason);
      if (body.stream_options?.include_usage) yield { ...chunk({}), choices: [], usage };
    } finally {
      control.abort();
    }
  }
}

class Embeddings {
  #model;

  /** @param {Model} model */
  constructor(model) {
    this.#model = model;
  }

  /** @param {EmbeddingsBody} body @param {{ signal?: AbortSignal }} [options] */
  async create(body, { signal } = {}) {
    const model = this.#model;
    const known = ["input", "model", "encoding_format", "dimensions", "user"];
    checkKeys("embeddings.create", body, known);
    if (!["float", "base64"].includes(body.encoding_format ?? "float")) {
      throw new RangeError(`encoding_format is ${body.encoding_format}; supported: float, base64`);
    }
    const texts = [body.input].flat();
    const { dimensions } = body;
    const rows = await model.encode(texts, { signal, ...(dimensions && { dim: dimensions }) });
    const counts = await Promise.all(texts.map((text) => model.tokenCount(text)));
    const read = counts.reduce((sum, count) => sum + count, 0);
    const written = (/** @type {Float32Array} */ row) =>
      body.encoding_format === "base64"
        ? btoa(String.fromCharCode(...new Uint8Array(new Float32Array(row).buffer)))
        : [...row];
    return {
      object: "list",
      model: body.model ?? model.name,
      data: rows.map((row, index) => ({ object: "embedding", index, embedding: written(row) })),
      usage: { prompt_tokens: read, total_tokens: read },
    };
  }
}

/** The calls of OpenAI's client for a model. @param {Model} model */
export function openai(model) {
  return { chat: { completions: new Completions(model) }, embeddings: new Embeddings(model) };
}
