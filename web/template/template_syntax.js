/** Rewrites the syntax of jinja2 that the parser of `@huggingface/jinja` does not support: raw
 * blocks, {%+ and +%}, tests with arguments, {% with %}, chains of filters, bare tuples.
 *
 * Inserted names contain blanks, so no template can write them.
 */

/** @typedef {import("./template_lines.js").Token} Token */
/** @typedef {import("./template.js").Library} Library */
/** @typedef {import("./template_render.js").Node} Node */

/** The name of the filter statement that replaces {% with %}. It changes nothing. */
export const WITH = "with ";
/** The name of the function that makes () and the tuples that end in a comma. */
export const TUPLE = "tuple ";

const OPENS = new Set(["OpenParen", "OpenSquareBracket", "OpenCurlyBracket"]);
const CLOSES = new Set(["CloseParen", "CloseSquareBracket", "CloseCurlyBracket"]);
const ENDS = new Set(["CloseStatement", "CloseExpression"]);
const VALUES = new Set(["Identifier", "StringLiteral", "NumericLiteral"]);
const KEYWORDS = new Set(["and", "or", "not", "in", "is", "if", "else", "elif", "recursive"]);

/** The deepest nesting of tests in the arguments of tests. */
const DEPTH = 50;

const RAW = /\{%([-+]?)(\s*)raw(\s*)(-?)%\}([^]*?)\{%([-+]?)(\s*)endraw(\s*)([-+]?)%\}/;
/** Comments, which match first and stay, and the syntax that is replaced. */
const SPECIAL = new RegExp(`\\{#[^]*?#\\}|${RAW.source}|\\{%\\+|\\+%\\}`, "g");

/**
 * A source without raw blocks, {%+ and +%}, with the same lines, and a function that restores the
 * original characters in a text made of it.
 * @param {string} source @returns {{ source: string, restore: (text: string) => string }}
 */
export function prepare(source) {
  if (!/\{%\+|\+%\}|\braw\b/.test(source)) return { source, restore: (text) => text };
  /** @type {string[]} */
  const unused = [];
  for (let code = 0xe000; unused.length < 3; code++) {
    const char = String.fromCharCode(code);
    if (!source.includes(char)) unused.push(char);
  }
  const [nothing, open, close] = unused;
  const start = (/** @type {string} */ sign) => (sign === "+" ? `${nothing}{%` : `{%${sign}`);
  const end = (/** @type {string} */ sign) => (sign === "-" ? "-%}" : `%}${nothing}`);
  const prepared = source.replace(SPECIAL, (all, s1, b1, b2, s2, body, s3, b3, b4, s4) => {
    if (all === "{%+") return start("+");
    if (all === "+%}") return end("+");
    if (body === undefined) return all;
    const hidden = body.replaceAll("{", open).replaceAll("}", close);
    const last = s4 === "+" ? end("+") : `${s4}%}`;
    return `${start(s1)}${b1}if true${b2}${end(s2)}${hidden}${start(s3)}${b3}endif${b4}${last}`;
  });
  return {
    source: prepared,
    restore: (text) =>
      text.replaceAll(nothing, "").replaceAll(open, "{").replaceAll(close, "}"),
  };
}

/** @param {Token | undefined} token @param {string} name */
const named = (token, name) => token?.type === "Identifier" && token.value === name;

/**
 * The index after the bracket that closes the one at `at`.
 * @param {Token[]} tokens @param {number} at
 */
function after(tokens, at) {
  let depth = 0;
  for (let i = at; i < tokens.length; i++) {
    if (OPENS.has(tokens[i].type)) depth++;
    else if (CLOSES.has(tokens[i].type) && --depth === 0) return i + 1;
  }
  return tokens.length;
}

/**
 * The places outside of brackets where `fits` holds.
 * @param {Token[]} tokens @param {(token: Token) => boolean} fits
 */
function outside(tokens, fits) {
  const found = [];
  for (let i = 0; i < tokens.length; i = OPENS.has(tokens[i].type) ? after(tokens, i) : i + 1) {
    if (fits(tokens[i])) found.push(i);
  }
  return found;
}

/** @param {Token} token */
const comma = (token) => token.type === "Comma";

