// kinds.js: what a file is, by its first bytes, in words; and whether it can be what is asked for.

import { size } from "../page.js";

/** Beginnings of files: words, and the bytes as Latin-1 text at a place. */
const SIGNS = /** @type {[words: string, at: number, ...signs: string[]][]} */ ([
  ["a text in UTF-32", 0, "\xff\xfe\0\0", "\0\0\xfe\xff"],
  ["a PNG picture", 0, "\x89PNG"],
  ["a JPEG picture", 0, "\xff\xd8\xff"],
  ["a GIF picture", 0, "GIF87a", "GIF89a"],
  ["a BMP picture", 0, "BM"],
  ["a TIFF picture", 0, "II*\0", "MM\0*"],
  ["a Photoshop picture", 0, "8BPS"],
  ["a WebP picture", 8, "WEBPVP8"],
  ["a WAV recording", 8, "WAVEfmt", "WAVEJUNK", "WAVELIST"],
  ["an AVI film", 8, "AVI LIST"],
  ["an MP3 recording", 0, "ID3", "\xff\xfb", "\xff\xf3", "\xff\xf2"],
  ["an AVIF picture", 4, "ftypavif", "ftypavis"],
  ["a HEIC picture", 4, "ftypheic", "ftypheix", "ftypmif1", "ftyphevc"],
  ["an M4A recording", 4, "ftypM4A"],
  ["an MP4 film", 4, "ftyp"],
  ["an Ogg recording", 0, "OggS"],
  ["a FLAC recording", 0, "fLaC"],
  ["a WebM or Matroska film", 0, "\x1a\x45\xdf\xa3"],
  ["a PDF document", 0, "%PDF-"],
  ["a PostScript document", 0, "%!PS"],
  ["a Word or Excel document of the old kind", 0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"],
  ["an RTF document", 0, "{\\rtf"],
  ["a GGUF model", 0, "GGUF", "FUGG"],
  ["a gzip archive", 0, "\x1f\x8b"],
  ["a Zstandard archive", 0, "\x28\xb5\x2f\xfd"],
  ["an XZ archive", 0, "\xfd7zXZ"],
  ["a bzip2 archive", 0, "BZh91AY", "BZh61AY", "BZh11AY"],
  ["a 7-Zip archive", 0, "7z\xbc\xaf"],
  ["a RAR archive", 0, "Rar!\x1a"],
  ["a tar archive", 257, "ustar"],
  ["a file of NumPy", 0, "\x93NUMPY"],
  ["an HDF5 file", 0, "\x89HDF"],
  ["a Parquet file", 0, "PAR1"],
  ["an Arrow file", 0, "ARROW1"],
  ["a database of SQLite", 0, "SQLite format 3"],
  ["a program", 0, "\x7fELF", "MZ", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"],
  ["a WebAssembly module", 0, "\0asm"],
  ["a font", 0, "wOFF", "wOF2", "OTTO", "\0\x01\0\0"],
  ["a pickle of Python", 0, "\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"],
]);
/** What a zip is, by names of its members. */
const ZIPS = /** @type {[words: string, sign: string][]} */ ([
  ["a Word document", "word/"],
  ["an Excel sheet", "xl/"],
  ["a PowerPoint presentation", "ppt/"],
  ["an OpenDocument file", "mimetypeapplication/vnd.oasis"],
  ["an EPUB book", "mimetypeapplication/epub"],
  ["a file of PyTorch", "/data.pkl"],
  ["a file of NumPy", ".npyP"],
]);
export const HEAD = 1 << 16; // bytes by which a file is known
const PICTURE = /picture$/;
const DOCUMENT = /PDF|PostScript|RTF/;

/** The first bytes of a file. Throws an error in words for an empty file, a folder, or a file that
 *  is gone. @param {Blob & { name?: string }} file @param {number} [count] */
export async function headOf(file, count = HEAD) {
  const name = file.name ?? "The file";
  try {
    const bytes = new Uint8Array(await file.slice(0, count).arrayBuffer());
    if (bytes.length) return bytes;
  } catch {
    throw refused(`${name} cannot be read: it is a folder, or it was moved or changed since.`);
  }
  throw refused(`${name} is empty.`);
}

/** A file's kind in words, such as "a PNG picture"; "" if its first bytes tell none.
 *  @param {Uint8Array} head */
export function kindOf(head) {
  const text = new TextDecoder("latin1").decode(head.subarray(0, HEAD));
  if (text.startsWith("PK\x03\x04") || text.startsWith("PK\x05\x06")) {
    return ZIPS.find(([, sign]) => text.includes(sign))?.[0] ?? "a zip archive";
  }
  if (/^.{8}\{"/s.test(text) && head[7] === 0) {
    return "a file of weights (safetensors)";
  }
  for (const [words, at, ...signs] of SIGNS) {
    // Windows-1252, as which "latin1" is read, has other characters for some bytes.
    const found = signs.some((sign) =>
      [...sign].every((letter, i) => head[at + i] === letter.charCodeAt(0)),
    );
    // A text may begin with the letters of a sign, but these documents are texts themselves.
    if (found && (DOCUMENT.test(words) || !readable(head))) return words;
  }
  return "";
}

/** Whether bytes have no zeros and no controls but those of texts. @param {Uint8Array} head */
export const readable = (head) =>
  !head.some((byte) => byte < 32 && ![7, 8, 9, 10, 11, 12, 13, 26, 27].includes(byte));

/** @param {Uint8Array} head */
export const isPicture = (head) => PICTURE.test(kindOf(head));

/** An error in words. @param {string} message @param {string} [hint] */
export const refused = (message, hint = "") => Object.assign(new Error(message), { hint });

/** @param {Blob & { name?: string }} file @param {string} kind  of `kindOf`
 *  @param {string} asked  such as "text" */
export const unlike = (file, kind, asked) =>
  `${file.name ?? "The file"} (${size(file.size)}) is ` +
  (kind ? `${kind}, not ${/^[aeiou]/i.test(asked) ? "an" : "a"} ${asked}.` : `no ${asked}.`);
