// codemirror-autocomplete.d.ts: the used part of codemirror/autocomplete, which the build puts beside the pages.
export const autocompletion: any;
export const completionKeymap: any;
