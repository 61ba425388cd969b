// client.d.ts: the types of Rushlight's page API; client.js implements them.

import type { InspectOptions, Inspection } from "./inspection.d.ts";
import type { Capture, Live, LiveOptions, Transcript } from "./live.d.ts";
import type { LanguageModel, OpenAI } from "./openai.d.ts";

export type * from "./inspection.d.ts";
export type * from "./live.d.ts";
export type * from "./openai.d.ts";

/** Where a model comes from: the URL of a folder (with or without a manifest), of a .gguf file, or
 *  of a .pt or .pth file that tells what it holds (torchvision's, Ultralytics'), a hub id
 *  "owner/name" or "owner/name@revision", files the visitor chose, or a directory handle. If
 *  there are several GGUF files, types with fast kernels are preferred: q4_0, q4_1, q5_0, q5_1,
 *  q8_0, then q4_k, q5_k, q6_k, the other quantized types, f16, bf16. A part of a split GGUF file
 *  stands for all of them. Where there is no model.safetensors, a .bin, .pt, .pth or .npz serves. */
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
  /** null while the server has not stated the size of a file. */
  total: number | null;
  fromCache: number;
  fromNetwork: number;
  /** The reason why nothing is kept for the next visit; "" if files are kept. */
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
  /** The device that computes; "cpu" by default. "webgpu" fails without an adapter. "auto" is
   *  webgpu if there is an adapter that does not compute in software, else cpu. `Model.device` says
   *  which, and `Model.why` the reason for cpu; the model stays there. */
  device?: "cpu" | "webgpu" | "auto";
  /** Bytes of GPU memory that all models together may hold. More raises a DeviceMemoryError. */
  memoryBudget?: number;
  /** The dtype to convert floating weights to, such as "float32"; by default the file's own. Of a
   *  folder of ONNX files it chooses the file: "fp32", "fp16", "q8", "int8", "uint8", "q4", "bnb4"
   *  or "q4f16", or one for each graph. */
  dtype?: string | Record<string, string>;
  /** "onnx": the folder's ONNX files, where it has other weights too. */
  format?: "onnx";
  /** How quantized weights are multiplied: "fast" (the default) rounds activations to 16 bits on
   *  the CPU, "int8" to 8 bits on WebGPU, "float16" computes prompts in it there, "exact" rounds
   *  nothing. `Model.linear` says which mode is in use. */
  linear?: "exact" | "fast" | "float16" | "int8";
  /** The most tokens of a context, which bounds the memory of a conversation; by default and at
   *  most the model's own. */
  context?: number;
  /** Bytes of earlier conversations that are kept: one that goes on, or begins alike, is not read
   *  again. By default only the latest is kept. */
  prefixCache?: number;
  onProgress?: (progress: LoadProgress | BuildProgress) => void;
  signal?: AbortSignal;
  /** The URL of the hub. */
  hubUrl?: string;
}

/** What a program shows: text, text of errors and warnings, pictures (RGBA) and charts. */
export type PythonOutput =
  | { kind: "text" | "error"; value: string }
  /** The program waits for what the visitor types; the value is its question. */
  | { kind: "input"; value: string }
  | { kind: "image"; value: { width: number; height: number }; data: Uint8Array<ArrayBuffer> }
  | {
      kind: "plot";
      value: {
        x: (number | null)[];
        lines: { label: string; y: (number | null)[] }[];
        title: string;
        kind: "line" | "scatter" | "bar";
      };
    };

export interface PythonOptions {
  device?: "cpu" | "webgpu";
  /** Called with each piece of output, in order. `answer` gives a program that waits, by `input`
   *  or `await ask`, what the visitor typed. */
  onOutput?: (output: PythonOutput, answer: (text: string) => void) => void;
}

export interface PythonError {
  /** The traceback from the program's own lines on. */
  text: string;
  /** The line of the program; 0 if the error has none. */
  line: number;
}

export interface Completions {
  /** Where the name that is completed begins. */
  from: number;
  options: { label: string; type: string; info: string }[];
}

export interface AdapterOptions {
  /** What `setAdapters` calls it; "default" by default. */
  name?: string;
  onProgress?: (progress: LoadProgress) => void;
  signal?: AbortSignal;
  /** The URL of the hub. */
  hubUrl?: string;
}

/** Options of `finetune`: of the adapter (those of PEFT's LoraConfig, such as `targetModules` or
 *  `useDora`, in this spelling), and of the training. */
