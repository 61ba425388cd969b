// codemirror-lint.d.ts: the used part of codemirror/lint, which the build puts beside the pages.
export const lintGutter: any;
export const setDiagnostics: any;
