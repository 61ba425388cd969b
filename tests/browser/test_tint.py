"""Every kernel that the lowerings ask for is WGSL that Tint, the browser's compiler, takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# SwiftShader has no shader-f16: there the type is read as f32, all else stays as it is.
OPEN = """async () => {
  const adapter = await navigator.gpu.requestAdapter();
  const wanted = ["shader-f16", "subgroups"].filter((name) => adapter.features.has(name));
  window.device = await adapter.requestDevice({ requiredFeatures: wanted });
  return wanted;
}"""
CHECK = """async ({ kernels, pipelines }) => {
  const { device } = window;
  const half = device.features.has("shader-f16");
  const wrong = [];
  const layouts = (access) => [
    device.createBindGroupLayout({
      entries: [...access].map((letter, binding) => ({
        binding,
        visibility: GPUShaderStage.COMPUTE,
        buffer: { type: letter === "r" ? "read-only-storage" : "storage" },
      })),
    }),
    device.createBindGroupLayout({
      entries: [{
        binding: 0,
        visibility: GPUShaderStage.COMPUTE,
        buffer: { type: "uniform", hasDynamicOffset: true, minBindingSize: 1024 },
      }],
    }),
  ];
  await Promise.all(kernels.map(async ([source, access, label]) => {
    const code = half ? source : source.replace("enable f16;\\n", "").replaceAll("<f16>", "<f32>");
    // As f32 its tiles would take twice the workgroup memory.
    const tiles = /var<workgroup>.*f16/.test(source);
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ label, code });
    const scope = device.popErrorScope();
    const { messages } = await module.getCompilationInfo();
    const bad = messages.find(({ type }) => type === "error");
    if (bad) wrong.push(`${label}: ${bad.message} in: ${code.split("\\n")[bad.lineNum - 1]}`);
    else if (await scope) wrong.push(`${label}: ${(await scope).message}`);
    else if (pipelines && !(tiles && !half)) {
      const layout = device.createPipelineLayout({ bindGroupLayouts: layouts(access) });
      const compute = { module, entryPoint: "main" };
      await device.createComputePipelineAsync({ label, layout, compute })
        .catch((error) => wrong.push(`${label}: ${error.message}`));
    }
  }));
  return wrong;
}"""


def test_tint_takes_every_kernel(
    pages: Any, serve: Any, tmp_path: Path, every_kernel: list[Any]
) -> None:
    """All as modules; of every file one also as a pipeline, which SwiftShader compiles."""
    (tmp_path / "index.html").write_text("<!doctype html><title>Kernels</title>", encoding="utf-8")
    page = pages.open(serve(tmp_path, plain=True).url)
    assert "subgroups" in page.evaluate(OPEN)
    wrong = []
    for at in range(0, len(every_kernel), 250):
        some = [list(kernel) for kernel in every_kernel[at : at + 250]]
        wrong += page.evaluate(CHECK, {"kernels": some, "pipelines": False})
    one: dict[str, Any] = {}
    for kernel in every_kernel:
        one.setdefault(kernel.label.partition(": ")[2], list(kernel))
    wrong += page.evaluate(CHECK, {"kernels": list(one.values()), "pipelines": True})
    assert wrong == []
    # The check can fail.
    bad = [["fn main( {", "", "broken"], ["@compute @workgroup_size(1) fn other() {}", "", "named"]]
    pages.expect("WGSL")
    pages.expect("entry point")
    said = page.evaluate(CHECK, {"kernels": bad, "pipelines": True})
    assert sorted(s.partition(":")[0] for s in said) == ["broken", "named"], said
