// comlink.d.ts: the part of Comlink (comlink.js in the runtime folder) that is used here.

export function wrap(endpoint: Worker): unknown;
export function expose(api: object): void;
export function transfer<T>(value: T, transfers: Transferable[]): T;
