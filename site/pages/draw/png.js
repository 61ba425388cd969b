// png.js: PNG files with a picture's settings in their text "parameters", as Python writes them.

const KEY = "parameters";
const BEGIN = 8; // bytes before the first chunk
const HEADER = BEGIN + 25; // and after it

/** @param {Uint8Array} bytes */
function crc(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

/** A PNG of what a canvas shows, with settings. @param {HTMLCanvasElement | OffscreenCanvas} canvas
 *  @param {object} settings @returns {Promise<Blob>} */
export async function encoded(canvas, settings) {
  /** @type {Blob | null} */
  const plain =
    canvas instanceof OffscreenCanvas
      ? await canvas.convertToBlob({ type: "image/png" })
      : await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!plain) throw new Error("This browser cannot write the picture as a PNG.");
  const words = new TextEncoder();
  // A keyword, then no compression, no language, no translated keyword.
  const body = words.encode(`iTXt${KEY}\0\0\0\0\0${JSON.stringify(settings)}`);
  const chunk = new DataView(new ArrayBuffer(body.length + 8));
  chunk.setUint32(0, body.length - 4);
  new Uint8Array(chunk.buffer).set(body, 4);
  chunk.setUint32(body.length + 4, crc(body));
  const parts = [plain.slice(0, HEADER), chunk.buffer, plain.slice(HEADER)];
  return new Blob(parts, { type: "image/png" });
}

/** The settings in a PNG; null where it has none. @param {Blob} file @returns {Promise<any>} */
export async function settingsOf(file) {
  const view = new DataView(await file.arrayBuffer());
  const text = (/** @type {number} */ at, /** @type {number} */ count) =>
    new TextDecoder().decode(new Uint8Array(view.buffer, at, count));
  for (let at = BEGIN; at + 12 <= view.byteLength; at += 12 + view.getUint32(at)) {
    const size = view.getUint32(at);
    const fits = at + 12 + size <= view.byteLength;
    if (!fits || text(at + 4, 4) !== "iTXt") continue;
    const [key, , , , , value] = text(at + 8, size).split("\0");
    if (key !== KEY) continue;
    try {
      return JSON.parse(value);
    } catch {
      return null;
    }
  }
  return null;
}
