// pipelines.js: which files a pipeline of diffusers needs: small files, and one set of weights for
// each part. Weights are read when their part is used (models/diffusion/streamed.py).

import { WeightsError } from "./ranges.js";

/** @typedef {import("./ranges.js").FileSpec} FileSpec */

export const INDEX = "model_index.json";
// As in models/diffusion/files.py: parts that judge pictures, or read them for other tasks.
const UNUSED = ["safety_checker", "feature_extractor", "image_encoder"];
const PREVIEW = "taesd"; // a small decoder for previews, which may lie beside the parts
const SMALL = /^[^/]+\/[^/]+\.(json|txt|model|jinja)$/;
const OTHER_INDEX = /\.(fp16|bf16|fp32|non_ema)\.index\.json$|\.index\.\w+\.json$/;
const STEM = "^[^/]+/(?:diffusion_pytorch_model|model)";
const PLAIN = new RegExp(`${STEM}(-\\d+-of-\\d+)?\\.safetensors$`);
const HALF = new RegExp(`${STEM}(\\.fp16(-\\d+-of-\\d+)?|-\\d+-of-\\d+\\.fp16)\\.safetensors$`);
// What a part's folder may hold, for servers that list nothing.
const ASKED = [
  "config.json", "scheduler_config.json", "tokenizer.json", "tokenizer_config.json",
  "special_tokens_map.json", "vocab.json", "merges.txt", "spiece.model", "chat_template.jinja",
]; // prettier-ignore

/** Whether the files are those of a pipeline. @param {FileSpec[]} files */
export const isPipeline = (files) => files.some(({ path }) => path === INDEX);

/** Whether a file is weights of a part, which are read later. @param {string} path */
export const isPart = (path) => PLAIN.test(path) || HALF.test(path);

/** The files that may be needed; which parts there are is told by the index.
 *  @param {FileSpec[]} files */
export const pickPipeline = (files) =>
  files
    .filter(({ path }) => path === INDEX || SMALL.test(path) || isPart(path))
    .map((file) => (isPart(file.path) ? { ...file, later: true } : file));

/** The names of the parts that draw. @param {string} index  model_index.json */
function partsOf(index) {
  /** @type {Record<string, unknown>} */
  let found = {};
  try {
    found = JSON.parse(index) ?? {};
  } catch {
    throw new WeightsError(`${INDEX} is not JSON`, { retry: false });
  }
  const rows = Object.entries(found);
  const used = rows.filter(([name, row]) => Array.isArray(row) && row[1] && !UNUSED.includes(name));
  return used.map(([name]) => name);
}

/**
 * The files of the parts: weights of float16 where there are some, as they are half as many bytes,
 * but the autoencoder's as its authors computed with them; with another dtype the plain ones.
 * @param {FileSpec[]} files @param {string} index @param {unknown} dtype  that was asked for
 */
export function chosenParts(files, index, dtype) {
  const kept = files.filter(({ path }) => path === INDEX);
  for (const part of [...partsOf(index), PREVIEW]) {
    const own = files.filter(({ path }) => path.startsWith(`${part}/`));
    const small = own.filter(({ path }) => !isPart(path) && !OTHER_INDEX.test(path));
    const sets = [HALF, PLAIN].map((kind) => own.filter(({ path }) => kind.test(path)));
    if (part === "vae" || (dtype && dtype !== "float16")) sets.reverse();
    kept.push(...small, ...(sets.find((some) => some.length) ?? []));
  }
  return kept;
}

/**
 * The files of a pipeline on a server that lists nothing; none if it has no such index.
 * @param {(path: string) => Promise<FileSpec[]>} small  a small file, if it is there
 * @param {(path: string) => Promise<boolean>} there @param {(path: string) => FileSpec} at
 * @returns {Promise<FileSpec[]>}
 */
export async function askForPipeline(small, there, at) {
  const [index] = await small(INDEX);
  if (!index?.blob) return [];
  const files = [index];
  for (const part of [...partsOf(await index.blob.text()), PREVIEW]) {
    for (const name of ASKED) {
      const path = `${part}/${name}`;
      if (name.endsWith(".json")) files.push(...(await small(path)));
      else if (/^tokenizer/.test(part) && (await there(path))) files.push(at(path));
    }
    if (/^(scheduler|tokenizer|processor)/.test(part)) continue;
    const names = ["diffusion_pytorch_model", "model"].map((stem) => `${part}/${stem}`);
    const paths = names.flatMap((stem) => [`${stem}.fp16.safetensors`, `${stem}.safetensors`]);
    for (const path of paths) if (await there(path)) files.push(at(path));
  }
  return files;
}

const WORDS = ["vocab.json", "merges.txt", "tokenizer_config.json"];
const PLACES = ["tokenizer/", "tokenizer_2/", ""];

/** A pipeline in one file of safetensors, with the vocabulary of its text encoders: those files;
 *  none where there is something else. @param {FileSpec[]} files */
export function pickSingle(files) {
  const named = (/** @type {string} */ path) => files.find((file) => file.path === path);
  const weights = files.filter(({ path }) => /^[^/]+\.safetensors$/.test(path));
  if (weights.length !== 1 || weights[0].path === "model.safetensors" || named("config.json")) {
    return [];
  }
  const words = PLACES.flatMap((place) => WORDS.map((name) => named(place + name)));
  const small = words.filter((file) => file !== undefined);
  return small.length ? [...small, ...weights] : [];
}

/** The vocabulary beside a pipeline in one file. @param {(path: string) => Promise<boolean>} there
 *  @param {(path: string) => FileSpec} at @returns {Promise<FileSpec[]>} */
export async function askForSingle(there, at) {
  for (const place of PLACES) {
    const files = [];
    for (const name of WORDS) if (await there(place + name)) files.push(at(place + name));
    if (files.length) return files;
  }
  return [];
}
