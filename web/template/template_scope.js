/** The scopes of names in the tab's chat templates. */

import { TUPLE } from "./template_syntax.js";
import { Missing, Tuple } from "./template_values.js";

/** @typedef {import("./template_values.js").Value} Value */

/** {% break %} and {% continue %} throw these. */
export class Break extends Error {}
export class Continue extends Error {}

/** The variables of a block, and its enclosing scope. */
export class Scope {
  /** @type {Map<string, Value>} */
  names = new Map();
  /** @param {Scope | null} outer */
  constructor(outer) {
    this.outer = outer;
  }

  /** @param {string} name @returns {Value} */
  get(name) {
    /** @type {Scope | null} */
    let scope = this;
    for (; scope; scope = scope.outer) {
      const value = scope.names.get(name);
      if (value !== undefined) return value;
    }
    return new Missing(`'${name}' is undefined`);
  }
}

/** A name's value. @param {string} name @param {Scope} scope @returns {Value} */
export function constant(name, scope) {
  switch (name) {
    case "true":
    case "True":
      return true;
    case "false":
    case "False":
      return false;
    case "none":
    case "None":
      return null;
    case TUPLE:
      return (/** @type {Value[]} */ args) => Tuple.from(args);
    default:
      return scope.get(name);
  }
}
