// codemirror-language.d.ts: the used part of codemirror/language, which the build puts beside the pages.
export const HighlightStyle: any;
export const bracketMatching: any;
export const indentUnit: any;
export const syntaxHighlighting: any;
