// tables.js: what was measured on a device of this browser, for later starts, by name. Where there
// is no storage nothing is kept.

const CACHE = "rushlight-tune";
const place = (/** @type {string} */ name) => new URL(`/rushlight-tune/${name}`, self.origin).href;

/** @param {string} name @returns {Promise<string>} "" where there is none */
export async function recall(name) {
  try {
    const found = await (await caches.open(CACHE)).match(place(name));
    return found ? await found.text() : "";
  } catch {
    return "";
  }
}

/** @param {string} name @param {string} text @returns {Promise<boolean>} whether it could */
export async function keep(name, text) {
  try {
    await (await caches.open(CACHE)).put(place(name), new Response(text));
    return true;
  } catch {
    return false;
  }
}

/** @param {string} [name]  all without one @returns {Promise<boolean>} whether there was any */
export async function forget(name) {
  try {
    if (!name) return await caches.delete(CACHE);
    return await (await caches.open(CACHE)).delete(place(name));
  } catch {
    return false;
  }
}
