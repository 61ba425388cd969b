/** The vocabularies of the tab's tokenizers: added tokens, WordPiece and byte pairs. */

/** @typedef {typeof import("./words.js")} Words */
/** @typedef {import("./words.js").Json} Json */

/**
 * The used part of `@huggingface/tokenizers`.
 * @typedef {object} Model
 * @property {Map<string, number>} tokens_to_ids
 * @property {string[][]} merges
 * @property {string[]} vocab
 * @property {(word: string) => string[]} bpe
 */
/**
 * The tokens of one word, and the number of units (bytes of BPE, else characters) that each covers.
 * A length of 0 means that a token covers what the token before it does.
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
  /** @param {Words} words @param {import("./words.js").Table} table */
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
 *
 * The library's takes time with the third power of a word's length; here no piece is looked for
 * that is longer than all of the vocabulary.
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

/** Throws if a merge gives a token without an id. @param {Model} model */
function checkMerges({ tokens_to_ids: vocab, merges }) {
  merges.forEach(([left, right], i) => {
    if (vocab.has(left + right)) return;
    throw new Error(`tokenizer.json: model.merges[${i}]: ${left + right} is not in the vocabulary`);
  });
}

/**
 * Byte pair encoding (Sennrich et al., 2016) over GPT-2's byte characters. The last byte of a word
 * may have a suffix, as CLIP's vocabulary has it.
 * @param {Words} words @param {Json} config @param {Model} model
 * @returns {(word: string) => Pieces}
 */
export function bytePairs(words, config, model) {
  checkMerges(model);
  const vocab = model.tokens_to_ids;
  const suffix = config.end_of_word_suffix ?? "";
  const absent = words.BYTE_CHARS.filter((char) => !vocab.has(char));
  const ends = words.BYTE_CHARS.map((char) => char + suffix).filter((end) => !vocab.has(end));
  if (suffix && (absent.length || ends.length)) {
    words.refuse("BPE model with end_of_word_suffix without the bytes", [...absent, ...ends]);
  }
  if (absent.length && vocab.has(config.unk_token)) {
    words.refuse("BPE model with an unk_token for the bytes", absent);
  }
  const lacking = new Set(absent);
  return (word) => {
    // As in the package: the byte is dropped, merges cross the gap, and offsets move up.
    if (lacking.size) word = Array.from(word, (char) => (lacking.has(char) ? "" : char)).join("");
    const pieces = config.ignore_merges && vocab.has(word) ? [word] : model.bpe(word);
    const ids = pieces.map((piece) => /** @type {number} */ (vocab.get(piece)));
    const lengths = pieces.map((piece) => piece.length);
    if (suffix && pieces[0] !== word) lengths[lengths.length - 1] -= suffix.length;
    return { ids, lengths };
  };
}

/**
 * Byte pair encoding over characters, as SentencePiece's vocabularies have it. A character that the
 * vocabulary lacks becomes the tokens of its bytes, or the unknown token. Lengths count bytes.
 * @param {Words} words @param {Json} config @param {Model} model
 * @returns {(word: string) => Pieces}
 */
