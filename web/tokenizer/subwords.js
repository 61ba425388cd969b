/** The vocabularies of the tab's tokenizers: added tokens, WordPiece and byte pairs. */

/** @typedef {typeof import("./words.js")} Words */
/** @typedef {import("./words.js").Json} Json */

/**
 * The used part of `@huggingface/tokenizers`.
 * @typedef {object} Model
 * @property {Map<string, number>} tokens_to_ids
 * @property {(word: string) => string[]} bpe
 */
/**
 * The tokens of one word, and the number of characters that each covers.
 * @typedef {{ ids: number[], lengths: number[] }} Pieces
 */
/**
 * @typedef {object} AddedToken
 * @property {number} id
 * @property {string} content
 * @property {boolean} lstrip
 * @property {boolean} rstrip
 * @property {boolean} single_word
 */
/** @typedef {{ next: Map<number, Node>, token: AddedToken | null }} Node */
/** A part of a text: an added token, or the text between two if `token` is null. */
/** @typedef {{ token: AddedToken | null, from: number, to: number }} Part */

const WORD_CHARACTER = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

/** Finds added tokens in code points: the leftmost, and of these the longest, as Aho-Corasick. */
export class AddedTokens {
  /** @param {Words} words @param {Uint8Array} table */
  constructor(words, table) {
    this.words = words;
    this.table = table;
    /** @type {Node} */
    this.root = { next: new Map(), token: null };
  }

  /** @param {number[]} codes @param {AddedToken} token */
  add(codes, token) {
    let node = this.root;
    for (const code of codes) {
      let next = node.next.get(code);
      if (!next) node.next.set(code, (next = { next: new Map(), token: null }));
      node = next;
    }
    node.token = token;
  }

  /** @param {number[]} codes @returns {Part[]} */
  split(codes) {
    /** @type {Part[]} */
    const parts = [];
    let done = 0;
    for (let i = 0; i < codes.length && this.root.next.size; ) {
      /** @type {Node | undefined} */
      let node = this.root;
      /** @type {AddedToken | null} */
      let token = null;
      let end = i;
      for (let j = i; (node = node.next.get(codes[j])); ) {
        j++;
        if (node.token) [token, end] = [node.token, j];
      }
      if (!token) {
        i++;
        continue;
      }
      if (!token.single_word || !(this.isWord(codes[i - 1]) || this.isWord(codes[end]))) {
        let from = i;
        let to = end;
        if (token.lstrip) while (from > done && this.isSpace(codes[from - 1])) from--;
        if (token.rstrip) while (to < codes.length && this.isSpace(codes[to])) to++;
        if (from > done) parts.push({ token: null, from: done, to: from });
        parts.push({ token, from, to });
        done = to;
      }
      i = end;
    }
    if (done < codes.length) parts.push({ token: null, from: done, to: codes.length });
    return parts;
  }

  /** @param {number} code */
  isSpace(code) {
    return (this.table[code] & this.words.SPACE) !== 0;
  }

  /** @param {number | undefined} code */
  isWord(code) {
    return code !== undefined && WORD_CHARACTER.test(String.fromCodePoint(code));
  }
}

/**
 * WordPiece (Wu et al., 2016): greedily the longest piece of the vocabulary, or one unknown token.
 * @param {Words} words @param {Json} config @param {Map<string, number>} vocab
 * @returns {(word: string) => Pieces}
 */
