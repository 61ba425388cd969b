// codemirror-view.d.ts: the used part of codemirror/view, which the build puts beside the pages.
export const EditorView: any;
export const drawSelection: any;
export const highlightActiveLine: any;
export const keymap: any;
export const lineNumbers: any;
