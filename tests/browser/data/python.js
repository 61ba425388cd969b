// Pyodide with Rushlight's wheel, for tests that run Python in a page or in a worker of it.

/** @param {string} url @returns {Promise<Uint8Array>} */
async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/**
 * A function that runs Python; what the code's last line gives comes back as JSON.
 * @param {{ root: string, wheels: string[], jspi: boolean }} options
 */
export async function start({ root, wheels, jspi }) {
  // What a browser without JavaScript Promise Integration lacks; Pyodide looks for it as it loads.
  const assembly = /** @type {any} */ (WebAssembly);
  if (!jspi) {
    delete assembly.Suspending;
    delete assembly.promising;
  }
  const { loadPyodide } = await import(`${root}pyodide/pyodide.mjs`);
  const py = await loadPyodide();
  const site = py.runPython("import sysconfig; sysconfig.get_paths()['purelib']");
  for (const wheel of wheels) {
    py.unpackArchive(await fetched(wheel), "wheel", { extractDir: site });
  }
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
