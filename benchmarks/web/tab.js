// Rushlight in this page: Pyodide, NumPy and the wheel of a built site. And what several pages use.

export const MODULES = new URL("./node_modules/", location.href).href;

/** @returns {Promise<any>} Pyodide, with the package unpacked */
export async function pyodide() {
  const base = new URL("./rushlight/", location.href);
  const get = async (/** @type {string} */ name) => fetch(new URL(name, base));
  const { wheel } = await (await get("runtime.json")).json();
  const { loadPyodide } = await import(new URL("pyodide/pyodide.mjs", base).href);
  const indexURL = new URL("pyodide/", base).href;
  const py = await loadPyodide({ indexURL, packages: ["numpy"] });
  py.unpackArchive(await (await get(wheel)).arrayBuffer(), "wheel");
  return py;
}

/** Runs a classic script, which defines a global. @param {string} path */
export const script = (path) =>
  new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement("script"), { src: MODULES + path });
    element.onload = resolve;
    element.onerror = reject;
    document.head.append(element);
  });

/** Numbers from -1 to 1, the same on every run. @param {number} count @param {number} seed */
export function numbers(count, seed) {
  const made = new Float32Array(count);
  let state = seed;
  for (let i = 0; i < count; i += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    made[i] = state / 2 ** 31 - 1;
  }
  return made;
}