export interface FinetuneOptions {
  /** What `setAdapters` calls it; "default" by default. */
  name?: string;
  /** The rank; 8 by default. */
  r?: number;
  /** Twice the rank by default. */
  loraAlpha?: number;
  /** Ends of modules' names; all linear layers by default. */
  targetModules?: string | string[];
  /** The number of steps; by default that of `epochs`, which is 1. */
  steps?: number;
  epochs?: number;
  /** Examples of a step; 4 by default. */
  batchSize?: number;
  /** The most tokens of an example. */
  length?: number;
  /** Whether rows of `length` tokens hold several examples. */
  pack?: boolean;
  /** The largest learning rate; 2e-4 by default. */
  lr?: number;
  /** The share of the steps in which the rate rises; 0.1 by default. */
  warmup?: number;
  seed?: number;
  /** Called after each step. */
  onProgress?: (progress: { stage: "finetune"; done: number; total: number; loss: number }) => void;
  /** Ends the training; the adapter stays, as far as it was trained. */
  signal?: AbortSignal;
  [option: string]: unknown;
}

/** A page's own Python modules in the worker. */
export interface PythonModules {
  /** Calls "MODULE.FUNCTION" with a job and `args`, and resolves to what it returns. Numbers, texts,
   *  arrays, objects and bytes go both ways. The job's `tell(value)` calls `onProgress`; its
   *  `stopped()` says whether the signal has aborted. now: the function runs between two steps of
   *  the call that is under way (an async function's `await`), not after it. */
  call(
    name: string,
    args?: unknown[],
    options?: { now?: boolean; signal?: AbortSignal; onProgress?: (value: any) => void },
  ): Promise<any>;
}

export interface FileOptions {
  /** Checked if given, and then the file is looked for in the browser alone. */
  sha256?: string;
  size?: number;
  onProgress?: (progress: { loaded: number; total: number | null }) => void;
  signal?: AbortSignal;
}

export interface EncodeOptions {
  /** Texts per step. Progress is reported, and a stop takes effect, between two steps. */
  batchSize?: number;
  /** Features that are kept, normalised, where a model's first ones suffice (Matryoshka). */
  dim?: number;
  /** The name of a prompt of the model, put before each text. */
  promptName?: string;
  /** A text that is put before each text. */
  prompt?: string;
  /** The adapter of a model that has several. */
  adapter?: string;
  onProgress?: (progress: EncodeProgress) => void;
  signal?: AbortSignal;
}

export interface ChatMessage {
  role: "system" | "user" | "assistant" | "tool" | (string & {});
  /** A text, or its parts: `{ type: "text", text }` and, for models that see,
   *  `{ type: "image", image }` with an ImageData. */
  content: string | ({ type: string } & Record<string, unknown>)[];
  /** Whatever else the model's chat template reads, such as `tool_calls`. */
  [key: string]: unknown;
}

/** A function that the model may call; `parameters` is a JSON Schema. */
export interface Tool {
  type: "function";
  function: { name: string; description?: string; parameters?: object };
}

/** "auto" leaves calls to the model, "none" drops the tools, the others force calls whose arguments
 *  fit the tools' schemas. */
export type ToolChoice =
  | "auto"
  | "none"
  | "required"
  | { type: "function"; function: { name: string } };

/** The form of an answer, as OpenAI spells it; or a JSON Schema. Tokens that would leave the form
 *  are never chosen. */
export type ResponseFormat =
  | { type: "text" | "json_object" }
  | { type: "json_schema"; json_schema: { name?: string; schema: object; strict?: boolean } }
  | { type: "regex"; pattern: string }
  | { type: "choice"; choices: string[] }
  | { type: "grammar"; grammar: string; syntax?: "gbnf" | "lark" }
  | Record<string, unknown>;

export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** Of an answer of `chat`: what was said and thought, and which tools are called. */
export interface ChatStats extends GenerateStats {
  content: string;
  thinking: string;
  toolCalls: ToolCall[];
}

/** What an answer about a picture points at, in pixels of the picture. */
export interface Place {
  label: string;
  box?: { xmin: number; ymin: number; xmax: number; ymax: number };
  point?: { x: number; y: number };
}

export interface PictureStats extends ChatStats {
  places: Place[];
}

export interface GeneratedToken {
  id: number;
  /** The text that this token completed; "" while a character is unfinished. */
  text: string;
  /** Logarithm of the probability that the model gives this token. */
  logprob: number;
  /** The likeliest tokens with theirs, as many as `logprobs` asks for. */
  top?: [id: number, logprob: number][];
}

