// playground.js: the playground: a program is edited, run in the worker, and shown.

import { adapter } from "../rushlight/client.js";
import { byId, duration, make, pick, work } from "../shared/page.js";
import { openPython, pythonKept, pythonWords } from "../shared/runtime/python.js";
import { makeEditor } from "./editor.js";
import { EXAMPLES } from "./examples.js";
import * as output from "./output.js";
import { earlier, keep, own } from "./programs.js";
import { fromFragment, toFragment } from "./share.js";

const examples = pick("examples", HTMLSelectElement);
const { dataset } = document.documentElement;

/** @type {import("../shared/runtime/python.js").Runtime | null} */
let runtime = null;
let running = false;
let round = 0; // the number of programs that have ended

function rushlight() {
  if (!runtime?.alive) runtime = openPython();
  return runtime;
}

const editor = makeEditor(byId("editor"), {
  complete: async (code, position) => {
    if (running) return null; // the worker is busy
    if (!runtime?.started && !(await pythonKept())) return null; // nothing is downloaded unasked
    try {
      return await rushlight().complete(code, position);
    } catch {
      return null;
    }
  },
  run: () => void run(),
  changed: () => {
    work.inProgress = true;
    keep(editor.text());
  },
});

/** @param {boolean} on @param {string} words */
function show(on, words) {
  running = on;
  if (!on) {
    output.draw();
    output.unask();
  }
  byId("run").hidden = on;
  byId("stop").hidden = !on;
  byId("says").textContent = words;
  dataset.state = on ? "busy" : "ready";
  if (!on) dataset.round = String((round += 1));
}

/** @param {import("../rushlight/client.js").PythonOutput} said
 *  @param {(text: string) => void} answer */
function heard(said, answer) {
  if (!running) return;
  if (said.kind !== "input") return output.show(said);
  byId("says").textContent = "The program waits for what you type.";
  output.ask(said.value, (text) => {
    byId("says").textContent = "Running…";
    answer(text);
  });
}

async function run() {
  if (running) return;
  output.clear();
  editor.mark(0, "");
  const place = rushlight();
  show(true, "Starting Python…");
  try {
    await place.ready;
    byId("needs").textContent = "";
    byId("says").textContent = "Running…";
    const began = performance.now();
    const checked = document.querySelector('input[name="device"]:checked');
    const device = /** @type {HTMLInputElement} */ (checked).value === "webgpu" ? "webgpu" : "cpu";
    const error = await place.python(editor.text(), { device, onOutput: heard });
    if (error) {
      output.write(error.text, true);
      editor.mark(error.line, error.text.trim().split("\n").pop() ?? "");
    }
    const took = duration((performance.now() - began) / 1000);
    show(false, `${error ? "It failed" : "Done"} after ${took}.`);
  } catch (error) {
    const { message, hint } = /** @type {any} */ (error);
    const stopped = place !== runtime;
    if (!stopped) output.write(`${message}\n${hint ?? ""}`, true);
    show(false, stopped ? "Stopped; its names are gone." : "It failed.");
  }
}

/** A running program hears nothing: its worker is ended, and the next run starts another. */
function stop() {
  const before = runtime;
  runtime = null;
  before?.close();
}

/** @param {string} name */
async function open(name) {
  if (name.startsWith("own ")) {
    const [code] = earlier().slice(Number(name.slice(4))).map((one) => one.code);
    return void (code && editor.set(code));
  }
  const response = await fetch(new URL(`./examples/${name}.txt`, import.meta.url));
  if (response.ok) editor.set(await response.text());
  else byId("says").textContent = "The example could not be read.";
}

async function share() {
  const fragment = await toFragment(editor.text());
  if (!fragment) {
    byId("says").textContent = "The program is too long for a link.";
    return;
  }
  history.replaceState(history.state, "", fragment);
  try {
    await navigator.clipboard.writeText(location.href);
    byId("says").textContent = "The link is copied.";
  } catch {
    byId("says").textContent = "The address of this page holds the program.";
  }
}

async function begin() {
  examples.append(make("option", { value: "" }, "Examples"));
  for (const [name, title] of EXAMPLES) examples.append(make("option", { value: name }, title));
  const others = earlier();
  const group = make("optgroup", { label: "Programs of yours" });
  group.append(...others.map(({ title }, i) => make("option", { value: `own ${i}` }, title)));
  if (others.length) examples.append(group);
  const given = await fromFragment(location.hash);
  if (given !== null) {
    editor.set(given);
    byId("says").textContent = "A program from a link. Read it before you run it.";
  } else if (location.hash.startsWith("#code=")) {
    byId("says").textContent = "The link holds no program, or it is damaged.";
    await open(EXAMPLES[0][0]);
  } else {
    const before = own();
    if (before?.trim()) editor.set(before);
    else await open(EXAMPLES[0][0]);
  }
  dataset.state = "ready";
  const words = await pythonWords("The first run");
  byId("needs").textContent = words;
  const { name, software } = await adapter();
  const choice = pick("webgpu", HTMLInputElement);
  choice.disabled = name === null;
  if (name !== null && !software) choice.checked = true;
}

byId("run").addEventListener("click", () => void run());
byId("stop").addEventListener("click", stop);
byId("share").addEventListener("click", () => void share());
examples.addEventListener("change", () => {
  if (examples.value) void open(examples.value);
  examples.value = "";
});
addEventListener("hashchange", () => {
  void fromFragment(location.hash).then((code) => code !== null && editor.set(code));
});
void begin();
