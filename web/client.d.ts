// client.d.ts: the types of Rushlight's page API; client.js implements them.

/** Where a model lies: the address of a folder (with or without a manifest) or of a .gguf file, a
 *  hub id "owner/name" or "owner/name@revision", files the visitor chose, or a directory handle. Of
 *  several GGUF files in one place the first kind of q4_0, q4_1, q5_0, q5_1, q8_0 is taken. */
export type ModelSource =
  | string
  | URL
  | Iterable<File>
  | { path: string; blob: Blob }[]
  | FileSystemDirectoryHandle;

export interface StartProgress {
  stage: "start";
  step: "runtime" | "library";
}

export interface LoadProgress {
  stage: "download";
  /** The file being read. */
  file: string;
  loaded: number;
  /** null while a server has not said how large a file is. */
  total: number | null;
  fromCache: number;
  fromNetwork: number;
  /** Why nothing is kept for the next visit; "" when it is. */
  notKept: string;
}

export interface BuildProgress {
  stage: "build";
}

export interface EncodeProgress {
  stage: "encode";
  done: number;
  total: number;
}

export interface LoadOptions {
  /** Where the model computes: "cpu" unless given. "webgpu" fails where there is no adapter; "auto"
   *  takes it where there is one, else the CPU. The model says which, and stays there. */
  device?: "cpu" | "webgpu" | "auto";
  /** Bytes of GPU memory that models may hold together; more is refused with a DeviceMemoryError. */
  memoryBudget?: number;
  /** A dtype to convert floating weights to, such as "float32"; the file's own without it. */
  dtype?: string;
  /** How quantized weights are multiplied on the CPU: "fast" (unless given) rounds what they are
   *  multiplied with to 16 bits, "exact" does not. The model's `linear` says which it is. */
  linear?: "exact" | "fast";
  onProgress?: (progress: LoadProgress | BuildProgress) => void;
  signal?: AbortSignal;
  /** Where hub ids are looked up. */
  hubUrl?: string;
}

export interface EncodeOptions {
  /** Texts per step: progress is reported, and a stop is obeyed, between two steps. */
  batchSize?: number;
  onProgress?: (progress: EncodeProgress) => void;
  signal?: AbortSignal;
}

export interface ChatMessage {
  role: "system" | "user" | "assistant" | (string & {});
  content: string;
}

export interface GeneratedToken {
  id: number;
  /** The text it completed; "" while a character is unfinished. */
  text: string;
  /** Logarithm of the model's own probability of it. */
  logprob: number;
}

export interface GenerateStats {
  promptTokens: number;
  generatedTokens: number;
  /** Until the first token, and from there to the end. */
  seconds: { prefill: number; decode: number };
  /** Why it ended: the model's own end, a stop text, or maxNewTokens. */
  stopped: "eos" | "stop" | "length";
}

export interface GenerateOptions {
  /** 256 unless given. */
  maxNewTokens?: number;
  /** 0, which takes the likeliest token each time, unless given. */
  temperature?: number;
  /** 0: all tokens. */
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  /** Token id -> number added to its logit. */
  logitBias?: Record<number, number>;
  /** For each token of the vocabulary whether it is allowed. */
  tokenMask?: boolean[] | Uint8Array;
  seed?: number;
  /** Text that ends the answer and is no part of it. */
  stop?: string | string[];
  /** What to do when the context is full: "error" (the default), or "shift" drops the oldest. */
  overflow?: "error" | "shift";
  signal?: AbortSignal;
  onToken?: (token: GeneratedToken) => void;
  /** Tokens of the prompt that have been read. */
  onProgress?: (progress: { stage: "prefill"; done: number; total: number }) => void;
  /** Called once, when the answer has ended by itself. */
  onDone?: (stats: GenerateStats) => void;
}

export interface Description {
  name: string;
  origin: "folder" | "hub" | "local";
  files: { path: string; size?: number }[];
  /** Size of all files; null when the server does not say before the download. */
  bytes: number | null;
  /** How many of them are in the browser's storage already. */
  cachedBytes: number;
  notKept: string;
}

export interface TuneOptions {
  signal?: AbortSignal;
  onProgress?: (progress: { stage: "tune"; done: number; total: number; what: string }) => void;
}

/** A class of operands for which one of several kernels was chosen. */
export interface Tuned {
  what: string;
  /** What is taken where nothing was measured. */
  guess: string;
  choice: string;
  /** By name; what failed or gave other results is missing. */
  seconds: Record<string, number>;
}

/** What a kernel did in all: seconds, bytes and operations of arithmetic. */
export interface TimingRow {
  op: string;
  kernel: string;
  calls: number;
  seconds: number;
  /** Of the time of all kernels. */
  share: number;
  bytes: number;
  operations: number;
  bytesPerSecond: number;
  operationsPerSecond: number;
  /** Shares of what the adapter copies and computes at most, where there is something to tell. */
  ofCopy?: number;
  ofFma?: number;
}

export interface Timing {
  device: string;
  adapter: string;
  /** Of the whole, and of its kernels. */
  seconds: number;
  kernelSeconds: number;
  calls: number;
  /** Seconds of Python by what it did: preparing ops, submitting them, waiting, anything else. */
  host: { preparing: number; submitting: number; waiting: number; other: number };
  /** How kernels were timed: by "timestamps" of the GPU, or by a clock. */
  timing: string;
  /** Seconds that the browser rounds timestamps to; 0 where it does not. */
  resolution: number;
  /** What the adapter copies and computes at most, measured where there was room for that. */
  bytesPerSecond?: number;
  operationsPerSecond?: number;
  /** The longest first. */
  rows: TimingRow[];
  /** The events as JSON for ui.perfetto.dev or chrome://tracing, until the next `profile`. */
  trace(): Promise<string>;
}

