// tools.js: what a model may call while it answers: a calculator, a clock, and a search in texts
// that the visitor opens. All of it runs in the page.

import { openable } from "../shared/opening/dropping.js";
import { textOf } from "../shared/opening/text.js";
import { byId, make, pick } from "../shared/page.js";
import { hideError, showError } from "../shared/status.js";

/**
 * @typedef {import("../rushlight/client.js").Tool} Tool
 * @typedef {import("../rushlight/client.js").ToolCall} ToolCall
 * @typedef {{ name: string, arguments: Record<string, unknown>, result: string }} Called
 * @typedef {{ tool: Tool["function"], run: (values: Record<string, unknown>) => Promise<string> }}
 *   Able
 */

export const MOST_ROUNDS = 4; // of calls, before an answer has to come
const MOST_CHARACTERS = 1_000_000; // of a document
const PASSAGE = 600; // characters
const PASSAGES = 3; // that a search gives
const MOST_RESULT = 2000; // characters of a result

/** @param {string} name @param {string} description @param {string} [argument] @param {string} [of]
 *  @returns {Tool["function"]} */
const described = (name, description, argument, of) => ({
  name,
  description,
  parameters: {
    type: "object",
    properties: argument ? { [argument]: { type: "string", description: of } } : {},
    required: argument ? [argument] : [],
  },
});

/** The tools by the names of their fields in the settings. @type {Record<string, Able>} */
const TOOLS = {
  calculator: {
    tool: described(
      "calculator",
      "Computes an arithmetic expression exactly as written.",
      "expression",
      "For example (2 + 3) * sqrt(16) ^ 2",
    ),
    run: async ({ expression }) => {
      const { Parser } = await import("../shared/expr-eval.js");
      return String(new Parser().evaluate(String(expression).replaceAll("**", "^")));
    },
  },
  clock: {
    tool: described("clock", "Tells the present date, time of day and time zone."),
    run: async () => {
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
      const now = new Date();
      const day = now.toLocaleDateString("en", { dateStyle: "full" });
      return `${day}, ${now.toLocaleTimeString("en", { timeStyle: "short" })}, ${timeZone}`;
    },
  },
  documents: {
    tool: described(
      "search_documents",
      "Finds passages in the user's documents.",
      "query",
      "Words that the passage has",
    ),
    run: async ({ query }) => {
      const index = await indexed();
      const rows = index.search(String(query), { prefix: true, fuzzy: 0.2 }).slice(0, PASSAGES);
      return rows.map(({ name, text }) => `${name}: ${text}`).join("\n\n") || "Nothing fits.";
    },
  },
};

/** The opened documents by their names. @type {Map<string, string>} */
const documents = new Map();
/** @type {Promise<import("../shared/minisearch.js").default> | undefined} */
let index;

/** The index of all passages, made when it is first asked. */
const indexed = () => (index ??= makeIndex());

async function makeIndex() {
  const { default: MiniSearch } = await import("../shared/minisearch.js");
  const made = new MiniSearch({ fields: ["name", "text"], storeFields: ["name", "text"] });
  const rows = [...documents].flatMap(([name, all]) =>
    passages(all).map((text) => ({ name, text })),
  );
  made.addAll(rows.map((row, id) => ({ id, ...row })));
  return made;
}

/** A text in parts of some hundred characters, cut where lines or sentences end.
 *  @param {string} text */
export function passages(text) {
  /** @type {string[]} */
  const parts = [];
  for (const piece of text.split(/(?<=\n)|(?<=[.!?])\s+/)) {
    const last = parts.length - 1;
    if (last >= 0 && parts[last].length + piece.length < PASSAGE) parts[last] += ` ${piece}`;
    else {
      for (let at = 0; at < piece.length; at += PASSAGE) parts.push(piece.slice(at, at + PASSAGE));
    }
  }
  return parts.map((part) => part.trim().replace(/\s+/g, " ")).filter(Boolean);
}

/** @param {string} name */
const field = (name) => pick(`tool-${name}`, HTMLInputElement);

/** The tools that the visitor has switched on, for a model whose template has tools.
 *  @param {import("../rushlight/client.js").Model} model @returns {Tool[]} */
export function chosen({ toolsInTemplate }) {
  if (!toolsInTemplate) return [];
  const names = Object.keys(TOOLS).filter((name) => field(name).checked);
  const able = names.filter((name) => name !== "documents" || documents.size > 0);
  return able.map((name) => ({ type: "function", function: TOOLS[name].tool }));
}

/** The results of calls; what goes wrong is a result in words, so that the model can go on.
 *  @param {ToolCall[]} calls @returns {Promise<Called[]>} */
export async function called(calls) {
  return Promise.all(
    calls.map(async ({ name, arguments: values }) => {
      const able = Object.values(TOOLS).find(({ tool }) => tool.name === name);
      let result;
      try {
        result = able ? await able.run(values ?? {}) : `There is no tool ${name}.`;
      } catch (error) {
        result = `Error: ${error instanceof Error ? error.message : error}`;
      }
      return { name, arguments: values ?? {}, result: result.slice(0, MOST_RESULT) };
    }),
  );
}

/** The messages of rounds of calls, as chat templates read them.
 *  @param {Called[]} calls @returns {import("../rushlight/client.js").ChatMessage[]} */
export const asMessages = (calls) =>
  calls.flatMap(({ name, arguments: values, result }) => [
    {
      role: "assistant",
      content: "",
      tool_calls: [{ type: "function", function: { name, arguments: values } }],
    },
    { role: "tool", name, content: result },
  ]);

/** Calls with their results as an element. @param {Called[]} calls */
export const callsOf = (calls) =>
  calls.map(({ name, arguments: values, result }) => {
    const [only] = Object.values(values);
    const summary = make("summary", {}, `${name}${only === undefined ? "" : `: ${only}`}`);
    return make("details", { class: "call" }, summary, make("p", {}, result));
  });

/** Says which documents are open. */
function showDocuments() {
  const names = [...documents.keys()];
  byId("documents").textContent = names.join(", ");
  byId("documents-close").hidden = names.length === 0;
}

/** @param {File[]} files */
async function open(files) {
  hideError();
  for (const file of files) {
    try {
      const { text } = await textOf(file, MOST_CHARACTERS);
      documents.set(file.name, text);
      field("documents").checked = true;
    } catch (error) {
      showError(error, () => byId("documents-open").click());
    }
  }
  index = undefined;
  showDocuments();
}

/** Shows the tools for a model whose template has them.
 *  @param {import("../rushlight/client.js").Model | null} model */
export function offer(model) {
  byId("tools").hidden = !model?.toolsInTemplate;
}

export function start() {
  const button = byId("documents-open");
  openable({ button, input: pick("documents-files", HTMLInputElement) }, open);
  byId("documents-close").addEventListener("click", () => {
    documents.clear();
    index = undefined;
    showDocuments();
  });
}
