/** The filters and tests of the tab's chat templates, with the results of jinja2.
 *
 * They are those of core/io/text/sandbox_parts.py. A result is counted before it is made.
 */

import {
  Float, Tuple, Missing, compare, contains, equal, fail, integer, isNumber, isPlain,
  iterate, key, kind, str, toNumber, truth,
} from "./template_values.js"; // prettier-ignore
import {
  INDENT, capitalize, replace, splitLines, strip, take, toJson, whole,
} from "./template_methods.js"; // prettier-ignore

/** @typedef {import("./template_values.js").Value} Value */
/** @typedef {import("./template_values.js").Meter} Meter */
/** @typedef {Map<string, Value>} Named */
/**
 * What a filter may use of the evaluator: the meter, and access to items.
 * @typedef {{ meter: Meter, item: (value: Value, at: Value) => Value }} Run
 */
/** @typedef {(run: Run, value: Value, args: Value[], kwargs: Named) => Value} Filter */

/** @param {Value} value the key for sorting without regard to case */
const folded = (value) => (typeof value === "string" ? value.toLowerCase() : value);

/**
 * The part of each item that `attribute` names: a path with dots, or an index.
 * @param {Run} run @param {any} attribute @returns {(item: Value) => Value}
 */
function part(run, attribute) {
  if (attribute === undefined || attribute === null) return (item) => item;
  const path = str(attribute).split(".").map((name) => (/^\d+$/.test(name) ? Number(name) : name));
  return (item) => path.reduce((now, at) => run.item(now, at), item);
}

/** @param {Run} run @param {Value} value @param {any} reverse @param {(item: Value) => Value} by */
function sorted(run, value, reverse, by) {
  const items = [...iterate(value)];
  run.meter.items(items.length);
  const rows = items.map((item) => ({ item, by: by(item) }));
  const sign = truth(reverse ?? false) ? -1 : 1;
  rows.sort((a, b) => {
    run.meter.charge(1);
    return sign * (compare(a.by, b.by) || 0);
  });
  return rows.map(({ item }) => item);
}

/** The items for map and select, which treat None as empty. @param {Value} value */
const all = (value) => (truth(value) ? iterate(value) : []);

/** @param {boolean} keep @param {boolean} attribute @returns {Filter} select, reject, ...attr */
const selector = (keep, attribute) => (run, value, args) => {
  const [at, ...rest] = attribute ? args : [null, ...args];
  const [name, ...others] = rest;
  const of = part(run, at);
  const test = name === undefined ? truth : tested(run, str(name), others);
  return all(value).filter((item) => {
    run.meter.charge(1);
    return test(of(item)) === keep;
  });
};

/**
 * @param {Run} run @param {string} name @param {Value[]} args
 * @returns {(value: Value) => boolean}
 */
export function tested(run, name, args) {
  const test = TESTS[name];
  if (!test) return fail(`No test named '${name}'.`);
  return (value) => {
    for (const item of args) {
      run.meter.weigh(item);
      run.meter.weigh(value);
    }
    return test(value, args[0]);
  };
}

/** @param {number} sign @returns {Filter} min and max */
const extreme = (sign) => (run, value, args, kwargs) => {
  const [sensitive, attribute] = take("min", args, kwargs, "case_sensitive", "attribute");
  const of = part(run, attribute);
  const by = truth(sensitive ?? false) ? of : (/** @type {Value} */ item) => folded(of(item));
  const items = iterate(value);
  if (!items.length) return new Missing("No aggregated item, sequence was empty.");
  return items.reduce((best, item) => (sign * compare(by(item), by(best)) > 0 ? item : best));
};

/** @param {Value} value @returns {number | undefined} the float that a text denotes */
function parseFloatText(value) {
  if (isNumber(value)) return toNumber(value);
  if (typeof value !== "string") return undefined;
  const own = strip(value, null, "both").replace(/(\d)_(?=\d)/g, "$1");
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(own)) return Number(own);
  const special = /^([+-]?)(inf|infinity|nan)$/i.exec(own);
  if (!special) return undefined;
  return special[2].toLowerCase() === "nan" ? NaN : special[1] === "-" ? -Infinity : Infinity;
}