export interface Model {
  readonly name: string;
  readonly modelType: string;
  readonly parameters: number;
  /** "cpu" or "webgpu". */
  readonly device: "cpu" | "webgpu";
  /** The WebGPU adapter that computes; "" on the CPU. */
  readonly adapter: string;
  /** What computes on the CPU: "relaxed SIMD", "SIMD128", or "NumPy" and why; "" on WebGPU. */
  readonly kernels: string;
  /** How quantized weights are multiplied. */
  readonly linear: "exact" | "fast";
  /** Why "auto" took the CPU; "" otherwise. */
  readonly why: string;
  /** Seconds from the call of `load` until the model was ready. */
  readonly seconds: number;
  /** Tokens that prompt and answer can have together; 0 for a model that does not generate. */
  readonly contextLength: number;
  /** Whether `chat` can lay messages out. */
  readonly chatTemplate: boolean;
  /** Continues a prompt, without a chat template: pieces of text as they come. Leaving the loop and
   *  the signal stop the worker within one token. */
  generate(prompt: string | number[], options?: GenerateOptions): AsyncGenerator<string, void, void>;
  /** The assistant's answer to `messages`, laid out by the model's chat template. */
  chat(messages: ChatMessage[], options?: GenerateOptions): AsyncGenerator<string, void, void>;
  /** Tokens of a text, or of messages in the chat template. */
  tokenCount(prompt: string | ChatMessage[]): Promise<number>;
  /** One vector per text, in the order of the texts. */
  encode(texts: string | string[], options?: EncodeOptions): Promise<Float32Array[]>;
  /** Vectors one by one, in order; `break` or the signal stops the worker within one step. */
  encodeStream(
    texts: Iterable<string> | AsyncIterable<string>,
    options?: EncodeOptions,
  ): AsyncGenerator<Float32Array, void, void>;
  /** `Rushlight.tune` for what this model computes; it must be on webgpu. */
  tune(options?: TuneOptions): Promise<Tuned[]>;
  /** Does `work` while every kernel of the model's device is timed, which slows it. */
  profile<T>(work: () => Promise<T>): Promise<{ value: T; timing: Timing }>;
  /** Gives the memory back. */
  dispose(): Promise<void>;
}

/** The tab's WebGPU adapter: its name, or null with why there is none and what to do about it. */
export interface Adapter {
  name: string | null;
  why: string;
  hint: string;
  /** Whether it computes on the processor after all. */
  software: boolean;
}

export interface Info {
  version: string;
  python: string;
  numpy: string;
  /** What computes on the CPU, as in `Model`. */
  kernels: string;
  pyodide: string;
  /** What the CPU computes with, in words. */
  device: string;
  cores: number;
  jspi: boolean;
  /** The WebGPU adapter's name, or null where the browser offers none. */
  webgpu: string | null;
  heapBytes: number;
  /** Seconds the runtime took to start. */
  startedIn: number;
  notKept: string;
}

export interface CachedFile {
  url: string;
  bytes: number;
  size: number | null;
  complete: boolean;
  savedAt: number | null;
}

export interface Rushlight {
  /** What loading would read, without loading it. */
  describe(source: ModelSource, options?: { hubUrl?: string; signal?: AbortSignal }): Promise<Description>;
  load(source: ModelSource, options?: LoadOptions): Promise<Model>;
  info(): Promise<Info>;
  /** The WebGPU adapter that models loaded with device "webgpu" compute on. */
  adapter(): Promise<Adapter>;
  /** Times a float32 matrix product in the worker (half a second). */
  measure(): Promise<{ size: number; gflops: number }>;
  /** Measures which kernels are fastest on the WebGPU adapter, for what was computed on it so far,
   *  else for what language models compute; takes a minute or more. They are used from then on, and
   *  by later starts in this browser. */
  tune(options?: TuneOptions): Promise<Tuned[]>;
  readonly cache: {
    list(): Promise<CachedFile[]>;
    /** Forgets kept files (those whose address starts with `prefix`); resolves to bytes freed.
     *  Without a prefix also what `tune` measured. */
    clear(prefix?: string): Promise<number>;
  };
  /** False once the worker has ended: open a new runtime then. */
  readonly alive: boolean;
  /** Ends the worker; every pending call rejects. */
  close(): void;
}

export interface CreateOptions {
  onProgress?: (progress: StartProgress) => void;
  signal?: AbortSignal;
  /** The folder that holds worker.js, if it is not client.js's own. */
  runtimeUrl?: string | URL;
}

/** An error of the worker: `hint` says what to do, `retry` whether trying again may help. Its name
 *  is "DeviceLostError" when the GPU and all models on it were lost (load them again), and
 *  "DeviceMemoryError" when it has no room. */
export class RushlightError extends Error {
  hint: string;
  retry: boolean;
}

/** The WebGPU adapter as the page sees it; no worker is started. */
export function adapter(): Promise<Adapter>;

/** Starts the worker; resolves when Python, NumPy and Rushlight are ready in it. */
export function createRushlight(options?: CreateOptions): Promise<Rushlight>;

/** Starts the worker and comes back at once: `describe` works at once, other calls wait for it. */
export function openRushlight(options?: CreateOptions): Rushlight & { ready: Promise<void> };
