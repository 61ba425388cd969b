/** Python's operators, attributes, items and slices for the tab's chat templates. */

import { DICT_METHODS, LIST_METHODS, STRING_METHODS } from "./template_methods.js";
import {
  Float, Missing, Namespace, Tuple, fail, integer, isNumber, isPlain, iterate, key, kind,
  sliceIndexes, str, toNumber,
} from "./template_values.js"; // prettier-ignore

/** @typedef {import("./template_values.js").Value} Value */
/** @typedef {import("./template_values.js").Meter} Meter */
/** @typedef {Map<string, Value>} Named */

/** The methods of Python's dict that a template may not call. */
const DICT_OTHERS = new Set(
  ["clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"], // prettier-ignore
);

/**
 * @param {Meter} meter @param {string} operator @param {Value} left @param {Value} right
 * @returns {Value}
 */
export function arithmetic(meter, operator, left, right) {
  for (const value of [left, right]) if (value instanceof Missing) fail(value.reason);
  meter.charge(1);
  if (isNumber(left) && isNumber(right)) return calculate(operator, left, right);
  if (operator === "+" && typeof left === "string" && typeof right === "string") {
    meter.size(left.length + right.length);
    return left + right;
  }
  if (operator === "+" && Array.isArray(left) && kind(left) === kind(right)) {
    const all = [...left, ...iterate(right)];
    meter.items(all.length);
    return left instanceof Tuple ? Tuple.from(all) : all;
  }
  const [many, times] = isNumber(left) ? [right, left] : [left, right];
  if (operator === "*" && (typeof times === "number" || typeof times === "boolean")) {
    const count = Math.max(0, Number(times));
    if (typeof many === "string") {
      meter.size(many.length * count);
      return many.repeat(count);
    }
    if (Array.isArray(many)) {
      meter.items(many.length * count);
      const all = Array.from({ length: count }, () => [...many]).flat();
      return many instanceof Tuple ? Tuple.from(all) : all;
    }
  }
  return fail(`${operator} is not supported for ${kind(left)} and ${kind(right)}`);
}

/** @typedef {boolean | number | Float} Numeric */

/** @param {string} operator @param {Numeric} left @param {Numeric} right */
function calculate(operator, left, right) {
  const [a, b] = [toNumber(left), toNumber(right)];
  const float = left instanceof Float || right instanceof Float;
  /** @param {number} value */
  const made = (value) => (float ? new Float(value) : integer(value));
  if (b === 0 && ["/", "//", "%"].includes(operator)) fail("division by zero");
  switch (operator) {
    case "+":
      return made(a + b);
    case "-":
      return made(a - b);
    case "*":
      return made(a * b);
    case "/":
      return new Float(a / b);
    case "//":
      return made(Math.floor(a / b));
    case "%": {
      const rest = a % b;
      return made(rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest);
    }
    case "**":
      if (a === 0 && b < 0) fail("0 cannot be raised to a negative power");
      if (a < 0 && !Number.isInteger(b)) fail("the template makes a number beyond 2**53");
      return float || b < 0 ? new Float(a ** b) : integer(a ** b);
    default:
      return fail(`the operator ${operator} is not supported`);
  }
}

/** object[at] @param {Meter} meter @param {Value} object @param {Value} at @returns {Value} */
export function item(meter, object, at) {
  const own = key(at);
  const none = () => new Missing(`a ${kind(object)} has no item '${str(at)}'`);
  if (object instanceof Missing) return fail(object.reason);
  if (object instanceof Map && object.has(own)) return object.get(own);
  if (object instanceof Namespace) return object.fields.get(str(own)) ?? none();
  if ((typeof object === "string" || Array.isArray(object)) && typeof own === "number") {
    if (typeof object === "string") meter.size(object.length);
    const items = typeof object === "string" && isPlain(object) ? object : iterate(object);
    const found = items[own < 0 ? own + items.length : own];
    return found === undefined ? none() : found;
  }
  return typeof own === "string" && !(object instanceof Map && DICT_OTHERS.has(own))
    ? (method(meter, object, own) ?? none())
    : none();
}

/** object.name @param {Meter} meter @param {Value} object @param {string} name @returns {Value} */
export function attribute(meter, object, name) {
  if (object instanceof Missing) return fail(object.reason);
  if (object instanceof Map && DICT_OTHERS.has(name)) {
    return new Missing(`access to attribute '${name}' of 'dict' object is unsafe.`);
  }
  const own = method(meter, object, name);
  if (own) return own;
  const found = object instanceof Map
    ? (object.get(name) ?? (object.has(name) ? null : undefined))
    : object instanceof Namespace ? object.fields.get(name) : undefined;
  if (found !== undefined) return found;
  return /^\d+$/.test(name) ? item(meter, object, Number(name))
    : new Missing(`'${kind(object)} object' has no attribute '${name}'`);
}

/**
 * A method bound to its object.
 * @param {Meter} meter @param {Value} object @param {string} name
 */
function method(meter, object, name) {
  const table = typeof object === "string" ? STRING_METHODS
    : object instanceof Map ? DICT_METHODS : Array.isArray(object) ? LIST_METHODS : {};
  if (!Object.hasOwn(table, name)) return undefined;
  return (/** @type {Value[]} */ args, /** @type {Named} */ kwargs) => {
    for (const item of [...args, ...kwargs.values()]) meter.weigh(item);
    if (typeof object === "string") {
      meter.size(object.length);
      return STRING_METHODS[name](meter, object, args, kwargs);
    }
    if (kwargs.size) fail(`${name} takes no keyword arguments`);
    if (object instanceof Map) return DICT_METHODS[name](object, args);
    meter.weigh(object);
    return LIST_METHODS[name](/** @type {any[]} */ (object), args);
  };
}

/**
 * object[start:stop:step]; each bound may be null.
 * @param {Meter} meter @param {Value} object @param {number | null} start
 * @param {number | null} stop @param {number | null} step @returns {Value}
 */
export function slice(meter, object, start, stop, step) {
  if (typeof object !== "string" && !Array.isArray(object)) {
    return fail(object instanceof Missing ? object.reason : `a ${kind(object)} cannot be sliced`);
  }
  if (typeof object === "string" && (step ?? 1) === 1 && isPlain(object)) {
    meter.size(object.length);
    return object.slice(start ?? 0, stop ?? undefined);
  }
  const items = iterate(object);
  if (typeof object === "string") meter.charge(items.length >> 3);
  const found = sliceIndexes(items.length, start, stop, step).map((at) => items[at]);
  if (typeof object === "string") {
    meter.size(object.length);
    return found.join("");
  }
  meter.items(found.length);
  return object instanceof Tuple ? Tuple.from(found) : found;
}
