// weights.d.ts: in a built site the runtime lies beside the pages; here it is web/.
export * from "../../../web/weights.js";
