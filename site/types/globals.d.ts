// globals.d.ts: the constants that the build puts in front of sw.js, and what a worklet has.
declare const VERSION: string;
declare const FILES: [path: string, hash: string, large: number][];
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, kind: typeof AudioWorkletProcessor): void;
