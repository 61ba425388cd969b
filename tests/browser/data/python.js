// Pyodide with Rushlight, for tests that run Python in a page or in a worker of it.

/** @param {string} url @returns {Promise<Uint8Array>} */
async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/**
 * A function that runs Python; what the code's last line gives comes back as JSON.
 * `kept` is the folder of the memory and the files that an earlier start has kept.
 * @param {{ root: string, kept: string, jspi: boolean }} options
 */
export async function start({ root, kept, jspi }) {
  // What a browser without JavaScript Promise Integration lacks; Pyodide looks for it as it loads.
  const assembly = /** @type {any} */ (WebAssembly);
  if (!jspi) {
    delete assembly.Suspending;
    delete assembly.promising;
  }
  const { loadPyodide } = await import(`${root}pyodide/pyodide.mjs`);
  const { restore } = await import(`${root}snapshot.js`);
  const py = await loadPyodide({ _loadSnapshot: await fetched(`${kept}memory`) });
  restore(py, (await fetched(`${kept}files`)).buffer);
  return async (/** @type {string} */ code) => {
    const found = await py.runPythonAsync(code);
    return py.globals.get("__builtins__")["__import__"]("json").dumps(found);
  };
}

// In a worker: the first message says how to start, each later one is code.
if (typeof document === "undefined") {
  /** @type {Promise<(code: string) => Promise<string>>} */
  let python;
  self.onmessage = async ({ data }) => {
    try {
      python ??= start(data);
      self.postMessage({ found: typeof data === "string" ? await (await python)(data) : "null" });
    } catch (error) {
      self.postMessage({ error: String(/** @type {Error} */ (error).message ?? error) });
    }
  };
}
