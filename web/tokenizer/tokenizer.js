/** Tokenizers for the tab, with the ids, offsets and special mask of the `tokenizers` package.
 *
 * Of `@huggingface/tokenizers` it uses the merging of byte pairs and the decoders that give what
 * the package gives. The other parts are in this folder: the library has no offsets, and its
 * normalizers, splits, Unigram, WordPiece and other decoders give other results or take much
 * longer; each file says which. Supported: WordPiece, byte-level BPE, SentencePiece's BPE and
 * Unigram. Anything else in a tokenizer.json is refused by name.
 *
 * `createTokenizer` takes the library as an argument, because its place differs between a checkout
 * and a wheel.
 */

import { decoder } from "./decoders.js";
import { normalizers } from "./normalizers.js";
import { preTokenizer } from "./splits.js";
import { checked, tokensById } from "./shape.js";
import { AddedTokens, bytePairs, characterPairs, unigram, wordPiece } from "./subwords.js";
import * as unicode from "./unicode.js";
import * as words from "./words.js";

/**
 * The used part of `@huggingface/tokenizers`.
 * @typedef {{ BPE: new (config: object) => Model } & import("./decoders.js").Library} Library
 */
/** @typedef {import("./subwords.js").Model} Model */
/** The tokens of a word, and the characters of it where each starts and ends.
 * @typedef {{ ids: number[], starts: number[], ends: number[] }} Tokens */
/** @typedef {import("./subwords.js").AddedToken} AddedToken */
/** @typedef {import("./words.js").Json} Json */
/** @typedef {import("./words.js").Text} Text */

/** @typedef {(encoding: Encoding, addSpecial: boolean) => void} PostStep */

/** The longest word whose tokens are cached; longer words rarely repeat. */
const LONGEST_CACHED = 64;
const CACHED_WORDS = 50_000;

/** The tokens of a text: for each its id, offsets, and the text if it is an added token. */
class Encoding {
  /** @type {number[]} */ ids = [];
  /** @type {number[]} */ starts = [];
  /** @type {number[]} */ ends = [];
  /** @type {(string | null)[]} */ texts = [];
  /** @type {number[]} */ words = [];
  /** The number of words so far; an added token is one. */
  count = 0;
  /** The number of tokens that the template put before and after the text. */
  before = 0;
  after = 0;

  /** @param {number} id @param {number} start @param {number} end @param {string | null} text */
  push(id, start, end, text = null) {
    this.ids.push(id);
    this.starts.push(start);
    this.ends.push(end);
    this.texts.push(text);
    this.words.push(this.count);
  }

  /** Put special tokens around the others. @param {number[]} before @param {number[]} after */
  surround(before, after) {
    this.ids = [...before, ...this.ids, ...after];
    for (const list of [this.starts, this.ends]) {
      list.unshift(...before.map(() => 0));
      list.push(...after.map(() => 0));
    }
    this.texts = [...before.map(() => null), ...this.texts, ...after.map(() => null)];
    this.words = [...before.map(() => -1), ...this.words, ...after.map(() => -1)];
    this.before += before.length;
    this.after += after.length;
  }

  /** Count, ids, starts, ends and special flags in one row of integers, then the words if asked
   *  for. @param {boolean} words @returns {number[]} */
  row(words) {
    const count = this.ids.length;
    const special = this.ids.map((_, i) => +(i < this.before || i >= count - this.after));
    const lists = [this.ids, this.starts, this.ends, special, ...(words ? [this.words] : [])];
    return [count].concat(...lists);
  }
}

/**
 * Exclude the white space of byte-level tokens from their offsets.
 * @param {import("./words.js").Table} table @param {boolean} prefixed whether a space was put
 * before the text @param {(id: number) => string} textOf @returns {PostStep}
 */
