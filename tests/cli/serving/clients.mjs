// Conversations by OpenAI's client and by Vercel's AI SDK: node clients.mjs ADDRESS. A line of JSON
// for each case: its name, and what the client gives or the message of its error.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const address = `${process.argv[2]}/v1`;
const client = new OpenAI({ baseURL: address, apiKey: "none", maxRetries: 0 });
const model = createOpenAICompatible({ name: "rushlight", baseURL: address })("tiny");

const LOOK = '<tool_call>\n{"name": "look", "arguments": {"at": "the sky"}}\n</tool_call>';
const ADD = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>';
const PARAMETERS = {
  look: { type: "object", properties: { at: { type: "string" } } },
  add: { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } } },
};
const tools = Object.entries(PARAMETERS).map(([name, parameters]) => ({
  type: /** @type {const} */ ("function"),
  function: { name, description: "does so", parameters },
}));

/** @param {string} content */
const user = (content) => [{ role: /** @type {const} */ ("user"), content }];

/** @param {string} content @param {object} [options] */
const ask = (content, options = {}) =>
  client.chat.completions.create({ model: "tiny", messages: user(content), ...options });

/** @param {any} answer */
const parts = ({ choices: [{ message, finish_reason }] }) => ({
  content: message.content,
  thinking: message.reasoning_content ?? "",
  calls: (message.tool_calls ?? []).map((/** @type {any} */ call) => call.function),
  reason: finish_reason,
});

/** @param {string} content @param {object} [options] */
const streamed = async (content, options = {}) => {
  const stream = client.chat.completions.stream({
    model: "tiny",
    messages: user(content),
    ...options,
  });
  /** @type {string[]} */
  const done = [];
  stream.on("tool_calls.function.arguments.done", ({ name }) => done.push(name));
  const answer = await stream.finalChatCompletion();
  return { ...parts(answer), done };
};

const sdkTools = {
  look: tool({
    inputSchema: z.object({ at: z.string() }),
    execute: async ({ at }) => `${at} is blue`,
  }),
  add: tool({
    inputSchema: z.object({ a: z.int(), b: z.int() }),
    execute: async ({ a, b }) => a + b,
  }),
};
const said = `Say: <think>hm</think>Well. ${LOOK}\n${ADD}`;

