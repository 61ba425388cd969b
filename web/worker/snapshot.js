// snapshot.js: keeps the result of the first start for later starts in this browser. It keeps
// Python's memory from before NumPy is loaded, and the packages' files with their bytecode.
//
// The memory must not hold a library that was linked at run time, because Pyodide could not restore
// it. If anything about the snapshot fails, Python starts without it.

/**
 * @typedef {import("../types.d.ts").Pyodide} Pyodide
 * @typedef {{ memory: Uint8Array, files: ArrayBuffer }} Kept
 */

const CACHE = "rushlight-start";
const KEY = "x-rushlight-key";
// The modules of the standard library that NumPy and Rushlight import. None links compiled code.
const IMPORTS = `import array, ctypes, datetime, difflib, hashlib, html.entities, numbers, pickle
import importlib.resources.readers, platform, sysconfig, urllib.request`;
const FOLDERS = ["/lib/python3.14/site-packages", "/home/pyodide"];
const NEEDLESS = /\.(pyi|pxd|pyx|h|c|a)$/;

/** The cache keys of the two parts, for the runtime in the folder `base`. @param {URL} base */
const places = (base) => ["memory", "files"].map((name) => new URL(`start/${name}`, base).href);

/** The snapshot of this runtime and browser, which `key` identifies, or null.
 *  @param {URL} base @param {Promise<string>} key @returns {Promise<Kept | null>} */
export async function recall(base, key) {
  try {
    const cache = await caches.open(CACHE);
    const found = await Promise.all(places(base).map((url) => cache.match(url)));
    const wanted = await key;
    if (!found.every((part) => part?.headers.get(KEY) === wanted)) return null;
    const [memory, files] = await Promise.all(found.map((part) => part?.arrayBuffer()));
    return memory && files ? { memory: new Uint8Array(memory), files } : null;
  } catch {
    return null; // no storage
  }
}

/** @param {string} url @param {string} key @param {BodyInit} content */
async function keep(url, key, content) {
  try {
    const cache = await caches.open(CACHE);
    await cache.put(url, new Response(content, { headers: { [KEY]: key } }));
  } catch {
    // Storage is refused or full, so the next start takes longer.
  }
}

/** Deletes the snapshots of every runtime. */
export async function forget() {
  try {
    await caches.delete(CACHE);
  } catch {
    // There is no storage, so nothing is kept.
  }
}

/**
 * Keeps Python's memory. Python must have been started with `_makeSnapshot` and be unused so far.
 * @param {Pyodide} py @param {URL} base @param {string} key @returns {boolean} whether it worked
 */
export function keepMemory(py, base, key) {
  let done = true;
  try {
    py.runPython(IMPORTS);
    void keep(places(base)[0], key, py.makeMemorySnapshot());
  } catch (error) {
    console.warn("Python's memory is not kept:", error);
    done = false;
  }
  // Until here `js` was a placeholder whose uses a snapshot can record.
  py.registerJsModule("js", globalThis);
  const skip = done ? 0 : 1;
  py.runPython(`import sys; sys.modules.pop("js", None); sys.dont_write_bytecode = ${skip}`);
  return done;
}

/** Keeps the packages' files. @param {Pyodide} py @param {URL} base @param {string} key */
export async function keepFiles({ FS }, base, key) {
  /** @type {[path: string, size: number, changed: number][]} */
  const rows = [];
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const parts = [];
  const walk = (/** @type {string} */ folder) => {
    for (const name of FS.readdir(folder)) {
      const path = `${folder}/${name}`;
      if (name === "." || name === ".." || NEEDLESS.test(name)) continue;
      const { mode, mtime } = FS.stat(path);
      if (FS.isDir(mode)) {
        walk(path);
        continue;
      }
      const { contents, usedBytes } = FS.lookupPath(path).node; // not a copy
      rows.push([path, usedBytes, mtime.getTime()]);
      if (usedBytes) parts.push(contents.subarray(0, usedBytes));
    }
  };
  FOLDERS.forEach(walk);
  const head = new TextEncoder().encode(JSON.stringify(rows));
  await keep(places(base)[1], key, new Blob([new Uint32Array([head.length]), head, ...parts]));
}

/** Completes a start from `recall`'s memory: writes the files, and seeds random numbers again.
 *  @param {Pyodide} py @param {ArrayBuffer} files */
export function restore({ FS, runPython }, files) {
  const [length] = new Uint32Array(files, 0, 1);
  let at = 4 + length;
  for (const [path, size, changed] of JSON.parse(
    new TextDecoder().decode(new Uint8Array(files, 4, length)),
  )) {
    FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    FS.writeFile(path, new Uint8Array(files, at, size), { canOwn: true });
    FS.utime(path, changed, changed); // otherwise Python treats the bytecode as out of date
    at += size;
  }
  runPython("import importlib, random; importlib.invalidate_caches(); random.seed()");
}
