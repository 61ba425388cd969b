// settings.js: the settings of answers: the form's values, kept for the next visit.

import { byId, pick } from "../shared/page.js";
import { keepSettings, ofSettings, onChange, settings } from "./store.js";

const form = pick("settings", HTMLFormElement);

/** @param {string} name */
const field = (name) => /** @type {HTMLInputElement} */ (form.elements.namedItem(name));
const names = [...form.elements]
  .map((element) => /** @type {HTMLInputElement} */ (element).name)
  .filter(Boolean);

function show() {
  for (const output of form.querySelectorAll("output")) {
    const input = field(output.dataset.for ?? "");
    output.textContent = Number(input.value).toFixed(2);
  }
}

/** The system prompt, or "" for the model's default. */
export const system = () => field("system").value.trim();

/** What shapes the prompt of a model's chat template.
 *  @param {import("../rushlight/client.js").Model} model
 *  @returns {import("../rushlight/client.js").TemplateOptions} */
export function shape({ thinkingSwitch }) {
  const { value } = field("thinking");
  return thinkingSwitch && value ? { enable_thinking: value === "on" } : {};
}

/** Options that are left out where their field is empty. */
const MORE = [
  "typicalP",
  "topNSigma",
  "xtcProbability",
  "dryMultiplier",
  "frequencyPenalty",
  "presencePenalty",
  "dynatempRange",
  "mirostat",
];

/** The form that an answer has; none for free text. Throws where the text is none.
 *  @returns {import("../rushlight/client.js").ResponseFormat | undefined} */
function formOfAnswer() {
  const text = field("answerForm").value.trim();
  if (!text) return undefined;
  if (/^\/.+\/$/s.test(text)) return { type: "regex", pattern: text.slice(1, -1) };
  try {
    const schema = JSON.parse(text);
    if (typeof schema === "object" && schema) {
      return { type: "json_schema", json_schema: { schema } };
    }
  } catch {
    // Said below.
  }
  const hint = 'Write a JSON Schema, such as {"type": "object"}, or a pattern between slashes.';
  throw Object.assign(new Error("The form of the answer in the settings is no JSON."), { hint });
}

/** The options of an answer. @returns {import("../rushlight/client.js").GenerateOptions} */
export function options() {
  const number = (/** @type {string} */ name) =>
    field(name).value === "" ? undefined : Number(field(name).value);
  const random = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
  const more = Object.fromEntries(MORE.map((name) => [name, number(name)]));
  return {
    ...more,
    responseFormat: formOfAnswer(),
    temperature: number("temperature"),
    topP: number("topP"),
    minP: number("minP"),
    repetitionPenalty: number("repetitionPenalty"),
    topK: number("topK"),
    seed: number("seed") ?? random,
    maxNewTokens: number("maxNewTokens"),
    stop: field("stop").value || undefined,
    overflow: field("overflow").value === "shift" ? "shift" : "error",
  };
}

/** The hint for a full context names the setting, not the option of the call. @param {any} error */
export function inPageWords(error) {
  const { message } = error;
  if (!message?.includes('overflow="shift"')) return error;
  return {
    message: message.replace(/^generate: (.*?);.*$/s, "$1."),
    hint: 'Make it shorter, or let it forget the oldest: see Settings, "When the context is full".',
  };
}

function fill() {
  const kept = settings();
  for (const name of names) if (typeof kept[name] === "string") field(name).value = kept[name];
  show();
}

/** Fills the form with the kept values, and keeps changes. @param {() => void} changed */
export function start(changed) {
  const keep = (/** @type {string[]} */ changedNames) => {
    keepSettings(Object.fromEntries(changedNames.map((name) => [name, field(name).value])));
    show();
    changed();
  };
  form.addEventListener("input", ({ target }) => {
    const { name } = /** @type {HTMLInputElement} */ (target);
    keep(name ? [name] : names);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("defaults").addEventListener("click", () => {
    form.reset();
    keep(names);
  });
  onChange((key) => {
    if (ofSettings(key)) fill();
  });
  fill();
}