/** @type {Record<string, () => Promise<unknown>>} */
const cases = {
  models: async () => (await client.models.list()).data.map((row) => row.id),
  "a model": async () => (await client.models.retrieve("tiny")).id,
  answer: async () => parts(await ask("Hello", { max_tokens: 12 })),
  words: async () => parts(await ask("Say: plain words, é 灯")),
  "streamed words": () => streamed("Say: plain words, é 灯"),
  calls: async () => parts(await ask(said, { tools })),
  "streamed calls": () => streamed(said, { tools }),
  "one call": () => streamed(said, { tools, parallel_tool_calls: false }),
  "no call": async () => parts(await ask(`Say: ${LOOK}`, { tools, tool_choice: "none" })),
  "a call that is cut": () => streamed('Say: <tool_call>\n{"name": "look"', { tools }),
  stop: async () => parts(await ask("Say: one STOP two", { stop: "STOP" })),
  "streamed stop": () => streamed("Say: one STOP two", { stop: ["STOP"] }),
  "after calls": async () => {
    const first = (await ask(said, { tools })).choices[0].message;
    const results = (first.tool_calls ?? []).map(({ id }) => ({
      role: /** @type {const} */ ("tool"),
      tool_call_id: id,
      content: "3",
    }));
    const messages = [...user("x"), first, ...results, ...user("Say: done")];
    return parts(await client.chat.completions.create({ model: "tiny", messages, tools }));
  },
  usage: async () => {
    const chunks = [];
    const options = { max_tokens: 5, stream: true, stream_options: { include_usage: true } };
    for await (const chunk of /** @type {any} */ (await ask("Hello", options))) chunks.push(chunk);
    return chunks.at(-1).usage.completion_tokens;
  },
  logprobs: async () => {
    const answer = await ask("Hello", { max_tokens: 3, logprobs: true, top_logprobs: 2 });
    return answer.choices[0].logprobs?.content?.map((row) => row.top_logprobs.length);
  },
  "several answers": async () => {
    const answer = await ask("draw", { n: 3, temperature: 1.5, max_tokens: 6, seed: 7 });
    return answer.choices.map((choice) => choice.index);
  },
  "an answer by a schema": async () => {
    const schema = {
      type: "object",
      properties: { a: { enum: [1, 2] } },
      required: ["a"],
      additionalProperties: false,
    };
    const answer = await ask("x", {
      max_tokens: 400,
      response_format: { type: "json_schema", json_schema: { name: "pair", schema } },
    });
    return [1, 2].includes(JSON.parse(answer.choices[0].message.content ?? "").a);
  },
  embeddings: async () => {
    const input = ["a light", "a rush"];
    const rows = (await client.embeddings.create({ model: "tiny", input })).data;
    const options = { encoding_format: /** @type {const} */ ("float") };
    const plain = await client.embeddings.create({ model: "tiny", input, ...options });
    const near = rows.map((row, i) =>
      Math.max(...row.embedding.map((x, j) => Math.abs(x - plain.data[i].embedding[j]))),
    );
    return { width: rows.map((row) => row.embedding.length), near: near.every((x) => x < 1e-6) };
  },
  responses: async () => {
    const answer = await client.responses.create({ model: "tiny", input: "Say: thanks" });
    return { text: answer.output_text, status: answer.status };
  },
  "streamed responses": async () => {
    const kinds = new Set();
    const stream = client.responses.stream({ model: "tiny", input: "Say: thanks" });
    for await (const event of stream) kinds.add(event.type);
    return { first: [...kinds][0], text: (await stream.finalResponse()).output_text };
  },
  completions: async () => {
    const answer = await client.completions.create({ model: "tiny", prompt: "Say: ab" });
    return answer.choices[0].text;
  },
  aborted: async () => {
    const stop = new AbortController();
    const stream = await client.chat.completions.create(
      { model: "tiny", messages: user("Hello"), max_tokens: 2000, stream: true },
      { signal: stop.signal },
    );
    let count = 0;
    for await (const _ of stream) if (++count === 3) stop.abort();
    return count < 2000;
  },
  "an unknown field": () => ask("x", { colour: 1 }),
  "a temperature out of range": () => ask("x", { temperature: 3 }),
  "an unknown model": () => client.chat.completions.create({ model: "other", messages: user("x") }),
  "a prompt past the context": () => ask("x".repeat(3000)),
  "sdk: text": async () => {
    const { text, finishReason } = await generateText({ model, prompt: "Say: plain words" });
    return { text, finishReason };
  },
  "sdk: streamed text": async () => {
    const result = streamText({ model, prompt: "Say: plain words" });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    return { text, finishReason: await result.finishReason };
  },
  "sdk: calls": async () => {
    const result = await generateText({ model, tools: sdkTools, prompt: said });
    return {
      text: result.text.trim(),
      thinking: result.reasoningText,
      calls: result.toolCalls.map(({ toolName, input }) => [toolName, input]),
      results: result.toolResults.map(({ output }) => output),
    };
  },
  "sdk: streamed calls": async () => {
    const result = streamText({ model, tools: sdkTools, prompt: said });
    const kinds = [];
    for await (const part of result.fullStream) {
      if (part.type === "tool-call") kinds.push(part.toolName);
    }
    return { kinds, thinking: await result.reasoningText };
  },
  "sdk: a conversation with tools": async () => {
    const result = await generateText({
      model,
      tools: { look: sdkTools.look },
      stopWhen: stepCountIs(2),
      messages: user(`Say: ${LOOK}`),
    });
    return { steps: result.steps.length, first: result.steps[0].toolResults[0]?.output };
  },
  "sdk: an object": async () => {
    const structured = createOpenAICompatible({
      name: "rushlight",
      baseURL: address,
      supportsStructuredOutputs: true,
    })("tiny");
    const { object } = await generateObject({
      model: structured,
      schema: z.object({ a: z.enum(["one", "two"]) }),
      prompt: "x",
    });
    return ["one", "two"].includes(object.a);
  },
  "sdk: an error": () =>
    generateText({ model, prompt: "x", temperature: 3, maxRetries: 0 }).then(({ text }) => text),
};

for (const [name, run] of Object.entries(cases)) {
  /** @type {Record<string, unknown>} */
  let line;
  try {
    line = { name, value: await run() };
  } catch (error) {
    line = { name, error: error instanceof Error ? error.message : String(error) };
  }
  console.log(JSON.stringify(line));
}
