/** Evaluates a parsed chat template in the tab, with the results of jinja2. */

import { arithmetic, attribute, item, slice } from "./template_access.js";
import { assign, functions } from "./template_functions.js";
import { filterNamed, tested } from "./template_filters.js";
import { Break, Continue, Scope, constant } from "./template_scope.js";
import { WITH } from "./template_syntax.js";
import {
  Float, Meter, Missing, Namespace, Tuple, compare, contains, equal, fail, integer, isNumber,
  iterate, key, kind, str, toNumber, truth,
} from "./template_values.js"; // prettier-ignore

/** @typedef {import("./template_values.js").Value} Value */
/** @typedef {Map<string, Value>} Named */
/**
 * A node of the parser's tree; `line` is its line in the source.
 * @typedef {{ type: string, line?: number, [part: string]: any }} Node
 */

/** The deepest nesting of macro calls. A worker's stack holds a few times more. */
const DEPTH = 200;
/** One render of a template. */
export class Render {
  meter = new Meter();
  line = 1;
  depth = 0;
  /** The text so far, of the output or of the current captured block. @type {string[]} */
  out = [];

  /** @param {Node} program @param {Map<string, Value>} variables */
  run(program, variables) {
    const scope = new Scope(null);
    for (const [name, made] of Object.entries(functions(this.meter))) scope.names.set(name, made);
    const inner = new Scope(scope);
    for (const [name, value] of variables) inner.names.set(name, value);
    this.block(program.body, inner);
    return this.out.join("");
  }

  /** object[at], for filters. @param {Value} object @param {Value} at */
  item(object, at) {
    return item(this.meter, object, at);
  }

  /** The text that `write` writes. @param {() => void} write */
  capture(write) {
    const before = this.out;
    this.out = [];
    try {
      write();
      return this.out.join("");
    } finally {
      this.out = before;
    }
  }

  /** @param {Node[]} statements @param {Scope} scope */
  block(statements, scope) {
    for (const statement of statements) this.statement(statement, scope);
  }

  /** @param {Node} node @param {Scope} scope */
  statement(node, scope) {
    if (node.line) this.line = node.line;
    switch (node.type) {
      case "Comment":
        return;
      case "If":
        return this.block(truth(this.value(node.test, scope)) ? node.body : node.alternate, scope);
      case "For":
        return this.loop(node, scope);
      case "Set":
        return this.set(node, scope);
      case "Macro":
        scope.names.set(node.name.value, this.macro(node.name.value, node.args, node.body, scope));
        return;
      case "Break":
        throw new Break();
      case "Continue":
        throw new Continue();
      case "CallStatement":
        return this.callBlock(node, scope);
      case "FilterStatement": {
        if (node.filter.value === WITH) return this.block(node.body, new Scope(scope));
        const text = this.capture(() => this.block(node.body, new Scope(scope)));
        return this.write(this.filter(text, node.filter, scope));
      }
      default:
        return this.write(this.value(node, scope));
    }
  }

  /** @param {Value} value */
  write(value) {
    this.meter.weigh(value);
    this.out.push(this.meter.write(str(value)));
  }

  /** @param {Node} node @param {Scope} scope */
  loop(node, scope) {
    const filtered = node.iterable.type === "SelectExpression";
    const source = this.value(filtered ? node.iterable.lhs : node.iterable, scope);
    /** @param {Value} item */
    const bound = (item) => {
      const inner = new Scope(scope);
      this.bind(node.loopvar, item, inner);
      return inner;
    };
    let items = iterate(source);
    if (filtered) {
      items = items.filter((item) => {
        this.meter.charge(1);
        return truth(this.value(node.iterable.test, bound(item)));
      });
    }
    const count = items.length;
    for (let i = 0; i < count; i++) {
      this.meter.charge(1);
      const inner = bound(items[i]);
      /** @type {Map<string, Value>} */
      const loop = new Map();
      const none = () => new Missing("the loop has no such item");
      loop.set("index", i + 1).set("index0", i).set("length", count).set("first", i === 0);
      loop.set("revindex", count - i).set("revindex0", count - i - 1).set("last", i === count - 1);
      loop.set("previtem", i ? items[i - 1] : none());
      loop.set("nextitem", i + 1 < count ? items[i + 1] : none());
      loop.set("depth", 1).set("depth0", 0);
      loop.set("cycle", (/** @type {Value[]} */ args) => args[i % args.length]);
      inner.names.set("loop", loop);
      try {
        this.block(node.body, inner);
      } catch (error) {
        if (error instanceof Break) break;
        if (!(error instanceof Continue)) throw error;
      }
    }
    if (!count) this.block(node.defaultBlock, new Scope(scope));
  }

