// minisearch.d.ts: the used part of minisearch, which the build puts beside the pages.
export default class MiniSearch {
  constructor(options: { fields: string[]; storeFields: string[] });
  addAll(documents: { id: number; name: string; text: string }[]): void;
  removeAll(): void;
  search(
    query: string,
    options: { prefix: boolean; fuzzy: number },
  ): { name: string; text: string }[];
}
