// listing.js: which files a model has, by its address, its hub id or what a visitor chose.

import { isGguf, pickGguf, splitParts } from "./ggufs.js";
import { chosenGraphs, graphsAt, isGraphPart, meansGraphs, voiceIn } from "./graphs.js";
import {
  INDEX, askForPipeline, askForSingle, chosenParts, isPipeline, pickPipeline, pickSingle,
} from "./pipelines.js"; // prettier-ignore
import { WeightsError, refusedByServer } from "./ranges.js";

/**
 * @typedef {import("./ranges.js").FileSpec} FileSpec
 * @typedef {import("./weights.js").WeightStore} WeightStore
 * @typedef {{ kind: "url", url: string } | { kind: "hub", id: string, hubUrl: string }
 *   | { kind: "local", files: { path: string, blob: Blob }[] }} Source
 * @typedef {{ name: string, origin: "folder" | "hub" | "local", files: FileSpec[] }} Listing
 * @typedef {(path: string) => { path: string, url: string }} Place
 * @typedef {import("./graphs.js").Asked} Asked
 * @typedef {{ config: RegExp, pick: (files: FileSpec[], where: string) => FileSpec[],
 *   told?: Asked,
 *   ask: (store: WeightStore, at: Place, signal?: AbortSignal) => Promise<FileSpec[]> }} What
 */

// The small files of a model folder. config.json is required. site/builder reads this list, too.
export const SMALL_FILES = [
  "config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "modules.json",
  "sentence_bert_config.json",
  "config_sentence_transformers.json",
  "1_Pooling/config.json",
  "generation_config.json",
  "preprocessor_config.json",
  "processor_config.json",
  "open_clip_config.json",
  "chat_template.jinja",
  "chat_template.json",
  "lexicon.txt",
];
// Other templates by name, which a listing tells of.
const TEMPLATES = /^additional_chat_templates\/[^/]+\.jinja$/;
// A model of images or sound may have no tokenizer.
const PREPARED = ["preprocessor_config.json", "processor_config.json"];
// Vocabularies that serve where there is no tokenizer.json.
const VOCABULARIES = [
  "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model", "source.spm",
  "target.spm", "vocab.json", "target_vocab.json", "merges.txt", "vocab.txt",
  "rwkv_vocab_v20230424.txt",
]; // prettier-ignore
// Those beside Marian's own files, which need no config.json.
const MARIAN = /^((src|trg)?vocab)\.[^/.]+\.spm$/;
const SHORTLIST = /^lex\.[\w.-]{1,200}\.bin$/;
// Modules of a sentence encoder: 2_Dense/config.json and its weights, which are small.
const MODULES = /^\d+_\w+\/(config\.json|model\.safetensors|pytorch_model\.bin)$/;
const WEIGHTS = "model.safetensors";
const WEIGHTS_INDEX = "model.safetensors.index.json";
const BIN_INDEX = "pytorch_model.bin.index.json";
// PyTorch's and NumPy's files serve where there are no safetensors; trainers write others, too.
const OTHER_WEIGHTS =
  /^(?!training_args|optimizer|scheduler|rng_state|scaler|lex\.)[^/]+\.(bin|pth?|npz)$/;
// Files of torchvision, Ultralytics and others that may tell what they hold, with no config.json.
const WEIGHTS_WITHOUT_CONFIG = /\.pth?$/i;
const SINGLE = /\.safetensors$/i; // a pipeline in one file, with its vocabulary beside it
// Graphs that find lines of text and read them, with the letters that they know beside.
const GRAPHS = /^[^/]+\.(onnx|txt)$/i;
const READERS = [
  /(^|[^a-z])det([^a-z]|ect|$)[^/]*\.onnx$/i,
  /(^|[^a-z])rec([^a-z]|ogn|$)[^/]*\.onnx$/i,
];
const ENDING = /(-00001-of-\d{5})?\.(gguf|pth?)$/i;
// The hub's own rule: no name begins or ends with a dot or a dash, and none has two in a row.
const HUB_ID = /^(?![^@]*(?:--|\.\.))[a-z\d_]([\w.-]*\w)?\/[a-z\d_]([\w.-]*\w)?(@[\w./-]+)?$/i;
/** What is listed: the name of its configuration, the files that it needs of all there are, and
 *  which of them a plain server has.
 *  @type {What} */
