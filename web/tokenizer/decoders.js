/** The decoders of the tab's tokenizers: tokens to text, equal to the `tokenizers` package.
 *
 * Fuse, Strip and BPEDecoder are the library's. The others differ from the library's, as the
 * package does: ByteLevel reads each token by itself and keeps one with other characters,
 * ByteFallback gives a U+FFFD for every wrong byte, Metaspace takes all blanks from the first
 * token, WordPiece also joins " do not", and Replace takes its content as it is written.
 */

/** @typedef {typeof import("./words.js")} Words */
/** @typedef {import("./words.js").Json} Json */
/** A step of a decoder: tokens in, tokens out. The last tokens are joined.
 * @typedef {(tokens: string[]) => string[]} Step */
/** @typedef {new (config: Json) => { decode_chain: Step }} Class */
/** The used decoders of `@huggingface/tokenizers`.
 * @typedef {{ Fuse: Class, StripDecoder: Class, BPEDecoder: Class }} Library */

/** WordPiece's cleanup of decoded text, in the package's order. */
const TIDY = [
  [" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"], [" 'm", "'m"],
  [" do not", " don't"], [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"],
]; // prettier-ignore

/** @param {Json} config @returns {Step} */
function wordPiece(config) {
  const prefix = config.prefix ?? "##";
  const tidy = config.cleanup ?? true;
  return (tokens) =>
    tokens.map((token, i) => {
      if (i && token.startsWith(prefix)) token = token.slice(prefix.length);
      else if (i) token = " " + token;
      if (tidy) for (const [from, to] of TIDY) token = token.replaceAll(from, to);
      return token;
    });
}

/** @param {Words} words @returns {Step} */
function byteLevel(words) {
  // Bytes that are not UTF-8 become U+FFFD, as in Rust's from_utf8_lossy; a BOM is kept.
  const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  const encoder = new TextEncoder();
  return (tokens) => {
    /** @type {number[]} */
    const bytes = [];
    for (const token of tokens) {
      const own = [...token].map((char) => words.CHAR_BYTES.get(char));
      // A token with other characters is not a byte token: it stands for itself.
      if (own.includes(undefined)) for (const byte of encoder.encode(token)) bytes.push(byte);
      else for (const byte of own) bytes.push(/** @type {number} */ (byte));
    }
    return [utf8.decode(Uint8Array.from(bytes))];
  };
}

/** Tokens like <0xE2> to the text of their bytes, or to one U+FFFD each. @type {Step} */
function byteFallback(tokens) {
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** @type {string[]} */
  const found = [];
  /** @type {number[]} */
  let bytes = [];
  const flush = () => {
    if (!bytes.length) return;
    try {
      found.push(utf8.decode(Uint8Array.from(bytes)));
    } catch {
      for (const _ of bytes) found.push("\ufffd");
    }
    bytes = [];
  };
  for (const token of tokens) {
    const match = /^<0x([0-9A-Fa-f]{2})>$/.exec(token);
    if (match) {
      bytes.push(parseInt(match[1], 16));
    } else {
      flush();
      found.push(token);
    }
  }
  flush();
  return found;
}

/** @param {Words} words @param {Json} config @returns {Step} */
function metaspace(words, config) {
  const mark = config.replacement ?? "\u2581";
  const never = config.prepend_scheme === "never" || config.add_prefix_space === false;
  return (tokens) =>
    tokens.map((token, i) => token.replaceAll(mark, i === 0 && !never ? "" : " "));
}

/** @param {Library} library @param {Words} words @param {Json} config @returns {Step} */
function step(library, words, config) {
  switch (config.type) {
    case "Sequence": {
      const steps = config.decoders.map((/** @type {Json} */ part) => step(library, words, part));
      return (tokens) =>
        steps.reduce((/** @type {string[]} */ now, /** @type {Step} */ one) => one(now), tokens);
    }
    case "WordPiece":
      return wordPiece(config);
    case "ByteLevel":
      return byteLevel(words);
    case "ByteFallback":
      return byteFallback;
    case "Metaspace":
      return metaspace(words, config);
    case "Replace": {
      const { String: from } = config.pattern;
      if (!from) return words.refuse("decoder pattern", config.pattern);
      return (tokens) => tokens.map((token) => token.replaceAll(from, () => config.content));
    }
  }
  const { Fuse, BPEDecoder, StripDecoder } = library;
  const own = { Fuse, BPEDecoder, Strip: StripDecoder };
  if (!Object.hasOwn(own, config.type)) return words.refuse("decoder", config.type);
  const made = new own[/** @type {keyof typeof own} */ (config.type)](config);
  return (tokens) => made.decode_chain(tokens);
}

/** @param {Library} library @param {Words} words @param {Json | null} config
 * @returns {(tokens: string[]) => string} */
export function decoder(library, words, config) {
  if (!config) return (tokens) => tokens.join(" ");
  const decode = step(library, words, config);
  return (tokens) => decode(tokens).join("");
}