export function wordPiece(words, config, vocab) {
  const prefix = config.continuing_subword_prefix ?? "##";
  const most = config.max_input_chars_per_word ?? 100;
  const unknown = vocab.get(config.unk_token);
  let longest = 0;
  for (const piece of vocab.keys()) longest = Math.max(longest, piece.length);
  return (word) => {
    const codes = words.codePoints(word);
    const ids = [];
    const lengths = [];
    for (let from = 0; from < codes.length && codes.length <= most; ) {
      let to = Math.min(codes.length, from + longest);
      let id;
      let piece = (from ? prefix : "") + words.toText(codes, from, to);
      while (to > from && (id = vocab.get(piece)) === undefined) {
        to--;
        piece = piece.slice(0, codes[to] > 0xffff ? -2 : -1);
      }
      if (id === undefined) break;
      ids.push(id);
      lengths.push(to - from);
      from = to;
    }
    if (lengths.reduce((sum, length) => sum + length, 0) === codes.length) return { ids, lengths };
    if (unknown === undefined) {
      throw new Error(`tokenizer.json: the unk_token ${config.unk_token} is not in the vocabulary`);
    }
    return { ids: [unknown], lengths: [codes.length] };
  };
}

/** @param {Words} words @param {Json} config */
function checkPairs(words, config) {
  for (const key of ["dropout", "continuing_subword_prefix", "end_of_word_suffix"]) {
    if (config[key]) words.refuse(`BPE model with ${key}`, config[key]);
  }
}

/**
 * Byte pair encoding (Sennrich et al., 2016) over GPT-2's byte characters.
 * @param {Words} words @param {Json} config @param {Model} model
 * @returns {(word: string) => Pieces}
 */
export function bytePairs(words, config, model) {
  checkPairs(words, config);
  const vocab = model.tokens_to_ids;
  const absent = words.BYTE_CHARS.filter((char) => !vocab.has(char));
  if (absent.length && vocab.has(config.unk_token)) {
    words.refuse("BPE model with an unk_token for the bytes", absent);
  }
  const lacking = new Set(absent);
  return (word) => {
    // As in the package: the byte is dropped, merges cross the gap, and offsets move up.
    if (lacking.size) word = Array.from(word, (char) => (lacking.has(char) ? "" : char)).join("");
    const pieces = config.ignore_merges && vocab.has(word) ? [word] : model.bpe(word);
    const ids = pieces.map((piece) => {
      const id = vocab.get(piece);
      if (id === undefined) throw new Error(`tokenizer.json: merged token ${piece} has no id`);
      return id;
    });
    return { ids, lengths: pieces.map((piece) => piece.length) };
  };
}

/**
 * Byte pair encoding over characters, as SentencePiece's vocabularies have it. A character that the
 * vocabulary lacks becomes the tokens of its bytes, or the unknown token. Lengths count bytes.
 * @param {Words} words @param {Json} config @param {Model} model
 * @returns {(word: string) => Pieces}
 */
export function characterPairs(words, config, model) {
  checkPairs(words, config);
  const vocab = model.tokens_to_ids;
  const unknown = vocab.get(config.unk_token);
  const encoder = new TextEncoder();
  const byteIds = Array.from({ length: 256 }, (_, byte) =>
    vocab.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  );
  return (word) => {
    const pieces = config.ignore_merges && vocab.has(word) ? [word] : model.bpe(word);
    /** @type {Pieces} */
    const found = { ids: [], lengths: [] };
    let fuses = false;
    for (const piece of pieces) {
      const bytes = encoder.encode(piece);
      const id = vocab.get(piece);
      const own = config.byte_fallback && id === undefined ? [...bytes].map((b) => byteIds[b]) : [];
      if (id !== undefined) {
        found.ids.push(id);
        found.lengths.push(bytes.length);
      } else if (own.length && !own.includes(undefined)) {
        found.ids.push(.../** @type {number[]} */ (own));
        found.lengths.push(...own.map(() => 1));
      } else if (unknown === undefined) {
        // The package drops such a piece silently, which shifts the tokens after it.
        throw new Error(`tokenizer.json: ${piece} is not in the vocabulary, nor an unk_token`);
      } else if (fuses) {
        found.lengths[found.lengths.length - 1] += bytes.length;
        continue;
      } else {
        found.ids.push(unknown);
        found.lengths.push(bytes.length);
        fuses = config.fuse_unk ?? false;
        continue;
      }
      fuses = false;
    }
    return found;
  };
}