const MODEL = { config: /(^|\/)(config|model_index)\.json$/, pick, ask: askForModel };
/** A model of the files that are asked for, where a folder has those of ONNX.
 *  @param {Asked} asked @returns {What} */
export const modelOf = (asked) => ({
  config: MODEL.config,
  told: asked,
  pick: (files, where) => pick(files, where, asked),
  ask: (store, at, signal) => askForModel(store, at, signal, asked),
});
/** @type {What} */
export const ADAPTER = {
  config: /(^|\/)adapter_config\.json$/,
  pick: pickAdapter,
  ask: askForAdapter,
};
const ADAPTER_FILES = ["adapter_model.safetensors", "adapter_model.bin"];

/**
 * What a text names: a URL, a hub id, or a model of this site.
 * @param {string} text @param {{ base: string, models: string, hubUrl?: string }} places  what
 *   relative addresses and bare names are relative to
 * @returns {Source}
 */
export function sourceOf(text, { base, models, hubUrl = "https://huggingface.co" }) {
  const where = text.trim();
  const address = /^[a-z]+:/i.test(where) || /^\.{0,2}\//.test(where);
  if (address && URL.canParse(where, base)) {
    const url = new URL(where, base);
    const known = /^https?:$/.test(url.protocol) || url.protocol === new URL(base).protocol;
    if (known && !url.username && !url.password) return { kind: "url", url: url.href };
  }
  if (HUB_ID.test(where)) return { kind: "hub", id: where, hubUrl };
  if (/^[\w.-]+$/.test(where)) return { kind: "url", url: new URL(`${where}/`, models).href };
  throw new WeightsError(`"${where}" is neither an address nor a hub id`, {
    hint: 'Give a folder ("./models/NAME/", "https://…/") or a hub id ("owner/name").',
    retry: false,
  });
}

/** Lists the files of a model, or of an adapter. @param {WeightStore} store
 *  @param {Source} source @param {AbortSignal} [signal] @param {What} [what]
 *  @returns {Promise<Listing>} */
export async function list(store, source, signal, what = MODEL) {
  const listing = await listAll(store, source, signal, what);
  const { files } = listing;
  if (isPipeline(files)) {
    const index = /** @type {FileSpec} */ (files.find(({ path }) => path === INDEX));
    const text = new TextDecoder().decode(await store.bytes(index, { signal }));
    return { ...listing, files: chosenParts(files, text, what.told?.dtype) };
  }
  if (!files.some(({ path }) => isGraphPart(path))) return listing;
  const config = files.find(({ path }) => path === "config.json");
  const text = config && new TextDecoder().decode(await store.bytes(config, { signal }));
  const graphs = new Set(chosenGraphs(files, what.told?.dtype, text && dtypeIn(text)));
  const kept = files.filter((file) => !isGraphPart(file.path) || graphs.has(file));
  return { ...listing, files: kept };
}

/** The dtype of ONNX files that a configuration tells. @param {string} text */
function dtypeIn(text) {
  try {
    return JSON.parse(text)["transformers.js_config"]?.dtype;
  } catch {
    return undefined; // the reader of the configuration tells what is wrong
  }
}

/** @param {WeightStore} store @param {Source} source @param {AbortSignal | undefined} signal
 *  @param {What} what @returns {Promise<Listing>} */
async function listAll(store, source, signal, what) {
  if (source.kind === "local") return listLocal(source.files, what);
  if (source.kind === "hub") return listHub(store, source.id, source.hubUrl, signal, what);
  const { pathname } = new URL(source.url);
  if (isGguf(pathname) || WEIGHTS_WITHOUT_CONFIG.test(pathname)) {
    return listFile(store, source.url, signal);
  }
  if (SINGLE.test(pathname)) return listSingle(store, source.url, signal);
  const folder = source.url.endsWith("/") ? source.url : `${source.url}/`;
  const address = new URL("manifest.json", folder).href;
  const text = await store.document(address, signal);
  const manifest = text === null ? null : parseManifest(text, address);
  if (!manifest) {
    const hub = /^(https:\/\/[^/]+)\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/$/.exec(folder);
    if (hub && hub[1] === "https://huggingface.co") {
      return listHub(store, `${hub[2]}@${hub[3]}`, hub[1], signal, what);
    }
    return listFolder(store, folder, signal, what);
  }
  const locate = (/** @type {FileSpec} */ { path, size, sha256 }) => ({
    path,
    size,
    sha256,
    url: new URL(encoded(path), folder).href,
  });
  const files = manifest.files.map(({ parts, ...file }) =>
    parts ? { ...file, parts: parts.map(locate) } : locate(file),
  );
  const name = typeof manifest.name === "string" ? manifest.name : lastOf(folder);
  return { name, origin: "folder", files: what.pick(files, folder) };
}

