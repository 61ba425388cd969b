/** Python's methods of values, and JSON, for the tab's chat templates.
 *
 * They are the methods of core/io/text/sandbox_parts.py. A result is counted before it is made.
 */

import {
  Float, ITEMS, Range, Tuple, View, compare, equal, fail, floatText, iterate, key, kind, repr, str,
  truth,
} from "./template_values.js"; // prettier-ignore

/** @typedef {import("./template_values.js").Value} Value */
/** @typedef {import("./template_values.js").Meter} Meter */
/** @typedef {Map<string, Value>} Named */
export const INDENT = 64;
const BLANKS =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const BLANK = new RegExp(`[${BLANKS}]`);
const LEADING = new RegExp(`^[${BLANKS}]+`);
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g;

/**
 * Arguments by position or name, undefined where one is not given.
 * @param {string} of @param {Value[]} args @param {Named} kwargs @param {string[]} names
 * @returns {any[]}
 */
export function take(of, args, kwargs, ...names) {
  const later = names.slice(args.length);
  if (args.length > names.length || [...kwargs.keys()].some((name) => !later.includes(name))) {
    fail(`${of} takes ${names.join(", ") || "no arguments"}`);
  }
  return [...args, ...later.map((name) => kwargs.get(name))];
}

/** @param {any} value @param {string} what @returns {string} */
export function text(value, what) {
  return typeof value === "string" ? value : fail(`${what} must be a str, not ${kind(value)}`);
}

/** @param {any} value @param {number} otherwise @returns {number} */
export function whole(value, otherwise) {
  if (value === undefined || value === null) return otherwise;
  if (typeof value === "boolean" || typeof value === "number") return Number(value);
  return fail(`an integer is needed, not a ${kind(value)}`);
}

/** @param {string} value */
export function trimEnd(value) {
  let end = value.length;
  while (end > 0 && BLANK.test(value[end - 1])) end--;
  return value.slice(0, end);
}

/**
 * Python's strip, lstrip and rstrip.
 * @param {string} value @param {any} chars @param {string} side
 */
export function strip(value, chars, side) {
  if (chars === undefined || chars === null) {
    if (side !== "right") value = value.replace(LEADING, "");
    return side === "left" ? value : trimEnd(value);
  }
  const drop = new Set(text(chars, "strip's argument"));
  const list = Array.from(value);
  let from = 0;
  let to = list.length;
  if (side !== "right") while (from < to && drop.has(list[from])) from++;
  if (side !== "left") while (to > from && drop.has(list[to - 1])) to--;
  return list.slice(from, to).join("");
}

/**
 * @param {Meter} meter @param {string} value @param {string} old @param {string} by
 * @param {any} count
 */
export function replace(meter, value, old, by, count) {
  const most = count === undefined || count === null || count < 0 ? Infinity : whole(count, 0);
  const parts = old === "" ? ["", ...Array.from(value), ""] : value.split(old);
  const found = Math.min(parts.length - 1, most);
  meter.size(value.length + found * (by.length - old.length));
  if (found === parts.length - 1) return parts.join(by);
  return parts.slice(0, found + 1).join(by) + old + parts.slice(found + 1).join(old);
}

/** @param {string} value @param {any} sep @param {number} most @param {boolean} fromRight */
function split(value, sep, most, fromRight) {
  if (sep !== undefined && sep !== null) {
    const by = text(sep, "split's argument");
    if (!by) fail("empty separator");
    const parts = value.split(by);
    if (most < 0 || parts.length <= most + 1) return parts;
    if (!fromRight) return [...parts.slice(0, most), parts.slice(most).join(by)];
    const rest = parts.length - most;
    return [parts.slice(0, rest).join(by), ...parts.slice(rest)];
  }
  const words = [];
  for (const word of value.matchAll(new RegExp(`[^${BLANKS}]+`, "g"))) {
    if (words.push(word) > 2 * ITEMS) break; // too many: the caller raises
  }
  if (most < 0 || words.length <= most) return words.map((word) => word[0]);
  if (!fromRight) {
    return [...words.slice(0, most).map((word) => word[0]), value.slice(words[most].index)];
  }
  const last = words[words.length - most - 1];
  const head = value.slice(0, last.index + last[0].length);
  return [head, ...words.slice(words.length - most).map((word) => word[0])];
}

/** @param {string} value */
export function capitalize(value) {
  const [first = "", ...rest] = Array.from(value);
  return first.toUpperCase() + rest.join("").toLowerCase();
}

/** @param {string} value */
function titled(value) {
  return value.replace(/\p{Cased}+/gu, capitalize);
}