export function characterPairs(words, config, model) {
  if (config.end_of_word_suffix) {
    words.refuse("BPE of characters with end_of_word_suffix", config.end_of_word_suffix);
  }
  checkMerges(model);
  const vocab = model.tokens_to_ids;
  const unknown = vocab.get(config.unk_token);
  const ofBytes = byteTokens(vocab);
  const encoder = new TextEncoder();
  return (word) => {
    const pieces = config.ignore_merges && vocab.has(word) ? [word] : model.bpe(word);
    /** @type {Pieces} */
    const found = { ids: [], lengths: [] };
    let fuses = false;
    for (const piece of pieces) {
      const bytes = encoder.encode(piece);
      const id = vocab.get(piece);
      const own = config.byte_fallback && id === undefined ? ofBytes(piece) : null;
      if (id !== undefined) {
        found.ids.push(id);
        found.lengths.push(bytes.length);
      } else if (own) {
        found.ids.push(...own);
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

/** Gives the ids of the tokens of a text's bytes, or null if one is not in the vocabulary.
 * @param {Map<string, number>} vocab @returns {(text: string) => number[] | null} */
function byteTokens(vocab) {
  const encoder = new TextEncoder();
  const known = Array.from({ length: 256 }, (_, byte) =>
    vocab.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  );
  return (text) => {
    const found = Array.from(encoder.encode(text), (byte) => known[byte]);
    return found.includes(undefined) ? null : /** @type {number[]} */ (found);
  };
}

/**
 * Unigram (Kudo, 2018): of all ways to cut a word into tokens the likeliest, found from the left.
 *
 * The library's lattice has an object for every token that fits somewhere, and compares all that
 * end with all that begin at a place: a million characters would take its 20 seconds and 900 MB.
 * @param {Words} words @param {Json} config @param {Map<string, number>} vocab
 * @returns {(word: string) => Pieces}
 */
export function unigram(words, config, vocab) {
  const unknown = config.unk_id ?? undefined;
  /** @type {number[]} */
  const scores = config.vocab.map((/** @type {[string, number]} */ row) => row[1]);
  const unknownScore = scores.reduce((least, score) => Math.min(least, score)) - 10;
  const ofBytes = byteTokens(vocab);
  /** @typedef {{ next: Map<number, Branch>, id: number }} Branch */
  /** @type {Branch} */
  const root = { next: new Map(), id: -1 };
  for (const [token, id] of vocab) {
    let branch = root;
    for (const code of words.codePoints(token)) {
      let next = branch.next.get(code);
      if (!next) branch.next.set(code, (next = { next: new Map(), id: -1 }));
      branch = next;
    }
    branch.id = id;
  }
  return (word) => {
    const codes = words.codePoints(word);
    // Of the likeliest way to each place: its score, its last token and where that starts.
    const best = new Float64Array(codes.length + 1);
    const last = new Int32Array(codes.length + 1);
    const starts = new Int32Array(codes.length + 1).fill(-1);
    /** @param {number} from @param {number} to @param {number} id @param {number} score */
    const offer = (from, to, id, score) => {
      if (starts[to] >= 0 && best[from] + score <= best[to]) return;
      best[to] = best[from] + score;
      last[to] = id;
      starts[to] = from;
    };
    for (let from = 0; from < codes.length; from++) {
      /** @type {Branch | undefined} */
      let branch = root;
      let single = false;
      for (let to = from; (branch = branch.next.get(codes[to])); ) {
        to++;
        if (branch.id < 0) continue;
        offer(from, to, branch.id, scores[branch.id]);
        single ||= to === from + 1;
      }
      if (single) continue;
      if (unknown === undefined) {
        const char = words.toText([codes[from]]);
        throw new Error(`tokenizer.json: ${char} is unknown, and there is no unk_id`);
      }
      offer(from, from + 1, unknown, unknownScore);
    }
    /** @type {Pieces} */
    const found = { ids: [], lengths: [] };
    for (let to = codes.length; to > 0; ) {
      const id = last[to];
      let from = starts[to];
      // Unknown tokens in a row are one.
      while (id === unknown && from > 0 && last[from] === unknown) from = starts[from];
      const text = id === unknown ? words.toText(codes, from, to) : "";
      const own = id === unknown ? vocab.get(text) : id;
      const ids = own === undefined && config.byte_fallback ? ofBytes(text) : null;
      // All tokens of bytes stand for the whole text.
      found.ids.push(...(ids ?? [own ?? unknown]).reverse());
      found.lengths.push(...(ids ?? [0]).slice(1).map(() => 0), to - from);
      to = from;
    }
    found.ids.reverse();
    found.lengths.reverse();
    return found;
  };
}