/** A path as a part of an address: # and ? in a name are its own.
 *  @param {string} path */
export const encoded = (path) => path.split("/").map(encodeURIComponent).join("/");

/** The name of the file at an address, as it is written where it is no text in UTF-8.
 *  @param {string} url */
export function nameAt(url) {
  const name = new URL(url).pathname.split("/").pop() ?? "";
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** @param {string} folder */
const lastOf = (folder) => folder.split("/").filter(Boolean).pop() ?? folder;

// Half of a character, which no address can have.
const HALF = /[\ud800-\udfff]/u;

/** Null for text that is no manifest: some hosts answer every URL with their home page.
 *  @param {string} text @param {string} where
 *  @returns {{ name: unknown, files: FileSpec[] } | null} */
function parseManifest(text, where) {
  let manifest;
  try {
    manifest = JSON.parse(text);
  } catch {
    return null;
  }
  if (!Array.isArray(manifest?.files)) return null;
  for (const file of manifest.files) checkRow(file, where);
  return manifest;
}

/** Throws an error unless a listing's row has a path, and a size, a hash and parts if any.
 *  @param {any} row @param {string} where */
function checkRow(row, where) {
  const { path, size = 0, sha256 = "", parts } = row ?? {};
  const texts = typeof path === "string" && !HALF.test(path) && typeof sha256 === "string";
  const joined = parts === undefined || (Array.isArray(parts) && parts.length > 0);
  const fits = texts && Number.isSafeInteger(size) && size >= 0 && joined;
  if (!fits) throw malformed(where, row, "a file");
  for (const part of parts ?? []) checkRow({ ...part, parts: undefined }, where);
}

/** @param {string} where @param {unknown} value @param {string} what */
function malformed(where, value, what) {
  const shown = JSON.stringify(value)?.slice(0, 100);
  const hint = "The listing is damaged; build or upload it again.";
  return new WeightsError(`${where}: ${shown} is not ${what}`, { hint, url: where, retry: false });
}

/** The JSON of a listing. @param {string} text @param {string} where @returns {any} */
function parseListing(text, where) {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed(where, text, "JSON");
  }
}

/** One file that is a model by itself, or all parts of a split GGUF file, by its URL.
 *  @param {WeightStore} store @param {string} address @param {AbortSignal} [signal]
 *  @returns {Promise<Listing>} */
