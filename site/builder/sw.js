// sw.js: the service worker, which makes the site work offline. The build puts VERSION and FILES
// (with hashes) in front of it.
//
// It serves the files of one version, so a page never mixes two. A new version is downloaded beside
// the old one and waits until the page asks for it. Weights are not kept here.

/** @type {any} */
const worker = self;
const SCOPE = worker.registration.scope;
const PREFIX = `rushlight-site-${SCOPE}-`;
const CACHE = PREFIX + VERSION;
const HASHES = new Map(FILES.map(([path, hash]) => [new URL(path, SCOPE).href, hash]));

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
  for (const mode of /** @type {RequestCache[]} */ (["default", "reload"])) {
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
  for (const [url, hash] of HASHES) await cache.put(url, await obtain(url, hash));
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
  event.respondWith(find(url.href).then((kept) => kept ?? fetch(event.request)));
}

worker.addEventListener("install", (/** @type {any} */ event) => event.waitUntil(install()));
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(activate()));
worker.addEventListener("fetch", answer);
worker.addEventListener("message", (/** @type {any} */ event) => {
  if (event.data === "take over") worker.skipWaiting();
});
