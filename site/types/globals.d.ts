// globals.d.ts: the constants that the build puts in front of sw.js.
declare const VERSION: string;
declare const FILES: [path: string, hash: string][];
