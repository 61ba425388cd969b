// client.d.ts: the types of ../rushlight/client.js, which is in web/ in a checkout.
export * from "../../../web/page/client.js";