  /**
   * Binds names to a value or to its parts.
   * @param {Node} target @param {Value} value @param {Scope} scope
   */
  bind(target, value, scope) {
    if (target.type === "Identifier") {
      scope.names.set(target.value, value);
    } else if (target.type === "TupleLiteral") {
      const parts = iterate(value);
      const names = target.value;
      if (parts.length !== names.length) {
        fail(`cannot unpack ${parts.length} values into ${names.length} names`);
      }
      names.forEach((/** @type {Node} */ name, /** @type {number} */ i) =>
        this.bind(name, parts[i], scope),
      );
    } else if (target.type === "MemberExpression") {
      const space = this.value(target.object, scope);
      if (!(space instanceof Namespace)) fail("cannot assign attribute on non-namespace object");
      assign(/** @type {Namespace} */ (space), target.property.value, value);
    } else {
      fail(`cannot assign to ${target.type}`);
    }
  }

  /** @param {Node} node @param {Scope} scope */
  set(node, scope) {
    if (node.value) return this.bind(node.assignee, this.value(node.value, scope), scope);
    /** @type {Value} */
    let value = this.capture(() => this.block(node.body, new Scope(scope)));
    let target = node.assignee;
    const filters = [];
    for (; target.type === "FilterExpression"; target = target.operand) filters.push(target.filter);
    for (const filter of filters.reverse()) value = this.filter(value, filter, scope);
    this.bind(target, value, scope);
  }

  /**
   * A macro, or the body of a call block. Names that it does not bind come from its place of
   * definition.
   * @param {string} name @param {Node[]} parameters @param {Node[]} body @param {Scope} scope
   * @returns {(args: Value[], kwargs: Named) => Value}
   */
  macro(name, parameters, body, scope) {
    const names = parameters.map((one) => (one.type === "Identifier" ? one : one.key).value);
    const source = JSON.stringify(body);
    const used = (/** @type {string} */ special) => source.includes(`"${special}"`);
    return (args, kwargs) => {
      const inner = new Scope(scope);
      const left = new Map(kwargs);
      if (args.length > names.length && !used("varargs")) {
        fail(`macro '${name}' takes not more than ${names.length} argument(s)`);
      }
      const caller = left.get("caller");
      if (caller !== undefined) inner.names.set("caller", caller);
      left.delete("caller");
      names.forEach((own, i) => {
        let value = args[i];
        if (left.has(own)) {
          if (value !== undefined) fail(`macro '${name}' got '${own}' twice`);
          value = /** @type {Value} */ (left.get(own));
          left.delete(own);
        }
        const one = parameters[i];
        if (value === undefined && one.type !== "Identifier") value = this.value(one.value, inner);
        if (value === undefined) value = new Missing(`'${own}' is undefined`);
        inner.names.set(own, value);
      });
      if (left.size && !used("kwargs")) {
        fail(`macro '${name}' takes no keyword argument '${[...left.keys()][0]}'`);
      }
      inner.names.set("varargs", Tuple.from(args.slice(names.length))).set("kwargs", left);
      if (++this.depth > DEPTH) fail("it recurs too deeply");
      const text = this.capture(() => this.block(body, inner));
      this.depth--;
      return text;
    };
  }

  /** @param {Node} node @param {Scope} scope */
  callBlock(node, scope) {
    const caller = this.macro("caller", node.callerArgs ?? [], node.body, scope);
    const called = this.value(node.call.callee, scope);
    const [args, kwargs] = this.arguments(node.call.args, scope);
    kwargs.set("caller", caller);
    this.write(this.call(called, args, kwargs));
  }

  /** @param {Node[]} nodes @param {Scope} scope @returns {[Value[], Named]} */
  arguments(nodes, scope) {
    /** @type {Value[]} */
    const args = [];
    /** @type {Named} */
    const kwargs = new Map();
    for (const node of nodes) {
      if (node.type === "KeywordArgumentExpression") {
        kwargs.set(node.key.value, this.value(node.value, scope));
      } else if (node.type === "SpreadExpression") {
        for (const item of iterate(this.value(node.argument, scope))) args.push(item);
      } else if (node.type === "KeywordSpreadExpression") {
        const more = this.value(node.argument, scope);
        if (!(more instanceof Map)) return fail("the argument after ** must be a dict");
        for (const [name, value] of more) kwargs.set(str(name), value);
      } else {
        args.push(this.value(node, scope));
      }
    }
    return [args, kwargs];
  }

  /** @param {Value} called @param {Value[]} args @param {Named} kwargs @returns {Value} */
  call(called, args, kwargs) {
    this.meter.charge(1);
    if (called instanceof Missing) return fail(called.reason);
    if (typeof called !== "function") return fail(`a ${kind(called)} is not callable`);
    return called(args, kwargs);
  }

