// sw.js: the service worker, which makes the site work offline. The build puts VERSION and FILES
// (with hashes) in front of it.
//
// It serves the files of one version, so a page never mixes two. A new version is downloaded beside
// the old one and waits until the page asks for it. What is large, such as Python, is kept when it
// was used, and never fetched before. Weights are not kept here.

/** @type {any} */
const worker = self;
const SCOPE = worker.registration.scope;
const PREFIX = `rushlight-site-${SCOPE}-`;
const CACHE = PREFIX + VERSION;
const HASHES = new Map(FILES.map(([path, hash]) => [new URL(path, SCOPE).href, hash]));
const LARGE = new Set(
  FILES.filter(([, , large]) => large).map(([path]) => new URL(path, SCOPE).href),
);

/** @param {Response} response */
async function hashOf(response) {
  const digest = await crypto.subtle.digest("SHA-256", await response.arrayBuffer());
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A file of this version in any version's cache. A newer version that takes over deletes this
 *  version's cache while its last requests still run. `caches.match` does not create that cache
 *  again, as `caches.open` would.
 *  @param {string} url @returns {Promise<Response | undefined>} */
async function find(url) {
  for (const name of [CACHE, ...(await caches.keys())]) {
    if (!name.startsWith(PREFIX)) continue;
    const kept = await caches.match(url, { cacheName: name });
    if (kept?.headers.get("x-rushlight-hash") === HASHES.get(url)) return kept;
  }
}

/** A file of this version, from the browser's caches if the hash matches, else from the server.
 *  @param {string} url @param {string} hash */
async function obtain(url, hash) {
  const kept = await find(url);
  if (kept) return kept;
  // The page has fetched most of it a moment ago; the hash tells whether it is the right file.
  for (const mode of /** @type {RequestCache[]} */ (["force-cache", "default", "reload"])) {
    const response = await fetch(url, { cache: mode });
    if (!response.ok || (await hashOf(response.clone())) !== hash) continue;
    const headers = new Headers(response.headers);
    headers.set("x-rushlight-hash", hash);
    headers.delete("content-encoding"); // the body is decoded already
    headers.delete("content-length");
    return new Response(response.body, { headers });
  }
  throw new Error(`${url} is not the file of version ${VERSION}`);
}

async function install() {
  const cache = await caches.open(CACHE);
  for (const [url, hash] of HASHES) {
    const kept = LARGE.has(url) ? await find(url) : await obtain(url, hash);
    if (kept) await cache.put(url, kept);
  }
}

/** The files that are on their way into the cache. @type {Map<string, Promise<Response>>} */
const coming = new Map();

/** A file that is kept from now on. @param {string} url @returns {Promise<Response>} */
async function keep(url) {
  const kept = await find(url);
  if (kept) return kept;
  let found = coming.get(url);
  if (!found) {
    found = bring(url).finally(() => coming.delete(url));
    coming.set(url, found);
  }
  return (await found).clone();
}

/** @param {string} url */
async function bring(url) {
  const response = await obtain(url, HASHES.get(url) ?? "");
  // A newer version that took over has deleted this version's cache.
  if (await caches.has(CACHE)) await (await caches.open(CACHE)).put(url, response.clone());
  return response;
}

/** Keeps files that a page has used; an address that ends with "/" names all below it.
 *  @param {string[]} used */
async function keepAll(used) {
  const folders = used.filter((url) => url.endsWith("/") && url !== SCOPE);
  const known = [...HASHES.keys()].filter(
    (url) => used.includes(url) || folders.some((folder) => url.startsWith(folder)),
  );
  for (const url of known) await keep(url);
}

async function activate() {
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
  }
  await worker.clients.claim();
}

/** @param {any} event */
function answer(event) {
  const url = new URL(event.request.url);
  url.search = "";
  url.hash = "";
  if (url.pathname.endsWith("/")) url.pathname += "index.html";
  if (event.request.method !== "GET" || !HASHES.has(url.href)) return;
  if (LARGE.has(url.href)) {
    event.respondWith(keep(url.href).catch(() => fetch(event.request)));
  } else event.respondWith(find(url.href).then((kept) => kept ?? fetch(event.request)));
}

worker.addEventListener("install", (/** @type {any} */ event) => event.waitUntil(install()));
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(activate()));
worker.addEventListener("fetch", answer);
worker.addEventListener("message", (/** @type {any} */ event) => {
  if (event.data === "take over") worker.skipWaiting();
  const [port] = event.ports;
  if (!event.data.keep) return;
  const kept = keepAll(event.data.keep).then(
    () => port?.postMessage(true),
    () => port?.postMessage(false),
  );
  event.waitUntil(kept);
});