export interface GenerateStats {
  promptTokens: number;
  generatedTokens: number;
  /** prefill: until the first token. decode: from there to the end. */
  seconds: { prefill: number; decode: number };
  /** Why it ended: the model's end token, a stop text, maxNewTokens, or an answer about a picture
   *  that repeats itself. */
  stopped: "eos" | "stop" | "length" | "repetition";
}

export interface GenerateOptions {
  /** The checkpoint's by default, or 256. */
  maxNewTokens?: number;
  /** The checkpoint's by default, or 0, which always takes the likeliest token. */
  temperature?: number;
  /** 0: all tokens. */
  topK?: number;
  topP?: number;
  minP?: number;
  /** Draw from the tokens of usual surprise that sum to this (Meister et al., 2022). */
  typicalP?: number;
  /** Draw from logits within so many standard deviations of the largest; 0: from all. */
  topNSigma?: number;
  epsilonCutoff?: number;
  etaCutoff?: number;
  /** The temperature varies by this much, with the entropy to the power dynatempExponent. */
  dynatempRange?: number;
  dynatempExponent?: number;
  /** How often all but the last of the tokens of at least xtcThreshold are left out. */
  xtcProbability?: number;
  xtcThreshold?: number;
  /** 1 or 2: aim at a surprise of mirostatTau bits, at the rate mirostatEta. */
  mirostat?: number;
  mirostatTau?: number;
  mirostatEta?: number;
  /** The samplers that run, in their order; by default llama.cpp's. */
  samplers?: string | string[];
  /** Whether to draw: with the checkpoint's temperature, or 1. */
  doSample?: boolean;
  repetitionPenalty?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  /** The penalties count the last so many tokens; -1: all. */
  penaltyLastN?: number;
  /** Above 0: lower what would repeat runs of more than dryAllowedLength tokens (DRY). */
  dryMultiplier?: number;
  dryBase?: number;
  dryAllowedLength?: number;
  dryPenaltyLastN?: number;
  drySequenceBreakers?: string | string[];
  noRepeatNgramSize?: number;
  /** Token id -> number added to its logit. */
  logitBias?: Record<number, number>;
  /** Whether each token of the vocabulary is allowed. */
  tokenMask?: boolean[] | Uint8Array;
  /** Runs of tokens that are not written. */
  badWordsIds?: number[][];
  suppressTokens?: number[];
  beginSuppressTokens?: number[];
  forcedBosTokenId?: number;
  forcedEosTokenId?: number | number[];
  seed?: number;
  /** Text that ends the answer and is not part of it. */
  stop?: string | string[];
  /** Tokens that end the answer, besides the checkpoint's. */
  stopTokenIds?: number[];
  /** Tokens that end the answer in place of the checkpoint's. */
  eosTokenId?: number | number[];
  minNewTokens?: number;
  /** The fewest and the most tokens of prompt and answer. */
  minLength?: number;
  maxLength?: number;
  /** Tell so many of the likeliest tokens with each token. */
  logprobs?: number;
  /** Answers of a prompt, drawn or by beams; `text` of a task's result is then a list. */
  numReturnSequences?: number;
  /** Sequences that are continued together: the text comes at the end. */
  numBeams?: number;
  numBeamGroups?: number;
  diversityPenalty?: number;
  lengthPenalty?: number;
  earlyStopping?: boolean;
  /** Above 0, with topK: contrastive search. */
  penaltyAlpha?: number;
  /** Guess so many tokens from the text so far; the answer stays the same. */
  promptLookupNumTokens?: number;
  numAssistantTokens?: number;
  /** What to do when the context is full: "error" (the default, also "raise"), or "shift", which
   *  drops the oldest tokens but for the first `sinks`. */
  overflow?: "error" | "raise" | "shift";
  sinks?: number;
  /** The form of the answer: a JSON Schema, a pattern, choices or a grammar. */
  responseFormat?: ResponseFormat;
  /** How quantized weights are multiplied; by default as given to `load`. */
  linear?: "exact" | "fast" | "float16" | "int8";
  /** The dtype of cached keys and values: "float32" (the default), or a smaller one. */
  cacheType?: "float32" | "float16" | "q8_0";
  signal?: AbortSignal;
  onToken?: (token: GeneratedToken) => void;
  /** Tokens of the prompt that have been read. */
  onProgress?: (progress: { stage: "prefill"; done: number; total: number }) => void;
  /** Called once, when the answer is complete. */
  onDone?: (stats: GenerateStats) => void;
}