/** @param {Token[]} tokens @param {number[]} places */
function parts(tokens, places) {
  return [...places, tokens.length].map((to, i) => tokens.slice(i ? places[i - 1] + 1 : 0, to));
}

/** The opening brackets of () and of tuples that end in a comma. @param {Token[]} tokens */
function bareTuples(tokens) {
  /** @type {Set<number>} */
  const found = new Set();
  /** @type {number[]} */
  const open = [];
  tokens.forEach((token, i) => {
    if (OPENS.has(token.type)) open.push(i);
    if (!CLOSES.has(token.type)) return;
    const start = open.pop();
    if (start !== undefined && (start === i - 1 || comma(tokens[i - 1]))) found.add(start);
  });
  return found;
}

/** Rewrites the tokens of one template. */
export class Syntax {
  /**
   * The arguments of tests, by the number in the test's new name.
   * @type {Token[][]}
   */
  args = [];
  /** The number of filters of each open filter block. @type {number[]} */
  filters = [];
  line = 1;
  depth = 0;

  /** @param {string} type @param {string} value @returns {Token} */
  token(type, value) {
    return { type, value, line: this.line };
  }

  /** @param {Token[]} inner */
  statement(...inner) {
    return [this.token("OpenStatement", "{%"), ...inner, this.token("CloseStatement", "%}")];
  }

  /** @param {Token[]} tokens @returns {Token[]} */
  rewrite(tokens) {
    /** @type {Token[]} */
    const out = [];
    for (let i = 0; i < tokens.length; ) {
      const opens = tokens[i].type === "OpenStatement" || tokens[i].type === "OpenExpression";
      let end = i;
      if (opens) while (end < tokens.length && !ENDS.has(tokens[end].type)) end++;
      if (!opens || end >= tokens.length) {
        out.push(tokens[i++]);
        continue;
      }
      this.line = tokens[i].line ?? this.line;
      const inner = tokens.slice(i + 1, end);
      const own = [tokens[i], tokens[end]];
      if (tokens[i].type === "OpenStatement") out.push(...this.tag(inner, own));
      else out.push(own[0], ...this.tuple(this.expression(inner)), own[1]);
      i = end + 1;
    }
    return out;
  }

  /** @param {Token[]} inner  of a statement @param {Token[]} own  its tags @returns {Token[]} */
  tag([keyword, ...rest], own) {
    if (!keyword) return own;
    /** @param {Token[]} tokens */
    const wrapped = (...tokens) => [own[0], keyword, ...tokens, own[1]];
    const name = keyword.type === "Identifier" ? keyword.value : "";
    if (name === "for") {
      const [at = rest.length] = outside(rest, (token) => named(token, "in"));
      const left = rest.slice(at + 1);
      const [to = left.length] = outside(left, (t) => named(t, "if") || named(t, "recursive"));
      const source = this.tuple(this.expression(left.slice(0, to)));
      return wrapped(...rest.slice(0, at + 1), ...source, ...this.expression(left.slice(to)));
    }
    if (name === "with") {
      const pairs = rest.length ? parts(rest, outside(rest, comma)) : [];
      const halves = pairs.map((pair) => parts(pair, outside(pair, (t) => t.type === "Equals")));
      if (halves.some((half) => half.length !== 2)) {
        throw new SyntaxError("with needs name = value");
      }
      const [names, values] = [0, 1].map((side) =>
        halves.flatMap((half, i) => [...(i ? [this.token("Comma", ",")] : []), ...half[side]]),
      );
      const set = [this.token("Identifier", "set"), ...names, this.token("Equals", "=")];
      return [
        ...this.statement(this.token("Identifier", "filter"), this.token("Identifier", WITH)),
        ...(pairs.length ? this.statement(...set, ...this.expression(values)) : []),
      ];
    }
    if (name === "endwith") return this.statement(this.token("Identifier", "endfilter"));
    if (name === "filter") {
      const chain = parts(rest, outside(rest, (token) => token.type === "Pipe"));
      this.filters.push(chain.length);
      return chain.reverse().flatMap((one) => this.statement(keyword, ...this.expression(one)));
    }
    if (name === "endfilter") {
      return Array(this.filters.pop() ?? 1).fill(wrapped(...rest)).flat();
    }
    if (name === "set" && rest.at(-1)?.type === "Comma") {
      const [at = rest.length] = outside(rest, (token) => token.type === "Equals");
      return wrapped(...rest.slice(0, at + 1), ...this.tuple(this.expression(rest.slice(at + 1))));
    }
    return wrapped(...this.expression(rest));
  }

