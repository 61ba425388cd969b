// page.js: common to every page: theme, offline use, the notice of a new version, DOM helpers.

/** The element with this id. @param {string} id */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** Like `byId`, for an element of one class.
 *  @template {HTMLElement} T @param {string} id @param {new () => T} kind */
export function pick(id, kind) {
  const element = byId(id);
  if (!(element instanceof kind)) throw new Error(`#${id} is not a ${kind.name}`);
  return element;
}

/** Makes an element. Text is never parsed as HTML.
 *  @template {keyof HTMLElementTagNameMap} K @param {K} tag
 *  @param {Record<string, string>} [attributes]
 *  @param {...(Node | string)} children @returns {HTMLElementTagNameMap[K]} */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB"];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 1000 && unit < 2) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(value < 100 ? 1 : 0)} ${units[unit]}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** Downloads a text or bytes as a file.
 *  @param {string} name @param {string} type @param {string | Blob} content */
export function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Runs `act` when it is asked for, and once for many calls: at most every 16 ms, and at most a
 *  third of the time. @param {() => void} act */
export function paced(act) {
  let due = 0; // when it may run again, by performance.now()
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const now = () => {
    clearTimeout(timer);
    timer = undefined;
    const began = performance.now();
    act();
    const ended = performance.now();
    due = ended + Math.max(16, 2 * (ended - began));
  };
  const soon = () => {
    const wait = due - performance.now();
    if (wait <= 0) now();
    else timer ??= setTimeout(now, wait);
  };
  return { soon, now };
}

/** Makes a function to call where something begins; what it gives tells whether that is still the
 *  last that began. A slow file must not replace the one that was opened after it. */
export function turns() {
  let count = 0;
  return () => {
    const mine = ++count;
    return () => mine === count;
  };
}

let pressed = false;
for (const kind of ["pointerdown", "pointerup", "pointercancel"]) {
  addEventListener(kind, () => (pressed = kind === "pointerdown"), true);
}

/** Runs `act` now, or after the click that is under way: what moves a button between its press and
 *  its release takes the click away. A field that is left by a press changes in between.
 *  @param {() => unknown} act */
export function afterPress(act) {
  if (!pressed) return void act();
  const released = () => {
    for (const kind of ["pointerup", "pointercancel"]) removeEventListener(kind, released, true);
    setTimeout(act); // the click comes first
  };
  for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, released, true);
}

/** Says what was done, with a button that takes it back, for some time.
 *  @param {string} words @param {() => unknown} back */
export function offerUndo(words, back) {
  for (const before of document.querySelectorAll(".undo")) before.remove();
  const button = make("button", { class: "small", type: "button" }, "Undo");
  const notice = make("div", { class: "notice undo", role: "status" }, words, button);
  button.addEventListener("click", () => {
    notice.remove();
    back();
  });
  document.body.append(notice);
  setTimeout(() => notice.remove(), 20_000);
}

// --- theme ---------------------------------------------------------------------------------------

const THEME = "rushlight-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function chosenTheme() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null; // storage is refused: follow the system
  }
}

function applyTheme() {
  const theme = chosenTheme() ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button?.setAttribute("aria-pressed", String(theme === "dark"));
  document.dispatchEvent(new CustomEvent("themechange"));
}

function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(THEME, next);
  } catch {
    // Storage is refused, so the choice is not kept.
  }
  document.documentElement.dataset.theme = next;
  if (chosenTheme() === next) applyTheme();
  else document.dispatchEvent(new CustomEvent("themechange"));
}

// --- offline use ---------------------------------------------------------------------------------

/** Set to true while a reload would lose the visitor's work. */
export const work = { inProgress: false };

/** @param {ServiceWorkerRegistration} registration */
function watch(registration) {
  const offer = () => {
    const waiting = registration.waiting;
    if (!waiting || !navigator.serviceWorker.controller) return;
    if (!work.inProgress) {
      waiting.postMessage("take over");
      return;
    }
    const button = make("button", { class: "primary small", type: "button" }, "Reload");
    button.addEventListener("click", () => waiting.postMessage("take over"));
    const text = make("span", {}, "A new version is ready.");
    document.body.append(make("div", { class: "notice", role: "status" }, text, button));
  };
  const changed = () => void (registration.waiting && offer());
  const follow = () => registration.installing?.addEventListener("statechange", changed);
  offer();
  follow(); // a version may have been found before this page had the registration
  registration.addEventListener("updatefound", follow);
}

/** The last request to keep files. @type {Promise<unknown>} */
let last = Promise.resolve();

/** Has the service worker keep files that were used. @param {string[]} urls  with those below an
 *  address that ends with "/" */
export async function keepOffline(urls) {
  const { dataset } = document.documentElement;
  if (dataset.offline === "refused" || !("serviceWorker" in navigator)) return;
  dataset.offline = "keeping";
  const { active } = await navigator.serviceWorker.ready;
  const mine = (last = last.then(() => {
    const { port1, port2 } = new MessageChannel();
    return new Promise((resolve) => {
      port1.onmessage = ({ data }) => resolve(data);
      active?.postMessage({ keep: urls }, [port2]);
    });
  }));
  await mine;
  if (mine === last) dataset.offline = "ready";
}

async function beginOffline() {
  if (!("serviceWorker" in navigator)) return;
  const hadController = Boolean(navigator.serviceWorker.controller);
  navigator.serviceWorker.addEventListener("controllerchange", () => {
    // The first controller is the current version; a later one is a new version.
    if (hadController) location.reload();
  });
  try {
    const url = new URL("../sw.js", import.meta.url);
    const registration = await navigator.serviceWorker.register(url, { updateViaCache: "none" });
    watch(registration);
    await navigator.serviceWorker.ready;
    // What this page has loaded before there was a service worker.
    await keepOffline(performance.getEntriesByType("resource").map(({ name }) => name));
  } catch {
    // No offline use: storage is refused, or the certificate is not trusted. All else works.
    document.documentElement.dataset.offline = "refused";
  }
}

// A file that misses where it may be dropped would replace the page.
for (const kind of /** @type {const} */ (["dragover", "drop"])) {
  document.addEventListener(kind, (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
}

// On a narrow screen the list of pages scrolls: the current one is shown.
const here = /** @type {HTMLElement | null} */ (document.querySelector("nav [aria-current]"));
const list = here?.parentElement;
if (here && list) list.scrollLeft = here.offsetLeft - list.offsetLeft;

applyTheme();
dark.addEventListener("change", applyTheme);
document.getElementById("theme")?.addEventListener("click", switchTheme);
if (document.readyState === "complete") void beginOffline();
else addEventListener("load", () => void beginOffline());