/** The variables that many chat templates have; others may be given, too. */
export interface TemplateVariables {
  enable_thinking?: boolean;
  reasoning_effort?: string;
}

/** What shapes the prompt that a chat template makes. */
export interface TemplateOptions extends TemplateVariables {
  /** Functions that the model may call; its calls are in `toolCalls` of `onDone`. */
  tools?: Tool[];
  /** Whether tools are called; "auto" by default. */
  toolChoice?: ToolChoice;
  /** Whether an answer may have several forced calls; true by default. */
  parallelToolCalls?: boolean;
  /** What the answer may draw on, usually objects of title and text. */
  documents?: Record<string, unknown>[];
  /** The name of one of the checkpoint's templates, or a template in Jinja. */
  chatTemplate?: string;
  /** Whether the prompt ends where a new answer begins. */
  addGenerationPrompt?: boolean;
  /** Whether to go on with the last message, or its key that is unfinished. By default the
   *  assistant's message is continued if it is the last. */
  continueFinalMessage?: boolean | string;
  /** Variables of the template by name. One that it does not use has no effect. */
  chatTemplateKwargs?: Record<string, unknown>;
}

export interface ChatOptions extends Omit<GenerateOptions, "onDone">, TemplateOptions {
  onDone?: (stats: ChatStats) => void;
}

/** Options of every call of a task, besides the task's own. */
export interface CallOptions {
  signal?: AbortSignal;
  onProgress?: (progress: { stage: string; done: number; total: number }) => void;
  /** Of a task that draws: told after each step what it would end with. */
  onPreview?: (preview: Preview) => void;
}

/** Small pictures of a step, a byte each of red, green and blue. */
export interface Preview {
  step: number;
  total: number;
  pictures: { width: number; height: number; image: Uint8Array }[];
}

/** A task as the worker describes it: JSON Schemas of what goes in and of the options. */
export interface TaskInfo {
  name: string;
  summary: string;
  input: { name: string; description: string; schema: object };
  options: { type: "object"; properties: Record<string, object>; additionalProperties: false };
  output: "vectors" | "text" | "value";
  /** Whether a pipeline's `stream` gives its text, or its speech, piece by piece. */
  streams: boolean;
}

/** What question-answering takes. */
export interface Question {
  question: string;
  context: string;
}

/** What table-question-answering takes: columns by name, or rows, and a question or several. */
export interface TableQuestion {
  table: Record<string, string[]> | Record<string, string>[];
  query: string | string[];
}

/** The cells that answer a question, by row and column, and what is done with them. */
export interface TableAnswer {
  answer: string;
  coordinates: [number, number][];
  cells: string[];
  aggregator?: string;
}

/** A part of a text: `text.slice(start, end)`. */
export interface TextPart {
  /** The class of a token, or that of a group. */
  entity?: string;
  entityGroup?: string;
  score: number;
  /** The token's number; a group has none. */
  index?: number;
  word: string;
  start: number;
  end: number;
}