  /** The tokens, in parentheses if they are a bare tuple. @param {Token[]} tokens */
  tuple(tokens) {
    if (!outside(tokens, comma).length) return tokens;
    const last = tokens.at(-1)?.type === "Comma";
    return [
      ...(last ? [this.token("Identifier", TUPLE)] : []),
      this.token("OpenParen", "("),
      ...(last ? tokens.slice(0, -1) : tokens),
      this.token("CloseParen", ")"),
    ];
  }

  /** @param {Token[]} tokens @returns {Token[]} */
  expression(tokens) {
    /** @type {Token[]} */
    const out = [];
    /** Whether a comparison is open, for each depth of brackets. */
    const compared = [false];
    const bare = bareTuples(tokens);
    for (let i = 0; i < tokens.length; i++) {
      const token = tokens[i];
      const before = tokens[i - 1];
      const attribute = before?.type === "Dot";
      if (named(token, "is") && !attribute) {
        const at = named(tokens[i + 1], "not") ? i + 2 : i + 1;
        const [to, args] = this.arguments(tokens, at + 1);
        out.push(...tokens.slice(i, at));
        if (args) {
          if (++this.depth > DEPTH) throw new RangeError("it nests too deeply");
          const id = this.args.push(this.expression(args)) - 1;
          this.depth--;
          out.push({ ...tokens[at], value: `${tokens[at].value} ${id}` });
        } else if (tokens[at]) {
          out.push(tokens[at]);
        }
        i = to - 1;
        continue;
      }
      const called =
        before &&
        (CLOSES.has(before.type) ||
          (VALUES.has(before.type) && (attribute || !KEYWORDS.has(before.value))));
      if (token.type === "OpenParen" && !called && bare.has(i)) {
        out.push(this.token("Identifier", TUPLE));
      }
      // The parser does not accept a comma at the end of a call's arguments.
      if (token.type === "Comma" && tokens[i + 1]?.type === "CloseParen") continue;
      if (OPENS.has(token.type)) compared.push(false);
      else if (CLOSES.has(token.type)) compared.pop();
      const isIn = named(token, "in") && !attribute;
      const last = compared.length - 1;
      if (token.type === "ComparisonBinaryOperator" || isIn) {
        if (compared[last]) throw new SyntaxError("a comparison has two sides here; use and");
        compared[last] = true;
      } else if (
        ["Comma", "Colon", "Equals"].includes(token.type) ||
        (token.type === "Identifier" &&
          !attribute &&
          (["and", "or", "if", "else"].includes(token.value) ||
            (token.value === "not" && !named(tokens[i + 1], "in"))))
      ) {
        compared[last] = false;
      }
      out.push(token);
    }
    return out;
  }

  /**
   * The end of a test's arguments, and their tokens, or null if it has none.
   * @param {Token[]} tokens @param {number} at @returns {[number, Token[] | null]}
   */
  arguments(tokens, at) {
    const first = tokens[at];
    if (!first) return [at, null];
    if (first.type === "OpenParen") {
      const to = after(tokens, at);
      return [to, tokens.slice(at + 1, to - 1)];
    }
    if (named(first, "is")) throw new SyntaxError("You cannot chain multiple tests with is");
    const value = VALUES.has(first.type) || OPENS.has(first.type);
    if (!value || (first.type === "Identifier" && KEYWORDS.has(first.value))) return [at, null];
    let to = OPENS.has(first.type) ? after(tokens, at) : at + 1;
    while (to < tokens.length) {
      if (tokens[to].type === "Dot") to += 2;
      else if (["OpenSquareBracket", "OpenParen"].includes(tokens[to].type)) to = after(tokens, to);
      else break;
    }
    return [to, tokens.slice(at, to)];
  }

  /** The tokens of a call with the arguments of a test. @param {Token[]} args */
  call(args) {
    const [open, name] = [this.token("OpenExpression", "{{"), this.token("Identifier", "test")];
    const [left, right] = [this.token("OpenParen", "("), this.token("CloseParen", ")")];
    return [open, name, left, ...args, right, this.token("CloseExpression", "}}")];
  }
}
