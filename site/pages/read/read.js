// read.js: the read page: the words of a picture or of a page of a PDF, over it and as a text.

import { byId, duration, pick, save, turns } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { rushlight } from "../shared/model.js";
import { hideError, phase, showError } from "../shared/status.js";
import { watch } from "../shared/timing.js";
import { shutter } from "../shared/opening/camera.js";
import { openable } from "../shared/opening/dropping.js";
import { sizeOf } from "../shared/opening/picture.js";
import { find, lay } from "./overlay.js";
import { note, sheetsOf } from "./sheets.js";

/** @typedef {import("./overlay.js").Page} Page */
/** @typedef {import("./sheets.js").Sheets} Sheets */

const SAVES = ["copy", "as-text", "as-hocr", "as-pdf"];
const NONE = "No text was found in this picture.";
const picture = pick("picture", HTMLCanvasElement);
const words = byId("words");
const video = pick("video", HTMLVideoElement);
const query = pick("query", HTMLInputElement);

/** @type {Sheets | null} */
let sheets = null;
let number = 0; // of the page that is shown
/** @type {ImageData | null} */
let image = null;
/** What the page says, once it is read. @type {Page | null} */
let page = null;
const turn = turns();
const { press } = shutter(video, show, (seen) => take(alone("photograph", seen)));

/** @param {string} name @param {ImageData} pixels @returns {Sheets} */
const alone = (name, pixels) => ({ name, count: 1, at: async () => pixels });

/** The name of a file to save. @param {string} suffix */
const named = (suffix) => `${(sheets?.name ?? "page").replace(/\.\w+$/, "")}${suffix}`;

// --- what is shown -------------------------------------------------------------------------------

function show() {
  byId("empty").hidden = image !== null || !video.hidden;
  byId("leaf").hidden = !sheets || sheets.count < 2;
  byId("number").textContent = `Page ${number + 1} of ${sheets?.count ?? 1}`;
  pick("before", HTMLButtonElement).disabled = number === 0;
  pick("after", HTMLButtonElement).disabled = number + 1 >= (sheets?.count ?? 1);
  for (const id of SAVES) pick(id, HTMLButtonElement).disabled = !page?.lines.length;
  if (image) {
    [picture.width, picture.height] = [image.width, image.height];
    picture.getContext("2d")?.putImageData(image, 0, 0);
  }
  lay(words, page);
  const text = byId("text");
  text.textContent = page ? page.text || NONE : "What is read stands here.";
  text.classList.toggle("found", Boolean(page?.text));
  scale();
  search();
}

/** The words have the picture's pixels, and as many as it is shown with. */
function scale() {
  words.style.transform = `scale(${picture.clientWidth / picture.width})`;
}

function search() {
  const count = find(words, query.value);
  byId("hits").textContent = query.value.trim() ? `${count} found` : "";
}

// --- opening -------------------------------------------------------------------------------------

/** Shows the first page of what was opened. @param {Sheets} found */
async function take(found) {
  [sheets, number] = [found, 0];
  await leaf(0);
}

/** Shows another page. @param {number} by */
async function leaf(by) {
  if (!sheets) return;
  const last = turn();
  hideError();
  await job.stop();
  const wanted = Math.min(sheets.count - 1, Math.max(0, number + by));
  try {
    const pixels = await sheets.at(wanted);
    if (!last()) return;
    [number, image, page] = [wanted, pixels, null];
    byId("tells").textContent = sizeOf(pixels);
    show();
    if (job.model) void read();
  } catch (error) {
    if (last()) showError(error, () => leaf(by));
  }
}

/** @param {File[]} files */
async function open([file]) {
  const last = turn();
  try {
    const found = await sheetsOf(file);
    if (last()) await take(found);
  } catch (error) {
    if (last()) showError(error, () => byId("file").click());
  }
}

// --- the model -----------------------------------------------------------------------------------

function read() {
  if (!image) {
    showError(new Error("There is no picture yet. Open one, or take the sample."), read);
    return Promise.resolve(false);
  }
  const seen = image;
  return job.run(async (signal) => {
    phase("Beginning…", null);
    const model = await job.loaded(signal);
    phase("Reading…", null);
    const began = performance.now();
    await watch(model, async () => {
      const pipe = await model.pipeline("ocr");
      page = /** @type {Page} */ (await pipe(seen, { signal }));
    });
    signal.throwIfAborted();
    byId("status").hidden = true;
    const lines = page?.lines.length ?? 0;
    const spent = duration((performance.now() - began) / 1000);
    const turned = page?.rotation ? `, turned by ${page.rotation}°` : "";
    byId("tells").textContent = `${sizeOf(seen)}${turned}: ${lines} lines in ${spent}`;
    byId("said").textContent = lines ? "The page is read." : NONE;
    show();
  }, read);
}

/** The page as hOCR or PDF, made by Python. @param {"hocr" | "pdf"} kind */
async function document_(kind) {
  if (!page) return;
  try {
    const blob = await new Promise((done) => picture.toBlob(done, "image/jpeg", 0.85));
    const jpeg = new Uint8Array(await /** @type {Blob} */ (blob).arrayBuffer());
    const response = await fetch(new URL("./document.py", import.meta.url));
    const python = await rushlight().modules({ document: await response.text() });
    const made = await python.call("document.made", [kind, [page], [jpeg]]);
    save(named(`.${kind === "hocr" ? "hocr.html" : "pdf"}`), TYPES[kind], made);
  } catch (error) {
    showError(error, () => document_(kind));
  }
}

const TYPES = { hocr: "text/html", pdf: "application/pdf" };

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  go: read,
  camera: press,
  sample: () => take(alone("sample", note())),
  before: () => leaf(-1),
  after: () => leaf(1),
  async copy() {
    await navigator.clipboard.writeText(page?.text ?? "");
    byId("said").textContent = "The text is copied.";
  },
  "as-text": () => save(named(".txt"), "text/plain", page?.text ?? ""),
  "as-hocr": () => document_("hocr"),
  "as-pdf": () => document_("pdf"),
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
query.addEventListener("input", search);
new ResizeObserver(scale).observe(picture);
document.addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (files.length) void open(files);
});
const parts = { drop: byId("drop"), button: byId("browse"), input: pick("file", HTMLInputElement) };
openable(parts, open);

job.start({
  busy(on) {
    byId("sheet").setAttribute("aria-busy", String(on));
    pick("go", HTMLButtonElement).disabled = on;
    device.allow(!on);
  },
  loaded(model) {
    if (model && !model.tasks.includes("ocr")) {
      throw new Error(`${model.name} does not read pictures. Choose PP-OCR.`);
    }
  },
});
show();
