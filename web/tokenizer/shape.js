/** Checks that a tokenizer.json has the shape that the tab's tokenizers read. */

import { refuse } from "./words.js";

/** @typedef {import("./words.js").Json} Json */

const DEEPEST = 16;
const LONGEST_ADDED = 1024;
/** Where the steps of a part's Sequence are. @type {Record<string, string>} */
const LISTS = {
  normalizer: "normalizers",
  pre_tokenizer: "pretokenizers",
  post_processor: "processors",
  decoder: "decoders",
};

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** @param {unknown} value */
const isText = (value) => typeof value === "string";
/** Each place of a text is compared with the added tokens. @param {any} value */
const isAddable = (value) => isText(value) && value.length <= LONGEST_ADDED;
/** @param {unknown} value */
const isFlag = (value) => typeof value === "boolean";
/** @param {unknown} value */
const isId = (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 31;
/** @param {unknown} value */
const isNamedId = (value) =>
  Array.isArray(value) && value.length === 2 && isText(value[0]) && isId(value[1]);

/** What is expected of a value, and how it is told.
 * @typedef {[(value: any) => boolean, string]} Kind */
/** @type {Kind} */
const TEXT = [isText, "a text"];
/** @type {Kind} */
const FLAG = [isFlag, "true or false"];
/** @type {Kind} */
const COUNT = [isId, "a number from 0 to 2147483647"];
/** @type {Kind} */
const NAMED_ID = [isNamedId, "a token and its id"];

/** @type {Kind} */
const OBJECT = [isObject, "an object"];

/** The entries of all parts, by their names. @type {Record<string, Kind>} */
const ENTRIES = {
  ...Object.fromEntries(Object.values(LISTS).map((key) => [key, [Array.isArray, "a list"]])),
  pattern: [
    (value) => isObject(value) && isText(value.String ?? value.Regex),
    "a String or a Regex",
  ],
  cls: NAMED_ID,
  sep: NAMED_ID,
  single: [
    (value) =>
      Array.isArray(value) &&
      value.every(
        (piece) =>
          isObject(piece) && (isText(piece.Sequence?.id) || isText(piece.SpecialToken?.id)),
      ),
    "a list of texts and special tokens",
  ],
  special_tokens: [
    (value) =>
      isObject(value) &&
      Object.values(value).every((token) => Array.isArray(token?.ids) && token.ids.every(isId)),
    "an object of tokens with ids",
  ],
  strip_accents: [(value) => value === null || isFlag(value), "true, false or null"],
};
for (const key of [
  "content", "prepend", "behavior", "replacement", "prepend_scheme", "prefix", "suffix",
  "precompiled_charsmap", "delimiter",
]) ENTRIES[key] = TEXT; // prettier-ignore
for (const key of ["start", "stop", "length"]) ENTRIES[key] = COUNT;
for (const key of [
  "clean_text", "handle_chinese_chars", "lowercase", "add_prefix_space", "trim_offsets",
  "use_regex", "individual_digits", "invert", "split", "cleanup", "strip_left", "strip_right",
]) ENTRIES[key] = FLAG; // prettier-ignore

/** The entries that a step must have. @type {Record<string, string[]>} */
const NEEDED = {
  "normalizer Replace": ["pattern", "content"],
  "normalizer Prepend": ["prepend"],
  "normalizer Precompiled": ["precompiled_charsmap"],
  "pre_tokenizer Split": ["pattern", "behavior"],
  "pre_tokenizer CharDelimiterSplit": ["delimiter"],
  "post_processor BertProcessing": ["cls", "sep"],
  "post_processor RobertaProcessing": ["cls", "sep"],
  "post_processor TemplateProcessing": ["single", "special_tokens"],
  "decoder Replace": ["pattern", "content"],
  "decoder Strip": ["content", "start", "stop"],
};

/** @param {string} place @param {unknown} value @param {string} told @returns {never} */
function wrong(place, value, told) {
  const shown = value === undefined ? "missing" : JSON.stringify(value).slice(0, 80);
  throw new Error(`tokenizer.json: ${place} is ${shown}, not ${told}`);
}

/** @param {Json} object @param {string} key @param {string} place @param {Kind} kind */
function expect(object, key, place, [fits, told]) {
  if (!fits(object[key])) wrong(`${place}.${key}`, object[key], told);
}

/** @param {string} part @param {string} place @param {any} step @param {number} depth */
function checkStep(part, place, step, depth = 0) {
  if (!isObject(step) || !isText(step.type)) wrong(place, step, "an object with a type");
  if (depth > DEEPEST) throw new Error(`tokenizer.json: ${part} is nested too deep`);
  for (const key of Object.keys(step)) {
    if (Object.hasOwn(ENTRIES, key)) expect(step, key, place, ENTRIES[key]);
  }
  for (const key of NEEDED[`${part} ${step.type}`] ?? []) expect(step, key, place, ENTRIES[key]);
  for (const { SpecialToken: token } of step.type === "TemplateProcessing" ? step.single : []) {
    if (token) expect(step.special_tokens, token.id, `${place}.special_tokens`, OBJECT);
  }
  if (step.type !== "Sequence") return;
  const key = LISTS[part];
  expect(step, key, place, [Array.isArray, "a list"]);
  step[key].forEach((/** @type {any} */ one, /** @type {number} */ i) =>
    checkStep(part, `${place}.${key}[${i}]`, one, depth + 1),
  );
}

/** Tokens by their ids. Throws for an id that is none. @param {Map<string, any>} vocab */
export function tokensById(vocab) {
  /** @type {string[]} */
  const tokens = [];
  for (const [token, id] of vocab) {
    if (!isId(id)) wrong(`model.vocab.${token}`, id, COUNT[1]);
    tokens[id] = token;
  }
  return tokens;
}

/** @param {Json} model */
function checkModel(model) {
  /** @param {string} key @param {Kind} kind */
  const optional = (key, kind) => {
    if (model[key] !== undefined && model[key] !== null) expect(model, key, "model", kind);
  };
  for (const key of ["unk_token", "continuing_subword_prefix", "end_of_word_suffix"]) {
    optional(key, TEXT);
  }
  for (const key of ["byte_fallback", "fuse_unk", "ignore_merges"]) optional(key, FLAG);
  optional("max_input_chars_per_word", COUNT);
  if (model.type === "Unigram") {
    if (!Array.isArray(model.vocab) || !model.vocab.length) {
      wrong("model.vocab", model.vocab, "a list of tokens");
    }
    model.vocab.forEach((row, i) => {
      if (!Array.isArray(row) || !isText(row[0]) || !Number.isFinite(row[1])) {
        wrong(`model.vocab[${i}]`, row, "a token and its score");
      }
    });
    optional("unk_id", [(id) => isId(id) && id < model.vocab.length, "a place of the vocabulary"]);
    return;
  }
  expect(model, "vocab", "model", [isObject, "an object of tokens"]);
  if (model.type === "BPE") {
    for (const key of ["dropout", "continuing_subword_prefix"]) {
      if (model[key]) refuse(`BPE model with ${key}`, model[key]);
    }
    checkMerges(model.merges);
  }
  if (model.type === "WordPiece") expect(model, "unk_token", "model", TEXT);
}

/** @param {unknown} merges */
function checkMerges(merges) {
  if (!Array.isArray(merges)) return wrong("model.merges", merges, "a list of pairs");
  const joined = isText(merges[0]);
  merges.forEach((merge, i) => {
    const fits = joined
      ? isText(merge) && merge.split(" ").length === 2
      : Array.isArray(merge) && merge.length === 2 && isText(merge[0]) && isText(merge[1]);
    if (!fits) wrong(`model.merges[${i}]`, merge, joined ? "two tokens in a text" : "two tokens");
  });
}

/** Throws an Error that names what is missing or malformed. @param {any} json @returns {Json} */
export function checked(json) {
  if (!isObject(json)) wrong("the file", json, "an object");
  if (!isObject(json.model)) wrong("model", json.model, "an object");
  expect(json.model, "type", "model", TEXT);
  for (const part of ["normalizer", "pre_tokenizer", "post_processor", "decoder"]) {
    if (json[part] ?? null) checkStep(part, part, json[part]);
  }
  const added = json.added_tokens ?? [];
  if (!Array.isArray(added)) wrong("added_tokens", added, "a list");
  added.forEach((/** @type {any} */ token, /** @type {number} */ i) => {
    const place = `added_tokens[${i}]`;
    if (!isObject(token)) wrong(place, token, "an object");
    expect(token, "content", place, [isAddable, `a text of at most ${LONGEST_ADDED} characters`]);
    expect(token, "id", place, COUNT);
    for (const key of ["single_word", "lstrip", "rstrip", "normalized", "special"]) {
      expect(token, key, place, FLAG);
    }
  });
  if (json.padding ?? null) {
    if (!isObject(json.padding)) wrong("padding", json.padding, "an object");
    expect(json.padding, "pad_id", "padding", COUNT);
  }
  if (["BPE", "WordPiece", "Unigram"].includes(json.model.type)) checkModel(json.model);
  return json;
}
