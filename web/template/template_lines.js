/** The line numbers of a chat template's tokens and nodes, which the parser does not record. */

import { Syntax } from "./template_syntax.js";

/** @typedef {import("./template_render.js").Node} Node */
/** @typedef {import("./template.js").Library} Library */
/** @typedef {{ type: string, value: string, line?: number }} Token */

const GENERATION = /\{%[-+]?\s*(?:end)?generation\s*-?%\}/y;
const OPENS = new Set(["OpenStatement", "OpenExpression"]);

/** Give each token inside of tags its line. @param {string} source @param {Token[]} tokens */
function place(source, tokens) {
  let at = 0;
  let counted = 0;
  let line = 1;
  /** @param {number} to */
  const lineAt = (to) => {
    for (; counted < to; counted++) if (source[counted] === "\n") line++;
    return line;
  };
  for (const token of tokens) {
    if (token.type === "Text") continue;
    if (token.type === "Comment") {
      at = Math.max(at, source.indexOf("{#", at));
      at = source.indexOf("#}", at + 2) + 2;
      continue;
    }
    if (OPENS.has(token.type)) {
      for (;;) {
        at = source.indexOf(token.value, at);
        GENERATION.lastIndex = at;
        const skipped = GENERATION.exec(source);
        if (!skipped) break;
        at += skipped[0].length;
      }
    } else if (token.type === "StringLiteral") {
      while (source[at] !== "'" && source[at] !== '"' && at < source.length) at++;
      const start = at;
      for (at++; at < source.length && source[at] !== source[start]; at++) {
        if (source[at] === "\\") at++;
      }
      token.line = lineAt(start);
      at++;
      continue;
    } else {
      const found = source.indexOf(token.value, at);
      if (found >= 0) at = found;
    }
    token.line = lineAt(at);
    at += token.value.length;
  }
}

/**
 * The parts of each kind of node, in the order of the source.
 * @type {Record<string, string[]>}
 */
const PARTS = {
  Program: ["body"],
  If: ["test", "body", "alternate"],
  For: ["loopvar", "iterable", "body", "defaultBlock"],
  Set: ["assignee", "value", "body"],
  Macro: ["name", "args", "body"],
  CallStatement: ["callerArgs", "call", "body"],
  FilterStatement: ["filter", "body"],
  MemberExpression: ["object", "property"],
  CallExpression: ["callee", "args"],
  BinaryExpression: ["left", "right"],
  FilterExpression: ["operand", "filter"],
  SelectExpression: ["lhs", "test"],
  TestExpression: ["operand", "test", "args"],
  UnaryExpression: ["argument"],
  SliceExpression: ["start", "stop", "step"],
  KeywordArgumentExpression: ["key", "value"],
  SpreadExpression: ["argument"],
  KeywordSpreadExpression: ["argument"],
  Ternary: ["trueExpr", "condition", "falseExpr"],
  ArrayLiteral: ["value"],
  TupleLiteral: ["value"],
};
const LEAVES = new Set(["Identifier", "StringLiteral", "IntegerLiteral", "FloatLiteral"]);

/**
 * Parses tokens and sets each node's line, that of its first name or constant.
 * @param {Library} library @param {string} source @param {Token[]} tokens @returns {Node}
 */
export function annotate(library, source, tokens) {
  place(source, tokens);
  const syntax = new Syntax();
  const program = library.parse(syntax.rewrite(tokens));
  const args = syntax.args.map((one) => library.parse(syntax.call(one)).body[0].args);
  let at = 0;
  /** @param {any} node @returns {number | undefined} */
  const visit = (node) => {
    if (!node) return undefined;
    if (Array.isArray(node)) return node.map(visit).find(Boolean);
    if (LEAVES.has(node.type)) {
      const wanted = String(node.value);
      if (node.type === "Identifier" && wanted.includes(" ")) return undefined; // inserted
      const fits = (/** @type {Token} */ token) =>
        node.type === "Identifier" || node.type === "StringLiteral"
          ? wanted.startsWith(token.value) && token.type !== "OpenStatement"
          : Number(token.value) === node.value;
      for (let i = at; i < tokens.length; i++) {
        if (fits(tokens[i]) && (wanted === tokens[i].value || node.type !== "Identifier")) {
          at = i + 1;
          return (node.line = tokens[i].line);
        }
      }
      return undefined;
    }
    if (node.type === "TestExpression") {
      const [name, id] = node.test.value.split(" ");
      Object.assign(node, { test: { ...node.test, value: name }, args: id ? args[id] : [] });
    }
    if (node.type === "ObjectLiteral") {
      const lines = [...node.value].map(([name, item]) => visit(name) ?? visit(item));
      return (node.line = lines.find(Boolean));
    }
    const lines = (PARTS[node.type] ?? []).map((part) => visit(node[part]));
    return (node.line = lines.find(Boolean));
  };
  visit(program);
  return program;
}

/**
 * The line of a syntax error: that of the invalid tag, or of the token where the parser stopped.
 * @param {Library} library @param {string} source @param {object} options
 */
export function lineOfError(library, source, options) {
  const lineAt = (/** @type {number} */ at) => source.slice(0, at).split("\n").length;
  /** @type {Token[]} */
  let tokens;
  try {
    tokens = library.tokenize(source, options);
  } catch {
    const starts = [...source.matchAll(/\{[{%#]/g)].map((match) => match.index);
    for (const [i, start] of starts.entries()) {
      try {
        library.tokenize(source.slice(start, starts[i + 1]), options);
      } catch {
        return lineAt(start);
      }
    }
    return lineAt(source.length);
  }
  place(source, tokens);
  const syntax = new Syntax();
  /** @type {Token[]} */
  let rewritten;
  try {
    rewritten = syntax.rewrite(tokens);
  } catch {
    return syntax.line;
  }
  for (const one of [rewritten, ...syntax.args.map((args) => syntax.call(args))]) {
    let last = 0;
    const watched = new Proxy(one, {
      get(target, name) {
        const at = typeof name === "string" ? Number(name) : NaN;
        if (at < target.length) last = Math.max(last, at);
        return Reflect.get(target, name);
      },
    });
    try {
      library.parse(watched);
    } catch {
      while (last > 0 && !one[last].line) last--;
      return one[last]?.line ?? 1;
    }
  }
  return 1;
}
