// codemirror-lang-python.d.ts: the used part of codemirror/lang-python, which the build puts beside the pages.
export const python: any;
