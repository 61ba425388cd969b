// openai.d.ts: types of openai.js and languagemodel.js: the calls of OpenAI's client, and Chrome's
// Prompt API, for a model of the tab.

import type { ResponseFormat, Tool, ToolChoice } from "./client.d.ts";

/** The body of `chat.completions.create`. Other keys of OpenAI's are refused by name. */
export interface ChatBody {
  model?: string;
  messages: ({ role: string; content?: string | object[] | null } & Record<string, unknown>)[];
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  /** Whether an answer tells the logarithm of each token's probability. */
  logprobs?: boolean;
  n?: 1;
  temperature?: number;
  top_p?: number;
  seed?: number;
  stop?: string | string[];
  frequency_penalty?: number;
  presence_penalty?: number;
  logit_bias?: Record<number, number>;
  max_tokens?: number;
  max_completion_tokens?: number;
  response_format?: ResponseFormat;
  tools?: Tool[];
  tool_choice?: ToolChoice;
  parallel_tool_calls?: boolean;
  reasoning_effort?: string;
  user?: string;
  metadata?: object;
}

export interface ChatCompletionCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

export interface Logprobs {
  content: { token: string; logprob: number; bytes: number[] }[];
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: {
    index: number;
    message: {
      role: "assistant";
      content: string | null;
      reasoning_content?: string;
      tool_calls?: ChatCompletionCall[];
    };
    logprobs: Logprobs | null;
    finish_reason: "stop" | "length" | "tool_calls";
  }[];
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
}

export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: {
    index: number;
    delta: {
      role?: "assistant";
      content?: string;
      reasoning_content?: string;
      tool_calls?: ({ index: number } & ChatCompletionCall)[];
    };
    logprobs: Logprobs | null;
    finish_reason: "stop" | "length" | "tool_calls" | null;
  }[];
  usage?: ChatCompletion["usage"];
}

/** A streamed answer; leaving the loop or `controller.abort()` stops the model within a token. */
export type ChatStream = AsyncGenerator<ChatCompletionChunk> & { controller: AbortController };

export interface EmbeddingsBody {
  model?: string;
  input: string | string[];
  encoding_format?: "float" | "base64";
  dimensions?: number;
  user?: string;
}

export interface EmbeddingsAnswer {
  object: "list";
  model: string;
  data: { object: "embedding"; index: number; embedding: number[] | string }[];
  usage: { prompt_tokens: number; total_tokens: number };
}

export interface OpenAI {
  chat: {
    completions: {
      create(
        body: ChatBody & { stream: true },
        options?: { signal?: AbortSignal },
      ): Promise<ChatStream>;
      create(
        body: ChatBody & { stream?: false },
        options?: { signal?: AbortSignal },
      ): Promise<ChatCompletion>;
    };
  };
  embeddings: {
    create(body: EmbeddingsBody, options?: { signal?: AbortSignal }): Promise<EmbeddingsAnswer>;
  };
}

/** What a session of the Prompt API is asked: a text, or messages. */
export type PromptInput =
  | string
  | { role: string; content: string | { type: string; value: string }[] }[];

export interface PromptOptions {
  signal?: AbortSignal;
  /** A JSON Schema or a pattern that the answer fits. */
  responseConstraint?: object | RegExp;
}

export interface SessionOptions {
  initialPrompts?: PromptInput;
  /** From 0 to 2; 1 by default. */
  temperature?: number;
  /** 3 by default. */
  topK?: number;
  signal?: AbortSignal;
  /** May hold `text` alone; other options are refused by name, `monitor` aside. */
  expectedInputs?: { type: "text"; languages?: string[] }[];
  expectedOutputs?: { type: "text"; languages?: string[] }[];
  /** Not called: the model is there already. */
  monitor?: (monitor: EventTarget) => void;
}

export interface LanguageModelSession extends EventTarget {
  readonly inputUsage: number;
  readonly inputQuota: number;
  readonly temperature: number;
  readonly topK: number;
  prompt(input: PromptInput, options?: PromptOptions): Promise<string>;
  promptStreaming(input: PromptInput, options?: PromptOptions): ReadableStream<string>;
  /** Adds messages that are read with the next prompt. */
  append(input: PromptInput): Promise<void>;
  measureInputUsage(input: PromptInput): Promise<number>;
  clone(options?: { signal?: AbortSignal }): Promise<LanguageModelSession>;
  destroy(): void;
}

/** Chrome's `LanguageModel` over a model of the tab. */
export interface LanguageModel {
  availability(): Promise<"available" | "unavailable">;
  params(): Promise<{
    defaultTemperature: number;
    maxTemperature: number;
    defaultTopK: number;
    maxTopK: number;
  }>;
  create(options?: SessionOptions): Promise<LanguageModelSession>;
}