function offsetTrimmer(table, prefixed, textOf) {
  const blank = words.BYTE_CHARS[0x20];
  /** @param {string} char */
  const isBlank = (char) =>
    char === blank || (table[/** @type {number} */ (char.codePointAt(0))] & words.SPACE) !== 0;
  return (encoding) => {
    const { ids, starts, ends, texts } = encoding;
    ids.forEach((id, i) => {
      const chars = [...(texts[i] ?? textOf(id))];
      let leading = chars.findIndex((char) => !isBlank(char));
      if (leading < 0) leading = chars.length;
      const trailing = chars.length - 1 - chars.findLastIndex((char) => !isBlank(char));
      if (leading > 0) {
        // The space that was put before the text has no offset, so nothing is trimmed.
        if (prefixed && leading === 1 && (i === 0 || starts[i] === 0)) leading = 0;
        starts[i] = Math.min(starts[i] + leading, ends[i]);
      }
      if (trailing > 0 && ends[i] >= trailing) ends[i] = Math.max(ends[i] - trailing, starts[i]);
    });
  };
}

/** Tokens in the order of their ids, with their ids. @param {[string, number][]} rows */
function scored(rows) {
  return new Map(rows.map(([token], id) => [token, id]));
}

/** The tokenizer of one tokenizer.json. Offsets count code points of the given text. */
class Tokenizer {
  /** @param {Library} library @param {Json} json */
  constructor(library, json) {
    const table = words.classTable(unicode);
    const kind = json.model.type;
    if (!["BPE", "WordPiece", "Unigram"].includes(kind)) words.refuse("model", kind);
    const { split, bytes } = preTokenizer(json.pre_tokenizer ?? null, table);
    if (bytes && kind !== "BPE") words.refuse("model", `${kind} after ByteLevel`);
    this.bytes = bytes;
    this.split = split;
    this.normalizers = normalizers(json.normalizer ?? null, table);
    // The library's Tokenizer would add the added tokens to the vocabulary, which the package does
    // not do.
    const model = kind === "BPE" ? new library.BPE(json.model) : null;
    /** @type {Map<string, number>} */
    this.vocab =
      model?.tokens_to_ids ??
      (kind === "Unigram" ? scored(json.model.vocab) : new Map(Object.entries(json.model.vocab)));
    this.tokens = tokensById(this.vocab);
    /** The units that a code point adds to a token's length. @type {(code: number) => number} */
    this.units = kind === "BPE" ? words.utf8Length : () => 1;
    const makePieces = kind === "Unigram" ? unigram : wordPiece;
    this.pieces = model
      ? (bytes ? bytePairs : characterPairs)(words, json.model, model)
      : makePieces(words, json.model, this.vocab);
    // What was made of the lists is kept, not the lists, which take more.
    json.model.vocab = json.model.merges = null;
    if (model) model.merges = model.vocab = [];
    /** @type {Map<string, Tokens>} */
    this.cache = new Map();

    /** @type {Map<string, number>} */
    this.addedIds = new Map();
    /** @type {Map<number, string>} */
    this.addedTexts = new Map();
    /** @type {Set<string>} */
    this.special = new Set();
    this.added = new AddedTokens(words, table);
    this.addedNormalized = new AddedTokens(words, table);
    for (const token of json.added_tokens ?? []) this.add(token);

    this.post = this.postSteps(json.post_processor ?? null, table);
    this.decoder = decoder(library, words, json.decoder ?? null);
    /** The file without its vocabulary, for the checks that both places share. */
    this.parts = JSON.stringify({
      normalizer: json.normalizer,
      pre_tokenizer: json.pre_tokenizer,
      post_processor: json.post_processor,
      decoder: json.decoder,
      model: {
        max_input_chars_per_word: json.model.max_input_chars_per_word,
        continuing_subword_prefix:
          json.model.continuing_subword_prefix ?? (kind === "WordPiece" ? "##" : null),
      },
      added_tokens: (json.added_tokens ?? []).filter(
        (/** @type {AddedToken} */ { lstrip, rstrip }) => lstrip || rstrip,
      ),
    });
    this.decoderPart = json.decoder ?? null;
    /** The id of the padding token, if tokenizer.json has one. @type {number | undefined} */
    this.padId = json.padding?.pad_id;
    this.vocabSize =
      this.vocab.size + [...this.addedIds.keys()].filter((text) => !this.vocab.has(text)).length;
  }

