// share.js: a program in the fragment of an address, which no server sees.

const MOST = 200_000; // characters of a program
const KEY = "code=";

/** The bytes that a stream gives, up to a limit; null beyond it.
 *  @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream @param {number} most */
async function gathered(stream, most) {
  const parts = [];
  let count = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    count += value.length;
    if (count > most) {
      await reader.cancel();
      return null;
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** The fragment that holds a program; null for one that is too long. @param {string} code */
export async function toFragment(code) {
  if (code.length > MOST) return null;
  const packed = new Blob([code]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = await gathered(packed, 4 * MOST);
  const text = [...(bytes ?? [])].map((byte) => String.fromCharCode(byte)).join("");
  return `#${KEY}${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** The program in a fragment; null if there is none, or it is damaged. @param {string} fragment */
export async function fromFragment(fragment) {
  const packed = fragment.replace(/^#/, "");
  if (!packed.startsWith(KEY)) return null;
  try {
    const text = atob(packed.slice(KEY.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const found = await gathered(stream, 4 * MOST); // UTF-8 has up to four bytes a character
    return found && new TextDecoder("utf-8", { fatal: true }).decode(found);
  } catch {
    return null;
  }
}
