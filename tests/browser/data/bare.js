// Pyodide with nothing of Rushlight but what micropip installs; in a page, or as a worker.

/** @param {{ pyodide: string, packages: string[], wheel: string, jspi: boolean }} options */
export async function install({ pyodide, packages, wheel, jspi }) {
  // What a browser without JavaScript Promise Integration lacks; Pyodide looks for it as it loads.
  const assembly = /** @type {any} */ (WebAssembly);
  if (!jspi) {
    delete assembly.Suspending;
    delete assembly.promising;
  }
  const { loadPyodide } = await import(`${pyodide}pyodide.mjs`);
  const py = await loadPyodide();
  await py.loadPackage(packages);
  py.globals.set("wheel", wheel);
  const install = "import micropip\nawait micropip.install(wheel)\n";
  return async (/** @type {string} */ code) => {
    const found = await py.runPythonAsync(install + code);
    return found.toJs();
  };
}

if (typeof document === "undefined") {
  self.onmessage = async ({ data: { code, ...options } }) => {
    try {
      self.postMessage({ found: await (await install(options))(code) });
    } catch (error) {
      self.postMessage({ error: String(/** @type {Error} */ (error).message ?? error) });
    }
  };
}
