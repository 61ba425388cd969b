// lezer-highlight.d.ts: the used part of lezer/highlight, which the build puts beside the pages.
export const tags: any;
