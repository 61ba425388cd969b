// programs.js: the programs of a visitor in the storage: one of each tab, so that two tabs never
// write over each other; the last ones of closed tabs can be opened again.

const PREFIX = "rushlight-program-";
const TAB = "rushlight-program-tab";
const OLD = "rushlight-program"; // of an earlier version
const MOST = 8;

/** @typedef {{ key: string, code: string, at: number }} Program */

/** This tab's key: a reload keeps it, a copy of the tab gets another.
 *  @param {boolean} [fresh] */
function mine(fresh = false) {
  let key = sessionStorage.getItem(TAB);
  if (!key || fresh) {
    key = PREFIX + crypto.getRandomValues(new Uint32Array(2)).join("");
    sessionStorage.setItem(TAB, key);
  }
  return key;
}

/** All that are kept, the latest first. @returns {Program[]} */
function all() {
  const found = [];
  for (const key of Object.keys(localStorage)) {
    if (!key.startsWith(PREFIX)) continue;
    try {
      const { code, at } = JSON.parse(localStorage.getItem(key) ?? "null") ?? {};
      if (typeof code === "string" && Number.isFinite(at)) found.push({ key, code, at });
    } catch {
      // damaged, or of another page
    }
  }
  return found.sort((a, b) => b.at - a.at);
}

/** Keeps this tab's program. @param {string} code */
export function keep(code) {
  try {
    localStorage.setItem(mine(), JSON.stringify({ code, at: Date.now() }));
    for (const { key } of all().slice(MOST)) localStorage.removeItem(key);
  } catch {
    // Storage is refused: the program is not kept.
  }
}

/** This tab's program, else the last one; null without one. */
export function own() {
  try {
    const found = all();
    const before = found.find(({ key }) => key === sessionStorage.getItem(TAB));
    // A tab that was opened from another has its session's storage, too.
    if (performance.getEntriesByType("navigation")[0]?.toJSON().type !== "reload") mine(true);
    return (before ?? found[0])?.code ?? localStorage.getItem(OLD);
  } catch {
    return null;
  }
}

/** The programs of other tabs, by their first words. */
export function earlier() {
  try {
    const key = sessionStorage.getItem(TAB);
    return all()
      .filter((one) => one.key !== key && one.code.trim())
      .map(({ code }) => ({ code, title: code.trim().split("\n")[0].slice(0, 40) }));
  } catch {
    return [];
  }
}
