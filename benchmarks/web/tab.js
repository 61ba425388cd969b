// Rushlight in this page: Pyodide, NumPy and the wheel of a built site.

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
