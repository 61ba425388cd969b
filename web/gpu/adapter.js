// adapter.js: whether this tab has WebGPU, and what its adapter is called.

/**
 * The tab's adapter. Throws an error with a `hint` if the browser offers none.
 * @returns {Promise<GPUAdapter>}
 */
export async function find() {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu && globalThis.isSecureContext) {
    throw refuse(
      "this browser has no WebGPU",
      "use a browser that has it (Chrome or Edge 113, Safari 26, Firefox 141 or newer)",
    );
  }
  if (!gpu) {
    throw refuse(
      "this page is not a secure context, so it has no WebGPU",
      "serve the page over https or from localhost",
    );
  }
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (adapter) return adapter;
  throw refuse(
    "the browser offers no WebGPU adapter",
    "switch graphics acceleration on in its settings, or update the graphics driver",
  );
}

/** @param {string} why @param {string} hint */
function refuse(why, hint) {
  return Object.assign(new Error(why), { hint });
}

/** @param {GPUAdapterInfo} info */
export function nameOf({ vendor, architecture, device, description }) {
  const parts = [vendor, architecture].filter(Boolean).join(" ");
  return description || device || parts || "unnamed adapter";
}

/** Whether the adapter runs in software on the CPU. @param {GPUAdapterInfo} info */
export const isSoftware = ({ isFallbackAdapter, architecture }) =>
  isFallbackAdapter || architecture === "swiftshader";

/** The adapter's name, or the reason why there is none and what to do about it.
 *  @returns {Promise<import("../page/client.d.ts").Adapter>} */
export async function ask() {
  try {
    const { info } = await find();
    return { name: nameOf(info), why: "", hint: "", software: isSoftware(info) };
  } catch (error) {
    const { message, hint = "" } = /** @type {Error & { hint?: string }} */ (error);
    return { name: null, why: message, hint, software: false };
  }
}
