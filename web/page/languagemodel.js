// languagemodel.js: Chrome's Prompt API (https://github.com/webmachinelearning/prompt-api) over a
// model of this tab, so that a page that uses `LanguageModel` runs in other browsers, too. See
// openai.d.ts.

/**
 * @typedef {import("./client.d.ts").Model} Model
 * @typedef {import("./client.d.ts").ChatMessage} ChatMessage
 * @typedef {import("./openai.d.ts").PromptInput} PromptInput
 * @typedef {import("./openai.d.ts").PromptOptions} PromptOptions
 * @typedef {import("./openai.d.ts").SessionOptions} SessionOptions
 */

const TEMPERATURE = { usual: 1, most: 2 };
const TOP_K = { usual: 3, most: 128 };

const OPTIONS = ["initialPrompts", "temperature", "topK", "signal"];

/** Refuses by name what `create` does not follow. `monitor` watches a download, which is over, and
 *  what is expected may be text alone. @param {object} options */
function check(options) {
  for (const [name, value] of Object.entries(options)) {
    const expected = name === "expectedInputs" || name === "expectedOutputs";
    const plain = expected && value?.every?.((/** @type {any} */ { type }) => type === "text");
    if (value === undefined || name === "monitor" || plain || OPTIONS.includes(name)) continue;
    const words = expected
      ? `${name} has other types than text, which is all that the model reads and writes`
      : `create does not follow ${name}; it follows ${OPTIONS.join(", ")}`;
    throw new DOMException(words, "NotSupportedError");
  }
}

/** @param {PromptInput} input @returns {ChatMessage[]} */
function messagesOf(input) {
  const rows = typeof input === "string" ? [{ role: "user", content: input }] : input;
  return rows.map(({ role, content }) => {
    if (typeof content === "string") return { role, content };
    const other = content.find(({ type }) => type !== "text");
    if (other) throw new DOMException(`a part of type ${other.type}`, "NotSupportedError");
    return { role, content: content.map(({ value }) => value).join("") };
  });
}

class Session extends EventTarget {
  #model;
  #rows;
  #options;
  #destroyed = new AbortController();
  #used = 0;

  /** @param {Model} model @param {ChatMessage[]} rows @param {SessionOptions} options */
  constructor(model, rows, options) {
    super();
    this.#model = model;
    this.#rows = rows;
    this.#options = options;
    this.temperature = options.temperature ?? TEMPERATURE.usual;
    this.topK = options.topK ?? TOP_K.usual;
    options.signal?.addEventListener("abort", () => this.destroy());
  }

  get inputQuota() {
    return this.#model.contextLength;
  }

  get inputUsage() {
    return this.#used;
  }

  /** Counts the conversation anew. */
  async count() {
    this.#used = this.#rows.length ? await this.#model.tokenCount(this.#rows, {}) : 0;
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] */
  async prompt(input, options) {
    let text = "";
    for await (const piece of this.#pieces(input, options)) text += piece;
    return text;
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] */
  promptStreaming(input, options) {
    const pieces = this.#pieces(input, options);
    return /** @type {ReadableStream<string>} */ (
      new ReadableStream({
        async pull(controller) {
          const { done, value } = await pieces.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        async cancel() {
          await pieces.return();
        },
      })
    );
  }

  /** @param {PromptInput} input @param {PromptOptions} [options]
   *  @returns {AsyncGenerator<string, void, void>} */
  async *#pieces(input, { signal, responseConstraint } = {}) {
    this.#check();
    const both = AbortSignal.any([this.#destroyed.signal, ...(signal ? [signal] : [])]);
    const asked = [...this.#rows, ...messagesOf(input)];
    const count = await this.#model.tokenCount(asked, {});
    if (count >= this.inputQuota) {
      const words = `the conversation has ${count} tokens, at most ${this.inputQuota - 1} fit`;
      throw new DOMException(words, "QuotaExceededError");
    }
    let text = "";
    let read = count;
    const pieces = this.#model.chat(asked, {
      temperature: this.temperature,
      topK: this.topK,
      maxNewTokens: this.inputQuota - count,
      signal: both,
      ...(responseConstraint && { responseFormat: formOf(responseConstraint) }),
      onDone: ({ promptTokens, generatedTokens }) => (read = promptTokens + generatedTokens),
    });
    for await (const piece of pieces) {
      text += piece;
      yield piece;
    }
    this.#rows = [...asked, { role: "assistant", content: text }];
    this.#used = read;
  }

  /** @param {PromptInput} input */
  async append(input) {
    this.#check();
    this.#rows = [...this.#rows, ...messagesOf(input)];
    await this.count();
  }

  /** @param {PromptInput} input */
  async measureInputUsage(input) {
    this.#check();
    return this.#model.tokenCount(messagesOf(input), {});
  }

  /** @param {{ signal?: AbortSignal }} [options] */
  async clone({ signal } = {}) {
    this.#check();
    const copy = new Session(this.#model, [...this.#rows], { ...this.#options, signal });
    await copy.count();
    return copy;
  }

  destroy() {
    this.#destroyed.abort(new DOMException("the session was destroyed", "AbortError"));
  }

  #check() {
    if (!this.#destroyed.signal.aborted) return;
    throw new DOMException("the session was destroyed", "InvalidStateError");
  }
}

/** @param {object | RegExp} constraint @returns {import("./client.d.ts").ResponseFormat} */
function formOf(constraint) {
  if (constraint instanceof RegExp) return { type: "regex", pattern: constraint.source };
  return { type: "json_schema", json_schema: { schema: constraint } };
}

/** `LanguageModel` over a model that writes. @param {Model} model */
export function languageModel(model) {
  return {
    async availability() {
      return model.chatTemplate ? "available" : "unavailable";
    },

    async params() {
      return {
        defaultTemperature: TEMPERATURE.usual,
        maxTemperature: TEMPERATURE.most,
        defaultTopK: TOP_K.usual,
        maxTopK: TOP_K.most,
      };
    },

    /** @param {SessionOptions} [options] */
    async create(options = {}) {
      const { temperature = TEMPERATURE.usual, topK = TOP_K.usual, initialPrompts = [] } = options;
      check(options);
      options.signal?.throwIfAborted();
      if (!model.chatTemplate) {
        throw new DOMException(`${model.name} has no chat template`, "NotSupportedError");
      }
      if (!(temperature >= 0 && temperature <= TEMPERATURE.most)) {
        throw new RangeError(`temperature is ${temperature}; it is from 0 to ${TEMPERATURE.most}`);
      }
      if (!(Number.isInteger(topK) && topK >= 1)) {
        throw new RangeError(`topK is ${topK}; it is a whole number from 1 on`);
      }
      const session = new Session(model, messagesOf(initialPrompts), options);
      await session.count();
      if (session.inputUsage >= model.contextLength) {
        const words = `the prompts have ${session.inputUsage} tokens, ${model.contextLength} fit`;
        throw new DOMException(words, "QuotaExceededError");
      }
      return session;
    },
  };
}
