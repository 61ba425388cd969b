// weights.d.ts: the types of ../rushlight/weights.js, which is in web/ in a checkout.
export * from "../../../web/loading/weights.js";
