// ask.js: the ask page: questions about a picture, and a model's answers as they come.

import { byId, duration, make, pick, turns, work } from "../shared/page.js";
import * as device from "../shared/device.js";
import * as job from "../shared/job.js";
import { hideError, phase, showError } from "../shared/status.js";
import { mark, watch } from "../shared/timing.js";
import { shutter } from "../shared/opening/camera.js";
import { openable } from "../shared/opening/dropping.js";
import { pixelsOf, sample, sizeOf } from "../shared/opening/picture.js";

/** @typedef {import("../rushlight/client.js").Place} Place */
/** @typedef {{ role: "user" | "assistant", content: string }} Said */

const TASK = "image-text-to-text";
const SUGGESTIONS = ["Describe this picture.", "What text is in it?", "How many people are there?"];
const ENDS = {
  eos: "",
  stop: "at the stop text",
  length: "cut at the longest answer",
  repetition: "ended, as it repeated itself",
};

const picture = pick("picture", HTMLCanvasElement);
const question = pick("question", HTMLTextAreaElement);
const video = pick("video", HTMLVideoElement);

/** @type {ImageData | null} */
let image = null;
/** @type {Said[]} */
let said = [];
/** What the last answer points at. @type {Place[]} */
let places = [];
const { press } = shutter(video, show, take);
const turn = turns();

// --- what is shown -------------------------------------------------------------------------------

/** The picture, and what was said about it. */
function show() {
  byId("empty").hidden = image !== null || !video.hidden;
  byId("clear").hidden = said.length === 0;
  work.inProgress = said.length > 0 || question.value.trim() !== "";
  const pen = picture.getContext("2d");
  if (!pen) throw new Error("This browser cannot draw pictures.");
  if (image) {
    [picture.width, picture.height] = [image.width, image.height];
    pen.putImageData(image, 0, 0);
    for (const place of places) drawPlace(pen, place, Math.max(image.width, image.height));
  }
  byId("asked").replaceChildren(...said.map(({ role, content }) => row(role, content)));
}

/** A box with its label, or a point. @param {CanvasRenderingContext2D} pen @param {Place} place
 *  @param {number} side  the longer one of the picture */
function drawPlace(pen, { label, box, point }, side) {
  const thick = Math.max(2, side / 250);
  pen.lineWidth = thick;
  pen.strokeStyle = pen.fillStyle = "#e2571e";
  pen.font = `${Math.round(thick * 8)}px sans-serif`;
  if (box) {
    pen.strokeRect(box.xmin, box.ymin, box.xmax - box.xmin, box.ymax - box.ymin);
    pen.fillText(label, box.xmin + thick, Math.max(box.ymin - thick, thick * 8));
  } else if (point) {
    pen.beginPath();
    pen.arc(point.x, point.y, 3 * thick, 0, 2 * Math.PI);
    pen.fill();
    pen.fillText(label, point.x + 4 * thick, point.y);
  }
}

/** A question or an answer. @param {Said["role"]} role @param {string} content */
function row(role, content) {
  const from = role === "user" ? "words from-visitor" : "words";
  return make("li", {}, make("p", { class: from }, content));
}

/** Shows another picture. @param {ImageData} pixels */
async function take(pixels) {
  turn();
  hideError();
  await job.stop();
  [image, said, places] = [pixels, [], []];
  byId("speed").textContent = "";
  byId("tells").textContent = sizeOf(pixels);
  show();
  question.focus();
}

/** @param {File[]} files */
async function open([file]) {
  const last = turn();
  try {
    const pixels = await pixelsOf(file);
    if (last()) await take(pixels);
  } catch (error) {
    if (last()) showError(error, () => byId("file").click());
  }
}

// --- asking --------------------------------------------------------------------------------------

/** The messages of a model: the picture is in the first question. @param {ImageData} pixels */
function messages(pixels) {
  return said.map(({ role, content }, i) =>
    i ? { role, content } : { role, content: [{ type: "image", image: pixels }, words(content)] },
  );
}

/** @param {string} text */
const words = (text) => ({ type: "text", text });

/** Asks the question in the field, or the last one again. */
function ask() {
  const text = question.value.trim() || said.findLast(({ role }) => role === "user")?.content || "";
  if (!image) {
    showError(new Error("There is no picture yet. Open one, or take the sample."), ask);
    return Promise.resolve(false);
  }
  if (!text) {
    showError(new Error("There is no question yet. Write one."), ask);
    return Promise.resolve(false);
  }
  const seen = image;
  if (said.at(-1)?.role === "user") said.pop(); // it was not answered
  said.push({ role: "user", content: text });
  question.value = "";
  places = [];
  show();
  return job.run(async (signal) => {
    phase("Beginning…", null);
    const model = await job.loaded(signal);
    const began = performance.now();
    const place = row("assistant", "");
    const body = /** @type {HTMLElement} */ (place.firstElementChild);
    const speed = byId("speed");
    let answer = "";
    phase("Looking at the picture…", null);
    await watch(model, async () => {
      const pipe = await model.pipeline(TASK);
      const pieces = pipe.stream(messages(seen), {
        signal,
        maxNewTokens: Math.max(1, Number(pick("longest", HTMLInputElement).value) || 128),
        onProgress: (/** @type {{ done: number, total: number }} */ { done, total }) => {
          phase(`Reading the picture and the question: ${done} of ${total} tokens`, done / total);
        },
        onToken: mark,
        onDone: (/** @type {import("../rushlight/client.js").PictureStats} */ stats) => {
          const { promptTokens, generatedTokens, stopped } = stats;
          places = stats.places;
          const spent = duration((performance.now() - began) / 1000);
          const parts = [`${promptTokens} tokens read`, `${generatedTokens} written`, spent];
          speed.textContent = [...parts, ENDS[stopped]].filter(Boolean).join(" · ");
        },
      });
      for await (const piece of pieces) {
        if (!answer) byId("asked").append(place);
        answer += piece;
        body.textContent = answer;
      }
    });
    said.push({ role: "assistant", content: answer || "(no words)" });
    byId("status").hidden = true;
    byId("said").textContent = "The answer is complete.";
    show();
  }, ask);
}

// --- wiring --------------------------------------------------------------------------------------

const clicks = {
  camera: press,
  sample: () => take(sample()),
  async clear() {
    await job.stop();
    [said, places] = [[], []];
    show();
  },
};
for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", () => act());
for (const text of SUGGESTIONS) {
  const button = make("button", { type: "button", class: "small" }, text);
  button.addEventListener("click", () => {
    question.value = text;
    void ask();
  });
  byId("suggestions").append(button);
}
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  void ask();
});
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  void ask();
});
question.addEventListener("input", () => {
  work.inProgress = said.length > 0 || question.value.trim() !== "";
});
addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (files.length === 0) return;
  event.preventDefault();
  void open(files);
});
const parts = { drop: byId("drop"), button: byId("browse"), input: pick("file", HTMLInputElement) };
openable(parts, open);

job.start({
  busy(on) {
    byId("asked").setAttribute("aria-busy", String(on));
    pick("go", HTMLButtonElement).disabled = on;
    device.allow(!on);
  },
  loaded(model) {
    if (model && !model.tasks.includes(TASK)) {
      const error = new Error(`${model.name} is a ${model.modelType} model: it does not see.`);
      throw Object.assign(error, { hint: "Choose a model that sees, such as Qwen2-VL." });
    }
  },
});
show();
