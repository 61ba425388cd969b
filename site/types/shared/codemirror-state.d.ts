// codemirror-state.d.ts: the used part of codemirror/state, which the build puts beside the pages.
export const EditorState: any;
