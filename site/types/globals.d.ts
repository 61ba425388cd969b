// globals.d.ts: what the build writes in front of sw.js.
declare const VERSION: string;
declare const FILES: [path: string, hash: string][];
