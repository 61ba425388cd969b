// live.d.ts: the types of live transcription, and of subtitles; live.js implements them.

/** A word with its times in seconds. */
export interface SpokenWord {
  word: string;
  start: number;
  end: number;
  probability: number;
}

/** What was heard so far. */
export interface LiveText {
  /** The text of the segments. Its words do not change; more follow them. */
  text: string;
  /** Cut at ends of sentences and at pauses; the last one may get longer. */
  segments: { start: number; end: number; text: string; probability: number; words: SpokenWord[] }[];
  /** The words after the text that may yet change. */
  tentative: SpokenWord[];
  /** Seconds of audio that were heard. */
  seconds: number;
  language: string | null;
}

export interface LiveOptions {
  /** Sound to hear: a stream of the browser, such as `getUserMedia` gives, or chunks of samples, at
   *  whose end the transcription ends. Without it `push` brings them. */
  source?: MediaStream | Iterable<Float32Array> | AsyncIterable<Float32Array>;
  /** Samples a second of chunks; 16000 by default. */
  rate?: number;
  /** Seconds of new audio that are worth another look; 1 by default. */
  every?: number;
  /** The language spoken, such as "en"; by default it is detected. */
  language?: string;
  /** "translate" writes English. */
  task?: "transcribe" | "translate";
  /** Text that comes before, for names and style. */
  prompt?: string;
  /** Words to expect. */
  hotwords?: string;
  /** Called after each look. */
  onText?: (heard: LiveText) => void;
  signal?: AbortSignal;
}

/** Speech that is transcribed while it is spoken. `for await (const { text, tentative } of live)`
 *  gives the newest text after each look; leaving the loop closes it. */
export interface Live extends AsyncIterable<LiveText> {
  /** What was heard so far. */
  readonly heard: LiveText;
  /** Hears more samples, channels mixed to one. They wait while the model works. */
  push(samples: Float32Array): void;
  /** Hears the rest; resolves to the whole text, or rejects with what went wrong. */
  end(): Promise<LiveText>;
  /** Stops at once. */
  close(): void;
}

/** Sound that is being captured, at a number of samples a second. */
export interface Capture {
  rate: number;
  stop(): Promise<void>;
}

/** A result of automatic-speech-recognition, or part of one. */
export interface Transcript {
  segments: { start: number; end: number; text: string }[];
  [key: string]: unknown;
}
