/** Chat templates for the tab, with the bounds and the results of core/io/text/sandbox.py's jinja2.
 *
 * `@huggingface/jinja` splits a template into tokens and parses it. The tree is evaluated here,
 * because the library's evaluator differs from jinja2 (loops share their variables, None prints as
 * nothing, a break drops the loop's text, ...) and does not bound memory or time.
 */

import { annotate, lineOfError } from "./template_lines.js";
import { Render } from "./template_render.js";
import { Break, Continue } from "./template_scope.js";
import { prepare } from "./template_syntax.js";
import { unpack } from "./template_values.js";

/** @typedef {import("./template_values.js").Value} Value */
/** @typedef {import("./template_render.js").Node} Node */
/**
 * The used part of `@huggingface/jinja`.
 * @typedef {object} Library
 * @property {(source: string, options: object) => import("./template_lines.js").Token[]} tokenize
 * @property {(tokens: import("./template_lines.js").Token[]) => Node} parse
 */

const OPTIONS = { trim_blocks: true, lstrip_blocks: true };

/** The message of an error, for people. @param {unknown} error */
function reason(error) {
  if (error instanceof RangeError) return "it nests too deeply";
  return error instanceof Error ? error.message : String(error);
}

/**
 * A template. `error` is set if its source is invalid. `render` takes the variables as
 * core/io/text/template.py packs them, and returns a text or an error, which starts with the line.
 * @param {Library} library @param {string} source
 */
export function createTemplate(library, source) {
  const { source: text, restore } = prepare(source.replace(/\r\n?/g, "\n"));
  /** @type {Node} */
  let program;
  try {
    const tokens = library.tokenize(text, OPTIONS);
    for (const token of tokens) if (token.type === "Text") token.value = restore(token.value);
    program = annotate(library, text, tokens);
  } catch (error) {
    const line = lineOfError(library, text, OPTIONS);
    return { error: `, line ${line}: ${reason(error)}`, render: () => ({}) };
  }
  return {
    error: undefined,
    /** @param {string} packed @returns {{ error?: string, text?: string }} */
    render(packed) {
      const render = new Render();
      try {
        const variables = /** @type {Map<string, Value>} */ (unpack(JSON.parse(packed)));
        return { text: render.run(program, variables) };
      } catch (error) {
        if (error instanceof Break || error instanceof Continue) {
          return { error: `, line ${render.line}: break or continue outside of a loop` };
        }
        return { error: `, line ${render.line}: ${reason(error)}` };
      }
    },
  };
}
