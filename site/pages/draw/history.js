// history.js: the pictures that were drawn, with their settings, kept in this browser.

import { byId, make, pick } from "../shared/page.js";
import { settingsOf } from "./png.js";

const CACHE = "rushlight-drawings-1";
const MOST = 60; // pictures

/** @typedef {{ at: number, file: Blob, settings: Record<string, any> }} Drawing */

const list = byId("history");
/** @type {Map<number, { drawing: Drawing, row: HTMLElement, address: string }>} */
const rows = new Map();
/** @type {(drawing: Drawing) => unknown} */
let open = () => {};

/** The cache, or null where the browser refuses storage. */
async function cache() {
  try {
    return await caches.open(CACHE);
  } catch {
    return null;
  }
}

const place = (/** @type {number} */ at) => new URL(`./drawings/${at}.png`, location.href).href;

/** @param {Drawing} drawing */
function show(drawing) {
  const { at, file, settings } = drawing;
  const address = URL.createObjectURL(file);
  const { prompt = "", seed, width, height, num_inference_steps: steps } = settings;
  const facts = `${width} × ${height}, ${steps} steps, seed ${seed}`;
  const button = make(
    "button",
    { type: "button", class: "quiet small", title: `${prompt}\n${facts}` },
    make("img", { src: address, alt: "" }),
    make("small", {}, prompt || "without a prompt"),
    make("small", { class: "hint" }, facts),
  );
  button.addEventListener("click", () => open(drawing));
  const row = make("li", {}, button);
  list.prepend(row);
  rows.set(at, { drawing, row, address });
  pick("forget", HTMLButtonElement).disabled = false;
}

/** Forgets one. @param {number} at */
async function drop(at) {
  const entry = rows.get(at);
  entry?.row.remove();
  if (entry) URL.revokeObjectURL(entry.address);
  rows.delete(at);
  pick("forget", HTMLButtonElement).disabled = rows.size === 0;
  await (await cache())?.delete(place(at));
}

/** Keeps a picture. @param {Blob} file @param {Record<string, any>} settings
 *  @returns {Promise<Drawing>} */
export async function keep(file, settings) {
  const at = Math.max(Date.now(), ...[...rows.keys()].map((before) => before + 1));
  const drawing = { at, file, settings };
  show(drawing);
  const oldest = [...rows.keys()].sort((a, b) => a - b).slice(0, -MOST);
  for (const before of oldest) await drop(before);
  try {
    await (await cache())?.put(place(drawing.at), new Response(file));
  } catch {
    // The browser has no room: it is there until the tab is closed.
  }
  return drawing;
}

/** Forgets all; what is given back shows them again. */
export async function clear() {
  const before = [...rows.values()].map(({ drawing }) => drawing);
  for (const { at } of before) await drop(at);
  return async () => {
    for (const { file, settings } of before) await keep(file, settings);
  };
}

/** Shows what is kept. @param {(drawing: Drawing) => unknown} opened  called with one that is
 *  chosen */
export async function start(opened) {
  open = opened;
  const drawings = await cache();
  const stored = [];
  for (const { url } of (await drawings?.keys()) ?? []) {
    const at = Number(/(\d+)\.png$/.exec(url)?.[1]);
    const file = await (await drawings?.match(url))?.blob();
    const settings = file && (await settingsOf(file));
    if (file && settings) stored.push({ at, file, settings });
  }
  for (const drawing of stored.sort((a, b) => a.at - b.at)) {
    if (!rows.has(drawing.at)) show(drawing);
  }
}
