// dropping.js: files that are chosen or dropped on the page, and those of a folder.

/** The dropped files; of a folder its own files, without those of folders in it.
 *  @param {DataTransfer} dropped @returns {Promise<File[]>} */
export async function filesOf({ items, files }) {
  const plain = [...files];
  const entries = [...items].map((item) => item.webkitGetAsEntry());
  const [folder] = entries;
  if (entries.length !== 1 || !folder?.isDirectory) return plain;
  const reader = /** @type {FileSystemDirectoryEntry} */ (folder).createReader();
  const found = [];
  for (;;) {
    // A reader gives a hundred entries at a time.
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) break;
    for (const entry of some) {
      if (!entry.isFile) continue;
      const file = /** @type {FileSystemFileEntry} */ (entry);
      found.push(await new Promise((resolve, reject) => file.file(resolve, reject)));
    }
  }
  return found.length ? found : plain; // an empty folder is refused by its name
}

/** Lets a visitor choose files, with a button that opens the input, or drop them on an element.
 *  @param {{ drop?: HTMLElement, button: HTMLElement, input: HTMLInputElement }} parts
 *  @param {(files: File[]) => unknown} take  called with one file or more */
export function openable({ drop, button, input }, take) {
  const given = (/** @type {File[]} */ files) => void (files.length && take(files));
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    given([...(input.files ?? [])]);
    input.value = ""; // the same file may be chosen again
  });
  for (const name of /** @type {const} */ (["dragover", "dragleave", "drop"])) {
    drop?.addEventListener(name, async (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer) given(await filesOf(event.dataTransfer));
    });
  }
}
