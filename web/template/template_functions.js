/** The functions of the tab's chat templates: those of core/io/text/sandbox_parts.py. */

import { Namespace, Range, fail, iterate, key, str } from "./template_values.js";
import { text, whole } from "./template_methods.js";

/** @typedef {import("./template_values.js").Value} Value */
/** @typedef {import("./template_values.js").Meter} Meter */
/** @typedef {Map<string, Value>} Named */

const MONTHS = [
  "January", "February", "March", "April", "May", "June", "July", "August", "September",
  "October", "November", "December",
]; // prettier-ignore
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");

/** The local time, with the English names of months and days. @param {string} pattern */
function strftime(pattern) {
  const now = new Date();
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const start = new Date(now.getFullYear(), 0, 1).setHours(12);
  const day = Math.round((new Date(now).setHours(12) - start) / 86_400_000) + 1;
  /** @type {Record<string, string>} */
  const fields = {
    Y: `${now.getFullYear()}`, y: two(now.getFullYear() % 100), m: two(now.getMonth() + 1),
    d: two(now.getDate()), e: String(now.getDate()).padStart(2), H: two(now.getHours()),
    I: two(((now.getHours() + 11) % 12) + 1), M: two(now.getMinutes()), S: two(now.getSeconds()),
    p: now.getHours() < 12 ? "AM" : "PM", B: MONTHS[now.getMonth()],
    b: MONTHS[now.getMonth()].slice(0, 3), A: DAYS[now.getDay()], a: DAYS[now.getDay()].slice(0, 3),
    j: String(day).padStart(3, "0"), "%": "%",
  }; // prettier-ignore
  fields.F = `${fields.Y}-${fields.m}-${fields.d}`;
  fields.T = `${fields.H}:${fields.M}:${fields.S}`;
  return pattern.replace(/%(-?)([^]?)/g, (match, bare, name) => {
    if (!Object.hasOwn(fields, name)) return fail(`strftime_now: ${match} is not supported`);
    return bare ? fields[name].replace(/^[0 ]+/, "") || "0" : fields[name];
  });
}

/** @param {Namespace} space @param {Value} name @param {Value} value */
export function assign(space, name, value) {
  if (str(name).startsWith("_")) fail(`a namespace has no private names such as '${str(name)}'`);
  space.fields.set(str(name), value);
}

/** The initial pairs of dict() and namespace(). @param {Value[]} args @param {Named} kwargs */
function pairs(args, kwargs) {
  const [source] = args;
  const own = source === undefined ? [] : source instanceof Map ? [...source] : iterate(source);
  const all = [...own.map((pair) => iterate(pair)), ...kwargs];
  if (all.some((pair) => pair.length !== 2)) fail("a dict is made of pairs");
  return all.map(([name, value]) => /** @type {[Value, Value]} */ ([key(name), value]));
}

/**
 * The functions that every template can call.
 * @param {Meter} meter @returns {Record<string, (args: Value[], kwargs: Named) => Value>}
 */
export function functions(meter) {
  return {
    dict: (args, kwargs) => new Map(pairs(args, kwargs)),
    namespace: (args, kwargs) => {
      const made = new Namespace();
      for (const [name, value] of pairs(args, kwargs)) assign(made, name, value);
      return made;
    },
    raise_exception: (args) => fail(str(args[0] ?? "")),
    range: (args) => {
      const [a, b, c] = args.map((one) => whole(one, 0));
      const [start, stop, step] = args.length > 1 ? [a, b, c ?? 1] : [0, a, 1];
      if (!args.length || args.length > 3) fail("range takes start, stop and step");
      if (step === 0) fail("range() arg 3 must not be zero");
      const count = Math.max(0, Math.ceil((stop - start) / step));
      meter.items(count);
      const made = new Range();
      for (let i = 0; i < count; i++) made.push(start + i * step);
      made.text = `range(${start}, ${stop}${step === 1 ? "" : `, ${step}`})`;
      return made;
    },
    strftime_now: (args) => {
      const pattern = text(args[0], "strftime_now's argument");
      meter.size(pattern.length * 10);
      return strftime(pattern);
    },
  };
}
