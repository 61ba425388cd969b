// dropping.js: the files that were dropped on the page, and those of a folder.

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
  return found;
}
