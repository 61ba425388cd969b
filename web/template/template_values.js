/** Python's values for the tab's chat templates: their text, order and equality, and the meter.
 *
 * Text is a string, an integer a number, a list an Array and a dict a Map. The classes here stand
 * for types that JavaScript lacks.
 */

export const STEPS = 1_000_000; // iterations, calls and values read
export const ITEMS = 100_000; // the longest list
export const TEXT = 1 << 22; // characters of the output and of every string
export const SECONDS = 1.5;

/** A float. It prints differently from an integer of the same value. */
export class Float {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}
/** A tuple. @extends {Array<any>} */
export class Tuple extends Array {
  static get [Symbol.species]() {
    return Array;
  }
}
/** The result of range(). @extends {Array<any>} */
export class Range extends Array {
  static get [Symbol.species]() {
    return Array;
  }
  text = "";
}
/** The result of dict.keys(), values() and items(). @extends {Array<any>} */
export class View extends Array {
  static get [Symbol.species]() {
    return Array;
  }
  text = "";
}
/** The result of namespace(). */
export class Namespace {
  /** @type {Map<string, Value>} */
  fields = new Map();
}
/** The value of an undefined name, attribute or item. */
export class Missing {
  /** @param {string} [reason] */
  constructor(reason = "the value is undefined") {
    this.reason = reason;
  }
}

/** @typedef {(args: Value[], kwargs: Map<string, Value>) => Value} Callable */
/**
 * @typedef {null | boolean | number | string | Float | any[] | Map<any, any> | Namespace | Missing
 *   | Callable} Value
 */

/** An error in a template. */
export class TemplateError extends Error {}

/** @param {string} message @returns {never} */
export function fail(message) {
  throw new TemplateError(message);
}

/** The budget left to a render. The limits are those of core/io/text/sandbox_parts.py. */
export class Meter {
  steps = STEPS;
  text = TEXT;
  check = STEPS - 1000;
  end = performance.now() + SECONDS * 1000;

  /** @param {number} steps */
  charge(steps) {
    this.steps -= steps;
    if (this.steps >= this.check) return;
    this.check = this.steps - 1000;
    if (this.steps < 0) fail(`the template takes more than ${STEPS} steps`);
    if (performance.now() > this.end) fail(`the template takes more than ${SECONDS} seconds`);
  }

  /** Count the making of a string of this length. @param {number} length */
  size(length) {
    if (length > TEXT) fail(`the template makes a text of more than ${TEXT} characters`);
    this.charge(1 + Math.floor(length / 64));
  }

  /** Count the making of a list of this length. @param {number} count */
  items(count) {
    if (count > ITEMS) fail(`the template makes a list of more than ${ITEMS} items`);
    this.charge(1 + Math.floor(count / 16));
  }

  /** Count text of the output. @param {string} text */
  write(text) {
    this.size(text.length);
    this.text -= text.length;
    if (this.text < 0) fail(`the template writes more than ${TEXT} characters`);
    return text;
  }

  /** Count everything in `value`, before an operation reads all of it. @param {Value} value */
  weigh(value) {
    if (typeof value !== "string" && typeof value !== "object") return;
    let text = 0;
    const left = [value];
    while (left.length) {
      const item = left.pop();
      if (typeof item === "string") {
        text += item.length;
        if (text > TEXT) fail(`the template handles a text of more than ${TEXT} characters`);
        this.charge(1 + (item.length >> 12));
        continue;
      }
      this.charge(1);
      const inner = item instanceof Namespace ? item.fields : item;
      if (inner instanceof Map) for (const [key, one] of inner) left.push(key, one);
      else if (Array.isArray(inner)) for (const one of inner) left.push(one);
    }
  }
}

/** @param {Value} value @returns {string} Python's name of its type */
export function kind(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "number") return "int";
  if (typeof value === "string") return "str";
  if (value instanceof Float) return "float";
  if (value instanceof Map) return "dict";
  if (value instanceof Namespace) return "Namespace";
  if (value instanceof Missing) return "Undefined";
  if (value instanceof Tuple) return "tuple";
  if (value instanceof Range) return "range";
  if (value instanceof View) return "view";
  return Array.isArray(value) ? "list" : "function";
}

/** @param {Value} value @returns {value is boolean | number | Float} */
export function isNumber(value) {
  return typeof value === "number" || typeof value === "boolean" || value instanceof Float;
}

/** @param {boolean | number | Float} value */
export function toNumber(value) {
  return value instanceof Float ? value.value : Number(value);
}

/** An integer, or an error beyond 2**53, where JavaScript is not exact. @param {number} value */
export function integer(value) {
  if (!(Math.abs(value) <= 2 ** 53)) fail("the template makes a number beyond 2**53");
  return value === 0 ? 0 : value;
}

/** @param {Value} value */
export function truth(value) {
  if (value instanceof Float) return value.value !== 0;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return value instanceof Missing ? false : Boolean(value);
}

/** A key for a Map, by Python's equality. @param {Value} value @returns {Value} */
export function key(value) {
  if (value instanceof Float) return value.value;
  if (typeof value === "boolean") return Number(value);
  if (value === null || typeof value === "string" || typeof value === "number") return value;
  return fail(`a key is a string or number, not ${kind(value)}`);
}

/** @param {number} value @returns {string} Python's repr of a float */
export function floatText(value) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const [digits, power] = value.toExponential().split("e");
  const exponent = Number(power);
  if (value !== 0 && (exponent < -4 || exponent >= 16)) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${digits}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < -6) return value.toFixed(20);
  const text = String(value);
  return /[.]/.test(text) ? text : `${text}.0`;
}

