// ggufs.js: which GGUF files make a model: the parts of a split one, and one of several kinds.

import { WeightsError } from "./ranges.js";

/** @typedef {import("./ranges.js").FileSpec} FileSpec */

const MOST_PARTS = 4096; // of a split file, as in Python
// The kinds of GGUF files, the preferred one first, for a repository with several.
// prettier-ignore
const GGUF_KINDS = [
  "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4",
  "nvfp4", "q3_k", "q2_k", "iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m", "iq1_s",
  "tq2_0", "tq1_0", "q2_0", "q1_0", "f16", "bf16",
];

/** @param {string} path */
export const isGguf = (path) => /\.gguf$/i.test(path);

/** The paths of all parts of the split file that `path` is a part of; else `path` alone.
 *  @param {string} path @returns {string[]} */
export function splitParts(path) {
  const found = /^(.*)-(\d{5})-of-(\d{5})(\.gguf([?#].*)?)$/i.exec(path);
  const [, stem, part, parts, ending] = found ?? [];
  if (!found || Number(part) < 1 || Number(part) > Number(parts) || Number(parts) > MOST_PARTS) {
    return [path];
  }
  const number = (/** @type {number} */ n) => String(n + 1).padStart(5, "0");
  const all = Array.from({ length: Number(parts) }, (_, n) => number(n));
  return all.map((n) => `${stem}-${n}-of-${parts}${ending}`);
}

/** The GGUF file to load when there is no config.json, in all its parts.
 *  @param {FileSpec[]} files @param {string} where @returns {FileSpec[]} */
export function pickGguf(files, where) {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const paths = files.map((file) => file.path).filter(isGguf);
  const firsts = [...new Set(paths.map((path) => splitParts(path)[0]))];
  if (!firsts.length) return [];
  return splitParts(preferred(firsts, where)).map((path) => {
    const part = byPath.get(path);
    if (part) return part;
    const hint = "A split model is all of its parts: NAME-00001-of-00003.gguf and so on.";
    throw new WeightsError(`the part ${path} is missing in ${where}`, { hint, retry: false });
  });
}

/** The GGUF file of the preferred kind. @param {string[]} paths @param {string} where */
function preferred(paths, where) {
  if (paths.length < 2) return paths[0];
  // llama.cpp calls a file of mostly q4_k Q4_K_M, for example.
  const names = (/** @type {string} */ kind) =>
    new RegExp(`(^|[^a-z0-9])${kind}(_(s|m|l|xl|moe))?([^a-z0-9_]|$)`, "i");
  const kind = (/** @type {string} */ path) =>
    GGUF_KINDS.findIndex((kind) => names(kind).test(path));
  const known = paths.filter((path) => kind(path) >= 0).sort((a, b) => kind(a) - kind(b));
  if (known.length) return known[0];
  throw new WeightsError(`${where} has several GGUF files, none of a supported type`, {
    hint: `Supported: ${GGUF_KINDS.join(", ")}. Found: ${paths.join(", ")}.`,
    retry: false,
  });
}