/** Input and output of each task. Tasks that are not listed here have unchecked types. */
export interface Tasks {
  "feature-extraction": { input: string | string[]; options: EncodeOptions; output: Vectors };
  "text-generation": {
    input: string | number[];
    /** template: format the prompt as a message with the chat template. */
    options: GenerateOptions & {
      template?: boolean;
      chatTemplateKwargs?: Record<string, unknown>;
    };
    output: string;
  };
  chat: { input: ChatMessage[]; options: ChatOptions; output: string };
  "image-text-to-text": {
    input: string | ChatMessage[];
    /** images: what a text is about. minPixels, maxPixels: what pictures are resized to. */
    options: Omit<ChatOptions, "onDone"> & {
      onDone?: (stats: PictureStats) => void;
      images?: ImageData | ImageData[];
      minPixels?: number;
      maxPixels?: number;
    };
    output: string;
  };
  "audio-text-to-text": {
    input: string | ChatMessage[];
    /** sounds: what a text is about. */
    options: ChatOptions & { sounds?: Recording[] };
    output: string;
  };
  "token-classification": {
    input: string | string[];
    options: CallOptions & {
      /** "none" by default, which gives tokens; the others give groups of them. */
      aggregationStrategy?: "none" | "simple" | "first" | "average" | "max";
      ignoreLabels?: string | string[];
      stride?: number;
      batchSize?: number;
    };
    output: TextPart[] | TextPart[][];
  };
  "question-answering": {
    input: Question | Question[];
    options: CallOptions & {
      topK?: number;
      maxAnswerLen?: number;
      docStride?: number;
      maxSeqLen?: number;
      handleImpossibleAnswer?: boolean;
      alignToWords?: boolean;
      batchSize?: number;
    };
    output: any;
  };
  "table-question-answering": {
    input: TableQuestion | TableQuestion[];
    options: CallOptions & { sequential?: boolean; batchSize?: number };
    output: any;
  };
  "zero-shot-classification": {
    input: string | string[];
    options: CallOptions & {
      candidateLabels: string | string[];
      hypothesisTemplate?: string;
      multiLabel?: boolean;
      batchSize?: number;
    };
    output: any;
  };
  "audio-classification": {
    input: Recording;
    options: CallOptions & { topK?: number; functionToApply?: "softmax" | "sigmoid" | "none" };
    output: { label: string; score: number }[];
  };
  "zero-shot-audio-classification": {
    input: Recording;
    options: CallOptions & { candidateLabels: string | string[]; hypothesisTemplate?: string };
    output: { label: string; score: number }[];
  };
  /** bandwidth: thousands of bits a second. */
  "audio-to-audio": {
    input: Recording;
    options: CallOptions & { bandwidth?: number; codebooks?: number };
    output: CodedSound & { bandwidth: number; codebooks: number };
  };
  "text-to-audio": {
    input: string;
    options: CallOptions & {
      seconds?: number;
      guidanceScale?: number;
      doSample?: boolean;
      temperature?: number;
      topK?: number;
      seed?: number;
    };
    output: CodedSound;
  };
  /** similarity and same: of the second recording, or lists where there are more. */
  "speaker-verification": {
    input: Recording[];
    options: CallOptions & { threshold?: number };
    output: {
      similarity: number | number[];
      same: boolean | boolean[];
      embeddings: number[][];
    };
  };
  "speaker-diarization": {
    input: Recording;
    options: CallOptions & {
      speakers?: number;
      voices?: string;
      threshold?: number;
      step?: number;
      minSpeech?: number;
      minSilence?: number;
    };
    output: {
      duration: number;
      speakers: number;
      segments: { start: number; end: number; speaker: string }[];
    };
  };
  "pitch-estimation": {
    input: Recording;
    options: CallOptions & {
      step?: number;
      lowest?: number;
      highest?: number;
      decoder?: "viterbi" | "argmax" | "weighted";
    };
    output: { duration: number; step: number; pitch: number[]; periodicity: number[] };
  };
  "text-ranking": {
    input: string | string[];
    options: CallOptions & {
      query: string;
      topK?: number;
      returnDocuments?: boolean;
      functionToApply?: "sigmoid" | "none";
      batchSize?: number;
    };
    output: { corpusId: number; score: number; text?: string }[];
  };
  "text-to-speech": {
    input: string;
    options: CallOptions & {
      speed?: number;
      speaker?: number;
      speakerEmbeddings?: string | Float32Array | number[];
      lexicon?: Record<string, unknown>;
      phonemizer?: "auto" | "espeak" | "lexicon";
      noiseScale?: number;
      noiseScaleDuration?: number;
      seed?: number;
    };
    output: Speech & { phonemes: string[] };
    piece: Speech & { phonemes: string; start: number; end: number };
  };
  "text-to-image": {
    input: string | string[];
    options: DrawOptions & { referenceImages?: ImageData | ImageData[] };
    output: Drawing | Drawing[];
  };
  /** Of a model that draws; one that enlarges takes no options. */
  "image-to-image": {
    input: ImageData | ImageData[];
    options: DrawOptions & { prompt?: string | string[]; strength?: number };
    output: Drawing | Drawing[];
  };
  inpainting: {
    input: ImageData | ImageData[];
    options: DrawOptions & {
      prompt?: string | string[];
      maskImage: ImageData;
      strength?: number;
    };
    output: Drawing | Drawing[];
  };
  [task: string]: { input: any; options: CallOptions & Record<string, any>; output: any };
}

/** Options of the tasks that draw; those that are left out are the model's own. */
export interface DrawOptions extends CallOptions {
  negativePrompt?: string | string[];
  steps?: number;
  guidance?: number;
  seed?: number;
  width?: number;
  height?: number;
  size?: string;
  numImagesPerPrompt?: number;
  scheduler?: string;
  eta?: number;
  guidanceRescale?: number;
  clipSkip?: number;
  maxSequenceLength?: number;
  controlImage?: ImageData;
  controlnetConditioningScale?: number;
  /** "one": a part of the pipeline at a time is in memory. */
  keep?: "all" | "one";
}

