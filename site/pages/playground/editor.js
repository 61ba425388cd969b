// editor.js: the editor of the playground: CodeMirror 6 with Python, the site's colours, and marks.

import { autocompletion, completionKeymap } from "../shared/codemirror-autocomplete.js";
import {
  defaultKeymap, history, historyKeymap, indentWithTab,
} from "../shared/codemirror-commands.js"; // prettier-ignore
import { python } from "../shared/codemirror-lang-python.js";
import {
  HighlightStyle, bracketMatching, indentUnit, syntaxHighlighting,
} from "../shared/codemirror-language.js"; // prettier-ignore
import { lintGutter, setDiagnostics } from "../shared/codemirror-lint.js";
import { EditorState } from "../shared/codemirror-state.js";
import {
  EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers,
} from "../shared/codemirror-view.js"; // prettier-ignore
import { tags } from "../shared/lezer-highlight.js";

const colours = HighlightStyle.define([
  {
    tag: [tags.keyword, tags.operatorKeyword, tags.modifier],
    color: "var(--flame-strong)",
    fontWeight: "600",
  },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--flame-strong)" },
  { tag: tags.comment, color: "var(--ink-faint)", fontStyle: "italic" },
  { tag: [tags.definition(tags.variableName), tags.className], fontWeight: "600" },
]);

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": {
    backgroundColor: "transparent",
    color: "var(--ink-faint)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--flame-wash)" },
  ".cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--mark) !important", // the library's own rule is more specific
  },
  ".cm-tooltip": {
    backgroundColor: "var(--card)",
    color: "var(--ink)",
    border: "1px solid var(--line-strong)",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--flame)",
    color: "var(--on-flame)",
  },
});

/**
 * An editor in `parent`. `complete` gives the names that fit at a position; `run` is called by
 * Ctrl-Enter, `changed` after each change.
 * @param {HTMLElement} parent
 * @param {{ complete: (code: string, position: number) => Promise<any>, run: () => void,
 *   changed: () => void }} page
 */
export function makeEditor(parent, { complete, run, changed }) {
  /** @param {any} context */
  const source = async (context) => {
    const word = context.matchBefore(/[A-Za-z_][\w.]*/);
    if (!word && !context.explicit) return null;
    const found = await complete(context.state.doc.toString(), context.pos);
    if (context.aborted || !found?.options.length) return null;
    const options = found.options.map((/** @type {any} */ { label, type, info }) => ({
      label,
      type,
      info: info || undefined,
    }));
    return { from: found.from, options, validFor: /^\w*$/ };
  };
  const view = new EditorView({
    parent,
    state: EditorState.create({
      extensions: [
        lineNumbers(), history(), drawSelection(), highlightActiveLine(), bracketMatching(),
        indentUnit.of("    "), python(), syntaxHighlighting(colours), lintGutter(), look,
        autocompletion({ override: [source] }),
        keymap.of([
          { key: "Mod-Enter", preventDefault: true, run: () => (run(), true) },
          ...completionKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab,
        ]),
        EditorView.contentAttributes.of({ id: "program", "aria-label": "The program" }),
        EditorView.updateListener.of((/** @type {any} */ update) => update.docChanged && changed()),
      ],
    }), // prettier-ignore
  });
  view.scrollDOM.tabIndex = 0; // on a phone a long program is scrolled by keys, too
  return {
    text: () => view.state.doc.toString(),
    /** @param {string} text */
    set(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      this.mark(0, "");
    },
    /** Marks a line with a message; line 0 takes the mark away.
     *  @param {number} number @param {string} message */
    mark(number, message) {
      const there = number > 0 && number <= view.state.doc.lines;
      const line = there ? view.state.doc.line(number) : null;
      const marks = line ? [{ from: line.from, to: line.to, severity: "error", message }] : [];
      view.dispatch(setDiagnostics(view.state, marks));
      if (line) view.dispatch({ effects: EditorView.scrollIntoView(line.from, { y: "nearest" }) });
    },
  };
}
