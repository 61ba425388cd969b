// kept.js: the training in the browser's storage, for a reload and for another visit.

/**
 * @typedef {{ settings: any, source: string, points: any[], step: number, spent: number,
 *   about: any, words: string, look: any }} Meta
 */

const NAME = "rushlight-train";
const STORE = "kept";

/** The reason why nothing is kept, or "". */
export const trouble = { why: "" };

/** Whether this tab is the one that keeps: two would write over each other. */
let mine = false;

/** What this page has kept: also where storage is refused, it goes on from here.
 *  @type {Map<string, any>} */
const memory = new Map();

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function open() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  return done(request);
}

/** Makes this tab the one that keeps, at once if no other is, else when that one is closed: then it
 *  keeps what it has. Whether it does now.
 *  @param {() => void} later  called when it does after all @returns {Promise<boolean>} */
export async function claim(later) {
  if (!navigator.locks) return (mine = true);
  return new Promise((resolve) => {
    const held = () => new Promise(() => {}); // until this tab is closed
    void navigator.locks.request(NAME, { ifAvailable: true }, (lock) => {
      mine = lock !== null;
      resolve(mine);
      if (lock) return held();
      trouble.why = "another tab keeps its training and its drawings";
      void navigator.locks.request(NAME, async () => {
        mine = true;
        trouble.why = "";
        if (memory.size) await keep(Object.fromEntries(memory));
        later();
        return held();
      });
    });
  });
}

/** Keeps values by name, all or none. @param {Record<string, unknown>} values */
export async function keep(values) {
  for (const [name, value] of Object.entries(values)) memory.set(name, value);
  if (!mine) return;
  try {
    const db = await open();
    const act = db.transaction(STORE, "readwrite");
    for (const [name, value] of Object.entries(values)) act.objectStore(STORE).put(value, name);
    await new Promise((resolve, reject) => {
      act.oncomplete = resolve;
      act.onabort = () => reject(act.error);
    });
    db.close();
    trouble.why = "";
  } catch (error) {
    trouble.why = error instanceof Error ? error.message : String(error);
  }
}

/** What is kept under a name, or undefined. @param {string} name @returns {Promise<any>} */
export async function kept(name) {
  if (memory.has(name)) return memory.get(name);
  try {
    const db = await open();
    const found = await done(db.transaction(STORE).objectStore(STORE).get(name));
    db.close();
    return found;
  } catch (error) {
    trouble.why = error instanceof Error ? error.message : String(error);
    return undefined;
  }
}

/** Forgets the training; drawings stay. */
export async function forget() {
  await keep({ meta: null, checkpoint: null, data: null });
}
