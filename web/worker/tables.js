// tables.js: keeps measurements of this browser's devices for later starts, by name. Without
// storage it keeps nothing.

const CACHE = "rushlight-tune";
const place = (/** @type {string} */ name) => new URL(`/rushlight-tune/${name}`, self.origin).href;

/** @param {string} name @returns {Promise<string>} "" if there is none */
export async function recall(name) {
  try {
    const found = await (await caches.open(CACHE)).match(place(name));
    return found ? await found.text() : "";
  } catch {
    return "";
  }
}

/** @param {string} name @param {string} text @returns {Promise<boolean>} whether it worked */
export async function keep(name, text) {
  try {
    await (await caches.open(CACHE)).put(place(name), new Response(text));
    return true;
  } catch {
    return false;
  }
}

/** @param {string} [name]  all without one @returns {Promise<boolean>} whether any was deleted */
export async function forget(name) {
  try {
    if (!name) return await caches.delete(CACHE);
    return await (await caches.open(CACHE)).delete(place(name));
  } catch {
    return false;
  }
}