/** @param {number} value @param {number} digits @returns {number} rounded half to even */
function rounded(value, digits) {
  const scaled = value * 10 ** digits;
  const low = Math.floor(scaled);
  if (digits === 0 && scaled - low === 0.5) return low % 2 === 0 ? low : low + 1;
  return Number(value.toFixed(digits));
}

/** @type {Record<string, Filter>} */
const FILTERS = {
  abs: (_run, value) => {
    if (!isNumber(value)) return fail(`abs is not supported for a ${kind(value)}`);
    const size = Math.abs(toNumber(value));
    return value instanceof Float ? new Float(size) : size;
  },
  capitalize: (_run, value) => capitalize(str(value)),
  default: (_run, value, args, kwargs) => {
    const [other, boolean] = take("default", args, kwargs, "default_value", "boolean");
    const missing = value instanceof Missing || (truth(boolean ?? false) && !truth(value));
    return missing ? (other ?? (args.length || kwargs.has("default_value") ? null : "")) : value;
  },
  dictsort: (run, value, args, kwargs) => {
    const [sensitive, by, reverse] =
      take("dictsort", args, kwargs, "case_sensitive", "by", "reverse");
    if (!(value instanceof Map)) return fail(`dictsort is not supported for a ${kind(value)}`);
    const at = ["key", "value"].indexOf(str(by ?? "key"));
    if (at < 0) fail('You can only sort by either "key" or "value"');
    const pairs = [...value].map((pair) => Tuple.from(pair));
    return sorted(run, pairs, reverse, (/** @type {any} */ pair) =>
      truth(sensitive ?? false) ? pair[at] : folded(pair[at]),
    );
  },
  first: (_run, value) => {
    const items = iterate(value);
    return items.length ? items[0] : new Missing("No first item, sequence was empty.");
  },
  float: (_run, value, args, kwargs) => {
    const [other] = take("float", args, kwargs, "default");
    if (value instanceof Missing) fail(value.reason);
    const found = parseFloatText(value);
    return found === undefined ? (other ?? new Float(0)) : new Float(found);
  },
  indent: (run, value, args, kwargs) => {
    const [width, first, blank] = take("indent", args, kwargs, "width", "first", "blank");
    const own = str(value);
    const size = whole(width, 4);
    if (!(size >= 0 && size <= INDENT)) {
      fail(`indent: a width of ${size} is not from 0 to ${INDENT}`);
    }
    const lines = splitLines(`${own}\n`);
    run.meter.size(own.length + lines.length * INDENT);
    const lead = " ".repeat(size);
    const joined = lines
      .map((line, i) => (i && (line || truth(blank ?? false)) ? lead + line : line))
      .join("\n");
    return truth(first ?? false) ? lead + joined : joined;
  },
  int: (_run, value, args, kwargs) => {
    const [other, base] = take("int", args, kwargs, "default", "base");
    if (base !== undefined && base !== 10) fail(`int: base ${str(base)} is not supported; use 10`);
    if (value instanceof Missing) fail(value.reason);
    const found = parseFloatText(value);
    if (typeof value === "string" && /^[-+\d\s]+$/.test(value)) integer(found ?? 0);
    if (found === undefined || !Number.isFinite(found)) return other ?? 0;
    return integer(Math.trunc(found));
  },
  items: (_run, value) => {
    if (value instanceof Missing) return [];
    if (!(value instanceof Map)) return fail("Can only get item pairs from a mapping.");
    return [...value].map((pair) => Tuple.from(pair));
  },
  join: (run, value, args, kwargs) => {
    const [sep, attribute] = take("join", args, kwargs, "d", "attribute");
    if (attribute !== undefined && attribute !== null) {
      fail("join takes no attribute here; use map(attribute=...)");
    }
    const parts = iterate(value).map(str);
    const by = str(sep ?? "");
    run.meter.size(parts.reduce((sum, one) => sum + one.length + by.length, 0));
    return parts.join(by);
  },
  last: (_run, value) => {
    const items = iterate(value);
    if (items.length) return items[items.length - 1];
    return new Missing("No last item, sequence was empty.");
  },
  length: (_run, value) => {
    if (value instanceof Map) return value.size;
    if (Array.isArray(value)) return value.length;
    if (typeof value === "string") return isPlain(value) ? value.length : iterate(value).length;
    return value instanceof Missing ? 0 : fail(`a ${kind(value)} has no length`);
  },
  list: (run, value) => {
    const items = [...iterate(value)];
    run.meter.items(items.length);
    return items;
  },
  lower: (_run, value) => str(value).toLowerCase(),
  map: (run, value, args, kwargs) => {
    const items = all(value);
    if (!args.length) {
      const named = new Map(kwargs);
      const attribute = named.get("attribute");
      const other = named.get("default");
      if (attribute === undefined) return fail("map requires a filter argument");
      const of = part(run, attribute);
      return items.map((item) => {
        run.meter.charge(1);
        const found = of(item);
        return found instanceof Missing && other !== undefined ? other : found;
      });
    }
    const [name, ...rest] = args;
    const filter = filterNamed(str(name));
    return items.map((item) => filter(run, item, rest, kwargs));
  },
  max: extreme(1),
  min: extreme(-1),
  reject: selector(false, false),
  rejectattr: selector(false, true),
  replace: (run, value, args, kwargs) => {
    const [old, by, count] = take("replace", args, kwargs, "old", "new", "count");
    return replace(run.meter, str(value), str(old), str(by), count);
  },
  reverse: (_run, value) =>
    typeof value === "string"
      ? Array.from(value).reverse().join("")
      : value instanceof Missing
        ? fail("argument must be iterable")
        : Array.from(iterate(value)).reverse(),
  round: (_run, value, args, kwargs) => {
    const [precision, method] = take("round", args, kwargs, "precision", "method");
    const digits = whole(precision, 0);
    if (!(digits >= 0 && digits <= 15)) fail("round: a precision is from 0 to 15");
    if (!isNumber(value)) return fail(`round is not supported for a ${kind(value)}`);
    const way = str(method ?? "common");
    if (!["common", "ceil", "floor"].includes(way)) fail("method must be common, ceil or floor");
    const own = toNumber(value);
    const found = way === "common"
      ? rounded(own, digits)
      : (way === "ceil" ? Math.ceil : Math.floor)(own * 10 ** digits) / 10 ** digits;
    return way === "common" && !(value instanceof Float) ? found : new Float(found);
  },
  safe: (_run, value) => value,
  select: selector(true, false),
  selectattr: selector(true, true),
  sort: (run, value, args, kwargs) => {
    const [reverse, sensitive, attribute] =
      take("sort", args, kwargs, "reverse", "case_sensitive", "attribute");
    const of = part(run, attribute);
    const plain = truth(sensitive ?? false);
    return sorted(run, value, reverse, (item) => (plain ? of(item) : folded(of(item))));
  },
  string: (run, value) => {
    const own = str(value);
    run.meter.size(own.length);
    return own;
  },
  sum: (run, value, args, kwargs) => {
    const [attribute, start] = take("sum", args, kwargs, "attribute", "start");
    if (attribute !== undefined && attribute !== null) fail("sum adds numbers only");
    const numbers = [start ?? 0, ...iterate(value)];
    if (!numbers.every(isNumber)) fail("sum adds numbers only");
    let total = 0;
    for (const one of numbers) total += toNumber(/** @type {number} */ (one));
    return numbers.some((one) => one instanceof Float) ? new Float(total) : integer(total);
  },
  title: (run, value) => {
    const own = str(value);
    run.meter.charge(own.length >> 2);
    return own.replace(/[^-\s({[<]+/g, capitalize);
  },
  tojson: (run, value, args, kwargs) => toJson(run.meter, value, args, kwargs),
  trim: (_run, value, args, kwargs) =>
    strip(str(value), take("trim", args, kwargs, "chars")[0], "both"),
  unique: (run, value, args, kwargs) => {
    const [sensitive, attribute] = take("unique", args, kwargs, "case_sensitive", "attribute");
    const of = part(run, attribute);
    const seen = new Set();
    return iterate(value).filter((item) => {
      run.meter.charge(1);
      const own = key(truth(sensitive ?? false) ? of(item) : folded(of(item)));
      return !seen.has(own) && seen.add(own);
    });
  },
  upper: (_run, value) => str(value).toUpperCase(),
};
FILTERS.count = FILTERS.length;
FILTERS.d = FILTERS.default;

/** Filters that read only the first level of a value. */
const SHALLOW = new Set(
  ["count", "d", "default", "first", "items", "last", "length", "list", "map"], // prettier-ignore
);

/** @param {string} name @returns {Filter} the filter, which counts its cost first */
export function filterNamed(name) {
  const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
  if (!filter) return fail(`No filter named '${name}'.`);
  return (run, value, args, kwargs) => {
    run.meter.charge(1);
    if (!SHALLOW.has(name)) {
      for (const item of [value, ...args, ...kwargs.values()]) run.meter.weigh(item);
      if (typeof value === "string") run.meter.size(value.length);
    } else if (Array.isArray(value)) {
      run.meter.items(value.length);
    } else if (typeof value === "string") {
      run.meter.size(value.length);
    }
    return filter(run, value, args, kwargs);
  };
}

/** @param {(order: number) => boolean} wanted @returns {(a: Value, b: any) => boolean} */
const ordered = (wanted) => (a, b) => wanted(compare(a, b));
/** @param {Value} value */
const isCased = (value) => /\p{Cased}/u.test(str(value));
/** @param {Value} value @returns {value is any[] | string | Map<any, any> | Missing} */
const isIterable = (value) =>
  Array.isArray(value) || typeof value === "string" || value instanceof Map ||
  value instanceof Missing;

/** @type {Record<string, (value: Value, other?: any) => boolean>} */
export const TESTS = Object.assign(Object.create(null), {
  boolean: (/** @type {Value} */ v) => typeof v === "boolean",
  callable: (/** @type {Value} */ v) => typeof v === "function" || v instanceof Missing,
  defined: (/** @type {Value} */ v) => !(v instanceof Missing),
  divisibleby: (/** @type {any} */ v, /** @type {any} */ by) =>
    isNumber(v) && isNumber(by) && toNumber(by)
      ? toNumber(v) % toNumber(by) === 0
      : fail(`${kind(v)} cannot be divided by ${str(by)}`),
  eq: equal,
  even: (/** @type {any} */ v) => toNumber(v) % 2 === 0,
  false: (/** @type {Value} */ v) => v === false,
  float: (/** @type {Value} */ v) => v instanceof Float,
  ge: ordered((order) => order >= 0),
  gt: ordered((order) => order > 0),
  in: (/** @type {Value} */ v, /** @type {Value} */ box) => contains(v, box),
  integer: (/** @type {Value} */ v) => typeof v === "number",
  iterable: isIterable,
  le: ordered((order) => order <= 0),
  lower: (/** @type {Value} */ v) => isCased(v) && str(v) === str(v).toLowerCase(),
  lt: ordered((order) => order < 0),
  mapping: (/** @type {Value} */ v) => v instanceof Map,
  ne: (/** @type {Value} */ a, /** @type {Value} */ b) => !equal(a, b),
  none: (/** @type {Value} */ v) => v === null,
  number: isNumber,
  odd: (/** @type {any} */ v) => Math.abs(toNumber(v) % 2) === 1,
  sameas: (/** @type {Value} */ a, /** @type {Value} */ b) => a === b,
  sequence: isIterable,
  string: (/** @type {Value} */ v) => typeof v === "string",
  true: (/** @type {Value} */ v) => v === true,
  undefined: (/** @type {Value} */ v) => v instanceof Missing,
  upper: (/** @type {Value} */ v) => isCased(v) && str(v) === str(v).toUpperCase(),
});
Object.assign(TESTS, {
  "!=": TESTS.ne, "<": TESTS.lt, "<=": TESTS.le, "==": TESTS.eq, ">": TESTS.gt, ">=": TESTS.ge,
  equalto: TESTS.eq, greaterthan: TESTS.gt, lessthan: TESTS.lt,
}); // prettier-ignore
