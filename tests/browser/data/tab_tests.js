// A module worker that runs pytest in Pyodide: the same files that a Python process runs.

/** @param {string} url @returns {Promise<Uint8Array>} */
async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

self.onmessage = async ({ data: { root, start, wheels, tests, args, env } }) => {
  try {
    const { loadPyodide } = await import(`${root}pyodide/pyodide.mjs`);
    /** @type {string[]} */
    const said = [];
    // The memory has the environment of the start that kept it.
    const py = await loadPyodide({
      _loadSnapshot: await fetched(`${start}memory`),
      stdout: (/** @type {string} */ line) => said.push(line),
      stderr: (/** @type {string} */ line) => said.push(line),
    });
    const { restore } = await import(`${root}snapshot.js`);
    restore(py, (await fetched(`${start}files`)).buffer);
    py.globals.set("env", py.toPy(env));
    const site = py.runPython("import sysconfig; sysconfig.get_paths()['purelib']");
    for (const wheel of wheels)
      py.unpackArchive(await fetched(wheel), "wheel", { extractDir: site });
    py.FS.mkdir("/suite");
    py.unpackArchive(await fetched(tests), "zip", { extractDir: "/suite" });
    py.globals.set("args", py.toPy(args));
    py.globals.set("begin", (/** @type {string} */ test) => self.postMessage({ test }));
    const counts = await py.runPythonAsync(`
import os, sys
os.environ.update(env)
sys.path.append(os.getcwd())  # where the kept files have the library
os.chdir("/suite")
import pytest

class Count:
    def __init__(self):
        self.passed, self.failed, self.skipped = [], 0, 0
    def pytest_runtest_logstart(self, nodeid, location):
        begin(nodeid)
    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed += 1
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed.append(report.nodeid)

count = Count()
code = int(pytest.main(list(args), plugins=[count]))
[code, count.passed, count.failed, count.skipped]
`);
    const [code, passed, failed, skipped] = counts.toJs();
    self.postMessage({ code, passed, failed, skipped, said: said.slice(-400).join("\n") });
  } catch (error) {
    self.postMessage({ code: -1, said: String(/** @type {Error} */ (error).stack ?? error) });
  }
};