/** @param {string} value @param {boolean} [keep] */
export function splitLines(value, keep = false) {
  const lines = [];
  let at = 0;
  for (const end of value.matchAll(LINE_END)) {
    lines.push(value.slice(at, end.index + (keep ? end[0].length : 0)));
    at = end.index + end[0].length;
  }
  if (at < value.length) lines.push(value.slice(at));
  return lines;
}

/** str.format for fields without attributes and formats.
 * @param {Meter} meter @param {string} pattern @param {Value[]} args @param {Named} kwargs */
function format(meter, pattern, args, kwargs) {
  let count = 0;
  for (const item of [...args, ...kwargs.values()]) meter.weigh(item);
  return pattern.replace(/\{\{|\}\}|\{(\w*)\}|[{}]|[^{}]+/g, (match, name) => {
    if (match === "{" || match === "}") fail("format supports only the fields {}, {0} and {name}");
    if (name === undefined) return meter.write(match === "{{" || match === "}}" ? match[0] : match);
    const value = /^\d*$/.test(name) ? args[name ? Number(name) : count++] : kwargs.get(name);
    return meter.write(value === undefined ? fail(`format: no value for {${name}}`) : str(value));
  });
}

/** @typedef {(meter: Meter, value: string, args: Value[], kwargs: Named) => Value} StringMethod */
/** @param {RegExp} pattern @returns {StringMethod} */
const matches = (pattern) => (_meter, value) => pattern.test(value);
/** @param {string} side @returns {StringMethod} */
const stripper = (side) => (_meter, value, args, kwargs) =>
  strip(value, take("strip", args, kwargs, "chars")[0], side);
/** @param {boolean} right @returns {StringMethod} */
const splitter = (right) => (meter, value, args, kwargs) => {
  const [sep, most] = take("split", args, kwargs, "sep", "maxsplit");
  const parts = split(value, sep, whole(most, -1), right);
  meter.items(parts.length);
  return parts;
};
/** @param {boolean} right @returns {StringMethod} */
const partition = (right) => (_meter, value, args) => {
  const sep = text(args[0], "partition's argument");
  if (!sep) fail("empty separator");
  const at = right ? value.lastIndexOf(sep) : value.indexOf(sep);
  if (at < 0) return Tuple.of(...(right ? ["", "", value] : [value, "", ""]));
  return Tuple.of(value.slice(0, at), sep, value.slice(at + sep.length));
};
/** @param {"startsWith" | "endsWith"} which @returns {StringMethod} */
const edge = (which) => (_meter, value, args) => {
  const all = args[0] instanceof Tuple ? [...args[0]] : [args[0]];
  return all.some((one) => value[which](text(one, which)));
};
/** @param {"indexOf" | "lastIndexOf"} which @returns {StringMethod} */
const finder = (which) => (_meter, value, args) => {
  const at = value[which](text(args[0], "find's argument"));
  return at < 0 ? at : Array.from(value.slice(0, at)).length;
};

/** The methods of a str. @type {Record<string, StringMethod>} */
export const STRING_METHODS = {
  capitalize: (_meter, value) => capitalize(value),
  count: (_meter, value, args) => {
    const part = text(args[0], "count's argument");
    return part ? value.split(part).length - 1 : Array.from(value).length + 1;
  },
  endswith: edge("endsWith"),
  find: finder("indexOf"),
  format,
  isalnum: matches(/^[\p{L}\p{N}]+$/u),
  isalpha: matches(/^\p{L}+$/u),
  isdigit: matches(/^[\p{Nd}²³¹⁰⁴-⁹₀-₉]+$/u),
  islower: (_meter, value) => /\p{Cased}/u.test(value) && value === value.toLowerCase(),
  isspace: matches(new RegExp(`^[${BLANKS}]+$`)),
  isupper: (_meter, value) => /\p{Cased}/u.test(value) && value === value.toUpperCase(),
  join: (meter, value, args) => {
    const parts = iterate(args[0]).map((one) => text(one, "an item of join"));
    meter.size(parts.reduce((sum, one) => sum + one.length + value.length, 0));
    return parts.join(value);
  },
  lower: (_meter, value) => value.toLowerCase(),
  lstrip: stripper("left"),
  partition: partition(false),
  removeprefix: (_meter, value, args) => {
    const part = text(args[0], "removeprefix's argument");
    return value.startsWith(part) ? value.slice(part.length) : value;
  },
  removesuffix: (_meter, value, args) => {
    const part = text(args[0], "removesuffix's argument");
    return part && value.endsWith(part) ? value.slice(0, -part.length) : value;
  },
  replace: (meter, value, args, kwargs) => {
    const [old, by, count] = take("replace", args, kwargs, "old", "new", "count");
    return replace(meter, value, text(old, "old"), text(by, "new"), count);
  },
  rfind: finder("lastIndexOf"),
  rpartition: partition(true),
  rsplit: splitter(true),
  rstrip: stripper("right"),
  split: splitter(false),
  splitlines: (meter, value, args, kwargs) => {
    const [keep] = take("splitlines", args, kwargs, "keepends");
    const lines = splitLines(value, truth(keep ?? false));
    meter.items(lines.length);
    return lines;
  },
  startswith: edge("startsWith"),
  strip: stripper("both"),
  title: (meter, value) => {
    meter.charge(value.length >> 2);
    return titled(value);
  },
  upper: (_meter, value) => value.toUpperCase(),
};