/** @param {Value} value @returns {string} Python's str */
export function str(value) {
  if (typeof value === "string") return value;
  return value instanceof Missing ? "" : repr(value);
}

/** @param {string} text */
function quoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inner = text.replace(/[\\'"\p{C}\p{Z}]/gu, (char) => {
    const code = /** @type {number} */ (char.codePointAt(0));
    if (char === " ") return char;
    if (char === "\\" || char === quote) return `\\${char}`;
    if (char === "'" || char === '"') return char;
    if (char === "\n") return "\\n";
    if (char === "\r") return "\\r";
    if (char === "\t") return "\\t";
    const hex = code.toString(16);
    if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
  return quote + inner + quote;
}

/** @param {Value} value @returns {string} Python's repr */
export function repr(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return quoted(value);
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Missing) return "Undefined";
  if (value instanceof Range) return value.text;
  if (value instanceof View) return `${value.text}([${value.map(repr).join(", ")}])`;
  if (value instanceof Tuple) {
    return `(${[...value].map(repr).join(", ")}${value.length === 1 ? "," : ""})`;
  }
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  if (value instanceof Namespace) return `<Namespace ${repr(value.fields)}>`;
  if (!(value instanceof Map)) return fail("a function cannot be written as text");
  return `{${[...value].map(([name, item]) => `${repr(name)}: ${repr(item)}`).join(", ")}}`;
}

/** @param {Value} a @param {Value} b @returns {boolean} Python's == */
export function equal(a, b) {
  if (a === b) return true;
  if (isNumber(a) && isNumber(b)) return toNumber(a) === toNumber(b);
  if (a instanceof Missing) return b instanceof Missing;
  if (Array.isArray(a) && Array.isArray(b)) {
    if (kind(a) !== kind(b) || a.length !== b.length) return false;
    return a.every((item, i) => equal(item, b[i]));
  }
  if (a instanceof Map && b instanceof Map) {
    if (a.size !== b.size) return false;
    return [...a].every(([name, item]) => b.has(name) && equal(item, b.get(name)));
  }
  return false;
}

/**
 * Python's order of two values: negative, 0, positive, or NaN. Throws where Python has none.
 * @param {Value} a @param {Value} b @returns {number}
 */
export function compare(a, b) {
  if (isNumber(a) && isNumber(b)) {
    const [one, other] = [toNumber(a), toNumber(b)];
    return one < other ? -1 : one > other ? 1 : one === other ? 0 : NaN;
  }
  if (typeof a === "string" && typeof b === "string") {
    if (a === b) return 0;
    let i = 0;
    while (a[i] === b[i]) i++;
    // By code points: in UTF-16 the characters beyond U+FFFF come before some others.
    const [one, other] = [a.charCodeAt(i), b.charCodeAt(i)].map((unit) =>
      unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit,
    );
    return Number.isNaN(one) ? -1 : Number.isNaN(other) ? 1 : one - other;
  }
  if (Array.isArray(a) && Array.isArray(b) && kind(a) === kind(b)) {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      if (!equal(a[i], b[i])) return compare(a[i], b[i]);
    }
    return a.length - b.length;
  }
  return fail(`${kind(a)} and ${kind(b)} cannot be ordered`);
}

/** @param {Value} item @param {Value} box @returns {boolean} Python's `in` */
export function contains(item, box) {
  if (typeof box === "string") {
    return typeof item === "string" ? box.includes(item) : fail(`a ${kind(item)} is not a text`);
  }
  if (Array.isArray(box)) return box.some((one) => equal(one, item));
  if (box instanceof Map) return box.has(key(item));
  return box instanceof Missing ? false : fail(`a ${kind(box)} has no items to look in`);
}

/** Whether each of a text's characters is one unit of UTF-16. @param {string} text */
export function isPlain(text) {
  return !/[\ud800-\udfff]/.test(text);
}

/** The items of a loop over `value`. @param {Value} value @returns {Value[]} */
export function iterate(value) {
  if (Array.isArray(value)) return value;
  if (typeof value === "string") return Array.from(value);
  if (value instanceof Map) return [...value.keys()];
  return value instanceof Missing ? [] : fail(`a ${kind(value)} is not iterable`);
}

/** The indices of Python's slice; each bound may be null. @param {number} length
 * @param {number | null} start @param {number | null} stop @param {number | null} step */
export function sliceIndexes(length, start, stop, step) {
  const by = step ?? 1;
  if (by === 0) fail("slice step cannot be zero");
  const [low, high] = by > 0 ? [0, length] : [-1, length - 1];
  /** @param {number | null} at @param {number} none */
  const bound = (at, none) =>
    at === null ? none : Math.min(Math.max(at < 0 ? at + length : at, low), high);
  const found = [];
  const end = bound(stop, by > 0 ? high : low);
  for (let i = bound(start, by > 0 ? low : high); by > 0 ? i < end : i > end; i += by) {
    found.push(i);
  }
  return found;
}

/** Unpacks a value that core/io/text/template.py packed. @param {any} packed @returns {Value} */
export function unpack(packed) {
  if (!Array.isArray(packed)) return packed;
  const [tag, ...items] = packed;
  if (tag === "f") {
    const special = { nan: NaN, inf: Infinity, "-inf": -Infinity };
    return new Float(special[/** @type {"nan"} */ (items[0])] ?? Number(items[0]));
  }
  if (tag === "d") return new Map(items.map(([name, item]) => [name, unpack(item)]));
  return tag === "t" ? Tuple.from(items.map(unpack)) : items.map(unpack);
}
