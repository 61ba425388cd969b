// graphs.js: which ONNX files of a folder make a model, by the names of transformers.js. Python has
// the last word (models/onnx/files.py); here it is what is listed, and what a server is asked for.

/**
 * @typedef {import("./ranges.js").FileSpec} FileSpec
 * @typedef {string | Record<string, string> | null | undefined} Dtype  of all graphs, or of each
 * @typedef {{ dtype?: Dtype, format?: string | null }} Asked
 */

/** @type {Record<string, string>} */
const SUFFIXES = {
  fp32: "", fp16: "_fp16", q8: "_quantized", int8: "_int8", uint8: "_uint8", q4: "_q4",
  bnb4: "_bnb4", q4f16: "_q4f16",
}; // prettier-ignore
/** @type {Record<string, string>} */
const OTHERS = { float32: "fp32", float16: "fp16", quantized: "q8" };
const PLACE = /^(?:onnx\/)?([\w.-]+?)(_fp16|_quantized|_q8|_u?int8|_q4|_bnb4|_q4f16)?\.onnx$/;
const BESIDE = /(?<=\.onnx)[._]data\w*$/; // tensors beside a graph
const DECODERS = ["decoder_model_merged", "decoder_model"];
const NAMES = [
  "model", "encoder_model", ...DECODERS, "decoder_with_past_model", "embed_tokens",
  "vision_encoder", "prompt_encoder_mask_decoder", "text_model", "vision_model",
]; // prettier-ignore

// The graphs of a voice of Supertonic's kind, and the files that it reads beside them.
const VOICE = ["duration_predictor", "text_encoder", "vector_estimator", "vocoder"];
const VOICE_FILES = new RegExp(
  String.raw`^(onnx/(\w+\.onnx([._]data\w*)?|tts\.json|unicode_indexer\.json)|` +
    String.raw`voice_styles/[^/]+\.json)$`,
);

/** The files of such a voice, if a folder has one. @param {FileSpec[]} files */
export function voiceIn(files) {
  const graphs = new Set(files.map(({ path }) => PLACE.exec(path)?.[1]));
  return VOICE.every((name) => graphs.has(name))
    ? files.filter(({ path }) => VOICE_FILES.test(path))
    : [];
}

/** Whether a path is of a graph, or of tensors beside one. @param {string} path */
export const isGraphPart = (path) => path.replace(BESIDE, "").endsWith(".onnx");

/** Whether ONNX files are meant, whatever else a folder has. @param {Asked} asked */
export function meansGraphs({ dtype, format }) {
  return format === "onnx" || (typeof dtype === "string" ? dtype in SUFFIXES : Boolean(dtype));
}

/**
 * What `load` gives for what is asked for; where a server lists nothing and has no other weights,
 * for its ONNX files.
 * @template T @param {Asked} asked @param {(asked: Asked) => Promise<T>} load
 */
export async function orGraphs(asked, load) {
  const missing = (/** @type {any} */ error) =>
    error?.name === "WeightsError" && error.status === 404;
  try {
    return await load(asked);
  } catch (error) {
    if (!missing(error) || meansGraphs(asked)) throw error;
    return load({ ...asked, format: "onnx" }).catch((/** @type {unknown} */ other) => {
      throw missing(other) ? error : other;
    });
  }
}

/** @param {Dtype} dtype @param {string} graph */
function dtypeOf(dtype, graph) {
  const name = (typeof dtype === "string" ? dtype : dtype?.[graph]) ?? "";
  return OTHERS[name] ?? name;
}

/**
 * The files of the graphs that make a model: of each in the dtype that is asked for, else in the
 * one that the configuration tells, or the widest.
 * @param {FileSpec[]} files @param {Dtype} dtype @param {Dtype} told
 */
export function chosenGraphs(files, dtype, told) {
  /** @type {Map<string, Map<string, string>>} */
  const found = new Map();
  const paths = files.map(({ path }) => path);
  for (const path of [...paths.filter((p) => p.includes("/")), ...paths]) {
    const [, graph, suffix = ""] = PLACE.exec(path) ?? [];
    if (!graph) continue;
    const end = suffix === "_q8" ? SUFFIXES.q8 : suffix;
    const name = Object.keys(SUFFIXES).find((key) => SUFFIXES[key] === end) ?? "";
    const row = found.get(graph) ?? new Map();
    found.set(graph, new Map([[name, path], ...row]));
  }
  const kept = new Set();
  for (const graph of needed([...found.keys()])) {
    const row = /** @type {Map<string, string>} */ (found.get(graph));
    const [asked, hint] = [dtypeOf(dtype, graph), dtypeOf(told, graph)];
    const widest = Object.keys(SUFFIXES).find((name) => row.has(name)) ?? "";
    // A device without arithmetic of 16 bits does not take what the configuration tells.
    const usual = hint === "q4f16" ? [hint, widest] : [row.has(hint) ? hint : widest];
    for (const name of row.has(asked) ? [asked] : usual) kept.add(row.get(name));
  }
  return files.filter(({ path }) => kept.has(path.replace(BESIDE, "")));
}

/** Of the graphs of a folder those that make a model together. @param {string[]} there */
function needed(there) {
  const of = (/** @type {string[]} */ ...names) => names.filter((name) => there.includes(name));
  const [decoder] = of(...DECODERS);
  const past = decoder === "decoder_model" ? of("decoder_with_past_model") : [];
  if (decoder) return [...of("encoder_model", "embed_tokens"), decoder, ...past];
  for (const pair of [["vision_encoder", "prompt_encoder_mask_decoder"], ["model"]]) {
    if (of(...pair).length === pair.length) return pair;
  }
  return there;
}

/**
 * The graphs of a folder on a server that lists nothing: those of the usual names.
 * @template {{ path: string, url: string }} File
 * @param {(path: string) => File} at @param {(file: File) => Promise<boolean>} there
 * @param {Dtype[]} asked  dtypes, by what is asked for and by what the configuration tells
 * @returns {Promise<File[]>}
 */
export async function graphsAt(at, there, asked) {
  const named = asked.flatMap((x) => (typeof x === "string" ? x : Object.values(x ?? {})));
  const dtypes = [...new Set(named.map((x) => OTHERS[x] ?? x))].filter((x) => x in SUFFIXES);
  const rows = dtypes.length ? [dtypes] : [];
  for (const some of [...rows, ...Object.keys(SUFFIXES).map((x) => [x])]) {
    for (const folder of ["onnx/", ""]) {
      const names = some.flatMap((x) => NAMES.map((name) => `${name}${SUFFIXES[x]}`));
      const files = names.map((name) => at(`${folder}${name}.onnx`));
      const are = await Promise.all(files.map(there));
      if (are.includes(true)) return files.filter((_, i) => are[i]);
    }
  }
  return [];
}