/** A picture that was drawn: a byte each of red, green and blue, and what draws it again. */
export interface Drawing {
  width: number;
  height: number;
  image: Uint8Array;
  settings: Record<string, unknown>;
}

/** Samples at a rate; alone they have the model's. */
export type Recording = Float32Array | { samples: Float32Array; rate: number };

/** Samples in [-1, 1]: those of one channel after those of another. */
export interface CodedSound {
  audio: Float32Array<ArrayBuffer>;
  samplingRate: number;
  channels: number;
  /** Seconds. */
  duration: number;
}

/** What a text sounds like; streamed, a sentence of it, whose times are those of the whole. */
export interface Speech {
  /** Samples in [-1, 1]. */
  audio: Float32Array<ArrayBuffer>;
  samplingRate: number;
  /** start, end: seconds. from, to: the word is `text.slice(from, to)`. */
  words: { word: string; start: number; end: number; from: number; to: number }[];
  /** In the IPA: of a sentence, or of each. */
  phonemes: string | string[];
}

/** One vector for one text, a list of vectors for a list of texts. */
export type Vectors = Float32Array | Float32Array[];

/** A task of a model: `await pipe(input)`, or `for await (... of pipe.stream(input))` for pieces of
 *  text, or of speech. `pipe.model.dispose()` frees the model's memory. */
export interface Pipeline<T extends { input: any; options: any; output: any }> {
  (input: T["input"], options?: T["options"]): Promise<T["output"]>;
  stream(
    input: T["input"],
    options?: T["options"],
  ): AsyncGenerator<T extends { piece: infer P } ? P : string, void, void>;
  readonly task: TaskInfo;
  readonly model: Model;
}

export interface Description {
  name: string;
  origin: "folder" | "hub" | "local";
  files: { path: string; size?: number }[];
  /** Size of all files; null if the server does not state it before the download. */
  bytes: number | null;
  /** How many of these bytes are in the browser's storage already. */
  cachedBytes: number;
  notKept: string;
}

export interface AutotuneOptions {
  signal?: AbortSignal;
  onProgress?: (progress: { stage: "autotune"; done: number; total: number; what: string }) => void;
}

/** A class of operands for which one of several kernels was chosen. */
export interface Tuned {
  what: string;
  /** The kernel that is used without a measurement. */
  guess: string;
  choice: string;
  /** By name. A kernel that failed or gave other results is missing. */
  seconds: Record<string, number>;
}

/** The totals of a kernel: seconds, bytes and arithmetic operations. */
export interface TimingRow {
  op: string;
  kernel: string;
  calls: number;
  seconds: number;
  /** Share of the time of all kernels. */
  share: number;
  bytes: number;
  operations: number;
  bytesPerSecond: number;
  operationsPerSecond: number;
  /** Shares of the adapter's measured maximum for copies and for arithmetic, if known. */
  ofCopy?: number;
  ofFma?: number;
}

export interface Timing {
  device: string;
  adapter: string;
  /** Time of the whole work, and of its kernels. */
  seconds: number;
  kernelSeconds: number;
  calls: number;
  /** Seconds of Python by activity. */
  host: { preparing: number; submitting: number; waiting: number; other: number };
  /** How kernels were timed: by the GPU's "timestamps", or by a clock. */
  timing: string;
  /** Seconds that the browser rounds timestamps to; 0 if it does not round. */
  resolution: number;
  /** The adapter's measured maximum for copies and for arithmetic, if there was room to measure. */
  bytesPerSecond?: number;
  operationsPerSecond?: number;
  /** In order of their time, the longest first. */
  rows: TimingRow[];
  /** The events as JSON for ui.perfetto.dev or chrome://tracing, until the next `profile`. */
  trace(): Promise<string>;
}

