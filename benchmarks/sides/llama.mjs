// llama.cpp in a process of its own, by node-llama-cpp's prebuilt library.
//
//     node benchmarks/sides/llama.mjs THREADS NODE_MODULES
//
// Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [threads, modules] = [Number(process.argv[2]), process.argv[3]];
const { getLlama } = await import(`${modules}/node-llama-cpp/dist/index.js`);
const llama = await getLlama({
  gpu: false,
  build: "never",
  skipDownload: true,
  logLevel: "error",
  progressLogs: false,
  maxThreads: threads,
});
let sequence = null;

const peak = () => /VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1] / 1024;
const now = () => {
  const { user, system } = process.cpuUsage();
  return { wall: performance.now() / 1000, spent: (user + system) / 1e6 };
};

const calls = {
  about: () => ({ llama: llama.llamaCppRelease?.release ?? "", node: process.version }),

  async load({ model, context: contextSize }) {
    const before = peak();
    const began = now();
    const loaded = await llama.loadModel({ modelPath: model });
    const context = await loaded.createContext({
      contextSize,
      batchSize: 512,
      threads: { ideal: threads, min: threads },
      flashAttention: true,
    });
    sequence = context.getSequence();
    return { seconds: now().wall - began.wall, before_mb: before, threads: context.currentThreads };
  },

  // Greedy tokens, with the time to the first and of each later one.
  async generate({ ids, count }) {
    await sequence.clearHistory();
    const found = [];
    const times = [now()];
    for await (const token of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
      times[Math.min(found.length, 1) + 1] = now();
      found.push(token);
      if (found.length === count) break;
    }
    const [began, first, last = first] = times;
    const each = Math.max(found.length - 1, 1);
    return {
      prefill_seconds: first.wall - began.wall,
      prefill_processor_s: first.spent - began.spent,
      decode_seconds: (last.wall - first.wall) / each,
      decode_processor_s: (last.spent - first.spent) / each,
      ids: found,
    };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [call, given] = JSON.parse(line);
  console.log(JSON.stringify((await calls[call](given)) ?? null));
}
process.exit(0);
