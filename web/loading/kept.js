// kept.js: ranges of the files that the browser keeps, for readers of headers.

import { plain, readState } from "./weights.js";

/** @typedef {import("./ranges.js").FileSpec} FileSpec */

/**
 * The bytes [from, to) of a file, or fewer at its end, and its size; null unless all are kept.
 * @param {import("./weights.js").WeightStore | undefined} store @param {FileSpec} file
 * @param {number} from @param {number} to
 */
export async function keptSpan(store, file, from, to) {
  const cache = await store?.cache();
  if (!cache) return null;
  const { pieces, have, meta } = await readState(cache, plain(file.url), file.sha256 ?? "");
  const size = file.size ?? meta?.size;
  const end = Math.min(to, size ?? 0);
  if (size === undefined || have < end) return null;
  const bytes = new Uint8Array(Math.max(0, end - from));
  let at = 0; // of the file: pieces may overlap, and are in order
  for (const piece of pieces) {
    const [start, stop] = [Math.max(from, at), Math.min(end, piece.at + piece.bytes)];
    at = piece.at + piece.bytes;
    if (start >= stop) continue;
    const blob = await (await cache.match(piece.request))?.blob();
    if (!blob) return null; // the browser has cleared its storage
    const part = blob.slice(start - piece.at, stop - piece.at);
    bytes.set(new Uint8Array(await part.arrayBuffer()), start - from);
  }
  return { bytes, size };
}