export interface Model {
  readonly name: string;
  readonly modelType: string;
  /** The tasks that the model supports, the default one first. */
  readonly tasks: string[];
  readonly parameters: number;
  /** "cpu" or "webgpu". */
  readonly device: "cpu" | "webgpu";
  /** The name of the WebGPU adapter; "" on the CPU. */
  readonly adapter: string;
  /** The CPU's kernels: "relaxed SIMD", "SIMD128", or "NumPy" and the reason; "" on WebGPU. */
  readonly kernels: string;
  /** How quantized weights are multiplied. */
  readonly linear: "exact" | "fast" | "float16" | "int8";
  /** Why "auto" chose the CPU; "" otherwise. */
  readonly why: string;
  /** Seconds from the call of `load` until the model was ready. */
  readonly seconds: number;
  /** The most tokens of prompt and answer together; 0 for a model that does not generate. */
  readonly contextLength: number;
  /** Whether the model has a chat template, which `chat` needs. */
  readonly chatTemplate: boolean;
  /** Whether the chat template has the variable enable_thinking. */
  readonly thinkingSwitch: boolean;
  /** Whether the chat template shows the model the tools that `chat` gets. */
  readonly toolsInTemplate: boolean;
  /** Continues a prompt without a chat template and yields pieces of text. Leaving the loop or
   *  aborting the signal stops the worker within one token. */
  generate(prompt: string | number[], options?: GenerateOptions): AsyncGenerator<string, void, void>;
  /** The assistant's answer to `messages`, which the model's chat template formats. */
  chat(messages: ChatMessage[], options?: ChatOptions): AsyncGenerator<string, void, void>;
  /** Tokens of a text, or of messages in the chat template. */
  tokenCount(prompt: string | ChatMessage[], options?: TemplateOptions): Promise<number>;
  /** One vector per text, in the order of the texts. */
  encode(texts: string | string[], options?: EncodeOptions): Promise<Float32Array[]>;
  /** Vectors one by one, in order. `break` or the signal stops the worker within one step. */
  encodeStream(
    texts: Iterable<string> | AsyncIterable<string>,
    options?: EncodeOptions,
  ): AsyncGenerator<Float32Array, void, void>;
  /** A task of this model, ready to be called. defaults: options for every call. */
  pipeline<T extends keyof Tasks>(task: T, defaults?: Tasks[T]["options"]): Promise<Pipeline<Tasks[T]>>;
  /** Puts an adapter on the model and makes it the active one: a folder in PEFT's format
   *  (adapter_config.json with adapter_model.safetensors or .bin) or a GGUF file, from an address,
   *  the hub or the visitor's files. Where it does not fit, the model is as it was. */
  addAdapter(source: ModelSource, options?: AdapterOptions): Promise<void>;
  /** `Rushlight.transcribeLive` with this model. */
  transcribeLive(options?: LiveOptions): Live;
  /** Lets the adapters of these names compute, and no others; [] for the model alone. */
  setAdapters(names: string | string[]): Promise<void>;
  /** Trains a new LoRA adapter on rows such as { messages }, { prompt, completion } or { text }, and
   *  makes it the active one; the model's own weights stay. Resolves to the losses of the steps. */
  finetune(rows: object[], options?: FinetuneOptions): Promise<number[]>;
  /** The files of an adapter in PEFT's format by name: adapter_config.json and
   *  adapter_model.safetensors, which `addAdapter`, PEFT and `rushlight` read. */
  adapterFiles(name?: string): Promise<Record<string, Uint8Array<ArrayBuffer>>>;
  /** `Rushlight.autotune` for the kernels of this model, which must be on webgpu. */
  autotune(options?: AutotuneOptions): Promise<Tuned[]>;
  /** Runs `work` and times every kernel of the model's device, which slows the work. */
  profile<T>(work: () => Promise<T>): Promise<{ value: T; timing: Timing }>;
  /** Frees the model's memory. */
  dispose(): Promise<void>;
}

/** The tab's WebGPU adapter: its name, or null with the reason (`why`) and what to do (`hint`). */
export interface Adapter {
  name: string | null;
  why: string;
  hint: string;
  /** Whether the adapter runs in software on the CPU. */
  software: boolean;
}