/** @param {string} of @param {Value[]} items */
function view(of, items) {
  const made = new View();
  made.push(...items);
  made.text = of;
  return made;
}

/** The methods of a dict. @type {Record<string, (value: Map<any, any>, args: Value[]) => Value>} */
export const DICT_METHODS = {
  get: (value, args) => {
    const at = key(args[0]);
    return value.has(at) ? value.get(at) : (args[1] ?? null);
  },
  items: (value) => view("dict_items", [...value].map((pair) => Tuple.from(pair))),
  keys: (value) => view("dict_keys", [...value.keys()]),
  values: (value) => view("dict_values", [...value.values()]),
};

/**
 * The methods of a list and a tuple.
 * @type {Record<string, (value: any[], args: Value[]) => Value>}
 */
export const LIST_METHODS = {
  count: (value, args) => value.filter((one) => equal(one, args[0])).length,
  index: (value, args) => {
    const at = value.findIndex((one) => equal(one, args[0]));
    return at < 0 ? fail(`${repr(args[0])} is not in the list`) : at;
  },
};

/** @param {Meter} meter @param {Value} value @param {Value[]} args @param {Named} kwargs */
export function toJson(meter, value, args, kwargs) {
  const [ascii, indent, separators, sortKeys] =
    take("tojson", args, kwargs, "ensure_ascii", "indent", "separators", "sort_keys");
  const width = indent ?? null;
  if (width !== null && !(Number.isInteger(width) && width >= 0 && width <= INDENT)) {
    fail(`tojson: an indent of ${str(width)} is not from 0 to ${INDENT}`);
  }
  const usual = [width === null ? ", " : ",", ": "];
  const [comma, colon] = separators ? iterate(separators).map(str) : usual;
  let length = 0;
  /** @param {string} part */
  const sized = (part) => {
    meter.size((length += part.length));
    return part;
  };
  /** @param {string} one */
  const quote = (one) => {
    const json = JSON.stringify(one);
    return sized(
      ascii ? json.replace(/[\x7f-\uffff]/g, (unit) =>
        `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`) : json,
    );
  };
  /** @param {Value} one @returns {string} */
  const keyText = (one) =>
    one === null ? "null" : typeof one === "boolean" ? String(one) : str(one);
  /** @param {string[]} parts @param {string} open @param {string} close @param {number} depth */
  const around = (parts, open, close, depth) => {
    if (!parts.length) return sized(open + close);
    if (width === null) return open + parts.join(comma) + close;
    const line = `\n${" ".repeat(width * (depth + 1))}`;
    sized(line.repeat(Math.min(parts.length, 100)));
    length += line.length * parts.length;
    return `${open}${line}${parts.join(comma + line)}\n${" ".repeat(width * depth)}${close}`;
  };
  /** @param {Value} one @param {number} depth @returns {string} */
  const write = (one, depth) => {
    if (one === null || typeof one === "boolean" || typeof one === "number") {
      return sized(String(one));
    }
    if (one instanceof Float) {
      const names = { nan: "NaN", inf: "Infinity", "-inf": "-Infinity" };
      const own = floatText(one.value);
      return sized(names[/** @type {"nan"} */ (own)] ?? own);
    }
    if (typeof one === "string") return quote(one);
    if (one instanceof Map) {
      let pairs = [...one];
      if (truth(sortKeys ?? false)) pairs = pairs.sort(([a], [b]) => compare(a, b));
      const parts = pairs.map(
        ([name, item]) => quote(keyText(name)) + colon + write(item, depth + 1),
      );
      return around(parts, "{", "}", depth);
    }
    if (Array.isArray(one) && !(one instanceof View) && !(one instanceof Range)) {
      return around(Array.from(one, (item) => write(item, depth + 1)), "[", "]", depth);
    }
    return fail(`tojson: a ${kind(one)} is not supported`);
  };
  return write(value, 0);
}
