// sheets.js: the pages that a visitor opens: a picture is one, a PDF has several.

import { headOf } from "../shared/opening/kinds.js";
import { bitmapOf, drawn } from "../shared/opening/picture.js";

/** @typedef {{ name: string, count: number, at: (page: number) => Promise<ImageData> }} Sheets */

const MOST = 4096; // pixels on a side
const SCALE = 200 / 72; // of a page of a PDF: 200 pixels an inch

/** The pages of a picture or a PDF. Throws an error in words for another file.
 *  @param {File} file @returns {Promise<Sheets>} */
export async function sheetsOf(file) {
  const head = await headOf(file, 1024);
  if (new TextDecoder("latin1").decode(head).includes("%PDF-")) return pdfOf(file);
  const bitmap = await bitmapOf(file);
  const pixels = drawn(bitmap, bitmap.width, bitmap.height, MOST);
  bitmap.close();
  return { name: file.name, count: 1, at: async () => pixels };
}

/** @param {File} file @returns {Promise<Sheets>} */
async function pdfOf(file) {
  /** @type {any} */
  const pdfjs = await import(new URL("../shared/pdf.js", import.meta.url).href);
  pdfjs.GlobalWorkerOptions.workerSrc = new URL("../shared/pdf-worker.js", import.meta.url).href;
  let opened;
  try {
    opened = await pdfjs.getDocument({ data: await file.arrayBuffer() }).promise;
  } catch (error) {
    const why = /** @type {Error} */ (error).message;
    throw Object.assign(new Error(`${file.name} is a PDF that cannot be read: ${why}`), {
      hint: "Open a PDF without a password, or a picture of the page.",
    });
  }
  return {
    name: file.name,
    count: opened.numPages,
    async at(number) {
      const page = await opened.getPage(number + 1);
      const plain = page.getViewport({ scale: 1 });
      const scale = Math.min(SCALE, MOST / Math.max(plain.width, plain.height));
      const viewport = page.getViewport({ scale });
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(1, Math.round(viewport.width));
      canvas.height = Math.max(1, Math.round(viewport.height));
      await page.render({ canvas, viewport, background: "white" }).promise;
      return drawn(canvas, canvas.width, canvas.height, MOST);
    },
  };
}

const NOTE = [
  "Lantern & Sons, chandlers",
  "Invoice 1042, 3 March",
  "12 beeswax candles    18.00",
  "Cotton wick, 5 m    4.50",
  "Lamp oil, one litre    7.25",
  "To pay    29.75",
  "We thank you for your custom.",
];

/** A note that the page writes by itself. @returns {ImageData} */
export function note() {
  const canvas = new OffscreenCanvas(820, 560);
  const pen = canvas.getContext("2d");
  if (!pen) throw new Error("This browser cannot draw pictures.");
  pen.fillStyle = "#efe7d6";
  pen.fillRect(0, 0, 820, 560);
  pen.translate(40, 30);
  pen.rotate(0.03);
  pen.fillStyle = "#fffdf7";
  pen.fillRect(0, 0, 740, 490);
  pen.fillStyle = "#2b2730";
  NOTE.forEach((line, row) => {
    const [what, price] = line.split("    ");
    pen.font = `${row ? 28 : 36}px Georgia, "DejaVu Serif", serif`;
    pen.fillText(what, 40, 70 + row * 62);
    if (price) pen.fillText(price, 600, 70 + row * 62);
  });
  return pen.getImageData(0, 0, 820, 560);
}