export interface Info {
  version: string;
  python: string;
  numpy: string;
  /** The CPU's kernels, as in `Model`. */
  kernels: string;
  pyodide: string;
  /** A description of the CPU device for people. */
  device: string;
  cores: number;
  jspi: boolean;
  /** The WebGPU adapter's name, or null if the browser offers none. */
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
  /** The files that `load` would read, and their size. */
  describe(source: ModelSource, options?: { hubUrl?: string; signal?: AbortSignal }): Promise<Description>;
  load(source: ModelSource, options?: LoadOptions): Promise<Model>;
  /** Looks into a file of weights (GGUF, safetensors, PyTorch, NumPy) or an index of shards, of any
   *  size: reads its header by ranges. The source is one of `load`, or such a file. */
  inspect(source: ModelSource, options?: InspectOptions): Promise<Inspection>;
  /** A task with a model, which may be loaded already. Options that `load` does not know are
   *  defaults for every call of the task. */
  pipeline<T extends keyof Tasks>(
    task: T,
    source: ModelSource | Model,
    options?: LoadOptions & Omit<Tasks[T]["options"], keyof LoadOptions>,
  ): Promise<Pipeline<Tasks[T]>>;
  /** The calls of OpenAI's client for a model: `chat.completions.create`, `embeddings.create`. */
  openai(model: Model): OpenAI;
  /** Chrome's Prompt API over a model, for a page that uses `LanguageModel` where there is none:
   *  `globalThis.LanguageModel ??= rl.languageModel(model)`. */
  languageModel(model: Model): LanguageModel;
  /** Transcribes speech while it is spoken: words on which two looks of the model agree stay. */
  transcribeLive(model: Model, options?: LiveOptions): Live;
  /** A transcript as text, subtitles or a table: what `rushlight transcribe --output` writes. */
  subtitles(result: Transcript, form: "txt" | "srt" | "vtt" | "tsv" | "json"): Promise<string>;
  /** Runs a Python program in the worker, with `rushlight` and NumPy, and `device` as the default.
   *  It may do what Python in a tab may do: run only what the visitor wrote or read. `display(x)`
   *  shows images, `plot(x, y)` draws charts. Resolves to its error, or null. `close()` stops it. */
  python(code: string, options?: PythonOptions): Promise<PythonError | null>;
  /** The names that may stand at a position of a program, with what their documentation says. */
  complete(code: string, position: number): Promise<Completions>;
  /** Runs Python modules of the page's own in the worker, source by name, in this order; a module
   *  finds those before it by `from . import NAME`. */
  modules(sources: Record<string, string>): Promise<PythonModules>;
  /** Downloads a file as `load` does: with progress, resumed, checked, kept for the next visit. */
  file(url: string | URL, options?: FileOptions): Promise<Uint8Array<ArrayBuffer>>;
  /** All supported tasks. */
  tasks(): Promise<TaskInfo[]>;
  info(): Promise<Info>;
  /** The WebGPU adapter that models loaded with device "webgpu" compute on. */
  adapter(): Promise<Adapter>;
  /** Times a float32 matrix product in the worker (half a second). */
  measure(): Promise<{ size: number; gflops: number }>;
  /** Measures which kernels are fastest on the WebGPU adapter, and uses them from then on, also in
   *  later starts of this browser. Measures the ops that ran so far; if none ran, those of language
   *  models. Takes a minute or more. */
  autotune(options?: AutotuneOptions): Promise<Tuned[]>;
  readonly cache: {
    list(): Promise<CachedFile[]>;
    /** Deletes kept files whose URL starts with `prefix`; resolves to the bytes freed. Without a
     *  prefix it deletes all files and the measurements of `autotune`. */
    clear(prefix?: string): Promise<number>;
  };
  /** False once the worker has ended. Open a new runtime then. */
  readonly alive: boolean;
  /** Ends the worker; every pending call rejects. */
  close(): void;
}

export interface CreateOptions {
  onProgress?: (progress: StartProgress) => void;
  signal?: AbortSignal;
  /** The folder of worker.js; by default the folder of client.js. */
  runtimeUrl?: string | URL;
  /** Of `openRushlight`: downloads and starts Python with the first call that needs it. `describe`,
   *  `adapter` and `cache` do not. */
  lazy?: boolean;
}

/** An error of the worker. `hint` says what to do, `retry` whether trying again may help. Its name
 *  is "DeviceLostError" if the GPU and all models on it were lost (load them again), and
 *  "DeviceMemoryError" if the GPU has too little memory. */
export class RushlightError extends Error {
  hint: string;
  retry: boolean;
}

/** The WebGPU adapter that the page sees. Starts no worker. */
export function adapter(): Promise<Adapter>;

/** The sound of a stream in blocks of samples, its channels mixed to one. */
export function captureAudio(
  stream: MediaStream,
  take: (samples: Float32Array<ArrayBuffer>) => void,
): Promise<Capture>;

/** Starts the worker. Resolves when Python, NumPy and Rushlight are ready in it. */
export function createRushlight(options?: CreateOptions): Promise<Rushlight>;

/** Starts the worker and returns at once. All calls but `describe` wait for `ready`. */
export function openRushlight(
  options?: CreateOptions,
): Rushlight & { ready: Promise<void>; started: boolean };