  /** Every token as the vocabulary spells it, the decoder, and id, text and whether it is special
   *  of each added token; as JSON. */
  spellings() {
    const added = [...this.addedIds].map(([text, id]) => [id, text, this.special.has(text)]);
    const tokens = Array.from(this.tokens, (token) => token ?? null);
    return JSON.stringify({ tokens, decoder: this.decoderPart, added });
  }

  /** @param {Json} token */
  add(token) {
    const id = this.vocab.get(token.content) ?? token.id;
    if (id !== token.id) {
      throw new Error(
        `tokenizer.json: added token ${token.content} has id ${token.id}, in the vocabulary ${id}`,
      );
    }
    this.addedIds.set(token.content, id);
    if (token.special) this.special.add(token.content);
    const { codes } = token.normalized ? this.normalize(token.content) : this.plain(token.content);
    // As in the package, a normalized token is matched in its normalized spelling.
    this.addedTexts.set(id, words.toText(codes));
    const known = token.normalized ? this.addedNormalized : this.added;
    known.add(codes, /** @type {AddedToken} */ (token));
  }

  /** @param {Json | null} config @param {import("./words.js").Table} table @returns {PostStep[]} */
  postSteps(config, table) {
    if (!config) return [];
    const trim = () =>
      config.trim_offsets ?? true
        ? [offsetTrimmer(table, config.add_prefix_space ?? true, (id) => this.text(id))]
        : [];
    /** @param {number[]} before @param {number[]} after @returns {PostStep} */
    const around = (before, after) => (encoding, addSpecial) => {
      if (addSpecial) encoding.surround(before, after);
    };
    switch (config.type) {
      case "Sequence":
        return config.processors.flatMap((/** @type {Json} */ part) => this.postSteps(part, table));
      case "ByteLevel":
        return trim();
      case "BertProcessing":
        return [around([config.cls[1]], [config.sep[1]])];
      case "RobertaProcessing":
        return [...trim(), around([config.cls[1]], [config.sep[1]])];
      case "TemplateProcessing": {
        /** @type {number[][]} */
        const sides = [[]];
        for (const item of config.single) {
          if (item.Sequence) sides.push([]);
          else sides[sides.length - 1].push(...config.special_tokens[item.SpecialToken.id].ids);
        }
        if (sides.length !== 2) words.refuse("post_processor template", config.single);
        return [around(sides[0], sides[1])];
      }
      default:
        return words.refuse("post_processor", config.type);
    }
  }

  /** @param {string} text @returns {Text} */
  plain(text) {
    const codes = words.codePoints(text);
    return { codes, source: codes.map((_, i) => i) };
  }

  /** @param {string | Text} text @returns {Text} */
  normalize(text) {
    const start = typeof text === "string" ? this.plain(text) : text;
    return this.normalizers.reduce((now, step) => step(now), start);
  }

  /**
   * Tokens of a text with offsets: count, ids, starts, ends, special flags, words in one row.
   * @param {string} text @param {boolean} addSpecial @param {boolean} [words]
   */
  encode(text, addSpecial, words = false) {
    return Int32Array.from(this.encoding(text, addSpecial).row(words));
  }

  /**
   * The rows of several texts, one after the other.
   * @param {string[]} texts @param {boolean} addSpecial @param {boolean} [words]
   */
  encodeBatch(texts, addSpecial, words = false) {
    const rows = [...texts].map((text) => this.encode(text, addSpecial, words));
    const all = new Int32Array(rows.reduce((sum, row) => sum + row.length, 0));
    let at = 0;
    for (const row of rows) {
      all.set(row, at);
      at += row.length;
    }
    return all;
  }