async function listFile(store, address, signal) {
  // The address may be the hub's page about a file, not the file.
  const url = address.replace(/^(https:\/\/huggingface\.co\/[^/]+\/[^/]+)\/blob\//, "$1/resolve/");
  const files = [];
  for (const part of splitParts(url)) files.push(await fileAt(store, part, signal));
  return { name: files[0].path.replace(ENDING, ""), origin: "folder", files };
}

/** A pipeline in one file, by its URL, and the vocabulary beside it.
 *  @param {WeightStore} store @param {string} address @param {AbortSignal} [signal]
 *  @returns {Promise<Listing>} */
async function listSingle(store, address, signal) {
  const { files } = await listFile(store, address, signal);
  const at = (/** @type {string} */ path) => ({ path, url: new URL(path, address).href });
  const beside = await askForSingle((path) => there(store, at(path), signal), at);
  const name = files[0].path.replace(SINGLE, "");
  return { name, origin: "folder", files: [...beside, ...files] };
}

/** @param {WeightStore} store @param {string} url @param {AbortSignal} [signal]
 *  @returns {Promise<FileSpec>} */
async function fileAt(store, url, signal) {
  const path = nameAt(url);
  /** @type {Response | undefined} */
  let response;
  try {
    response = await fetch(url, { method: "HEAD", signal });
  } catch {
    signal?.throwIfAborted(); // otherwise offline, or the server refuses HEAD: the read will tell
  }
  if (response?.status === 404 && !(await store.list()).some((row) => row.url === url)) {
    throw refusedByServer(path, response);
  }
  const size = Number((response?.ok && response.headers.get("content-length")) || NaN);
  return { path, url, size: size || undefined };
}

/** @param {string} path */
const isVocabulary = (path) =>
  VOCABULARIES.includes(path) || /^[^/]+\.tiktoken$/.test(path) || MARIAN.test(path);

/** The files that loading needs. Throws an error that names a missing one.
 *  @param {FileSpec[]} files @param {string} where @param {Asked} [asked] */
function pick(files, where, asked = {}) {
  if (isPipeline(files)) return pickPipeline(files);
  const alike = pickSingle(files);
  if (alike.length) return alike;
  const voice = voiceIn(files);
  if (voice.length) return voice;
  const known = (/** @type {FileSpec} */ { path }) => path === "config.json" || path === WEIGHTS;
  if (!meansGraphs(asked) && !files.some(known)) {
    const gguf = pickGguf(files, where);
    if (gguf.length) return gguf;
    if (READERS.every((role) => files.some((file) => role.test(file.path)))) {
      return files.filter((file) => GRAPHS.test(file.path));
    }
  }
  const byPath = new Map(files.map((file) => [file.path, file]));
  const listed = SMALL_FILES.filter((path) => byPath.has(path));
  const whole = byPath.has("tokenizer.json");
  const vocabularies = files.map((file) => file.path).filter(isVocabulary);
  const lists = files.map((file) => file.path).filter((path) => SHORTLIST.test(path));
  const modules = files.map((file) => file.path).filter((path) => MODULES.test(path));
  const named = files.map((file) => file.path).filter((path) => TEMPLATES.test(path));
  const beside = [...new Set([...listed, ...modules, ...named])];
  const words = vocabularies.length ? [...vocabularies, ...lists] : [];
  const small = whole ? beside : [...beside, ...words];
  const index = byPath.get(WEIGHTS_INDEX);
  const single = byPath.get(WEIGHTS);
  const shards = files.filter((file) => /^model-\d+-of-\d+\.safetensors$/.test(file.path));
  const loose = files.filter((file) => OTHER_WEIGHTS.test(file.path));
  const bins = loose.filter((file) => /^pytorch_model(-\d+-of-\d+)?\.bin$/.test(file.path));
  const pickled = bins.length ? bins : loose.length === 1 ? loose : [];
  const graphs = files.filter((file) => isGraphPart(file.path));
  const stored = single ? [single] : index ? shards : pickled;
  const weights = graphs.length && (meansGraphs(asked) || !stored.length) ? graphs : stored;
  const alone = weights.length === 1 && WEIGHTS_WITHOUT_CONFIG.test(weights[0].path);
  // A tensor may tell the family, too: that of static embeddings.
  const told = byPath.has("config.json") || (single && whole);
  const others = weights === graphs || (alone && !told); // what has no tokenizer says so itself
  const prepared = others || PREPARED.some((path) => byPath.has(path));
  for (const [path, found] of /** @type {[string, boolean][]} */ ([
    ["config.json", told || alone || vocabularies.some((path) => MARIAN.test(path))],
    ["tokenizer.json", whole || vocabularies.length > 0 || prepared],
    [WEIGHTS, weights.length > 0],
  ])) {
    if (found) continue;
    throw new WeightsError(`no ${path} in ${where}`, {
      hint: "A model is a .gguf file, or config.json, tokenizer.json and model.safetensors.",
      retry: false,
    });
  }
  return [...small.map((path) => /** @type {FileSpec} */ (byPath.get(path))), ...weights];
}

/** @param {string} path */
const nameOf = (path) => path.split("/").pop() ?? "";

/** The configuration and the weights of an adapter, or one GGUF file.
 *  @param {FileSpec[]} files @param {string} where @returns {FileSpec[]} */
function pickAdapter(files, where) {
  const named = (/** @type {string} */ name) => files.find((file) => file.path === name);
  const config = named("adapter_config.json");
  const weights = ADAPTER_FILES.map(named).find(Boolean);
  if (config && weights) return [config, weights];
  const gguf = config ? [] : pickGguf(files, where);
  if (gguf.length) return gguf;
  throw new WeightsError(`no ${config ? ADAPTER_FILES[0] : "adapter_config.json"} in ${where}`, {
    hint: "An adapter is a .gguf file, or adapter_config.json and adapter_model.safetensors.",
    retry: false,
  });
}

/** @param {{ path: string, blob: Blob }[]} chosen @param {What} what @returns {Listing} */
function listLocal(chosen, what) {
  const paths = chosen.map((file) => file.path);
  const config = paths.filter((path) => what.config.test(path));
  for (const other of [MARIAN, WEIGHTS_WITHOUT_CONFIG, READERS[0], SINGLE]) {
    if (!config.length) config.push(...paths.filter((path) => other.test(nameOf(path))));
  }
  // The model's config.json is the one nearest to the top (1_Pooling/ has another one).
  const depth = (/** @type {string} */ path) => path.split("/").length;
  const top = config.sort((a, b) => depth(a) - depth(b))[0] ?? "";
  const folder = top.slice(0, top.length - nameOf(top).length);
  const files = chosen
    .filter((file) => file.path.startsWith(folder))
    .map(({ path, blob }) => ({ path: path.slice(folder.length), blob, size: blob.size }));
  let picked;
  try {
    picked = what.pick(files, "the chosen files");
  } catch (error) {
    const names = paths.slice(0, 5).map(nameOf).join(", ") + (paths.length > 5 ? ", …" : "");
    if (error instanceof WeightsError) error.hint += ` Chosen: ${names}.`;
    throw error;
  }
  const [{ path }] = picked;
  const alone = isGguf(path) || (picked.length === 1 && WEIGHTS_WITHOUT_CONFIG.test(path));
  const only = alone ? nameOf(path).replace(ENDING, "") : "";
  const name = only || (folder.split("/").filter(Boolean).pop() ?? "local files");
  return { name, origin: "local", files: picked };
}

/** The names of the files that an index names. @param {string} text @param {string} where */
export function shardsOf(text, where) {
  const shards = [...new Set(Object.values(parseListing(text, where)?.weight_map ?? {}))];
  for (const shard of shards) {
    const named = typeof shard === "string" && /^[^/\\:]+\.(safetensors|bin)$/.test(shard);
    const fits = named && !HALF.test(shard);
    if (!fits) throw malformed(where, shard, "the name of a file");
  }
  if (shards.length === 0) throw malformed(where, text, "an index of shards");
  return /** @type {string[]} */ (shards);
}

/** Whether a server, or else the browser's storage, has a file. A page that stands in for a missing
 *  file does not count. @param {WeightStore} store @param {{ path: string, url: string }} file
 *  @param {AbortSignal} [signal] */
async function there(store, { url }, signal) {
  try {
    const { ok, headers } = await fetch(url, { method: "HEAD", signal });
    return ok && !/^text\/html/.test(headers.get("content-type") ?? "");
  } catch {
    signal?.throwIfAborted();
    return (await store.list()).some((row) => row.url === url); // offline
  }
}

/** The files of weights in a folder, and their index. @param {WeightStore} store
 *  @param {(path: string) => { path: string, url: string }} at @param {AbortSignal} [signal]
 *  @returns {Promise<FileSpec[]>} */
async function weightsAt(store, at, signal) {
  /** @param {string} index @returns {Promise<FileSpec[] | null>} */
  const listed = async (index) => {
    const { path, url } = at(index);
    const text = await store.document(url, signal);
    if (text === null || !/^\s*{/.test(text)) return null;
    return [{ path, blob: new Blob([text]) }, ...shardsOf(text, url).map(at)];
  };
  const parts = await listed(WEIGHTS_INDEX);
  if (parts) return parts;
  const whole = at("pytorch_model.bin");
  const others =
    (await listed(BIN_INDEX)) ?? ((await there(store, whole, signal)) ? [whole] : null);
  // Only where others would serve is the server asked for the usual file: else the read will tell.
  return others && !(await there(store, at(WEIGHTS), signal)) ? others : [at(WEIGHTS)];
}

/** The ONNX files in a folder. @param {WeightStore} store @param {Place} at @param {Asked} asked
 *  @param {FileSpec[]} small @param {AbortSignal} [signal] */
async function onnxAt(store, at, { dtype }, small, signal) {
  const config = small.find(({ path }) => path === "config.json")?.blob;
  const told = config && dtypeIn(await config.text());
  return graphsAt(at, (file) => there(store, file, signal), [dtype, told]);
}

/** A small file of a plain server, if it is JSON: some hosts answer with a page when a file is
 *  missing. @param {WeightStore} store @param {{ path: string, url: string }} file
 *  @param {AbortSignal} [signal] @returns {Promise<FileSpec[]>} */
async function smallAt(store, { path, url }, signal) {
  const text = await store.document(url, signal);
  return text !== null && /^\s*[[{]/.test(text) ? [{ path, blob: new Blob([text]) }] : [];
}

/** @param {WeightStore} store @param {Place} at @param {AbortSignal} [signal]
 *  @param {Asked} [asked] */
async function askForModel(store, at, signal, asked = {}) {
  const files = [];
  for (const path of SMALL_FILES) files.push(...(await smallAt(store, at(path), signal)));
  if (!files.some(({ path }) => path === "config.json")) {
    const small = (/** @type {string} */ path) => smallAt(store, at(path), signal);
    const has = (/** @type {string} */ path) => there(store, at(path), signal);
    const pipeline = await askForPipeline(small, has, at);
    if (pipeline.length) return pipeline;
  }
  if (!files.some(({ path }) => path === "tokenizer.json")) {
    for (const path of VOCABULARIES) if (await there(store, at(path), signal)) files.push(at(path));
  }
  const graphs = meansGraphs(asked) ? await onnxAt(store, at, asked, files, signal) : [];
  return [...files, ...(graphs.length ? graphs : await weightsAt(store, at, signal))];
}

/** @param {WeightStore} store @param {Place} at @param {AbortSignal} [signal] */
async function askForAdapter(store, at, signal) {
  const files = await smallAt(store, at("adapter_config.json"), signal);
  const [usual, other] = ADAPTER_FILES.map(at);
  return [...files, (await there(store, usual, signal)) ? usual : other];
}

/** A folder without a manifest on a plain server. Asks for the usual names.
 *  @param {WeightStore} store @param {string} folder @param {AbortSignal | undefined} signal
 *  @param {What} what @returns {Promise<Listing>} */
async function listFolder(store, folder, signal, what) {
  const at = (/** @type {string} */ path) => ({ path, url: new URL(encoded(path), folder).href });
  const files = await what.ask(store, at, signal);
  return { name: lastOf(folder), origin: "folder", files: what.pick(files, folder) };
}

/** A repository of the Hugging Face hub, whose listing has sizes and hashes.
 *  @param {WeightStore} store @param {string} id @param {string} hubUrl
 *  @param {AbortSignal | undefined} signal @param {What} what @returns {Promise<Listing>} */
async function listHub(store, id, hubUrl, signal, what) {
  const [name, revision = "main"] = id.split("@");
  const tree = `${hubUrl}/api/models/${name}/tree/${revision}?recursive=true`;
  const text = await store.document(tree, signal);
  if (text === null) {
    const hint = "Check the owner and the name; a private repository cannot be read from a page.";
    throw new WeightsError(`the hub has no model "${id}"`, { url: tree, status: 404, hint });
  }
  /** @type {{ type: string, path: string, size: number, lfs?: { oid?: unknown } }[]} */
  const rows = parseListing(text, tree);
  if (!Array.isArray(rows)) throw malformed(tree, rows, "a list of files");
  for (const row of rows) checkRow(row, tree);
  const files = rows
    .filter((row) => row.type === "file")
    .map((row) => ({
      path: row.path,
      url: `${hubUrl}/${name}/resolve/${revision}/${encoded(row.path)}`,
      size: row.size,
      sha256: typeof row.lfs?.oid === "string" ? row.lfs.oid : undefined,
    }));
  return { name, origin: "hub", files: what.pick(files, `the hub's ${id}`) };
}
