// codemirror-commands.d.ts: the used part of codemirror/commands, which the build puts beside the pages.
export const defaultKeymap: any;
export const history: any;
export const historyKeymap: any;
export const indentWithTab: any;