  /** @param {string} text @param {boolean} addSpecial */
  encoding(text, addSpecial) {
    const encoding = new Encoding();
    const input = this.plain(text);
    for (const { token, from, to } of this.added.split(input.codes)) {
      const codes = input.codes.slice(from, to);
      if (token) {
        encoding.push(token.id, from, to, words.toText(codes));
        encoding.count += 1;
        continue;
      }
      const normal = this.normalize({ codes, source: input.source.slice(from, to) });
      for (const part of this.addedNormalized.split(normal.codes)) {
        if (part.token) {
          const { source } = normal;
          const value = words.toText(normal.codes, part.from, part.to);
          encoding.push(part.token.id, source[part.from], source[part.to - 1] + 1, value);
          encoding.count += 1;
        } else {
          this.encodePart(normal, part.from, part.to, encoding);
        }
      }
    }
    for (const step of this.post) step(encoding, addSpecial);
    return encoding;
  }

  /**
   * Split normalized text[from:to] into words and these into tokens.
   * @param {Text} text @param {number} from @param {number} to @param {Encoding} encoding
   */
  encodePart(text, from, to, encoding) {
    this.split(text, from, to, ({ codes, source }, a, b) => {
      const word = this.bytes ? words.byteChars(codes, a, b) : words.toText(codes, a, b);
      const { ids, starts, ends } = this.tokenize(word, codes, a);
      for (let k = 0; k < ids.length; k++) {
        encoding.push(ids[k], source[a + starts[k]], source[a + ends[k] - 1] + 1);
      }
      encoding.count += 1;
    });
  }

  /**
   * The tokens of a word, which starts at a place of the text.
   * @param {string} word @param {number[]} codes @param {number} at @returns {Tokens}
   */
  tokenize(word, codes, at) {
    const known = this.cache.get(word);
    if (known) return known;
    const { ids, lengths } = this.pieces(word);
    /** @type {Tokens} */
    const tokens = { ids, starts: [], ends: [] };
    // `place` walks the characters of the word; a byte-pair token may end inside a character.
    let place = 0, left = this.units(codes[at]);
    for (let k = 0; k < ids.length; k++) {
      const start = place;
      let last = place;
      for (let need = lengths[k]; need > 0; ) {
        last = place;
        const step = need < left ? need : left;
        need -= step;
        left -= step;
        if (left === 0) left = this.units(codes[at + ++place]);
      }
      tokens.starts.push(lengths[k] ? start : tokens.starts[k - 1]);
      tokens.ends.push(lengths[k] ? last + 1 : tokens.ends[k - 1]);
    }
    if (word.length <= LONGEST_CACHED) {
      if (this.cache.size >= CACHED_WORDS) this.cache.clear();
      this.cache.set(word, tokens);
    }
    return tokens;
  }

  /** @param {Iterable<number>} ids @param {boolean} skipSpecial */
  decode(ids, skipSpecial) {
    const tokens = [];
    for (const id of ids) {
      const token = this.idToToken(id);
      if (token !== undefined && !(skipSpecial && this.special.has(token))) tokens.push(token);
    }
    return this.decoder(tokens);
  }

  /** The text of tokens as the vocabulary spells them. @param {Iterable<string>} tokens */
  join(tokens) {
    return this.decoder([...tokens]);
  }

  /** @param {string} token @returns {number | undefined} */
  tokenToId(token) {
    return this.addedIds.get(token) ?? this.vocab.get(token);
  }

  /** @param {number} id @returns {string | undefined} */
  idToToken(id) {
    return this.addedTexts.get(id) ?? this.tokens[id];
  }

  /** @param {number} id */
  text(id) {
    return this.idToToken(id) ?? "";
  }
}

/**
 * A tokenizer from the bytes of a tokenizer.json. Throws an Error that names what is invalid or not
 * supported.
 * @param {Library} library `@huggingface/tokenizers` @param {Uint8Array} bytes
 */
export function createTokenizer(library, bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return new Tokenizer(library, checked(JSON.parse(text)));
  } catch (error) {
    const told = error instanceof Error ? error.message : String(error);
    if (told.startsWith("tokenizer.json: ")) throw error;
    throw new Error(`tokenizer.json: ${told}`); // not JSON, not UTF-8
  }
}