  /** @param {Value} value @param {Node} node @param {Scope} scope @returns {Value} */
  filter(value, node, scope) {
    const called = node.type === "CallExpression";
    const [args, kwargs] = called ? this.arguments(node.args, scope) : [[], new Map()];
    return filterNamed((called ? node.callee : node).value)(this, value, args, kwargs);
  }

  /** @param {Node} node @param {Scope} scope @returns {Value} */
  value(node, scope) {
    if (node.line) this.line = node.line;
    switch (node.type) {
      case "StringLiteral":
        return node.value;
      case "IntegerLiteral":
        return integer(node.value);
      case "FloatLiteral":
        return new Float(node.value);
      case "Identifier":
        return constant(node.value, scope);
      case "ArrayLiteral":
        return node.value.map((/** @type {Node} */ one) => this.value(one, scope));
      case "TupleLiteral":
        return Tuple.from(node.value, (/** @type {Node} */ one) => this.value(one, scope));
      case "ObjectLiteral": {
        const made = new Map();
        for (const [name, item] of node.value) {
          const own = key(this.value(name, scope));
          made.set(own, this.value(item, scope));
        }
        return made;
      }
      case "MemberExpression":
        return this.member(node, scope);
      case "CallExpression": {
        const called = this.value(node.callee, scope);
        const [args, kwargs] = this.arguments(node.args, scope);
        return this.call(called, args, kwargs);
      }
      case "FilterExpression":
        return this.filter(this.value(node.operand, scope), node.filter, scope);
      case "TestExpression": {
        const operand = this.value(node.operand, scope);
        const [args, kwargs] = this.arguments(node.args, scope);
        if (kwargs.size) fail("a test takes no keyword arguments");
        const found = tested(this, node.test.value, args)(operand);
        return found !== node.negate;
      }
      case "Ternary":
        return this.value(
          truth(this.value(node.condition, scope)) ? node.trueExpr : node.falseExpr,
          scope,
        );
      case "SelectExpression":
        return truth(this.value(node.test, scope)) ? this.value(node.lhs, scope) : new Missing();
      case "UnaryExpression":
        return this.unary(node, scope);
      case "BinaryExpression":
        return this.binary(node, scope);
      default:
        return fail(`${node.type} is not supported`);
    }
  }

  /** @param {Node} node @param {Scope} scope @returns {Value} */
  unary(node, scope) {
    const value = this.value(node.argument, scope);
    const operator = node.operator.value;
    if (operator === "not") return !truth(value);
    if (!isNumber(value)) {
      if (value instanceof Missing) return fail(value.reason);
      return fail(`${operator} is not supported for ${kind(value)}`);
    }
    const number = operator === "-" ? -toNumber(value) : toNumber(value);
    return value instanceof Float ? new Float(number) : integer(number);
  }

  /** @param {Node} node @param {Scope} scope @returns {Value} */
  binary(node, scope) {
    const operator = node.operator.value;
    const left = this.value(node.left, scope);
    if (operator === "and") return truth(left) ? this.value(node.right, scope) : left;
    if (operator === "or") return truth(left) ? left : this.value(node.right, scope);
    const right = this.value(node.right, scope);
    this.meter.weigh(left);
    this.meter.weigh(right);
    switch (operator) {
      case "==":
        return equal(left, right);
      case "!=":
        return !equal(left, right);
      case "in":
        return contains(left, right);
      case "not in":
        return !contains(left, right);
      case "<":
        return compare(left, right) < 0;
      case "<=":
        return compare(left, right) <= 0;
      case ">":
        return compare(left, right) > 0;
      case ">=":
        return compare(left, right) >= 0;
      case "~": {
        const [one, other] = [str(left), str(right)];
        this.meter.size(one.length + other.length);
        return one + other;
      }
      default:
        return arithmetic(this.meter, operator, left, right);
    }
  }

  /** @param {Node} node @param {Scope} scope @returns {Value} */
  member(node, scope) {
    const object = this.value(node.object, scope);
    if (!node.computed) return attribute(this.meter, object, String(node.property.value));
    if (node.property.type !== "SliceExpression") {
      return item(this.meter, object, this.value(node.property, scope));
    }
    const [start, stop, step] = [node.property.start, node.property.stop, node.property.step].map(
      (bound) => {
        const found = bound === undefined ? null : this.value(bound, scope);
        return found === null || typeof found === "number"
          ? found
          : fail(`slice bounds must be integers, not ${kind(found)}`);
      },
    );
    return slice(this.meter, object, start, stop, step);
  }

}
